#!/usr/bin/env python3
"""Trains the demo: train.py CORPUS OUT [--resume]

Hidden matrices are updated by Muon (Keller Jordan and others, 2024), the rest by AdamW. At last the rate falls to
nothing, and matrices are rounded as the file will hold them, so that the model learns around its own quantisation.
OUT/last.pt can be resumed, OUT/best.pt is the one with the least validation loss on STOP.
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch

import words
from model import Demo
from vocabulary import ASSISTANT, BEGIN, LETTERS, SYSTEM, USER, Vocabulary

TOKENS = 16384  # of a step
STEPS = 1325
ROUNDS = 900  # from this step on matrices are rounded
# The rate at these steps, and on lines between them. In the noise of a high one copying is not learned.
RATE = ((0, 0.0), (30, 1.0), (299, 1.0), (300, 0.3), (760, 0.3), (1200, 0.0), (1201, 0.15), (STEPS, 0.0))
# What follows is by step: from this one on.
LENGTHS = ((0, 384), (ROUNDS, 512), (1140, 1024), (1200, 512), (STEPS - 25, 1024))  # of a row
# Which part of a step is pieces said over and over, and what names, and then kinds and things, count for beside other
# tokens. All teach to copy from what was said before, which is how names are kept and questions heard. Who said what is
# too small a part of the loss by itself.
COPIES = ((0, 0.0), (300, 0.1), (600, 0.0))
NAMES = ((0, 1.0), (360, 8.0), (760, 2.0))
SUBJECTS = ((0, 1.0), (680, 4.0), (1200, 8.0))
STOP = ("told", "chat")  # the validation sets that say which checkpoint is best: what the demo is for
# How much of a step comes from each set. At last only from those that keep their thread: a greedy "Once upon a time" was
# the sampled stories' before, who all begin alike.
MIX = (
    (0, {"train_told": 0.45, "train_chat": 0.43, "train_sampled": 0.07, "train_real": 0.05}),
    (1040, {"train_told": 0.5, "train_chat": 0.5}),
    (1200, {"train_told": 0.35, "train_chat": 0.65}),
)
ANSWERS = 1040  # from this step on what users say is not learned, or a text from nothing begins with a question


class Documents:
    """Documents in a random order, without end."""

    def __init__(self, path, rng):
        z = np.load(path)
        self.ids, self.starts, self.rng = z["ids"], z["starts"], rng
        self.order = iter(())

    def row(self, length):
        """Returns length + 1 ids: whole documents, but for the last, whose end is left out."""
        parts, have = [], 0
        while have <= length:
            i = next(self.order, None)
            if i is None:
                self.order = iter(self.rng.permutation(len(self.starts) - 1))
                continue
            parts.append(self.ids[self.starts[i]:self.starts[i + 1]])
            have += len(parts[-1])
        return np.concatenate(parts)[:length + 1].astype(np.int64)

    def copies(self, length):
        """Returns length + 1 ids: a piece of a row, again and again."""
        n = self.rng.integers(8, 128)
        return np.resize(self.row(length)[self.rng.integers(length - n):][:n], length + 1)


def rows(documents, share, copies, length):
    """A step's rows [n, length + 1], each of one set."""
    count = lambda part: round(TOKENS * part / length)
    out = [documents[name].row(length) for name in share for _ in range(count(share[name] * (1 - copies)))]
    out += [documents["train_told"].copies(length) for _ in range(count(copies))]
    return torch.from_numpy(np.stack(out))


def answers(targets, v):
    """Returns targets with -1 for what is no story and no answer: from a role that asks to the one that answers."""
    roles, asks = [v.ids[BEGIN], v.ids[ASSISTANT]], [v.ids[USER], v.ids[SYSTEM]]
    at = torch.arange(targets.shape[1]).expand_as(targets)
    last = lambda ids: torch.where(torch.isin(targets, torch.tensor(ids)), at, -torch.ones_like(at)).cummax(1).values
    asked, begun = last(asks), last(roles)
    return targets.masked_fill((asked >= 0) & (asked >= begun) | (begun == at), -1)


def at(step, table):
    return [value for start, value in table if step >= start][-1]


@torch.no_grad()
def validate(model, sets, v):
    """The mean loss of each set, of whole documents that begin at position 0; of conversations, of the answers."""
    losses = {}
    for name, docs in sets.items():
        total = n = 0
        for i in range(0, len(docs), 16):
            some = docs[i:i + 16]
            ids = torch.zeros(len(some), max(map(len, some)), dtype=torch.long)
            want = torch.full_like(ids, -1)
            for j, d in enumerate(some):
                ids[j, :len(d)] = d
                want[j, :len(d) - 1] = d[1:]
            want = answers(want, v)
            count = int((want >= 0).sum())
            total += float(model(ids, want)) * count
            n += count
        losses[name.removeprefix("valid_")] = total / n
    return losses


