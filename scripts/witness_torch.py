"""Training by PyTorch, Transformers and PEFT, beside the engine's: a witness by hand, started by TestTorch of go/train.

    PYTHON witness_torch.py CASE.json

Needs torch, transformers, peft, gguf and accelerate in the environment of PYTHON. A case is

    model               a GGUF file of F32 weights, of a Llama, Qwen 2 or Qwen 3
    rank alpha          of the adapter; rank 0: all weights are trained
    dora                whether it has magnitudes
    start               GGUF: the numbers at the beginning
    gradient one        GGUF: what the engine says is the gradient of the mean loss there, and the numbers after a step
    texts               [{"tokens", "weights"}], of which each step takes all, each by itself
    rate decay          of AdamW, constant
    losses              the engine's, before each step

Printed is one JSON object: losses, those of PyTorch; gradient, for the tensor that agrees least, 1 - the cosine of both
gradients; norm, by how much norms of the whole differ; adamw, the difference of the numbers after a step, the engine's
from those of PyTorch's optimiser by the engine's gradient, as a share of how far they went; step, the same with PyTorch's
own gradient.
"""

import json
import math
import os
import sys

sys.dont_write_bytecode = True  # leave no cache beside the sources

import torch  # noqa: E402
from gguf import GGUFReader  # noqa: E402
from peft import LoraConfig, get_peft_model  # noqa: E402
from transformers import AutoModelForCausalLM  # noqa: E402

MATRICES = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}
WHOLE = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def tensors(path):
    return {t.name: torch.tensor(t.data.reshape(tuple(reversed(t.shape.tolist())))) for t in GGUFReader(path).tensors}


def name_in_torch(name):
    """The parameter that a tensor of GGUF is, such as blk.0.attn_q.weight or blk.0.attn_q.weight.lora_a."""
    parts = name.split(".")
    if parts[0] != "blk":
        return f"{WHOLE[parts[0]]}.{parts[1]}"
    at = f"model.layers.{parts[1]}.{MATRICES[parts[2]]}."
    if parts[-1] == "lora_m":
        return f"base_model.model.{at}lora_magnitude_vector.default.weight"
    if parts[-1] in ("lora_a", "lora_b"):
        return f"base_model.model.{at}lora_{parts[-1][-1].upper()}.default.weight"
    return at + parts[3]


def in_halves(name, x, config):
    """Rows as Transformers has them: Llama's rotations are of halves of a head there, and of neighbours in GGUF."""
    word = name.split(".")[2] if name.startswith("blk") else ""
    if config.model_type != "llama" or word not in ("attn_q", "attn_k") or name.endswith("lora_a"):
        return x
    heads = config.num_attention_heads if word == "attn_q" else config.num_key_value_heads
    return x.reshape(heads, -1, 2, *x.shape[1:]).transpose(1, 2).reshape(x.shape)


def mean_loss(model, texts):
    total = sum(sum(x["weights"][1:]) for x in texts)
    loss = 0.0
    for x in texts:
        ids = torch.tensor(x["tokens"])
        logits = model(ids[None]).logits[0, :-1]
        each = torch.nn.functional.cross_entropy(logits.float(), ids[1:], reduction="none")
        loss = loss + (each * torch.tensor(x["weights"][1:])).sum()
    return loss / total


def distance(a, b):
    return math.sqrt(sum(float(((a[n] - b[n]).double() ** 2).sum()) for n in a))


def main():
    torch.set_num_threads(1)  # models are small, and machines busy
    with open(sys.argv[1]) as f:
        case = json.load(f)
    folder, file = os.path.split(case["model"])
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32, attn_implementation="eager")
    if case["rank"]:
        words = sorted({n.split(".")[2] for n in tensors(case["start"])})
        config = LoraConfig(
            r=case["rank"],
            lora_alpha=case["alpha"],
            lora_dropout=0.0,
            use_dora=case["dora"],
            target_modules=[MATRICES[w].split(".")[-1] for w in words],
        )
        model = get_peft_model(model, config)
    model.train()
    by_name = dict(model.named_parameters())

    def read(path):
        return {n: in_halves(n, x, model.config) for n, x in tensors(path).items() if n != "rope_freqs.weight"}

    start, gradient, one = (read(case[k]) for k in ("start", "gradient", "one"))
    ours = {n: by_name[name_in_torch(n)] for n in start}
    trained = [n for n, p in by_name.items() if p.requires_grad]
    if len(trained) != len(ours):
        raise ValueError(f"PyTorch trains {len(trained)} tensors, the engine {len(ours)}")

    def begin():
        with torch.no_grad():
            for n, p in ours.items():
                p.copy_(start[n])
        magnitudes = [p for n, p in ours.items() if n.endswith("lora_m")]  # which do not decay here
        others = [p for n, p in ours.items() if not n.endswith("lora_m")]
        groups = [{"params": others}, {"params": magnitudes, "weight_decay": 0.0}]
        return torch.optim.AdamW([g for g in groups if g["params"]], lr=case["rate"], weight_decay=case["decay"])

    optimiser = begin()
    for n, p in ours.items():
        p.grad = gradient[n].clone()
    optimiser.step()
    there = {n: p.detach() for n, p in ours.items()}
    adamw = distance(there, one) / distance(there, start)

    optimiser, losses, result = begin(), [], {"adamw": adamw}
    for _ in case["losses"]:
        optimiser.zero_grad()
        loss = mean_loss(model, case["texts"])
        loss.backward()
        losses.append(float(loss.detach()))
        if len(losses) == 1:
            cosines = {}
            for n, p in ours.items():
                a, b = p.grad.double().ravel(), gradient[n].double().ravel()
                cosines[n] = 1 - float(a @ b / (a.norm() * b.norm()))
            norms = [distance(g, {n: 0 * x for n, x in g.items()}) for g in ({n: p.grad for n, p in ours.items()}, gradient)]
            result |= {"gradient": max(cosines.values()), "tensor": max(cosines, key=cosines.get)}
            result["norm"] = abs(norms[0] / norms[1] - 1)
        optimiser.step()
        if len(losses) == 1:
            result["step"] = distance(there, one) / distance(there, start)
    print(json.dumps(result | {"losses": losses}))


if __name__ == "__main__":
    main()
