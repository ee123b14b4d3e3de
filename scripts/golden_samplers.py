#!/usr/bin/env python3
"""What llama.cpp's samplers leave of random logits, for the tests of go/sample.

    golden_samplers.py ORACLE MODEL.gguf > go/sample/testdata/peer.json

ORACLE is a program whose `sample --logits FILE --chain SPEC --prev IDS --model M` prints as JSON
what a chain of llama.cpp's samplers leaves. MODEL is the one that the tests have.
"""

import json
import random
import subprocess
import sys
import tempfile

CASES = 700
SHOWN = 12  # candidates of each case


def logits(seed, n, spread, masked):
    """Different values that a float32 holds exactly. The tests make the same ones."""
    out, x = [], seed
    for i in range(n):
        total = 0
        for _ in range(3):
            x = (x * 6364136223846793005 + 1442695040888963407) % (1 << 64)
            total += x >> 54
        out.append((total - 1536) * spread / 1024 + i / 65536)
        if masked and x >> 32 & 3 == 0:
            out[-1] = float("-inf")
    return out


def chain(rng, n, masked):
    keep = rng.choice([1, 1, 1, 3])
    args = {
        "penalties": [rng.choice([0, 1, 8, 64]), rng.choice([1, 1.1, 1.5, 0.75]), rng.choice([0, 0.25, -0.5]), rng.choice([0, 0.5])],
        "dry": [rng.choice([0.5, 1, 2.5]), rng.choice([1, 1.25, 1.75]), rng.choice([0, 1, 2, 3]), rng.choice([8, 64, 200])],
        "top_n_sigma": [rng.choice([0.5, 1, 2, 3.5])],
        "top_k": [rng.choice([1, 2, 5, 40, 200, 3000])],
        "typical": [rng.choice([0.05, 0.3, 0.6, 0.9, 0.99]), keep],
        "top_p": [rng.choice([0.1, 0.5, 0.9, 0.95, 0.999]), keep],
        "min_p": [rng.choice([0.01, 0.05, 0.2, 0.7]), keep],
        "xtc": [1, rng.choice([0.01, 0.05, 0.1, 0.3]), keep],
        "temp": [rng.choice([0.25, 0.75, 1, 1.5, 3])],
        "temp_ext": [rng.choice([0.75, 1, 1.5]), rng.choice([0.25, 0.5, 2]), rng.choice([0.5, 1, 2])],
        "infill": [],
    }
    end = rng.random()
    if end < 0.08:
        version = rng.choice(["mirostat", "mirostat_v2"])
        return [["temp", args["temp"]], [version, [rng.choice([0.5, 2, 3, 5]), 0.1]]]
    one = rng.choice(["temp", "temp_ext"])
    names = [x for x in ("penalties", "dry", "top_n_sigma", "top_k", "typical", "top_p", "min_p", "xtc", one) if rng.random() < 0.45]
    if rng.random() < 0.1:
        names.append("infill")
    if rng.random() < 0.5:
        rng.shuffle(names)
    if names and rng.random() < 0.2:
        names.insert(rng.randrange(len(names) + 1), rng.choice(names))
    # Tokens at -inf count as candidates there for an entropy, a number to keep or to end on.
    counted = {"typical", "temp_ext", "infill"}
    gone, spec = masked, []
    for name in names:
        if gone and (name in counted or keep > 1):
            continue
        gone = gone or name == "top_n_sigma"
        spec.append([name, args[name]])
    if end > 0.92:
        spec.append(["adaptive_p", [rng.choice([0, 0.25, 0.5, 1]), 0.9]])
    return spec


def main(oracle, model):
    rng = random.Random(14)
    print("[")
    for case in range(CASES):
        n = rng.choice([5, 30, 200, 600, 1500])
        seed, spread, masked = rng.randrange(1 << 63), rng.choice([1, 4, 16]), rng.random() < 0.15
        spec = chain(rng, n, masked)
        few = rng.choice([2, 4, 30])
        prev = [rng.randrange(few) * 7 % n for _ in range(rng.choice([0, 3, 20, 90]))]
        if rng.random() < 0.3 and prev:
            prev[rng.randrange(len(prev))] = min(63, n - 1)  # ":" in the demo model
        with tempfile.NamedTemporaryFile("w") as f:
            f.write(" ".join(repr(v) for v in logits(seed, n, spread, masked)))
            f.flush()
            text = ";".join(name + "=" + ",".join(map(repr, a)) for name, a in spec) or "top_k=0"
            got = json.loads(subprocess.check_output(
                [oracle, "sample", "--logits", f.name, "--chain", text, "--prev", ",".join(map(str, prev)), "--model", model]))
        case_out = {
            "seed": str(seed), "n": n, "spread": spread, "masked": masked, "chain": spec, "prev": prev,
            "left": got["left"], "top": [[c[0], round(c[2], 7)] for c in got["candidates"][:SHOWN]],
        }
        print(json.dumps(case_out, separators=(",", ":")) + ("," if case + 1 < CASES else ""))
    print("]")


main(*sys.argv[1:])