class Muon:
    """Momentum whose every update is made orthogonal, by five steps of a Newton-Schulz iteration."""

    def __init__(self, params, rate):
        self.params, self.rate = list(params), rate
        self.momentum = [torch.zeros_like(p) for p in self.params]

    @torch.no_grad()
    def step(self, scale):
        for p, m in zip(self.params, self.momentum):
            m.mul_(0.95).add_(p.grad)
            u = orthogonal(p.grad + 0.95 * m)
            p.mul_(1 - 0.05 * self.rate * scale)
            p.add_(u, alpha=-self.rate * scale * max(1, p.shape[0] / p.shape[1]) ** 0.5)


def orthogonal(g):
    x = g / (g.norm() + 1e-7)
    if flip := x.shape[0] > x.shape[1]:
        x = x.T
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
    return x.T if flip else x


def main():
    a = argparse.ArgumentParser()
    a.add_argument("corpus", type=Path)
    a.add_argument("out", type=Path)
    a.add_argument("--resume", action="store_true")
    a = a.parse_args()
    a.out.mkdir(exist_ok=True)
    torch.manual_seed(1)
    torch.set_num_threads(2)
    rng = np.random.default_rng(1)
    v = Vocabulary.load(a.corpus / "merges.json")
    model = Demo(len(v.tokens))
    ids = lambda group: [v.ids[t] for n in group for t in (LETTERS[32] + n, n) if t in v.ids]
    names = ids(words.GIRLS + words.BOYS + words.PETS)
    subjects = ids(["girl", "boy"] + sum([*words.KINDS.values(), *words.THINGS.values()], []))
    weight = torch.ones(len(v.tokens))
    hidden = [p for k, p in model.w.items() if p.dim() == 2 and "blk" in k]
    others = [p for k, p in model.w.items() if not (p.dim() == 2 and "blk" in k)]
    muon = Muon(hidden, 0.02)
    adam = torch.optim.AdamW(others, lr=4e-3, betas=(0.9, 0.98), weight_decay=0.0)
    train = {name: Documents(a.corpus / f"{name}.npz", rng) for name in at(0, MIX)}
    valid = {}
    for path in sorted(a.corpus.glob("valid_*.npz")):
        z = np.load(path)
        valid[path.stem] = [torch.from_numpy(z["ids"][i:j].astype(np.int64))[:1024]
                            for i, j in zip(z["starts"][:60], z["starts"][1:61])]
    first, best, spent = 0, math.inf, 0.0
    if a.resume:
        s = torch.load(a.out / "last.pt")
        model.load_state_dict(s["model"])
        adam.load_state_dict(s["adam"])
        muon.momentum = s["muon"]
        first, best, spent = s["step"], s["best"], s["spent"]
        rng = np.random.default_rng(first)
        for d in train.values():
            d.rng = rng
    start = time.time() - spent
    log = (a.out / "log.txt").open("a")
    running = None
    for step in range(first, STEPS):
        scale = np.interp(step + 1, *zip(*RATE))
        model.rounded = step >= ROUNDS
        length = at(step, LENGTHS)
        weight[subjects], weight[names] = at(step, SUBJECTS), at(step, NAMES)
        batch = rows(train, at(step, MIX), at(step, COPIES), length)
        loss = 0.0
        micro = batch.split(4096 // length)
        for part in micro:
            targets = part[:, 1:].contiguous()
            if step >= ANSWERS:
                targets = answers(targets, v)
            l = model(part[:, :-1], targets, weight) * (len(part) / len(batch))
            l.backward()
            loss += float(l)
        for group in adam.param_groups:
            group["lr"] = 4e-3 * scale
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        adam.step()
        muon.step(scale)
        model.zero_grad()
        running = loss if running is None else 0.95 * running + 0.05 * loss
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} loss {running:.4f} {(time.time() - start) / (step + 1):.2f} s a step", flush=True)
        if (step + 1) % 40 == 0 or step + 1 == STEPS:
            losses = validate(model, valid, v)
            mean = sum(losses[k] for k in STOP) / len(STOP)
            line = f"step {step + 1} minutes {(time.time() - start) / 60:.1f} train {running:.4f} valid {mean:.4f} " + \
                " ".join(f"{k} {x:.4f}" for k, x in losses.items())
            print(line, flush=True)
            print(line, file=log, flush=True)
            state = {"model": model.state_dict(), "adam": adam.state_dict(), "muon": muon.momentum, "step": step + 1,
                     "best": min(best, mean), "spent": time.time() - start, "losses": losses}
            torch.save(state, a.out / "last.pt")
            if mean < best:
                best = mean
                torch.save({"model": model.state_dict(), "step": step + 1, "losses": losses}, a.out / "best.pt")


if __name__ == "__main__":
    main()
