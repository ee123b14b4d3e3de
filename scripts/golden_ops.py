"""Golden vectors for single operations: ops.json and ops.bin."""

import numpy as np

from golden_math import attention, gelu, gelu_erf, layer_norm, moe_route, relu2, rms_norm, rope
from golden_math import short_conv, sigmoid, silu, softcap, softmax
from golden_store import Store
from golden_types import TYPES, Rand, decode, encode, random_rows, to_bf16

# fp16 scales that a file may hold: largest, smallest, denormal, zero. The types of
# 256 weights a block try the first six.
SCALES = [65504, -(2.0**-24), -3e-6, 2.0**-14, 0.0, -1.0, -65504, 2.0**-24, 1e-5, -(2.0**-14), -0.0, 1.0]

# Floats at the edges of the 16-bit types.
EDGES = [0.0, -0.0, 1.0, -1.0, 65504.0, -65504.0, 2.0**-14, 2.0**-24, -(2.0**-24), 1023 * 2.0**-24]


def build():
    s = Store("ops.bin")
    convert(s)
    dequant(s)
    matmul(s)
    elementwise(s)
    rotary(s)
    attend(s)
    convolve(s)
    route(s)
    return s


def f32(x):
    """Inputs are float32; the reference computes on their float64 values."""
    return np.asarray(x, dtype=np.float32)


def case(s, op, name, params, **tensors):
    """tensors: name -> (dtype, array) for an input, (dtype, array, True) for a result."""
    s.add(name=name, op=op, params=params, tensors={k: s.tensor(*v) for k, v in tensors.items()})


def convert(s):
    """float32 to 16 bits, to nearest even."""
    r = Rand("convert")
    # Halfway cases of fp16: odd multiples of half a unit, in normals and denormals.
    ties = [1 + 2.0**-11, 1 + 3 * 2.0**-11, 2.0**-25, 3 * 2.0**-25, 65519.0, 65520.0, -65520.0, 1e30]
    x = f32(np.concatenate([EDGES, ties, r.normal(46), r.normal(32, 1e-6), r.normal(32, 3e4)]))
    with np.errstate(over="ignore"):
        case(s, "convert", "convert_f16", {"type": "F16"}, x=("f32", x), y=("u16", x.astype("<f2").view("<u2"), True))
    case(s, "convert", "convert_bf16", {"type": "BF16"}, x=("f32", x), y=("u16", to_bf16(x), True))


def dequant(s):
    rows, cols = 7, 256
    for name, t in TYPES.items():
        op = "dequant_" + name.lower()
        raw = random_rows(Rand(op), name, rows, cols, 1.0, SCALES)
        if t.weights == 1:
            values = decode(name, raw)
            values[0, : len(EDGES)] = EDGES
            raw = encode(name, values)
        params = {"type": name, "ggml_type": t.id, "rows": rows, "cols": cols}
        case(s, "dequant", op, params, w=("u8", raw), y=("f32", decode(name, raw), True))


def matmul(s):
    """17 rows: one full panel of 16 and a rest. Also widths that only some types have."""
    shapes = [(name, 17, 512) for name in TYPES]
    shapes += [(name, 9, 172) for name in ("F32", "F16", "BF16")]
    shapes += [(name, 9, 288) for name, t in TYPES.items() if t.weights == 32]
    shapes += [(name, 9, 5 * t.weights) for name, t in TYPES.items() if 32 < t.weights < 256]
    shapes += [(name, 33, 256) for name in ("Q4_K", "Q6_K")]
    for name, rows, cols in shapes:
        n_tok = 5
        op = "matmul_" + name.lower() + ("" if cols == 512 else f"_{rows}x{cols}")
        raw = random_rows(Rand(op), name, rows, cols, 0.05)
        x = f32(Rand(f"matmul x {cols}").normal((n_tok, cols)))
        w, x64 = decode(name, raw), x.astype(np.float64)
        params = {"type": name, "ggml_type": TYPES[name].id, "rows": rows, "cols": cols, "n_tok": n_tok}
        case(
            s, "matmul", op, params,
            w=("u8", raw), x=("f32", x),
            y=("f64", x64 @ w.T, True), abs=("f64", np.abs(x64) @ np.abs(w).T, True),
        )  # fmt: skip


