#!/usr/bin/env python3
"""Counts the instructions of the study's products by Arm's matrix extension (sme.c), and compares their bits.

Every kernel runs once under QEMU, one super-block of 16 rows by 16 tokens, and each instruction that runs is looked up in the
disassembly. Two functions count, each by itself: what prepares 256 columns of a panel for all tokens, and what multiplies them by 16.
Printed are instructions by kind, all of 1000 multiply-adds, and the cycles that M4's unit needs at least and at most by what is published
of it. Nothing here is measured.

    scripts/cycles/sme.py

Wanted: zig (or $ZIG), of a version with Clang 20 or later; qemu-aarch64 (or $QEMU), 10.0 or later; llvm-objdump 19 or later, from the
folder $LLVM if that is set.
"""
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
KERNELS = "q8_0_sme q8_0_sme2 q8_0_za q4_k_sme q4_k_sme2 q4_k_planes q4_k_16".split()
SOURCES = "scalar/matmul scalar/codebook format/codebook format/types format/twelve".split()
MACS = 16 * 16 * 256
TRACE = re.compile(r"\[[0-9a-f]+/([0-9a-f]+)/")

# Kinds of instructions, the first that fits. Where a tile is only zeroed, that is a move.
KINDS = {
    "smopa": r"[a-z]*mopa ",
    "za": r"(fmla|fmls|fadd|add) za\.",
    "moves": r"(mov|mova|zero)\b.*za",
    "memory": r"(ld|st)[a-z0-9]* .*(z\d|za\d)",
    "mla": r"f?ml[as]\s.*z\d",
    "vectors": r".*\bz\d",
    "others": r".*",
}
PRINTED = "smopa", "za", "moves", "mla", "vectors", "memory", "others"

# Cycles of an instruction. Published for M4's unit, at 3.9 GHz, are smopa and fmla of four array vectors, 2, and multiply-adds of vectors,
# 4. Of what else it does nothing is: between one for an instruction and four for each vector of it. Loads and stores, and a core's own
# integers, are taken to run beside.
LEAST = {"smopa": 2, "za": 2, "mla": 4, "moves": 1, "vectors": 1}
MOST = {"moves": 4, "vectors": 4}  # of a vector
GHZ = 3.9


def output(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout


def build(folder, name, *flags):
    binary = f"{folder}/{name}"
    sources = [str(HERE / "sme.c")] + [f"{ROOT}/csrc/{s}.c" for s in SOURCES]
    output(os.environ.get("ZIG", "zig"), "cc", "-target", "aarch64-linux-musl", *flags, "-std=c11", "-O2", f"-I{ROOT}/csrc",
           f"-I{ROOT}/include", "-include", f"{ROOT}/csrc/base.h", *sources, "-o", binary)
    return binary


def emulated(*command):
    return [os.environ.get("QEMU", "qemu-aarch64"), "-cpu", "max,sme512=on,sme_fa64=off", *command]


def listing(binary):
    """Instructions by address, and first and last addresses of functions."""
    objdump = str(pathlib.Path(os.environ["LLVM"]) / "llvm-objdump") if "LLVM" in os.environ else "llvm-objdump"
    text, functions, name = {}, {}, None
    for line in output(objdump, "-d", "--mattr=+all", "--no-show-raw-insn", binary).splitlines():
        if m := re.match(r"[0-9a-f]+ <(.*)>:", line):
            name = m[1]
        elif m := re.match(r"\s*([0-9a-f]+):\s+(.*)", line):
            at = int(m[1], 16)
            text[at] = re.sub(r"\s+", " ", m[2])
            functions[name] = functions.get(name, (at,))[0], at
    return text, functions


def kind(line):
    return next(k for k, pattern in KINDS.items() if re.match(pattern, line))


def registers(line):
    """Vectors that an instruction works on: four where it takes a group of four."""
    m = re.search(r"\{ z(\d+)\.\w - z(\d+)", line)
    return (int(m[2]) - int(m[1])) % 32 + 1 if m else 1


def ran(binary, kernel, functions, text):
    """Instructions of the kernel's two functions, by kind, and cycles at least and at most."""
    parts = [functions[f"{kernel}_{part}"] for part in ("prepare", "tile")]
    found = [(collections.Counter(), [0, 0]) for _ in parts]
    command = emulated("-one-insn-per-tb", "-d", "exec,nochain", "-D", "/dev/stderr", binary, kernel)
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        for line in run.stderr:
            if not (m := TRACE.search(line)):
                continue
            at = int(m[1], 16)
            for (first, last), (counts, cycles) in zip(parts, found):
                if first <= at <= last:
                    k, n = kind(text[at]), registers(text[at])
                    counts[k] += 1
                    cycles[0] += LEAST.get(k, 0)
                    cycles[1] += MOST[k] * n if k in MOST else LEAST.get(k, 0)
    if run.returncode:
        sys.exit(f"sme: {' '.join(command)}: exit {run.returncode}")
    return found


def main():
    with tempfile.TemporaryDirectory() as folder:
        plain = build(folder, "plain", "-mcpu=generic+sme+bf16", "-DWITHOUT_SME2")
        compared = subprocess.run(emulated(plain), capture_output=True, text=True)
        if compared.returncode:
            sys.exit(f"sme: {compared.stdout}{compared.stderr}")
        print(compared.stdout, end="")
        binary = build(folder, "sme", "-mcpu=generic+sme2+bf16")
        text, functions = listing(binary)
        print(f"{'':22}" + "".join(f"{k:>9}" for k in PRINTED) + f"{'of 1000':>9}  cycles")
        for name in KERNELS:
            parts = ran(binary, name, functions, text)
            for part, (counts, cycles) in zip(("prepare", "tile"), parts):
                print(f"{name:13}{part:9}" + "".join(f"{counts[k]:9}" for k in PRINTED)
                      + f"{1000 * counts.total() / MACS:9.1f}  {cycles[0]} .. {cycles[1]}")
            for n in 4, 16:
                (prepared, once), (multiplied, each) = parts
                most, least = (MACS * GHZ / (once[i] / n + each[i]) for i in (0, 1))
                print(f"{name:13}{16 * n:4} tokens: {1000 * (prepared.total() / n + multiplied.total()) / MACS:.1f} instructions of 1000 "
                      f"multiply-adds, {least:.0f} .. {most:.0f} G multiply-adds/s")


if __name__ == "__main__":
    main()
