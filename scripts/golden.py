#!/usr/bin/python3
"""Golden vectors, from the formulas: the witness that shares no code with the engine.

Needs Python 3.9 and NumPy (Debian: python3-numpy), and nothing else.

    golden.py                  write scripts/golden/
    golden.py --check          compare it with what would be written; exit 1 with
                               one line per difference
    golden.py --reference FILE.gguf --prompt-ids 1,2,3 -n 64
                               run any llama, qwen2 or qwen3 model in float64; print
                               one JSON object: greedy_ids, min_top2_gap, and the top
                               5 logits after the prompt
    golden.py --find-seeds     the first seed of each tiny model that makes a fair test
                               (a minute or two)

scripts/golden/ holds three indexes, each with a file of tensors, and the tiny models:

    ops.json ops.bin           single operations
    back.json back.bin         the reverse of single operations
    models.json models.bin     whole models: *.gguf

An index is {"version": 1, "data": FILE, "cases": [CASE, ...]}.
A tensor is {"dtype", "shape", "offset", "bytes", "result"}: little endian and
row-major at offset in FILE, its last axis contiguous, on a multiple of 64; dtype
is u8, u16, i32, f16, f32 or f64. "result": true marks what the oracle computed;
every other tensor is an input. Several cases may share an input.

A case of ops.json is {"name", "op", "params": {...}, "tensors": {NAME: TENSOR}}:

    op         params                                tensors
    convert    type                                  x -> y: u16, to nearest even
    dequant    type ggml_type rows cols              w u8 [rows, row bytes] -> y f32,
                                                     exact (zero may have either sign)
    matmul     type ggml_type rows cols n_tok        w, x [n_tok, cols] -> y [n_tok, rows]
                                                     and abs, the sum of the terms'
                                                     magnitudes, to scale a tolerance
    rmsnorm    eps                                   x [tokens, n], w [n] -> y
    layernorm  eps                                   x [tokens, n], w and b [n] -> y
    glu        fn                                    gate, up -> y = fn(gate) * up,
                                                     plain = fn(gate)
    softcap    softcap                               x -> y
    softmax                                          x -> y, over the last axis
    rope       neox head_dim n_head n_rot freq_base  x [tokens, n_head, head_dim],
               freq_scale yarn                       pos i32 [tokens], and for some
                                                     factors [n_rot/2] -> y
    attend     n_head n_head_kv head_dim n_past      q [n_tok, n_head, head_dim],
               n_tok kv_type window softcap          k and v [n_past + n_tok,
                                                     n_head_kv, head_dim], for some
                                                     slopes, sinks [n_head] -> y like q
    conv                                             a, b, c [tokens, n], w [n, taps]
                                                     -> y = b * (w conv (a * c)), causal
    moe_route  n_expert n_expert_used renormalise    logits -> ids i32, weights,
                                                     likeliest expert first

A case of back.json is like one of ops.json, with dy, the gradient of y (1 where y is a loss), and the gradients of
inputs, each checked against differences of y:

    op         params                                tensors
    product    type ggml_type scale                  x, w u8 -> y = scale * x W^T, dx of factors rounded to BF16
    low        scale                                 x, a [rank, n], b [out, rank] -> y = scale * B (A x), dx da db
    norm       eps centred                           x [tokens, n], w [n] -> y dx dw, an RMS norm unless centred
    gate       fn                                    g, u -> y = fn(g) * u, dg du
    apply      fn                                    g -> y = fn(g), dg
    loss       softcap targets weights               z [tokens, n] -> y, the sum, and dz, of logits before the cap
    attend     scale window cap sinks                q, k, v [tokens, heads, dims] -> y dq dk dv

yarn is null or {n_ctx_orig, ext_factor, attn_factor, beta_fast, beta_slow}; freq_scale
is 1/factor of linear and yarn scaling. Results are f64 unless said. RoPE at
position 100000 asks for angles in double: in float32 they are off by 4e-3.

A case of models.json is {"name", "file", "arch", "n_vocab", "tolerance", "runs"}, a run
{"name", "prompt", "prompt_ids", "greedy_ids", "min_top2_gap", "rows", "tensors"}. Its
tensor logits [len(rows), n_vocab] has the logits after token rows[i] of prompt_ids
followed by greedy_ids. tolerance is what a right engine may differ by, relative to the
largest |logit| of the row, with an f32 KV cache; an f16 cache adds up to 2e-3.
greedy_ids never hold EOS or another control token.
"""

