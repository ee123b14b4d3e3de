#!/usr/bin/python3
"""Should each token choose the bits of the weights it reads?

Claim      Dynamic requantization: weights are kept as planes of bits, and a token reads more planes where its
           activations are large.
Measure    Relative squared error of outputs at a mean of 5 bits, half of the columns in 6 and half in 4: chosen by the
           token, column by column; in blocks of 32 columns, the least that a line of weights in memory can skip; or
           chosen once, from one half of the text, and counted on the other as all are. Beside it 5 bits for all.
Data       What the matrices of six layers read in windows of the text, where rows are whole pairs of blocks.
Threshold  option where the choice by blocks has an error below 0.9 of the better of 5 bits for all and the choice made
           once, neither of which needs a token's choice; refuted above.
"""

import lab
import numpy as np
from model import reading
from whitened import rounded


def run(lab, r):
    errors = []
    for w, x in reading(lab, 2 if lab.quick else 4, 128 if lab.quick else 256).values():
        if w.shape[1] % 64:
            continue  # half of the blocks of 32 would be no mean of 5 bits
        known, x = x[: len(x) // 2], x[len(x) // 2 :: 4]
        weight = np.sqrt((w**2).sum(axis=0))
        off = {b: w - rounded(w, b) for b in (4, 5, 6)}
        whole = ((x @ w.T) ** 2).sum()
        score, half = np.abs(x) * weight, x.shape[1] // 2

        def mixed(fine):
            return (x * fine) @ off[6].T + (x * ~fine) @ off[4].T

        by_column = score >= np.partition(score, -half, axis=1)[:, [-half]]
        blocks = (score**2).reshape(len(x), -1, 32).sum(axis=2)
        kept = blocks.shape[1] // 2
        by_block = np.repeat(blocks >= np.partition(blocks, -kept, axis=1)[:, [-kept]], 32, axis=1)
        once = np.sqrt((known**2).mean(axis=0)) * weight
        fixed = np.broadcast_to(once >= np.sort(once)[-half], x.shape)
        rows = [x @ off[b].T for b in (4, 5, 6)] + [mixed(m) for m in (by_column, by_block, fixed)]
        errors.append([(y**2).sum() / whole for y in rows])
    e = np.exp(np.log(np.array(errors)).mean(axis=0))
    r.table("bits", "error of outputs", "of that of 5 bits")
    for what, x in zip(
        ("4", "5", "6", "5, columns by the token", "5, blocks of 32 by the token", "5, columns chosen once"), e
    ):
        r.row(what, x, f"{x / e[1]:.2f}")
    ratio = e[4] / min(e[1], e[5])
    r.find(
        "requantize",
        "blocks of 32 columns by the token, 5 bits",
        f"{e[4] / e[1]:.2f} times the error of 5 bits for all, where columns chosen once have {e[5] / e[1]:.2f}, "
        f"and single columns by the token {e[3] / e[1]:.2f}",
        "option below 0.9 of what needs no token",
        "option" if ratio < 0.9 else "refuted",
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
