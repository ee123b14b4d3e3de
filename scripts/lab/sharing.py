#!/usr/bin/python3
"""Can layers share weights that were not trained to?

Claim      Cross-layer sharing: neighbouring layers use one set of weights, for half of the bytes.
Measure    The loss of the text where two neighbouring layers both have the first one's matrices, or the mean of
           both, for each pair.
Data       The model and a text; up to eight pairs, evenly far apart.
Threshold  option where some pair costs less than 1 % of the loss, refuted where none is below 5 %.
"""

import lab
import numpy as np
from lab import percent
from model import INPUTS, Decoder


def run(lab, r):
    model = Decoder(lab)
    windows = lab.windows(min(128 if lab.quick else 256, model.n_ctx), 2 if lab.quick else 4)
    base = model.loss(windows)
    r.table("layers that share", "the first's weights", "their mean")
    best = np.inf
    pairs = min(2 if lab.quick else 8, model.n_layer - 1)
    for i in sorted({int(x) for x in np.linspace(0, model.n_layer - 2, pairs).round()}):
        losses = []
        for mean in (False, True):
            for name in INPUTS:
                a, b = (model.w[f"blk.{i + k}.{name}"] for k in (0, 1))
                w = (a + b) / np.float32(np.sqrt(2)) if mean else a  # the size that unrelated matrices keep
                model.over.update({(i, name): w, (i + 1, name): w})
            losses.append(model.loss(windows))
            model.over = {}
        best = min(best, *losses)
        r.row(f"{i} and {i + 1}", *losses)
    r.row("none", base, base)
    cost = best / base - 1
    r.find(
        "sharing",
        "the best pair",
        f"loss {base:.2f} becomes {best:.2f}, {percent(cost)} more",
        "option below 1 %",
        "option" if cost < 0.01 else "refuted" if cost >= 0.05 else "open",
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