import argparse
import json
import pathlib
import struct
import sys

sys.dont_write_bytecode = True  # leave no cache beside the sources

import golden_back  # noqa: E402
import golden_models  # noqa: E402
import golden_ops  # noqa: E402
from golden_forward import Model, greedy  # noqa: E402
from golden_gguf import File  # noqa: E402
from golden_store import differences  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent / "golden"


def generate():
    """Every output: name -> bytes."""
    ops = golden_ops.build()
    models, files = golden_models.build()
    for name, store in (("ops", ops), ("back", golden_back.build()), ("models", models)):
        files[name + ".json"] = store.json().encode()
        files[name + ".bin"] = bytes(store.data)
    return files


def write():
    OUT.mkdir(exist_ok=True)
    for name, raw in generate().items():
        (OUT / name).write_bytes(raw)


def check():
    """The differences of the committed files from the generated ones."""
    want = generate()
    got = {p.name: p.read_bytes() for p in OUT.iterdir()} if OUT.is_dir() else {}
    out = [f"{n}: missing" for n in sorted(want.keys() - got.keys())]
    out += [f"{n}: not written by golden.py" for n in sorted(got.keys() - want.keys())]
    for name in sorted(want.keys() & got.keys()):
        if name.endswith(".gguf") and want[name] != got[name]:
            out.append(f"{name}: bytes differ")
    for name in ("ops", "back", "models"):
        index, data = name + ".json", name + ".bin"
        if index in got and data in got:
            out += differences(index, want[index], want[data], got[index], got[data])
    return out


def reference(path, prompt_ids, n):
    model = Model(File(pathlib.Path(path).read_bytes()))
    n_vocab = len(model.w["token_embd.weight"])
    if not prompt_ids or not all(0 <= i < n_vocab for i in prompt_ids):
        raise ValueError(f"--prompt-ids: need one or more ids below {n_vocab}")
    logits, ids, gap = greedy(model, prompt_ids, n)
    after = logits[len(prompt_ids) - 1]
    top = (-after).argsort(kind="stable")[:5]
    return {
        "prompt_ids": prompt_ids,
        "greedy_ids": ids,
        "first_logits_top5": [[int(i), round(float(after[i]), 5)] for i in top],
        "min_top2_gap": round(gap, 5),
    }


def ids_of(text):
    return [int(i) for i in text.replace(",", " ").split()]


def main():
    p = argparse.ArgumentParser(description="golden vectors from the formulas; see the head of this file")
    mode = p.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="compare the committed files")
    mode.add_argument("--reference", metavar="FILE.gguf", help="run a model")
    mode.add_argument("--find-seeds", action="store_true", help="seeds for the tiny models")
    p.add_argument("--prompt-ids", type=ids_of, default=[1], metavar="IDS", help="such as 1,2,3 (default 1)")
    p.add_argument("-n", type=int, default=64, help="tokens to generate (default 64)")
    args = p.parse_args()
    if args.n < 1:
        p.error("-n must be at least 1")
    if args.reference:
        print(json.dumps(reference(args.reference, args.prompt_ids, args.n)))
    elif args.find_seeds:
        for name, seed in golden_models.find_seeds():
            print(name, seed, flush=True)
    elif args.check:
        lines = check()
        print("\n".join(lines), end="\n" if lines else "")
        return 1 if lines else 0
    else:
        write()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (ValueError, OSError, struct.error) as e:
        sys.exit(f"golden.py: {e}")
    except KeyError as e:
        sys.exit(f"golden.py: no tensor {e}")
