#!/usr/bin/env python3
"""How much training a new classifier brings: messages to a shop are told apart by what they want, scored on texts held out.

    bench/classes.py -m MODEL.gguf DIR [--quern bin/quern] [--train 600] [-- FLAGS OF QUERN FINETUNE]

writes DIR/train.jsonl, DIR/test.jsonl and DIR/classes.txt, which are generated and the same each time, scores the model before, by
which name of a class is nearest to a text, then trains a classifier three ways (the classifier alone, with an adapter, and all
weights), asks each about the test texts with "quern classify", and prints a table. Half of the test texts are phrased as in
training, of other words; the other half in ways that training has not. Python's standard library alone.
"""
import argparse, json, random, subprocess, sys, time
from pathlib import Path

ITEMS = "kettle lamp jacket phone case bicycle helmet rug blender tent desk guitar coffee grinder backpack".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday".split()
TOWNS = "Leeds Lisbon Gdansk Oslo Porto Ghent Turin Malmo Cork Graz".split()
NAMES = "Okafor Lindqvist Moreau Tanaka Silva Novak Haddad Murphy".split()
SEEN = {
    "refund": ["I want my money back for the {item}.", "Please refund order {n}.", "How do I get a refund for the {item} from {day}?",
               "The {item} was returned on {day}, where is my refund?"],
    "delivery status": ["Where is my {item}?", "When will order {n} arrive in {town}?", "Has the {item} been shipped yet?",
                        "Track parcel {n} for me, please."],
    "change address": ["Please send order {n} to {town} instead.", "I have moved to {town}, update my address.",
                       "Can you change the delivery address of the {item}?", "My new address is in {town}."],
    "damaged item": ["The {item} arrived broken.", "There is a crack in my {item}.", "The {item} of order {n} does not switch on.",
                     "My {item} came with scratches all over."],
    "cancel order": ["Cancel order {n}.", "I do not want the {item} any more, please cancel it.", "Stop the order of the {item} before it ships.",
                     "Can I still cancel what I ordered on {day}?"],
    "payment problem": ["My card was declined for the {item}.", "I was charged twice for order {n}.", "The payment for the {item} does not go through.",
                        "Why was my card debited on {day}?"],
    "opening hours": ["When do you open on {day}?", "Is the shop in {town} open on {day}?", "What are your opening hours?",
                      "Until when is the {town} store open?"],
    "product question": ["Does the {item} come in blue?", "How heavy is the {item}?", "Is the {item} waterproof?",
                         "What is the {item} made of?"],
    "account access": ["I forgot my password.", "I cannot log in as {name}.", "My account {n} is locked.",
                       "Reset the password of {name}, please."],
    "speak to a person": ["Let me talk to a human.", "I want to speak with an agent.", "Connect me with {name} from support.",
                          "Is there a real person in {town} I can call?"],
}
UNSEEN = {
    "refund": ["You still owe me what I paid for the {item}.", "It has been weeks since I sent the {item} back and nothing was credited."],
    "delivery status": ["I have been waiting for the {item} since {day}.", "Any news on when {n} gets to {town}?"],
    "change address": ["The parcel should go to my office in {town}, not home.", "I no longer live in {town}; deliver {n} elsewhere."],
    "damaged item": ["I opened the box and the {item} was in pieces.", "Something rattles inside the {item} and it is dead."],
    "cancel order": ["I changed my mind about the {item}, call it off.", "Please undo the purchase I made on {day}."],
    "payment problem": ["Checkout keeps rejecting my bank details.", "There are two withdrawals for the same {item} on my statement."],
    "opening hours": ["Can I come by on {day} evening?", "How late can I visit you in {town}?"],
    "product question": ["Would the {item} survive rain?", "Tell me the size of the {item} before I buy it."],
    "account access": ["The site says my login is wrong.", "I am shut out of my profile, user {name}."],
    "speak to a person": ["Enough of the robot, put somebody on the line.", "Could {name} ring me back in person?"],
}


def example(rng, phrasings, label):
    text = rng.choice(phrasings[label]).format(item=rng.choice(ITEMS), day=rng.choice(DAYS), town=rng.choice(TOWNS), name=rng.choice(NAMES),
                                                n=rng.randrange(1000, 9999))
    return {"text": text, "label": label}


def examples(rng, phrasings, n):
    labels, seen, all = list(SEEN), set(), []
    for i in range(50 * n):
        x = example(rng, phrasings, labels[i % len(labels)])
        if x["text"] not in seen:
            seen.add(x["text"])
            all.append(x)
        if len(all) == n:
            break
    rng.shuffle(all)
    return all


def write(path, all):
    path.write_text("".join(json.dumps(x) + "\n" for x in all))


def out(args, **more):
    return subprocess.run([str(a) for a in args], check=True, capture_output=True, text=True, **more).stdout


def shares(guesses, tests):
    return [sum(g == x["label"] for g, x in zip(guesses[n], some)) / len(some) for n, (_, some) in enumerate(tests)]


def classify(quern, model, tests):
    return shares([[line.split("\t")[0] for line in out([quern, "classify", "-m", model, *[x["text"] for x in some]]).splitlines()]
                   for _, some in tests], tests)


def nearest(quern, model, tests):
    names = list(SEEN)
    vectors = lambda texts: [[float(v) for v in line.split()] for line in out([quern, "embed", "-m", model, *texts]).splitlines()]
    rows = vectors(names)
    dot = lambda a, b: sum(x * y for x, y in zip(a, b))
    return shares([[names[max(range(len(rows)), key=lambda k: dot(v, rows[k]))] for v in vectors([x["text"] for x in some])]
                   for _, some in tests], tests)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("-m", "--model", required=True)
    p.add_argument("dir", type=Path)
    p.add_argument("--quern", default="bin/quern")
    p.add_argument("--train", type=int, default=600)
    p.add_argument("--tests", type=int, default=200)
    p.add_argument("--ways", default="alone,adapter,full")
    args, flags = sys.argv[1:], []  # of quern finetune, behind --
    if "--" in args:
        args, flags = args[:args.index("--")], args[args.index("--") + 1:]
    a = p.parse_args(args)
    a.dir.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    train = examples(rng, SEEN, a.train + a.tests // 2)
    tests = [("as in training", train[a.train:]), ("other phrases", examples(rng, UNSEEN, a.tests // 2))]
    write(a.dir / "train.jsonl", train[:a.train])
    write(a.dir / "test.jsonl", [x for _, some in tests for x in some])
    (a.dir / "classes.txt").write_text("".join(name + "\n" for name in SEEN))
    rows = [("before: nearest name", nearest(a.quern, a.model, tests), 0.0)]
    ways = {"alone": ["--targets", "cls.output"], "adapter": [], "full": ["--full", "F32"]}
    for way in a.ways.split(","):
        made, start = a.dir / f"{way}.gguf", time.time()
        said = out([a.quern, "finetune", "-m", a.model, "--classes", a.dir / "classes.txt", "--data", a.dir / "train.jsonl", "-o", made,
                    "--force", "--log", a.dir / f"{way}.csv", *ways[way], *flags])
        took = time.time() - start
        (a.dir / f"{way}.txt").write_text(said)
        rows.append((way, classify(a.quern, made, tests), took))
    print("| | " + " | ".join(name for name, _ in tests) + " | seconds |\n| --- | --- | --- | --- |")
    for name, right, took in rows:
        print(f"| {name} | " + " | ".join(f"{100 * r:.0f} %" for r in right) + f" | {took:.0f} |")


if __name__ == "__main__":
    main()
