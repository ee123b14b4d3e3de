#!/usr/bin/python3
"""Are further tokens of a pass nearly free?

Claim      Temporal weight reuse: weights that were read for one token are used for the next ones, so a pass of two
           tokens takes as long as a pass of one.
Measure    By the engine itself, on one thread: the time of a pass of 2, 4 and 8 tokens of a prompt, of that of one. The
           least of many passes, since other programs may be running.
Data       The model. One that fits into a cache shows arithmetic only: there the verdict is open.
Threshold  adopted where four tokens take less than two passes of one, refuted where they take four.
"""

import json

import lab

TOKENS = (1, 2, 4, 8)
CACHE = 64 << 20  # bytes; larger caches are shared by many cores


def run(lab, r):
    least, size = {n: float("inf") for n in TOKENS}, 0
    for _ in range(1 if lab.quick else 12):  # in turns, since other programs come and go
        lengths = ",".join(map(str, TOKENS))
        out = lab.call(
            "bench", "-m", lab.path, "-p", lengths, "-n", 0, "-t", 1, "-r", 20, "--no-roofline", "-o", "json"
        )
        for test in json.loads(out):
            n, size = test["n_prompt"], test["model_size"]
            least[n] = min(least[n], *(1e-6 * ns for ns in test["samples_ns"]))
    r.table("tokens of a pass", "ms", "of one token")
    for n, ms in least.items():
        r.row(str(n), f"{ms:.2f}", f"{ms / least[1]:.2f}")
    four = least[4] / least[1]
    small = size < CACHE
    verdict = "open" if small else "adopted" if four < 2 else "refuted" if four >= 4 else "open"
    number = f"two tokens take {least[2] / least[1]:.2f} of one, four {four:.2f}, eight {least[8] / least[1]:.2f}"
    r.find("reuse", "passes on one thread" + (", in a cache" if small else ""), number, "adopt four below 2", verdict)


if __name__ == "__main__":
    lab.main(__doc__, run)
