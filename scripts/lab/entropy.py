#!/usr/bin/python3
"""How much do weights shrink without loss?

Claim      Lossless entropy coding: 9B parameters in 3.6 GB, from an entropy of 3.6 bits of a histogram of 256 bins.
Measure    Entropy of order 0, in bits a weight, of the codes and scales of the engine's types and of the parts of
           BF16, whose sign and mantissa do not compress. Codes again, given the left neighbour. And of 12 bits to a
           weight, with an exponent in four: how many exponents are not among the 15 most frequent.
Data       Every matrix of up to six layers. The codes of a file that is quantized are of weights that are on a grid
           already, and its BF16 has gaps: there the verdicts are open.
Threshold  Codes: adopted where they save 10 % and a decoder keeps up with memory (see rans.c), refuted below.
           Floats: option where fewer than 0.5 % escape, refuted above 2 %.
"""

import lab
import numpy as np
from lab import percent


def entropy(x):
    """Bits of a symbol, order 0, of an array of small integers."""
    c = np.bincount(np.asarray(x).ravel().astype(np.int64))
    p = c[c > 0] / c.sum()
    return float(-(p * np.log2(p)).sum())


def given(x, before, base):
    return entropy(x.astype(np.int64) * base + before) - entropy(before)


def halves(b):
    return np.concatenate([b & 15, b >> 4], axis=1)


def parts(name, b):
    """Of blocks of a type: codes [blocks, weights], and what stands beside them, arrays of bytes."""
    if name == "Q8_0":
        return b[:, 2:].view(np.int8).astype(int) + 128, [b[:, 0], b[:, 1]]
    if name in ("Q4_0", "IQ4_NL"):
        return halves(b[:, 2:]), [b[:, 0], b[:, 1]]
    if name == "Q4_K":  # d, dmin, 12 bytes of scales and minima, four times 32 bytes of two codes
        q = b[:, 16:].reshape(-1, 4, 32)
        return np.stack([q & 15, q >> 4], axis=2).reshape(len(b), 256), [b[:, i] for i in range(16)]
    low, high = b[:, :128].reshape(-1, 2, 2, 32), b[:, 128:192].reshape(-1, 2, 1, 32)  # Q6_K
    shift = np.array([0, 2, 4, 6]).reshape(1, 1, 4, 1)
    q = np.concatenate([low & 15, low >> 4], axis=2) | ((high >> shift) & 3) << 4
    return q.reshape(len(b), 256), [b[:, i] for i in range(192, 210)]


def of_codes(lab, w, type_name, code_bits):
    """Stored, coded, and codes alone in bits a weight, and codes given the left neighbour."""
    total = codes = left = stored = n = 0
    for name, b in lab.encoded(w, type_name, raw=True).values():
        q, beside = parts(name, b)
        h = entropy(q)
        codes += h * q.size
        left += given(q[:, 1:], q[:, :-1], 1 << code_bits) * q.size
        total += h * q.size + sum(entropy(s) * s.size for s in beside)
        stored += 8 * b.size
        n += q.size
    return np.array([stored, total, codes, left]) / n


def run(lab, r):
    w = lab.matrices(1 if lab.quick else 6)
    r.table("type", "stored", "coded", "less", "codes alone", "codes given the left one")
    saved = {}
    for name, bits in (("Q4_K_S", 4), ("Q4_0", 4), ("IQ4_NL", 4), ("Q6_K", 6), ("Q8_0", 8)):
        stored, coded, codes, left = of_codes(lab, w, name, bits)
        saved[name] = 1 - coded / stored
        r.row(name, f"{stored:.3f}", f"{coded:.3f}", percent(saved[name], 1), f"{codes:.3f}", f"{left:.3f}")
    bits = np.concatenate([x.ravel() for x in w.values()]).astype(np.float32).view(np.uint32)
    exponent = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 23 & 255  # of BF16, to nearest even
    h = entropy(exponent)
    r.row("BF16", "16", f"{h + 8:.2f}", percent(1 - (h + 8) / 16, 1), f"{h:.2f} of the exponent's 8", "")
    escapes = 1 - np.sort(np.bincount(exponent))[-15:].sum() / exponent.size
    r.row("BF16 in 12 bits", "16", "12", "25 %", f"{percent(escapes, 3)} of exponents escape", "")

    def verdict(v):
        return "open" if lab.quantized else v

    r.find(
        "codes",
        "Q4_K, entropy of order 0",
        f"{percent(saved['Q4_K_S'], 1)} less, whatever the decoder",
        "adopt at 10 %",
        verdict("refuted" if saved["Q4_K_S"] < 0.1 else "open"),
    )
    r.find(
        "floats",
        "BF16 in 12 bits",
        f"25 % less, {percent(escapes, 3)} of weights escape; the entropy is {h + 8:.2f} bits",
        "option below 0.5 %",
        verdict("option" if escapes < 0.005 else "refuted" if escapes > 0.02 else "open"),
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
