"""Conversations made from stories by rule."""

import words
from grammar import Story, tidy

ASK = [
    "Tell me a story about {x}.", "Tell me a story about {x}", "tell me a story about {x}", "Tell me about {x}.",
    "Can you tell me a story about {x}?", "Please tell me a story about {x}.", "A story about {x}, please.",
    "I would like a story about {x}.", "Write a story about {x}.", "Write a short story about {x}.",
    "Do you know a story about {x}?", "Make up a story about {x}.", "Give me a story about {x}", "{x}", "Story about {x}!",
    "Could you tell me a little story about {x}?", "My child wants a story about {x}.",
]
ASK_ANY = [
    "Tell me a story.", "Tell me a story", "tell me a story please", "Can you tell me a story?", "I want a story!",
    "A story, please.", "Tell me a bedtime story.", "Do you know a story?", "Write a story.", "Once upon a time?",
    "Tell me something nice.", "I can not sleep.", "I am bored.", "Surprise me.",
]
AGAIN = ["Another one!", "Tell me another one.", "One more, please.", "Again!", "Another story about {x}, please.",
         "Now tell me one about {x}.", "And one about {x}?", "Thank you! Do you know one about {x}?"]
SYSTEMS = ["You tell stories.", "You are a storyteller.", "You are a helpful assistant.", "You tell small stories to children.",
           "You are a kind storyteller.", "Answer with a story."]

# Each: what may be said, and what may be answered.
SMALL = [
    (["Hello", "Hi", "Hello!", "Hi there!", "Hey", "Good morning!", "Good evening.", "hello"],
     ["Hello! Shall I tell you a story?", "Hi there! I know many small stories. What should one be about?",
      "Hello, friend! Would you like a story about a {kind}?", "Good day! I am in the mood for a story. Are you?"]),
    (["How are you?", "How are you today?", "how do you do"],
     ["I am well, thank you! My head is full of little stories.", "Very well! Today I feel like telling a story about a {kind}.",
      "I am fine. A story would make me even happier!"]),
    (["Who are you?", "What are you?", "What is your name?", "who are you", "Tell me about yourself.", "Are you a robot?"],
     ["I am a very small storyteller. I live inside Quern.", "I am the demo inside Quern. I tell small stories, and I know nothing else.",
      "I am a tiny model. I can tell you a story about a {kind} and a {thing}."]),
    (["What can you do?", "Help", "help", "What do you know?", "What can I ask you?"],
     ["I can tell small stories. Ask me for one about a {kind} and a {thing}!", "Stories, and only stories. Name a hero and a thing, and I will begin.",
      "Give me a beginning, and I will go on. Or ask for a story about a {kind}."]),
    (["What is two plus two?", "What is 2 + 2?", "What is the capital of France?", "Write some code.", "What is the weather?",
      "Who won the war?", "What day is it?", "How far is the moon?", "Explain how a car works.", "What time is it?",
      "Is it going to rain?", "Translate this to German.", "What is 12 times 7?", "Who is the president?"],
     ["I do not know that. I only know small stories. Shall I tell you one about a {kind}?",
      "That is too hard for me. I am very small. But I know a story about a {thing}!",
      "I wish I knew! I can only tell stories. Would you like one?"]),
    (["Thank you!", "Thanks", "Thank you", "That was nice.", "I like it!", "What a nice story!", "Great!", "Wow!"],
     ["You are welcome! Shall I tell you another one?", "I am glad you like it!", "Thank you! I have more stories, if you like."]),
    (["Good night!", "Bye", "Goodbye!", "See you tomorrow.", "Good night"],
     ["Good night! Sleep well and dream of a {kind}.", "Goodbye! Come back when you want a story.", "Sleep well!"]),
]


def has_thing(story):
    """Whether the story's thing is in it: most plots can do without."""
    return f" {story.world.slots['t']}" in story.text


def subject(rng, story):
    """What a story is about, in words that are in it."""
    h, f = story.world.who["h"], story.world.who["f"]
    slots, text = story.world.slots, story.text
    thing = slots["t"] if has_thing(story) else None
    place = slots["p"] if slots["p"] in text else None
    friend = f.kind if f.name in text and f.kind in text else None
    hero = rng.choice([f"a {h.kind}", f"a {h.kind}", f"a {h.kind} named {h.name}", f"a {h.adjective} {h.kind}"])
    options = [hero, f"{h.name} the {h.kind}"]
    if thing:
        options += [f"{hero} and a {thing}"] * 24 + [f"a {thing}", f"{hero} with a {thing}", f"a {slots['t.adj']} {thing}",
                                                     f"a {h.kind}, a {thing}"]
    if friend:
        options += [f"{hero} and a {friend}"] * 2 + [f"{h.name} and {f.name}"]
    if place:
        options += [f"{hero} {slots['at']}", f"{hero} and {place}"]
    return tidy(rng.choice(options))


def ask(rng, story):
    if rng.random() < 0.12:
        return rng.choice(ASK_ANY)
    return fill(rng, rng.choice(ASK), story)


def fill(rng, text, story):
    x = subject(rng, story)
    if text.startswith("{x}"):
        return text.replace("{x}", x)
    return text.replace("{x}", x if x.split()[0] in (story.world.who["h"].name,) else x[0].lower() + x[1:])


def opening(rng):
    return [("system", rng.choice(SYSTEMS))] if rng.random() < 0.15 else []


def about(rng, story):
    """Somebody asks for the story; now and then for another one after it, or says something small before."""
    chat = opening(rng)
    if rng.random() < 0.1:
        chat += one(rng, SMALL[0])
    chat += [("user", ask(rng, story)), ("assistant", story.text)]
    if rng.random() < 0.25:
        chat += one(rng, SMALL[5])
    if rng.random() < 0.2:
        more = Story(rng)
        chat += [("user", fill(rng, rng.choice(AGAIN), more)), ("assistant", more.text)]
    return chat


def go_on(rng, text):
    """Somebody gives the beginning of a story, and hears the rest."""
    cut = text.find(". ") + 1
    if cut <= 0:
        return [("user", rng.choice(ASK_ANY)), ("assistant", text)]
    begin, rest = text[:cut], text[cut + 1:]
    say = rng.choice(("Go on: ", "Continue: ", "Continue this story: ", "How does this go on? ", "Tell me more: ", ""))
    return [("user", say + begin), ("assistant", rest)]


def one(rng, pair):
    said, answered = rng.choice(pair[0]), rng.choice(pair[1])
    kind = rng.choice(words.KINDS[rng.choice(("animal", "animal", "person", "creature"))])
    thing = rng.choice(words.THINGS[rng.choice(list(words.THINGS))])
    return [("user", said), ("assistant", tidy(answered.replace("{kind}", kind).replace("{thing}", thing)))]


def small(rng):
    """A few small things that people say, and maybe a story after them."""
    chat = opening(rng)
    for pair in rng.sample(SMALL, rng.choice((1, 1, 2))):
        chat += one(rng, pair)
    if rng.random() < 0.3:
        story = Story(rng)
        chat += [("user", ask(rng, story)), ("assistant", story.text)]
    return chat
