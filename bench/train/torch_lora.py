#!/usr/bin/env python3
"""Times steps that train a LoRA adapter with PyTorch and PEFT: the same matrices, rank and tokens as `quern bench --train`.

Usage: PYTHON bench/train/torch_lora.py -m MODEL.gguf [--train TOKENS] [--rank R] [-t THREADS] [-r REPEATS] [--type float32|bfloat16]

PYTHON is that of an environment with torch, transformers, peft and gguf. transformers reads the GGUF file and keeps its weights
as they are dequantized, in the type. A step is the pass there and back of one text of random tokens, and AdamW. A line of JSON.
"""
import argparse
import json
import os
import pathlib
import time


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1])
    parser.add_argument("-m", required=True)
    parser.add_argument("--train", type=int, default=512)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("-t", type=int, default=os.cpu_count())
    parser.add_argument("-r", type=int, default=3)
    parser.add_argument("--type", default="float32", choices=["float32", "bfloat16"])
    o = parser.parse_args()
    os.environ["HF_HUB_OFFLINE"] = "1"
    import peft
    import torch
    import transformers

    torch.set_num_threads(o.t)
    torch.manual_seed(1)
    path = pathlib.Path(o.m)
    model = transformers.AutoModelForCausalLM.from_pretrained(str(path.parent), gguf_file=path.name, dtype=getattr(torch, o.type))
    targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
    model = peft.get_peft_model(model, peft.LoraConfig(r=o.rank, lora_alpha=2 * o.rank, target_modules=targets, task_type="CAUSAL_LM"))
    model.train()
    numbers = [p for p in model.parameters() if p.requires_grad]
    step = torch.optim.AdamW(numbers, lr=1e-5)
    ids = torch.randint(0, model.config.vocab_size, (1, o.train))
    samples = []
    for _ in range(o.r + 1):  # the first is not counted
        start = time.perf_counter()
        model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
        step.step()
        step.zero_grad()
        samples.append(time.perf_counter() - start)
    best = min(samples[1:])
    print(json.dumps({
        "engine": f"PyTorch {torch.__version__}, PEFT {peft.__version__}, {o.type}", "model": path.name, "n_train": o.train,
        "rank": o.rank, "n_threads": o.t, "adapter": sum(p.numel() for p in numbers), "best_ts": o.train / best,
        "samples_s": samples[1:],
    }))


main()
