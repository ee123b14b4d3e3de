"""The operations of a transformer, in float64, as their papers write them.

Shapes are [tokens, ...]. Nothing here knows about files, models or types.
"""

import math

import numpy as np


def rms_norm(x, weight, eps):
    """Zhang and Sennrich 2019: x / sqrt(mean(x^2) + eps) * weight, over the last axis."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def silu(x):
    with np.errstate(over="ignore"):  # exp(-x) = inf gives the right limit, 0
        return x / (1.0 + np.exp(-x))


def layer_norm(x, weight, bias, eps):
    """Ba, Kiros and Hinton 2016, over the last axis."""
    centred = x - x.mean(axis=-1, keepdims=True)
    return rms_norm(centred, weight, eps) + bias


def sigmoid(x):
    with np.errstate(over="ignore"):
        return 1.0 / (1.0 + np.exp(-x))


def gelu(x):
    """Hendrycks and Gimpel 2016, the approximation."""
    return 0.5 * x * (1.0 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def gelu_erf(x):
    """Hendrycks and Gimpel 2016: x times the normal distribution function."""
    return x * np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x.flat]).reshape(x.shape)


def relu2(x):
    """So et al. 2021."""
    return np.maximum(x, 0) ** 2


def softcap(x, cap):
    return cap * np.tanh(x / cap)


def short_conv(a, b, c, weight):
    """A gated causal convolution by channel, as LFM 2 has it: b * (weight conv (a * c)).

    a, b, c: [tokens, n]; weight: [n, taps], the last of which meets the token itself.
    """
    taps = weight.shape[1]
    u = np.concatenate([np.zeros((taps - 1, a.shape[1])), a * c])
    return b * sum(u[i : i + len(a)] * weight[:, i] for i in range(taps))


def swiglu(gate, up):
    """Shazeer 2020, with the two projections already done."""
    return silu(gate) * up


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rope_angles(pos, n_rot, freq_base, factors=None, freq_scale=1.0, yarn=None):
    """Angles [tokens, n_rot/2] and the length by which rotated pairs grow.

    Pair i turns by pos * freq_base^(-2i/n_rot), divided by factors[i] where a
    model has them (Llama 3), times freq_scale (linear interpolation).

    yarn (Peng et al. 2023) = n_ctx_orig, ext_factor, attn_factor, beta_fast,
    beta_slow: pairs that turn more than beta_fast times within the original
    context keep their angle, those below beta_slow are interpolated, and a ramp
    over the pair's index joins them. Its ends are whole indices.
    """
    i = np.arange(n_rot // 2, dtype=np.float64)
    freq = freq_base ** (-2.0 * i / n_rot)
    if factors is not None:
        freq = freq / factors
    length = 1.0
    keep = np.zeros_like(freq)
    if yarn is not None:

        def index_that_turns(times):
            return n_rot * math.log(yarn["n_ctx_orig"] / (times * 2 * math.pi)) / (2 * math.log(freq_base))

        low = max(0, math.floor(index_that_turns(yarn["beta_fast"])))
        high = min(n_rot - 1, math.ceil(index_that_turns(yarn["beta_slow"])))
        ramp = np.clip((i - low) / max(0.001, high - low), 0.0, 1.0)
        keep = (1.0 - ramp) * yarn["ext_factor"]
        length = yarn["attn_factor"]
        if yarn["ext_factor"] != 0:
            length *= 1.0 + 0.1 * math.log(1.0 / freq_scale)
    freq = freq * freq_scale * (1.0 - keep) + freq * keep
    return np.asarray(pos, dtype=np.float64)[:, None] * freq, length


def rope(x, pos, n_rot, freq_base, neox=False, **kw):
    """Rotate x [tokens, heads, head_dim] (Su et al. 2021).

    Pair i is (2i, 2i+1), or with neox (i, i + n_rot/2). Dimensions from n_rot
    on pass through.
    """
    angle, length = rope_angles(pos, n_rot, freq_base, **kw)
    c, s = (np.cos(angle) * length)[:, None, :], (np.sin(angle) * length)[:, None, :]
    first = slice(0, n_rot // 2) if neox else slice(0, n_rot, 2)
    second = slice(n_rot // 2, n_rot) if neox else slice(1, n_rot, 2)
    a, b = x[..., first], x[..., second]
    y = np.array(x, dtype=np.float64)
    y[..., first] = a * c - b * s
    y[..., second] = a * s + b * c
    return y


def attention(q, k, v, n_past, window=0, softcap=0.0, slopes=None, sinks=None):
    """Causal attention with grouped queries (Ainslie et al. 2023).

    q [n_tok, n_head, head_dim]; k, v [n_past + n_tok, n_head_kv, head_dim].
    Token t sees positions 0 .. n_past + t; query head h reads key head
    h / (n_head / n_head_kv). Scores are scaled by 1/sqrt(head_dim).

    window: a token sees itself and the window - 1 positions before (0: all), as in
    Mistral 7B. softcap c: a score becomes c * tanh(score / c), as in Gemma 2. slopes
    [n_head]: a score loses slope times the distance (ALiBi, Press et al. 2022). sinks
    [n_head]: the score of one more position, without a value, as in GPT-OSS.
    """
    n_tok, n_head, head_dim = q.shape
    group = n_head // k.shape[1]
    distance = n_past + np.arange(n_tok)[:, None] - np.arange(k.shape[0])[None, :]
    hidden = (distance < 0) | ((distance >= window) if window else False)
    y = np.empty((n_tok, n_head, v.shape[2]))
    for h in range(n_head):
        score = q[:, h] @ k[:, h // group].T / math.sqrt(head_dim)
        if softcap:
            score = softcap * np.tanh(score / softcap)
        if slopes is not None:
            score -= slopes[h] * distance
        score[hidden] = -np.inf
        if sinks is not None:
            score = np.column_stack([score, np.full(n_tok, sinks[h])])
        y[:, h] = softmax(score)[:, : k.shape[0]] @ v[:, h // group]
    return y


def moe_route(logits, n_used, renormalise, gating="softmax", bias=0.0, groups=1, groups_used=1):
    """The n_used best experts per token, best first, and their weights.

    Weights are the softmax of the logits, their sigmoids, or the softmax of the
    chosen ones alone. A bias is added for the choice (DeepSeek V3), which is among
    the best groups by the sum of their two best. Equals go to the lower index.
    Renormalised weights sum to 1.
    """
    n_tok, n_expert = logits.shape
    p = {"softmax": softmax, "sigmoid": sigmoid, "chosen": lambda x: x}[gating](logits)
    score = p + bias
    if groups > 1:
        two = np.sort(score.reshape(n_tok, groups, -1), axis=-1)[:, :, -2:].sum(axis=-1)
        best = np.argsort(-two, axis=-1, kind="stable")[:, :groups_used]
        kept = np.zeros((n_tok, groups), dtype=bool)
        np.put_along_axis(kept, best, True, axis=-1)
        score = np.where(np.repeat(kept, n_expert // groups, axis=-1), score, -np.inf)
    ids = np.argsort(-score, axis=-1, kind="stable")[:, :n_used]
    w = np.take_along_axis(p, ids, axis=-1)
    if gating == "chosen":
        w = softmax(w)
    if renormalise:
        w = w / w.sum(axis=-1, keepdims=True)
    return ids, w
