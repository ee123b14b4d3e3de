"""The tensor types of GGUF: how the bytes of a block become weights.

Every type is a row of TYPES. A decoder takes blocks as uint8 [n, bytes] and
returns float64 [n, weights]. Scales are fp16 and codes are at most 8 bits, so
each product below is exact in float64, and a float32 engine that rounds once
(in the subtraction of a minimum, if there is one) must agree bit for bit.

    TYPES[name]           id in the file, weights and bytes per block, ...
    decode(name, raw)     uint8 [rows, row_bytes] -> float64 [rows, cols]
    encode(name, x)       F32, F16 and BF16 only: float -> bytes, to nearest even
    random_rows(...)      blocks whose every code bit is random
"""

from dataclasses import dataclass
from typing import Callable, Optional

import numpy as np

import golden_grids


class Rand:
    """SplitMix64 started from a name: the same bits under every NumPy.

    Streams belong to names, so a new case moves no other.
    """

    def __init__(self, name):
        # FNV-1a spreads names; SplitMix64 then mixes every output.
        h = 0xCBF29CE484222325
        for byte in name.encode():
            h = ((h ^ byte) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
        self.state = h

    def words(self, n):
        """n random uint64."""
        step = 0x9E3779B97F4A7C15
        i = np.arange(1, n + 1, dtype=np.uint64)
        z = np.uint64(self.state) + i * np.uint64(step)
        self.state = (self.state + n * step) & 0xFFFFFFFFFFFFFFFF
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))

    def bytes(self, shape):
        n = int(np.prod(shape))
        return self.words((n + 7) // 8).astype("<u8").view(np.uint8)[:n].reshape(shape)

    def below(self, limit, shape):
        """Integers in [0, limit), limit below 2^32."""
        n = int(np.prod(shape))
        return ((self.words(n) >> np.uint64(32)) % np.uint64(limit)).astype(np.int64).reshape(shape)

    def uniform(self, lo, hi, shape):
        n = int(np.prod(shape))
        u = (self.words(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return (lo + (hi - lo) * u).reshape(shape)

    def normal(self, shape, std=1.0):
        """Nearly normal: twelve uniforms of 32 bits, summed as integers.

        No libm is involved, so the value is the same on every machine.
        """
        n = int(np.prod(shape))
        u = self.words(6 * n).astype("<u8").view("<u4").astype(np.int64).reshape(n, 12)
        return ((u.sum(axis=1).astype(np.float64) * 2.0**-32 - 6.0) * std).reshape(shape)


def _half(b, at):
    """The fp16 at byte `at` of every block, as a column."""
    return np.ascontiguousarray(b[:, at : at + 2]).view("<f2").astype(np.float64)


def _nibbles(qs):
    """[n, bytes] -> [n, 2*bytes]: all low nibbles, then all high ones."""
    return np.concatenate([qs & 15, qs >> 4], axis=1).astype(np.int64)


def _f32(b):
    return b.view("<f4").astype(np.float64)


def _f16(b):
    return b.view("<f2").astype(np.float64)


def _bf16(b):
    return (b.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)


def _q8_0(b):
    return _half(b, 0) * b[:, 2:34].view(np.int8)


def _q4_0(b):
    return _half(b, 0) * (_nibbles(b[:, 2:18]) - 8)


def _q4_1(b):
    return _half(b, 0) * _nibbles(b[:, 4:20]) + _half(b, 2)


def _fifth_bits(b, at):
    """32 bits, little endian: bit j is the fifth bit of weight j."""
    return np.unpackbits(b[:, at : at + 4], axis=1, bitorder="little").astype(np.int64) << 4


def _q5_0(b):
    return _half(b, 0) * ((_nibbles(b[:, 6:22]) | _fifth_bits(b, 2)) - 16)


def _q5_1(b):
    return _half(b, 0) * (_nibbles(b[:, 8:24]) | _fifth_bits(b, 4)) + _half(b, 2)


def _crumbs(qs):
    """64 bytes of 2-bit codes -> [n, 256].

    Each half of the super-block has 32 bytes; weight 32*s + l of the half is
    bits 2s, 2s+1 of byte l.
    """
    halves = qs.reshape(-1, 2, 1, 32)
    shift = np.arange(0, 8, 2, dtype=np.uint8).reshape(1, 1, 4, 1)
    return ((halves >> shift) & 3).reshape(-1, 256).astype(np.int64)


def _q2_k(b):
    scales = b[:, 0:16]
    d = np.repeat(_half(b, 80) * (scales & 15), 16, axis=1)
    m = np.repeat(_half(b, 82) * (scales >> 4), 16, axis=1)
    return d * _crumbs(b[:, 16:80]) - m


def _q3_k(b):
    # Weight 32*i + l has its third bit in bit i of mask byte l.
    bit = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    high = ((b[:, None, 0:32] >> bit) & 1).reshape(-1, 256).astype(np.int64)
    q = (_crumbs(b[:, 32:96]) | (high << 2)) - 4
    # 16 scales of 6 bits: 4 low bits in bytes 0-7, low nibbles first, and
    # 2 high bits of scale j in bits 2*(j/4) of byte 8 + j%4.
    packed = b[:, 96:108]
    top = (packed[:, None, 8:12] >> np.arange(0, 8, 2, dtype=np.uint8).reshape(1, 4, 1)) & 3
    scales = (_nibbles(packed[:, 0:8]) | (top.reshape(-1, 16).astype(np.int64) << 4)) - 32
    return np.repeat(_half(b, 108) * scales, 16, axis=1) * q


def _scales_mins(s):
    """12 bytes -> 8 scales and 8 minimums of 6 bits (Q4_K, Q5_K)."""
    low_s, low_m, rest = s[:, 0:4], s[:, 4:8], s[:, 8:12]
    scales = np.concatenate([low_s & 63, (rest & 15) | ((low_s >> 6) << 4)], axis=1)
    mins = np.concatenate([low_m & 63, (rest >> 4) | ((low_m >> 6) << 4)], axis=1)
    return scales.astype(np.int64), mins.astype(np.int64)


def _nibble_pairs(qs):
    """128 bytes -> [n, 256]: each 32 bytes give 32 low nibbles, then 32 high."""
    return _nibbles(qs.reshape(-1, 32)).reshape(-1, 256)


def _q4_k(b):
    scales, mins = _scales_mins(b[:, 4:16])
    d = np.repeat(_half(b, 0) * scales, 32, axis=1)
    m = np.repeat(_half(b, 2) * mins, 32, axis=1)
    return d * _nibble_pairs(b[:, 16:144]) - m


def _q5_k(b):
    scales, mins = _scales_mins(b[:, 4:16])
    d = np.repeat(_half(b, 0) * scales, 32, axis=1)
    m = np.repeat(_half(b, 2) * mins, 32, axis=1)
    bit = np.arange(8, dtype=np.uint8).reshape(1, 8, 1)
    high = ((b[:, None, 16:48] >> bit) & 1).reshape(-1, 256).astype(np.int64)
    return d * (_nibble_pairs(b[:, 48:176]) | (high << 4)) - m


def _q6_k(b):
    # A half has 64 bytes of low nibbles: weights 0-63 are the low ones, 64-127
    # the high ones. Its upper two bits are stored as _crumbs stores codes.
    low = _nibbles(b[:, 0:128].reshape(-1, 64)).reshape(-1, 256)
    q = (low | (_crumbs(b[:, 128:192]) << 4)) - 32
    return np.repeat(_half(b, 208) * b[:, 192:208].view(np.int8), 16, axis=1) * q


# The sixteen levels of the non-linear 4-bit types.
IQ4_LEVELS = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113])


def _iq4_nl(b):
    return _half(b, 0) * IQ4_LEVELS[_nibbles(b[:, 2:18])]


def _iq4_xs(b):
    low = np.stack([b[:, 4:8] & 15, b[:, 4:8] >> 4], axis=2).reshape(-1, 8).astype(np.int64)
    high = (np.ascontiguousarray(b[:, 2:4]).view("<u2") >> np.arange(0, 16, 2)) & 3
    scales = (low | (high.astype(np.int64) << 4)) - 32
    levels = IQ4_LEVELS[_nibbles(b[:, 8:136].reshape(-1, 16)).reshape(-1, 256)]
    return np.repeat(_half(b, 0) * scales, 32, axis=1) * levels


# Twice the values of 4-bit floats: a sign, two bits of exponent, one of mantissa.
FP4_LEVELS = np.array([0, 1, 2, 3, 4, 6, 8, 12])
FP4_LEVELS = np.concatenate([FP4_LEVELS, -FP4_LEVELS])


def _mxfp4(b):
    return np.ldexp(1.0, b[:, 0:1].astype(np.int64) - 128) * FP4_LEVELS[_nibbles(b[:, 1:17])]


# The float of 4 bits of exponent and 3 of mantissa that each byte is: its sign does not count, and 127 is no number.
UE4M3 = np.array([np.ldexp(8.0 + x % 8, (x >> 3 & 15) - 10) if x >> 3 & 15 else np.ldexp(x % 8, -9) for x in range(256)])
UE4M3[127] = 0


def _nvfp4(b):
    levels = FP4_LEVELS[_nibbles(b[:, 4:36].reshape(-1, 8)).reshape(-1, 64)]
    return np.repeat(UE4M3[b[:, 0:4]] / 2, 16, axis=1) * levels


def _q1_0(b):
    return _half(b, 0) * (2 * _bits(b[:, 2:18].astype(np.int64), 1, 8) - 1)


def _q2_0(b):
    return _half(b, 0) * (_bits(b[:, 2:18].astype(np.int64), 2, 4) - 1)


def _words(b, dtype):
    """The bytes of every block as numbers."""
    return np.ascontiguousarray(b).view(dtype).astype(np.int64)


def _bits(x, width, n):
    """[blocks, m] -> [blocks, m * n]: n fields of `width` bits of each number, lowest first."""
    return ((x[:, :, None] >> (width * np.arange(n))) & ((1 << width) - 1)).reshape(len(x), -1)


def _signs(x):
    """8 bits for 8 weights: 1 or -1."""
    return 1 - 2 * _bits(x.astype(np.int64), 1, 8)


def _signs7(x):
    """The same where the eighth bit makes the number of minuses even."""
    odd = _bits(x, 1, 7).reshape(len(x), -1, 7).sum(axis=2) & 1
    return _signs(x | odd << 7)


IQ2_LEVELS = np.array([8, 25, 43])
IQ3_XXS_LEVELS = np.array([4, 12, 20, 28, 36, 44, 52, 62])
IQ3_S_LEVELS = np.arange(1, 16, 2)


def _lattice(d, s, grid, codes, signs):
    """d * (2 s + 1) * level * sign, the scales s repeated to the 256 weights."""
    return d * np.repeat(2 * s + 1, 256 // s.shape[1], axis=1) * grid[codes].reshape(len(codes), -1) * signs


def _iq2_xxs(b):
    both = _words(b[:, 2:66], "<u4").reshape(-1, 8, 2)
    codes, rest = _bits(both[:, :, 0], 8, 4), both[:, :, 1]
    signs = _signs7(_bits(rest, 7, 4))
    return _lattice(_half(b, 0) / 8, rest >> 28, IQ2_LEVELS[golden_grids.IQ2_XXS], codes, signs)


def _iq2_xs(b):
    q = _words(b[:, 2:66], "<u2")
    scales = _bits(b[:, 66:74].astype(np.int64), 4, 2)
    return _lattice(_half(b, 0) / 8, scales, IQ2_LEVELS[golden_grids.IQ2_XS], q & 511, _signs7(q >> 9))


def _iq2_s(b):
    codes = b[:, 2:34] | _bits(b[:, 66:74].astype(np.int64), 2, 4) << 8
    scales = _bits(b[:, 74:82].astype(np.int64), 4, 2)
    return _lattice(_half(b, 0) / 8, scales, IQ2_LEVELS[golden_grids.IQ2_S], codes, _signs(b[:, 34:66]))


def _iq3_xxs(b):
    rest = _words(b[:, 66:98], "<u4")
    signs = _signs7(_bits(rest, 7, 4))
    return _lattice(_half(b, 0) / 4, rest >> 28, IQ3_XXS_LEVELS[golden_grids.IQ3_XXS], b[:, 2:66], signs)


def _iq3_s(b):
    codes = b[:, 2:66] | _bits(b[:, 66:74].astype(np.int64), 1, 8) << 8
    scales = _bits(b[:, 106:110].astype(np.int64), 4, 2)
    return _lattice(_half(b, 0), scales, IQ3_S_LEVELS[golden_grids.IQ3_S], codes, _signs(b[:, 74:106]))


def _shifted(d, s, codes, minus):
    """d * (2 s + 1) * (level +- 1/8), level -1, 0 or 1; every argument but d repeated as it needs."""
    shift = np.repeat(0.125 - 0.25 * minus, 256 // minus.shape[1], axis=1)
    levels = (golden_grids.IQ1 - 1)[codes].reshape(len(codes), -1)
    return d * np.repeat(2 * s + 1, 256 // s.shape[1], axis=1) * (levels + shift)


def _iq1_s(b):
    qh = _words(b[:, 34:50], "<u2")
    return _shifted(_half(b, 0), qh >> 12 & 7, b[:, 2:34] | _bits(qh, 3, 4) << 8, qh >> 15)


def _iq1_m(b):
    qh = _bits(b[:, 32:48].astype(np.int64), 4, 2)
    rest = _words(b[:, 48:56], "<u2")
    d = ((rest >> 12) << np.arange(0, 16, 4)).sum(axis=1, keepdims=True).astype("<u2").view("<f2").astype(np.float64)
    return _shifted(d, _bits(rest, 3, 4), b[:, 0:32] | (qh & 7) << 8, qh >> 3)


def _trits(b, n):
    """[blocks, m] bytes -> [blocks, n * m]: the first digit of every byte, then the second.

    A byte is a fraction of 256; its digits in base 3 come from the front.
    """
    rest, out = b.astype(np.int64), []
    for _ in range(n):
        out.append(rest * 3 // 256)
        rest = rest * 3 % 256
    return np.concatenate(out, axis=1)


def _tq1_0(b):
    parts = [_trits(b[:, 0:32], 5), _trits(b[:, 32:48], 5), _trits(b[:, 48:52], 4)]
    return _half(b, 52) * (np.concatenate(parts, axis=1) - 1)


def _tq2_0(b):
    return _half(b, 64) * (_crumbs(b[:, 0:64]) - 1)


# The types of ik_llama.cpp: levels from a table, of which a bit of each sub-block moves all by as much.
IQ2_NL = np.array([-31, -13, 1, 17])
IQ3_NL = np.array([-63, -40, -23, -10, 1, 13, 28, 47])
IQ5_NL = np.array(
    [-126, -114, -103, -92, -83, -74, -65, -57, -50, -43, -36, -30, -24, -18, -12, -6]
    + [-1, 5, 11, 17, 23, 29, 36, 43, 51, 59, 68, 77, 87, 97, 109, 121]
)
IQ6_NL = np.array(
    [-127, -121, -115, -109, -104, -98, -93, -88, -84, -79, -74, -70, -66, -62, -58, -54]
    + [-51, -47, -44, -40, -37, -34, -31, -28, -25, -22, -19, -16, -13, -11, -8, -5]
    + [-2, 0, 3, 6, 9, 12, 14, 17, 20, 23, 27, 30, 33, 36, 40, 44]
    + [47, 51, 55, 59, 63, 68, 72, 77, 82, 87, 92, 98, 103, 109, 115, 121]
)
# Of two weights at once: levels of IQ3_NL by their numbers.
IQ2_KL_PAIRS = IQ3_NL[
    np.array(
        [[0, 2], [0, 5], [1, 0], [1, 3], [1, 5], [1, 7], [2, 1], [2, 2], [2, 4], [2, 5], [2, 6], [3, 0], [3, 4], [3, 5], [3, 7], [4, 2]]
        + [[4, 3], [4, 4], [4, 5], [4, 6], [5, 1], [5, 2], [5, 3], [5, 4], [5, 5], [6, 0], [6, 2], [6, 4], [6, 6], [6, 7], [7, 2], [7, 5]]
    )
]


def _moved(d, scales, levels, shift, bits):
    """d * scale * (level + shift where the bit of the sub-block is set), scales and bits repeated to the weights."""
    move = shift * np.repeat(bits, 256 // bits.shape[1], axis=1)
    return d * np.repeat(scales, 256 // scales.shape[1], axis=1) * (levels + move)


def _u16_bits(b, at, width, n):
    return _bits(_words(b[:, at : at + 2], "<u2"), width, n)


def _high_bits(qh):
    """32 bytes: bit i of byte l belongs to weight 32 i + l."""
    return ((qh[:, None, :] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1)) & 1).reshape(-1, 256).astype(np.int64)


def _scales6(b, at):
    """Four bytes of 16 bit pairs, and above them eight of 16 nibbles: 6 bits less 32."""
    return (_bits(b[:, at + 4 : at + 12].astype(np.int64), 4, 2) | _bits(b[:, at : at + 4].astype(np.int64), 2, 4) << 4) - 32


def _halves16(qs):
    """128 bytes -> [n, 256]: each 16 bytes give 16 low nibbles, then 16 high."""
    return _nibbles(qs.reshape(-1, 16)).reshape(-1, 256)


def _iq2_k(b):
    scales = _bits(b[:, 4:12].astype(np.int64), 4, 2) - 8
    return _moved(_half(b, 0), scales, IQ2_NL[_crumbs(b[:, 12:76])], 5, _u16_bits(b, 2, 1, 16))


def _iq3_k(b):
    scales = (2 * _bits(b[:, 6:14].astype(np.int64), 4, 2) + 1) * (1 - 2 * _u16_bits(b, 4, 1, 16))
    q = _crumbs(b[:, 14:78]) | _high_bits(b[:, 78:110]) << 2
    return _moved(_half(b, 0), scales, IQ3_NL[q], 4, _u16_bits(b, 2, 1, 16))


def _iq4_k(b):
    return _moved(_half(b, 0), _scales6(b, 4), IQ4_LEVELS[_halves16(b[:, 16:144])], 4, _u16_bits(b, 2, 1, 16))


def _iq5_k(b):
    q = _nibble_pairs(b[:, 16:144]) | _high_bits(b[:, 144:176]) << 4
    return _moved(_half(b, 0), _scales6(b, 4), IQ5_NL[q], 2, _u16_bits(b, 2, 1, 16))


def _iq6_k(b):
    """Levels are the integers nearest to a polynomial of the code, as ik's products have them."""
    q = _nibble_pairs(b[:, 20:148]) | _crumbs(b[:, 148:212]) << 4
    return _moved(_half(b, 0), b[:, 4:20].view(np.int8), IQ6_NL[q], 1, _u16_bits(b, 2, 1, 16))


def _scales_odd(s):
    """Bytes: a scale, odd and less 127, and in the lowest bit whether levels move."""
    s = s.astype(np.int64)
    return (s & 254) - 127, s & 1


def _iq4_ks(b, d):
    scales, bits = _scales_odd(b[:, 0:8])
    return _moved(d, scales, IQ4_LEVELS[_halves16(b[:, 8:136])], 4, bits)


def _iq5_ks(b, d):
    scales, bits = _scales_odd(b[:, 0:8])
    return _moved(d, scales, IQ5_NL[_nibble_pairs(b[:, 8:136]) | _high_bits(b[:, 136:168]) << 4], 2, bits)


def _iq4_kss(b, d):
    """As IQ4_KS; the byte of a scale is in the lowest bits of the eight halves, which are the Gray code of the rest."""
    halves = _words(b, "<u2")
    scales, bits = _scales_odd(((halves & 1).reshape(-1, 8, 8) << np.arange(8)).sum(axis=2))
    codes = halves & 0xFFFE
    codes = (codes ^ codes >> 1).astype("<u2").view(np.uint8).reshape(-1, 128)
    return _moved(d, scales, IQ4_LEVELS[_halves16(codes)], 4, bits)


def _iq2_ks(b, d):
    extra = _u16_bits(b, 0, 1, 16)
    scales = (_bits(b[:, 2:6].astype(np.int64), 4, 2) | extra[:, 8:] << 4) - 16
    return _moved(d, scales, IQ2_NL[_crumbs(b[:, 6:70])], 5, extra[:, :8])


def _iq3_ks(b, d):
    extra = _u16_bits(b, 0, 1, 16)
    scales = (_nibbles(b[:, 2:6]) | extra[:, :8] << 4) - 16
    q = _crumbs(b[:, 6:70]) | _high_bits(b[:, 70:102]) << 2
    return _moved(d, scales, IQ3_NL[q], 4, extra[:, 8:])


def _iq2_kl(b, d):
    scales = (_nibbles(b[:, 2:6]) | _u16_bits(b, 0, 2, 8) << 4) - 32
    high = ((b[:, None, 70:86] >> np.arange(8, dtype=np.uint8).reshape(1, 8, 1)) & 1).reshape(-1, 128).astype(np.int64)
    codes = _nibbles(b[:, 6:70].reshape(-1, 16)).reshape(-1, 128) | high << 4
    return d * np.repeat(scales, 32, axis=1) * IQ2_KL_PAIRS[codes].reshape(-1, 256)


def _trellis(codes, n):
    """[rows, m] codes -> [rows, n * m]: for each the numbers that follow it, four sums of six bits around zero."""
    x, out = codes.astype(np.uint64) + 4096, []
    for _ in range(n):
        x = x * np.uint64(0xCBAC1FED) & np.uint64(0xFFFFFFFF)
        out.append(sum((x >> np.uint64(8 * i) & np.uint64(63)).astype(np.int64) for i in range(4)) - 126)
    return np.stack(out, axis=2).reshape(len(codes), -1)


def _by_32(d, scales, q):
    return d * np.repeat(scales, 32, axis=1) * q


def _times(d, factor):
    return (d.astype(np.float32) * np.float32(factor)).astype(np.float64)


def _iq1_kt(b, d):
    x = b.astype(np.int64)
    codes = x[:, 8:40] | _nibbles(b[:, 40:56]) << 8 | _bits(x[:, 0:8] >> 4, 1, 4) << 12
    return _by_32(d, IQ4_LEVELS[x[:, 0:8] & 15], _trellis(codes, 8))


def _iq2_kt(b, d):
    """The row's scale is 5% more than in the file, a float again, in all products of ik's and so here."""
    return _by_32(_times(d, 1.05), IQ4_LEVELS[_nibbles(b[:, 0:4])], _trellis(_words(b[:, 4:68], "<u2"), 8))


def _iq3_kt(b, d):
    q = np.abs(_trellis(_words(b[:, 4:68], "<u2"), 8)) * (1 - 2 * _high_bits(b[:, 68:100]))
    return _by_32(_times(d, 1.01), _nibbles(b[:, 0:4]), q)


def _iq4_kt(b, d):
    sh = _words(b[:, 0:32], "<u4")
    codes = b[:, 32:96] | _nibbles(b[:, 96:128]) << 8 | _bits(sh >> 8, 3, 8) << 12 | np.repeat(sh & 1, 8, axis=1) << 15
    return _by_32(d, (sh >> 1 & 127) - 64, _trellis(codes, 4))


def _put_half(b, at, values):
    b[:, at : at + 2] = np.asarray(values).astype("<f2").reshape(-1, 1).view(np.uint8)


def _put_e8m0(b, at, values):
    """The power of two at or below |value|; zero has none and becomes the least."""
    size = np.abs(np.asarray(values, dtype=np.float64))
    exp = np.where(size > 0, np.frexp(size)[1] + 127, 0)
    b[:, at] = exp


def _put_ue4m3(b, at, values):
    """Four scales, each somewhat below the one before: of a magnitude, those below."""
    sizes = np.abs(np.asarray(values, dtype=np.float64))
    for i in range(4):
        b[:, at + i] = np.searchsorted(UE4M3[:127], sizes * (8 - i) / 8, side="right") - 1


def _put_split(b, at, values):
    """A half in the upper nibbles of every second byte (IQ1_M)."""
    h = np.asarray(values).astype("<f2").view("<u2")
    for i in range(4):
        b[:, at + 2 * i + 1] = (b[:, at + 2 * i + 1] & 15) | ((h >> 4 * i) & 15) << 4


@dataclass(frozen=True)
class Type:
    id: int  # ggml's number, as stored in the file
    weights: int  # per block
    bytes: int  # per block
    decode: Callable
    d: Optional[int] = None  # where the scale is, an fp16 but for MXFP4, NVFP4 and IQ1_M
    m: Optional[int] = None  # where the fp16 minimum is
    # The minimum that centres uniformly random codes, in units of the scale:
    # the mean code, with the sign that the type gives its minimum.
    centre: float = 0.0
    put: Callable = _put_half  # puts the scales of blocks there
    head: Optional[str] = None  # the type of the scale that rows begin with: decode takes it as well


TYPES = {
    "F32": Type(0, 1, 4, _f32),
    "F16": Type(1, 1, 2, _f16),
    "BF16": Type(30, 1, 2, _bf16),
    "Q8_0": Type(8, 32, 34, _q8_0, d=0),
    "Q4_0": Type(2, 32, 18, _q4_0, d=0),
    "Q4_1": Type(3, 32, 20, _q4_1, d=0, m=2, centre=-7.5),
    "Q5_0": Type(6, 32, 22, _q5_0, d=0),
    "Q5_1": Type(7, 32, 24, _q5_1, d=0, m=2, centre=-15.5),
    "Q2_K": Type(10, 256, 84, _q2_k, d=80, m=82, centre=1.5),
    "Q3_K": Type(11, 256, 110, _q3_k, d=108),
    "Q4_K": Type(12, 256, 144, _q4_k, d=0, m=2, centre=7.5),
    "Q5_K": Type(13, 256, 176, _q5_k, d=0, m=2, centre=15.5),
    "Q6_K": Type(14, 256, 210, _q6_k, d=208),
    "IQ4_NL": Type(20, 32, 18, _iq4_nl, d=0),
    "IQ4_XS": Type(23, 256, 136, _iq4_xs, d=0),
    "MXFP4": Type(39, 32, 17, _mxfp4, d=0, put=_put_e8m0),
    "IQ2_XXS": Type(16, 256, 66, _iq2_xxs, d=0),
    "IQ2_XS": Type(17, 256, 74, _iq2_xs, d=0),
    "IQ2_S": Type(22, 256, 82, _iq2_s, d=0),
    "IQ3_XXS": Type(18, 256, 98, _iq3_xxs, d=0),
    "IQ3_S": Type(21, 256, 110, _iq3_s, d=0),
    "IQ1_S": Type(19, 256, 50, _iq1_s, d=0),
    "IQ1_M": Type(29, 256, 56, _iq1_m, d=48, put=_put_split),
    "TQ1_0": Type(34, 256, 54, _tq1_0, d=52),
    "TQ2_0": Type(35, 256, 66, _tq2_0, d=64),
    "NVFP4": Type(40, 64, 36, _nvfp4, d=0, put=_put_ue4m3),
    "Q1_0": Type(41, 128, 18, _q1_0, d=0),
    "Q2_0": Type(42, 64, 18, _q2_0, d=0),
    "IQ2_K": Type(137, 256, 76, _iq2_k, d=0),
    "IQ3_K": Type(138, 256, 110, _iq3_k, d=0),
    "IQ4_K": Type(139, 256, 144, _iq4_k, d=0),
    "IQ5_K": Type(140, 256, 176, _iq5_k, d=0),
    "IQ6_K": Type(141, 256, 212, _iq6_k, d=0),
    "IQ2_KS": Type(145, 256, 70, _iq2_ks, head="<f2"),
    "IQ2_KL": Type(157, 256, 86, _iq2_kl, head="<f2"),
    "IQ3_KS": Type(156, 256, 102, _iq3_ks, head="<f2"),
    "IQ4_KS": Type(144, 256, 136, _iq4_ks, head="<f4"),
    "IQ4_KSS": Type(146, 256, 128, _iq4_kss, head="<f4"),
    "IQ5_KS": Type(152, 256, 168, _iq5_ks, head="<f4"),
    "IQ1_KT": Type(158, 256, 56, _iq1_kt, head="<f4"),
    "IQ2_KT": Type(153, 256, 68, _iq2_kt, head="<f4"),
    "IQ3_KT": Type(154, 256, 100, _iq3_kt, head="<f4"),
    "IQ4_KT": Type(155, 256, 128, _iq4_kt, head="<f4"),
}
NAMES = {t.id: name for name, t in TYPES.items()}


def row_bytes(name, cols):
    t = TYPES[name]
    if cols % t.weights:
        raise ValueError(f"rows of {cols} weights do not divide into {name} blocks of {t.weights}")
    return _head_bytes(t) + cols // t.weights * t.bytes


def _head_bytes(t):
    return np.dtype(t.head).itemsize if t.head else 0


def decode(name, raw):
    t = TYPES[name]
    rows = raw.shape[0]
    if t.head:
        head = _head_bytes(t)
        d = np.ascontiguousarray(raw[:, :head]).view(t.head).astype(np.float64)
        b = np.ascontiguousarray(raw[:, head:]).reshape(-1, t.bytes)
        return t.decode(b, np.repeat(d, len(b) // rows, axis=0)).reshape(rows, -1)
    return t.decode(np.ascontiguousarray(raw).reshape(-1, t.bytes)).reshape(rows, -1)


def encode(name, x):
    rows = x.shape[0]
    if name == "F32":
        bits = x.astype("<f4")
    elif name == "F16":
        bits = x.astype(np.float32).astype("<f2")
    elif name == "BF16":
        bits = to_bf16(x.astype(np.float32))
    else:
        raise ValueError(f"no encoder for {name}: use random_rows")
    return np.ascontiguousarray(bits).view(np.uint8).reshape(rows, -1)


def to_bf16(x):
    """The upper halves of finite float32, rounded to nearest even."""
    u = x.astype("<f4").view("<u4").astype(np.uint64)
    return ((u + np.uint64(0x7FFF) + ((u >> np.uint64(16)) & np.uint64(1))) >> np.uint64(16)).astype("<u2")


def random_rows(rng, name, rows, cols, std, scales=None):
    """Rows of a type with standard deviation near std: uint8 [rows, row_bytes].

    In a block type every bit that is no fp16 is random. Its scale has a random
    sign and varies by a factor of two among blocks; `scales`, where given,
    replaces the first scales and minimums by values to be tried.
    """
    t = TYPES[name]
    if t.head:
        b = rng.bytes((rows, row_bytes(name, cols) - _head_bytes(t)))
        d = rng.uniform(0.7, 1.4, rows) * (1 - 2 * rng.below(2, rows))
        d *= std / t.decode(b.reshape(-1, t.bytes), np.ones((rows * cols // t.weights, 1))).std()
        if scales is not None:
            d[: len(scales[: rows - 1])] = scales[: rows - 1]
        return np.concatenate([d.astype(t.head).reshape(-1, 1).view(np.uint8), b], axis=1)
    if t.d is None:
        return encode(name, rng.normal((rows, cols), std))
    n = rows * cols // t.weights
    b = rng.bytes((n, t.bytes)).copy()

    t.put(b, t.d, np.ones(n))
    if t.m is not None:
        _put_half(b, t.m, np.full(n, t.centre))
    d = np.full(n, std / t.decode(b).std()) * rng.uniform(0.7, 1.4, n)
    d *= 1 - 2 * rng.below(2, n)
    m = d * t.centre
    if scales is not None:
        tried = np.asarray(scales, dtype=np.float64)[: n - 1]
        d[: len(tried)] = tried
        m[: len(tried)] = np.roll(tried, 1)
    t.put(b, t.d, d)
    if t.m is not None:
        _put_half(b, t.m, m)
    return b.reshape(rows, -1)
