#!/usr/bin/env python3
"""Predicted cycles of products on Arm cores that are not there.

Each product runs once under QEMU, which writes down what blocks of instructions it executes. The instructions between two
marks, in the order in which they ran, are replayed by llvm-mca on the model of a core: how long they take if every load is
in the first-level cache and every branch is foreseen. It is a prediction, and a lower bound.

    predict.py [--cpu neoverse-v1,...] [--isa i8mm|dotprod] [--tokens 1,8,64] [--columns 512] [--panels 1|2] LIB TYPE...

LIB is libquern.a of an Arm build (cmake -DCMAKE_TOOLCHAIN_FILE=scripts/aarch64-toolchain.cmake); types are numbers of
enum qn_type. Wanted: aarch64-linux-gnu-gcc, qemu-aarch64, and llvm-mc and llvm-mca, of a version in $LLVM if it is set
(LLVM=/usr/lib/llvm-22/bin; 16 and later know these cores).
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CROSS = "aarch64-linux-gnu-"
BRANCH = re.compile(r"^(b|b\..*|bl|blr|br|ret|cbz|cbnz|tbz|tbnz)$")
TRACE = re.compile(r"\[[0-9a-f]+/([0-9a-f]+)/")
BLOCK = 512  # instructions that QEMU translates at once, at most
SETS = {"neon": 0x100, "dotprod": 0x300, "i8mm": 0x700}


def tool(name):
    return str(pathlib.Path(os.environ["LLVM"]) / name) if "LLVM" in os.environ else name


def output(*command, stdin=None):
    return subprocess.run(command, input=stdin, capture_output=True, text=True, check=True).stdout


def listing(binary):
    """Words and names of instructions by address, and addresses of symbols."""
    words, symbols = {}, {}
    for line in output(CROSS + "objdump", "-d", "-z", binary).splitlines():
        if m := re.match(r"\s*([0-9a-f]+):\s+([0-9a-f]{8})\s+(\S+)", line):
            words[int(m[1], 16)] = m[2], m[3]
    for line in output(CROSS + "nm", binary).splitlines():
        if len(parts := line.split()) == 3:
            symbols[parts[2]] = int(parts[0], 16)
    return words, symbols


def executed(binary, args, words, symbols):
    """Addresses of the instructions between the marks, in the order in which they ran."""
    command = ["qemu-aarch64", "-cpu", "max", "-d", "exec,nochain", "-D", "/dev/stderr", binary, *args]
    starts, on = [], False
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as run:
        for line in run.stderr:
            m = TRACE.search(line)
            if not m:
                continue
            at = int(m[1], 16)
            if at in (symbols["mark_begin"], symbols["mark_end"]):
                on = at == symbols["mark_begin"]
            elif on:
                starts.append(at)
    if run.returncode:
        sys.exit(f"predict: {' '.join(command)}: exit {run.returncode}")
    ran = []
    for at, following in zip(starts, starts[1:] + [0]):
        # A block ends with a branch, before a page, or when it is full.
        for n in range(1, BLOCK + 1):
            ran.append(at)
            if BRANCH.match(words[at][1]):
                break
            at += 4
            if at == following and (at % 4096 == 0 or n == BLOCK):
                break
    return ran


def assembly(words, ran):
    """The instructions as LLVM writes them, without calls and returns, which its models end at."""
    distinct = sorted({words[at][0] for at in ran})
    text = "\n".join(" ".join("0x" + w[i : i + 2] for i in (6, 4, 2, 0)) for w in distinct)
    out = output(tool("llvm-mc"), "--disassemble", "-triple=aarch64", "-mattr=+all", stdin=text)
    lines = [line.strip() for line in out.splitlines() if line.strip() and not line.strip().startswith(".")]
    if len(lines) != len(distinct):
        sys.exit("predict: llvm-mc does not know all instructions")
    by_word = dict(zip(distinct, lines))
    return [line for at in ran if not (line := by_word[words[at][0]]).startswith(("ret", "bl"))]


def cycles(lines, cpu):
    out = output(tool("llvm-mca"), "-mtriple=aarch64", "-mcpu=" + cpu, "-mattr=+all", "-iterations=1", "-instruction-info=0",
                 "-resource-pressure=0", stdin="\n".join(lines))
    return int(re.search(r"Total Cycles:\s+(\d+)", out)[1])


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--cpu", default="neoverse-v1,neoverse-v2,neoverse-n2")
    p.add_argument("--isa", default="i8mm", choices=SETS)
    p.add_argument("--tokens", default="1,8,64")
    p.add_argument("--columns", type=int, default=512)
    p.add_argument("--panels", type=int, default=1, choices=(1, 2))
    p.add_argument("lib")
    p.add_argument("types", nargs="+")
    a = p.parse_args()
    cpus = a.cpu.split(",")
    with tempfile.TemporaryDirectory() as folder:
        binary = f"{folder}/product"
        root = HERE.parent.parent
        output(CROSS + "gcc", "-std=c11", "-O2", "-static", f"-I{root}/csrc", f"-I{root}/include", "-include",
               f"{root}/csrc/base.h", str(HERE / "product.c"), a.lib, "-o", binary, "-lm", "-pthread")
        words, symbols = listing(binary)
        print("of 1000 multiply-adds: type, tokens, instructions, cycles on " + ", ".join(cpus))
        for kind in a.types:
            for n in map(int, a.tokens.split(",")):
                args = [hex(SETS[a.isa]), kind, str(n), str(a.columns), str(a.panels)]
                ran = executed(binary, args, words, symbols)
                lines = assembly(words, ran)
                unit = 1000 / (16 * a.panels * a.columns * n)
                each = "  ".join(f"{cycles(lines, cpu) * unit:6.1f}" for cpu in cpus)
                print(f"{kind:>4} {n:4} {len(ran) * unit:6.0f}  {each}", flush=True)


if __name__ == "__main__":
    main()
