#!/usr/bin/python3
"""Who carries the noise of 8-bit activations, and can a few of them have more bits?

Claim      Nearly all of the divergence from exact activations comes from few of them: massive ones of the first tokens, a
           few channels, the inputs of ffn_down, blocks with outliers. With 16 bits for those it is halved at 2 % more work.
Measure    The mean Kullback-Leibler divergence of predictions in the second halves of windows from those of exact
           activations, where these are rounded as the engine rounds them: to 8 bits, with a scale for 32 of them or for
           256, as the weights have. Of each kind of input alone, and of choices that are left exact (16 bits: what they
           add is a 250th). Cost: the multiply-adds of what is exact, of all: a second plane of 8 bits multiplies them
           again. Other forms: scales for 16, scales of least squared error, and a Hadamard transform of each block.
Data       The model and a text.
Threshold  adopted where a choice that costs 2 % or less has half of the divergence; refuted above three quarters.
"""

import lab
import numpy as np
from lab import percent
from golden_types import NAMES, TYPES
from model import INPUTS, Decoder

COST = 0.02  # of the multiply-adds
KINDS = ("attn_in", "attn_out", "ffn_in", "ffn_mid", "head")


def codes(b, d):
    """Blocks b with steps d, in 8 bits."""
    return np.clip(np.rint(b / d), -127, 127) * d


def step(b):
    return np.maximum(np.abs(b).max(axis=-1, keepdims=True) / np.float32(127), np.float32(1e-30))


def least(b):
    """Codes with the step, of nine, that has the least squared error."""
    tries = [codes(b, step(b) * np.float32(f)) for f in np.linspace(0.8, 1, 9)]
    errors = np.stack([((t - b) ** 2).sum(axis=-1) for t in tries])
    return np.take_along_axis(np.stack(tries), errors.argmin(axis=0)[None, ..., None], axis=0)[0]


def hadamard(b):
    n = b.shape[-1]
    h = np.ones((1, 1), np.float32)
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    h /= np.float32(np.sqrt(n))
    y = b @ h
    return codes(y, step(y)) @ h


class Rounding:
    """What products read, rounded: exact(layer, what, blocks) is a mask of blocks [tokens, blocks] that are not, or None."""

    def __init__(self, model, file):
        self.model, self.cols, self.doubled, self.all = model, {}, 0.0, 0.0
        for layer in range(model.n_layer + 1):
            for what in KINDS:
                self.cols[layer, what] = self.form(file, layer, what)
        self.exact = self.run = self.size = None

    def form(self, file, layer, what):
        """Activations of a scale, 0 where they are floats; and rows of the weights that read them."""
        if (what == "head") != (layer == self.model.n_layer):
            return 0, 0
        names = [f"blk.{layer}.{n}.weight" for n, w in INPUTS.items() if w == what]
        if what == "head":
            names = ["output.weight" if "output.weight" in file.tensors else "token_embd.weight"]
        kind = TYPES[NAMES[file.tensors[names[0]][1]]]
        return (0 if kind.weights == 1 else max(kind.weights, 32)), sum(file.tensors[n][0][0] for n in names)

    def read(self, layer, what, x):
        size, rows = self.cols[layer, what]
        if size == 0:
            return x
        size = min(size, self.size or size)
        pad = -x.shape[1] % size
        b = np.pad(x, ((0, 0), (0, pad))).astype(np.float32).reshape(len(x), -1, size)
        y = self.run(b) if self.run else codes(b, step(b))
        keep = None if self.exact is None else self.exact(layer, what, b)
        if keep is not None:
            y = np.where(keep[..., None], b, y)
            self.doubled += float(keep.mean()) * x.size * rows
        self.all += x.size * rows
        return y.reshape(len(x), -1)[:, : x.shape[1]].astype(x.dtype)


def log_softmax(z):
    z = z - z.max(axis=1, keepdims=True)
    return z - np.log(np.exp(z).sum(axis=1, keepdims=True))


def run(lab, r):
    model, file = Decoder(lab), lab.file
    n = min(128 if lab.quick else 512, model.n_ctx)
    windows = lab.windows(n, 1 if lab.quick else 2)
    rounding = Rounding(model, file)

    def predictions():
        return [log_softmax(model.logits(model.forward(w)[-1][n // 2 : -1])) for w in windows]

    model.read = None
    truth = predictions()
    model.read = rounding.read

    def divergence(exact=None, run=None, size=None):
        """KLD, and the share of multiply-adds that are done again."""
        rounding.exact, rounding.run, rounding.size, rounding.doubled, rounding.all = exact, run, size, 0.0, 0.0
        k = [(np.exp(t) * (t - p)).sum(axis=1, dtype=np.float64) for t, p in zip(truth, predictions())]
        return float(np.concatenate(k).mean()), rounding.doubled / max(rounding.all, 1)

    def whole(pick):
        return lambda layer, what, b: np.full(b.shape[:2], pick(layer, what))

    def outliers(times):
        def pick(layer, what, b):
            top = np.abs(b).max(axis=-1)
            return top > times * np.median(top, axis=1, keepdims=True)

        return pick

    def first(tokens):
        return lambda layer, what, b: np.broadcast_to((np.arange(len(b)) < tokens)[:, None], b.shape[:2])

    r.table("what is rounded", "KLD", "of all", "multiply-adds done again")
    base, _ = divergence()
    r.row("all", f"{base:.2e}", "1", "0 %")
    best = (np.inf, "", 0.0)

    def row(name, exact=None, run=None, size=None, choice=True):
        nonlocal best
        k, cost = divergence(exact, run, size)
        r.row(name, f"{k:.2e}", f"{k / base:.2f}", percent(cost, 1) if choice else "")
        if choice and cost <= COST:
            best = min(best, (k / base, name, cost))
        return k

    alone = {k: row(f"only {k}", whole(lambda layer, what, k=k: what != k), choice=False) for k in KINDS}
    for k in KINDS:
        row(f"all but {k}", whole(lambda layer, what, k=k: what == k))
    for part, name in ((0, "first"), (1, "last")):
        for layers in (1, 2, 4):
            here = range(layers) if part == 0 else range(model.n_layer - layers, model.n_layer)
            row(f"all but {name} {layers} layers", whole(lambda layer, what, h=here: layer in h))
    for tokens in (1, 4):
        row(f"all but the first {tokens} tokens", first(tokens))
    for times in (3, 4, 6, 10):
        row(f"all but blocks whose largest is above {times} medians", outliers(times))
    row("all, scales for 16 at most", size=16, choice=False)
    row("all, scales for 32 at most", size=32, choice=False)
    row("all, scales of least error", run=least, choice=False)
    row("all, transformed", run=hadamard, choice=False)
    ratio, name, cost = best
    top = max(alone, key=alone.get)
    r.find(
        "activations",
        "the best choice of 2 % of the work",
        f"{ratio:.2f} of the divergence of {base:.1e} is left ({name}, {percent(cost, 1)}); "
        f"the most of one kind is that of {top}, {alone[top] / base:.2f}",
        "adopted at a half, refuted above 0.75",
        "adopted" if ratio <= 0.5 else "refuted" if ratio > 0.75 else "option",
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
