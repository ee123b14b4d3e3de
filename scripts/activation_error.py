#!/usr/bin/python3
"""What 8-bit activations cost: one scale per 256 of them, and one per 32.

Needs Python 3.9 and NumPy (Debian: python3-numpy), and nothing else.

    activation_error.py [-n TOKENS] [--original F16.gguf] [--outlier S] TEXT MODEL.gguf ...

Every model runs over the same windows of the text three times in float64: with
activations as they are, and rounded to 8 bits with a scale per 256 and per 32
wherever the weights of a product are quantized. So only the rounding differs;
attention and its keys and values stay in float64. --original is the model before
its weights were quantized, to show what that cost. --outlier stands for larger
models, whose activations have channels far larger than the rest: S is multiplied
into the first channel that every block's norms give, and divided out of the weights
that read it, so that only rounding sees a difference. For models whose tokenizer is
SentencePiece's, as golden_forward.py runs them. Prints a Markdown table:

    error   rms of what rounding changed in activations, of their own rms, in per cent
    KL      mean Kullback-Leibler divergence of the next token's distribution from
            that of float activations, in 1e-6 nats, with its standard error; that of
            the weights is the divergence from the original of the float activations
    ppl     perplexity
    top-1   of how many tokens the likeliest next one is the same, in per cent
"""

import argparse
import pathlib
import struct
import sys

sys.dont_write_bytecode = True  # leave no cache beside the sources

import numpy as np  # noqa: E402

from golden_forward import Model  # noqa: E402
from golden_gguf import File  # noqa: E402
from golden_spm import BOS, UNKNOWN, Vocab  # noqa: E402
from golden_types import NAMES, TYPES  # noqa: E402

BLOCKS = (256, 32)  # activations to a scale
WINDOW = 256  # tokens of a window, BOS the first
CHARS = 8 * WINDOW  # of text, enough for a window

# What reads the norms of a block.
READERS = {
    "attn_norm": ["attn_q", "attn_k", "attn_v"],
    "ffn_norm": ["ffn_gate", "ffn_up", "ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps"],
}


def rounded(x, block):
    """x after a trip through 8 bits, a scale to `block` values: struct act8 of csrc/kernels.h."""
    cols = x.shape[-1]
    pad = [(0, 0)] * (x.ndim - 1) + [(0, -cols % block)]
    b = np.pad(x, pad).astype(np.float32).reshape(-1, block)
    top = np.abs(b).max(axis=1, keepdims=True)
    inv = np.divide(np.float32(127), top, out=np.zeros_like(top), where=top > 2.0**-120)
    d = np.where(inv > 0, top / np.float32(127), np.float32(0)).astype(np.float64)
    return (d * np.rint(b * inv)).reshape(*x.shape[:-1], -1)[..., :cols]


class Rounding(Model):
    """A model whose products with quantized weights read rounded activations, while block is set."""

    def __init__(self, file):
        super().__init__(file)
        types = {name: TYPES[NAMES[t]] for name, (_, t, _) in file.tensors.items()}
        self.quantized = {name for name, t in types.items() if t.weights > 1}
        self.block = None

    def outlier(self, s):
        """Makes the first channel after every norm s times as large, and the function the same."""
        for il in range(self.n_layer):
            for norm, readers in READERS.items():
                self.w[f"blk.{il}.{norm}.weight"][0] *= s
                for name in readers:
                    if f"blk.{il}.{name}.weight" in self.w:
                        self.w[f"blk.{il}.{name}.weight"][..., 0] /= s

    def read(self, name, x):
        if self.block is None or name not in self.quantized:
            return x
        y = rounded(x, self.block)
        self.noise += ((y - x) ** 2).sum()
        self.signal += (x**2).sum()
        return y

    def run(self, windows, block):
        """log p of every next token [tokens, n_vocab], and the relative error of activations."""
        self.block, self.noise, self.signal = block, 0.0, 0.0
        rows = []
        for ids in windows:
            self.reset()
            logits = self.forward(ids[:-1])
            top = logits.max(axis=1, keepdims=True)
            rows.append(logits - top - np.log(np.exp(logits - top).sum(axis=1, keepdims=True)))
        return np.concatenate(rows), (self.noise / self.signal) ** 0.5 if self.signal else 0.0