def elementwise(s):
    for n, eps in ((64, 1e-5), (173, 1e-6)):
        r = Rand(f"rmsnorm {n}")
        x = f32(r.normal((6, n)) * np.array([[1], [1e-3], [1e-12], [0], [1e6], [30]]))
        w = f32(r.normal(n))
        y = rms_norm(x.astype(np.float64), w.astype(np.float64), float(np.float32(eps)))
        case(s, "rmsnorm", f"rmsnorm_{n}", {"eps": eps}, x=("f32", x), w=("f32", w), y=("f64", y, True))

    for n, eps, bias in ((64, 1e-5, True), (173, 1e-6, False)):
        r = Rand(f"layernorm {n}")
        x = f32(r.normal((6, n)) * np.array([[1], [1e-3], [1e-12], [0], [1e6], [30]]) + [[0], [1], [0], [5], [1], [-9]])
        w, b = f32(r.normal(n)), f32(r.normal(n) if bias else np.zeros(n))
        y = layer_norm(*(t.astype(np.float64) for t in (x, w, b)), float(np.float32(eps)))
        case(s, "layernorm", f"layernorm_{n}", {"eps": eps}, x=("f32", x), w=("f32", w), b=("f32", b), y=("f64", y, True))

    r = Rand("swiglu")
    gate = f32(np.concatenate([[0.0, -0.0, 1, -1, 20, -20, 90, -90, 100, -100], r.normal(91, 3)]))
    up = f32(r.normal(101, 2))
    for fn in (silu, sigmoid, gelu, gelu_erf, relu2):
        y = fn(gate.astype(np.float64))
        tensors = {"gate": ("f32", gate), "up": ("f32", up)}
        case(s, "glu", "glu_" + fn.__name__, {"fn": fn.__name__}, **tensors,
             y=("f64", y * up.astype(np.float64), True), plain=("f64", y, True))  # fmt: skip
    case(s, "softcap", "softcap", {"softcap": 2.5}, x=("f32", gate),
         y=("f64", softcap(gate.astype(np.float64), 2.5), True))  # fmt: skip

    x = f32(Rand("softmax").normal((6, 77)) * np.array([[1], [20], [0], [1e4], [3], [3]]))
    x[4, 5:] = -np.inf  # a masked row
    x[5] += 1e4  # exp would overflow if the largest were not subtracted
    case(s, "softmax", "softmax", {}, x=("f32", x), y=("f64", softmax(x.astype(np.float64)), True))


