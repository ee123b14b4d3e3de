"""What is said about the pictures that see_draw.py draws: questions, answers, and the prompts they come in."""

from see_draw import DIGITS, HUES, NAMES, SHAPES
from vocabulary import ASSISTANT, BEGIN, CONTROL, END, SYSTEM, USER, Vocabulary, learn

OPEN, CLOSE = "<start_of_image>", "<end_of_image>"  # as Gemma 3 has them
ROWS = 9  # that a picture takes between these
TOKENS = 512  # of the vocabulary
PICTURE = -1  # the id of a row of the picture, which is no token

BLANK, BLIND = "There is nothing in the picture.", "I see no picture."
NUMBERS = ["None", "One", "Two"]
DESCRIBE = [
    "What is this?", "What do you see?", "Describe the picture.", "Describe this image.", "What is in the picture?", "What is in this image?",
    "What can you see here?", "Tell me what you see.", "Look at this picture.", "What does this show?", "Describe what you see.", "What's this?",
    "Name what you see.", "Caption this image.", "What is shown here?", "Hello! What is this?", "Please describe the picture.",
]
COUNT = ["How many things are there?", "How many things do you see?", "How many are there?", "How many things are in the picture?"]
COLOUR = ["What colour is it?", "What color is it?", "Which colour is it?", "Which colour does it have?"]
COLOUR_OF = ["What colour is the {}?", "What color is the {}?", "Which colour is the {}?", "Which colour does the {} have?"]
SYSTEMS = ["You are a helpful assistant.", "You describe pictures.", "You are a kind assistant that looks at pictures.", "Answer in one sentence."]


def plain(name):
    return name if name in SHAPES else f"digit {name}" if name in DIGITS else f"letter {name}"


def one(thing):
    article = "an" if thing.colour[0] in "aeiou" else "a"
    return f"{article} {thing.colour} {plain(thing.name)}"


def caption(things, above):
    if not things:
        return BLANK
    s = one(things[0])
    if len(things) == 2:
        s += (" above " if above else " to the left of ") + one(things[1])
    return s[0].upper() + s[1:] + "."


def turn(things, above, rng):
    """A question, which may be empty, and its answer."""
    pick = lambda some: some[rng.integers(len(some))]
    kind = rng.random()
    if things and kind < 0.14:
        t = pick(things)
        if len(things) == 1 and rng.random() < 0.4:
            return pick(COLOUR), t.colour.capitalize() + "."
        same = [u for u in things if u.name == t.name]
        if len(same) == 1:
            return pick(COLOUR_OF).format(plain(t.name)), t.colour.capitalize() + "."
    if kind < 0.2:
        return pick(COUNT), NUMBERS[len(things)] + "."
    return ("" if rng.random() < 0.2 else pick(DESCRIBE)), caption(things, above)


class Talk:
    """Prompts and answers as ids."""

    def __init__(self, vocabulary):
        self.v = vocabulary
        self.picture = [self.v.ids[OPEN]] + ROWS * [PICTURE] + [self.v.ids[CLOSE]]
        self.known = {}

    def ids(self, text):
        if text not in self.known:
            self.known[text] = self.v.encode(text)
        return self.known[text]

    def asked(self, question, how=0):
        """A picture and a question as what a user says: the picture before or behind it, close or not."""
        gap = self.ids(("", "\n", " ")[how % 3])
        if not question:
            return self.picture
        return self.picture + gap + self.ids(question) if how < 4 else self.ids(question) + gap + self.picture

    def prompt(self, question, how=0, system=None):
        begin, end, user, assistant = (self.v.ids[t] for t in (BEGIN, END, USER, ASSISTANT))
        said = [self.v.ids[SYSTEM]] + self.ids(system) + [end] if system else []
        return [begin, *said, user, *self.asked(question, how), end, assistant]

    def text(self, things, above, rng):
        """A text about a picture: its ids, and which of them the model is to say."""
        begin, end, user, assistant = (self.v.ids[t] for t in (BEGIN, END, USER, ASSISTANT))
        question, answer = turn(things, above, rng)
        if rng.random() < 0.03:  # words alone
            head = [begin, user, *self.ids(question or DESCRIBE[0]), end, assistant]
            return head + self.ids(BLIND) + [end], [False] * len(head) + [True] * (len(self.ids(BLIND)) + 1)
        if rng.random() < 0.3:  # no conversation, but a text that goes on
            head = [begin, *self.picture, *self.ids(question)]
            tail = self.ids("\n" + answer if question else answer) + [end]
            return head + tail, [False] * len(head) + [True] * len(tail)
        system = SYSTEMS[rng.integers(len(SYSTEMS))] if rng.random() < 0.06 else None
        ids = self.prompt(question, int(rng.integers(6)), system)
        say = [False] * len(ids)
        for more in range(3):
            said = self.ids(answer) + [end]
            ids, say = ids + said, say + [True] * len(said)
            if more == 2 or rng.random() < 0.88:
                return ids, say
            question, answer = turn(things, above, rng)
            asks = [user, *self.ids(question or DESCRIBE[1]), end, assistant]
            ids, say = ids + asks, say + [False] * len(asks)


def vocabulary():
    """Learns the vocabulary of all that is said."""
    things = [f"{c} {plain(n)}" for c in HUES for n in NAMES]
    texts = [f"A {t} above a {t}. An {t} to the left of an {t}. The {t}?" for t in things]
    texts += [f"{c.capitalize()}.\n{c.capitalize()}." for c in HUES for _ in range(20)]
    texts += 20 * (DESCRIBE + COUNT + COLOUR + COLOUR_OF + SYSTEMS + [BLANK, BLIND] + [n + "." for n in NUMBERS])
    texts += ["\n" + t for t in texts]
    control = CONTROL + [OPEN, CLOSE]
    return Vocabulary(learn(texts, TOKENS, control), control)
