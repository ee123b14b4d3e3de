#!/usr/bin/python3
"""What may be forgotten of old keys and values?

Claim      Summary vectors: beyond 4,096 positions each 256 keys and values are kept as one mean.
Measure    The change of the loss where keys and values older than 64 positions, but the first 16, are dropped;
           replaced by the mean of each 16 (a sixteenth of the claim's span, kinder); by that mean, counted 16 times;
           or rounded to 8, 4, 3 and 2 bits with a scale to a vector. Counted on the second half of each window of
           the text.
Data       Windows of up to 512 tokens.
Threshold  Means: adopted where they cost less than a quarter of dropping, refuted where more than half. 3 bits:
           option where the loss rises by less than 0.1 %.
"""

import lab
import numpy as np
from lab import percent
from model import Decoder, softmax

RECENT, SPAN = 64, 16


def summarized(how):
    """Attention whose old positions, in whole spans, are dropped or stand as means; the first span stays."""

    def attend(layer, head, q, k, v, mask):
        n, spans = len(q), len(q) // SPAN
        at = np.arange(n) // SPAN
        old = np.maximum((np.arange(n) - RECENT) // SPAN, 1)[:, None]  # spans before this one are old
        scores = np.where(mask & ((at >= old) | (at == 0)), q @ k.T, -np.inf)
        if how == "dropped":
            return softmax(scores) @ v
        km, vm = (x[: spans * SPAN].reshape(spans, SPAN, -1).mean(axis=1) for x in (k, v))
        ids = np.arange(spans)
        means = q @ km.T + (np.log(SPAN) if how == "counted" else 0)
        p = softmax(
            np.concatenate(
                [scores, np.where((ids > 0) & (ids < old) & mask[:, : spans * SPAN : SPAN], means, -np.inf)], axis=1
            )
        )
        return p[:, :n] @ v + p[:, n:] @ vm

    return attend


def in_bits(bits):
    def rounded(x):
        d = np.abs(x).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
        return np.rint(x / np.maximum(d, 1e-30)) * d

    def attend(layer, head, q, k, v, mask):
        n = len(q)
        old = (np.arange(n)[:, None] - np.arange(n) >= RECENT) & mask
        p = softmax(np.where(mask, np.where(old, q @ rounded(k).T, q @ k.T), -np.inf))
        return (p * ~old) @ v + (p * old) @ rounded(v)

    return attend


def run(lab, r):
    model = Decoder(lab)
    length = min(160 if lab.quick else 512, model.n_ctx)
    windows = lab.windows(length, 2 if lab.quick else 4)
    base = model.loss(windows, length // 2)
    r.table(f"older than {RECENT} of {length} positions", "loss", "rise")
    r.row("as they are", f"{base:.4f}", "")
    rise = {}
    ways = {
        "dropped": summarized("dropped"),
        f"mean of {SPAN}": summarized("mean"),
        "counted": summarized("counted"),
        **{f"{b} bits": in_bits(b) for b in (8, 4, 3, 2)},
    }
    for what, model.attend in ways.items():
        loss = model.loss(windows, length // 2)
        rise[what] = loss - base
        r.row(
            f"mean of {SPAN}, counted {SPAN} times" if what == "counted" else what,
            f"{loss:.4f}",
            f"{rise[what]:+.4f}",
        )
    means = min(rise["counted"], rise[f"mean of {SPAN}"])
    if rise["dropped"] <= 0.001 * base:  # then nothing of what is old is used, and nothing is decided
        verdict = "open"
    else:
        share = means / rise["dropped"]
        verdict = "adopted" if share < 0.25 else "refuted" if share > 0.5 else "open"
    r.find(
        "summaries",
        f"means of {SPAN}, older than {RECENT} positions",
        f"loss {means:+.4f}, where dropping costs {rise['dropped']:+.4f} and 4 bits {rise['4 bits']:+.4f}",
        "adopt below a quarter of dropping",
        verdict,
    )
    three = rise["3 bits"] / base
    r.find(
        "3 bits",
        "3 bits, a scale to a vector, no rotation",
        f"loss {percent(three, 2)} higher (4 bits {percent(rise['4 bits'] / base, 2)})",
        "option below 0.1 %",
        "option" if three < 0.001 else "open",
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
