#!/usr/bin/python3
"""Golden losses of training's objectives, in float64: formulas of the papers, with gradients by differences.

Needs Python 3.9 and NumPy (Debian: python3-numpy).

    golden_objectives.py           write go/train/testdata/objectives.json
    golden_objectives.py --check   compare it with what would be written; exit 1 with one line per difference

The file is a list of {"objective", "fields", "texts": [{"tokens", "weights", "labels"}], "outcomes", "base", "loss", "right",
"margin", "gradients"}: see go/train/objective.go. Numbers are sums over the examples.
"""

import argparse
import json
import pathlib
import sys

sys.dont_write_bytecode = True  # leave no cache beside the sources

import numpy as np  # noqa: E402

OUT = pathlib.Path(__file__).resolve().parent.parent / "go/train/testdata/objectives.json"
STEP = 1e-6


def log_sigmoid(x):
    return -np.logaddexp(0, -x)


def cosine(a, b):
    return a @ b / (np.linalg.norm(a) * np.linalg.norm(b))


def log_softmax(x):
    return x - np.logaddexp.reduce(x)


def pairs(x):
    return range(0, len(x), 2)


def weights(text):
    return sum(text["weights"][1:])


def dpo(x, base, texts, Beta, Smoothing=0, Mean=False):
    """Rafailov et al. 2023, equation 7; Mitchell 2023, equation 3, with label smoothing."""
    loss, margins = 0, []
    log_p = [-v[0] / (weights(t) if Mean else 1) for v, t in zip(x, texts)]
    log_ref = [-v[0] / (weights(t) if Mean else 1) for v, t in zip(base, texts)]
    for i in pairs(x):
        h = Beta * ((log_p[i] - log_ref[i]) - (log_p[i + 1] - log_ref[i + 1]))
        loss += -(1 - Smoothing) * log_sigmoid(h) - Smoothing * log_sigmoid(-h)
        margins.append(h)
    return loss, margins


def orpo(x, base, texts, Beta):
    """Hong et al. 2024, equations 4 to 7."""
    loss, margins = 0, []
    mean = [-v[0] / weights(t) for v, t in zip(x, texts)]
    odds = [m - np.log1p(-np.exp(m)) for m in mean]
    for i in pairs(x):
        ratio = odds[i] - odds[i + 1]
        loss += -mean[i] - Beta * log_sigmoid(ratio)
        margins.append(ratio)
    return loss, margins


def contrast(x, base, texts, Temperature, Texts=2):
    """InfoNCE with in-batch negatives, without equals of the answer, and what belongs to an equal of the query."""

    def tokens(i):
        return texts[i]["tokens"]

    def negative(i, q):
        asked = i - i % Texts
        return i != asked and tokens(i) != tokens(q + 1) and (asked == q or tokens(asked) != tokens(q))

    loss, margins = 0, []
    for q in range(0, len(x), Texts):
        candidates = [i for i in range(len(x)) if i == q + 1 or negative(i, q)]
        scores = np.array([cosine(x[q], x[i]) for i in candidates])
        at = candidates.index(q + 1)
        loss += -log_softmax(scores / Temperature)[at]
        margins.append(scores[at] - max(np.delete(scores, at)))
    return loss, margins


def triplet(x, base, texts, Margin):
    margins = [cosine(x[i], x[i + 1]) - cosine(x[i], x[i + 2]) for i in range(0, len(x), 3)]
    return sum(max(0, Margin - m) for m in margins), margins


def margin_mse(x, base, texts):
    margins = [cosine(x[i], x[i + 1]) - cosine(x[i], x[i + 2]) for i in range(0, len(x), 3)]
    return sum((m - texts[3 * i]["labels"][0]) ** 2 for i, m in enumerate(margins)), margins


def similarity(x, base, texts):
    missed = [cosine(x[i], x[i + 1]) - texts[i]["labels"][0] for i in pairs(x)]
    return sum(m**2 for m in missed), [-abs(m) for m in missed]


def imitate(x, base, texts):
    cosines = [cosine(v, np.array(t["labels"])) for v, t in zip(x, texts)]
    return sum(1 - c for c in cosines), cosines


def classes(x, base, texts, Several=False):
    loss = 0
    for v, t in zip(x, texts):
        labels = np.array(t["labels"])
        if Several or len(v) == 1:
            loss -= np.sum(labels * log_sigmoid(v) + (1 - labels) * log_sigmoid(-v))
        else:
            loss -= labels @ log_softmax(v)
    return loss, None


def ranking(x, base, texts, Texts):
    loss, margins = 0, []
    for i in range(0, len(x), Texts):
        scores = np.array([v[0] - (v[1] if len(v) == 2 else 0) for v in x[i : i + Texts]])
        loss -= log_softmax(scores)[0]
        margins.append(scores[0] - max(scores[1:]))
    return loss, margins


