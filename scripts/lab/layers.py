#!/usr/bin/python3
"""Are layers alike?

Claim      Weight residue: a layer is stored as its difference from those before it, which saves 8 %, compounding to
           15 %.
Measure    The energy of a matrix that the best linear combination of the same matrix of all earlier layers explains;
           the cosine of any two layers; and what the best-matching row of the layer before explains, the upper bound
           of any permutation, beside that of normal numbers. A delta saves -0.5 log2(1 - explained) bits a weight.
Data       Every matrix of every layer.
Threshold  adopted above 5 % explained, refuted below 1 %. The finding is the mean over the feed-forward matrices.
"""

import itertools

import lab
import numpy as np
from lab import kind, percent


def explained(ws):
    """Of each layer but the first, by all earlier ones together: mean."""
    flat = np.stack([w.ravel() for w in ws]).astype(np.float64)
    gram, out = flat @ flat.T, []
    for i in range(1, len(ws)):
        c = np.linalg.lstsq(gram[:i, :i], gram[:i, i], rcond=None)[0]
        out.append(c @ gram[:i, i] / gram[i, i])
    size = np.sqrt(np.diag(gram))
    cosines = [abs(gram[i, j]) / size[i] / size[j] for i, j in itertools.combinations(range(len(ws)), 2)]
    return np.mean(out), max(cosines)


def best_row(a, b):
    a, b = (m / np.maximum(np.linalg.norm(m, axis=1, keepdims=True), 1e-30) for m in (a, b))
    return (np.abs(b @ a.T).max(axis=1) ** 2).mean()


def run(lab, r):
    kinds = {}
    for name, w in lab.matrices(3 if lab.quick else None).items():
        kinds.setdefault(kind(name), []).append(w)
    r.table(
        "matrices",
        "explained by all earlier layers",
        "largest cosine of two",
        "by the best row of the layer before",
        "random rows",
    )
    found = {}
    for name, ws in kinds.items():
        if len(ws) < 2 or len({w.shape for w in ws}) > 1:
            continue
        found[name], cosine = explained(ws)
        rows = np.mean([best_row(a, b) for a, b in list(zip(ws, ws[1:]))[:4]])
        normal = best_row(lab.rng.standard_normal(ws[0].shape), lab.rng.standard_normal(ws[0].shape))
        r.row(name, percent(found[name], 3), f"{cosine:.3f}", percent(rows, 1), percent(normal, 1))
    share = np.mean([e for name, e in found.items() if "ffn" in name])
    verdict = "adopted" if share > 0.05 else "refuted" if share < 0.01 else "open"
    saved = -0.5 * np.log2(1 - share)
    r.find(
        "residue",
        "feed-forward matrices, mean",
        f"{percent(share, 3)} of the energy explained by earlier layers, worth {saved:.5f} bits a weight",
        "adopt above 5 %",
        verdict,
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
