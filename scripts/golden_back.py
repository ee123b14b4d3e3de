"""The backward pass, in float64: each operation with its reverse, and golden vectors of them (back.json, back.bin).

An operation returns its result and a function from the gradient of that to those of what it read, in its order: (x, w)
-> y, lambda dy: (dx, dw). Nothing here knows about files or models; golden_grad.py makes whole models of these.
differences() holds each of them against differences of its result.
"""

import math

import numpy as np

from golden_store import Store
from golden_types import TYPES, Rand, decode, random_rows, to_bf16


def bf16(x):
    """Rounded to BF16, as products of the engine's backward pass read their factors."""
    bits = to_bf16(np.ascontiguousarray(x, dtype=np.float32)).astype(np.uint32) << 16
    return bits.view(np.float32).astype(np.float64)


def exact(x):
    return x


def product(x, w, bias=None, scale=1.0, rounded=exact):
    """y = scale * (x W^T + bias). The gradient of x is made of rounded factors, that of W is not."""

    def back(dy):
        dw = scale * dy.T @ x
        return scale * (rounded(dy) @ rounded(w)), dw, None if bias is None else scale * dy.sum(0)

    y = x @ w.T
    return scale * (y if bias is None else y + bias), back


def low(x, a, b, scale):
    """The term of an adapter: scale * B (A x)."""
    h = x @ a.T

    def back(dy):
        dh = scale * dy @ b
        return dh @ a, dh.T @ x, scale * dy.T @ h

    return scale * h @ b.T, back


def norm(x, weight=None, bias=None, eps=0.0, centred=False):
    """RMS norm, or layer norm, over the last axis."""
    z = x - x.mean(-1, keepdims=True) if centred else x
    r = 1 / np.sqrt((z * z).mean(-1, keepdims=True) + eps)
    n = z * r
    w = 1.0 if weight is None else weight

    def back(dy):
        g = dy * w
        dx = r * (g - n * (g * n).mean(-1, keepdims=True))
        if centred:
            dx = dx - r * g.mean(-1, keepdims=True)
        flat = tuple(range(dy.ndim - 1))
        return dx, (dy * n).sum(flat), dy.sum(flat)

    y = n * w
    return (y if bias is None else y + bias), back


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


_ROOT = math.sqrt(2 / math.pi)


def _tanh_gelu(x):
    return np.tanh(_ROOT * (x + 0.044715 * x**3))


def _gelu_slope(x):
    t = _tanh_gelu(x)
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * _ROOT * (1 + 3 * 0.044715 * x * x)


def _normal(x):
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.flat]).reshape(x.shape)


# Functions of a gate, and their derivatives.
FNS = {
    "silu": (lambda x: x * _sigmoid(x), lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x)))),
    "sigmoid": (_sigmoid, lambda x: _sigmoid(x) * (1 - _sigmoid(x))),
    "gelu": (lambda x: 0.5 * x * (1 + _tanh_gelu(x)), _gelu_slope),
    "gelu_erf": (
        lambda x: x * _normal(x),
        lambda x: _normal(x) + x * np.exp(-x * x / 2) / math.sqrt(2 * math.pi),
    ),
    "relu2": (lambda x: np.maximum(x, 0) ** 2, lambda x: 2 * np.maximum(x, 0)),
}


def gate(fn, g, u=None):
    """fn(g) * u, or fn(g)."""
    f, slope = FNS[fn]
    if u is None:
        return f(g), lambda dy: (dy * slope(g),)
    return f(g) * u, lambda dy: (dy * u * slope(g), dy * f(g))


def softcap(x, cap):
    t = np.tanh(x / cap)
    return cap * t, lambda dy: (dy * (1 - t * t),)


def loss(logits, targets, weights):
    """The weighted sum of the cross-entropies of rows, and gradients of the logits: dy is a number."""
    top = logits.max(-1, keepdims=True)
    e = np.exp(logits - top)
    total = e.sum(-1, keepdims=True)
    rows = np.arange(len(targets))
    each = (np.log(total) + top)[:, 0] - logits[rows, targets]

    def back(dy):
        d = e / total
        d[rows, targets] -= 1
        return (d * (weights * dy)[:, None],)

    return (weights * each).sum(), back


def turn(x, angle, length=1.0, halves=False):
    """Rotations of heads [tokens, heads, dims] by angles [tokens, pairs], the rest of a head passes through."""
    n = angle.shape[1]
    one, two = (slice(0, n), slice(n, 2 * n)) if halves else (slice(0, 2 * n, 2), slice(1, 2 * n, 2))
    c, s = (np.cos(angle) * length)[:, None], (np.sin(angle) * length)[:, None]

    def rotated(x, s):
        y = x.copy()
        y[..., one] = x[..., one] * c - x[..., two] * s
        y[..., two] = x[..., one] * s + x[..., two] * c
        return y

    return rotated(x, s), lambda dy: (rotated(dy, -s),)


