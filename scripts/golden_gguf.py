"""GGUF version 3 as bytes: a reader for --reference and a writer for the tiny models."""

import struct

import numpy as np

from golden_types import NAMES, TYPES, decode, row_bytes

# Value types of metadata, by number, with their struct codes.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
U32, I32, F32, BOOL, STR, ARRAY = 4, 5, 6, 7, 8, 9
ALIGNMENT = 32


def _string(s):
    raw = s.encode()
    return struct.pack("<Q", len(raw)) + raw


def _value(kind, v):
    if kind == STR:
        return _string(v)
    return struct.pack("<" + SCALARS[kind], v)


def write(meta, tensors):
    """The file's bytes.

    meta: (key, value type, value), the type a pair (ARRAY, element) for arrays.
    tensors: (name, shape, type name, bytes), the shape slowest dimension first.
    """
    out = [b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(meta))]
    for key, kind, v in meta:
        out.append(_string(key))
        if isinstance(kind, tuple):
            out.append(struct.pack("<IIQ", ARRAY, kind[1], len(v)))
            out.extend(_value(kind[1], e) for e in v)
        else:
            out.append(struct.pack("<I", kind) + _value(kind, v))
    offset = 0
    for name, shape, type_name, raw in tensors:
        out.append(_string(name) + struct.pack("<I", len(shape)))
        out.append(struct.pack(f"<{len(shape)}Q", *reversed(shape)))
        out.append(struct.pack("<IQ", TYPES[type_name].id, offset))
        offset += -(-len(raw) // ALIGNMENT) * ALIGNMENT
    head = b"".join(out)
    parts = [head, bytes(-len(head) % ALIGNMENT)]
    for _, _, _, raw in tensors:
        parts += [raw, bytes(-len(raw) % ALIGNMENT)]
    return b"".join(parts)


class File:
    """meta: key -> value. tensors: name -> (shape slowest first, type id, offset)."""

    def __init__(self, raw):
        self.raw, self.at = raw, 0
        magic, version, n_tensors, n_meta = self._take("<4sIQQ")
        if magic != b"GGUF" or version not in (2, 3):
            raise ValueError("not GGUF version 2 or 3")
        self.meta, self.tensors = {}, {}
        for _ in range(n_meta):
            key = self._string()
            self.meta[key] = self._value(self._take("<I")[0])
        for _ in range(n_tensors):
            name = self._string()
            dims = self._take(f"<{self._take('<I')[0]}Q")
            self.tensors[name] = (tuple(reversed(dims)), *self._take("<IQ"))
        align = self.meta.get("general.alignment", ALIGNMENT)
        self.data = -(-self.at // align) * align

    def _take(self, fmt):
        v = struct.unpack_from(fmt, self.raw, self.at)
        self.at += struct.calcsize(fmt)
        return v

    def _string(self):
        (n,) = self._take("<Q")
        # Vocabularies of byte-level models hold pieces that are no UTF-8.
        s = self.raw[self.at : self.at + n].decode(errors="surrogateescape")
        self.at += n
        return s

    def _value(self, kind):
        if kind == STR:
            return self._string()
        if kind == ARRAY:
            kind, n = self._take("<IQ")
            return [self._value(kind) for _ in range(n)]
        if kind not in SCALARS:
            raise ValueError(f"metadata value type {kind} does not exist")
        return self._take("<" + SCALARS[kind])[0]

    def tensor(self, name):
        """float64, decoded; None where the file has no such tensor."""
        if name not in self.tensors:
            return None
        shape, type_id, offset = self.tensors[name]
        if type_id not in NAMES:
            raise ValueError(f"tensor {name!r} has type {type_id}; this oracle decodes {' '.join(TYPES)}")
        type_name = NAMES[type_id]
        per_row = row_bytes(type_name, shape[-1])
        rows = int(np.prod(shape[:-1]))
        raw = np.frombuffer(self.raw, np.uint8, rows * per_row, self.data + offset)
        return decode(type_name, raw.reshape(rows, per_row)).reshape(shape)
