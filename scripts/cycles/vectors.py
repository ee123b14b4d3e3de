#!/usr/bin/env python3
"""Predicts cycles of the loops that products spend their time in, with NEON and with SVE of a core's own length.

The loops are those of csrc/arm: of Q4_K (many_super_tile: products of a sub-block, then its scale), of Q8_0 (many_small_tile: products of a
block, then its float scale), and the scores of attention (products of 16 keys and four queries, by element). With SVE the same
instructions work on vectors of the core's length, and operands of tokens are replicated for each 128 bits as they are loaded.
llvm-mca runs each over and over, as if every load were in the first-level cache. Printed are cycles per 1000 multiply-adds.

	scripts/cycles/vectors.py

Wanted: llvm-mca, of a version in $LLVM if it is set (-22, for example).
"""
import os
import re
import subprocess

CORES = {"neoverse-v1": 256, "neoverse-v2": 128, "neoverse-n2": 128}  # bits of a vector of SVE
RUNS = 200


class Loop:
    """Writes instructions of either kind."""

    def __init__(self, sve):
        self.sve, self.lines = sve, []

    def __call__(self, neon, sve):
        self.lines.append(sve if self.sve else neon)

    def both(self, *lines):
        self.lines += lines

    def weights(self, r, at):
        self(f"ldr q{r}, [x0, #{16 * at}]", f"ld1b {{z{r}.b}}, p0/z, [x0, #{r}, mul vl]")

    def scales(self, r):
        self(f"ldr q5, [x6, #{16 * r}]", f"ld1w {{z5.s}}, p0/z, [x6, #{r}, mul vl]")

    def tokens(self, to, base, at):
        self(f"ldr q{to}, [x{base}, #{at}]", f"ld1rqb {{z{to}.b}}, p0/z, [x{base}, #{at}]")

    def end(self, pointers, by):
        for p in range(1, 1 + pointers):
            self.both(f"add x{p}, x{p}, #{by}")
        self.both("add x6, x6, x9", "add x0, x0, x9", "subs x8, x8, #1", "b.ne .")
        return "\n".join(self.lines)


def products(loop):
    """32 columns of four registers of rows, and three of pairs of tokens: sums in registers 8 to 19."""
    for i in range(4):
        for r in range(4):
            loop.weights(r, 8 * i + r)
        if loop.sve and i < 3:
            loop.both("add x0, x0, x9")
        for p in range(3):
            loop.tokens(4, 1 + p, 16 * i)
            for r in range(4):
                d = 8 + 4 * p + r
                loop(f"smmla v{d}.4s, v{r}.16b, v4.16b", f"smmla z{d}.s, z{r}.b, z4.b")


def q4_k(loop):
    products(loop)
    for r in range(4):
        loop.scales(r)
        for p in range(3):
            d = 8 + 4 * p + r
            loop(f"mla v{d + 12}.4s, v{d}.4s, v5.4s", f"mla z{d + 12}.s, p0/m, z{d}.s, z5.s")
    return loop.end(3, 64), 8 * 6 * 32


def q8_0(loop):
    for d in range(8, 20):
        loop(f"movi v{d}.2d, #0", f"mov z{d}.s, #0")
    products(loop)
    for p in range(3):
        loop.tokens(1 + p, 1 + p, 64)
    for r in range(4):
        loop.scales(r)
        for p in range(3):
            d = 8 + 4 * p + r
            loop(f"scvtf v{d}.4s, v{d}.4s", f"scvtf z{d}.s, p0/m, z{d}.s")
            loop(f"fmul v{d}.4s, v{d}.4s, v5.4s", f"fmul z{d}.s, z{d}.s, z5.s")
            loop(f"fmla v{d + 12}.4s, v{d}.4s, v{1 + p}.4s", f"fmla z{d + 12}.s, p0/m, z{d}.s, z{1 + p}.s")
    return loop.end(3, 64), 8 * 6 * 32


def scores(loop):
    for q in range(4):
        loop.tokens(4 + q, 1 + q, 0)
    for i in range(4):
        for r in range(4):
            loop.weights(r, 4 * i + r)
        if loop.sve and i < 3:
            loop.both("add x0, x0, x9")
        for q in range(4):
            for r in range(4):
                d = 12 + 4 * q + r
                loop(f"sdot v{d}.4s, v{r}.16b, v{4 + q}.4b[{i}]", f"sdot z{d}.s, z{r}.b, z{4 + q}.b[{i}]")
    return loop.end(4, 16), 16 * 4 * 16


def cycles(text, cpu):
    out = subprocess.run(
        ["llvm-mca" + os.environ.get("LLVM", ""), "-mtriple=aarch64", "-mcpu=" + cpu, "-mattr=+all", f"-iterations={RUNS}",
         "-instruction-info=0", "-resource-pressure=0"], input=text, text=True, capture_output=True, check=True).stdout
    return int(re.search(r"Total Cycles:\s+(\d+)", out)[1]) / RUNS


def main():
    print(f"{'loop':8} {'core':12} {'NEON':>6} {'SVE':>6}  SVE / NEON")
    for name, loop in ("Q4_K", q4_k), ("Q8_0", q8_0), ("scores", scores):
        for cpu, bits in CORES.items():
            each = []
            for sve in False, True:
                text, macs = loop(Loop(sve))
                each.append(1000 * cycles(text, cpu) / (macs * (bits // 128 if sve else 1)))
            print(f"{name:8} {cpu:12} {each[0]:6.1f} {each[1]:6.1f}  {each[1] / each[0]:.2f}")


main()
