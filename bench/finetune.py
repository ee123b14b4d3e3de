#!/usr/bin/env python3
"""How much a fine-tuning brings: orders in plain English become JSON, scored by exact match before and after.

    bench/finetune.py -m MODEL.gguf DIR [--quern bin/quern] [--train 1000] [-- FLAGS OF QUERN FINETUNE]

writes DIR/train.jsonl and DIR/test.jsonl, which are generated and the same each time, asks the model about the test orders,
trains DIR/adapter.gguf, asks again with it, and prints a table. Half of the test orders are phrased as in training, of other
words; the other half in ways that training has not. Python's standard library alone.
"""
import argparse, json, random, subprocess, sys, time, urllib.request
from pathlib import Path

SYSTEM = "Write the order as one line of JSON with the keys item, count (a number), unit, name, town, day and pay, and nothing else."
ITEMS = "pears lamps nails candles mugs towels bricks hinges plums kettles ropes tiles brushes jars oars spoons".split()
UNITS = "crates boxes sacks pallets bags".split()
NAMES = "Okafor Lindqvist Moreau Tanaka Silva Novak Haddad Murphy Jansen Costa Petrov Ahmed Keller Rossi Larsen Mbeki".split()
TOWNS = "Leeds Lisbon Gdansk Oslo Porto Ghent Turin Malmo Cork Graz Brno Split Arles Bergen Derby Lugo".split()
DAYS = "Monday Tuesday Wednesday Thursday Friday Saturday".split()
PAYS = "card cash invoice".split()
WORDS = "zero one two three four five six seven eight nine ten eleven twelve".split()
SEEN = [
    "Please send {n} {unit} of {item} to {name} in {town} by {day}, paid by {pay}.",
    "{name} from {town} wants {n} {unit} of {item}. It has to be there on {day}. {Pay}, please.",
    "We need {item}: {n} {unit}, for {name}, {town}. Delivery {day}. Payment: {pay}.",
    "On {day} bring {name} {n} {unit} of {item}; the address is in {town}, and the payment is by {pay}.",
    "Can you get {n} {unit} of {item} over to {town} for {name} before {day}? They pay by {pay}.",
    "Order for {name}. {n} {unit}, {item}. {town}. {day}. {Pay}.",
]
UNSEEN = [
    "I promised {name} that {n} {unit} of {item} would reach {town} no later than {day}; settle it by {pay}.",
    "{town} is waiting: {item}, {n} {unit} of them, and {name} will sign for them on {day} and pay by {pay}.",
    "Paying by {pay}, {name} would like to have {n} {unit} of {item} in {town} this {day}.",
]


def example(rng, phrasings):
    n = rng.randrange(1, 13)
    o = dict(item=rng.choice(ITEMS), count=n, unit=rng.choice(UNITS), name=rng.choice(NAMES), town=rng.choice(TOWNS),
             day=rng.choice(DAYS), pay=rng.choice(PAYS))
    text = rng.choice(phrasings).format(n=rng.choice([str(n), WORDS[n]]), Pay=o["pay"].capitalize(), **o)
    return {"messages": [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text},
                         {"role": "assistant", "content": json.dumps(o)}]}


def write(path, examples):
    path.write_text("".join(json.dumps(x) + "\n" for x in examples))


def ask(port, x):
    body = {"messages": x["messages"][:2], "temperature": 0, "max_tokens": 120}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=600) as r:
        return json.load(r)["choices"][0]["message"]["content"]


def fields(answer, want):
    """Returns how many fields are right, and whether the answer is the JSON of the order and no more."""
    begin, end = answer.find("{"), answer.rfind("}")
    try:
        got = json.loads(answer[begin:end + 1])
    except ValueError:
        return 0, False
    right = sum(isinstance(got, dict) and got.get(k) == v for k, v in want.items())
    return right, answer.strip() == json.dumps(want)


def score(quern, model, flags, tests, port):
    server = subprocess.Popen([quern, "serve", "-m", model, "--port", str(port), *flags], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                break
            except OSError:
                if server.poll() is not None:
                    sys.exit("quern serve ended")
                time.sleep(0.5)
        rows = []
        for name, some in tests:
            results = [fields(ask(port, x), json.loads(x["messages"][2]["content"])) for x in some]
            rows.append((name, sum(w for _, w in results) / len(some), sum(r for r, _ in results) / (7 * len(some))))
        return rows
    finally:
        server.terminate()
        server.wait()


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("-m", "--model", required=True)
    p.add_argument("dir", type=Path)
    p.add_argument("--quern", default="bin/quern")
    p.add_argument("--train", type=int, default=1000)
    p.add_argument("--tests", type=int, default=100)
    p.add_argument("--port", type=int, default=8797)
    args, flags = sys.argv[1:], []  # of quern finetune, behind --
    if "--" in args:
        args, flags = args[:args.index("--")], args[args.index("--") + 1:]
    a = p.parse_args(args)
    a.dir.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    train = [example(rng, SEEN) for _ in range(a.train)]
    tests = [("as in training", [example(rng, SEEN) for _ in range(a.tests // 2)]),
             ("other phrases", [example(rng, UNSEEN) for _ in range(a.tests // 2)])]
    write(a.dir / "train.jsonl", train)
    write(a.dir / "test.jsonl", [x for _, some in tests for x in some])
    out = a.dir / "adapter.gguf"
    before = score(a.quern, a.model, [], tests, a.port)
    start = time.time()
    subprocess.run([a.quern, "finetune", "-m", a.model, "--data", a.dir / "train.jsonl", "-o", out, "--force",
                    "--plot", a.dir / "loss.svg", "--log", a.dir / "loss.csv", *flags], check=True)
    took = time.time() - start
    after = score(a.quern, a.model, ["--lora", str(out)], tests, a.port)
    print(f"\n{took / 60:.1f} minutes of training\n\n| orders | | exactly right | fields right |\n| --- | --- | --- | --- |")
    for (name, exact, part), (_, exact2, part2) in zip(before, after):
        print(f"| {name} | without | {100 * exact:.0f} % | {100 * part:.0f} % |")
        print(f"| | with the adapter | {100 * exact2:.0f} % | {100 * part2:.0f} % |")


if __name__ == "__main__":
    main()
