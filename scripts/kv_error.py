#!/usr/bin/python3
"""What attention loses by the type in which keys and values are kept, for heads as real models have them.

Needs Python 3.9 and NumPy (Debian: python3-numpy), and nothing else.

    kv_error.py [--positions N] [--queries N] [--heads N] [--dims N ...] [--seed N]

One head at a time: queries, keys and values are drawn, attention is computed in
float64, and again with keys and values (and, for integers, queries and weights)
rounded as csrc/format/kv.c and csrc/scalar/attn.c do. Scores are scaled so that their
standard deviation is 3 without what the case adds. "even" before a type is that
with channels balanced as go/model/nn/balance.go does: the sizes that it finds in
the weights are here those of half of the positions, without the first, and of half
of the queries, so that it knows nothing of what single positions have. Prints a
Markdown table of means over heads:

    scores   rms error of the scores, natural logarithms, of keys that have weight (1e-3 of a query's best), in 1e-4
    KL       of the weights from those of float64, in 1e-9 nats, mean over queries
    output   rms error of the output, of its rms, in 1e-4
    channel  the same, channel by channel, each by its own rms: what a following matrix sees that undoes the sizes of channels

The cases, of what is known of real models:

    normal     independent normal numbers
    channels   a rotated pair of key channels 20 times as large, which queries meet in full
    balanced   the same pair 100 times as large, and queries as much smaller there: what scaling a
               channel of the weights of keys and undoing it in those of queries gives
    bias       a pair of key channels has 100 added (biases as large as those of Qwen 2)
    sink       position 0 takes most of the weight, its value is small (Xiao and others 2023): two channels of
               its key are about 60, another number in each head
    values     two value channels 50 times as large
    tails      Student's t with 4 degrees, keys, queries and values
    spread     sizes of positions' keys and values vary log-normally
"""

import argparse
import sys

sys.dont_write_bytecode = True  # leave no cache beside the sources

import numpy as np  # noqa: E402

BLOCK = 64  # positions of a KV block
F = np.float32


def f16(x):
    return np.clip(x, -65504, 65504).astype(np.float16).astype(np.float64)


def bf16(x):
    b = np.ascontiguousarray(x, dtype=F).view(np.uint32).astype(np.uint64)
    b = (b + 0x7FFF + ((b >> np.uint64(16)) & np.uint64(1))) & np.uint64(0xFFFF0000)
    return b.astype(np.uint32).view(F).astype(np.float64)


def integers(x, top, length=0.0):
    """x as integers of a vector (the last axis) and their scale: scale_of() of csrc/format/kv.c."""
    inv = top / np.abs(x).max(axis=-1, keepdims=True)
    if length:
        inv = np.minimum(inv, length / np.sqrt((x * x).sum(axis=-1, keepdims=True)))
    return np.rint(x * inv), 1 / inv


I16 = dict(key=(32700.0, 46250.0), value=8190.0)
Q8 = dict(key=(127.0, 0.0), value=127.0)


def integer_scores(kind, q, k):
    qi, qd = integers(q, *kind["key"])
    ki, kd = integers(k, *kind["key"])
    return (qi @ ki.T) * qd * kd.T


def integer_output(kind, e, v):
    """Weights e [queries][positions], not yet normalised, times values, block by block."""
    vi, vd = integers(v, kind["value"])
    out = np.zeros((e.shape[0], v.shape[1]))
    for at in range(0, e.shape[1], BLOCK):
        w = e[:, at : at + BLOCK] * vd[at : at + BLOCK].T
        u = np.maximum(w.max(axis=1) / 32760.0, w.sum(axis=1) / 262000.0)[:, None]
        codes = np.divide(w, u, out=np.zeros_like(w), where=u > 0)
        out += (np.rint(codes) @ vi[at : at + BLOCK]) * u
    return out


def attention(kind, q, k, v):
    """Scores, weights that sum to one, output."""
    if kind in (I16, Q8):
        s = integer_scores(kind, q, k)
    else:
        s = q @ kind(k).T
    e = np.exp(s - s.max(axis=1, keepdims=True))
    total = e.sum(axis=1, keepdims=True)
    o = integer_output(kind, e, v) if kind in (I16, Q8) else e @ kind(v)
    return s, e / total, o / total


