#!/usr/bin/env python3
"""Writes go/convert/testdata/transformers.txt: the keys of config.json, with their defaults, of each configuration class
of transformers whose models go/convert takes. Needs transformers, not torch: pip install transformers.

Each section is a class of models, as config.json names it in "architectures", and the keys that transformers writes for
it: the path of each value with dots between, and the default as JSON.
"""
import importlib
import json
import pathlib
import re
import sys

from transformers import CONFIG_MAPPING, __version__

root = pathlib.Path(__file__).resolve().parent.parent


def families():
    """Names of classes in the families of go/convert."""
    names = set()
    for path in (root / "go/convert/family").glob("*.go"):
        for m in re.finditer(r'Names:((?:\s*\+?\s*"[^"]*")+)', path.read_text()):
            for text in re.findall(r'"([^"]*)"', m[1]):
                names.update(text.split())
    return names


def model_types():
    """The model types of each class of models."""
    auto = importlib.import_module("transformers.models.auto.modeling_auto")
    types = {}
    for name, mapping in vars(auto).items():
        if name.startswith("MODEL") and name.endswith("MAPPING_NAMES"):
            for model_type, classes in dict(mapping).items():
                for cls in classes if isinstance(classes, (tuple, list)) else [classes]:
                    types.setdefault(cls, set()).add(model_type)
    return types


def keys(d, prefix=""):
    """The values of an object as paths and JSON texts. Configurations of what sees and hears are not of the text."""
    for k, v in sorted(d.items()):
        if re.search(r"vision|audio|vq_config|image|video", k) and prefix == "":
            continue
        if isinstance(v, dict) and v and "__float__" not in v:
            yield from keys(v, f"{prefix}{k}.")
            continue
        yield prefix + k, json.dumps(v)


def main():
    out = [f"# The keys of config.json in transformers {__version__}, written by scripts/golden_configs.py"]
    types = model_types()
    for name in sorted(families() & types.keys()):
        model_type = min(types[name], key=lambda t: (t.endswith("_text"), len(t), t))
        written = json.loads(CONFIG_MAPPING[model_type]().to_json_string())
        written.pop("architectures", None)
        out += ["", name] + [f"\t{k} {v}" for k, v in sorted(keys(written))]
    path = root / "go/convert/testdata/transformers.txt"
    path.write_text("\n".join(out) + "\n")
    print(f"{path}: {sum(not l.startswith(chr(9)) and l != '' for l in out) - 1} classes", file=sys.stderr)


main()
