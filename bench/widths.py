#!/usr/bin/env python3
"""Measures what types of weights cost a whole model, also one whose rows are not of whole blocks of 256.

    bench/widths.py --text TEXT --imatrix FILE [--quern bin/quern] [--types IQ2_KT,IQ2_XS] [--every 3] MODEL-F32.gguf

All matrices of every so-manieth layer are encoded, each in the one type: as many rows joined to one as make whole blocks (rows of
576 four at a time, those of about one size, since some types have a scale for a row), and importance repeated as often. What is decoded takes their place in a copy of the file of F32, so
that nothing else is rounded: no activations, no fallback types. Divergences are of the copy from the file, by
"quern perplexity"; the file beside itself shows what its format of logits adds. Needs NumPy. Prints Markdown.
"""

import argparse
import math
import mmap
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))

import golden_gguf as gguf  # noqa: E402
from golden_types import NAMES, TYPES  # noqa: E402

BLOCK = 256


def call(*args):
    done = subprocess.run([str(a) for a in args], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, args))}: {done.stderr.strip() or done.returncode}")
    return done.stdout + done.stderr


def opened(path):
    with open(path, "rb") as f:
        return gguf.File(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))


def chosen(file, every):
    """name -> rows that are joined to one, of the matrices of every so-manieth layer."""
    joined = {}
    for name, (shape, kind, _) in file.tensors.items():
        at = re.match(r"blk\.(\d+)\..*\.weight$", name)
        if not at or len(shape) != 2 or int(at[1]) % every:
            continue
        if NAMES[kind] != "F32":
            sys.exit(f"{name} is {NAMES[kind]}: the model has to be of F32")
        joined[name] = BLOCK // math.gcd(shape[1], BLOCK)
        if shape[0] % joined[name]:
            sys.exit(f"{name}: {shape[0]} rows are not joined {joined[name]} at a time")
    return joined


def by_size(matrix):
    """The order of the rows by their lengths."""
    return np.argsort((matrix * matrix).sum(axis=1), kind="stable")


def floats(file, name):
    (rows, cols), _, offset = file.tensors[name]
    return np.frombuffer(file.raw, "<f4", rows * cols, file.data + offset).reshape(rows, cols)


