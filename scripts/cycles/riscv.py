#!/usr/bin/env python3
"""Counts what products execute on RISC-V, with each set of kernels: of 1000 multiply-adds.

Each product runs once under QEMU, one instruction at a time. Counted are instructions of scalars, those of vectors, and registers that the
latter write, or read where they store: what a processor takes as many cycles for as it handles one register at a time. Nothing is measured.

    riscv.py [--sets scalar,rvv,rvv256] [--tokens 1,8,48] [--columns 512] LIB TYPE...

LIB is libquern.a of build-linux-riscv64 (make test-riscv); types are numbers of enum qn_type. Wanted: zig (or $ZIG), qemu-riscv64 (or $QEMU),
8.1 or later, and llvm-objdump (from the folder $LLVM if that is set), 14 or later.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
SETS = {"scalar": (0, 128), "rvv": (0x10000, 128), "rvv256": (0x30000, 256)}  # and bits of a register
TRACE = re.compile(r"\[[0-9a-f]+/([0-9a-f]+)/")


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def listing(binary):
    """Instructions by address, and addresses of functions."""
    objdump = str(pathlib.Path(os.environ["LLVM"]) / "llvm-objdump") if "LLVM" in os.environ else "llvm-objdump"
    text, functions = {}, {}
    for line in output(objdump, "-d", "--mattr=+m,+a,+f,+d,+c,+v", "--no-show-raw-insn", binary).splitlines():
        if m := re.match(r"([0-9a-f]+) <(.*)>:", line):
            functions[m[2]] = int(m[1], 16)
        elif m := re.match(r"\s*([0-9a-f]+):\s+(\S+)\s*(.*)", line):
            text[int(m[1], 16)] = m[2], m[3]
    return text, functions


def registers(name, sew, group):
    """Registers that a vector instruction writes or stores, by the type that was set before: at least one."""
    if m := re.match(r"v[ls](\d)re?\d*", name):
        return int(m[1])
    if m := re.match(r"v[ls]e(\d+)\.v", name):
        return max(1, group * int(m[1]) / sew)
    if re.match(r"vf?w", name):  # widening: twice the width
        return max(1, 2 * group)
    return max(1, group)


def counts(binary, text, functions, isa, bits, *args):
    command = [os.environ.get("QEMU", "qemu-riscv64"), "-cpu", f"rv64,v=true,vlen={bits}", "-one-insn-per-tb", "-d", "exec,nochain",
               "-D", "/dev/stderr", binary, str(isa), *args]
    scalars = vectors = written = 0
    on, sew, group = False, 8, 1
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as run:
        for line in run.stderr:
            if not (m := TRACE.search(line)):
                continue
            at = int(m[1], 16)
            if at in (functions["mark_begin"], functions["mark_end"]):
                on = at == functions["mark_begin"]
            if not on:
                continue
            name, operands = text[at]
            if m := re.search(r"\be(\d+),\s*m(f?)(\d)", operands) if name.startswith("vset") else None:
                sew, group = int(m[1]), 1 / int(m[3]) if m[2] else int(m[3])
            if name[0] != "v" or name.startswith("vset"):
                scalars += 1
            else:
                vectors += 1
                written += registers(name, sew, group)
    if run.returncode:
        sys.exit(f"riscv: {' '.join(command)}: exit {run.returncode}")
    return scalars, vectors, written


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--tokens", default="1,8,48")
    parser.add_argument("--columns", type=int, default=512)
    parser.add_argument("lib")
    parser.add_argument("types", nargs="+")
    args = parser.parse_args()
    sets = {name: SETS[name] for name in args.sets.split(",")}
    with tempfile.TemporaryDirectory() as folder:
        binary = f"{folder}/product"
        output(os.environ.get("ZIG", "zig"), "cc", "-target", "riscv64-linux-musl", "-static", "-std=gnu11", "-O1", f"-I{ROOT}/csrc",
               f"-I{ROOT}/include", str(HERE / "product.c"), args.lib, "-lm", "-lpthread", "-o", binary)
        text, functions = listing(binary)
        print("type tokens  " + "".join(f"{name + ': scalars, vectors, registers':>40}" for name in sets))
        for kind in args.types:
            for tokens in args.tokens.split(","):
                work = 16 * int(tokens) * args.columns / 1000
                row = [counts(binary, text, functions, isa, bits, kind, tokens, str(args.columns), "1") for isa, bits in sets.values()]
                print(f"{kind:>4}{tokens:>7}  " + "".join(f"{s / work:>20.1f}{v / work:>10.1f}{r / work:>10.1f}" for s, v, r in row))


if __name__ == "__main__":
    main()
