#!/usr/bin/python3
"""What may be forgotten of old keys and values?

Claim      Summary vectors: beyond 4,096 positions each 256 keys and values are kept as one mean. Fewer bits: old
           positions need fewer than 4.
Measure    The change of the loss, and the divergence of predictions (Kullback-Leibler, nats), where keys and values older
           than 64 positions, but the first 16, are dropped; replaced by the mean of each 16 (a sixteenth of the claim's
           span, kinder); by that mean, counted 16 times; or rounded with a scale to a vector: plainly, or after the
           engine's Hadamard transform, in even steps or at the levels that are best for a Gaussian (Lloyd and Max),
           with the best of 7 scales. 3.5 bits are 11 levels, two of which are 7 bits. At equal bytes: 4 bits for
           all that is old; 8 bits for the newest of it and 3 or 3.5 for the rest; and, at those of 3 bits for all, 4
           bits without the oldest quarter. Counted on the second half of each window of the text.
Data       Windows of up to 512 tokens.
Threshold  Means: adopted where they cost less than a quarter of dropping, refuted where more than half. Fewer bits:
           option where 3 or 3.5 bits with 8 diverge less than 4 bits for all at the same bytes, refuted where they diverge
           more than that and 3 bits diverge more than twice as much as 4 bits. Levels: option where 4 bits at those of a
           Gaussian diverge less than 0.9 times as much as at even ones, refuted where no less.
"""

from statistics import NormalDist

import lab
import numpy as np
from model import Decoder, softmax

RECENT, SPAN = 64, 16


def summarized(how):
    """Attention whose old positions, in whole spans, are dropped or stand as means; the first span stays."""

    def attend(layer, head, q, k, v, mask):
        n, spans = len(q), len(q) // SPAN
        at = np.arange(n) // SPAN
        old = np.maximum((np.arange(n) - RECENT) // SPAN, 1)[:, None]  # spans before this one are old
        scores = np.where(mask & ((at >= old) | (at == 0)), q @ k.T, -np.inf)
        if how == "dropped":
            return softmax(scores) @ v
        km, vm = (x[: spans * SPAN].reshape(spans, SPAN, -1).mean(axis=1) for x in (k, v))
        ids = np.arange(spans)
        means = q @ km.T + (np.log(SPAN) if how == "counted" else 0)
        means = np.where((ids > 0) & (ids < old) & mask[:, : spans * SPAN : SPAN], means, -np.inf)
        p = softmax(np.concatenate([scores, means], axis=1))
        return p[:, :n] @ v + p[:, n:] @ vm

    return attend


def plain(bits):
    def rounded(x):
        d = np.abs(x).max(axis=1, keepdims=True) / (2 ** (bits - 1) - 1)
        return np.rint(x / np.maximum(d, 1e-30)) * d

    return rounded


def hadamard(x):
    """The transform of each 2^m of a row, the largest power that divides it: its own inverse."""
    rows, n = x.shape
    size = n & -n
    y, half = x.reshape(rows, -1, size), 1
    while half < size:
        pairs = y.reshape(rows, -1, 2, half)
        y = np.stack([pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]], axis=2)
        half *= 2
    return y.reshape(rows, n) / np.float32(np.sqrt(size))


def even(n):
    return 2 * np.arange(n, dtype=np.float32) - (n - 1)


def gaussian(n):
    """The n levels with the least squared error of a Gaussian source."""
    x = np.array([NormalDist().inv_cdf((i + 0.5) / 20000) for i in range(20000)])
    levels = even(n) / n * 2
    for _ in range(300):
        nearest = np.searchsorted((levels[1:] + levels[:-1]) / 2, x)
        levels = np.bincount(nearest, x, n) / np.bincount(nearest, minlength=n)
    return levels.astype(np.float32)


def rotated(levels):
    def rounded(x):
        y = hadamard(x)
        top = np.maximum(np.abs(y).max(axis=1, keepdims=True), 1e-30) / levels.max()
        best, least = np.zeros_like(y), np.full((len(y), 1), np.inf)
        for part in np.linspace(0.7, 1.06, 7, dtype=np.float32):
            z = levels[np.searchsorted((levels[1:] + levels[:-1]) / 2, y / (top * part))] * (top * part)
            error = ((z - y) ** 2).sum(axis=1, keepdims=True)
            best, least = np.where(error < least, z, best), np.minimum(error, least)
        return hadamard(best)

    return rounded


def kept(*parts):
    """Attention where shares of what is old, from the oldest on, are rounded, keys and values in one way or each in its own;
    None: dropped, but for the first span."""

    def attend(layer, head, q, k, v, mask):
        n = len(q)
        at, old = np.arange(n), np.maximum(np.arange(n) - RECENT + 1, 0)[:, None]
        scores, begin, places = q @ k.T, 0.0, []
        for share, how in parts:
            place = (at >= np.ceil(old * begin)) & (at < np.ceil(old * (begin + share)))
            begin += share
            if how is None:
                scores = np.where(place & (at >= SPAN), -np.inf, scores)
            else:
                keys, values = how if isinstance(how, tuple) else (how, how)
                scores = np.where(place, q @ keys(k).T, scores)
                places.append((place, values))
        p = softmax(np.where(mask, scores, -np.inf))
        out = p * ~np.any([place for place, _ in places], axis=0) @ v
        for place, values in places:
            out += (p * place) @ values(v)
        return out

    return attend