class FileVocab(Vocab):
    """The vocabulary of a GGUF file."""

    def __init__(self, meta):
        def key(name):
            return meta.get(f"tokenizer.ggml.{name}")

        if key("model") != "llama" or key("add_space_prefix") is False:
            raise ValueError("the tokenizer is not SentencePiece's with a space put before the text")
        if key("bos_token_id") != BOS or key("unknown_token_id") != UNKNOWN:
            raise ValueError(f"BOS is not token {BOS}, or the unknown token not {UNKNOWN}")
        self.pieces, self.scores = key("tokens"), key("scores")
        self.ids = {p: i for i, p in enumerate(self.pieces)}
        self.with_bytes = "<0x00>" in self.ids


def windows_of(text, vocab, n):
    """n tokens of a text in windows that start at lines evenly far apart."""
    count = n // WINDOW
    out = []
    for i in range(count):
        at = len(text) * i // count
        start = text.rfind("\n", 0, at) + 1
        ids = vocab.encode(text[start : start + CHARS])[:WINDOW]
        if len(ids) < WINDOW or UNKNOWN in ids:
            raise ValueError("the text is too short, or has characters outside the vocabulary")
        out.append(ids)
    return out


def divergence(p, q):
    """Mean and standard error of KL(p || q), of logarithms [tokens, n_vocab], in 1e-6 nats."""
    kl = (np.exp(p) * (p - q)).sum(axis=1) * 1e6
    return f"{kl.mean():.0f} +- {kl.std(ddof=1) / len(kl) ** 0.5:.0f}"


def perplexity(p, targets):
    return np.exp(-p[np.arange(len(targets)), targets].mean())


def row(path, windows, original, outlier):
    model = Rounding(File(pathlib.Path(path).read_bytes()))
    model.outlier(outlier)
    targets = np.concatenate([ids[1:] for ids in windows])
    exact, _ = model.run(windows, None)
    errors, kls, ppls, same = [], [], [f"{perplexity(exact, targets):.4f}"], []
    for block in BLOCKS:
        p, error = model.run(windows, block)
        errors.append(f"{100 * error:.2f}")
        kls.append(divergence(exact, p))
        ppls.append(f"{perplexity(p, targets):.4f}")
        same.append(f"{100 * (p.argmax(axis=1) == exact.argmax(axis=1)).mean():.2f}")
    weights = "" if original is None else divergence(original, exact)
    return [pathlib.Path(path).stem, *errors, weights, *kls, *ppls, *same]


def table(args):
    text = pathlib.Path(args.text).read_text(encoding="utf-8")
    first = File(pathlib.Path(args.original or args.models[0]).read_bytes())
    windows = windows_of(text, FileVocab(first.meta), args.n)
    for path in args.models:
        meta = File(pathlib.Path(path).read_bytes()).meta
        if meta["tokenizer.ggml.tokens"] != first.meta["tokenizer.ggml.tokens"]:
            raise ValueError(f"{path}: another vocabulary than that of the first file")
    original = Rounding(first).run(windows, None)[0] if args.original else None
    each = " ".join("{0} " + str(b) + " |" for b in BLOCKS)
    head = f"| model | {each.format('error')} KL of the weights | {each.format('KL')} ppl float | "
    print(head + f"{each.format('ppl')} {each.format('top-1')}")
    print("| --- |" + " ---: |" * (head.count("|") - 2 + 2 * len(BLOCKS)))
    for path in args.models:
        print("| " + " | ".join(row(path, windows, original, args.outlier)) + " |", flush=True)


def main():
    p = argparse.ArgumentParser(description="what 8-bit activations cost; see the head of this file")
    p.add_argument("text", metavar="TEXT")
    p.add_argument("models", metavar="MODEL.gguf", nargs="+")
    size = f"tokens, in whole windows of {WINDOW} (default %(default)s)"
    p.add_argument("-n", type=int, default=2 * WINDOW, help=size)
    p.add_argument("--original", metavar="F16.gguf", help="the model before quantization")
    p.add_argument("--outlier", type=float, default=1.0, metavar="S", help="enlarge a channel (default: none)")
    args = p.parse_args()
    if not 1 <= args.outlier < float("inf"):
        p.error("--outlier must be at least 1")
    if args.n < WINDOW:
        p.error(f"-n must be at least {WINDOW}")
    table(args)


if __name__ == "__main__":
    try:
        main()
    except (ValueError, OSError, struct.error) as e:
        sys.exit(f"activation_error.py: {e}")
    except KeyError as e:
        sys.exit(f"activation_error.py: the file has no {e}")
