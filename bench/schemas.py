#!/usr/bin/env python3
"""Compares whole requests with a schema to the same without one, on one server, in turns.

    bench/schemas.py MODEL.gguf [--quern bin/quern] [--rounds 7] [--tokens 128] [-- FLAGS OF SERVE]

A round is each kind of request once, alone and eight at a time; the order turns from round to round. A ratio is
taken within a round; the last table has the median of the rounds, with the least and the most. Prints Markdown.
"""

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

STRINGS = {"type": "array", "minItems": 1000, "items": {"type": "string"}}
RECORDS = {
    "type": "array",
    "minItems": 1000,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "notes": {"type": "array", "items": {"type": "string", "maxLength": 60}},
        },
        "required": ["name", "age", "notes"],
        "additionalProperties": False,
    },
}


def held(schema):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}


KINDS = {
    "free": {"temperature": 0.8, "ignore_eos": True},
    "strings": {"temperature": 0.8, "response_format": held(STRINGS)},
    "records": {"temperature": 0.8, "response_format": held(RECORDS)},
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait(port, server):
    """Until the model is loaded."""
    while server.poll() is None:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    sys.exit("schemas.py: the server ended")


def main():
    p = argparse.ArgumentParser(description="what a schema costs whole requests; see the head of this file")
    p.add_argument("model")
    p.add_argument("--quern", default="bin/quern")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--tokens", type=int, default=128, help="of each answer")
    p.add_argument("serve", nargs="*", help="more flags of quern serve, after --")
    args = p.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with tempfile.TemporaryDirectory() as tmp:
        load, out = os.path.join(tmp, "load"), os.path.join(tmp, "out.jsonl")
        subprocess.run(["go", "build", "-o", load, "./bench/load"], cwd=root, check=True)
        port = str(free_port())
        server = subprocess.Popen(
            [args.quern, "serve", "-m", args.model, "--port", port, "--parallel", "8", "-c", "8192", *args.serve],
            stderr=subprocess.DEVNULL,
        )

        def run(kind, streams, tokens):
            flags = {
                "url": f"http://127.0.0.1:{port}",
                "requests": streams,
                "arrivals": f"burst:{streams}",
                "rate": 1000,
                "prompt-words": "fixed:20",
                "max-tokens": f"fixed:{tokens}",
                "temperature": 0.8,
                "extra": json.dumps(KINDS[kind]),
                "json": out,
            }
            subprocess.run([load, *(f"--{k}={v}" for k, v in flags.items())], check=True, stdout=subprocess.DEVNULL)
            with open(out, encoding="utf-8") as f:
                summary = json.loads(f.readlines()[-1])
            if summary["errors"] or any(t["outcome"] != "length" for t in summary["outcomes"]):
                sys.exit(f"schemas.py: {kind}: {summary['outcomes']}")
            return summary["busy"]["output_tokens_per_s"]

        try:
            wait(port, server)
            for kind in KINDS:  # prompts come into the cache, and schemas are compiled
                for streams in (1, 8):
                    run(kind, streams, 16)
            speeds = {(streams, kind): [] for streams in (1, 8) for kind in KINDS}
            for n in range(args.rounds):
                order = list(KINDS)[n % 3 :] + list(KINDS)[: n % 3]
                for streams in (1, 8):
                    for kind in order:
                        speeds[streams, kind].append(run(kind, streams, args.tokens))
        finally:
            server.terminate()
            server.wait()
    print(f"Output tokens/s, {args.tokens} tokens an answer, {args.rounds} rounds:\n")
    print("| streams | free | kind | with a schema | of free: median | least | most |\n| --- | --- | --- | --- | --- | --- | --- |")
    for streams in (1, 8):
        free = speeds[streams, "free"]
        for kind in ("strings", "records"):
            ratios = [100 * b / a for a, b in zip(free, speeds[streams, kind])]
            row = [streams, f"{statistics.median(free):.1f}", kind, f"{statistics.median(speeds[streams, kind]):.1f}"]
            row += [f"{x:.1f} %" for x in (statistics.median(ratios), min(ratios), max(ratios))]
            print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()
