#!/usr/bin/python3
"""Does a second plane of 8 bits for a few blocks of activations halve the noise of the first?

Claim      The noise of activations in 8 bits is that of few blocks of 32 with large numbers. Where 1 to 3 % of them have
           a second plane of 8 bits, which is multiplied again, half of the divergence is left.
Measure    The Kullback-Leibler divergence of predictions in the second halves of windows from those of exact activations.
           A block with a second plane counts as exact (16 bits add a 250th). Where a scale is for 256, that of the first
           plane is made for the blocks of 32 without a second. They are chosen for each token: where the largest number
           is above so many medians of its row; where the most error of the outputs is saved for a multiplication, of
           their squares, by the squares of the weights' columns; and by that with a price of an error, from the
           divergence that each kind of input has in each quarter of the layers. How many: so that 1, 2 and 3 % of
           multiply-adds are done again in the first window, which has the prices too.
Data       The first four windows of the text, of up to 512 tokens; divergences are of the last three.
Threshold  option where a choice for 2 % of the first window leaves half or less, refuted where all of 3 % leave more;
           else open.
"""

import activations
import lab
import numpy as np
from activations import KINDS, log_softmax
from lab import percent
from model import INPUTS, Decoder

BLOCK, SHARES = 32, (0.01, 0.02, 0.03)
MEDIANS, ERRORS, PRICES = "medians of the row", "errors of outputs", "errors at their price"


class Planes(activations.Rounding):
    """What products read, in 8 bits, where some blocks of 32 have a second plane of them.

    how, limit   which have one: those for which it is worth more than the limit, by this choice
    only         the layers and kinds that are rounded; None: all
    worth        where it is a list, reads add what second planes are worth, and their multiply-adds
    lacks        the squared errors of outputs, of their squares, summed over layers and kinds, a token
    """

    def __init__(self, model, file):
        super().__init__(model, file)
        self.how, self.limit, self.only, self.worth, self.lacks, self.price = MEDIANS, np.inf, None, None, 0.0, {}
        self.squares = {}  # of the columns of the weights
        for (layer, what), (size, _) in self.cols.items():
            if size:
                matrices = [model.matrix(layer, n) for n, w in INPUTS.items() if w == what]
                if what == "head":
                    matrices = [model.w.get("output", model.w["token_embd"])]
                sums = sum((w * w).sum(axis=0) for w in matrices)
                self.squares[layer, what] = np.pad(sums, (0, -len(sums) % size)).reshape(-1, size // BLOCK, BLOCK)

    def group(self, layer, what):
        return what, 4 * layer // self.model.n_layer

    def values(self, layer, what, b, top, order):
        """What a second plane is worth for the blocks of each scale, from the largest down; later ones need those before."""
        tops = np.take_along_axis(top, order, axis=-1)
        if self.how == MEDIANS:
            return tops / np.maximum(np.median(top, axis=(1, 2), keepdims=True), 1e-30)
        squares = self.squares[layer, what]
        heavy = np.take_along_axis(np.broadcast_to(squares.sum(axis=-1), order.shape), order, axis=-1)
        errors = (tops / 127) ** 2 / 12 * heavy[..., ::-1].cumsum(axis=-1)[..., ::-1]  # where those before have one
        errors = errors / ((b * b * squares).sum(axis=(1, 2, 3)).reshape(-1, 1, 1) + 1e-30)
        self.lacks += float(errors[..., 0].sum(axis=1).mean())
        count = np.arange(1, order.shape[-1] + 1)
        saved = errors[..., :1] - np.concatenate([errors[..., 1:], np.zeros_like(errors[..., :1])], axis=-1)
        value = saved / (count * BLOCK * self.cols[layer, what][1])
        value = value * self.price.get(self.group(layer, what), 0.0) if self.how == PRICES else value
        return np.maximum.accumulate(value[..., ::-1], axis=-1)[..., ::-1]  # one may pay with those behind it

    def read(self, layer, what, x):
        size, rows = self.cols[layer, what]
        if size == 0 or self.only and (layer, what) not in self.only:
            return x
        b = np.pad(x, ((0, 0), (0, -x.shape[1] % size))).astype(np.float32).reshape(len(x), -1, size // BLOCK, BLOCK)
        top = np.abs(b).max(axis=-1)
        order = np.argsort(-top, axis=-1, kind="stable")
        value = self.values(layer, what, b, top, order)
        if self.worth is not None:
            self.worth.append((value.ravel(), np.full(value.size, float(rows * BLOCK))))
        marked = np.zeros(top.shape, bool)
        np.put_along_axis(marked, order, value > self.limit, axis=-1)
        self.doubled += float(marked.sum()) * BLOCK * rows
        self.all += float(marked.size) * BLOCK * rows
        y = activations.codes(b, activations.step(np.where(marked, 0, top).max(axis=-1)[..., None, None]))
        y = np.where(marked[..., None], b, y)
        return y.reshape(len(x), -1)[:, : x.shape[1]].astype(x.dtype)


def run(lab, r):
    model = Decoder(lab)
    planes = Planes(model, lab.file)
    if not planes.squares:
        raise ValueError(f"{lab.path.name}: its weights are floats, which read activations as they are")
    n = min(128 if lab.quick else 512, model.n_ctx)
    windows = lab.windows(n, 2 if lab.quick else 4)

    def predictions(window):
        return log_softmax(model.logits(model.forward(window)[-1][n // 2 : -1]))

    model.read = None
    truth = [predictions(w) for w in windows]
    model.read = planes.read

    def divergence(begin, end):
        """KLD in some windows, and the share of multiply-adds that are done again."""
        planes.doubled = planes.all = planes.lacks = 0.0
        k = [(np.exp(t) * (t - predictions(w))).sum(axis=1) for w, t in zip(windows[begin:end], truth[begin:end])]
        return float(np.concatenate(k).mean(dtype=np.float64)), planes.doubled / planes.all

    groups = {}
    for layer, what in planes.squares:
        groups.setdefault(planes.group(layer, what), set()).add((layer, what))
    planes.how = ERRORS
    for group, planes.only in groups.items():
        k, _ = divergence(0, 1)
        planes.price[group] = max(k, 0.0) / max(planes.lacks, 1e-30)
    planes.only = None
    base, _ = divergence(1, None)
    r.table("second planes by", "of the first window", "multiply-adds done again", "KLD", "of that without")
    r.row("none", "", "0 %", f"{base:.2e}", "1")
    left = {}
    for planes.how in (MEDIANS, ERRORS, PRICES):
        planes.limit, planes.worth = np.inf, []
        divergence(0, 1)
        value, work = (np.concatenate(x) for x in zip(*planes.worth))
        planes.worth, order = None, np.argsort(-value)
        value, done = value[order], work[order].cumsum()
        for share in SHARES:
            planes.limit = value[np.searchsorted(done, share * done[-1])]
            k, cost = divergence(1, None)
            left[share] = min(left.get(share, (np.inf,)), (k / base, planes.how, cost))
            r.row(planes.how, percent(share), percent(cost, 1), f"{k:.2e}", f"{k / base:.2f}")
    said = "; ".join(f"{x:.2f} with {percent(cost, 1)} done again, by {how}" for x, how, cost in left.values())
    r.find(
        "planes",
        "the best choices of 1, 2 and 3 % of the work",
        f"of the divergence of {base:.1e} is left: {said}",
        "option at a half with 2 %, refuted above that with 3 %",
        "option" if left[0.02][0] <= 0.5 else "refuted" if left[0.03][0] > 0.5 else "open",
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
