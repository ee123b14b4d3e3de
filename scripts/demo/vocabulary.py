"""The demo's vocabulary: byte-level BPE with GPT-2's way of cutting text into words."""

import collections
import functools
import heapq
import json
import re

BEGIN, END, USER, ASSISTANT, SYSTEM = "<|begin|>", "<|end|>", "<|user|>", "<|assistant|>", "<|system|>"
CONTROL = [BEGIN, END, USER, ASSISTANT, SYSTEM]

# GPT-2's expression, for what Python's classes of characters cover.
WORDS = re.compile(r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:_|[^\s\w])+|\s+(?!\S)|\s+")


def byte_letters():
    """GPT-2's printable letter for each byte."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(others)}


LETTERS = byte_letters()


def letters(word):
    return tuple(LETTERS[b] for b in word.encode())


def learn(texts, size, control=CONTROL):
    """Returns the merges that make a vocabulary of size tokens, the most frequent pair first."""
    counts = collections.Counter(w for t in texts for w in WORDS.findall(t))
    words = [(list(letters(w)), n) for w, n in counts.items()]
    pairs, where = collections.Counter(), collections.defaultdict(set)
    for i, (w, n) in enumerate(words):
        for p in zip(w, w[1:]):
            pairs[p] += n
            where[p].add(i)
    heap = [(-n, p) for p, n in pairs.items()]
    heapq.heapify(heap)
    merges = []
    while len(merges) < size - 256 - len(control) and heap:
        n, pair = heapq.heappop(heap)
        if pairs[pair] != -n:
            continue  # counted anew since
        merges.append(pair)
        changed = set()
        for i in where[pair]:
            w, n = words[i]
            for p in zip(w, w[1:]):
                pairs[p] -= n
                changed.add(p)
            words[i] = w, n = merge(w, pair), n
            for p in zip(w, w[1:]):
                pairs[p] += n
                where[p].add(i)
                changed.add(p)
        for p in changed:
            if pairs[p] > 0:
                heapq.heappush(heap, (-pairs[p], p))
    return merges


def merge(word, pair):
    out, i = [], 0
    while i < len(word):
        if i + 1 < len(word) and (word[i], word[i + 1]) == pair:
            out.append(word[i] + word[i + 1])
            i += 2
        else:
            out.append(word[i])
            i += 1
    return out


class Vocabulary:
    def __init__(self, merges, control=CONTROL):
        self.control, self.merges = control, [tuple(m) for m in merges]
        self.tokens = control + [LETTERS[b] for b in range(256)] + [a + b for a, b in self.merges]
        self.ids = {t: i for i, t in enumerate(self.tokens)}
        self.rank = {m: i for i, m in enumerate(self.merges)}
        self.word = functools.lru_cache(1 << 20)(self._word)

    def _word(self, word):
        w = list(letters(word))
        while len(w) > 1:
            pair = min(zip(w, w[1:]), key=lambda p: self.rank.get(p, len(self.rank)))
            if pair not in self.rank:
                break
            w = merge(w, pair)
        return [self.ids[t] for t in w]

    def encode(self, text):
        """Returns the ids of text, in which nothing stands for a control token."""
        return [i for w in WORDS.findall(text) for i in self.word(w)]

    def decode(self, ids):
        """Returns the text of ids, without control tokens."""
        at = {letter: b for b, letter in LETTERS.items()}
        text = "".join(self.tokens[i] for i in ids if self.tokens[i] not in self.control)
        return bytes(at[c] for c in text).decode(errors="replace")

    def save(self, path):
        path.write_text(json.dumps(self.merges))

    @classmethod
    def load(cls, path):
        return cls(json.loads(path.read_text()))
