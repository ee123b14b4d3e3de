#!/usr/bin/python3
"""Does low rank win where errors are weighed by what products read?

Claim      Spectral + quantized residual, in the form of LQER, QERA and SVD-LLM: directions that activations use are
           kept by a low rank, the rest needs few bits.
Measure    Relative squared error of outputs: of (W - W') C^1/2, where C is the mean outer product of inputs. A rank of
           a bit a weight, in 8 bits, beside codes of b bits, the optimum under C both for the error of the codes
           (LQER, QERA) and taken off before (SVD + residual); against b + 1 bits alone, plain and by GPTQ, which
           knows C too. Codes are uniform, with a scale for each 32. C of half of the text is known to all of them,
           and errors are counted with that of the other half.
Data       What the matrices of six layers read in windows of the text. A file in 4 bits is on a finer grid than 2 and
           3 bits.
Threshold  option where low rank has less than 0.9 of the error of the better b + 1 bits on a third of the weights,
           refuted below that.
"""

import lab
import numpy as np
from lab import percent
from model import reading


def step(x, bits):
    """The step of codes of x [rows, blocks, weights], for each block."""
    d = np.abs(x).max(axis=2, keepdims=True) / (2 ** (bits - 1) - 0.5)
    d[d == 0] = 1
    return d


def nearest(x, d, bits):
    """Codes have no zero, as those of 2 and 3 bits have in effect."""
    most = 2 ** (bits - 1) - 0.5
    return np.clip(np.floor(x / d) + 0.5, -most, most) * d


def rounded(w, bits, block=32):
    """Weights in uniform codes of so many bits."""
    x = np.pad(w, ((0, 0), (0, -w.shape[1] % block))).reshape(len(w), -1, block)
    return nearest(x, step(x, bits), bits).reshape(len(w), -1)[:, : w.shape[1]]


def covariance(x):
    """Mean outer product of inputs [tokens, cols], made invertible."""
    c = x.T.astype(np.float64) @ x / len(x)
    return c + 1e-4 * np.trace(c) / len(c) * np.eye(len(c))


def root(c):
    """C^1/2 and its inverse."""
    values, vectors = np.linalg.eigh(c)
    s = np.sqrt(np.maximum(values, 1e-30))
    return (vectors * s) @ vectors.T, (vectors / s) @ vectors.T


def gptq(w, c, bits, block=32):
    """Codes as of rounded(), whose errors in one column are made up for by those after it."""
    w, out = w.copy(), np.empty_like(w)
    u = np.linalg.cholesky(np.linalg.inv(c)).T
    for at in range(0, w.shape[1], block):
        cols = slice(at, min(at + block, w.shape[1]))
        part, errors = w[:, cols].copy(), np.empty_like(w[:, cols])
        d = step(part[:, None], bits)[:, 0]
        for j in range(part.shape[1]):
            q = nearest(part[:, [j]], d, bits)
            out[:, at + j] = q[:, 0]
            errors[:, j] = (part[:, j] - q[:, 0]) / u[at + j, at + j]
            part[:, j:] -= errors[:, [j]] * u[at + j, at + j : cols.stop]
        w[:, cols.stop :] -= errors @ u[cols, cols.stop :]
    return out


def run(lab, r):
    bits, names = (2, 3), ("alone", "SVD of its error", "SVD taken off", "a bit more, plain", "a bit more, GPTQ")
    out, sizes, energy = {b: [] for b in bits}, [], []
    for w, x in reading(lab, 2 if lab.quick else 16, 128 if lab.quick else 256).values():
        w = w.astype(np.float64)
        c = covariance(x[: len(x) // 2])
        s, inverse = root(c)
        judge, _ = root(covariance(x[len(x) // 2 :]))
        rank = max(1, round(w.size / (8.5 * sum(w.shape))))
        whole = ((w @ judge) ** 2).sum()

        def best(m):
            """The best m' of that rank for (m - m') C^1/2."""
            u, v, t = np.linalg.svd(m @ s, full_matrices=False)
            return (u[:, :rank] * v[:rank]) @ t[:rank] @ inverse

        off = best(w)
        sizes.append(w.size)
        energy.append(1 - (((w - off) @ judge) ** 2).sum() / whole)
        for b in bits:
            q = rounded(w, b)
            forms = (q, q + best(w - q), off + rounded(w - off, b), rounded(w, b + 1), gptq(w, c, b + 1))
            out[b].append([(((w - form) @ judge) ** 2).sum() / whole for form in forms])
    r.table("bits", *names, "best SVD, of the better of a bit more", "weights where it wins")
    share, ratios = 0.0, []
    for b in bits:
        e = np.array(out[b])
        low, more = e[:, 1:3].min(axis=1), e[:, 3:].min(axis=1)
        won = float(np.average(low < 0.9 * more, weights=sizes))
        ratios.append(float(np.exp(np.log(low / more).mean())))
        share = max(share, won)
        r.row(str(b), *np.exp(np.log(e).mean(axis=0)), f"{ratios[-1]:.2f}", percent(won))
    r.row("energy of outputs in that rank", percent(np.mean(energy)), *[""] * (len(names) + 1))
    r.find(
        "spectral",
        "errors of outputs, weighed by inputs",
        f"{min(ratios):.1f} times the error of a bit more; wins on {percent(share)} of weights",
        "option above a third of weights",
        "option" if share > 1 / 3 else "refuted",
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
