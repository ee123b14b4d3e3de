#!/usr/bin/env python3
"""Tells small stories by rule: plots with many wordings, over a world of heroes, things and places.

A plot file (plots/*.txt) holds plots, each under a line "## NAME: CONDITIONS". The lines of a plot are joined with
spaces; an empty line begins a paragraph. In a line,

    [a|b|c]      is one of a, b and c, which may hold more of these; [a|] is a or nothing
    {h} {t} ...  is a slot, see World; {intro} and {end} are wordings that all plots share
    x = [a|b]    on a line of its own chooses once; {x} is the choice from there on

Conditions choose what the story is about: "hero=animal thing=food place=outdoors" and so on; without one, anything.
"""

import re
from pathlib import Path

import words

HERE = Path(__file__).parent


def pick(rng, options, less=0.75):
    """One of the options, each less likely than the one before. Were all as likely, then what the model finds likeliest
    would be a matter of rounding, and its greedy text another in every engine."""
    return rng.choices(options, [less**i for i in range(len(options))])[0]


class Who:
    """A character. In a plot: {h} the name, {h.kind}, {h.a} "a little dog", {h.the} "the dog", {h.he} {h.him} {h.his}
    {h.himself}, and with a capital {h.He} {h.His}."""

    FORMS = {
        "he": ("he", "him", "his", "himself"),
        "she": ("she", "her", "her", "herself"),
    }

    def __init__(self, rng, group, taken):
        self.group = group
        if group == "child":
            self.kind, self.sex = pick(rng, (("girl", "she"), ("boy", "he")))
            names = words.GIRLS if self.sex == "she" else words.BOYS
        else:
            self.kind = rng.choice([k for k in words.KINDS[group] if k not in taken])
            self.sex = words.SEX.get(self.kind) or pick(rng, ("he", "she"))
            names = words.PETS if group != "person" else (words.GIRLS if self.sex == "she" else words.BOYS)
        self.name = pick(rng, [n for n in names if n not in taken], 0.93)
        self.adjective = pick(rng, words.TRAITS, 0.85)
        taken |= {self.name, self.kind} if group != "child" else {self.name}

    def slot(self, form):
        he, him, his, himself = self.FORMS[self.sex]
        forms = {
            "": self.name,
            "kind": self.kind,
            "a": f"a {self.adjective} {self.kind}",
            "the": f"the {self.kind}",
            "The": f"The {self.kind}",
            "trait": self.adjective,
            "he": he,
            "him": him,
            "his": his,
            "himself": himself,
        }
        if form in ("He", "His", "Him"):
            return forms[form.lower()].capitalize()
        return forms[form]


class World:
    """What one story is about. Slots beside the characters {h} (hero), {f} (friend), {g} (another):

    {e}           an elder of the hero: "mom", "grandpa"; say "{h.his} {e}"; {e.he} {e.him} {e.his} {e.He}
    {t} {t.adj}   the thing, "boat", and a word for how it looks, "red"; {t.a} "a red boat"
    {u} {u.adj}   another thing of any kind
    {food}        something to eat, with no article: "apple", countable
    {p} {at}      the place: "the forest", and "in the forest"; {q} {atq} another place
    {color} {weather} {n}    a color, "sunny", and a number in words from two to six
    """

    def __init__(self, rng, conditions=None):
        want = conditions or {}
        self.rng = rng
        taken = set()
        group = lambda key, default: rng.choice(want.get(key, default).split("/"))
        groups = "child/child/animal/animal/animal/person/creature"
        self.who = {
            "h": Who(rng, group("hero", groups), taken),
            "f": Who(rng, group("friend", "child/animal/animal/creature" if rng.random() < 0.5 else "animal"), taken),
            "g": Who(rng, group("other", "child/animal/animal/person"), taken),
        }
        elder, sex = pick(rng, words.ELDERS)
        he, him, his, _ = Who.FORMS[sex]
        thing = self.thing(group("thing", "/".join(words.THINGS)))
        other = self.thing(group("other_thing", "toy/find/food"), thing[0])
        p, q = rng.sample(words.PLACES[group("place", "outdoors")], 2)
        color = pick(rng, words.COLORS)
        self.slots = {
            "e": elder, "e.he": he, "e.him": him, "e.his": his, "e.He": he.capitalize(), "e.His": his.capitalize(),
            "t": thing[0], "t.adj": thing[1], "t.a": f"a {thing[1]} {thing[0]}",
            "u": other[0], "u.adj": other[1], "u.a": f"a {other[1]} {other[0]}",
            "food": rng.choice(words.THINGS["food"]),
            "p": p[1], "at": f"{p[0]} {p[1]}", "q": q[1], "atq": f"{q[0]} {q[1]}",
            "color": color, "weather": pick(rng, words.WEATHER),
            "n": rng.choice(("two", "three", "four", "five", "six")),
        }

    def thing(self, group, but=None):
        noun = self.rng.choice([n for n in words.THINGS[group] if n != but])
        return noun, pick(self.rng, words.LOOKS[group], 0.85)

    def slot(self, name):
        first, _, form = name.partition(".")
        if first in self.who:
            return self.who[first].slot(form)
        if name[0].isupper() and name.lower() in self.slots:
            s = self.slots[name.lower()]
            return s[0].upper() + s[1:]
        return self.slots[name]

    def expand(self, text):
        """Returns text with every choice made and every slot filled."""
        out, i = [], 0
        while i < len(text):
            c = text[i]
            if c == "[":
                parts, i = split_choice(text, i + 1)
                out.append(self.expand(pick(self.rng, parts)))
            elif c == "{":
                end = text.index("}", i)
                name = text[i + 1:end]
                out.append(self.expand(pick(self.rng, SHARED[name])) if name in SHARED else self.slot(name))
                i = end + 1
            else:
                out.append(c)
                i += 1
        return "".join(out)


