#!/usr/bin/env python3
"""What a schema costs: the same requests with and without one, on one server, in turns.

    go run ./bench/says --vocab ggml-vocab-llama-bpe.gguf --text records -o records.gguf llama-3.2-1b-Q4_K_M.gguf
    bench/schemas.py records.gguf --text records [--quern bin/quern] [--rounds 15] [--tokens 48] [-- FLAGS OF SERVE]

MODEL is one that `says` made, which says the same JSON without end, with a schema that allows it and without. So both kinds of request
are of the same tokens, which is checked, and a ratio is one of time alone. A round is each kind once, for each number of streams; which
comes first changes from round to round, and a ratio is taken within one. First drafts are off, and then as the server has them. CPU time
is the server's. Prints Markdown.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import socket
import statistics
import subprocess
import sys
import time

PROMPT = "JSON:"
TEXT = {"type": "string"}
SCHEMAS = {
    "strings": {"type": "array", "minItems": 1000, "items": TEXT},
    "records": {
        "type": "array",
        "minItems": 1000,
        "items": {
            "type": "object",
            "properties": {"name": TEXT, "age": {"type": "integer"}, "notes": {"type": "array", "items": {**TEXT, "maxLength": 60}}},
            "required": ["name", "age", "notes"],
            "additionalProperties": False,
        },
    },
}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, path, body=None):
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    c.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body))
    answer = c.getresponse()
    text = answer.read()
    c.close()
    if answer.status != 200:
        raise OSError(f"{path}: {answer.status} {text[:300]!r}")
    return json.loads(text)


def wait(port, server):
    """Until the model is loaded."""
    while server.poll() is None:
        try:
            return ask(port, "/health")
        except OSError:
            time.sleep(0.2)
    sys.exit("schemas.py: the server ended")


def cpu(pid):
    """Seconds of CPU time that a process has taken."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main():
    p = argparse.ArgumentParser(description="what a schema costs whole requests; see the head of this file")
    p.add_argument("model")
    p.add_argument("--text", choices=list(SCHEMAS), default="records", help="what the model says")
    p.add_argument("--quern", default="bin/quern")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--tokens", type=int, default=48, help="of each answer")
    p.add_argument("--streams", default="1,4", help="how many requests at a time")
    p.add_argument("--drafts", default="off,on", help="off, on or both; what a schema forces is drafted in any case")
    p.add_argument("serve", nargs="*", help="more flags of quern serve, after --")
    args = p.parse_args()
    streams = [int(n) for n in args.streams.split(",")]
    port = free_port()
    server = subprocess.Popen(
        [args.quern, "serve", "-m", args.model, "--port", str(port), "--parallel", str(max(streams)), "-c", "8192", *args.serve],
        stderr=subprocess.DEVNULL,
    )
    pool = concurrent.futures.ThreadPoolExecutor(max(streams))
    said = set()

    def run(held, n, drafts, tokens):
        """Seconds and CPU seconds a token of n requests at a time, and how many tokens a pass of one gave."""
        body = {"prompt": PROMPT, "n_predict": tokens, "temperature": 0.8, "speculative.type": "auto" if drafts else "off"}
        if held:
            body["json_schema"] = SCHEMAS[args.text]
        used, start = cpu(server.pid), time.monotonic()
        answers = list(pool.map(lambda _: ask(port, "/completion", body), range(n)))
        took, used = time.monotonic() - start, cpu(server.pid) - used
        for a in answers:
            if a["tokens_predicted"] != tokens:
                sys.exit(f"schemas.py: {a['tokens_predicted']} tokens, want {tokens}: {a['content']!r}")
            said.add(a["content"][: args.tokens])
        accepted = sum(a["timings"].get("draft_n_accepted", 0) for a in answers)
        return took / n / tokens, used / n / tokens, n * tokens / (n * tokens - accepted)

    rows = []
    try:
        wait(port, server)
        for drafts in [word == "on" for word in args.drafts.split(",")]:
            for n in streams:
                for held in (False, True):
                    run(held, n, drafts, 2 * args.tokens)  # prompts come into the cache, the schema is compiled, passes are timed
                pairs = []
                for r in range(args.rounds):
                    order = (False, True) if r % 2 else (True, False)
                    got = {held: run(held, n, drafts, args.tokens) for held in order}
                    pairs.append((got[False], got[True]))
                rows.append((drafts, n, pairs))
    finally:
        server.terminate()
        server.wait()
    if len(said) != 1:
        sys.exit(f"schemas.py: {len(said)} texts with and without the schema: {sorted(said)}")
    print(f"{args.text}, {args.tokens} tokens an answer, {args.rounds} rounds, medians of ratios of a round (in brackets: the quarters, the least and the most):\n")
    print("| drafts | streams | tokens/s free | with the schema | of free | CPU time of free | tokens a pass, free | with the schema |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for drafts, n, pairs in rows:
        middle = lambda of: statistics.median(of(free, held) for free, held in pairs)

        def spread(i, invert):
            r = sorted(100 * (free[i] / held[i] if invert else held[i] / free[i]) for free, held in pairs)
            q = statistics.quantiles(r, n=4)
            return f"{statistics.median(r):.1f} % ({q[0]:.1f} to {q[2]:.1f}; {r[0]:.1f} to {r[-1]:.1f})"

        row = ["on" if drafts else "off", n, f"{middle(lambda free, held: 1 / free[0]):.1f}", f"{middle(lambda free, held: 1 / held[0]):.1f}"]
        row += [spread(0, True), spread(1, False), f"{middle(lambda free, held: free[2]):.2f}", f"{middle(lambda free, held: held[2]):.2f}"]
        print("| " + " | ".join(map(str, row)) + " |")


if __name__ == "__main__":
    main()
