#!/usr/bin/python3
"""What can any code of weights still win?

Claim      Behind all theories of smaller weights: codes of the same weights waste much, so cleverer ones have far to
           go.
Measure    The relative squared error e of a type is what a Gaussian source needs 0.5 log2(1/e) bits for, at best.
           What a type has beyond that is lost. Beside the engine's types a uniform quantizer with a step for each
           row, and its codes at their entropy, which no decoder of the lab can read fast enough.
Data       Every matrix of up to six layers, encoded with --method fast and search. A quantized file is on a grid:
           there it is open.
Threshold  adopted where more than a bit of Q4_K's 4.5 could be won at the same error, refuted below: then no code can
           halve a file. What is left is what types of trellis codes are after.
"""

import lab
import numpy as np
from entropy import entropy
from lab import relative

BITS = {
    "IQ2_KT": 2.125,
    "Q2_K": 2.625,
    "IQ3_KT": 3.125,
    "Q3_K_S": 3.4375,
    "IQ4_KT": 4.0,
    "IQ4_XS": 4.25,
    "Q4_K_S": 4.5,
    "Q4_0": 4.5,
    "Q5_K_S": 5.5,
    "Q6_K": 6.5625,
}


def lost(bits, error):
    return bits + 0.5 * np.log2(error)


def uniform(w, step):
    """Bits a weight at the entropy of the codes, and the relative error, where a step is so many rms of a row."""
    bits = n = 0
    out = {}
    for name, x in w.items():
        d = np.sqrt((x.astype(np.float64) ** 2).mean(axis=1, keepdims=True)) * step
        q = np.rint(x / d)
        y = x / d
        for v in (-1, 0, 1):  # codes stand for their centroids
            here = q == v
            if here.any():
                out.setdefault(name, q * d)[here] = (y[here].mean() * np.broadcast_to(d, x.shape))[here]
        out.setdefault(name, q * d)
        bits += entropy(q - q.min()) * x.size + 16 * len(x)
        n += x.size
    return bits / n, relative(out, w)


def run(lab, r):
    w = lab.matrices(1 if lab.quick else 6)
    r.table("code", "bits", "error, fast", "bits lost", "error, search", "bits lost")
    curve, gap = {}, {}
    for name in ("Q3_K_S", "Q4_K_S") if lab.quick else BITS:
        errors = [relative(lab.encoded(w, name, method), w) for method in ("fast", "search")]
        gap[name] = [lost(BITS[name], e) for e in errors]
        r.row(name, BITS[name], errors[0], f"{gap[name][0]:.2f}", errors[1], f"{gap[name][1]:.2f}")
        curve[BITS[name]] = min(errors + [curve.get(BITS[name], 1)])
    steps = (0.5, 1.0) if lab.quick else (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
    points = [uniform(w, s) for s in steps]
    for b, e in points:
        r.row("uniform, entropy coded", f"{b:.2f}", e, f"{lost(b, e):.2f}", "", "")
    coded = np.mean([lost(b, e) for b, e in points])
    here = gap["Q4_K_S"][1]
    r.find(
        "bound",
        "Q4_K, search",
        f"{here:.2f} bits above the bound of a Gaussian source; entropy coded uniform steps are {coded:.2f} above it",
        "adopt above one bit",
        "open" if lab.quantized else "adopted" if here > 1 else "refuted",
    )
    at = np.array(sorted(curve.items()))
    floor = np.linspace(1.5, 6.6, 12)
    r.draw(
        "bits a weight",
        "signal over error, dB",
        {
            "types, the better of fast and search": (at[:, 0], -10 * np.log10(at[:, 1])),
            "uniform, entropy coded": ([b for b, _ in points], [-10 * np.log10(e) for _, e in points]),
            "bound of a Gaussian source": (floor, 20 * np.log10(2) * floor),
        },
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
