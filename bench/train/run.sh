#!/usr/bin/env bash
# Steps of training beside other engines, in turns: bench/train/run.sh MODEL.gguf [TOKENS [ROUNDS]]
#
#	QUERN           the program (default bin/quern)
#	RIVALS          folder of Python environments, RIVALS/NAME/bin/python (default ~/.cache/quern-rivals): the first with
#	                torch and peft trains the same adapter, in F32 and in BF16
#	LLAMA_FINETUNE  llama.cpp's llama-finetune, which trains all weights of F32_MODEL, the same model in F32: it has no LoRA
#	THREADS         of each (default 2)
#	REPEATS         steps of each in a round (default 5); llama-finetune takes some four
#
# Prints the best speed of each engine over all rounds, in tokens/s. Nothing is installed; what is not there is named and left out.
set -euo pipefail
model=${1:?name a GGUF file}
tokens=${2:-512}
rounds=${3:-3}
quern=${QUERN:-bin/quern}
threads=${THREADS:-2}
repeats=${REPEATS:-5}
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python=
for p in "${RIVALS:-${XDG_CACHE_HOME:-$HOME/.cache}/quern-rivals}"/*/bin/python; do
	if [[ -x $p ]] && "$p" -c 'import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, ("torch", "peft", "gguf"))))' 2>/dev/null; then
		python=$p
		break
	fi
done
[[ -n $python ]] || echo "train: without PyTorch: no environment has torch, peft and gguf" >&2
[[ -n ${LLAMA_FINETUNE:-} ]] || echo "train: without llama.cpp: LLAMA_FINETUNE is not set" >&2

# Some of a text, for llama-finetune: a window of TOKENS begins every TOKENS / 2.
text() {
	python3 -c 'import random, sys; random.seed(1); print(" ".join(random.choice("sun rain bread river stone paper glass".split()) for _ in range(int(sys.argv[1]))))' "$((tokens * 6))"
}

# A time in which llama-finetune trains one window more, by what it says of each.
finetune() {
	text >"$work/text"
	"$LLAMA_FINETUNE" -m "$F32_MODEL" -f "$work/text" -c "$tokens" -b "$tokens" -ub "$tokens" -t "$threads" -fa off -epochs 1 -val-split 0 \
		-o "$work/out.gguf" 2>&1 | python3 -c '
import os, re, sys, time
seen, text = {}, b""
while some := os.read(0, 1 << 16):
    text = (text + some)[-4096:]
    for n in re.findall(rb"data=0*(\d+)/", text):
        seen.setdefault(int(n), time.monotonic())
n = sorted(seen)
if len(n) < 2:
    sys.exit("train: llama-finetune said nothing of its windows")
print(min((seen[b] - seen[a]) / (b - a) for a, b in zip(n, n[1:])))'
}

for ((i = 0; i < rounds; i++)); do
	"$quern" bench --train "$tokens" -m "$model" -t "$threads" -r "$repeats" --no-roofline -o json |
		python3 -c 'import json, sys; r = json.load(sys.stdin)[0]; print("Quern", 1e9 * r["n_train"] / r["best_ns"], sep="\t")'
	if [[ -n $python ]]; then
		for type in float32 bfloat16; do
			"$python" "$here/torch_lora.py" -m "$model" --train "$tokens" -t "$threads" -r "$repeats" --type "$type" 2>/dev/null |
				python3 -c 'import json, sys; r = json.loads(sys.stdin.readlines()[-1]); print(r["engine"], r["best_ts"], sep="\t")' ||
				echo "train: PyTorch in $type failed" >&2
		done
	fi
	if [[ -n ${LLAMA_FINETUNE:-} ]]; then
		seconds=$(finetune) && printf 'llama-finetune, all weights in F32\t%s\n' "$(python3 -c 'import sys; print(float(sys.argv[1]) / float(sys.argv[2]))' "$tokens" "$seconds")"
	fi
done | python3 -c '
import sys
best = {}
for line in sys.stdin:
    name, speed = line.rstrip("\n").split("\t")
    best[name] = max(best.get(name, 0), float(speed))
for name, speed in best.items():
    ours = best.get("Quern", 0) / speed
    print(f"{name:55} {speed:9.1f} tokens/s   Quern is {ours:5.2f} times as fast")'