def rotary(s):
    yarn = {"n_ctx_orig": 4096, "ext_factor": 1.0, "attn_factor": 1.0, "beta_fast": 32.0, "beta_slow": 1.0}
    n_head, pos = 2, np.array([0, 1, 2, 63, 64, 1000, 8191, 100000])
    rows = [
        # name, neox, head_dim, n_rot, freq_base, freq_scale, factors, yarn
        ("norm", False, 16, 16, 10000.0, 1.0, False, None),
        ("norm_partial", False, 20, 12, 10000.0, 1.0, False, None),
        ("norm_linear", False, 16, 16, 10000.0, 0.25, False, None),
        ("norm_factors", False, 32, 32, 500000.0, 1.0, True, None),
        ("norm_yarn", False, 32, 32, 10000.0, 0.125, False, yarn),
        ("neox", True, 16, 16, 1000000.0, 1.0, False, None),
        ("neox_partial", True, 20, 12, 10000.0, 1.0, False, None),
        ("neox_linear", True, 16, 16, 10000.0, 0.25, False, None),
        ("neox_yarn", True, 64, 64, 1000000.0, 0.25, False, dict(yarn, n_ctx_orig=32768)),
    ]
    for name, neox, head_dim, n_rot, freq_base, freq_scale, with_factors, yarn in rows:
        r = Rand("rope " + name)
        x = f32(r.normal((len(pos), n_head, head_dim)))
        tensors = {"x": ("f32", x), "pos": ("i32", pos)}
        factors = None
        if with_factors:
            factors = f32(r.uniform(1, 8, n_rot // 2))
            tensors["factors"] = ("f32", factors)
            factors = factors.astype(np.float64)
        y = rope(x, pos, n_rot, freq_base, neox, factors=factors, freq_scale=freq_scale, yarn=yarn)
        params = {"neox": neox, "head_dim": head_dim, "n_head": n_head, "n_rot": n_rot}
        params |= {"freq_base": freq_base, "freq_scale": freq_scale, "yarn": yarn}
        case(s, "rope", "rope_" + name, params, **tensors, y=("f64", y, True))


def attend(s):
    rows = [
        # name, n_head, n_head_kv, head_dim, n_past, n_tok, K and V in, std of q, what changes scores
        ("prefill", 8, 2, 16, 0, 9, "f16", 1, ""),
        ("decode", 8, 1, 16, 130, 1, "f16", 1, ""),
        ("chunk", 4, 2, 64, 62, 4, "f16", 1, ""),
        ("mha_f32", 3, 3, 8, 62, 5, "f32", 1, ""),
        ("wide", 2, 1, 128, 31, 3, "f16", 1, ""),
        ("sharp", 4, 2, 32, 64, 2, "f16", 60, ""),
        ("window", 4, 2, 16, 150, 40, "f16", 1, "window"),
        ("softcap", 4, 2, 16, 60, 9, "f16", 8, "softcap"),
        ("alibi", 6, 3, 16, 60, 9, "f16", 1, "slopes"),
        ("sinks", 4, 1, 16, 0, 9, "f16", 1, "sinks"),
        ("all", 4, 2, 16, 150, 9, "f16", 3, "window softcap slopes sinks"),
    ]
    for name, n_head, n_head_kv, head_dim, n_past, n_tok, kv, std, extra in rows:
        r = Rand("attend " + name)
        q = f32(r.normal((n_tok, n_head, head_dim), std))
        k, v = (f32(r.normal((n_past + n_tok, n_head_kv, head_dim))) for _ in "kv")
        if kv == "f16":
            k, v = k.astype("<f2"), v.astype("<f2")
        window = 71 if "window" in extra else 0
        softcap = 2.5 if "softcap" in extra else 0.0
        of_heads = {"slopes": f32(r.uniform(0.01, 0.5, n_head)), "sinks": f32(r.normal(n_head, 2))}
        of_heads = {what: x for what, x in of_heads.items() if what in extra}
        y = attention(
            *(t.astype(np.float64) for t in (q, k, v)), n_past, window, softcap,
            **{what: x.astype(np.float64) for what, x in of_heads.items()},
        )  # fmt: skip
        params = {"n_head": n_head, "n_head_kv": n_head_kv, "head_dim": head_dim}
        params |= {"n_past": n_past, "n_tok": n_tok, "kv_type": kv.upper(), "window": window, "softcap": softcap}
        tensors = {what: ("f32", x) for what, x in of_heads.items()}
        case(s, "attend", "attend_" + name, params,
             q=("f32", q), k=(kv, k), v=(kv, v), **tensors, y=("f64", y, True))  # fmt: skip


def convolve(s):
    for n_tok, n, taps in ((9, 32, 3), (2, 48, 4)):
        r = Rand(f"conv {n}")
        a, b, c = (f32(r.normal((n_tok, n))) for _ in "abc")
        w = f32(r.normal((n, taps)))
        y = short_conv(*(t.astype(np.float64) for t in (a, b, c, w)))
        case(s, "conv", f"conv_{n}", {}, a=("f32", a), b=("f32", b), c=("f32", c), w=("f32", w), y=("f64", y, True))


def route(s):
    for name, n_expert, n_used, renormalise in (
        ("mixtral", 8, 2, True),
        ("plain", 8, 2, False),
        ("wide", 60, 6, True),
        ("one", 5, 1, True),
        ("all", 4, 4, False),
    ):
        logits = f32(Rand("route " + name).normal((7, n_expert), 2))
        ids, w = moe_route(logits.astype(np.float64), n_used, renormalise)
        params = {"n_expert": n_expert, "n_expert_used": n_used, "renormalise": renormalise}
        case(s, "moe_route", "moe_route_" + name, params,
             logits=("f32", logits), ids=("i32", ids, True), weights=("f64", w, True))  # fmt: skip
    for name, n_expert, n_used, renormalise, gating, groups, groups_used, biased in (
        ("sigmoid", 128, 8, True, "sigmoid", 1, 1, True),
        ("sigmoid_groups", 256, 8, True, "sigmoid", 8, 4, True),
        ("sigmoid_plain", 16, 1, False, "sigmoid", 1, 1, False),
        ("chosen", 32, 4, False, "chosen", 1, 1, False),
        ("softmax_groups", 60, 6, False, "softmax", 6, 3, False),
        ("softmax_bias", 64, 6, True, "softmax", 1, 1, True),
    ):
        r = Rand("route " + name)
        logits = f32(r.normal((7, n_expert), 2))
        bias = f32(r.normal(n_expert, 0.3 if gating == "sigmoid" else 0.02))
        b = bias.astype(np.float64) if biased else 0.0
        ids, w = moe_route(logits.astype(np.float64), n_used, renormalise, gating, b, groups, groups_used)
        params = {"n_expert": n_expert, "n_expert_used": n_used, "renormalise": renormalise}
        params |= {"gating": gating, "groups": groups, "groups_used": groups_used}
        tensors = {"logits": ("f32", logits)} | ({"bias": ("f32", bias)} if biased else {})
        case(s, "moe_route", "moe_route_" + name, params, **tensors,
             ids=("i32", ids, True), weights=("f64", w, True))  # fmt: skip
