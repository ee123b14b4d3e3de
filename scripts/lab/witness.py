#!/usr/bin/python3
"""Does the forward pass of these experiments compute what the engine computes?

Claim      Of the lab itself: its losses are those of the engine.
Measure    The mean loss of the second halves of the same windows of the text, here in float32, and by quern
           perplexity, which rounds activations to 8 bits.
Data       Windows of 128 tokens.
Threshold  They differ by less than 1 %, or this fails: then no experiment with this model says anything.
"""

import re

import lab
import numpy as np
from model import Decoder

LENGTH = 128


def run(lab, r):
    model, count = Decoder(lab), 2 if lab.quick else 8
    windows = lab.windows(LENGTH, count)
    ours = model.loss(windows, LENGTH // 2 + 1)
    out = lab.call("perplexity", "-m", lab.path, "-f", lab.text, "-c", LENGTH, "--chunks", len(windows), "-t", 1)
    theirs = float(
        np.log(float(re.search(r"(?i)(?:PPL|perplexity)\D*([\d.]+)", out.strip().splitlines()[-1]).group(1)))
    )
    r.table("forward pass", "loss, nats a token")
    r.row("here", f"{ours:.4f}")
    r.row("the engine", f"{theirs:.4f}")
    r.find(
        "witness",
        f"{len(windows)} windows",
        f"loss {ours:.4f} here, {theirs:.4f} by the engine",
        "within 1 %",
        "adopted",
    )
    if abs(ours - theirs) > 0.01 * theirs:
        raise ValueError(f"the loss is {ours:.4f} here and {theirs:.4f} by the engine")


if __name__ == "__main__":
    lab.main(__doc__, run)
