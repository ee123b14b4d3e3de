#!/usr/bin/env bash
# Quern beside the engines of the Python world, and beside llama.cpp, in one table: bench/rivals/run.sh [FLAGS]
#
#	RIVALS       folder of Python environments, RIVALS/NAME/bin/python (default ~/.cache/quern-rivals); an engine is
#	             measured with the first that has its package
#	MODELS       GGUF files; checkpoints and converted models lie beside them (bench/rivals/rival.py says where)
#	LLAMA_BENCH  a llama-bench, which is one more
#
# FLAGS are those of bench/compare. Nothing is installed; what is not there is named and left out.
set -euo pipefail
cd "$(dirname "$0")/../.."

rivals=${RIVALS:-${XDG_CACHE_HOME:-$HOME/.cache}/quern-rivals}
: "${MODELS:?name GGUF files, such as MODELS=a.gguf}"
peers=()
[[ -z ${LLAMA_BENCH:-} ]] || peers+=(-peer "llama.cpp=$LLAMA_BENCH")

# has PYTHON PACKAGE: without importing it, which takes seconds.
has() { "$1" -c 'import importlib.util as u, sys; sys.exit(not u.find_spec(sys.argv[1]))' "$2" 2>/dev/null; }

# add NAME PACKAGE FOLDER: FOLDER ends the names of what it reads beside each model; "" where that is the model.
add() {
	local python model
	for model in ${MODELS//,/ }; do
		if [[ -n $3 && ! -d ${model%.*}.$3 ]]; then
			echo "rivals: without $1: there is no ${model%.*}.$3" >&2
			return
		fi
	done
	for python in "$rivals"/*/bin/python; do
		if [[ -x $python ]] && has "$python" "$2"; then
			peers+=(-peer "$1=$python bench/rivals/rival.py $1")
			return
		fi
	done
	echo "rivals: without $1: no environment in $rivals has $2" >&2
}
add openvino openvino_genai ""
add vllm vllm hf
add ct2 ctranslate2 ct2
add onnx onnxruntime_genai onnx

export LLAMA_BENCH="" MODELS
exec scripts/go.sh run ./bench/compare -topic rivals -tests pp4,pp64,pp512,tg32 -curve "" -kernels=false \
	"${peers[@]}" "$@"
