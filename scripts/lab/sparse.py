#!/usr/bin/python3
"""Which keys does attention need, and what finds them?

Claim      Adaptive sparse attention: 70 to 90 % of weights are below 0.01; the first half of a key's dimensions is
           enough to find the rest, and only those are read.
Measure    The change of the loss where each query reads a quarter of the keys, chosen by: the scores themselves; the
           best scores of pages of 16; bounds of pages from the least and the largest of each channel (Quest); the
           mean key of a page; the first half of the dimensions (the claim); a window and the first two keys. Counted
           on the second half of each window of the text.
Data       Long windows of the text: up to 1,024 tokens.
Threshold  Of an estimator: option where the loss rises by less than 0.5 %, refuted where it rises by more than 2 %
           or more than a plain window's. Speed is a matter of contexts of 32k and more, which no model here has
           seen.
"""

import lab
import numpy as np
from lab import percent
from model import Decoder, softmax

PAGE, BUDGET, LEAST = 16, 0.25, 16


def largest(score, mask, counts):
    """The counts[i] best of row i."""
    s = np.where(mask, score, -np.inf)
    rank = np.argsort(np.argsort(-s, axis=1, kind="stable"), axis=1)
    return (rank < counts[:, None]) & mask


def pages(how, q, k):
    """Estimates [queries, pages] of the best score in each page."""
    cut = [k[i : i + PAGE] for i in range(0, len(k), PAGE)]
    if how == "pages, known":
        return np.stack([(q @ c.T).max(axis=1) for c in cut], axis=1)
    if how == "mean of a page":
        return np.stack([q @ c.mean(axis=0) for c in cut], axis=1)
    low, high = (np.stack([f(c, axis=0) for c in cut]) for f in (np.min, np.max))  # Quest: sum of max(q low, q high)
    return np.maximum(q, 0) @ high.T + np.minimum(q, 0) @ low.T


def chosen(how, q, k, mask):
    """The keys that queries read: bool [queries, keys]. What is near, and the first, is among them."""
    n = len(q)
    ago = np.arange(n)[:, None] - np.arange(n)
    counts = np.maximum(LEAST, np.ceil(BUDGET * mask.sum(axis=1))).astype(int)
    first = np.arange(n)[None, :] < 2
    if how == "window":
        return ((ago < counts[:, None] - 2) | first) & mask
    if how in ("keys, known", "half of the dimensions"):
        d = q.shape[1] if how == "keys, known" else q.shape[1] // 2
        return (largest(q[:, :d] @ k[:, :d].T, mask, counts) | (ago < 8) | first) & mask
    page = np.arange(n) // PAGE
    ids = np.arange(page[-1] + 1)
    estimate = np.where((ids == page[:, None]) | (ids == 0), np.inf, pages(how, q, k))
    visible = ids * PAGE <= np.arange(n)[:, None]
    return largest(estimate, visible, np.maximum(2, np.round(counts / PAGE)).astype(int))[:, page] & mask


HOWS = ("keys, known", "pages, known", "bounds of a page", "mean of a page", "half of the dimensions", "window")


def change(x):
    return f"{100 * x:+.1f} %"


def run(lab, r):
    model = Decoder(lab)
    length = min(128 if lab.quick else 1024, model.n_ctx)
    windows = lab.windows(length, 1 if lab.quick else 2 if lab.parameters > 5e7 else 4)
    small, needed = [], []

    def look(layer, what, p):
        if what == "probs":
            half = p[len(p) // 2 :]
            n = np.arange(len(p) // 2, len(p)) + 1
            small.append(((half < 0.01).sum(axis=1) - (len(p) - n)).sum() / n.sum())
            needed.append((((-np.sort(-half, axis=1)).cumsum(axis=1) < 0.99).sum(axis=1) + 1).mean() / n.mean())

    model.tap = look
    base = model.loss(windows, length // 2)
    model.tap = None
    rise = {}
    r.table(f"{percent(BUDGET)} of {length} keys, chosen by", "loss", "rise", "keys read")
    for how in HOWS:
        read = []

        def attend(layer, head, q, k, v, mask):
            s = chosen(how, q, k, mask)
            read.append(s[length // 2 :].sum() / mask[length // 2 :].sum())
            return softmax(np.where(s, q @ k.T, -np.inf)) @ v

        model.attend = attend
        loss = model.loss(windows, length // 2)
        rise[how] = loss / base - 1
        r.row(how, f"{loss:.4f}", percent(rise[how], 2), percent(np.mean(read)))
    r.row("all", f"{base:.4f}", "", "100 %")

    def verdict(how):
        if rise[how] > 0.02 or rise[how] > max(rise["window"], 0.005):
            return "refuted"
        return "option" if rise[how] < 0.005 else "open"

    limit = "option below 0.5 % more"
    r.find(
        "claim",
        "keys by the first half of the dimensions",
        f"loss {change(rise['half of the dimensions'])} (a plain window {change(rise['window'])}); "
        f"{percent(np.mean(small))} of weights are below 0.01, 99 % of the weight needs "
        f"{percent(np.mean(needed))} of the keys",
        limit,
        verdict("half of the dimensions"),
    )
    r.find(
        "bounds",
        "pages by bounds of their keys",
        f"loss {change(rise['bounds of a page'])} with {percent(BUDGET)} of {length} keys "
        f"(a plain window {change(rise['window'])})",
        limit,
        verdict("bounds of a page"),
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
