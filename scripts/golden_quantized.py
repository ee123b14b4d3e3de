#!/usr/bin/env python3
"""What quantized checkpoints hold by their own libraries, and what transformers computes of it: the witness of
go/convert/quantized.

Needs torch, transformers 5, compressed-tensors and bitsandbytes, and nothing that the build or the tests need.

    golden_quantized.py            write go/convert/testdata/quantized.json

The file has the tokens of a prompt, and a case in each line:

    name      of the method and its variant
    config    config.json of a small model
    tensors   a list of [name, dtype, shape, how, arguments...]; see made(). @ stands for model.layers.0.
    hashes    of each quantized matrix: the beginning of SHA-256 of its numbers in F32, which are what the method's library
              computes in F32
    types     the types that "quern convert" gives to such matrices by itself
    sampled   for each position of the prompt but the last, the log-probabilities of the tokens that golden_hf.sampled() names, of the
              model whose matrices have these numbers

No bits of matrices are in the file: any word is some packed integers, so words are functions of names.
"""

import hashlib
import json
import pathlib
import tempfile

import bitsandbytes.functional as bnb
import numpy as np
import torch
from bitsandbytes.backends.default.ops import _dequantize_4bit_compute
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from transformers.integrations.bitnet import unpack_weights

from golden_hf import hashed, noise, sampled

ARCHIVE = pathlib.Path(__file__).parent.parent / "go/convert/testdata/quantized.json"
VOCAB, PROMPT, LAYER = 272, 14, "model.layers.0."
DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I32": torch.int32, "I64": torch.int64,
          "I8": torch.int8, "U8": torch.uint8, "F8_E4M3": torch.float8_e4m3fn}