def exponents(sizes):
    """Base-2 logarithms of sizes from their median on, rounded: exponents() of go/model/nn/balance.go."""
    log = np.log2(sizes / np.sort(sizes)[len(sizes) // 2])
    return np.floor(log + 0.5) if (np.abs(log) >= 2).any() else np.zeros(len(sizes))


def balance(q, k, v):
    """Queries, keys and values with even channels, and the factors of the output's."""
    pairs = np.arange(q.shape[1]).reshape(2, -1)

    def size(x):
        return np.sqrt((x * x).mean(axis=0))

    def rotated(x):
        s = size(x)
        s[pairs] = np.sqrt((s[pairs] ** 2).mean(axis=0))
        return s

    by = 2.0 ** exponents(np.sqrt(rotated(k[1::2]) / rotated(q[::2])))
    out = 2.0 ** exponents(size(v[1::2]))
    return q * by, k / by, v / out, out


def draw(case, rng, positions, queries, dims):
    def normal(*shape):
        return rng.standard_t(4, shape) / np.sqrt(2) if case == "tails" else rng.standard_normal(shape)

    q, k, v = normal(queries, dims), normal(positions, dims), normal(positions, dims)
    q *= 3 / np.sqrt(dims)
    pair = [5, 5 + dims // 2]
    if case == "channels":
        k[:, pair] *= 20
        q *= 3 / (q @ k.T).std()
    elif case == "balanced":
        k[:, pair] *= 100
        q[:, pair] /= 100
    elif case == "bias":
        k[:, pair] += 100
    elif case == "sink":
        k[0] *= 0.1
        k[0, pair] = 60 * np.exp(0.1 * rng.standard_normal(2))
        q[:, pair] = np.abs(q[:, pair]) * 0.2 + 0.12
        v[0] *= 0.02
    elif case == "values":
        v[:, [3, 3 + dims // 2]] *= 50
    elif case == "spread":
        k *= np.exp(0.5 * rng.standard_normal((positions, 1)))
        v *= np.exp(rng.standard_normal((positions, 1)))
        q *= 3 / (q @ k.T).std()
    return (x.astype(F).astype(np.float64) for x in (q, k, v))


CASES = ["normal", "channels", "balanced", "bias", "sink", "values", "tails", "spread"]
KINDS = {"f16": f16, "bf16": bf16, "i16": I16, "even i16": I16, "q8_0": Q8, "even q8_0": Q8}


def head(case, dims, number, args):
    """For each type: scores, KL, output, channel; squares but KL."""
    rng = np.random.default_rng([args.seed, dims, CASES.index(case), number])
    q, k, v = draw(case, rng, args.positions, args.queries, dims)
    s0 = q @ k.T
    e = np.exp(s0 - s0.max(axis=1, keepdims=True))
    p0 = e / e.sum(axis=1, keepdims=True)
    o0 = p0 @ v
    counts = s0 > s0.max(axis=1, keepdims=True) + np.log(1e-3)
    for name, kind in KINDS.items():
        if name.startswith("even"):
            *even, by = balance(q, k, v)
            s, p, o = attention(kind, *even)
            o = o * by
        else:
            s, p, o = attention(kind, q, k, v)
        d = s - s0
        d -= (p0 * d).sum(axis=1, keepdims=True)  # what all scores share changes nothing
        with np.errstate(divide="ignore", invalid="ignore"):
            kl = np.where(p0 > 0, p0 * (np.log(p0) - np.log(p)), 0).sum(axis=1).mean()
        err = o - o0
        each = (err**2).mean(axis=0) / (o0**2).mean(axis=0)
        yield (d[counts] ** 2).mean(), kl, (err**2).mean() / (o0**2).mean(), each.mean()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--positions", type=int, default=4096)
    parser.add_argument("--queries", type=int, default=256)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--dims", type=int, nargs="+", default=[64, 96, 128, 192, 256])
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    print("| dimensions | case | type | scores | KL | output | channel |")
    print("| ---: | --- | --- | ---: | ---: | ---: | ---: |")
    for dims in args.dims:
        for case in CASES:
            mean = np.mean([list(head(case, dims, n, args)) for n in range(args.heads)], axis=0)
            for name, (s, kl, o, c) in zip(KINDS, mean):
                s, o, c = np.sqrt([s, o, c]) * 1e4
                print(f"| {dims} | {case} | {name} | {s:.3g} | {max(kl, 0) * 1e9:.3g} | {o:.3g} | {c:.3g} |", flush=True)


if __name__ == "__main__":
    main()
