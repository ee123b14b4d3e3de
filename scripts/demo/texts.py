#!/usr/bin/env python3
"""Writes what the demo is trained on as JSON, for "quern train": texts.py OUT [STORIES]

OUT/train and OUT/valid get stories told by rule (told.jsonl) and conversations about others (chat.jsonl).
"""

import json
import random
import sys
from pathlib import Path

import talk
from grammar import Story

TOLD = 90_000  # of which half become conversations, as in corpus.py
VALID = 100


def write(path, records):
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as f:
        f.writelines(json.dumps(r) + "\n" for r in records)
    print(f"{path}: {len(records)} examples")


def text(story):
    return {"text": story.text}


def messages(chat):
    return {"messages": [{"role": role, "content": content} for role, content in chat]}


def main():
    out, count = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else TOLD
    rng = random.Random(1)
    told = [Story(rng) for _ in range(count)]
    chats = [talk.about(rng, s) for s in told[::2] if talk.has_thing(s) or rng.random() < 0.2]
    chats += [talk.small(rng) for _ in range(count // 12)] + [talk.go_on(rng, s.text) for s in told[1::16]]
    write(out / "train" / "told.jsonl", [text(s) for s in told[1::2]])
    write(out / "train" / "chat.jsonl", [messages(c) for c in chats])
    write(out / "valid" / "told.jsonl", [text(Story(random.Random(10**6 + i))) for i in range(VALID)])
    write(out / "valid" / "chat.jsonl", [messages(talk.about(random.Random(i), Story(random.Random(2 * 10**6 + i)))) for i in range(VALID)])


if __name__ == "__main__":
    main()
