#!/usr/bin/env python3
"""Samples stories from a small model with Quern: sample.py MODEL.gguf STORIES OUT.txt

The model is served by bin/quern; many requests run at a time. Half of the stories begin as the model likes, half with
the first sentence of a story told by rule, which spreads heroes and places. A story ends where the model begins the
next one. OUT.txt has one story a line, its line breaks as \\n.
"""

import contextlib
import json
import random
import subprocess
import sys
import threading
import time
import urllib.request
from pathlib import Path

import grammar

QUERN = Path(__file__).parents[2] / "bin" / "quern"
PORT, PARALLEL = 18380, 64


def post(path, **body):
    req = urllib.request.Request(f"http://127.0.0.1:{PORT}{path}", json.dumps(body).encode(),
                                 {"Content-Type": "application/json"})
    with urllib.request.urlopen(req, timeout=300) as r:
        return json.load(r)


def sample(rng, begin):
    """Returns one story; begin is the model's token before each."""
    start = rng.choice(("", grammar.Story(rng).text.split(". ")[0] + "."))
    r = post("/completion", prompt=[begin] + (post("/tokenize", content=start)["tokens"] if start else []),
             n_predict=380, temperature=rng.uniform(0.6, 0.9), top_p=0.95, top_k=0, min_p=0.02,
             seed=rng.randrange(1 << 31), return_tokens=True, cache_prompt=False)
    ids = r["tokens"]
    if begin not in ids:
        return None  # without an end
    return (start + post("/detokenize", tokens=ids[:ids.index(begin)])["content"]).strip()


@contextlib.contextmanager
def serving(model):
    """Serves the model while the block runs."""
    server = subprocess.Popen([QUERN, "serve", "-m", model, "--port", str(PORT), "--parallel", str(PARALLEL),
                               "--log-level", "error", "--queue", "1000"])
    try:
        for _ in range(100):
            with contextlib.suppress(OSError):
                post("/tokenize", content="x")
                break
            time.sleep(0.1)
        else:
            raise SystemExit(f"bin/quern serve -m {model} does not answer on port {PORT}")
        yield
    finally:
        server.terminate()
        server.wait()


def main():
    model, stories, out = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    lock, written = threading.Lock(), 0
    with serving(model), out.open("w") as f:
        def worker(seed):
            nonlocal written
            rng = random.Random(seed)
            while written < stories:
                text = sample(rng, 1)
                if text:
                    with lock:
                        f.write(text.replace("\n", "\\n") + "\n")
                        written += 1

        threads = [threading.Thread(target=worker, args=(i,)) for i in range(PARALLEL)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()


if __name__ == "__main__":
    main()
