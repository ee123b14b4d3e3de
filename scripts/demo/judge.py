#!/usr/bin/env python3
"""Counts what can be counted of a model's stories: judge.py MODEL.gguf [STORIES]

At the model's own sampling: how many end by themselves, name their hero at the end as at the beginning, say no sentence
twice, balance their quotation marks, and hold both things that they were asked for in a chat.
"""

import concurrent.futures
import random
import re
import sys

import words
from sample import PARALLEL, post, serving

NAMES = set(words.GIRLS + words.BOYS + words.PETS)


def judge(text, finished):
    sentences = [s for s in re.split(r'(?<=[.!?])"? ', text) if len(s) > 12]
    named = [w for w in re.findall(r"[A-Z][a-z]+", text) if w in NAMES]
    return {
        "end": finished,
        "keep the hero's name": bool(named) and named[0] in text[-len(text) // 3:],
        "repeat no sentence": len(set(sentences)) == len(sentences),
        "balance quotes": text.count('"') % 2 == 0,
        "words": len(text.split()),
    }


def told(seed):
    r = post("/completion", prompt="Once upon a time", seed=seed, n_predict=700)
    return judge(r["content"], r["stop_type"] == "eos")


def asked(seed):
    rng = random.Random(seed)
    kind, thing = rng.choice(words.KINDS["animal"]), rng.choice(words.THINGS["toy"] + words.THINGS["find"])
    r = post("/v1/chat/completions", seed=seed, max_tokens=700,
             messages=[{"role": "user", "content": f"Tell me a story about a {kind} and a {thing}"}])
    text = r["choices"][0]["message"]["content"]
    return judge(text, r["choices"][0]["finish_reason"] == "stop") | {
        "are about the one": kind in text, "and the other": thing in text}


def main():
    model, stories = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 200
    with serving(model), concurrent.futures.ThreadPoolExecutor(PARALLEL) as pool:
        for name, ask in (("continued from \"Once upon a time\"", told), ("asked for in a chat", asked)):
            results = list(pool.map(ask, range(stories)))
            print(f"{stories} stories {name}:")
            for key in results[0]:
                mean = sum(r[key] for r in results) / stories
                print(f"  {key}: {mean:.0f}" if key == "words" else f"  {key}: {100 * mean:.1f} %")


if __name__ == "__main__":
    main()
