#!/usr/bin/python3
"""Does a model answer before all of its layers are loaded?

Claim      Progressive loading: the first layers give a rough answer at once, which later layers refine; and layers
           in the middle can be left out.
Measure    The loss of the text with the first layers alone and the head behind them, and with one layer left out.
Data       The model and a text.
Threshold  adopted where half of the layers cost less than 10 % of the loss, refuted where they cost more than 50 %.
"""

import lab
import numpy as np
from model import Decoder


def run(lab, r):
    model = Decoder(lab)
    windows = lab.windows(min(128 if lab.quick else 256, model.n_ctx), 2 if lab.quick else 4)
    n = model.n_layer
    base = model.loss(windows)
    streams = [model.forward(w) for w in windows]
    first = {k: np.concatenate([model.losses(s[k], w) for s, w in zip(streams, windows)]).mean() for k in range(1, n)}
    step = max(1, n // 8)
    out = {k: model.loss(windows, layers=[i for i in range(n) if i != k]) for k in range(0, n, step)}
    r.table("layers", "loss")
    for k, loss in first.items():
        if k % step == 0 or k == n - 1:
            r.row(f"the first {k} of {n}", loss)
    for k, loss in out.items():
        r.row(f"all but {k}", loss)
    r.row("all", base)
    half, most = first[n // 2], first[max(1, 3 * n // 4)]
    verdict = "adopted" if half < 1.1 * base else "refuted" if half > 1.5 * base else "open"
    r.find(
        "partial",
        f"the first {n // 2} of {n} layers",
        f"loss {base:.2f} becomes {half:.2f} ({most:.2f} with three quarters of them, "
        f"{min(out.values()):.2f} with one left out, the best)",
        "adopt below 10 % more",
        verdict,
    )
    r.draw(
        "share of the layers", "loss", {"first layers only": ([k / n for k in first] + [1], [*first.values(), base])}
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
