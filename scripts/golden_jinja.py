#!/usr/bin/python3
"""Renders templates with Python's jinja2, set up as for chat templates: the witness
for go/internal/jinja and go/chat, with which it shares no code.

Needs Python 3.9 and jinja2 (Debian: python3-jinja2), and nothing else.

    golden_jinja.py < CASES > RESULTS       a JSON list, each {"template", "vars"}; and
                                            for each {"want"} or {"error"}
    golden_jinja.py --write FILE            the same in place: FILE holds such a list
    golden_jinja.py --check FILE            exit 1 with a line for each case in FILE
                                            that renders otherwise

Variables may hold "now", the time that strftime_now() prints. It also becomes the
variables date_string and datetime, as llama-server has them.
"""

import argparse
import datetime
import functools
import json
import sys

from jinja2 import nodes
from jinja2.exceptions import TemplateError
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Generation(Extension):
    """{% generation %} marks what the model writes; it renders as its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    """Unlike jinja2's own, does not escape for HTML."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def raise_exception(message):
    raise TemplateError(message)


env = ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", Generation]
)
env.filters["tojson"] = tojson
env.globals["raise_exception"] = raise_exception

# Compiling a chat template takes longer than to render many conversations with it.
compiled = functools.lru_cache(maxsize=None)(env.from_string)


def render(case):
    variables = dict(case.get("vars", {}))
    env.globals.pop("strftime_now", None)
    if "now" in variables:
        now = datetime.datetime.fromisoformat(variables.pop("now"))
        env.globals["strftime_now"] = now.strftime
        variables.setdefault("date_string", now.strftime("%d %b %Y"))
        variables.setdefault("datetime", now.strftime("%b %d %Y"))
    try:
        return {"want": compiled(case["template"]).render(**variables)}
    except Exception as e:  # templates may fail in any way
        return {"error": f"{type(e).__name__}: {e}"}


def golden(case):
    kept = {k: v for k, v in case.items() if k not in ("want", "error")}
    return {**kept, **render(case)}


def main():
    p = argparse.ArgumentParser(description="renders templates with jinja2; see the head of this file")
    mode = p.add_mutually_exclusive_group()
    mode.add_argument("--write", metavar="FILE")
    mode.add_argument("--check", metavar="FILE")
    args = p.parse_args()
    path = args.write or args.check
    if not path:
        json.dump([render(case) for case in json.load(sys.stdin)], sys.stdout)
        return 0
    with open(path, encoding="utf-8") as f:
        cases = json.load(f)
    results = [golden(case) for case in cases]
    if args.write:
        with open(path, "w", encoding="utf-8") as f:
            lines = ",\n".join(json.dumps(r, ensure_ascii=False) for r in results)
            f.write(f"[\n{lines}\n]\n")
        return 0
    # The words of an error are the version's.
    wrong = [c["template"] for c, r in zip(cases, results) if c.get("want") != r.get("want")]
    for template in wrong:
        print(f"golden_jinja.py: jinja2 renders this otherwise: {template!r}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
