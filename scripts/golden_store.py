"""Golden files: an index in JSON beside one binary file of tensors, and their comparison."""

import json

import numpy as np

ALIGNMENT = 64
DTYPES = {"u8": "u1", "i32": "<i4", "u16": "<u2", "f16": "<f2", "f32": "<f4", "f64": "<f8"}

# A result may differ by this from one computed with another BLAS or libm.
RELATIVE = 1e-6


class Store:
    """Collects cases; json() and data are what is written."""

    def __init__(self, data_name):
        self.data_name, self.data, self.cases, self.shared = data_name, bytearray(), [], {}

    def tensor(self, dtype, x, result=False):
        """Append x and return its entry. Equal inputs are stored once."""
        raw = np.ascontiguousarray(x).astype(DTYPES[dtype], copy=False).tobytes()
        if not result and raw in self.shared:
            offset = self.shared[raw]
        else:
            self.data += bytes(-len(self.data) % ALIGNMENT)
            offset = len(self.data)
            self.data += raw
            if not result:
                self.shared[raw] = offset
        entry = {"dtype": dtype, "shape": list(np.shape(x)), "offset": offset, "bytes": len(raw)}
        if result:
            entry["result"] = True
        return entry

    def add(self, **case):
        self.cases.append(case)

    def json(self):
        """One case a line, so that a diff names the case."""
        lines = ",\n".join("  " + json.dumps(c) for c in self.cases)
        return f'{{"version": 1, "data": "{self.data_name}", "cases": [\n{lines}\n]}}\n'


def _close(a, b):
    """Elementwise: a is b, up to RELATIVE; a and b may hold infinities."""
    finite = np.abs(b[np.isfinite(b)])
    slack = 1e-12 * finite.max() if finite.size else 0.0
    with np.errstate(invalid="ignore"):
        near = np.abs(a - b) <= RELATIVE * np.abs(b) + slack
    return near | (a == b)


def _numbers(v):
    """The case without what depends on the last bits of a float."""
    if isinstance(v, dict):
        return {k: _numbers(e) for k, e in v.items() if k != "min_top2_gap"}
    return [_numbers(e) for e in v] if isinstance(v, list) else v


def _gaps(v):
    if isinstance(v, dict):
        return [g for k, e in v.items() for g in ([e] if k == "min_top2_gap" else _gaps(e))]
    return [g for e in v for g in _gaps(e)] if isinstance(v, list) else []


def _tensors(case):
    found = dict(case.get("tensors", {}))
    for run in case.get("runs", []):
        found.update({f"{run['name']}.{k}": t for k, t in run["tensors"].items()})
    return found


def differences(name, want_json, want_data, got_json, got_data):
    """One line for each case or tensor in which the committed files (got) differ."""
    try:
        got_cases = {c["name"]: c for c in json.loads(got_json)["cases"]}
    except (ValueError, KeyError, TypeError) as e:
        return [f"{name}: not an index of cases: {e!r}"]
    want_cases = {c["name"]: c for c in json.loads(want_json)["cases"]}
    out = [f"{name}: {n}: no such case is generated" for n in got_cases.keys() - want_cases.keys()]
    for n, want in want_cases.items():
        if n not in got_cases:
            out.append(f"{name}: {n}: missing")
        elif _numbers(got_cases[n]) != _numbers(want):
            out.append(f"{name}: {n}: parameters, ids or tensor places differ")
        elif not _close(np.array(_gaps(got_cases[n])), np.array(_gaps(want))).all():
            out.append(f"{name}: {n}: min_top2_gap differs")
        else:
            out += [f"{name}: {n}: {line}" for line in _tensor_differences(want, want_data, got_data)]
    if len(got_data) != len(want_data):
        out.append(f"{name}: data has {len(got_data)} bytes, want {len(want_data)}")
    return sorted(out)


def _tensor_differences(case, want_data, got_data):
    for name, t in _tensors(case).items():
        want, got = (bytes(d[t["offset"] : t["offset"] + t["bytes"]]) for d in (want_data, got_data))
        if want == got:
            continue
        if len(got) != len(want):
            yield f"tensor {name} is cut short"
            continue
        a, b = (np.frombuffer(d, DTYPES[t["dtype"]]) for d in (got, want))
        if not t.get("result") or t["dtype"] not in ("f32", "f64"):
            bad = np.count_nonzero(np.frombuffer(got, np.uint8) != np.frombuffer(want, np.uint8))
            yield f"tensor {name}: {bad} of {len(want)} bytes differ"
        else:
            bad = np.count_nonzero(~_close(a.astype(np.float64), b.astype(np.float64)))
            if bad:
                yield f"tensor {name}: {bad} of {a.size} values differ by more than {RELATIVE}"
