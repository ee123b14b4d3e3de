#!/usr/bin/env python3
"""Makes the training text: corpus.py DATA OUT [SAMPLED.txt ...]

DATA is the folder with tinystories_197k.txt. Writes to OUT:

    merges.json               the vocabulary
    train.npz, valid_*.npz    token ids of documents, one after the other, and where each begins

Documents are stories, from <|begin|> to <|end|>, and conversations about them. The real stories of the validation are
of the end of the file, and nothing of a story that validates is trained on.
"""

import collections
import random
import re
import sys
from pathlib import Path

import numpy as np

import talk
import words
from grammar import Story
from vocabulary import ASSISTANT, BEGIN, END, SYSTEM, USER, Vocabulary, learn

TOLD = 90_000  # stories told by rule
SIZE = 3072  # of the vocabulary

NAMES = set(words.GIRLS + words.BOYS + words.PETS)


def plain(text):
    """Text in ASCII, with straight quotes."""
    for a, b in (("“", '"'), ("”", '"'), ("’", "'"), ("‘", "'"), ("–", "-"), ("—", "-"), ("…", "...")):
        text = text.replace(a, b)
    return text.encode("ascii", "ignore").decode()


def real_stories(path):
    """The stories of the file, which has nothing between them: one begins where a paragraph says so."""
    stories = []
    for paragraph in plain(path.read_text()).split("\n\n"):
        paragraph = paragraph.strip()
        if re.match(r"Once |There once|Long ago", paragraph) or not stories or (
                re.match(r"One [a-z ]*day, .*\b(named|called) ", paragraph.split(". ")[0]) and len(stories[-1]) > 400):
            stories.append(paragraph)
        elif paragraph:
            stories[-1] += "\n\n" + paragraph
    return [s for s in stories if len(s) > 200]


def fit(story, lexicon):
    """Whether a sampled story is worth learning from: whole, of known words, about the one it began with."""
    tokens = re.findall(r"[A-Za-z']+", story)
    if not 60 <= len(tokens) <= 320 or story[-1] not in '.!"' or story.count('"') % 2:
        return False
    if any(t.lower() not in lexicon for t in tokens):
        return False
    sentences = re.split(r"(?<=[.!?]) ", story)
    if len(set(sentences)) < len(sentences):
        return False
    grams = list(zip(*(tokens[i:] for i in range(4))))
    if len(set(grams)) < 0.94 * len(grams):
        return False
    named = [t for t in tokens if t in NAMES]
    if not named or len(set(named)) > 3 or named[0] not in tokens[-len(tokens) // 3:]:
        return False
    he, she = (sum(t.lower() in s for t in tokens) for s in ({"he", "his", "him"}, {"she", "her"}))
    if named[0] in words.GIRLS and he > she or named[0] in words.BOYS and she > he:
        return False
    return True


def read_sampled(paths):
    """The sampled stories, each once."""
    stories = {}
    for path in paths:
        for line in Path(path).read_text().splitlines():
            story = re.sub(r" *\n+", "\n\n", plain(line.replace("\\n", "\n")).strip())
            stories[tuple(story.split()[8:20])] = story
    return list(filter(None, stories.values()))


def frequent(texts, least):
    """The words that come at least so often."""
    counts = collections.Counter(w.lower() for t in texts for w in re.findall(r"[A-Za-z']+", t))
    return {w for w, n in counts.items() if n >= least}


def main():
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(exist_ok=True)
    rng = random.Random(1)
    real = real_stories(data / "tinystories_197k.txt")
    held = real[-len(real) // 10:]
    real = real[:-len(held)]
    told = [Story(rng) for _ in range(TOLD)]
    drafts = read_sampled(sys.argv[3:])
    lexicon = frequent(real + [s.text for s in told], 2) | frequent(drafts, len(drafts) // 400 + 2)
    sampled = [s for s in drafts if fit(s, lexicon)]
    print(f"sampled: {len(sampled)} of {len(drafts)} kept")
    rng.shuffle(sampled)
    few = len(sampled) // 20
    held_sampled, sampled = sampled[:few], sampled[few:]
    print(f"real: {len(real)} + {len(held)} stories; told: {len(told)}")

    # Most of what is asked for has a thing in it: that it must come is learned late.
    chats = [talk.about(rng, s) for s in told[::2] if talk.has_thing(s) or rng.random() < 0.2] + [talk.small(rng) for _ in range(len(told) // 12)]
    chats += [talk.go_on(rng, s) for s in sampled[::5] + real * 2 + [s.text for s in told[1::16]]]
    if not (out / "merges.json").exists():
        text = real * 4 + sampled[:4000] + [s.text for s in told[:12000]] + [m for c in chats[:8000] for _, m in c]
        Vocabulary(learn(text, SIZE)).save(out / "merges.json")
    v = Vocabulary.load(out / "merges.json")

    begin, end = v.ids[BEGIN], v.ids[END]
    roles = {"user": v.ids[USER], "assistant": v.ids[ASSISTANT], "system": v.ids[SYSTEM]}
    story = lambda text: [begin, *v.encode(text), end]
    chat = lambda c: [begin] + [i for role, text in c for i in (roles[role], *v.encode(text), end)]

    sets = {
        "valid_real": [story(s) for s in held],
        "valid_sampled": [story(s) for s in held_sampled],
        "valid_told": [story(Story(random.Random(10**6 + i)).text) for i in range(100)],
        "valid_chat": [chat(talk.about(random.Random(i), Story(random.Random(2 * 10**6 + i)))) for i in range(100)],
        "train_told": [story(s.text) for s in told[1::2]],
        "train_chat": [chat(c) for c in chats],
        "train_sampled": [story(s) for s in sampled],
        "train_real": [story(s) for s in real],
    }
    for name, docs in sets.items():
        rng.shuffle(docs)
        starts = np.cumsum([0] + [len(d) for d in docs])
        np.savez(out / f"{name}.npz", ids=np.array([i for d in docs for i in d], np.uint16), starts=starts)
        print(f"{name}: {len(docs)} documents, {starts[-1]} tokens")


if __name__ == "__main__":
    main()
