#!/usr/bin/python3
"""Can tokens leave the model early?

Claim      AMEE: a token leaves when a layer changes the residual stream by little, |dh| / |h|. TDO: a table says
           from the token's id after which layer its answer is settled. Both promise half of the depth.
Measure    After each layer the head's likeliest token, beside that of the last layer. By each rule the mean depth at
           which at most 1 % of tokens change: by |dh| (a threshold for all layers), by the head's confidence (CALM),
           by token id (from two thirds of the text, judged on the rest), and by an oracle that knows the answer.
           First layers as a draft of all (LayerSkip): the best speed-up k drafts can give, where a pass of k tokens
           costs 1.05 + 0.03 k, and heads cost nothing.
Data       The model and a text.
Threshold  adopted where a rule leaves at 80 % of the depth or less with at most 1 % changed, refuted above 95 %.
           Drafts: option at 1.3.
"""

import lab
import numpy as np
from lab import percent
from model import Decoder, softmax

CHANGED = 0.01


def observed(model, windows):
    """Of all tokens: ids [n], right and confidence [layers + 1, n], moved [layers, n]."""
    ids, right, confident, moved = [], [], [], []
    for w in windows:
        stream = model.forward(w)
        tops, sure = [], []
        for h in stream:
            z = model.logits(h)
            tops.append(z.argmax(axis=1))
            sure.append(softmax(z).max(axis=1))
        ids.append(w)
        right.append(np.array(tops) == tops[-1])
        confident.append(np.array(sure))
        moved.append(
            np.array([np.linalg.norm(b - a, axis=1) / np.linalg.norm(b, axis=1) for a, b in zip(stream, stream[1:])])
        )
    return np.concatenate(ids), *(np.concatenate(x, axis=1) for x in (right, confident, moved))


def depth(leaves, right):
    """Mean depth and share of changed tokens where token i leaves after the first layer l with leaves[l, i]; after the
    last in any case."""
    leaves = leaves.copy()
    leaves[-1] = True
    at = leaves.argmax(axis=0)
    return at.mean() / (len(right) - 1), 1 - right[at, np.arange(right.shape[1])].mean()


def best(rule, right, thresholds):
    """The least depth with at most CHANGED tokens changed, over thresholds."""
    fine = [d for d, c in (depth(rule(t), right) for t in thresholds) if c <= CHANGED]
    return min(fine, default=1.0)


def by_id(ids, right):
    """Depth and changes on the last third: a token leaves after the layer from which its id was right on the rest."""
    cut, n = 2 * len(ids) // 3, len(right) - 1
    table = {}
    for t in np.unique(ids[:cut]):
        here = right[:, :cut][:, ids[:cut] == t]
        if here.shape[1] >= 8:
            table[t] = int((here.mean(axis=1) >= 1 - CHANGED).argmax())
    at = np.array([table.get(t, n) for t in ids[cut:]])
    return at.mean() / n, 1 - right[at, np.arange(cut, len(ids))].mean()


def run(lab, r):
    model = Decoder(lab)
    windows = lab.windows(min(128 if lab.quick else 256, model.n_ctx), 3 if lab.quick else 8)
    ids, right, confident, moved = observed(model, windows)
    n = model.n_layer
    small = np.concatenate([np.full((1, len(ids)), np.inf), moved])
    amee = best(lambda t: small < t, right, np.quantile(moved, np.linspace(0, 0.6, 61)))
    calm = best(lambda t: confident >= t, right, (0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999, 0.9999))
    tdo, changed = by_id(ids, right)
    settled = np.flip(np.logical_and.accumulate(np.flip(right, 0), axis=0), 0)
    oracle, _ = depth(settled, right)
    accept = right.mean(axis=1)
    drafts = [
        max((1 - a ** (k + 1)) / (1 - a + 1e-9) / (k * i / n + 1.05 + 0.03 * k) for k in range(1, 9))
        for i, a in enumerate(accept[:-1])
        if i
    ]

    r.table("after layer", "likeliest token is the last layer's", "change of the stream")
    for i in range(0, n + 1, max(1, n // 10)):
        r.row(str(i), percent(accept[i]), f"{moved[i - 1].mean():.2f}" if i else "")

    def verdict(d):
        return "adopted" if d <= 0.8 else "refuted" if d > 0.95 else "open"

    limit = "adopt at 80 %"
    r.find(
        "amee",
        "at most 1 % of tokens changed",
        f"{percent(amee)} of the depth by the change of the stream, {percent(calm)} by confidence, "
        f"{percent(oracle)} by an oracle",
        limit,
        verdict(amee),
    )
    r.find("calm", "exits by the head's confidence", f"{percent(calm)} of the depth", limit, verdict(calm))
    r.find(
        "tdo",
        "from the token's id",
        f"{percent(tdo)} of the depth, {percent(changed, 1)} of tokens changed",
        limit,
        "refuted" if changed > CHANGED else verdict(tdo),
    )
    at = int(np.argmax(drafts)) + 1
    r.find(
        "drafts",
        "first layers as drafts of all, the best number",
        f"{max(drafts):.2f} times as fast with {at} of {n} layers, right at {percent(accept[at])}",
        "option at 1.3",
        "option" if max(drafts) >= 1.3 else "refuted",
    )
    r.draw(
        "share of the layers",
        "share of tokens",
        {"likeliest token is the last layer's": (np.arange(n + 1) / n, accept)},
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
