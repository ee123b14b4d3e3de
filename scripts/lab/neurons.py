#!/usr/bin/python3
"""Does a token need only some of the neurons?

Claim      Fractal networks: a dense layer is a mixture of small experts that was not told so, and a token needs few
           of them.
Measure    Blocks of 16 neurons that hold 99 % of the energy of ffn_down's inputs, weighed by its columns, mean over
           tokens: in the order of the file, by mean energy, and clustered by which are active together, on one half
           of the text and counted on the other. And single columns, which no panel of weights can skip; and what
           four tokens of one pass need together.
Data       The feed-forward layers of six layers, on windows of the text.
Threshold  adopted where a fifth of the blocks is enough, refuted where more than half is needed.
"""

import lab
import numpy as np
from lab import percent
from model import reading

SIZE = 16


def share(energy, part=0.99):
    """Mean share of the columns of energy [tokens, n] that hold that part of a row's sum."""
    c = (-np.sort(-energy, axis=1)).cumsum(axis=1)
    return ((c < part * c[:, -1:]).sum(axis=1) + 1).mean() / energy.shape[1]


def in_blocks(energy, order):
    e = np.pad(energy[:, order], ((0, 0), (0, -energy.shape[1] % SIZE)))
    return e.reshape(len(e), -1, SIZE).sum(axis=2)


def clustered(energy):
    """An order in which each SIZE neurons are those most often active together, greedily."""
    active = (energy > np.quantile(energy, 0.7)).astype(np.float32)
    active -= active.mean(axis=0)
    together, left, order = active.T @ active, np.ones(energy.shape[1], bool), []
    total = energy.sum(axis=0)
    while left.any():
        j = int(np.argmax(np.where(left, total, -np.inf)))
        score = np.zeros(len(left))
        for _ in range(min(SIZE, int(left.sum()))):
            left[j] = False
            order.append(j)
            score += together[j]
            j = int(np.argmax(np.where(left, score, -np.inf)))
    return np.array(order)


def run(lab, r):
    found = []
    for (_, name), (w, x) in reading(lab, 2 if lab.quick else 6, 128 if lab.quick else 256).items():
        if name != "ffn_down":
            continue
        energy = (x**2) * (w**2).sum(axis=0)
        a, b = energy[: len(energy) // 2], energy[len(energy) // 2 :]
        orders = (np.arange(w.shape[1]), np.argsort(-a.mean(axis=0)), clustered(a))
        blocks = [in_blocks(b, o) for o in orders]
        four = blocks[2][: len(b) // 4 * 4].reshape(-1, 4, blocks[2].shape[1]).sum(axis=1)
        found.append([share(b), *(share(x) for x in blocks), share(four), share(blocks[2], 0.95)])
    one, *order, four, less = np.mean(found, axis=0)
    r.table("for 99 % of the energy", "share")
    for what, x in zip(
        (
            "single neurons",
            "blocks of 16, in the file's order",
            "by mean energy",
            "clustered",
            "clustered, four tokens of a pass",
        ),
        (one, *order, four),
    ):
        r.row(what, percent(x))
    r.row("clustered, for 95 %", percent(less))
    best = min(order)
    r.find(
        "fractal",
        "blocks of 16 neurons, the best order",
        f"{percent(best)} of the blocks for 99 % of the energy, {percent(one)} of single neurons, "
        f"{percent(four)} of blocks for four tokens",
        "adopt below 20 %",
        "adopted" if best < 0.2 else "refuted" if best > 0.5 else "open",
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
