"""What the experiments of this folder share: the model's file, the engine's encoders, texts, and the form of a result.

Needs Python 3.9, NumPy and bin/quern. An experiment is a file with a function run(lab, result) that ends in

    if __name__ == "__main__":
        lab.main(__doc__, run)

It prints a table for people to standard error, and one JSON object to standard output:

    lab, model, weights (float or quantized), parameters, text
    findings   what decides: key, measure, number, threshold, verdict, by theory
    head, rows the table
    plot       x, y, and series of name, x and y; where there is one

A verdict is adopted, option, refuted or open, of this model alone.
"""

import argparse
import json
import mmap
import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # leave no cache beside the sources
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # experiments share the machine with others

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import numpy as np  # noqa: E402

import golden_gguf  # noqa: E402
from golden_types import NAMES, TYPES, encode  # noqa: E402

DEMO = ROOT / "go/demo/quern-demo.gguf"
STORIES = ROOT / "go/demo/testdata/heldout.txt"


class Lab:
    """One run: a model, a text, and how much of both to use."""

    def __init__(self, args):
        self.quern, self.path, self.text, self.quick = args.quern, args.model, args.text, args.quick
        self.name = self.path.stem
        with open(self.path, "rb") as f:
            self.file = golden_gguf.File(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        names = [n for n in self.file.tensors if self.is_matrix(n)]
        self.quantized = any(TYPES[NAMES[self.file.tensors[n][1]]].weights > 1 for n in names)
        self.parameters = sum(int(np.prod(shape)) for shape, _, _ in self.file.tensors.values())
        self.rng = np.random.default_rng(1)

    def is_matrix(self, name):
        """Whether a tensor is a weight of a layer that is multiplied with activations."""
        shape = self.file.tensors[name][0]
        return "blk." in name and len(shape) == 2 and min(shape) >= 32

    def meta(self, key, default=None):
        """A key of the file, that of the architecture where it has no dot of its own."""
        arch = self.file.meta["general.architecture"]
        return self.file.meta.get(f"{arch}.{key}", default)

    def tensor(self, name):
        """float32 [rows, cols]."""
        return self.file.tensor(name).astype(np.float32)

    def matrices(self, layers=None):
        """name -> float32 [out, in], of all layers, or of so many that are evenly far apart."""
        names = [n for n in self.file.tensors if self.is_matrix(n)]
        blocks = list(dict.fromkeys(block(n) for n in names))
        if layers and layers < len(blocks):
            kept = {blocks[i] for i in np.linspace(0, len(blocks) - 1, layers).round().astype(int)}
            names = [n for n in names if block(n) in kept]
        return {n: self.tensor(n) for n in names}

    def ids(self, limit):
        """The first tokens of the text, without what the tokenizer adds."""
        raw = self.text.read_bytes()[: 12 * limit + 64]
        with tempfile.NamedTemporaryFile(suffix=".txt") as f:
            f.write(raw)
            f.flush()
            out = self.call("tokenize", "-m", self.path, "-f", f.name, "--ids", "--no-special", "--no-parse-special")
        return np.array(out.split(), dtype=np.int64)[:limit]

    def windows(self, n, count):
        """Up to count pieces of n tokens of the text, as quern perplexity cuts it: each begins with BOS, where there is one."""
        bos = self.file.meta.get("tokenizer.ggml.bos_token_id")
        if bos is None or not self.file.meta.get(
            "tokenizer.ggml.add_bos_token", self.file.meta.get("tokenizer.ggml.model") == "llama"
        ):
            ids = self.ids(n * count)
        else:
            ids = np.concatenate([[bos], self.ids(n * count - 1)])
            ids[::n] = bos
        out = [ids[i : i + n] for i in range(0, len(ids) - n + 1, n)]
        if not out:
            raise ValueError(f"{self.text}: fewer than {n} tokens")
        return out

    def call(self, *args):
        done = subprocess.run([str(a) for a in (self.quern, *args)], capture_output=True, text=True)
        if done.returncode:
            raise ValueError(done.stderr.strip())
        return done.stdout

    def encoded(self, weights, type_name, method="fast", raw=False):
        """Matrices after a trip through a type, by the engine's own encoder; with raw the blocks as bytes.

        Types have blocks of 256 columns. A matrix with other rows is encoded as rows of its elements in order, so some
        blocks have the end of one row and the beginning of the next. All contenders are encoded so.
        """
        cols = {
            n: next((c for c in (w.shape[1], 768, 256) if c % 256 == 0 and w.size % c == 0), None)
            for n, w in weights.items()
        }
        if None in cols.values():
            raise ValueError("a matrix is not of whole blocks of 256")
        names = {n: f"blk.{i}.ffn_up.weight" for i, n in enumerate(weights)}
        meta = [("general.architecture", golden_gguf.STR, "llama")]
        meta += [
            (f"llama.{k}", golden_gguf.U32, v)
            for k, v in dict(
                block_count=len(names), context_length=32, embedding_length=256, feed_forward_length=256
            ).items()
        ]
        meta += [
            ("llama.attention.head_count", golden_gguf.U32, 1),
            ("llama.attention.layer_norm_rms_epsilon", golden_gguf.F32, 1e-5),
        ]
        tensors = [
            (names[n], (w.size // cols[n], cols[n]), "F32", encode("F32", np.float64(w)).tobytes())
            for n, w in weights.items()
        ]
        tensors += [
            ("token_embd.weight", (32, 256), "F32", bytes(4 * 32 * 256)),
            ("output_norm.weight", (256,), "F32", bytes(4 * 256)),
        ]
        with tempfile.TemporaryDirectory() as d:
            before, after = pathlib.Path(d, "f32.gguf"), pathlib.Path(d, "type.gguf")
            before.write_bytes(golden_gguf.write(meta, tensors))
            self.call("quantize", "--pure", "--method", method, before, after, type_name, 1)
            f = golden_gguf.File(after.read_bytes())
        if raw:
            return {n: (NAMES[f.tensors[names[n]][1]], self.blocks(f, names[n])) for n in weights}
        return {n: f.tensor(names[n]).astype(np.float32).reshape(w.shape) for n, w in weights.items()}

    @staticmethod
    def blocks(f, name):
        """A tensor's blocks, uint8 [n, bytes]."""
        shape, kind, offset = f.tensors[name]
        t = TYPES[NAMES[kind]]
        n = int(np.prod(shape)) // t.weights
        return np.frombuffer(f.raw, np.uint8, n * t.bytes, f.data + offset).reshape(n, t.bytes)


def block(name):
    """The layer of a tensor, with the half of the model that it is in: "blk.3", "dec.blk.0"."""
    return re.match(r"(.*?blk\.\d+)\.", name).group(1)


def kind(name):
    """What a matrix is in its layer: "ffn_up"; "dec.attn_q" where a model has halves."""
    half, what = re.match(r"(.*?)blk\.\d+\.(.*?)(?:\.weight)?$", name).groups()
    return half + what


class Result:
    """What an experiment found."""

    def __init__(self):
        self.findings, self.head, self.rows, self.plot = [], [], [], None

    def find(self, key, measure, number, threshold, verdict):
        self.findings.append(dict(key=key, measure=measure, number=number, threshold=threshold, verdict=verdict))

    def table(self, *head):
        self.head = list(head)

    def row(self, *cells):
        self.rows.append([c if isinstance(c, str) else f"{c:.4g}" for c in cells])

    def draw(self, x, y, series):
        """series: name -> (xs, ys)."""
        points = [
            dict(name=n, x=[float(f"{v:.4g}") for v in xs], y=[float(f"{v:.4g}") for v in ys])
            for n, (xs, ys) in series.items()
        ]
        self.plot = dict(x=x, y=y, series=points)


def relative(approximations, weights):
    """Squared error of some matrices, of their squared norm."""
    e = sum(((approximations[n] - w).astype(np.float64) ** 2).sum() for n, w in weights.items())
    return float(e / sum((w.astype(np.float64) ** 2).sum() for w in weights.values()))


def percent(x, digits=0):
    return f"{100 * x:.{digits}f} %"


def main(doc, run):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument(
        "model", nargs="?", type=pathlib.Path, default=DEMO, metavar="MODEL.gguf", help="default: the demo"
    )
    p.add_argument(
        "--text", type=pathlib.Path, default=STORIES, help="what it reads (default: stories like the demo's)"
    )
    p.add_argument("--quern", type=pathlib.Path, default=ROOT / "bin/quern", metavar="PROGRAM")
    p.add_argument("--quick", action="store_true", help="little of the model and the text: whether it runs")
    args = p.parse_args()
    name = pathlib.Path(sys.argv[0]).stem
    try:
        lab, r = Lab(args), Result()
        run(lab, r)
    except (ValueError, OSError, KeyError) as e:
        sys.exit(f"{name}.py: {e}")
    for cells in [r.head, ["---"] * len(r.head), *r.rows]:
        print("| " + " | ".join(cells) + " |", file=sys.stderr)
    for f in r.findings:
        print(f"{f['verdict']}: {f['number']} ({f['measure']}; {f['threshold']})", file=sys.stderr)
    print(
        json.dumps(
            dict(
                lab=name,
                model=lab.name,
                weights="quantized" if lab.quantized else "float",
                parameters=lab.parameters,
                text=lab.text.name,
                findings=r.findings,
                head=r.head,
                rows=r.rows,
                plot=r.plot,
            )
        )
    )
