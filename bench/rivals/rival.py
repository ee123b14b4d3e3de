#!/usr/bin/env python3
"""Times an engine of the Python world with llama-bench's flags and JSON, so that bench/compare takes it for a peer.

Usage: PYTHON bench/rivals/rival.py KIND -m MODEL.gguf -p 512,64 -n 32 -r 3 [-t THREADS] [-d DEPTH] -o json

PYTHON is that of an environment where the engine is installed.

	openvino   OpenVINO GenAI, which converts the GGUF file itself
	vllm       vLLM for CPUs, in BF16; reads the checkpoint in the folder MODEL.hf beside the file
	ct2        CTranslate2, 8-bit integers; reads MODEL.ct2 (ct2-transformers-converter --quantization int8)
	onnx       ONNX Runtime GenAI; reads MODEL.onnx (onnxruntime_genai.models.builder -p int4 -e cpu)

Prompts are random and new in each repetition, because some engines keep prefixes. A prompt's time is that of its first
token. A token's is the difference between many and one, after a prompt of four tokens, or of the depth.
"""
import argparse
import json
import os
import pathlib
import random
import sys
import time

FEW = 4  # tokens of a prompt after which generation is timed


def numbers(text):
    return [n for n in map(int, text.split(",")) if n > 0]


def folder(model, kind):
    path = pathlib.Path(model).with_suffix("." + kind)
    if not path.is_dir():
        sys.exit(f"rival: no folder {path}, which this engine reads in place of {model}")
    return str(path)


def openvino(model, threads, most):
    import numpy as np
    import openvino as ov
    import openvino_genai as genai

    pipe = genai.LLMPipeline(model, "CPU", INFERENCE_NUM_THREADS=threads)

    def run(prompt, tokens):
        config = genai.GenerationConfig(max_new_tokens=tokens, min_new_tokens=tokens, ignore_eos=True, do_sample=False,
                                        apply_chat_template=False)
        ids = np.array([prompt], dtype="int64")
        pipe.generate(genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids))), config)

    return run


def vllm(model, threads, most):
    os.environ.update(VLLM_CPU_KVCACHE_SPACE="2", VLLM_CPU_OMP_THREADS_BIND=f"0-{threads - 1}", HF_HUB_OFFLINE="1",
                      VLLM_LOGGING_LEVEL="ERROR", VLLM_NO_USAGE_STATS="1", VLLM_ENABLE_V1_MULTIPROCESSING="0")
    from vllm import LLM, SamplingParams

    llm = LLM(folder(model, "hf"), dtype="bfloat16", max_model_len=most, enable_prefix_caching=False, enforce_eager=True)

    def run(prompt, tokens):
        llm.generate([{"prompt_token_ids": prompt}], SamplingParams(temperature=0, max_tokens=tokens, ignore_eos=True),
                     use_tqdm=False)

    return run


def ct2(model, threads, most):
    import ctranslate2

    path = folder(model, "ct2")
    generator = ctranslate2.Generator(path, device="cpu", inter_threads=1, intra_threads=threads, compute_type="int8")
    words = json.loads(pathlib.Path(path, "vocabulary.json").read_text())

    def run(prompt, tokens):
        generator.generate_batch([[words[i % len(words)] for i in prompt]], max_length=tokens, min_length=tokens,
                                 include_prompt_in_result=False, beam_size=1, sampling_topk=1)

    return run


def onnx(model, threads, most):
    import onnxruntime_genai as genai

    loaded = genai.Model(genai.Config(folder(model, "onnx")))

    def run(prompt, tokens):
        params = genai.GeneratorParams(loaded)
        length = len(prompt) + tokens
        params.set_search_options(do_sample=False, min_length=length, max_length=length)
        generator = genai.Generator(loaded, params)
        generator.append_tokens(prompt)
        for _ in range(tokens):
            generator.generate_next_token()

    return run


def main():
    kinds = {"openvino": openvino, "vllm": vllm, "ct2": ct2, "onnx": onnx}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("-m", required=True)
    parser.add_argument("-p", type=numbers, default=[])
    parser.add_argument("-n", type=numbers, default=[])
    parser.add_argument("-r", type=int, default=3)
    parser.add_argument("-d", type=int, default=0)
    parser.add_argument("-t", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("-o", choices=["json"], default="json")
    a = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = str(a.t)
    out = os.dup(1)
    os.dup2(2, 1)  # what an engine prints is not the result
    run = kinds[a.kind](a.m, a.t, a.d + max(a.p + [FEW + n for n in a.n]) + 16)

    def seconds(prompt, tokens):
        ids = [random.randrange(100, 30000) for _ in range(prompt)]
        begin = time.perf_counter()
        run(ids, tokens)
        return time.perf_counter() - begin

    seconds(FEW, 2)
    records = []
    for prompt, gen in [(n, 0) for n in a.p] + [(0, n) for n in a.n]:
        samples = []
        for _ in range(a.r):
            if gen:
                took = seconds(a.d or FEW, gen + 1) - seconds(a.d or FEW, 1)
            else:
                took = seconds(a.d + prompt, 1) - (seconds(a.d, 1) if a.d else 0)
            samples.append((prompt + gen) / took if took > 0 else 0)
        records.append({"build_commit": "", "n_threads": a.t, "n_prompt": prompt, "n_gen": gen, "n_depth": a.d,
                        "avg_ts": sum(samples) / len(samples), "samples_ts": samples})
    os.write(out, json.dumps(records).encode())


if __name__ == "__main__":
    main()
