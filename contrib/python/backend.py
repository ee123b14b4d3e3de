"""Builds the wheel, by PEP 517, from a folder with this file, quern/ and bin/quern, without any other package.

quern/libquern.so.1 says what it needs, and the wheel's tag says the same: manylinux_2_34_x86_64 is a Linux whose C
library is glibc 2.34 or later. QUERN_VERSION in the environment is the version of the wheel.
"""

import base64
import csv
import hashlib
import io
import os
import pathlib
import struct
import time
import zipfile

HERE = pathlib.Path(__file__).parent
LIBRARY = HERE / "quern" / "libquern.so.1"
PROGRAM = HERE / "bin" / "quern"
MACHINES = {62: "x86_64", 183: "aarch64"}
# Libraries that each manylinux system has. Another one would have to be in the wheel.
SYSTEM = {
    "libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1",
    "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1",
}


def needs(path):
    """The machine of a shared library of 64 bits, the libraries that it needs, and the versions of their symbols."""
    elf = path.read_bytes()
    if elf[:6] != b"\x7fELF\x02\x01":
        raise SystemExit(f"{path} is no shared library of 64 bits")
    machine = struct.unpack_from("<H", elf, 18)[0]
    table, size, count = struct.unpack_from("<Q", elf, 40)[0], *struct.unpack_from("<HH", elf, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, table + i * size) for i in range(count)]

    def text(strings, offset):
        start = sections[strings][4] + offset
        return elf[start : elf.index(b"\0", start)].decode()

    libraries, versions = set(), set()
    for _, kind, _, _, offset, length, link, info, _, _ in sections:
        if kind == 6:  # SHT_DYNAMIC
            for at in range(offset, offset + length, 16):
                tag, value = struct.unpack_from("<QQ", elf, at)
                if tag == 1:  # DT_NEEDED
                    libraries.add(text(link, value))
        elif kind == 0x6FFFFFFE:  # SHT_GNU_verneed
            at = offset
            for _ in range(info):
                _, names, _, first, following = struct.unpack_from("<HHIII", elf, at)
                one = at + first
                for _ in range(names):
                    _, _, _, name, step = struct.unpack_from("<IHHII", elf, one)
                    versions.add(text(link, name))
                    one += step
                at += following
    return MACHINES[machine], libraries, versions


def tag():
    machine, libraries, versions = needs(LIBRARY)
    if libraries - SYSTEM:
        raise SystemExit(f"{LIBRARY} needs {libraries - SYSTEM}, which no manylinux system has to have")
    glibc = max(tuple(map(int, v.removeprefix("GLIBC_").split("."))) for v in versions if v.startswith("GLIBC_"))
    return f"py3-none-manylinux_{glibc[0]}_{glibc[1]}_{machine}"


def metadata(version):
    readme = (HERE / "README.md").read_text()
    return f"""Metadata-Version: 2.3
Name: quern
Version: {version}
Summary: Large language models on CPUs
License-File: LICENSE
Requires-Python: >=3.9
Provides-Extra: numpy
Requires-Dist: numpy; extra == "numpy"
Description-Content-Type: text/markdown

{readme}"""


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    version = os.environ.get("QUERN_VERSION", "0.0.0")
    info, data = f"quern-{version}.dist-info", f"quern-{version}.data"
    name = f"quern-{version}-{tag()}.whl"
    files = {f"quern/{p.name}": (p.read_bytes(), 0o644) for p in sorted((HERE / "quern").iterdir()) if p.is_file()}
    files[f"{data}/scripts/quern"] = PROGRAM.read_bytes(), 0o755
    files[f"{info}/licenses/LICENSE"] = (HERE / "LICENSE").read_bytes(), 0o644
    files[f"{info}/METADATA"] = metadata(version).encode(), 0o644
    wheel = f"Wheel-Version: 1.0\nGenerator: quern\nRoot-Is-Purelib: false\nTag: {tag()}\n"
    files[f"{info}/WHEEL"] = wheel.encode(), 0o644
    record = io.StringIO()
    rows = csv.writer(record, lineterminator="\n")
    for path, (content, _) in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        rows.writerow([path, f"sha256={digest}", len(content)])
    rows.writerow([f"{info}/RECORD", "", ""])
    files[f"{info}/RECORD"] = record.getvalue().encode(), 0o644
    # The same files give the same bytes: ZIP has no time before 1980.
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]
    with zipfile.ZipFile(os.path.join(wheel_directory, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, (content, mode) in files.items():
            entry = zipfile.ZipInfo(path, when)
            entry.external_attr = (0o100000 | mode) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            wheel.writestr(entry, content)
    return name


def build_sdist(sdist_directory, config_settings=None):
    raise SystemExit("there is no source distribution: the sources are those of the whole project")
