#!/usr/bin/env python3
"""Trains the seeing demo: see_train.py OUT [--resume]

No picture is drawn twice. Until step TALKS only the encoder learns: to tell of each of its cells what thing covers it.
Hidden matrices are updated by Muon, the rest by AdamW. OUT/STEP.pt is its state after a step, of which --resume
takes the last.
"""

import argparse
import queue
import threading
import time
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

from see_draw import HUES, NAMES, Masks, render, scene
from see_model import Seeing
from see_talk import DESCRIBE, Talk, caption, vocabulary
from train import Muon
from vocabulary import END

BATCH = 64
STEPS = 2300
TALKS = 700  # from this step on the text model learns, too,
PAUSES = 900  # and from this one on every second step
# The rate at these steps, and on lines between them.
RATE = ((0, 0.0), (40, 1.0), (1800, 1.0), (1801, 0.7), (2100, 0.7), (STEPS, 0.47))
EASE = ((0, 1.0), (400, 1.0), (800, 0.0))  # of pictures
CELLS = ((0, 1.0), (TALKS, 1.0), (900, 0.77), (2100, 0.77), (STEPS, 0.65))  # what telling of cells counts for


class Pictures:
    """Batches of pictures, drawn beside the training. The number of a batch decides what is in it."""

    def __init__(self, talk, masks, first):
        self.talk, self.masks = talk, masks
        self.ready = queue.Queue(2)
        threading.Thread(target=self.draw, args=(first,), daemon=True).start()

    def draw(self, step):
        while True:
            self.ready.put(batch(self.talk, self.masks, np.random.default_rng((7, step)), BATCH, np.interp(step, *zip(*EASE))))
            step += 1


def batch(talk, masks, rng, n, ease):
    scenes = [scene(rng, ease) for _ in range(n)]
    pixels, cover = render(scenes, masks, rng, ease)
    texts = [talk.text(s[0], s[3], rng) for s in scenes]
    # Texts of a length go together.
    order = sorted(range(len(texts)), key=lambda j: len(texts[j][0]))
    groups = [(torch.tensor(some), *padded([texts[j] for j in some])) for some in np.array_split(order, 4)]
    return pixels, cells_of(scenes, cover), groups


def padded(texts):
    """Ids, and for each place the id that is to be said next, or -1."""
    t = max(len(ids) for ids, _ in texts) - 1
    ids = torch.zeros(len(texts), t, dtype=torch.long)
    want = torch.full_like(ids, -1)
    for j, (line, say) in enumerate(texts):
        ids[j, :len(line) - 1] = torch.tensor(line[:-1])
        want[j, :len(line) - 1] = torch.tensor([i if s else -1 for i, s in zip(line, say)][1:])
    return ids, want


def cells_of(scenes, cover):
    """What each cell shows most of: a name and a colour, -1 where none is plain."""
    index = lambda known, key: torch.tensor([[known.index(getattr(s[0][i], key)) if len(s[0]) > i else -1 for i in (0, 1)] for s in scenes])
    most = cover.max(1)
    take = lambda x: torch.gather(x, 1, most.indices)
    name = torch.where(most.values > 0.15, take(index(NAMES, "name")), torch.where(most.values > 0.02, -1, len(NAMES)))
    return name, torch.where(most.values > 0.15, take(index(HUES, "colour")), -1)


@torch.no_grad()
def describe(model, talk, pixels, prompt=None, most=24):
    """The likeliest text about each picture, from one prompt."""
    rows = model.rows(model.cells(pixels))
    ids = torch.tensor(prompt or talk.prompt(DESCRIBE[0])).repeat(len(pixels), 1)
    start = ids.shape[1]
    for _ in range(most):
        ids = torch.cat([ids, model.logits(model(ids, rows)[:, -1]).argmax(-1, keepdim=True)], 1)
    end = talk.v.ids[END]
    return [talk.v.decode(line[:line.index(end)] if end in line else line) for line in ids[:, start:].tolist()]


def judge(model, talk, masks, n=512, seed=99):
    """Which part of pictures that were not trained on is described in just the right words."""
    rng = np.random.default_rng(seed)
    scenes = [scene(rng) for _ in range(n)]
    pixels, _ = render(scenes, masks, rng)
    right = {0: [], 1: [], 2: []}
    wrong = []
    for p, some in zip(pixels.split(128), [scenes[i:i + 128] for i in range(0, n, 128)]):
        for said, s in zip(describe(model, talk, p), some):
            right[len(s[0])].append(said == caption(s[0], s[3]))
            if not right[len(s[0])][-1]:
                wrong.append((caption(s[0], s[3]), said))
    return {k: float(np.mean(x)) for k, x in right.items() if x}, wrong