def write_joined(file, joined, path):
    """A file of the matrices alone, whose architecture nobody runs."""
    meta = [("general.architecture", gguf.STR, "llama")]
    numbers = dict(block_count=1, context_length=32, embedding_length=BLOCK, feed_forward_length=BLOCK)
    meta += [(f"llama.{k}", gguf.U32, v) for k, v in {**numbers, "attention.head_count": 1}.items()]
    meta += [("llama.attention.layer_norm_rms_epsilon", gguf.F32, 1e-5)]
    tensors = [("token_embd.weight", (32, BLOCK), "F32", bytes(4 * 32 * BLOCK)), ("output_norm.weight", (BLOCK,), "F32", bytes(4 * BLOCK))]
    for name, k in joined.items():
        matrix = floats(file, name)
        rows, cols = matrix.shape
        raw = (matrix[by_size(matrix)] if k > 1 else matrix).tobytes()
        tensors.append((name, (rows // k, cols * k), "F32", raw))
    path.write_bytes(gguf.write(meta, tensors))


def write_importance(imatrix, joined, path):
    old = opened(imatrix)
    meta = [("general.type", gguf.STR, "imatrix"), ("imatrix.datasets", (gguf.ARRAY, gguf.STR), old.meta["imatrix.datasets"])]
    meta += [(k, gguf.U32, old.meta[k]) for k in ("imatrix.chunk_count", "imatrix.chunk_size")]
    tensors = []
    for name, k in joined.items():
        sums, counts = (old.tensor(name + "." + what) for what in ("in_sum2", "counts"))
        if sums is None:
            sys.exit(f"{imatrix} does not know {name}")
        sums = np.tile(sums.reshape(1, -1), (1, k)).astype("<f4")
        tensors += [(name + ".in_sum2", sums.shape, "F32", sums.tobytes()), (name + ".counts", (1, 1), "F32", counts.astype("<f4").tobytes())]
    path.write_bytes(gguf.write(meta, tensors))


def put(file, joined, decoded, copy):
    """Puts the decoded matrices into the copy of the file, and returns their squared error, of their squares."""
    now, error, all_of_it = opened(decoded), 0.0, 0.0
    with open(copy, "r+b") as f:
        for name, k in joined.items():
            old, new = floats(file, name), floats(now, name).reshape(file.tensors[name][0])
            if k > 1:
                new = new[np.argsort(by_size(old))]
            error += float(((old - new) ** 2).sum(dtype=np.float64))
            all_of_it += float((old * old).sum(dtype=np.float64))
            f.seek(file.data + file.tensors[name][2])
            f.write(new.tobytes())
    return error / all_of_it


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("model", metavar="MODEL-F32.gguf", type=pathlib.Path)
    p.add_argument("--text", required=True)
    p.add_argument("--imatrix", required=True)
    p.add_argument("--quern", default="bin/quern")
    p.add_argument("--types", default="IQ1_KT,IQ1_M,IQ2_KT,IQ2_XS,Q2_K,IQ3_XXS,IQ3_KT,IQ3_S,Q3_K_S,IQ4_KT,IQ4_XS,Q4_K_S")
    p.add_argument("--method", default="search", choices=["fast", "search"])
    p.add_argument("--every", type=int, default=1)
    p.add_argument("--ctx", type=int, default=512)
    p.add_argument("--chunks", type=int, default=8)
    p.add_argument("--threads", type=int, default=1)
    a = p.parse_args()
    file = opened(a.model)
    joined = chosen(file, a.every)
    weights = sum(int(np.prod(file.tensors[n][0])) for n in joined)
    print(f"{len(joined)} matrices of {weights} weights, `{a.method}`\n")
    print("| type | bits | error of weights | KLD | 99 % | same token | PPL / base |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        plain, importance, coded, decoded, copy, logits = (
            pathlib.Path(folder, n) for n in ("plain.gguf", "imatrix.gguf", "coded.gguf", "decoded.gguf", "copy.gguf", "logits")
        )
        write_joined(file, joined, plain)
        write_importance(a.imatrix, joined, importance)
        shutil.copy(a.model, copy)
        os.chmod(copy, 0o644)
        score = [a.quern, "perplexity", "-t", a.threads]
        call(*score, "-m", a.model, "-f", a.text, "-c", a.ctx, "--chunks", a.chunks, "--save-all-logits", logits)
        for kind in ["F32", *a.types.split(",")]:
            begun = time.monotonic()
            call(a.quern, "quantize", "--force", "--pure", "--token-embedding-type", "Q8_0", "--imatrix", importance, "--method", a.method,
                 plain, coded, kind, a.threads)
            took = time.monotonic() - begun
            size = opened(coded).tensors
            kinds = {NAMES[size[n][1]] for n in joined}
            if len(kinds) > 1:
                sys.exit(f"{kind}: the matrices became {', '.join(sorted(kinds))}")
            call(a.quern, "quantize", "--force", "--pure", "--allow-requantize", coded, decoded, "F32", a.threads)
            error = put(file, joined, decoded, copy)
            said = call(*score, "-m", copy, "-f", a.text, "-c", a.ctx, "--kl-divergence", "--kl-divergence-base", logits)
            kind = kinds.pop()
            bits = 8 * TYPES[kind].bytes / TYPES[kind].weights

            def of(pattern):
                found = re.search(pattern, said)
                return found[1].strip() if found else sys.exit(f"no {pattern!r} in:\n{said}")

            print(f"| {kind} | {bits:.4g} | {error:.4f} | {of('Mean +KLD: *(.*)')} | {of('99.0% +KLD: *(.*)')} "
                  f"| {of('Same top p: *(.*)')} | {of('Mean PPL.Q./PPL.base. *: *(.*)')} |", flush=True)
            print(f"{kind}: {took:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
