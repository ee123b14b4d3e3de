#!/usr/bin/env python3
"""Measures how far quantized models are from their originals, by the method that found their codes.

    bench/bits.py --text TEXT [--quern bin/quern] [--peer PROGRAM] [--types Q4_K_M,Q2_K] [--ctx 256] MODEL.gguf...

The importance matrix and the calibration of gptq read the first half of the text, divergences are of the second. All
files of a type have the same types of tensors and the same bytes of them. PEER is called as llama-quantize is, with
"quantize" before its arguments, for a file to compare with; without one, that of --method fast has the same bytes.
Prints Markdown.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

METHODS = ["fast", "search", "gptq"]


def run(args):
    """Returns what a program prints, and the seconds it took."""
    start = time.monotonic()
    done = subprocess.run(args, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(args)}: {done.stderr.strip() or done.returncode}")
    return done.stdout, time.monotonic() - start


def measure(a, model, folder):
    """Prints the rows of one model."""
    name = os.path.basename(model).removesuffix(".gguf")
    with open(a.text, "rb") as f:
        text = f.read()
    half = len(text) // 2
    read, held_out = os.path.join(folder, "read"), os.path.join(folder, "held-out")
    for path, part in ((read, text[:half]), (held_out, text[half:])):
        with open(path, "wb") as f:
            f.write(part)
    imatrix = os.path.join(folder, "imatrix.gguf")
    run([a.quern, "imatrix", "--force", "-m", model, "-f", read, "-o", imatrix, "-c", str(a.ctx)])
    for kind in a.types.split(","):
        files, took = [], {}
        if a.peer:
            files.append(os.path.join(folder, "peer.gguf"))
            _, took["peer"] = run([a.peer, "quantize", model, files[0], kind, "--imatrix", imatrix])
        for method in METHODS:
            out = os.path.join(folder, method + ".gguf")
            flags = ["--calibration", read, "--calibration-chunks", "0", "-c", str(a.ctx)] if method == "gptq" else []
            _, took[method] = run([a.quern, "quantize", "--force", "--imatrix", imatrix, "--method", method, *flags, model, out, kind])
            files.append(out)
        said, _ = run([a.quern, "compare", "--json", "-c", str(a.ctx), "--chunks", str(a.chunks), "-f", held_out, model, *files])
        models = json.loads(said)["models"][1:]
        base = models[0]["divergence"]["kld"]["value"]
        cells = []
        for m in models:
            kld = m["divergence"]["kld"]
            same = f" ({kld['value'] / base:.2f})" if m is not models[0] else ""
            cells.append(f"{kld['value']:.5f} ± {kld['std_err']:.5f}{same}")
        ppl = " / ".join(f"{m['divergence']['ppl_ratio']['value']:.4f}" for m in models)
        seconds = " / ".join(f"{took[k]:.2f}" for k in took)
        print(f"| {name}, {kind} | {models[0]['bits_per_weight']:.2f} | " + " | ".join(cells) + f" | {ppl} | {seconds} |", flush=True)
        for path in files:
            os.remove(path)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("models", nargs="+", metavar="MODEL.gguf")
    p.add_argument("--text", required=True)
    p.add_argument("--quern", default="bin/quern")
    p.add_argument("--peer")
    p.add_argument("--types", default="Q5_K_M,Q4_K_M,Q4_0,IQ4_XS,Q3_K_M,Q2_K")
    p.add_argument("--ctx", type=int, default=256)
    p.add_argument("--chunks", type=int, default=60)
    p.add_argument("--no-header", action="store_true")
    a = p.parse_args()
    columns = (["peer"] if a.peer else []) + METHODS
    if not a.no_header:
        print("| | bits each | " + " | ".join(columns) + " | PPL / base | seconds |")
        print("| --- | ---: | " + " | ".join("---:" for _ in columns) + " | --- | --- |")
    for model in a.models:
        with tempfile.TemporaryDirectory() as folder:
            measure(a, model, folder)


if __name__ == "__main__":
    main()
