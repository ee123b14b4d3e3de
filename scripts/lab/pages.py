#!/usr/bin/python3
"""What does generation lose that reads a budget of keys, in pages that bounds of their keys find?

Claim      Query-aware pages (Quest, Tang et al. 2024): of a long context each KV head reads the pages with the largest
           upper bound of a score, by the least and the largest of each channel of their keys.
Measure    The rise of the loss of tokens that are generated after a prompt that was read in full. The query heads of a
           KV head read the same pages: the first, those of the last 64 positions, and the best up to the budget, of 16
           or of 64 positions, by the sum over the heads of the softmax of their bounds; by the mean key of a page; by
           the scores themselves; or a window. With "from layer 2" the first two layers read all, as Quest's.
Data       A book: the last sixteenth of the model's context, at most 8,192 positions, after all of it before; as many
           tokens at the end of its first half, and there a part of the beginning again, which needs far keys.
Threshold  Option where half of the keys cost at most 0.01 nats and an eighth at most 0.03, in all cases, and a window
           of half of them costs more; refuted where half of them cost more than 0.03; else open.
"""

import lab
import numpy as np
from model import Decoder, softmax

SLICE, RECENT = 256, 64
NEXT, AGAIN = "the book", "a part again"
HOWS = (
    ("bounds", 16, 0),
    ("a window", 16, 0),
    ("bounds", 64, 0),
    ("known", 16, 0),
    ("means", 16, 0),
    ("bounds", 16, 2),
)


class Pages(Decoder):
    """A decoder whose queries read `budget` keys in pages chosen by `how`; None: all."""

    how, page, budget, first = None, 16, 0, 0

    def chosen(self, q, k, scores):
        """The positions that the query heads [heads, tokens] of one KV head read, the last queries at its last keys."""
        n, size = len(k), self.page
        at = n - q.shape[1] + np.arange(q.shape[1])
        own, ids = at[:, None] // size, np.arange(-(-n // size))
        seen = ids <= own
        if self.how == "a window":
            best = -(own - ids).astype(np.float32)
        else:
            full = np.concatenate([k, np.repeat(k[-1:], len(ids) * size - n, axis=0)]).reshape(-1, size, k.shape[1])
            if self.how == "bounds":
                low, high = full.min(axis=1), full.max(axis=1)
                best = np.maximum(q, 0) @ high.T + np.minimum(q, 0) @ low.T
            elif self.how == "means":
                best = q @ full.mean(axis=1).T
            else:
                pad = np.full((*scores.shape[:2], len(ids) * size - n), -np.inf, np.float32)
                best = np.concatenate([scores, pad], axis=2).reshape(*scores.shape[:2], -1, size).max(axis=3)
            best = softmax(np.where(seen, best, -np.inf)).sum(axis=0)
        best = np.where((ids == 0) | (ids > own - RECENT // size), np.inf, best)
        best = np.where(seen, best, -np.inf)
        few = max(self.budget // size, 2)
        if few >= len(ids):
            return None
        least = np.partition(best, len(ids) - few, axis=1)[:, len(ids) - few, None]
        return np.repeat(best >= least, size, axis=1)[:, :n]

    def heads(self, layer, q, k, v, mask):
        out, group = np.empty_like(q), self.n_head // self.n_head_kv
        for h in range(self.n_head_kv):
            these = slice(h * group, (h + 1) * group)
            qh, kh, vh = q[:, these].transpose(1, 0, 2), np.ascontiguousarray(k[:, h]), np.ascontiguousarray(v[:, h])
            scores = np.where(mask, qh @ kh.T, np.float32(-np.inf))
            few = self.chosen(qh, kh, scores) if self.how and layer >= self.first else None
            if few is not None:
                scores[:, ~few] = -np.inf
            out[:, these] = (softmax(scores) @ vh).transpose(1, 0, 2)
        return out

    def after(self, past, ids):
        """The losses of tokens, but the first, whose context has these keys and values."""
        self.past = list(past)
        hidden = [self.forward(ids[i : i + SLICE])[-1] for i in range(0, len(ids), SLICE)]
        return self.losses(np.concatenate(hidden), ids)


def run(lab, r):
    model = Pages(lab)
    length = min(256 if lab.quick else 8192, model.n_ctx)
    count, half = length // 16, length // 2
    text = lab.windows(length, 2)[-1]  # not the first pages of a book
    past, at, rise = [()] * model.n_layer, 0, {}
    r.table("positions", "what comes", "budget", "pages", "chosen by", "loss", "rise", "error of it")
    for end, what, hows in ((half, NEXT, HOWS[:2]), (half, AGAIN, HOWS), (length, NEXT, HOWS)):
        model.how, model.past = None, list(past)
        for i in range(at, end - count, SLICE):
            model.forward(text[i : min(i + SLICE, end - count)])
        at, past = end - count, list(model.past)
        new = text[end - count : end] if what == NEXT else text[count : 2 * count]
        base = model.after(past, new)
        r.row(f"{end}", what, "all", "", "", f"{base.mean():.4f}", "", "")
        for how, page, first in hows:
            for part in (2, 4, 8):
                model.how, model.page, model.budget, model.first = how, page, end // part, first
                d = model.after(past, new) - base
                loss, rise[end, what, how, page, first, part] = base.mean() + d.mean(), d.mean()
                name, error = how + (" from layer 2" if first else ""), d.std() / np.sqrt(len(d))
                r.row(
                    f"{end}", what, f"{end // part}", f"{page}", name, f"{loss:.4f}", f"{d.mean():+.4f}", f"{error:.4f}"
                )
    find(r, rise, half, length)


def find(r, rise, half, length):
    """What decides, of rises by (positions, what comes, how, page, first, part of the keys)."""

    def costs(end, what):
        by, window = (
            ", ".join(f"{rise[end, what, how, 16, 0, part]:+.3f}" for part in (2, 4, 8))
            for how in ("bounds", "a window")
        )
        return f"{by} nats with a half, a quarter, an eighth of {end} keys (a window {window})"

    cases = (half, NEXT), (half, AGAIN), (length, NEXT)
    worst = [max(rise[end, what, "bounds", 16, 0, part] for end, what in cases) for part in (2, 8)]
    needed = rise[length, NEXT, "a window", 16, 0, 2] > 0.01
    verdict = "refuted" if worst[0] > 0.03 else "open" if worst[0] > 0.01 or worst[1] > 0.03 or not needed else "option"
    limit = "option up to +0.01 with half and +0.03 with an eighth, where a window of half costs more than that"
    r.find("pages", "a book, by bounds of 16 keys", f"{costs(half, NEXT)}; {costs(length, NEXT)}", limit, verdict)
    r.find("again", "what came before, by bounds of 16 keys", costs(half, AGAIN), limit, verdict)


if __name__ == "__main__":
    lab.main(__doc__, run)