def main():
    a = argparse.ArgumentParser()
    a.add_argument("out", type=Path)
    a.add_argument("--resume", action="store_true")
    a = a.parse_args()
    a.out.mkdir(exist_ok=True, parents=True)
    torch.manual_seed(1)
    torch.set_num_threads(1)  # and one more draws
    talk, masks = Talk(vocabulary()), Masks()
    model = Seeing(len(talk.v.tokens))
    matrix = lambda k, p: p.dim() == 2 and ("blk" in k or "input_projection" in k)
    eyes = [p for k, p in model.w.items() if matrix(k, p) and k.startswith("v/")]
    talks = [p for k, p in model.w.items() if matrix(k, p) and not k.startswith("v/")]
    patch = [model.get("v.patch_embd.weight"), model.get("v.patch_embd.bias")]
    others = [p for k, p in model.named_parameters() if not matrix(k, p) and "patch" not in k]
    muons = Muon(eyes, 0.02), Muon(talks, 0.02)
    adam = torch.optim.AdamW([{"params": others, "most": 3e-3}, {"params": patch, "most": 2e-4}], betas=(0.9, 0.98), weight_decay=0.0)
    first, spent = 0, 0.0
    if a.resume:
        s = torch.load(max(a.out.glob("*.pt"), key=lambda p: int(p.stem)))
        model.load_state_dict(s["model"])
        adam.load_state_dict(s["adam"])
        first, spent = s["step"], s["spent"]
        for m, was in zip(muons, s["muon"]):
            m.momentum = was
    else:
        rng = np.random.default_rng(8)
        model.whiten(render([scene(rng) for _ in range(1024)], masks, rng)[0])
    pictures = Pictures(talk, masks, first)
    start, means = time.time() - spent, {}
    for step in range(first, STEPS):
        scale = float(np.interp(step + 1, *zip(*RATE)))
        pixels, (name, hue), texts = pictures.ready.get()
        cells = model.cells(pixels)
        flat = cells.flatten(0, 1)
        losses = {"names": F.cross_entropy(model.names(flat), name.flatten(), ignore_index=-1),
                  "hues": F.cross_entropy(model.hues(flat), hue.flatten(), ignore_index=-1)}
        loss = (losses["names"] + 0.5 * losses["hues"]) * np.interp(step, *zip(*CELLS))
        speaks = step >= TALKS and (step % 2 == 0 or step < PAUSES)
        if speaks:
            rows = model.rows(cells)
            states = [model(ids, rows[who])[want >= 0] for who, ids, want in texts]
            losses["says"] = F.cross_entropy(model.logits(torch.cat(states)), torch.cat([want[want >= 0] for *_, want in texts]))
            loss = loss + 2 * losses["says"]
        loss.backward()
        for group in adam.param_groups:
            group["lr"] = group["most"] * scale
        torch.nn.utils.clip_grad_norm_(others, 1.0)
        adam.step()
        for m in muons[:1 + speaks]:
            m.step(scale)
        model.zero_grad()
        for k, l in losses.items():
            means[k] = 0.95 * means.get(k, l.item()) + 0.05 * l.item()
        if (step + 1) % 20 == 0:
            print(f"step {step + 1} {(time.time() - start) / (step + 1):.2f} s a step", *(f"{k} {l:.4f}" for k, l in means.items()), flush=True)
        if (step + 1) % 100 == 0 or step + 1 == STEPS:
            if step >= TALKS and (step + 1) % 200 == 0 or step + 1 == STEPS:
                right, wrong = judge(model, talk, masks, 2048 if step + 1 == STEPS else 256)
                print(f"minutes {(time.time() - start) / 60:.1f} right", right, *wrong[:6], sep="\n  ", flush=True)
            torch.save({"model": model.state_dict(), "adam": adam.state_dict(), "muon": [m.momentum for m in muons], "step": step + 1,
                        "spent": time.time() - start}, a.out / f"{step + 1}.pt")


if __name__ == "__main__":
    main()