def split_choice(text, i):
    """Returns the parts of a choice whose "[" ended at i, and where it ends."""
    parts, depth, start = [], 0, i
    while True:
        c = text[i]
        if c == "[":
            depth += 1
        elif c == "|" and depth == 0:
            parts.append(text[start:i])
            start = i + 1
        elif c == "]":
            if depth == 0:
                return parts + [text[start:i]], i + 1
            depth -= 1
        i += 1


def tidy(text):
    """Mends what choices leave behind: spaces, articles and capitals."""
    text = re.sub(r" +", " ", text).replace(" .", ".").replace(" ,", ",").replace(" !", "!").replace(" ?", "?")
    text = re.sub(r"\b([Aa]) (?=[aeio]|u(?!n?i))(?!one\b|once\b)", r"\1n ", text)
    text = re.sub(r'(^|[.!?] |[.!?]" |\n)("?)([a-z])', lambda m: m[1] + m[2] + m[3].upper() if opens(m) else m[0], text)
    return "\n\n".join(p.strip() for p in text.split("\n\n") if p.strip())


def opens(m):
    """Whether a match of tidy is the beginning of a sentence: after a quotation that ends in ! or ?, it may not be."""
    return not (m[1].endswith('" ') and m[1][0] in "!?")


# How stories open, and how they could as well.
OPENINGS = [
    (r"(One|Some) day, |Long ago, ", r"Once upon a time, "),
    (r"There was once |Once there was ", r"Once upon a time, there was "),
    (r"(\w+) was (an? [a-z]+ [a-z]+)\b", r"Once upon a time, there was \2 named \1"),
    (r"I(n an? )", r"Once upon a time, i\1"),
]


def classic(text):
    """Returns the story with the opening that everybody knows, where its own can be turned into it."""
    for own, known in OPENINGS:
        m = re.match(own, text)
        if m:
            return m.expand(known) + text[m.end():]
    return text


def read_plots():
    plots = []
    for path in sorted((HERE / "plots").glob("*.txt")):
        for block in re.split(r"^## ", path.read_text(), flags=re.M)[1:]:
            head, _, body = block.partition("\n")
            name, _, conditions = head.partition(":")
            plots.append((name.strip(), dict(c.split("=") for c in conditions.split()), body.strip()))
    return plots


def read_shared():
    shared = {}
    for block in re.split(r"^## ", (HERE / "shared.txt").read_text(), flags=re.M)[1:]:
        name, _, body = block.partition("\n")
        shared[name.strip()] = [line for line in body.strip().split("\n") if line]
    return shared


SHARED = read_shared()
PLOTS = read_plots()


class Story:
    """A story: its text, its plot and the world it happens in."""

    def __init__(self, rng, plot=None):
        self.plot, conditions, body = plot or pick(rng, PLOTS, 0.97)
        self.world = World(rng, conditions)
        paragraphs = []
        for paragraph in body.split("\n\n"):
            lines = []
            for line in paragraph.split("\n"):
                m = re.match(r"(\w+) = (.*)", line)
                if m:
                    self.world.slots[m[1]] = self.world.expand(m[2])
                else:
                    lines.append(self.world.expand(line))
            paragraphs.append(" ".join(lines))
        self.text = tidy("\n\n".join(paragraphs))
        if rng.random() < 0.5:
            self.text = classic(self.text)


if __name__ == "__main__":
    import random
    import sys

    rng = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
    only = [p for p in PLOTS if len(sys.argv) > 2 and p[0] == sys.argv[2]]
    for _ in range(4):
        s = Story(rng, only[0] if only else None)
        print(f"-- {s.plot}\n{s.text}\n")
