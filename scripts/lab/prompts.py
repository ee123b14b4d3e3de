#!/usr/bin/python3
"""Which blocks of keys does a prompt need, and what finds them cheaply?

Claim      Block-sparse attention of prompts: each 64 queries of a head read the blocks of 64 keys that hold nearly all of
           their weight, found by sums over antidiagonals of the scores (XAttention, Xu et al. 2025), or the keys and the
           distances that the last queries look at (MInference, Jiang et al. 2024), and long prompts are read faster.
           Cheaper to compute: every 8th query by itself, whose keys the others are believed to need too, or the means of
           each 8 queries.
Measure    The rise of the loss where the whole prompt was read so, and the share of keys that were read, of those that
           blocks of queries see. Chosen up to a part of the weight, by: the scores themselves ("known", the best that
           an estimate can be); antidiagonals of 8 by 8; every 8th query; means of 8; the keys and distances of the last 64
           of each 512 queries; and, by their number, a window (MInference's A shape). All read the first block, their own
           and the one before.
Data       A book: the last quarter of 4,096 positions. A part again: positions 512 to 1,023 once more, in place of the
           last 512 of the first half, and of all, which needs far keys.
Threshold  Choosing takes a 16th of the multiply-adds of attention, which is 0.67 of the time of a 1B and 0.49 of that of
           an 8B for prompts of 32k. So with 0.59 of the keys a 1B reads one 1.3 times as fast, and with 0.47 an 8B.
           Option where at most 0.47 of the keys cost at most 0.01 nats in all three cases; refuted where 0.59 cost more;
           else open.
"""

import lab
import numpy as np
from lab import percent
from model import Decoder, softmax

LENGTH, SLICE, BLOCK, STRIDE, LAST = 4096, 512, 64, 8, 64
SHARES = {"1B": 0.665, "8B": 0.49}  # of the time of a prompt of 32k that is attention
COST = 1 / 16
KNOWN, DIAGONALS, LINES, WINDOW = "known", "antidiagonals", "keys and distances", "a window"
EIGHTH, MEANS = "every 8th query", "means of 8 queries"
WEIGHTS = (0.95, 0.9, 0.8)
HOWS = {
    KNOWN: WEIGHTS,
    DIAGONALS: WEIGHTS,
    EIGHTH: WEIGHTS[:1],
    MEANS: WEIGHTS[:1],
    LINES: WEIGHTS,
    WINDOW: (0.5, 0.25),
}
LIMIT, OPTION, REFUTED = 0.01, 0.47, 0.59


def heaviest(weights, part, sure=False):
    """The fewest of each row that have this part of its weight, after those that are sure to be taken: a mask."""
    order = np.argsort(-np.where(sure, np.inf, weights), axis=1, kind="stable")
    w = np.take_along_axis(weights, order, axis=1)
    keep = np.zeros(weights.shape, bool)
    np.put_along_axis(keep, order, w.cumsum(axis=1) - w < part * w.sum(axis=1, keepdims=True), axis=1)
    return keep | sure


