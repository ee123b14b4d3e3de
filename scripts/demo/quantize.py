"""Q4_K, Q6_K and Q8_0 as ggml lays them out, by rounding to the nearest. In PyTorch, since training rounds in the same way."""

import numpy as np
import torch


def q4_k(w):
    """Rounds w, rows of 256·n weights: returns codes, scales and what they stand for."""
    b = w.float().reshape(-1, 8, 32)
    low = (-b.amin(-1)).clamp_min(0)
    scale = (b.amax(-1) + low).clamp_min(1e-8) / 15
    d = half(scale.amax(-1, keepdim=True) / 63)
    m = half(low.amax(-1, keepdim=True) / 63)
    s = (scale / d).round().clamp(1, 63)
    t = torch.where(m > 0, (low / m.clamp_min(1e-12)).round().clamp(0, 63), torch.zeros(()))
    step, least = (d * s).unsqueeze(-1), (m * t).unsqueeze(-1)
    q = ((b + least) / step).round().clamp(0, 15)
    return (d, m, s, t, q), (q * step - least).reshape(w.shape)


def q6_k(w):
    b = w.float().reshape(-1, 16, 16)
    far = b.abs().argmax(-1, keepdim=True)
    scale = b.gather(-1, far).squeeze(-1) / -32  # the code -32 has no opposite
    d = half(scale.abs().amax(-1, keepdim=True).clamp_min(1e-8) / 127)
    s = (scale / d).round().clamp(-128, 127)
    step = (d * s).unsqueeze(-1)
    q = torch.where(step != 0, (b / torch.where(step != 0, step, torch.ones(()))).round().clamp(-32, 31), torch.zeros(()))
    return (d, s, q), (q * step).reshape(w.shape)


def q8_0(w):
    b = w.float().reshape(-1, 32)
    scale = b.abs().amax(-1, keepdim=True) / 127
    d = half(scale)
    q = torch.where(scale > 0, (b / scale.clamp_min(1e-30)).round(), torch.zeros(()))
    return (d, q), (q * d).reshape(w.shape)


def half(x):
    """x as float16 holds it, no less than the least it holds, which keeps what is divided by it finite."""
    return torch.where(x > 0, x.clamp_min(6e-8), x).half().float()


ROUND = {"Q4_K": q4_k, "Q6_K": q6_k, "Q8_0": q8_0, "F16": lambda w: (None, w.half().float()), "F32": lambda w: (None, w)}


def as_stored(w, kind):
    """Returns w as a file of this type would give it back, with the gradient of w."""
    return w + (ROUND[kind](w.detach())[1] - w.detach())


def u8(x):
    return x.to(torch.int64).numpy().astype(np.uint8)


def f16(x):
    return x.numpy().astype("<f2").view(np.uint8).reshape(-1, 2)


def pack_q4_k(w):
    (d, m, s, t, q), _ = q4_k(w)
    s, t, q = u8(s), u8(t), u8(q)
    six = np.concatenate([
        s[:, :4] | (s[:, 4:] >> 4) << 6,
        t[:, :4] | (t[:, 4:] >> 4) << 6,
        (s[:, 4:] & 15) | (t[:, 4:] & 15) << 4,
    ], axis=1)
    codes = (q[:, 0::2] | q[:, 1::2] << 4).reshape(len(q), 128)
    return np.concatenate([f16(d), f16(m), six, codes], axis=1).tobytes()


def pack_q6_k(w):
    (d, s, q), _ = q6_k(w)
    q = u8(q + 32).reshape(-1, 2, 4, 32)  # in each half, four quarters go together
    low = np.concatenate([q[:, :, 0:2] & 15 | (q[:, :, 2:4] & 15) << 4], axis=2).reshape(len(q), 128)
    high = (q[:, :, 0] >> 4 | q[:, :, 1] >> 4 << 2 | q[:, :, 2] >> 4 << 4 | q[:, :, 3] >> 4 << 6).reshape(len(q), 64)
    scales = s.to(torch.int8).numpy().view(np.uint8)
    return np.concatenate([low, high, scales, f16(d)], axis=1).tobytes()


def pack_q8_0(w):
    (d, q), _ = q8_0(w)
    return np.concatenate([f16(d), q.to(torch.int8).numpy().view(np.uint8)], axis=1).tobytes()


PACK = {"Q4_K": pack_q4_k, "Q6_K": pack_q6_k, "Q8_0": pack_q8_0,
        "F16": lambda w: w.numpy().astype("<f2").tobytes(), "F32": lambda w: w.float().numpy().astype("<f4").tobytes()}