def attend(q, k, v, scale, window=0, cap=0.0, sinks=None, slopes=None):
    """Causal attention of one text: q [tokens, heads, dims]; k and v have fewer heads, each for as many of q in turn.

    scale, a number or one of each token, multiplies q. A token sees itself and the window - 1 before it; scores are
    capped, and lose slopes [heads] times the distance; sinks [heads] are scores without a value.
    """
    n, heads = q.shape[:2]
    group = heads // k.shape[1]
    scale = np.broadcast_to(np.asarray(scale, dtype=np.float64), (n,))[:, None]
    distance = np.arange(n)[:, None] - np.arange(n)
    hidden = (distance < 0) | ((distance >= window) if window else False)
    weights, capped = [], []
    y = np.empty(q.shape[:2] + v.shape[2:])
    for h in range(heads):
        s = scale * (q[:, h] @ k[:, h // group].T)
        if cap:
            s, back_cap = softcap(s, cap)
            capped.append(back_cap)
        if slopes is not None:
            s = s - slopes[h] * distance
        s = np.where(hidden, -np.inf, s)
        top = s.max(-1, keepdims=True)
        if sinks is not None:
            top = np.maximum(top, sinks[h])
        e = np.exp(s - top)
        total = e.sum(-1, keepdims=True) + (0 if sinks is None else np.exp(sinks[h] - top))
        weights.append(e / total)
        y[:, h] = weights[h] @ v[:, h // group]

    def back(dy):
        dq, dk, dv = np.zeros_like(q), np.zeros_like(k), np.zeros_like(v)
        for h in range(heads):
            kv, p = h // group, weights[h]
            dp = dy[:, h] @ v[:, kv].T
            ds = p * (dp - (p * dp).sum(-1, keepdims=True))
            if cap:
                (ds,) = capped[h](ds)
            dq[:, h] = scale * (ds @ k[:, kv])
            dk[:, kv] += (scale * ds).T @ q[:, h]
            dv[:, kv] += p.T @ dy[:, h]
        return dq, dk, dv

    return y, back


def route(logits, used, gating="softmax", renormalise=False, scale=1.0, bias=None):
    """Experts of each token, best first, and their weights. Gradients are of the logits by those of the weights."""
    n = len(logits)
    by = logits
    if gating == "sigmoid":
        worth = _sigmoid(logits)
        by = worth
    else:
        worth = np.exp(logits - logits.max(-1, keepdims=True))
        worth /= worth.sum(-1, keepdims=True)
    ids = np.argsort(-(by if bias is None else worth + bias), axis=-1, kind="stable")[:, :used]
    rows = np.arange(n)[:, None]
    picked = worth[rows, ids]
    if gating == "chosen":
        picked = np.exp(logits[rows, ids] - logits[rows, ids].max(-1, keepdims=True))
        picked /= picked.sum(-1, keepdims=True)
    total = picked.sum(-1, keepdims=True)
    weights = scale * (picked / total if renormalise else picked)

    def back(dw):
        d = scale * dw
        if renormalise:
            d = (d - (d * picked / total).sum(-1, keepdims=True)) / total
        dlogits = np.zeros_like(logits)
        if gating == "chosen":
            dlogits[rows, ids] = picked * (d - (d * picked).sum(-1, keepdims=True))
            return (dlogits,)
        dworth = np.zeros_like(logits)
        dworth[rows, ids] = d
        if gating == "sigmoid":
            return (dworth * worth * (1 - worth),)
        return (worth * (dworth - (worth * dworth).sum(-1, keepdims=True)),)

    return ids, weights, back


def differences(f, x, step=1e-6):
    """The largest difference of f's reverse from differences of its result, of the inputs x, as a share of the sizes."""
    y, back = f(*x)
    r = Rand("differences")
    dy = r.normal(y.shape) if np.ndim(y) else np.float64(1.0)
    worst = 0.0
    for i, d in zip(range(len(x)), back(dy)):
        way = r.normal(np.shape(x[i]))
        ends = [f(*x[:i], x[i] + h * way, *x[i + 1 :])[0] for h in (step, -step)]
        want = ((ends[0] - ends[1]) * dy).sum() / (2 * step)
        size = np.sqrt((d * d).sum() * (way * way).sum()) + 1e-12
        worst = max(worst, abs((d * way).sum() - want) / size)
    return float(worst)


def build():
    """The golden vectors of operations. A reverse that is not what differences say is an error."""
    s = Store("back.bin")

    def add(op, name, f, inputs, params, results, stored=None):
        """A case of f, or of stored, which is f but for rounding."""
        x = {k: np.asarray(v, dtype=np.float32) for k, v in inputs.items()}
        args = [v.astype(np.float64) for v in x.values()]
        if not (worst := differences(f, args)) < 1e-6:
            raise ValueError(f"{name}: the reverse is off by {worst:.1e} of differences")
        y, back = (stored or f)(*args)
        tensors = {k: s.tensor("f32", v) for k, v in x.items()}
        tensors["y"] = s.tensor("f32", np.atleast_1d(y), True)
        dy = np.float64(1.0)
        if np.ndim(y):
            dy = np.asarray(Rand("dy " + name).normal(y.shape), dtype=np.float32)
            tensors["dy"] = s.tensor("f32", dy)
        for k, d in zip(results, back(np.asarray(dy, dtype=np.float64))):
            tensors[k] = s.tensor("f32", d, True)
        s.add(name=name, op=op, params=params, tensors=tensors)

    r = Rand("back")
    for name, cols, rows in (("F32", 328, 24), ("F16", 32, 600), ("Q8_0", 96, 40), ("Q4_K", 512, 24)):
        raw = random_rows(Rand("back product"), name, rows, cols, 0.1, [0.01, -0.02] if name[0] == "Q" else None)
        w = decode(name, raw)
        op = f"product_{name}_{cols}"
        add("product", op.lower(), lambda x, w=w: product(x, w, None, 0.75), {"x": r.normal((5, cols))},
            {"type": name, "ggml_type": TYPES[name].id, "scale": 0.75}, ["dx"],
            lambda x, w=w: product(x, w, None, 0.75, bf16))  # fmt: skip
        s.cases[-1]["tensors"]["w"] = s.tensor("u8", raw)
    for cols, rows, rank in ((72, 40, 3), (264, 136, 8)):
        add("low", f"low_{rank}", lambda x, a, b: low(x, a, b, 0.75),
            {"x": r.normal((6, cols)), "a": r.normal((rank, cols)), "b": r.normal((rows, rank))},
            {"scale": 0.75}, ["dx", "da", "db"])  # fmt: skip
    for cols in (48, 272):
        for centred in (False, True):
            add("norm", f"{'layer' if centred else 'rms'}norm_{cols}",
                lambda x, w, centred=centred: norm(x, w, None, 1e-5, centred),
                {"x": 2 + 3 * r.normal((4, cols)), "w": r.normal(cols)},
                {"eps": 1e-5, "centred": centred}, ["dx", "dw"])  # fmt: skip
    for fn in FNS:
        g, u = np.concatenate([np.linspace(-9, 9, 39), [-30.0, 0.001, 30.0]])[None], r.normal((1, 42))
        add("gate", f"gate_{fn}", lambda g, u, fn=fn: gate(fn, g, u), {"g": g, "u": u}, {"fn": fn}, ["dg", "du"])
        add("apply", f"apply_{fn}", lambda g, fn=fn: gate(fn, g), {"g": g}, {"fn": fn}, ["dg"])
    for name, cap in (("loss", 0.0), ("loss_capped", 5.0)):
        targets, weights = [3, 299, 0, 17], np.array([1.0, 0.5, 0.0, 2.0])

        def f(z, cap=cap):
            x, uncap = softcap(z, cap) if cap else (z, lambda d: (d,))
            y, back = loss(x, targets, weights)
            return y, lambda dy: uncap(*back(dy))

        add("loss", name, f, {"z": 4 * r.normal((4, 300))}, {"softcap": cap, "targets": targets, "weights": list(weights)},
            ["dz"])  # fmt: skip
    for name, heads, kv, dims, n, kw in (
        ("attend", 2, 2, 16, 9, {}),
        ("attend_grouped", 6, 2, 32, 20, {}),
        ("attend_window", 2, 1, 16, 72, {"window": 13}),
        ("attend_capped", 2, 1, 16, 20, {"cap": 4.0}),
        ("attend_sinks", 2, 1, 16, 35, {"sinks": [0.3, -1.5]}),
    ):
        scale = dims**-0.5
        add("attend", name, lambda q, k, v, kw=kw, scale=scale: attend(q, k, v, scale, **kw),
            {"q": 2 * r.normal((n, heads, dims)), "k": r.normal((n, kv, dims)), "v": r.normal((n, kv, dims))},
            {"scale": scale, **kw}, ["dq", "dk", "dv"])  # fmt: skip
    return s

