#!/usr/bin/python3
"""Does an adapter that begins at the error of the codes recover more than one that begins at nothing?

Claim      Low rank as recovery by training (LoftQ, Li et al. 2023): what quantization to 2 bits takes from a model is given
           back by an adapter whose A and B begin as the best low rank of the error of the codes.
Measure    The held-out loss of the model in 2 bits with an adapter of rank 16, after 200 steps of "quern finetune" from
           both beginnings: A random and B zero, as the engine has it, and A and B of the singular values of what the codes
           lack. Both read the same examples in the same order. The second beginning is put in place of the numbers of a
           run's checkpoint, moments zeroed, so it has the few steps less that the run had made by then.
Data       The demo: stories told by rule. Other models: the text, in pieces; its last tenth is held out.
Threshold  adopted where at least a tenth of what the codes cost is won beside the other beginning, refuted where none is.
"""

import csv
import json
import os
import pathlib
import random
import signal
import struct
import subprocess
import sys
import tempfile

import lab
import numpy as np
from lab import ROOT, STORIES, golden_gguf, percent

KINDS = ["attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"]  # in a checkpoint's order
RANK, ALPHA = 16, 32


def examples(lab, learnt, held):
    """Texts to learn, and others."""
    if lab.path.name == "quern-demo.gguf" and lab.text == STORIES:
        sys.path.insert(0, str(ROOT / "scripts/demo"))
        from grammar import Story

        return [
            [Story(random.Random(seed + i)).text for i in range(n)]
            for seed, n in ((5_000_000, learnt), (7_000_000, held))
        ]
    text = lab.text.read_text(errors="replace")
    pieces = [text[i : i + 1200] for i in range(0, len(text), 1200)]
    split = len(pieces) * 9 // 10
    return pieces[:split][:learnt], pieces[split:][:held]


class Training:
    """A fine-tuning of one file by the engine, in a folder."""

    def __init__(self, lab, folder, model, steps, tokens, rate):
        self.lab, self.folder, self.model = lab, folder, model
        self.flags = [
            "--steps",
            steps,
            "-b",
            tokens,
            "--lr",
            rate,
            "--rank",
            RANK,
            "--alpha",
            ALPHA,
            "-t",
            1,
            "-c",
            min(512, lab.meta("context_length")),
        ]
        self.flags += [
            "--eval-every",
            max(steps // 4, 1),
            "--patience",
            0,
            "--compare",
            0,
            "--show",
            0,
            "--save-every",
            10 * steps,
        ]

    def command(self, name, *more):
        data = ["--data", self.folder / "learnt.jsonl", "--val-data", self.folder / "held.jsonl"]
        files = ["-o", self.folder / f"{name}.gguf", "--log", self.folder / f"{name}.csv"]
        return [str(a) for a in (self.lab.quern, "finetune", "-m", self.model, *data, *files, *self.flags, *more)]

    def losses(self, name, *more):
        """The held-out losses by step."""
        done = subprocess.run(self.command(name, *more), capture_output=True, text=True)
        if done.returncode:
            raise ValueError(done.stderr.strip())
        with open(self.folder / f"{name}.csv") as f:
            return {int(r["step"]): float(r["held_out_loss"]) for r in csv.DictReader(f) if r["held_out_loss"]}

    def checkpoint(self, name):
        """Interrupts a run at its beginning, and returns its checkpoint."""
        p = subprocess.Popen(self.command(name), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = ""
        for line in p.stdout:
            said += line
            if line.startswith("step 0 of"):
                os.kill(p.pid, signal.SIGINT)
        p.wait()
        path = self.folder / f"{name}.gguf.checkpoint.safetensors"
        if not path.exists():
            raise ValueError(f"the run left no checkpoint: {said.strip()}")
        return path


def put(path, numbers):
    """Puts numbers in place of those of a checkpoint, as if there had been no moments. Returns the steps that it had made."""
    with open(path, "r+b") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        head = json.loads(f.read(n))
        for name, data in (("numbers", numbers), ("best", numbers), ("first_moment", None), ("second_moment", None)):
            if name in head:
                begin, end = head[name]["data_offsets"]
                raw = bytes(end - begin) if data is None else data.astype("<f4").tobytes()
                if len(raw) != end - begin:
                    raise ValueError(f"{name} of the checkpoint has {end - begin} bytes, the adapter {len(raw)}")
                f.seek(8 + n + begin)
                f.write(raw)
        return json.loads(head["__metadata__"]["quern.finetune"])["taken"]


def beginning(lab, coded, names):
    """A and B of each matrix, whose product is what its codes lack, in one row."""
    all_of_it, left, whole = [], 0.0, 0.0
    for name in names:
        error = lab.tensor(name) - coded.tensor(name).astype(np.float32)
        u, s, vt = np.linalg.svd(error, full_matrices=False)
        root = np.sqrt(s[:RANK] / (ALPHA / RANK))
        all_of_it += [(root[:, None] * vt[:RANK]).ravel(), (u[:, :RANK] * root).ravel()]
        left, whole = left + float((s[RANK:] ** 2).sum()), whole + float((s**2).sum())
    return np.concatenate(all_of_it), left / whole


def run(lab, r):
    names = [f"blk.{i}.{k}.weight" for i in range(lab.meta("block_count")) for k in KINDS]
    if any(n not in lab.file.tensors for n in names):
        raise ValueError(f"{lab.path.name}: a matrix of {', '.join(KINDS)} is missing in some layer")
    kind = "Q2_K" if all(lab.file.tensors[n][0][1] % 256 == 0 for n in names) else "Q2_0"
    steps, tokens, rate = (4, 512, 2e-3) if lab.quick else (200, 512, 2e-3 if lab.parameters < 1e7 else 5e-4)
    with tempfile.TemporaryDirectory() as d:
        folder = pathlib.Path(d)
        for name, texts in zip(("learnt", "held"), examples(lab, 60 if lab.quick else 800, 2 if lab.quick else 32)):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
        layers = [a for n in KINDS for a in ("--tensor-type", f"blk.*{n}={kind}")]
        lab.call(
            "quantize",
            "--allow-requantize",
            "--method",
            "search",
            *layers,
            lab.path,
            folder / "coded.gguf",
            "Q8_0",
            1,
        )
        coded = golden_gguf.File((folder / "coded.gguf").read_bytes())
        train = Training(lab, folder, folder / "coded.gguf", steps, tokens, rate)
        whole = Training(lab, folder, lab.path, 1, tokens, 1e-9).losses("whole")[0]
        plain = train.losses("plain")
        numbers, left = beginning(lab, coded, names)
        done = put(train.checkpoint("loftq"), numbers)
        loftq = train.losses("loftq", "--resume")
    r.table("steps", "from nothing", "from the error of the codes", "the model before")
    for at in sorted({*plain, *loftq}):
        r.row(
            str(at),
            *(f"{x[at]:.4f}" if at in x and (x is plain or at > done) else "" for x in (plain, loftq)),
            f"{whole:.4f}",
        )
    cost, won = plain[0] - whole, plain[steps] - loftq[steps]
    r.find(
        "loftq",
        f"{kind}, rank {RANK}, {steps} steps of {tokens} tokens",
        f"loss {plain[0]:.4f} in 2 bits becomes {plain[steps]:.4f} from nothing, {loftq[steps]:.4f} from the error of the codes "
        f"(before {whole:.4f}): {percent(won / cost, 1)} of what the codes cost; low rank has {percent(1 - left)} of their error",
        "adopt above a tenth",
        "open" if cost <= 0 else "adopted" if won >= cost / 10 else "refuted" if won <= 0 else "open",
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
