#!/usr/bin/python3
"""Does low rank win where errors are weighed by what products read?

Claim      Spectral + quantized residual, in the form of LQER, QERA and SVD-LLM: directions that activations use are
           kept by a low rank, the rest needs few bits.
Measure    Relative squared error of outputs: of (W - W') C^1/2, where C is the mean outer product of inputs. A rank
           of a bit a weight, in 8 bits, beside codes of b bits, the optimum under C both for the error of the codes
           (LQER, QERA) and taken off before (SVD + residual); against b + 1 bits alone. Codes are uniform, with a
           scale for each 32.
Data       What the matrices of six layers read in windows of the text. Quantized weights of 4 bits are on a finer
           grid than 2 and 3 bits.
Threshold  option where the error is below 0.9 of that of b + 1 bits on a third of the weights, refuted below that.
"""

import lab
import numpy as np
from lab import percent
from model import reading


def rounded(w, bits, block=32):
    """Codes of so many bits, of levels that have no zero, as the types of 2 and 3 bits in effect are."""
    x = np.pad(w, ((0, 0), (0, -w.shape[1] % block))).reshape(len(w), -1, block)
    d = np.abs(x).max(axis=2, keepdims=True) / (2 ** (bits - 1) - 0.5)
    d[d == 0] = 1
    most = 2 ** (bits - 1) - 0.5
    return (np.clip(np.floor(x / d) + 0.5, -most, most) * d).reshape(len(w), -1)[:, : w.shape[1]]


def root(x):
    """C^1/2 of inputs [tokens, cols], and its inverse, in float64."""
    c = x.T.astype(np.float64) @ x / len(x)
    values, vectors = np.linalg.eigh(c + 1e-8 * np.trace(c) / len(c) * np.eye(len(c)))
    s = np.sqrt(np.maximum(values, 1e-30))
    return (vectors * s) @ vectors.T, (vectors / s) @ vectors.T


def run(lab, r):
    bits = (2, 3)
    out = {b: [] for b in bits}
    sizes, energy = [], []
    for w, x in reading(lab, 2 if lab.quick else 8, 128 if lab.quick else 256).values():
        w = w.astype(np.float64)
        s, inverse = root(x)
        rank = max(1, round(w.size / (8.5 * sum(w.shape))))
        whole = ((w @ s) ** 2).sum()

        def best(m):
            """The best m' of that rank for (m - m') C^1/2."""
            u, v, t = np.linalg.svd(m @ s, full_matrices=False)
            return (u[:, :rank] * v[:rank]) @ t[:rank] @ inverse

        def error(q):
            return (((w - q) @ s) ** 2).sum() / whole

        off = best(w)
        energy.append(1 - error(off))
        sizes.append(w.size)
        for b in bits:
            q = rounded(w, b)
            out[b].append(
                [error(q), error(q + best(w - q)), error(off + rounded(w - off, b)), error(rounded(w, b + 1))]
            )
    if not sizes:
        raise ValueError("no matrix whose inputs are known")
    r.table(
        "bits",
        "alone",
        "low rank on its error, 1 bit more",
        "low rank taken off, 1 bit more",
        "a bit more alone",
        "best over alone",
        "weights where it wins",
    )
    share, ratios = 0.0, []
    for b in bits:
        e = np.array(out[b])
        mean = np.exp(np.log(e).mean(axis=0))
        won = float(np.average(e[:, 1:3].min(axis=1) < 0.9 * e[:, 3], weights=sizes))
        ratios.append(min(mean[1:3]) / mean[3])
        share = max(share, won)
        r.row(str(b), *mean, f"{ratios[-1]:.2f}", percent(won))
    r.row("energy of outputs in that rank", percent(np.mean(energy)), "", "", "", "", "")
    r.find(
        "spectral",
        "errors of outputs, weighed by inputs",
        f"{min(ratios):.1f} times the error of a bit more; wins on {percent(share)} of weights",
        "option above a third of weights",
        "option" if share > 1 / 3 else "refuted",
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