CASES = [  # (name in Go, formula, fields, texts, width; 0: losses)
    ("DPO", dpo, {"Beta": 0.1}, 6, 0),
    ("DPO", dpo, {"Beta": 0.5, "Smoothing": 0.2}, 4, 0),
    ("DPO", dpo, {"Beta": 2.0, "Mean": True}, 6, 0),
    ("ORPO", orpo, {"Beta": 0.1}, 6, 0),
    ("ORPO", orpo, {"Beta": 1.5}, 4, 0),
    ("Contrast", contrast, {"Temperature": 0.05}, 8, 7),
    ("Contrast", contrast, {"Temperature": 0.5, "Texts": 4}, 12, 5),
    ("Triplet", triplet, {"Margin": 0.3}, 12, 6),
    ("MarginMSE", margin_mse, {}, 9, 6),
    ("Similarity", similarity, {}, 8, 6),
    ("Imitate", imitate, {}, 4, 6),
    ("Classes", classes, {}, 5, 4),
    ("Classes", classes, {"Several": True}, 5, 4),
    ("Classes", classes, {}, 5, 1),
    ("Ranking", ranking, {"Texts": 3}, 9, 1),
    ("Ranking", ranking, {"Texts": 2}, 8, 2),
]


def case(number, name, formula, fields, n, width):
    rng = np.random.Generator(np.random.PCG64(number))
    texts = []
    for i in range(n):
        size = int(rng.integers(3, 8))
        text = {"tokens": [i + 1] * size, "weights": [0.0, 0.0] + [1.0] * (size - 2), "labels": []}
        if name == "Contrast" and i == n - 1 and "Texts" not in fields:
            text["tokens"] = texts[1]["tokens"]  # an answer that is another's too
        if name == "Contrast" and i == fields.get("Texts"):
            text["tokens"] = texts[0]["tokens"]  # a query that is another's too
        if name in ("MarginMSE", "Similarity"):
            text["labels"] = [float(np.float32(rng.uniform(-1, 1)))]
        elif name == "Imitate":
            text["labels"] = [float(np.float32(v)) for v in rng.normal(size=width)]
        elif name == "Classes" and (width == 1 or fields.get("Several")):
            text["labels"] = [float(v) for v in rng.integers(0, 2, size=width)]
        elif name == "Classes":
            text["labels"] = [0.5, 0.25, 0.25, 0.0] if i == 0 else list(np.eye(width)[rng.integers(width)])
        texts.append(text)
    base = []
    if width == 0:
        x = [rng.uniform(0.5, 12, size=1) for _ in range(n)]
        base = [v + rng.normal(size=1) for v in x]
    else:
        x = [rng.normal(size=width) for _ in range(n)]
    loss, margins = formula(x, base, texts, **fields)
    gradients = []
    for i in range(n):
        gradients.append([])
        for j in range(len(x[i])):
            ends = []
            for sign in (1, -1):
                moved = [v.copy() for v in x]
                moved[i][j] += sign * STEP
                ends.append(formula(moved, base, texts, **fields)[0])
            gradients[i].append((ends[0] - ends[1]) / (2 * STEP))
    right = sum(m > 0 for m in margins) if margins is not None else 0
    if name == "Classes" and not fields.get("Several") and width > 1:
        right = sum(np.argmax(v) == np.argmax(t["labels"]) for v, t in zip(x, texts))
    elif name == "Classes":
        right = sum(all((v > 0) == (np.array(t["labels"]) > 0.5)) for v, t in zip(x, texts))
    elif name == "Similarity":
        right = 0
    return {
        "objective": name, "fields": fields, "texts": texts, "outcomes": [list(v) for v in x], "base": [list(v) for v in base],
        "loss": float(loss), "right": int(right), "margin": float(sum(margins or [])), "gradients": gradients,
    }


def differences(a, b, at=""):
    """Yields where two values differ by more than differences of losses are wrong by."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        for k in a:
            yield from differences(a[k], b[k], f"{at}.{k}")
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (u, v) in enumerate(zip(a, b)):
            yield from differences(u, v, f"{at}[{i}]")
    elif isinstance(a, (int, float)) and isinstance(b, (int, float)):
        if abs(a - b) > 1e-7 * max(1, abs(a)):
            yield f"{at}: {a}, want {b}"
    elif a != b:
        yield f"{at}: {a!r}, want {b!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    made = [case(i, *c) for i, c in enumerate(CASES)]
    if not args.check:
        OUT.parent.mkdir(exist_ok=True)
        OUT.write_text("[\n" + ",\n".join(json.dumps(c, default=float) for c in made) + "\n]\n")
        return
    wrong = list(differences(json.loads(OUT.read_text()), json.loads(json.dumps(made, default=float))))
    print("\n".join(wrong), end="\n" if wrong else "")
    sys.exit(bool(wrong))


main()
