#!/usr/bin/env python3
"""Count the vector registers that compilers spill in the inner loops of products and attention.

Usage: scripts/check_spills.py BUILD

Disassembles the object files of the x86 sets in the build folder and looks at each innermost loop with at least 8
multiplications of bytes or 16-bit numbers or multiply-adds of floats. A spill is a store of a vector register to the
stack inside such a loop, other than that of a sum which the loop adds to in memory (tmpl/matmul_int.h, KEPT). Fails where a file
has more spills for 100 multiplications than LIMITS says for the compiler that made it. A compiler's upgrade, a flag
left out or a tile too large show here first: spills halved the speed of some loops before this was checked.
"""
import pathlib
import re
import subprocess
import sys

# Spills for 100 multiplications, in a file's loops all together: those of GCC 12 and Clang 14, and a little more.
LIMITS = {
    "GCC": {
        "matmul_avx2.c": 4.5,
        "matmul_avxvnni.c": 4.5,
        "matmul_avx512.c": 1,
        "matmul_avx512vnni.c": 1,
        "matmul_avx512bf16.c": 1,
        "float_avx2.c": 8,
        "float_avx512.c": 1,
        "attn_avxvnni.c": 1,
        "attn_avx512vnni.c": 1,
    },
    "clang": {
        "matmul_avx2.c": 12,
        "matmul_avxvnni.c": 22,
        "matmul_avx512.c": 2,
        "matmul_avx512vnni.c": 5,
        "matmul_avx512bf16.c": 1,
        "float_avx2.c": 12,
        "float_avx512.c": 16,
        "attn_avxvnni.c": 1,
        "attn_avx512vnni.c": 55,
    },
}

LINE = re.compile(r"^\s*([0-9a-f]+):\t(?:\{vex\} )?(\S+)(?:\s+(.*))?$")
PRODUCT = re.compile(r"^(vp(maddubsw|dpbusd|dpwssd|maddwd)|vdpbf16ps|vfn?madd\d+ps)$")
STACK = re.compile(r"(-?0x[0-9a-f]+)?\(%r[sb]p\)")
STORE = re.compile(r"^(v?mov\w*)$")


def functions(path):
    """Yields the name of each function and its instructions: (address, mnemonic, operands)."""
    out = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], check=True, capture_output=True, text=True)
    name, code = "", []
    for line in out.stdout.splitlines():
        if line.endswith(">:"):
            yield name, code
            name, code = line.split("<")[1][:-2], []
        elif m := LINE.match(line):
            code.append((int(m[1], 16), m[2], (m[3] or "").split("#")[0].strip()))
    yield name, code


def innermost_loops(code):
    """Yields the instructions of loops that have no loop inside."""
    at = {a: i for i, (a, _, _) in enumerate(code)}
    loops = []
    for i, (_, op, args) in enumerate(code):
        if op.startswith("j") and re.match(r"^[0-9a-f]+ ", args):
            to = at.get(int(args.split()[0], 16))
            if to is not None and to <= i:
                loops.append((to, i))
    for a, b in loops:
        if not any((c, d) != (a, b) and a <= c and d <= b for c, d in loops):
            yield code[a : b + 1]


def spills(loop):
    """The stores of vectors to the stack, but for sums that are added to in memory."""
    stored, read_otherwise = {}, set()
    for _, op, args in loop:
        slot = STACK.search(args)
        if not slot or not re.search(r"%[xyz]mm", args):
            continue
        if STORE.match(op) and args.rstrip().endswith(slot[0]):
            stored[slot[0]] = stored.get(slot[0], 0) + 1
        elif op != "vpaddd":
            read_otherwise.add(slot[0])
    return sum(n for slot, n in stored.items() if slot in read_otherwise)


def compiler(path):
    """The compiler's name in LIMITS, from the object file's own note."""
    note = subprocess.run(["readelf", "-p", ".comment", path], check=True, capture_output=True, text=True).stdout
    return next((name for name in LIMITS if name in note), None)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    objects = {p.name[:-2]: p for p in pathlib.Path(sys.argv[1]).rglob("*.c.o") if p.parent.name == "x86"}
    failed = False
    for name in LIMITS["GCC"]:
        if name not in objects:
            sys.exit(f"check_spills: {sys.argv[1]} has no {name}.o: build the library first")
        by = compiler(objects[name])
        if by is None:
            sys.exit(f"check_spills: {objects[name]} comes from no compiler that has limits: {', '.join(LIMITS)}")
        limit = LIMITS[by][name]
        products = spilled = loops = 0
        worst = (0, "")
        for function, code in functions(objects[name]):
            for loop in innermost_loops(code):
                n = sum(1 for _, op, _ in loop if PRODUCT.match(op))
                if n >= 8:
                    s = spills(loop)
                    loops, products, spilled = loops + 1, products + n, spilled + s
                    worst = max(worst, (s, function))
        if not products:
            sys.exit(f"check_spills: no loop of products found in {name}.o")
        share = 100 * spilled / products
        failed |= share > limit
        print(f"{name:18} {by:5} {loops:4} loops  {products:6} products  {spilled:5} spills  {share:5.2f} for 100"
              f"  at most {limit}  worst loop {worst[0]} in {worst[1]}{'  TOO MANY' if share > limit else ''}")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
