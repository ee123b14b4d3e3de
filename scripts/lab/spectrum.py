#!/usr/bin/python3
"""Are weights of low rank?

Claim      The singular values of trained weights fall so fast that 4 to 10 % of the rank hold 99 % of the energy,
           and 5 % of it 95 %.
Measure    The rank that holds 99 % of a matrix's squared norm, of its full rank; beside it that of a matrix of
           normal numbers of the same shape. The finding is the mean over the feed-forward matrices, two thirds of a
           model.
Data       Every matrix of the layers, of a quantized file its decoded weights: rounding adds 0.5 % of energy that is
           spread over the whole rank.
Threshold  adopted at 10 % or less, refuted above 50 %, open between: low rank saves nothing where both factors
           together are larger than the matrix, which for a square one is half of the rank.
"""

import lab
import numpy as np
from lab import kind, percent

SHARES = (0.5, 0.9, 0.95, 0.99)


def energies(w):
    s = np.linalg.svd(w.astype(np.float64), compute_uv=False) ** 2
    return np.cumsum(s) / s.sum()


def ranks(c):
    """The shares of full rank that hold SHARES of the energy, and the energy of the first 5 %."""
    return [*(np.searchsorted(c, np.array(SHARES)) + 1) / len(c), c[max(1, round(0.05 * len(c))) - 1]]


def run(lab, r):
    random, kinds, curves = {}, {}, {}
    for name, w in lab.matrices(2 if lab.quick else 12).items():
        shape = w.shape
        if shape not in random:
            random[shape] = energies(lab.rng.standard_normal(shape))
        c = energies(w)
        curves[kind(name)] = (c, random[shape])
        kinds.setdefault(kind(name), []).append((ranks(c), ranks(random[shape])))
    r.table("matrices", *(f"rank for {percent(s)}" for s in SHARES), "random", "energy in 5 %", "random")
    for name, both in kinds.items():
        real, normal = np.mean(both, axis=0)
        r.row(name, *(percent(x) for x in real[:4]), percent(normal[3]), percent(real[4]), percent(normal[4]))
    real, normal = np.mean([both for name, k in kinds.items() if "ffn" in name for both in k], axis=0)
    verdict = "adopted" if real[3] <= 0.1 else "refuted" if real[3] > 0.5 else "open"
    number = f"{percent(real[3])} of the rank for 99 % of the energy (random numbers {percent(normal[3])})"
    r.find("rank", "feed-forward matrices, mean", number, "adopt at 10 %", verdict)
    series = {}
    for name in [next(n for n in curves if what in n) for what in ("ffn_up", "attn_q")]:
        for c, what in zip(curves[name], (name, f"random like {name}")):
            at = np.unique(np.linspace(1, len(c), 60).round().astype(int))
            series[what] = (at / len(c), c[at - 1])
    r.draw("share of the rank", "energy", series)


if __name__ == "__main__":
    lab.main(__doc__, run)