def word(name, n):
    """n words of 32 bits."""
    x = np.arange(n, dtype=np.uint64) * 0x9E3779B9 + hashed(name) & 0xFFFFFFFF
    x = (x ^ x >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ x >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return (x ^ x >> 16).astype(np.uint32)


def made(name, dtype, shape, how, *args):
    """The tensor that a list describes. how is one of
    noise SCALE OFFSET   floats: OFFSET + SCALE * noise
    words                any bits
    span LOW N           integers from LOW to below LOW + N
    fill WORD            the same in all
    third                bytes of four 2-bit numbers from 0 to 2
    list NUMBER...       these
    text TEXT            the bytes of a text
    group SIZE STEP      of element i the number STEP * i % n / SIZE, n being the number of elements
    """
    n = int(np.prod(shape))
    to = DTYPES[dtype]
    if how == "noise":
        x = torch.from_numpy(args[1] + args[0] * noise(name, n)).to(torch.float32).to(to)
    elif how == "words":
        x = torch.from_numpy(word(name, n).astype(np.int64)).to(torch.int64).to(to)
        x = torch.from_numpy(word(name, n).view(np.int32)) if dtype == "I32" else x
    elif how == "span":
        x = torch.from_numpy((args[0] + (word(name, n) >> 8) % args[1]).astype(np.int64))
        x = x.to(torch.uint8).view(to) if to.itemsize == 1 else x.to(to)
    elif how == "fill":
        x = torch.full((n,), np.array([args[0]], dtype=np.uint32).view(np.int32)[0].item(), dtype=to)
    elif how == "third":
        w = (word(name, n) >> 8).astype(np.int64)
        x = torch.from_numpy(sum(w // 3 ** k % 3 << 2 * k for k in range(4))).to(to)
    elif how == "list":
        x = torch.tensor(args, dtype=to)
    elif how == "text":
        x = torch.tensor(list(args[0].encode()), dtype=to)
    elif how == "group":
        x = torch.tensor([args[1] * i % n // args[0] for i in range(n)], dtype=to)
    return x.reshape(shape)


# Of each method: the parts of a matrix of rows and columns, and its numbers in F32. Integers are unpacked by the words of
# the formats' descriptions: integer i of b bits begins at bit i*b of its line of words.

def unpacked(words, bits):
    """Integers of the last dimension of a tensor of words."""
    w = words.numpy().view(np.uint32)
    b = (w[..., None] >> np.arange(32, dtype=np.uint32) & 1).reshape(*w.shape[:-1], -1)
    n = b.shape[-1] // bits
    b = b[..., :n * bits].reshape(*w.shape[:-1], n, bits).astype(np.int64)
    return torch.from_numpy((b << np.arange(bits)).sum(-1))


def gptq(bits=4, size=32, zeros=("words",), later=False, order=False, scale="F16"):
    def parts(base, rows, cols):
        groups = 1 if size < 0 else -(-cols // size)
        all = [[base + ".qweight", "I32", [cols * bits // 32, rows], "words"],
               [base + ".qzeros", "I32", [groups, rows * bits // 32], *zeros],
               [base + ".scales", scale, [groups, rows], "noise", 0.05 / 2 ** bits, 0.15 / 2 ** bits],
               [base + ".g_idx", "I32", [cols], "group", cols if size < 0 else size, 7 if order else 1]]
        return all if order or size > 0 else all[:3]

    def numbers(t, rows, cols):
        q = unpacked(t[".qweight"].T.contiguous(), bits)
        z = unpacked(t[".qzeros"], bits)
        z = z if later else z + 1 & 2 ** bits - 1
        g = t[".g_idx"].long() if ".g_idx" in t else torch.zeros(cols, dtype=torch.long)
        return (q - z.T[:, g]).float() * t[".scales"].float().T[:, g]

    return {"quant_method": "gptq", "bits": bits, "group_size": size, "desc_act": order, "sym": zeros[0] == "fill",
            "checkpoint_format": "gptq_v2" if later else "gptq"}, parts, numbers


def awq(size=32, version="gemm"):
    order = [0, 4, 1, 5, 2, 6, 3, 7]  # where each of eight neighbours is in a word

    def gemm(base, rows, cols):
        return [[base + ".qweight", "I32", [cols, rows // 8], "words"],
                [base + ".qzeros", "I32", [cols // size, rows // 8], "words"],
                [base + ".scales", "F16", [cols // size, rows], "noise", 0.003, 0.009]]

    def gemv(base, rows, cols):
        wide = -(-(cols // size) // 8)
        wide = -(-wide // (128 // size)) * (128 // size)
        return [[base + ".qweight", "I32", [rows, cols // 8], "words"],
                [base + ".qzeros", "I32", [rows, wide], "words"],
                [base + ".scales", "F16", [rows, 8 * wide], "noise", 0.003, 0.009]]

    def numbers(t, rows, cols):
        g = torch.arange(cols) // size
        q, z, s = unpacked(t[".qweight"], 4), unpacked(t[".qzeros"], 4), t[".scales"].float()
        if version == "gemm":
            q, z = (x.reshape(x.shape[0], -1, 8)[:, :, order].reshape(x.shape).T for x in (q, z))
            s = s.T
        return (q - z[:, g]).float() * s[:, g]

    return ({"quant_method": "awq", "bits": 4, "group_size": size, "version": version, "zero_point": True},
            gemm if version == "gemm" else gemv, numbers)


def compressed(form, bits=4, size=32, symmetric=True, kind="int", index=False, scale="BF16", activations=None):
    strategy = "channel" if size < 0 else "group" if form != "nvfp4-pack-quantized" else "tensor_group"
    weights = {"num_bits": bits, "type": kind, "symmetric": symmetric, "strategy": strategy,
               "group_size": None if size < 0 else size, "dynamic": False}
    group = {"targets": ["Linear"], "weights": weights, "input_activations": activations}
    scheme = QuantizationScheme(**group)

    def parts(base, rows, cols):
        groups = 1 if size < 0 else cols // size
        spread = 0.05 / 2 ** bits, 0.15 / 2 ** bits
        scales = [base + ".weight_scale", scale, [rows, groups], "noise", *spread]
        if form == "nvfp4-pack-quantized":
            return [[base + ".weight_packed", "U8", [rows, cols // 2], "words"],
                    [base + ".weight_scale", "F8_E4M3", [rows, cols // 16], "span", 0x60, 24],
                    [base + ".weight_global_scale", "F32", [1], "noise", 200.0, 2500.0],
                    [base + ".input_global_scale", "F32", [1], "noise", 200.0, 2500.0]]
        if form == "mxfp4-pack-quantized":
            return [[base + ".weight_packed", "U8", [rows, cols // 2], "words"],
                    [base + ".weight_scale", "U8", [rows, cols // 32], "span", 119, 4]]
        if form == "int-quantized":
            all = [[base + ".weight", "I8", [rows, cols], "words"], scales]
            return all if symmetric else all + [[base + ".weight_zero_point", "I8", [rows, groups], "span", 0, 20]]
        if form == "float-quantized":
            return [[base + ".weight", "F8_E4M3", [rows, cols], "span", 0x20, 40], scales]
        all = [[base + ".weight_packed", "I32", [rows, -(-cols * bits // 32)], "words"], scales,
               [base + ".weight_shape", "I64", [2], "list", rows, cols]]
        if not symmetric:
            all.append([base + ".weight_zero_point", "I32", [-(-rows * bits // 32), groups], "words"])
        if index:
            all.append([base + ".weight_g_idx", "I32", [cols], "group", size, 7])
        return all

    def numbers(t, rows, cols):
        state = {name[1:]: x for name, x in t.items()}
        at = state.pop("weight_g_idx", None)
        if "fp4" not in form:
            state["weight_scale"] = state["weight_scale"].float()
        name = {"float-quantized": "naive-quantized"}.get(form, form)
        compressor = BaseCompressor.get_value_from_registry(name)
        if "fp4" in form:  # the compressor computes in BF16
            codes = unpack_fp4_from_uint8(state["weight_packed"], rows, cols, dtype=torch.float32)
            scales = compressor._decompress_scale(state["weight_scale"], torch.float32)
            return dequantize(codes, scales, args=scheme.weights, global_scale=state.get("weight_global_scale"))
        if at is None:
            return compressor.decompress(state, scheme)["weight"].float()
        # The library knows no index any more: column c is in group at[c].
        state["weight_scale"], own = torch.ones_like(state["weight_scale"]), state["weight_scale"]
        return compressor.decompress(state, scheme)["weight"] * own[:, at.long()]

    if form == "mxfp4-pack-quantized":
        weights["scale_dtype"] = "torch.uint8"
    return ({"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
             "config_groups": {"group_0": group}, "quantization_status": "compressed"}, parts, numbers)


def bitsandbytes(kind, nested=False):
    def parts(base, rows, cols):
        name, n = base + ".weight", rows * cols // 64
        if kind == "int8":
            return [[name, "I8", [rows, cols], "words"], [base + ".SCB", "F32", [rows], "noise", 0.05, 0.2],
                    [base + ".weight_format", "U8", [], "list", 0]]
        state = {"quant_type": kind, "blocksize": 64, "dtype": "float32", "shape": [rows, cols]}
        if nested:
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.06789}
        text = json.dumps(state)
        table = bnb.get_4bit_type(kind, "cpu").tolist()
        all = [[name, "U8", [rows * cols // 2, 1], "words"], [name + ".quant_map", "F32", [16], "list", *table],
               [f"{name}.quant_state.bitsandbytes__{kind}", "U8", [len(text)], "text", text]]
        if not nested:
            return all + [[name + ".absmax", "F32", [n], "noise", 0.05, 0.2]]
        return all + [[name + ".absmax", "U8", [n], "words"],
                      [name + ".nested_absmax", "F32", [-(-n // 256)], "noise", 0.01, 0.03],
                      [name + ".nested_quant_map", "F32", [256], "noise", 1.0, 0.0]]

    def numbers(t, rows, cols):
        if kind == "int8":
            return bnb.int8_vectorwise_dequant(t[".weight"], t[".SCB"])
        stats = {k.removeprefix(".weight."): x for k, x in t.items() if k != ".weight"}
        s = bnb.QuantState.from_dict(stats, torch.device("cpu"))
        scales = bnb.dequantize_blockwise(s.absmax, s.state2) + s.offset if nested else s.absmax
        # Not the kernel for CPUs, which takes other scales where rows are no whole blocks (0.50.2).
        return _dequantize_4bit_compute(t[".weight"].flatten(), scales, s.code, s.blocksize, s.shape, torch.float32)

    how = {"load_in_8bit": True} if kind == "int8" else {"load_in_4bit": True, "bnb_4bit_quant_type": kind}
    return {"quant_method": "bitsandbytes", **how}, parts, numbers


def bitnet(linear):
    def parts(base, rows, cols):
        return [[base + ".weight", "U8", [rows // 4, cols], "third"],
                [base + ".weight_scale", "BF16", [1], "noise", *((4.0, 16.0) if linear == "bitlinear" else (0.02, 0.06))]]

    def numbers(t, rows, cols):
        w = unpack_weights.__wrapped__(t[".weight"], torch.float32)  # not compiled
        s = t[".weight_scale"].float()
        return w / s if linear == "bitlinear" else w * s

    return {"quant_method": "bitnet", "linear_class": linear, "quantization_mode": "offline"}, parts, numbers


def mixed(a, b):
    """One method for attention, the other for feed-forwards."""
    config = a[0] | {"format": "mixed-precision", "config_groups": {
        "group_0": a[0]["config_groups"]["group_0"] | {"targets": ["re:.*self_attn.*"], "format": a[0]["format"]},
        "group_1": b[0]["config_groups"]["group_0"] | {"targets": ["re:.*mlp.*"], "format": b[0]["format"]}}}

    def of(base):
        return a if "self_attn" in base else b

    return (config, lambda base, rows, cols: of(base)[1](base, rows, cols),
            lambda t, rows, cols: (a if 4 * t[".weight_packed"].shape[1] == cols else b)[2](t, rows, cols))


SMALL = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=1, num_attention_heads=4,
             num_key_value_heads=2, head_dim=16, max_position_embeddings=64, bos_token_id=0, eos_token_id=1,
             rms_norm_eps=1e-6, tie_word_embeddings=False)
LLAMA = SMALL | dict(model_type="llama", architectures=["LlamaForCausalLM"])
WIDE = LLAMA | dict(hidden_size=256, intermediate_size=256, num_key_value_heads=4, head_dim=64)
PHI3 = SMALL | dict(model_type="phi3", architectures=["Phi3ForCausalLM"], num_key_value_heads=4, pad_token_id=None)
MOE = SMALL | dict(model_type="qwen3_moe", architectures=["Qwen3MoeForCausalLM"], num_experts=4, num_experts_per_tok=2,
                   moe_intermediate_size=32, norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])
INT8 = {"num_bits": 8, "type": "int", "symmetric": True, "strategy": "token", "dynamic": True}

CASES = {
    "gptq": (gptq(), LLAMA, "Q5_0"),
    "gptq symmetric": (gptq(zeros=("fill", 0x77777777)), LLAMA, "Q4_0"),
    "gptq version 2": (gptq(later=True), LLAMA, "Q5_0"),
    "gptq in order of activations": (gptq(order=True), LLAMA, "F16"),
    "gptq of 2 bits": (gptq(2), LLAMA, "Q4_0"),
    "gptq of 3 bits": (gptq(3), LLAMA, "Q4_0"),
    "gptq of 8 bits": (gptq(8), LLAMA, "F16"),
    "gptq of 8 bits, symmetric": (gptq(8, zeros=("fill", 0x7F7F7F7F)), LLAMA, "Q8_0"),
    "gptq, one group": (gptq(size=-1, scale="BF16"), LLAMA, "Q5_0"),
    "gptq of fused matrices": (gptq(zeros=("fill", 0x77777777)), PHI3, "Q4_0"),
    "gptq of experts": (gptq(), MOE, "Q5_0"),
    "awq": (awq(), LLAMA, "Q5_0"),
    "awq by rows": (awq(version="gemv"), LLAMA, "Q5_0"),
    "compressed-tensors": (compressed("pack-quantized"), LLAMA, "Q4_0"),
    "compressed-tensors with zeros": (compressed("pack-quantized", symmetric=False), LLAMA, "Q5_0"),
    "compressed-tensors with an index": (compressed("pack-quantized", index=True), LLAMA, "F16"),
    "compressed-tensors of 3 bits": (compressed("pack-quantized", 3, -1), LLAMA, "Q4_0"),
    "compressed-tensors of 8 bits, packed": (compressed("pack-quantized", 8, -1), LLAMA, "Q8_0"),
    "compressed-tensors of 8 bits": (compressed("int-quantized", 8, -1, activations=INT8), LLAMA, "Q8_0"),
    "compressed-tensors of 8 bits, F32 scales": (compressed("int-quantized", 8, -1, scale="F32", activations=INT8),
                                                 LLAMA, "Q8_0"),
    "compressed-tensors of 8 bits with zeros": (
        compressed("int-quantized", 8, -1, symmetric=False, activations=INT8), LLAMA, "F16"),
    "compressed-tensors of 8-bit floats": (compressed("float-quantized", 8, -1, kind="float", scale="F32"), LLAMA, "F32"),
    "compressed-tensors NVFP4": (compressed("nvfp4-pack-quantized", size=16, kind="float"), WIDE, "NVFP4"),
    "compressed-tensors NVFP4, experts": (
        compressed("nvfp4-pack-quantized", size=16, kind="float"), MOE | dict(moe_intermediate_size=64), "NVFP4"),
    "compressed-tensors MXFP4": (compressed("mxfp4-pack-quantized", kind="float"), LLAMA, "MXFP4"),
    "compressed-tensors mixed": (mixed(compressed("pack-quantized", 8), compressed("pack-quantized")), LLAMA, "Q8_0 Q4_0"),
    "bitsandbytes nf4": (bitsandbytes("nf4"), LLAMA, "F16"),
    "bitsandbytes nf4, nested": (bitsandbytes("nf4", True), LLAMA, "F16"),
    "bitsandbytes fp4": (bitsandbytes("fp4"), LLAMA, "F16"),
    "bitsandbytes int8": (bitsandbytes("int8"), LLAMA, "Q8_0"),
    "bitnet": (bitnet("bitlinear"), WIDE, "TQ2_0"),
    "bitnet auto": (bitnet("autobitlinear"), WIDE, "TQ2_0"),
}


def matrices(c):
    """The names and shapes of the matrices that are quantized, and those of the others."""
    d, ff, kv = c["hidden_size"], c["intermediate_size"], c["num_key_value_heads"] * c["head_dim"]
    layer, coded, plain = LAYER, {}, {"model.embed_tokens.weight": [VOCAB, d], "lm_head.weight": [VOCAB, d],
                                                  "model.norm.weight": [d]}
    for norm in "input_layernorm", "post_attention_layernorm":
        plain[f"{layer}{norm}.weight"] = [d]
    q = c["num_attention_heads"] * c["head_dim"]
    coded[layer + "self_attn.o_proj"] = [d, q]
    if c["model_type"] == "phi3":
        coded[layer + "self_attn.qkv_proj"] = [q + 2 * kv, d]
        coded[layer + "mlp.gate_up_proj"] = [2 * ff, d]
    else:
        for name, n in ("q", q), ("k", kv), ("v", kv):
            coded[f"{layer}self_attn.{name}_proj"] = [n, d]
    if c["model_type"] == "qwen3_moe":
        for name in "q_norm", "k_norm":
            plain[f"{layer}self_attn.{name}.weight"] = [c["head_dim"]]
        plain[layer + "mlp.gate.weight"] = [c["num_experts"], d]
        for x in range(c["num_experts"]):
            of, n = f"{layer}mlp.experts.{x}.", c["moe_intermediate_size"]
            coded |= {of + "gate_proj": [n, d], of + "up_proj": [n, d], of + "down_proj": [d, n]}
        return coded, plain
    coded[layer + "mlp.down_proj"] = [d, ff]
    if c["model_type"] == "llama":
        coded |= {layer + "mlp.gate_proj": [ff, d], layer + "mlp.up_proj": [ff, d]}
    return coded, plain


def case(name, method, config, types):
    settings, parts, numbers = method
    coded, plain = matrices(config)
    tensors, state, hashes = [], {}, {}
    for n, shape in plain.items():
        vector = len(shape) == 1
        tensors.append([n, "F32", shape, "noise", 0.4 if vector else 0.5, 0.8 if vector else 0.0])
        state[n] = made(*tensors[-1])
    for base, (rows, cols) in coded.items():
        some = parts(base, rows, cols)
        tensors += some
        w = numbers({t[0].removeprefix(base): made(*t) for t in some}, rows, cols).float().contiguous()
        assert w.shape == (rows, cols) and w.isfinite().all(), name
        state[base + ".weight"] = w
        hashes[base + ".weight"] = hashlib.sha256(w.numpy().tobytes()).hexdigest()[:12]
    with tempfile.TemporaryDirectory() as folder:
        save_file(state, folder + "/model.safetensors", {"format": "pt"})
        (pathlib.Path(folder) / "config.json").write_text(json.dumps(config | {"dtype": "float32"}))
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.eval()
    with torch.no_grad():
        logits = model(torch.tensor([TEXT])).logits[0].double()
    rows = torch.log_softmax(logits, -1)
    for t in tensors:
        t[0] = t[0].replace(LAYER, "@")
    hashes = {n.replace(LAYER, "@"): h for n, h in hashes.items()}
    return {"name": name, "config": config | {"quantization_config": settings}, "tensors": tensors, "hashes": hashes,
            "types": types,
            "sampled": [[round(rows[i, k].item(), 4) for k in sampled(TEXT, i)] for i in range(PROMPT - 1)]}


TEXT = [int(2 + w % (VOCAB - 2)) for w in word("prompt", PROMPT)]


def main():
    lines = [json.dumps(case(name, *what), separators=(",", ":")) for name, what in CASES.items()]
    ARCHIVE.write_text(f'{{"prompt":{TEXT},"cases":[\n' + ",\n".join(lines) + "\n]}\n")
    print(f"{ARCHIVE}: {len(lines)} cases, {ARCHIVE.stat().st_size} bytes")


main()