def predictions(model, windows, start):
    """Logarithms of what is predicted at the scored positions of each window, and the losses."""
    for ids in windows:
        hidden = model.forward(ids)[-1]
        z = model.logits(hidden[start - 1 : -1])
        z -= z.max(axis=1, keepdims=True)
        z -= np.log(np.exp(z).sum(axis=1, keepdims=True, dtype=np.float64)).astype(np.float32)
        yield z, -z[np.arange(len(z)), ids[start:]]


def run(lab, r):
    model = Decoder(lab)
    length = min(160 if lab.quick else 512, model.n_ctx)
    count = 2 if lab.quick or len(model.w["token_embd"]) > 100000 else 4
    windows = lab.windows(length, count)
    of_four, of_eight = rotated(even(16)), plain(8)
    three, more = rotated(gaussian(8)), rotated(gaussian(11))
    ways = {
        "dropped": summarized("dropped"),
        f"mean of {SPAN}": summarized("mean"),
        f"mean of {SPAN}, counted {SPAN} times": summarized("counted"),
        **{f"{b} bits": kept((1, plain(b))) for b in (8, 4, 3, 2)},
        "4 bits, rotated": kept((1, of_four)),
        "4 bits, rotated, Gaussian": kept((1, rotated(gaussian(16)))),
        "3.5 bits, rotated, even": kept((1, rotated(even(11)))),
        "3.5 bits, rotated, Gaussian": kept((1, more)),
        "3 bits, rotated, even": kept((1, rotated(even(8)))),
        "3 bits, rotated, Gaussian": kept((1, three)),
        "keys in 4, values in 3 bits, rotated": kept((1, (of_four, three))),
        "bytes of 4: 3 bits for 4/5, 8 for 1/5": kept((0.8, three), (0.2, of_eight)),
        "bytes of 4: 3.5 bits for 8/9, 8 for 1/9": kept((8 / 9, more), (1 / 9, of_eight)),
        "bytes of 3: 4 bits, the oldest quarter dropped": kept((0.25, None), (0.75, of_four)),
    }
    base, losses = zip(*predictions(model, windows, length // 2))
    base_loss, rise, kld = float(np.concatenate(losses).mean()), {}, {}
    r.table(f"older than {RECENT} of {length} positions", "loss", "rise", "divergence")
    r.row("as they are", f"{base_loss:.4f}", "", "")
    for what, model.attend in ways.items():
        losses, divergences = [], []
        for z, (now, loss) in zip(base, predictions(model, windows, length // 2)):
            divergences.append((np.exp(z) * (z - now)).sum(axis=1, dtype=np.float64))
            losses.append(loss)
        rise[what] = float(np.concatenate(losses).mean()) - base_loss
        kld[what] = float(np.concatenate(divergences).mean())
        r.row(what, f"{base_loss + rise[what]:.4f}", f"{rise[what]:+.4f}", f"{kld[what]:.2e}")
    means = min(rise[what] for what in ways if what.startswith("mean"))
    used = rise["dropped"] > 0.001 * base_loss  # else nothing of what is old is, and nothing is decided
    share = means / rise["dropped"] if used else None
    r.find(
        "summaries",
        f"means of {SPAN}, older than {RECENT} positions",
        f"loss {means:+.4f}, where dropping costs {rise['dropped']:+.4f} and 4 bits {rise['4 bits']:+.4f}",
        "adopt below a quarter of dropping",
        "open" if share is None else "adopted" if share < 0.25 else "refuted" if share > 0.5 else "open",
    )
    four, mixed = kld["4 bits, rotated"], min(v for what, v in kld.items() if what.startswith("bytes of 4"))
    best = min(v for what, v in kld.items() if what.startswith("3 bits, rotated"))
    r.find(
        "3 bits",
        "3 or 3.5 bits for the oldest and 8 for the rest, rotated, at the bytes of 4 bits for all",
        f"divergence {mixed:.1e}, 4 bits {four:.1e}; 3 bits for all {best:.1e}, and at the same bytes 4 bits without the "
        f"oldest quarter {kld['bytes of 3: 4 bits, the oldest quarter dropped']:.1e}",
        "option below that of 4 bits",
        "option" if mixed < four else "refuted" if best > 2 * four else "open",
    )
    share = kld["4 bits, rotated, Gaussian"] / four
    r.find(
        "levels",
        "4 bits, rotated, at the levels that are best for a Gaussian",
        f"{share:.2f} of the divergence at even levels, {four:.1e}",
        "option below 0.9",
        "option" if share < 0.9 else "refuted" if share >= 1 else "open",
    )


if __name__ == "__main__":
    lab.main(__doc__, run)