class Sparse(Decoder):
    """A decoder whose blocks of queries read keys chosen by `how`, up to `part` of the weight or of the blocks; None: all."""

    how, part, taken, seen = None, 1.0, 0, 0

    def chosen(self, q, k):
        """The keys that blocks of the queries [tokens, dim] of a head read, the last at its last key: a mask [blocks, keys]."""
        n, rows = len(k), len(q) // BLOCK
        own, ids = (n - len(q)) // BLOCK + np.arange(rows)[:, None], np.arange(n // BLOCK)
        sure = (ids == 0) | ((ids >= own - 1) & (ids <= own))
        if self.how == LINES:
            return self.lines(q, k) | np.repeat(sure, BLOCK, axis=1)
        if self.how == WINDOW:
            return np.repeat(sure | (ids > own + 1 - np.ceil(self.part * (own + 1))), BLOCK, axis=1)
        if self.how in (EIGHTH, MEANS):
            return np.repeat(heaviest(self.weights(q, k), self.part, sure), BLOCK, axis=1)
        size = 1 if self.how == KNOWN else STRIDE
        turned = q.reshape(-1, size, q.shape[1])[:, ::-1].reshape(len(q) // size, -1)
        scores = turned @ k.reshape(n // size, -1).T / np.float32(size)
        at = n // size - len(scores) + np.arange(len(scores))
        scores[at[:, None] < np.arange(n // size)] = -np.inf
        weights = softmax(scores).reshape(rows, BLOCK // size, n // BLOCK, BLOCK // size).sum(axis=(1, 3))
        return np.repeat(heaviest(weights, self.part, sure), BLOCK, axis=1)

    def weights(self, q, k):
        """What one of each 8 queries, or their mean, gives to blocks of keys: [blocks, blocks of keys]."""
        n, eights = len(k), q.reshape(-1, STRIDE, q.shape[1])
        scores = (eights[:, -1] if self.how == EIGHTH else eights.mean(axis=1)) @ k.T
        last = n - len(q) + STRIDE * np.arange(1, len(scores) + 1) - 1
        scores[last[:, None] < np.arange(n)] = -np.inf
        return softmax(scores).reshape(len(q) // BLOCK, BLOCK // STRIDE, n // BLOCK, BLOCK).sum(axis=(1, 3))

    def lines(self, q, k):
        """Keys, and distances from the queries, that have this part of the weight of the last queries."""
        n, at = len(k), np.arange(len(k) - LAST, len(k))
        p = softmax(np.where(at[:, None] >= np.arange(n), q[-LAST:] @ k.T, np.float32(-np.inf)))
        far = np.zeros(n, np.float32)
        for row, i in zip(p, at):
            far[: i + 1] += row[i::-1]
        keys, distances = heaviest(np.stack([p.sum(axis=0), far]), self.part)
        below = np.concatenate([[0], distances.cumsum()])  # how many of the chosen are less than this one
        first = np.arange(n - len(q), n, BLOCK)[:, None] - np.arange(n)
        return keys | (below[np.clip(first + BLOCK, 0, n)] > below[np.clip(first, 0, n)])

    def heads(self, layer, q, k, v, mask):
        out, group, at = np.empty_like(q), self.n_head // self.n_head_kv, len(k) - len(q)
        local = self.gemma and layer % 6 != 5
        low = max(0, at - self.window) if local else 0
        for h in range(self.n_head):
            qh, kh, vh = (np.ascontiguousarray(x) for x in (q[:, h], k[low:, h // group], v[low:, h // group]))
            if local:
                out[:, h] = softmax(np.where(mask[:, low:], qh @ kh.T, np.float32(-np.inf))) @ vh
                continue
            keep = self.chosen(qh, kh) if self.how else None
            for i in range(0, len(q), BLOCK):
                end = at + i + BLOCK
                these = slice(end) if keep is None else np.flatnonzero(keep[i // BLOCK, :end])
                s = qh[i : i + BLOCK] @ kh[these].T
                s[:, -BLOCK:][np.triu_indices(BLOCK, 1)] = -np.inf
                s -= s.max(axis=1, keepdims=True)
                np.exp(s, out=s)
                out[i : i + BLOCK, h] = s @ vh[these] / s.sum(axis=1, keepdims=True)
                self.taken, self.seen = self.taken + s.shape[1], self.seen + end
        return out

    def hidden(self, ids):
        """The last residual stream of tokens that follow those before, in slices."""
        return np.concatenate([self.forward(ids[i : i + SLICE])[-1] for i in range(0, len(ids), SLICE)])

    def prompt(self, text, count):
        """The losses of each case, and the share of keys that were read."""
        self.past, self.taken, self.seen = [()] * self.n_layer, 0, 0
        half, losses, stream, begin = len(text) // 2, {}, [], 0
        for end in (half, len(text)):
            stream.append(self.hidden(text[begin : end - count]))
            past = list(self.past)
            again = text[count : 2 * count]
            losses[f"again at {end}"] = self.losses(self.hidden(again), again)
            self.past = past
            stream.append(self.hidden(text[end - count : end]))
            begin = end
        scored = len(text) - len(text) // 4
        losses[f"the book at {len(text)}"] = self.losses(np.concatenate(stream)[scored - 1 :], text[scored - 1 :])
        return losses, self.taken / self.seen


def run(lab, r):
    model = Sparse(lab)
    length = min(512 if lab.quick else LENGTH, model.n_ctx // (2 * BLOCK) * 2 * BLOCK)
    count = max(length // 8, BLOCK)
    text = lab.windows(length, 2)[-1]  # not the first pages of a book
    base, _ = model.prompt(text, count)
    r.table("chosen by", "up to", "keys read", *(x for case in base for x in (case, "error of it")))
    r.row("all", "", "100 %", *(x for d in base.values() for x in (f"{d.mean():.4f}", "")))
    found = {}
    for how, parts in HOWS.items():
        for part in parts[:1] if lab.quick else parts:
            model.how, model.part = how, part
            losses, share = model.prompt(text, count)
            rise = {case: losses[case] - base[case] for case in base}
            cells = ((f"{d.mean():+.4f}", f"{d.std() / np.sqrt(len(d)):.4f}") for d in rise.values())
            r.row(how, percent(part), percent(share, 1), *(x for pair in cells for x in pair))
            found[how, part] = share, max(d.mean() for d in rise.values())
    find(r, found)


def find(r, found):
    """What decides, of the share of keys and the worst rise by (how, part)."""

    def least(how):
        return min((share for (h, _), (share, worst) in found.items() if h == how and worst <= LIMIT), default=None)

    def least_words(how):
        share = least(how)
        if share is None:
            rises = {f"{percent(s)} of the keys cost {w:.3f}": w for (h, _), (s, w) in found.items() if h == how}
            return "none up to 0.01 nats (" + min(rises, key=rises.get) + ")"
        return f"{percent(share)} of the keys"

    for key, how in (("antidiagonals", DIAGONALS), ("eighth", EIGHTH), ("means", MEANS), ("lines", LINES)):
        share = least(how)
        words = f"{least_words(how)} (the scores themselves: {least_words(KNOWN)}; a window: {least_words(WINDOW)})"
        if share is not None:
            times = (f"{1 / (1 - a + a * min(share + COST, 1)):.2f} times with {m}" for m, a in SHARES.items())
            words += f"; prompts of 32k at most {', '.join(times)}"
        r.find(
            key,
            f"blocks of 64 keys for 64 queries, by {how}, within 0.01 nats of the loss of a prompt",
            words,
            "option up to 47 % of the keys, refuted above 59 %",
            "refuted" if share is None or share > REFUTED else "option" if share <= OPTION else "open",
        )


if __name__ == "__main__":
    lab.main(__doc__, run)
