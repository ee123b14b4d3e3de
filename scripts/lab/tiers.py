#!/usr/bin/python3
"""Do old keys and values need fewer bits than recent ones?

Claim      Keys and values in tiers by age: what is old is kept in fewer bits, at next to no loss.
Measure    By the engine itself: divergence of predictions (Kullback-Leibler, nats) and perplexity from those with 16
           bits, where all keys and values have 8 or 4 bits, and where the last 64 positions have 16, those before
           them up to 128 have 8, and all others 4. Its 4 bits are of rotated keys and values.
Data       Windows of up to 1,024 tokens, of which the second half is scored.
Threshold  adopted where tiers by age diverge by less than a half of 4 bits for all, refuted where they diverge more.
"""

import json

import lab
from lab import percent

AGES = "--kv-tiers 64:i16,128:q8_0,*:q4_0"


def run(lab, r):
    length = min(256 if lab.quick else 1024, lab.meta("context_length"))
    ways = {"8 bits": "-ctk q8_0 -ctv q8_0", "4 bits": "-ctk q4_0 -ctv q4_0", "by age": AGES}
    models = [str(lab.path), *(f"{lab.path} {flags}" for flags in ways.values())]
    out = lab.call(
        "compare", *models, "-f", lab.text, "-c", length, "--chunks", 1 if lab.quick else 4, "-t", 1, "--json"
    )
    r.table("keys and values", "perplexity", "of that with 16 bits", "divergence", "same token")
    base, *others = json.loads(out)["models"]
    r.row("16 bits", base["ppl"]["value"], "1", "", "")
    kld = {}
    for what, m in zip(ways, others):
        d = m["divergence"]
        kld[what] = d["kld"]["value"]
        ratio, same = d["ppl_ratio"]["value"], d["same_top"]["value"]
        r.row(what, m["ppl"]["value"], f"{ratio:.5f}", f"{kld[what]:.2e}", percent(same, 2))
    share = kld["by age"] / kld["4 bits"]
    verdict = "adopted" if share < 0.5 else "refuted" if share > 1 else "open"
    number = f"divergence {kld['by age']:.1e} by age, {kld['4 bits']:.1e} with 4 bits for all"
    r.find("tiers", f"contexts of {length}, by the engine", number, "adopt below half", verdict)


if __name__ == "__main__":
    lab.main(__doc__, run)
