#!/usr/bin/python3
"""Do weights lie on a manifold of few parameters?

Claim      Weight manifolds: a layer is a smooth function of d = O(rows + columns) parameters, so files shrink a
           thousandfold.
Measure    What such a function needs is dependence between weights. Sums of Kronecker products, the first step of
           every tensor network, show it of any two places that are a fixed stride apart: the energy in the first 5 %
           of terms, beside that of normal numbers of the same shape. Neighbours show it of smooth functions: the
           correlation of adjacent columns and rows.
Data       The attention and feed-forward matrices of up to four layers.
Threshold  O(rows + columns) parameters are less than 5 % of terms: adopted where these hold 99 % of the energy,
           refuted below 50 %.
"""

import lab
import numpy as np
from lab import kind, percent


def terms(w, a, b):
    """W as a matrix whose singular values are those of its sum of Kronecker products of [a, b] and the rest."""
    rows, cols = w.shape
    return w.reshape(a, rows // a, b, cols // b).transpose(0, 2, 1, 3).reshape(a * b, -1)


def top(w, a, b):
    s = np.linalg.svd(terms(w.astype(np.float64), a, b), compute_uv=False) ** 2
    return s[: max(1, round(0.05 * len(s)))].sum() / s.sum()


def neighbours(w):
    """The larger correlation, by size, of adjacent columns and of adjacent rows."""
    return max(
        abs(float(np.corrcoef(w[:, 1:].ravel(), w[:, :-1].ravel())[0, 1])),
        abs(float(np.corrcoef(w[1:].ravel(), w[:-1].ravel())[0, 1])),
    )


def run(lab, r):
    kinds = {}
    for name, w in lab.matrices(1 if lab.quick else 4).items():
        sides = [a for a in ((8,) if lab.quick else (16, 32)) if w.shape[0] % a == 0 and w.shape[1] % a == 0]
        real = max(top(w, a, a) for a in sides)
        normal = max(top(lab.rng.standard_normal(w.shape), a, a) for a in sides)
        kinds.setdefault(kind(name), []).append((real, normal, neighbours(w)))
    r.table("matrices", "energy in 5 % of Kronecker terms", "random", "correlation of neighbours")
    for name, k in kinds.items():
        real, normal, near = np.mean(k, axis=0)
        r.row(name, percent(real), percent(normal), f"{near:.3f}")
    real, normal, _ = np.mean([x for k in kinds.values() for x in k], axis=0)
    verdict = "adopted" if real >= 0.99 else "refuted" if real < 0.5 else "open"
    r.find(
        "kronecker",
        "all matrices, mean",
        f"{percent(real)} of the energy in 5 % of Kronecker terms (random numbers {percent(normal)})",
        "adopt at 99 %",
        verdict,
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
