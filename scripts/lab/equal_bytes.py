#!/usr/bin/python3
"""Does low rank beside fewer bits win at the same bytes?

Claim      Spectral + quantized residual: the main directions by SVD, the rest in 2 to 3 bits, is better than plain
           quantization. Generative weight expansion: a low-rank generator and 1 % outliers make weights at 2 bits.
Measure    Relative squared error of weights. SVD + residual: a low rank in 8 bits (Q8_0), and what it leaves in a
           type of fewer bits. LQER: the rank approximates the error of that type instead. Plain: the type that has
           as many bits as both together. GWE: rank + the largest 1 % of what is left, 16 bits and 10 of place each,
           nothing else.
Data       Every matrix of up to six layers, encoded by the engine. A file whose weights are quantized already
           favours types like its own: it says nothing here, and the verdict is open.
Threshold  option where the error is below 0.9 of the plain type's, refuted above.
"""

import lab
import numpy as np
from lab import relative

BITS = {"Q2_K": 2.625, "Q3_K_S": 3.4375, "Q4_K_S": 4.5, "IQ2_S": 2.5625}
CONTESTS = (("Q3_K_S", "Q4_K_S"), ("Q2_K", "Q4_K_S"), ("Q2_K", "Q3_K_S"))  # residual, plain


def q8(a):
    """Rounded as Q8_0, along its elements."""
    flat = np.concatenate([a.ravel(), np.zeros(-a.size % 32)]).reshape(-1, 32)
    d = np.abs(flat).max(axis=1, keepdims=True) / 127
    d[d == 0] = 1
    return (np.rint(flat / d) * d).ravel()[: a.size].reshape(a.shape)


def low_rank(w, bits):
    """The best approximation of that many bits a weight, in factors of 8.5 bits; and its rank, of the full one."""
    rows, cols = w.shape
    r = int(bits * w.size / (8.5 * (rows + cols)))
    u, s, v = np.linalg.svd(w.astype(np.float64), full_matrices=False)
    root = np.sqrt(s[:r])
    return q8(u[:, :r] * root) @ q8(root[:, None] * v[:r]), r / min(rows, cols)


def generated(w, bits):
    """GWE: rank and the largest 1 % of the rest, at that many bits a weight."""
    rank, _ = low_rank(w, bits - 0.01 * 26)
    rest = w - rank
    rest[np.abs(rest) < np.quantile(np.abs(rest), 0.99)] = 0
    return rank + rest


def run(lab, r):
    w = lab.matrices(1 if lab.quick else 6)
    plain = {t: lab.encoded(w, t) for t in ("Q2_K", "Q3_K_S", "Q4_K_S")}
    error = {t: relative(q, w) for t, q in plain.items()}
    r.table("contender", "bits", "rank", "error", "plain type of that size", "its error", "ratio")
    best = np.inf
    for rest, target in CONTESTS:
        pairs = {n: low_rank(x, BITS[target] - BITS[rest]) for n, x in w.items()}
        rank = f"{100 * np.mean([p for _, p in pairs.values()]):.0f} %"
        residual = lab.encoded({n: (w[n] - l).astype(np.float32) for n, (l, _) in pairs.items()}, rest)
        lqer = {n: plain[rest][n] + low_rank(w[n] - plain[rest][n], BITS[target] - BITS[rest])[0] for n in w}
        for what, e in (
            (f"SVD + {rest} residual", relative({n: l + residual[n] for n, (l, _) in pairs.items()}, w)),
            (f"{rest} + SVD of its error (LQER)", relative(lqer, w)),
        ):
            best = min(best, e / error[target])
            r.row(what, BITS[target], rank, e, target, error[target], e / error[target])
    gwe = relative({n: generated(x, BITS["Q2_K"]) for n, x in w.items()}, w)
    r.row("rank + 1 % outliers (GWE)", BITS["Q2_K"], "", gwe, "Q2_K", error["Q2_K"], gwe / error["Q2_K"])

    def verdict(ratio):
        return "open" if lab.quantized else "option" if ratio < 0.9 else "refuted"

    r.find(
        "spectral",
        "best of three sizes, errors of weights",
        f"{best:.1f} times the error of the plain type of the same size",
        "option below 0.9",
        verdict(best),
    )
    ratio = gwe / error["Q2_K"]
    r.find(
        "gwe",
        "2.6 bits, errors of weights",
        f"{ratio:.1f} times the error of Q2_K",
        "option below 0.9",
        verdict(ratio),
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
