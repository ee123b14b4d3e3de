#!/usr/bin/env python3
"""What Hugging Face's transformers computes of small checkpoints: the witness of go/convert.

Needs torch and transformers 5, and nothing that the build or the tests need.

    golden_hf.py                   write go/convert/testdata/transformers/
    golden_hf.py NAME...           only these families, or cases as FAMILY/CASE
    golden_hf.py --folder DIR FAMILY/CASE
                                   save that checkpoint with a tokenizer in DIR, to try it by hand

A family is a file NAME.json with the version of transformers and a case in each line:

    name      of the variant
    config    config.json, as transformers saves it
    tensors   lines "LAYERS: NAME SHAPE... SCALE OFFSET": # in a name stands for the numbers of LAYERS, such as 0-3,5.
              Element i of a tensor is OFFSET + SCALE * noise(NAME, i), computed in doubles and stored as F32; where
              SCALE is "below", it is that noise as an integer of 0 or more and below OFFSET, stored as I64; where it is
              "is", OFFSET has the integers, with commas between them
    prompt    token ids
    greedy    the ids that follow, each the likeliest
    sampled   for each position of both but the last, the log-probabilities of the tokens that sampled() names

A case of an encoder has one of these in place of the last two:

    vectors   for each position, the numbers of its vector that sampled() names
    scores    the logits of a classifier of texts
    labels    for each position, the logits of a classifier of tokens
    terms     the sparse vector of the text, a number for each token of the vocabulary

and may have

    splade    the settings of a module SpladePooling, beside terms

    second    where the second text of a pair begins in the prompt; its tokens have the second type

noise() and sampled() are pure functions of names and numbers, so that the archive needs no weights and no matrices of
logits: every log-probability depends on all logits of its position.
"""

import argparse
import copy
import itertools
import json
import pathlib
import re
import struct
import sys
import tempfile

import numpy as np
import torch
import transformers
import transformers.models.hy_v4.modeling_hy_v4
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, AutoModelForSeq2SeqLM

ARCHIVE = pathlib.Path(__file__).parent.parent / "go/convert/testdata/transformers"
VOCAB, PROMPT, GREEDY, SAMPLES = 272, 72, 16, 3
CONSTANTS = ("_decay", "slope_rate")  # ends of names of tensors that follow from a configuration: they are left out
INTEGERS, CHOICES = ("tid2eid",), 8  # ends of names of tensors of integers, which are experts: as many as that
GIVEN = ("layer_multipliers", "ngram_heads_offsets", "ngram_heads_vocab_sizes")  # ends of names of integers that stay
SECOND = 29  # where the second text of variants "pair" begins
FORCED = 7  # the token that answers of the variant "forced" begin with, as those in a language do


def hashed(name):
    """FNV-1a of a name."""
    h = 2166136261
    for c in name.encode():
        h = (h ^ c) * 16777619 & 0xFFFFFFFF
    return h


def noise(name, n):
    """n numbers from -1 to below 1."""
    x = np.arange(n, dtype=np.uint64) * 0x9E3779B9 + hashed(name) & 0xFFFFFFFF
    x = (x ^ x >> 16) * 0x85EBCA6B & 0xFFFFFFFF
    x = (x ^ x >> 13) * 0xC2B2AE35 & 0xFFFFFFFF
    return ((x ^ x >> 16) >> 8).astype(np.float64) / (1 << 23) - 1


def sampled(ids, position):
    """The tokens whose log-probabilities are compared: the next one, and others."""
    return [ids[position + 1]] + [(7 * position + 89 * k) % VOCAB for k in range(1, SAMPLES)]


def spread(name, shape):
    """The scale and the offset of a tensor's numbers: of such a size that each tensor matters."""
    stem = name.removesuffix(".weight")
    if stem.endswith("A_log"):
        return 1.5, 0.5
    if stem.endswith("dt_bias") or stem.endswith("dt_proj.bias"):
        return 2.0, -2.0
    if stem.endswith((".D", "layer_scalar")):
        return 0.5, 1.0
    if stem.endswith("running_var"):
        return 0.3, 1.0
    if len(shape) == 1 and name.endswith(".weight"):  # of norms, in some models as the difference from 1
        return 0.4, 0.8
    if len(shape) <= 1:
        return 0.3, 0.0
    if re.search("embed|wte|wpe|shared(?!_transformer)", stem) and len(shape) == 2:
        return 0.5, 0.0
    fan = shape[-1] if shape[-1] > 4 else shape[-1] * shape[-2]
    return float(f"{2.1 / fan ** .5:.3g}"), 0.0


# Tables: a family is a model type, the settings of a small model, and its variants as changes of these.

SMALL = dict(
    vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
    num_key_value_heads=2, max_position_embeddings=512, bos_token_id=0, eos_token_id=1, pad_token_id=None)


def rope(kind="default", theta=10000.0, **more):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": theta, **more}}


ROPES = {
    "theta": rope(theta=500.0),
    "linear": rope("linear", factor=4.0),
    "dynamic": rope("dynamic", factor=4.0) | {"max_position_embeddings": 32},
    "llama3": rope("llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                   original_max_position_embeddings=32),
    "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=32),
    "yarn-whole": rope("yarn", factor=4.0, original_max_position_embeddings=32, truncate=False),
    "yarn-betas": rope("yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=8.0, beta_slow=2.0),
    "yarn-attention": rope("yarn", factor=4.0, original_max_position_embeddings=32, attention_factor=1.3),
    "yarn-mscale": rope("yarn", factor=4.0, original_max_position_embeddings=32, mscale=1.2, mscale_all_dim=0.7),
    "longrope": rope("longrope", factor=4.0, original_max_position_embeddings=32,
                     short_factor=[1 + i / 8 for i in range(8)], long_factor=[1 + i for i in range(8)]),
}
TIE, UNTIE = {"tied": {"tie_word_embeddings": True}}, {"untied": {"tie_word_embeddings": False}}
TIED = TIE | UNTIE
NGRAMS = {"ple_layer_ids": [2], "ple_embed_dim": 64, "ngram_size": 3, "heads_per_ngram": 2, "ngram_vocab_size_base": 50,
          "make_ngram_vocab_size_divisible_by": 8, "split_ngram_parts": 4}
LAYERS4 = ["sliding_attention", "full_attention", "full_attention", "sliding_attention"]
SEQ2SEQ = dict(
    encoder_layers=2, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=96,
    decoder_ffn_dim=96, max_position_embeddings=128, num_hidden_layers=2, num_key_value_heads=None, pad_token_id=0,
    decoder_start_token_id=2)
SEQ2SEQ_VARIANTS = {
    "untied": {"tie_word_embeddings": False}, "scale": {"scale_embedding": True},
    "relu": {"activation_function": "relu"}, "silu": {"activation_function": "swish"}, "deep": {"encoder_layers": 4, "num_hidden_layers": 4},
    "wide": {"decoder_ffn_dim": 128}}
EXPERTS = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32)
MAMBA = dict(mamba_n_heads=8, mamba_d_head=16, mamba_n_groups=2, mamba_d_state=16, mamba_chunk_size=8)
DEEPSEEK = dict(
    kv_lora_rank=32, q_lora_rank=24, qk_nope_head_dim=16, qk_rope_head_dim=16, v_head_dim=16, n_routed_experts=8,
    num_experts_per_tok=3, moe_intermediate_size=32, n_shared_experts=1, first_k_dense_replace=1, n_group=1,
    topk_group=1, num_key_value_heads=4)
LINEAR = dict(
    num_hidden_layers=4, head_dim=16, linear_key_head_dim=16, linear_value_head_dim=16, linear_num_key_heads=2,
    linear_num_value_heads=4)
ROUTED = dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, n_shared_experts=1)
LATENT = dict(num_key_value_heads=4, q_lora_rank=32, kv_lora_rank=32, qk_rope_head_dim=16, qk_nope_head_dim=16,
              v_head_dim=32)
NEMOTRON = dict(n_routed_experts=8, num_experts_per_tok=3, moe_intermediate_size=32,
                moe_shared_expert_intermediate_size=48, n_group=1, topk_group=1)
INDEX = dict(index_topk=24, index_head_dim=32, index_n_heads=16)  # with fewer, many scores are 0 alike
GROUPS = {"groups": {"n_group": 4, "topk_group": 2}, "norm": {"norm_topk_prob": False},
          "scale": {"routed_scaling_factor": 1.3}}
VISION = dict(hidden_size=32, embed_dim=32, intermediate_size=32, depth=1, num_layers=1, num_hidden_layers=1, num_heads=2,
              num_attention_heads=2, image_size=28, patch_size=14, out_hidden_size=64, fullatt_block_indexes=[0],
              deepstack_visual_indexes=[0])


SECTIONS = rope(mrope_section=[2, 3, 3])
HUNYUAN = rope(mrope_section=[2, 2, 2, 2])


def with_vision(text, **more):
    return {"text_config": {**SMALL, **text}, "vision_config": VISION, **more}


ABSENT = "num_hidden_layers hidden_size intermediate_size num_attention_heads num_key_value_heads type_vocab_size".split()
ENCODER = {"head": "", "type_vocab_size": 2, "num_key_value_heads": None}
DEBERTA = {
    "relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False, "type_vocab_size": 0,
    "max_relative_positions": -1, "layer_norm_eps": 1e-7}
LABELS = {"id2label": {0: "no", 1: "perhaps", 2: "yes"}, "label2id": {"no": 0, "perhaps": 1, "yes": 2}}
CLASSIFIERS = {
    "texts": {"head": "texts", **LABELS}, "one": {"head": "texts", "num_labels": 1},
    "several": {"head": "texts", **LABELS, "problem_type": "multi_label_classification"},
    "tokens": {"head": "tokens", **LABELS},
}
TERMS = {"terms": {"head": "terms"}}
SPLADE = {"terms-sum": {"pooling_strategy": "sum"}, "terms-twice": {"activation_function": "log1p_relu"}}
PAIRS = {"pair": {}, "pair-texts": CLASSIFIERS["texts"], "pair-tokens": CLASSIFIERS["tokens"],
         "pair-types": {"type_vocab_size": 3}}

FAMILIES = {
    "llama": ("llama", {}, {
        **TIED, **ROPES, "bias": {"attention_bias": True, "mlp_bias": True}, "head": {"head_dim": 32},
        "multi-query": {"num_key_value_heads": 1}, "eps": {"rms_norm_eps": 0.5}}),
    "mistral": ("mistral", {"sliding_window": None}, {
        **TIED, "window": {"sliding_window": 16}, "head": {"head_dim": 32}, "yarn": ROPES["yarn"]}),
    "mixtral": ("mixtral", {"num_local_experts": 8}, {
        **TIED, "window": {"sliding_window": 16}, "one": {"num_experts_per_tok": 1}}),
    "qwen2": ("qwen2", {}, {
        **TIED, "window": {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
        "window-unused": {"use_sliding_window": False, "sliding_window": 16, "max_window_layers": 1},
        "layer-types": {"use_sliding_window": True, "sliding_window": 16, "num_hidden_layers": 4,
                        "layer_types": LAYERS4},
        "yarn": ROPES["yarn"], "dynamic": ROPES["dynamic"]}),
    "qwen2moe": ("qwen2_moe", {**EXPERTS, "shared_expert_intermediate_size": 48}, {
        **TIED, "norm": {"norm_topk_prob": True}, "no-bias": {"qkv_bias": False},
        "dense": {"mlp_only_layers": [1]}, "step": {"decoder_sparse_step": 2},
        "window": {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}}),
    "qwen3": ("qwen3", {"head_dim": 16}, {
        **TIED, "window": {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
        "bias": {"attention_bias": True}, "head": {"head_dim": 32}, "yarn": ROPES["yarn"]}),
    "qwen3moe": ("qwen3_moe", {**EXPERTS, "head_dim": 16}, {
        **TIED, "norm": {"norm_topk_prob": True}, "bias": {"attention_bias": True},
        "dense": {"mlp_only_layers": [1]}, "step": {"decoder_sparse_step": 2},
        "window": {"use_sliding_window": True, "sliding_window": 16}, "head": {"head_dim": 32}}),
    "starcoder": ("gpt_bigcode", {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_inner": 96, "n_positions": 256}, {
        "untied": {"tie_word_embeddings": False}}),
    "falcon": ("falcon", {"num_kv_heads": 1, "new_decoder_architecture": False, "multi_query": True}, {
        "many": {"new_decoder_architecture": True, "num_kv_heads": 2},
        "one-norm": {"new_decoder_architecture": True, "num_kv_heads": 2, "num_ln_in_parallel_attn": 1},
        "bias": {"bias": True}, "untied": {"tie_word_embeddings": False},
        "all-heads": {"multi_query": False, "num_kv_heads": None}, "serial": {"parallel_attn": False},
        "rw": {"alibi": True, "multi_query": False, "num_kv_heads": None, "parallel_attn": False, "bias": True},
        "rw-parallel": {"alibi": True, "multi_query": False, "num_kv_heads": None},
        "rw-one-key": {"alibi": True}}),
    "mpt": ("mpt", {"d_model": 64, "n_heads": 4, "n_layers": 3, "expansion_ratio": 4, "max_seq_len": 256,
        "num_key_value_heads": None}, {
        "clip": {"attn_config": {"clip_qkv": 0.5}}}),
    "exaonemoe": ("exaone_moe", {"num_hidden_layers": 5, "head_dim": 16, "sliding_window": 16, "num_experts": 8,
        "num_experts_per_tok": 3, "moe_intermediate_size": 32, "num_shared_experts": 1, "first_k_dense_replace": 1}, {
        "scale": {"routed_scaling_factor": 1.5}}),
    "starcoder2": ("starcoder2", {}, {
        **TIED, "window": {"sliding_window": 16}, "no-bias": {"use_bias": False},
        "gelu": {"hidden_act": "gelu"}, "eps": {"norm_epsilon": 0.5}}),
    "gemma": ("gemma", {"head_dim": 16, "pad_token_id": 0}, {"head": {"head_dim": 32}}),
    "gemma2": ("gemma2", {"head_dim": 16, "sliding_window": 16, "query_pre_attn_scalar": 16, "pad_token_id": 0}, {
        "scalar": {"query_pre_attn_scalar": 24}, "caps": {"attn_logit_softcapping": 2.0,
                                                          "final_logit_softcapping": 3.0},
        "no-caps": {"attn_logit_softcapping": None, "final_logit_softcapping": None},
        "layer-types": {"num_hidden_layers": 4, "layer_types": LAYERS4}}),
    "gemma3": ("gemma3_text", {"head_dim": 16, "sliding_window": 16, "query_pre_attn_scalar": 16,
                               "num_hidden_layers": 7, "pad_token_id": 0}, {
        "scalar": {"query_pre_attn_scalar": 24},
        "layer-types": {"num_hidden_layers": 4, "layer_types": LAYERS4},
        "pattern": {"sliding_window_pattern": 3}, "cap": {"final_logit_softcapping": 3.0},
        "linear": {"rope_parameters": {
            "full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}},
        "thetas": {"rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 5000.0},
                                       "sliding_attention": {"rope_type": "default", "rope_theta": 300.0}}}}),
    "gemma3whole": ("gemma3", {"tie_word_embeddings": False, "text_config": {
        **SMALL, "head_dim": 16, "sliding_window": 16, "query_pre_attn_scalar": 16, "pad_token_id": 0,
        "tie_word_embeddings": True},
        "vision_config": {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": 1,
                          "num_attention_heads": 2, "image_size": 28, "patch_size": 14},
        "mm_tokens_per_image": 4, "image_token_index": 200, "boi_token_index": 201, "eoi_token_index": 202}, {}),
    "gptoss": ("gpt_oss", {"head_dim": 16, "num_local_experts": 8, "num_experts_per_tok": 3, "sliding_window": 16,
                           **rope("yarn", theta=150000.0, factor=4.0, original_max_position_embeddings=32,
                                  beta_fast=32.0, beta_slow=1.0, truncate=False)}, {
        **TIED, "truncate": rope("yarn", theta=150000.0, factor=4.0, original_max_position_embeddings=32,
                                 beta_fast=32.0, beta_slow=1.0, truncate=True),
        "no-rope-scaling": rope(theta=150000.0), "layer-types": {"num_hidden_layers": 4, "layer_types": LAYERS4},
        "no-bias": {"attention_bias": False}, "limit": {"swiglu_limit": 1.0}}),
    "phi3": ("phi3", {"original_max_position_embeddings": 512}, {
        **TIED, "window": {"sliding_window": 16}, "partial": rope(partial_rotary_factor=0.5),
        "longrope": {"original_max_position_embeddings": 32,
                     **rope("longrope", short_factor=[1 + i / 8 for i in range(8)],
                            long_factor=[1 + i for i in range(8)])},
        "gelu": {"hidden_act": "gelu"}}),
    "nemotronh": ("nemotron_h", {
        "num_hidden_layers": None, "layer_types": ["linear_attention", "full_attention", "linear_attention", "mlp"],
        "head_dim": 16, "ssm_state_size": 16, "mamba_num_heads": 8, "mamba_head_dim": 16, "n_groups": 2,
        "chunk_size": 8}, {
        **TIED, "limits": {"time_step_limit": [0.1, 0.3]}, "min": {"time_step_min": 0.1},
        "no-conv-bias": {"use_conv_bias": False}, "proj-bias": {"mamba_proj_bias": True}, "bias": {"mlp_bias": True},
        "experts": {**NEMOTRON, "layer_types": ["linear_attention", "full_attention", "moe", "moe"]},
        "both": {**NEMOTRON, "layer_types": ["mlp", "linear_attention", "moe", "full_attention"]},
        "latent": {**NEMOTRON, "moe_latent_size": 32, "layer_types": ["moe", "linear_attention", "moe", "mlp"]}}),
    "mamba": ("mamba", {"state_size": 16, "intermediate_size": 128, "time_step_rank": 16}, {
        **TIED, "no-conv-bias": {"use_conv_bias": False}}),
    "falconmamba": ("falcon_mamba", {"state_size": 16, "intermediate_size": 128, "time_step_rank": 16}, {
        **TIED, "eps": {"mixer_rms_eps": 0.5}, "norm-eps": {"layer_norm_epsilon": 0.5}}),
    "mamba2": ("mamba2", {"intermediate_size": None, "state_size": 16, "head_dim": 16, "num_heads": 8, "n_groups": 2, "chunk_size": 8}, {
        **TIED, "limits": {"time_step_limit": [0.1, 0.3]}}),
    "llama4": ("llama4_text", {"num_local_experts": 4, "head_dim": 16, "intermediate_size_mlp": 96,
                               "num_hidden_layers": 4, "interleave_moe_layer_step": 2, "attention_chunk_size": 32,
                               "floor_scale": 16, "attn_scale": 0.2}, {
        **TIED, "two": {"num_experts_per_tok": 2}, "every": {"interleave_moe_layer_step": 1},
        "no-tuning": {"attn_temperature_tuning": False}, "no-norm": {"use_qk_norm": False},
        "no-chunks": {"attention_chunk_size": 512}, "interval": {"no_rope_layer_interval": 2},
        "llama3": ROPES["llama3"]}),
    "cohere2": ("cohere2", {"head_dim": 16, "sliding_window": 16, "num_hidden_layers": 5, "pad_token_id": 0}, {
        "layer-types": {"num_hidden_layers": 4, "layer_types": LAYERS4}, "scale": {"logit_scale": 0.5},
        "pattern": {"sliding_window_pattern": 3}}),
    "cohere2moe": ("cohere2_moe", {"head_dim": 16, "sliding_window": 16, "num_hidden_layers": 5, "num_experts": 8,
                                   "pad_token_id": 0, "prefix_dense_intermediate_size": 96, "num_key_value_heads": 2,
                                   "intermediate_size": 32}, {
        "sigmoid": {"expert_selection_fn": "sigmoid"}, "no-norm": {"norm_topk_prob": False},
        "sigmoid-no-norm": {"expert_selection_fn": "sigmoid", "norm_topk_prob": False},
        "shared": {"num_shared_experts": 1}, "rms": {"rms_norm_eps": 1e-5}, "scale": {"logit_scale": 0.5},
        "dense": {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse", "sparse"]}}),
    "afmoe": ("afmoe", {"head_dim": 16, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
                        "sliding_window": 16, "num_hidden_layers": 5, "num_shared_experts": 1}, {
        **TIED, "mup": {"mup_enabled": True}, "scale": {"route_scale": 2.5}, "no-norm": {"route_norm": False},
        "every": {"global_attn_every_n_layers": 2}, "dense": {"num_dense_layers": 2},
        "two-shared": {"num_shared_experts": 2}}),
    "gemma3n": ("gemma3n_text", {
        "head_dim": 16, "sliding_window": 16, "num_hidden_layers": 10, "pad_token_id": 0, "laurel_rank": 64,
        "vocab_size_per_layer_input": VOCAB, "hidden_size_per_layer_input": 16, "num_kv_shared_layers": 5,
        "activation_sparsity_pattern": [0.95] * 3 + [0.0] * 7}, {
        "sparsity": {"activation_sparsity_pattern": [0.7] * 5 + [0.0] * 5}, "cap": {"final_logit_softcapping": 3.0},
        "act": {"hidden_activation": "silu"}, "laurel": {"laurel_rank": 32}}),
    "t5": ("t5", {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
                  "decoder_start_token_id": 0, "feed_forward_proj": "gated-gelu"}, {
        **TIED, "relu": {"feed_forward_proj": "relu"}}),
    "bart": ("bart", SEQ2SEQ, SEQ2SEQ_VARIANTS | {"forced": {}}),
    "mbart": ("mbart", SEQ2SEQ, SEQ2SEQ_VARIANTS | {"forced": {}}),
    "pegasus": ("pegasus", SEQ2SEQ, SEQ2SEQ_VARIANTS),
    "marian": ("marian", SEQ2SEQ, SEQ2SEQ_VARIANTS),
    "flexolmo": ("flex_olmo", {"num_experts": 8, "num_experts_per_tok": 3, "head_dim": 16}, {
        **TIED, "norm": {"norm_topk_prob": True}, "bias": {"attention_bias": True}, "yarn": ROPES["yarn"]}),
    "hyperclovax": ("hyperclovax", {}, {
        **TIED, "scales": {"attention_multiplier": 0.4, "embedding_multiplier": 2.0, "residual_multiplier": 0.7,
                           "logits_scaling": 0.3},
        "no-post-norm": {"use_post_norm": False}, "bias": {"attention_bias": True, "mlp_bias": True},
        "head": {"head_dim": 32}, "dynamic": ROPES["dynamic"]}),
    "minimax": ("minimax", {"num_hidden_layers": 4, "num_local_experts": 8, "num_experts_per_tok": 3, "head_dim": 16,
                            "block_size": 16}, {
        **TIED, "factors": {"full_attn_alpha_factor": 1.5, "full_attn_beta_factor": 0.8,
                            "linear_attn_alpha_factor": 1.2, "linear_attn_beta_factor": 1.3,
                            "mlp_alpha_factor": 0.9, "mlp_beta_factor": 1.1},
        "layer-types": {"layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention"]},
        "window": {"sliding_window": 16}}),
    "olmohybrid": ("olmo_hybrid", {"num_hidden_layers": 5, "linear_key_head_dim": 16, "linear_value_head_dim": 32}, {
        **TIED, "no-rope": rope(theta=None), "positive": {"linear_allow_neg_eigval": False}, "bias": {"attention_bias": True},
        "groups": {"linear_num_key_heads": 2}, "eps": {"rms_norm_eps": 1e-3},
        "layer-types": {"layer_types": ["full_attention", "linear_attention", "linear_attention", "full_attention",
                                        "linear_attention"]}}),
    "recurrentgemma": ("recurrent_gemma", {"num_hidden_layers": 4, "attention_window_size": 16, "pad_token_id": 0}, {
        **TIED, "cap": {"logits_soft_cap": 3.0}, "bias": {"attention_bias": True}, "eps": {"rms_norm_eps": 0.5},
        "types": {"block_types": ["attention", "recurrent"]}, "narrow": {"lru_width": 64, "num_attention_heads": 2}}),
    "diffllama": ("diffllama", {"num_key_value_heads": 2}, {
        **TIED, "bias": {"attention_bias": True}, "heads": {"num_attention_heads": 8, "num_key_value_heads": 4},
        "head": {"head_dim": 32}, "llama3": ROPES["llama3"]}),
    "phi4multimodal": ("phi4_multimodal", {
        "original_max_position_embeddings": 512, "pad_token_id": 0,
        "vision_config": {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
                          "image_size": 28, "patch_size": 14, "crop_size": 28},
        "audio_config": {"hidden_size": 16, "intermediate_size": 16, "num_blocks": 1, "num_attention_heads": 2,
                         "ext_pw_out_channel": 16, "nemo_conv_channels": 16, "input_size": 16}}, {
        **TIED, "window": {"sliding_window": 16}, "partial": rope(partial_rotary_factor=0.5)}),
    "bitnet": ("bitnet", {}, {"silu": {"hidden_act": "silu"}, **TIED}),
    "smollm3": ("smollm3", {"num_hidden_layers": 5, "pad_token_id": 0}, {
        **TIED, "interval": {"no_rope_layer_interval": 2}, "list": {"no_rope_layers": [0, 1, 1, 0, 1]},
        "window": {"use_sliding_window": True, "sliding_window": 16}, "bias": {"attention_bias": True}}),
    "olmo2": ("olmo2", {}, {**TIED, "yarn": ROPES["yarn"], "bias": {"attention_bias": True}}),
    "olmo3": ("olmo3", {"sliding_window": 16, "num_hidden_layers": 5}, {
        **TIED, "yarn": {"rope_parameters": {
            "full_attention": ROPES["yarn"]["rope_parameters"],
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}}}),
    "olmoe": ("olmoe", {"num_experts": 8, "num_experts_per_tok": 3}, {
        **TIED, "norm": {"norm_topk_prob": True}, "clip": {"clip_qkv": 0.5}}),
    "olmo": ("olmo", {}, {**TIED, "clip": {"clip_qkv": 0.5}}),
    "granite": ("granite", {}, {**TIED, "scales": {
        "attention_multiplier": 0.4, "embedding_multiplier": 2.0, "residual_multiplier": 0.7, "logits_scaling": 3.0}}),
    "granitemoe": ("granitemoe", {"num_local_experts": 8, "num_experts_per_tok": 3}, {**TIED}),
    "arcee": ("arcee", {}, {**TIED, "yarn": ROPES["yarn"], "silu": {"hidden_act": "silu"}}),
    "seedoss": ("seed_oss", {"head_dim": 16}, {**TIED, "no-bias": {"attention_bias": False}}),
    "exaone4": ("exaone4", {"num_hidden_layers": 5, "sliding_window": 16}, {
        **TIED, "pattern": {"sliding_window_pattern": 2}}),
    "ernie45": ("ernie4_5", {}, {**TIED, "bias": {"use_bias": True}}),
    "glm4": ("glm4", {"head_dim": 16, "pad_token_id": 0}, {**TIED, "bias": {"attention_bias": True}}),
    "cohere": ("cohere", {"pad_token_id": 0}, {"norm": {"use_qk_norm": True}, "scale": {"logit_scale": 0.5}}),
    "stablelm": ("stablelm", {}, {
        **TIED, "bias": {"use_qkv_bias": True}, "parallel": {"use_parallel_residual": True},
        "norm": {"qk_layernorm": True}, "gelu": {"hidden_act": "gelu"}}),
    "phi": ("phi", {}, {**TIED, "partial": rope(partial_rotary_factor=0.25), "norm": {"qk_layernorm": True}}),
    "gptneox": ("gpt_neox", {"num_key_value_heads": None}, {**TIED, "serial": {"use_parallel_residual": False},
                                 "partial": rope(partial_rotary_factor=0.5), "tanh": {"hidden_act": "gelu_fast"},
                                 "no-bias": {"attention_bias": False}}),
    "lfm2": ("lfm2", {"layer_types": ["conv", "full_attention", "conv"], "conv_L_cache": 3}, {
        **TIED}),
    "nemotron": ("nemotron", {}, {**TIED, "bias": {"attention_bias": True}, "partial": rope(partial_rotary_factor=1.0),
                                  "silu": {"hidden_act": "silu"}}),
    "apertus": ("apertus", {}, {**TIED, "bias": {"attention_bias": True}}),
    "hunyuan": ("hunyuan_v1_dense", {"head_dim": 16}, {**TIED}),
    "minimaxm2": ("minimax_m2", {"num_local_experts": 8, "num_experts_per_tok": 3, "head_dim": 16}, {**TIED}),
    "dots1": ("dots1", {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
                        "n_shared_experts": 1, "first_k_dense_replace": 1, "n_group": 1, "topk_group": 1,
                        "head_dim": 16}, {
        **TIED, "norm": {"norm_topk_prob": True}, "scale": {"routed_scaling_factor": 1.5},
        "groups": {"n_group": 4, "topk_group": 2}}),
    "bert": ("bert", ENCODER, {
        "tanh": {"hidden_act": "gelu_new"}, "eps": {"layer_norm_eps": 0.5},
        **CLASSIFIERS, **PAIRS, **TERMS, "terms-sum": TERMS["terms"], "terms-twice": TERMS["terms"],
        "terms-untied": {"head": "terms", "tie_word_embeddings": False, "hidden_act": "relu"}}),
    "roberta": ("roberta", {**ENCODER, "pad_token_id": 1, "type_vocab_size": 1}, CLASSIFIERS | TERMS),
    "xlmroberta": ("xlm-roberta", {**ENCODER, "pad_token_id": 1, "type_vocab_size": 1}, CLASSIFIERS | TERMS),
    "distilbert": ("distilbert", {
        "head": "", "num_hidden_layers": None, "dim": 64, "hidden_dim": 96, "n_heads": 4, "n_layers": 3,
        "num_key_value_heads": None, "intermediate_size": None, "num_attention_heads": None, "hidden_size": None}, {
        **CLASSIFIERS, "relu": {"activation": "relu"}, **TERMS}),
    "mpnet": ("mpnet", {**ENCODER, "pad_token_id": 1, "type_vocab_size": None}, CLASSIFIERS | TERMS),
    "electra": ("electra", {**ENCODER, "embedding_size": 32}, {**CLASSIFIERS, **TERMS, "wide": {"embedding_size": 64}, **PAIRS}),
    "deberta": ("deberta", {
        **ENCODER, **DEBERTA, "head": ""}, {
        "texts": {"head": "texts", **LABELS}, "tokens": {"head": "tokens", **LABELS}, "c2p": {"pos_att_type": ["c2p"]},
        "p2c": {"pos_att_type": "p2c"}, "near": {"max_relative_positions": 32}, "positions": {"position_biased_input": True},
        "types": {"type_vocab_size": 2}, "absolute": {"relative_attention": False, "position_biased_input": True}}),
    "debertav2": ("deberta-v2", {
        **ENCODER, **DEBERTA, "share_att_key": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm"}, {
        **CLASSIFIERS, **TERMS, "tanh": {"head": "texts", **LABELS, "pooler_hidden_act": "tanh"},
        "own": {"share_att_key": False}, "own-c2p": {"share_att_key": False, "pos_att_type": ["c2p"]},
        "c2p": {"pos_att_type": "c2p"}, "p2c": {"pos_att_type": ["p2c"]}, "neither": {"pos_att_type": []},
        "each": {"position_buckets": -1}, "each-near": {"position_buckets": -1, "max_relative_positions": 32},
        "near": {"max_relative_positions": 40}, "no-norm": {"norm_rel_ebd": "none"}, "eps": {"layer_norm_eps": 0.5},
        "positions": {"position_biased_input": True}, "types": {"type_vocab_size": 2},
        "absolute": {"relative_attention": False, "position_biased_input": True},
        "conv": {"conv_kernel_size": 3, "conv_act": "gelu"}, "conv-wide": {"conv_kernel_size": 5}}),
    "modernbert": ("modernbert", {**ENCODER, "num_hidden_layers": 4, "local_attention": 16, "pad_token_id": 0,
                                  "cls_token_id": 1, "sep_token_id": 2}, {
        **CLASSIFIERS, **TERMS, "mean": {"head": "texts", **LABELS, "classifier_pooling": "mean"},
        "silu": {"head": "texts", **LABELS, "classifier_activation": "silu", "classifier_bias": True}}),
    "eurobert": ("eurobert", {"head": "", "pad_token_id": 0}, {
        "head-dim": {"head_dim": 32}, "theta": rope(theta=500.0), "eps": {"rms_norm_eps": 0.5},
        "tanh": {"hidden_act": "gelu_pytorch_tanh"}, "bias": {"attention_bias": True, "mlp_bias": True}}),
    "nomicbert": ("nomic_bert", {"head": "", "pad_token_id": 0, "num_key_value_heads": None, "type_vocab_size": 2}, {
        "theta": rope(theta=500.0), "eps": {"layer_norm_eps": 0.5}, "pair": {}}),
    "gemmaembedding": ("gemma3_text", {
        "head": "", "head_dim": 16, "sliding_window": 16, "num_hidden_layers": 6, "query_pre_attn_scalar": 16,
        "use_bidirectional_attention": True, "pad_token_id": 0}, {"scalar": {"query_pre_attn_scalar": 24}}),
    "bloom": ("bloom", {"n_layer": 3, "n_head": 4, "num_key_value_heads": None}, {"after": {"apply_residual_connection_post_layernorm": True}}),
    "gpt2": ("gpt2", {"n_embd": 64, "n_layer": 3, "n_head": 4, "n_positions": 256, "num_key_value_heads": None}, {
        "untied": {"tie_word_embeddings": False}, "inner": {"n_inner": 96}, "relu": {"activation_function": "relu"},
        "inverse": {"scale_attn_by_inverse_layer_idx": True}, "unscaled": {"scale_attn_weights": False}}),
    "dbrx": ("dbrx", {"d_model": 64, "n_heads": 4, "n_layers": 3, "max_seq_len": 256, "num_key_value_heads": None,
        "attn_config": {"kv_n_heads": 2, "clip_qkv": 0.5, "rope_theta": 10000.0}, "ffn_config": {
            "hidden_size": 64, "ffn_hidden_size": 32, "moe_num_experts": 8, "moe_top_k": 3}}, {
        "clip": {"attn_config": {"kv_n_heads": 2, "clip_qkv": 0.2, "rope_theta": 10000.0}}}),
    "ernie45moe": ("ernie4_5_moe", {"moe_num_experts": 8, "moe_k": 3, "moe_intermediate_size": 32,
        "moe_num_shared_experts": 2, "moe_layer_start_index": 1, "moe_layer_end_index": 2, "pad_token_id": 0}, {
        **UNTIE, "bias": {"use_bias": True}, "dense": {"moe_layer_start_index": 2},
        "all": {"moe_layer_start_index": 0}}),
    "gemma4": ("gemma4_text", {"head_dim": 16, "global_head_dim": 32, "sliding_window": 16, "num_hidden_layers": 6,
        "hidden_size_per_layer_input": 16, "vocab_size_per_layer_input": VOCAB, "pad_token_id": 0}, {
        "shared": {"num_kv_shared_layers": 2, "num_hidden_layers": 7, "layer_types":
            ["sliding_attention", "full_attention"] * 3 + ["full_attention"]},
        "equal": {"attention_k_eq_v": True, "num_global_key_value_heads": 1}, "cap": {"final_logit_softcapping": 3.0},
        "wide": {"num_kv_shared_layers": 2, "num_hidden_layers": 7, "use_double_wide_mlp": True, "layer_types":
            ["sliding_attention", "full_attention"] * 3 + ["full_attention"]},
        "no-inputs": {"hidden_size_per_layer_input": 0},
        "experts": {"enable_moe_block": True, "num_experts": 8, "top_k_experts": 3, "moe_intermediate_size": 32}}),
    "glm4moe": ("glm4_moe", {**ROUTED, "head_dim": 16, "first_k_dense_replace": 1, "pad_token_id": 0}, {
        **TIE, **GROUPS, "norms": {"use_qk_norm": True}, "bias": {"attention_bias": True}}),
    "glm4moelite": ("glm4_moe_lite", {**ROUTED, **LATENT, "pad_token_id": 0}, {
        **TIE, **GROUPS, "halves": {"rope_interleave": False}, "no-rank": {"q_lora_rank": None}}),
    "granitemoeshared": ("granitemoeshared", {"num_local_experts": 8, "num_experts_per_tok": 3,
                                              "shared_intermediate_size": 48}, {**TIE}),
    "graniteswa": ("granite_swa", {"num_hidden_layers": 5, "sliding_window": 16, "layer_rope_theta": [5e3, 5e3, 5e3, 0, 5e3]}, {
        **UNTIE, "scales": {"attention_multiplier": 0.4, "embedding_multiplier": 2.0, "residual_multiplier": 0.7,
                           "logits_scaling": 3.0}, "bases": {"layer_rope_theta": [5e3, 3e2, 5e3, 0, 5e3]}}),
    "granitemoeswa": ("granitemoe_swa", {"num_hidden_layers": 5, "sliding_window": 16, "num_local_experts": 8,
                                         "num_experts_per_tok": 3, "layer_rope_theta": [1e4, 1e4, 1e4, 0, 1e4]}, {
        "shared": {"shared_intermediate_size": 48}}),
    "hyv3": ("hy_v3", {**EXPERTS, "head_dim": 16, "num_shared_experts": 1, "pad_token_id": 0}, {
        **TIE, "scale": {"router_scaling_factor": 1.3}, "dense": {"mlp_layer_types": ["dense", "dense", "sparse"]}}),
    "hyv4": ("hy_v4", {**ROUTED, **LATENT, **INDEX, "num_hidden_layers": 4, "hc_mult": 2, "pad_token_id": 0,
                       "indexer_types": ["full", "shared", "full", "shared"]}, {
        **TIE, "norm": {"norm_topk_prob": False}, "limit": {"swiglu_limit": 0.3}, "magnitude": {"hc_magnitude": 1.5}}),
    "hrmtext": ("hrm_text", {"head_dim": 16, "num_key_value_heads": 4, "num_layers_per_stack": 2, "num_hidden_layers": 12, "H_cycles": 2, "L_cycles": 2,
                             "prefix_lm": False, "pad_token_id": 0}, {"untied": {"tie_word_embeddings": False}}),
    "hunyuanmoe": ("hunyuan_v1_moe", {"num_experts": 8, "moe_topk": 3, "head_dim": 16, "pad_token_id": 0}, {**TIE}),
    "jais2": ("jais2", {"head_dim": 16, "num_key_value_heads": 4}, {**TIE}),
    "kimilinear": ("kimi_linear", {**LATENT, "q_lora_rank": None, "num_experts": 8, "num_experts_per_token": 3,
        "moe_intermediate_size": 32, "num_shared_experts": 1, "num_hidden_layers": 4, "linear_head_dim": 16,
        "linear_num_heads": 4, "pad_token_id": 0, "layer_types": [
            "linear_attention", "full_attention", "linear_attention", "linear_attention"]}, {
        "norm": {"moe_renormalize": False}, "groups": {"num_expert_group": 4, "topk_group": 2}}),
    "laguna": ("laguna", {**EXPERTS, "head_dim": 16, "sliding_window": 16, "shared_expert_intermediate_size": 48,
        "num_hidden_layers": 4, "num_attention_heads_per_layer": [4, 8, 4, 8], "pad_token_id": 0,
        "layer_types": ["full_attention", "sliding_attention"] * 2}, {
        **TIE, "scale": {"moe_routed_scaling_factor": 1.3}, "open": {"gating": False},
        "cap": {"moe_router_logit_softcapping": 1.0}}),
    "lfm2moe": ("lfm2_moe", {**EXPERTS, "num_dense_layers": 1,
                             "layer_types": ["conv", "full_attention", "conv"], "pad_token_id": 0}, {
        **UNTIE, "norm": {"norm_topk_prob": False}, "no-bias": {"use_expert_bias": False},
        "scale": {"routed_scaling_factor": 1.3}}),
    "mellum": ("mellum", {**EXPERTS, "head_dim": 16, "sliding_window": 16, "num_hidden_layers": 4,
        "layer_types": LAYERS4}, {
        **TIE, "norm": {"norm_topk_prob": False},
        "dense": {"mlp_layer_types": ["dense", "sparse", "sparse", "sparse"]}}),
    "mimo2": ("mimo_v2_flash", {**ROUTED, "n_shared_experts": None, "head_dim": 24, "v_head_dim": 16,
        "sliding_window": 16, "num_hidden_layers": 4, "layer_types": LAYERS4, "pad_token_id": 0}, {
        **TIE, **GROUPS}),
    "minicpm3": ("minicpm3", {**LATENT, "v_head_dim": 16, "dim_model_base": 32, "scale_emb": 2.0}, {
        **UNTIE, "scales": {"scale_depth": 1.0, "scale_emb": 3, "dim_model_base": 16}, "values": {"v_head_dim": 32},
        "bias": {"attention_bias": True}}),
    "ministral3": ("ministral3", {"head_dim": 16, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
        mscale_all_dim=1.0, llama_4_scaling_beta=0.1)}, {
        **TIE, "beta": rope("yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0,
                             mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.4)}),
    "mistral4": ("mistral3", with_vision({"model_type": "mistral4", **ROUTED, **LATENT, "head_dim": 32, **rope(
        "yarn", factor=4.0, original_max_position_embeddings=32, beta_fast=32.0, beta_slow=1.0, mscale=1.0,
        mscale_all_dim=1.0, llama_4_scaling_beta=0.1)}), {}),
    "glmdsa": ("glm_moe_dsa", {**ROUTED, **LATENT, **INDEX, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1,
                               "num_hidden_layers": 4, "indexer_types": ["full", "shared", "full", "shared"],
                               "pad_token_id": 0}, {**TIE, **GROUPS}),
    "deepseek32": ("deepseek_v32", {**ROUTED, **LATENT, **INDEX, "n_group": 1, "topk_group": 1,
                                    "first_k_dense_replace": 1, "pad_token_id": 0}, {**TIE, **GROUPS}),
    "phimoe": ("phimoe", {"num_local_experts": 8, "head_dim": 16, "attention_bias": True, "lm_head_bias": True}, {
        **TIE, "no-bias": {"attention_bias": False, "lm_head_bias": False}, "window": {"sliding_window": 16},
        "jitter": {"router_jitter_noise": 0.2}}),
    "qwen2vl": ("qwen2_vl", with_vision(SECTIONS), {"window": with_vision({
        **SECTIONS, "use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1})}),
    "qwen25vl": ("qwen2_5_vl", with_vision(SECTIONS), {}),
    "glm4v": ("glm4v", with_vision(rope(mrope_section=[2, 1, 1], partial_rotary_factor=0.5)), {
        "theta": with_vision(rope(theta=500.0, mrope_section=[2, 1, 1], partial_rotary_factor=0.5)),
        "turning": with_vision(rope(mrope_section=[4, 2, 2], partial_rotary_factor=1.0))}),
    "glm4vmoe": ("glm4v_moe", with_vision({**ROUTED, **rope(mrope_section=[2, 1, 1], partial_rotary_factor=0.5), "head_dim": 16,
                                           "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1}), {}),
    "glmocr": ("glm_ocr", with_vision(rope(mrope_section=[2, 1, 1], partial_rotary_factor=0.5) | {"head_dim": 16}), {}),
    "smolvlm": ("smolvlm", with_vision({"model_type": "llama"}), {}),
    "lfm2vl": ("lfm2_vl", with_vision({"model_type": "lfm2", "num_hidden_layers": 3, "layer_types": ["conv", "full_attention", "conv"]},
                                      projector_hidden_size=32), {}),
    "qwen3vl": ("qwen3_vl", with_vision({"head_dim": 16}), {"tied": with_vision(
        {"head_dim": 16}, tie_word_embeddings=True)}),
    "qwen3vlmoe": ("qwen3_vl_moe", with_vision({"head_dim": 16, **EXPERTS, "moe_intermediate_size": 48}), {
        "square": with_vision({"head_dim": 16, **EXPERTS, "attention_bias": True}),
        "dense": with_vision({"head_dim": 16, **EXPERTS, "mlp_only_layers": [1]}),
        "step": with_vision({"head_dim": 16, **EXPERTS, "decoder_sparse_step": 2})}),
    "museglimmer": ("muse_glimmer", with_vision({"head_dim": 16, "sliding_window": 16, "num_hidden_layers": 5}), {}),
    "minimaxm3": ("minimax_m3_vl", with_vision({**rope(partial_rotary_factor=0.5), "head_dim": 16, "rotary_dim": 8, "num_local_experts": 8,
        "num_experts_per_tok": 3, "intermediate_size": 32, "shared_intermediate_size": 48,
        "dense_intermediate_size": 96, "index_block_size": 8, "index_head_dim": 16, "index_n_heads": 2,
        "index_topk_blocks": 3, "num_hidden_layers": 4, "mlp_layer_types": ["dense", "sparse", "sparse", "sparse"],
        "layer_types": ["full_attention"] + 3 * ["minimax_m3_sparse"]}, projector_hidden_size=32), {}),
    "dots3note": ("dots3_note_text", {**ROUTED, **LATENT, **INDEX,
        "sliding_window": 16, "num_hidden_layers": 4,
        "shared_experts_intermediate_size": 32, "head_dim": 32, "swa_num_attention_heads": 2, "swa_num_key_value_heads": 2,
        "swa_q_lora_rank": 32, "swa_kv_lora_rank": 48, "swa_head_dim": 48, "swa_qk_nope_head_dim": 32,
        "swa_v_head_dim": 16, "swa_qk_rope_head_dim": 16}, {**TIE}),
    "deepseek4": ("deepseek_v4", {"n_routed_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 32,
        "num_key_value_heads": 1, "head_dim": 32, "qk_rope_head_dim": 16, "q_lora_rank": 32, "o_groups": 2,
        "o_lora_rank": 16, "index_topk": 4, "index_head_dim": 32, "index_n_heads": 16, "sliding_window": 16, "hc_mult": 2,
        "num_hidden_layers": 5, "num_hash_layers": 0, "layer_types": [
            "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention",
            "compressed_sparse_attention", "sliding_attention"]}, {
        "yarn": {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32,
                                     "beta_fast": 32.0, "beta_slow": 1.0}},
        "norm": {"norm_topk_prob": False}, "limit": {"swiglu_limit": 0.3}, "softmax": {"scoring_func": "sigmoid"},
        "hash": {"num_hash_layers": 2}}),
    "qwen4exp": ("qwen4_exp_text", {**EXPERTS, "head_dim": 16, "hc_count": 2, "hc_lowrank": 32, "num_hidden_layers": 4,
        "shared_expert_intermediate_size": 48, "linear_num_key_heads": 2, "linear_num_value_heads": 4,
        "linear_key_head_dim": 16, "linear_value_head_dim": 16, "indexer_n_heads": 2, "indexer_head_dim": 16,
        "indexer_kv_heads": 1, "indexer_budget": 8, "indexer_compress_ratio": 4, "ple_layer_ids": []}, {
        "sigmoid": {"output_gate_type": "sigmoid"}, "ngrams": NGRAMS, "ngrams-of-five": {**NGRAMS, "ngram_size": 5,
        "ple_conv_kernel_size": 3}, "ngrams-narrow": {**NGRAMS, "ple_embed_dim": 48}, "ngrams-ends": {**NGRAMS, "eos_token_id": [7, 1]},
        "ngrams-twice": {**NGRAMS, "ple_layer_ids": [1, 3]}}),
    "chameleon": ("chameleon", {"vocabulary_map": {"<image>": VOCAB}, "vq_config": {
        "embed_dim": 4, "num_embeddings": 4, "latent_channels": 4, "base_channels": 32, "channel_multiplier": [1],
        "num_res_blocks": 1}}, {
        "swin": {"swin_norm": True}, "bias": {"attention_bias": True}, "feed-forward-bias": {"mlp_bias": True},
        "images": {"vocabulary_map": {"<image>": VOCAB} | {f"IMGIMG{c}Z": 100 + i for i, c in enumerate("ABCDEFGHIJ")}},
        "tied": {"tie_word_embeddings": True}, "theta": rope(theta=500.0),
        "llama3": ROPES["llama3"]}),
    "umt5": ("umt5", {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
                      "decoder_start_token_id": 0}, {**UNTIE}),
    "mt5": ("mt5", {"d_model": 64, "d_kv": 16, "d_ff": 96, "num_layers": 2, "num_heads": 4, "pad_token_id": 0,
                    "decoder_start_token_id": 0}, {}),
    "opt": ("opt", {"ffn_dim": 96, "num_key_value_heads": None, "max_position_embeddings": 128}, {
        "untied": {"tie_word_embeddings": False}, "post-norm": {"do_layer_norm_before": False},
        "words": {"word_embed_proj_dim": 32},
        "350m": {"do_layer_norm_before": False, "word_embed_proj_dim": 32},
        "350m-untied": {"do_layer_norm_before": False, "word_embed_proj_dim": 32, "tie_word_embeddings": False},
        "galactica": {"enable_bias": False, "layer_norm_elementwise_affine": False, "activation_function": "gelu"},
        "post-norm-bare": {"do_layer_norm_before": False, "layer_norm_elementwise_affine": False}}),
    "xglm": ("xglm", {"d_model": 64, "ffn_dim": 96, "num_layers": 3, "attention_heads": 4, "num_key_value_heads": None,
        "max_position_embeddings": 128}, {
        "untied": {"tie_word_embeddings": False}, "no-scale": {"scale_embedding": False},
        "relu": {"activation_function": "relu"}}),
    "gptj": ("gptj", {"n_embd": 64, "n_layer": 3, "n_head": 4, "rotary_dim": 8, "n_positions": 128,
        "num_key_value_heads": None}, {
        "tied": {"tie_word_embeddings": True}, "all": {"rotary_dim": 16}, "inner": {"n_inner": 96},
        "gelu": {"activation_function": "gelu"}, "eps": {"layer_norm_epsilon": 0.5}}),
    "codegen": ("codegen", {"n_embd": 64, "n_layer": 3, "n_head": 8, "rotary_dim": 4, "n_positions": 128,
        "num_key_value_heads": None}, {
        "tied": {"tie_word_embeddings": True}, "four-heads": {"n_head": 4, "rotary_dim": 16},
        "inner": {"n_inner": 96}}),
    "gptneo": ("gpt_neo", {"num_hidden_layers": 4, "num_heads": 4, "num_key_value_heads": None, "window_size": 16,
        "attention_types": [[["global", "local"], 2]], "max_position_embeddings": 128}, {
        "untied": {"tie_word_embeddings": False}, "global": {"attention_types": [[["global"], 4]]},
        "types": {"attention_types": [[["local"], 2], [["global", "local"], 1]]},
        "inner": {"intermediate_size": None}, "relu": {"activation_function": "relu"}}),
    "glm": ("glm", {"head_dim": 16, "pad_token_id": 0}, {
        "tied": {"tie_word_embeddings": True}, "no-bias": {"attention_bias": False},
        "partial": rope(partial_rotary_factor=0.25), "head": {"head_dim": 32}, "yarn": rope(
            "yarn", factor=4.0, original_max_position_embeddings=32, partial_rotary_factor=0.5)}),
    "helium": ("helium", {"head_dim": 16, "pad_token_id": 0}, {
        "tied": {"tie_word_embeddings": True}, "bias": {"attention_bias": True, "mlp_bias": True},
        "yarn": ROPES["yarn"], "llama3": ROPES["llama3"]}),
    "persimmon": ("persimmon", {"num_key_value_heads": None}, {
        "tied": {"tie_word_embeddings": True}, "no-norm": {"qk_layernorm": False},
        "partial": rope(partial_rotary_factor=0.25), "gelu": {"hidden_act": "gelu"}, "eps": {"layer_norm_eps": 0.5},
        "linear": rope("linear", factor=4.0, partial_rotary_factor=0.5)}),
    "vaultgemma": ("vaultgemma", {"head_dim": 16, "sliding_window": 16, "query_pre_attn_scalar": 16,
                                  "pad_token_id": 0}, {
        "untied": {"tie_word_embeddings": False}, "scalar": {"query_pre_attn_scalar": 24},
        "caps": {"attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0},
        "no-caps": {"attn_logit_softcapping": None, "final_logit_softcapping": None},
        "layer-types": {"num_hidden_layers": 4, "layer_types": LAYERS4}, "bias": {"attention_bias": True}}),
    "nanochat": ("nanochat", {}, {
        "tied": {"tie_word_embeddings": True}, "cap": {"final_logit_softcapping": 3.0},
        "no-cap": {"final_logit_softcapping": None}, "bias": {"attention_bias": True},
        "many": {"num_key_value_heads": 4}, "theta": rope(theta=500.0), "eps": {"rms_norm_eps": 0.5}}),
    "bamba": ("bamba", {**MAMBA, "attn_layer_indices": [1], "pad_token_id": 0}, {
        "tied": {"tie_word_embeddings": True}, "limits": {"time_step_limit": [0.1, 0.3]},
        "no-conv-bias": {"mamba_conv_bias": False}, "proj-bias": {"mamba_proj_bias": True},
        "bias": {"attention_bias": True, "mlp_bias": True}}),
    "granitehybrid": ("granitemoehybrid", {
        **MAMBA, "layer_types": ["linear_attention", "full_attention", "linear_attention"], "num_local_experts": 8,
        "num_experts_per_tok": 3, "shared_intermediate_size": 48}, {
        "tied": {"tie_word_embeddings": True}, "rope": {"position_embedding_type": "rope"},
        "dense": {"num_local_experts": 0}, "limits": {"time_step_limit": [0.1, 0.3]}, "bias": {"attention_bias": True},
        "no-conv-bias": {"mamba_conv_bias": False},
        "scales": {"attention_multiplier": 0.4, "embedding_multiplier": 2.0, "residual_multiplier": 0.7,
                   "logits_scaling": 3.0}}),
    "falconh1": ("falcon_h1", {**MAMBA, "mamba_d_ssm": 128}, {
        "tied": {"tie_word_embeddings": True}, "norm": {"mamba_rms_norm": True, "mamba_norm_before_gate": False},
        "limits": {"time_step_limit": [0.1, 0.3]}, "no-conv-bias": {"mamba_conv_bias": False},
        "multipliers": {
            "lm_head_multiplier": 0.5, "embedding_multiplier": 2.0, "mlp_multipliers": [0.7, 1.4],
            "key_multiplier": 0.6, "attention_out_multiplier": 0.8, "attention_in_multiplier": 1.3, "ssm_in_multiplier": 1.2,
            "ssm_out_multiplier": 0.9, "ssm_multipliers": [0.7, 1.1, 0.8, 1.2, 0.9]}}),
    "jamba": ("jamba", {
        "num_hidden_layers": 4, "attn_layer_offset": 1, "attn_layer_period": 2, "expert_layer_offset": 1,
        "expert_layer_period": 2, "num_experts": 4, "num_experts_per_tok": 2, "mamba_d_state": 16,
        "mamba_dt_rank": 16, "use_mamba_kernels": False}, {
        "tied": {"tie_word_embeddings": True}, "no-conv-bias": {"mamba_conv_bias": False},
        "offsets": {"attn_layer_offset": 0, "expert_layer_offset": 0}, "rank": {"mamba_dt_rank": 32},
        "proj-bias": {"mamba_proj_bias": True}}),
    "deepseek2": ("deepseek_v2", {**DEEPSEEK, "topk_method": "greedy"}, {
        "tied": {"tie_word_embeddings": True}, "lite": {"q_lora_rank": None}, "scale": {"routed_scaling_factor": 1.5},
        "groups": {"topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2}}),
    "deepseek3": ("deepseek_v3", DEEPSEEK, {
        "tied": {"tie_word_embeddings": True}, "full": {"q_lora_rank": None}, "scale": {"routed_scaling_factor": 1.5},
        "groups": {"n_group": 4, "topk_group": 2}, "no-norm": {"norm_topk_prob": False},
        "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=32, mscale=1.0, mscale_all_dim=1.0)}),
    "qwen3next": ("qwen3_next", {**EXPERTS, **LINEAR, "shared_expert_intermediate_size": 48}, {
        "tied": {"tie_word_embeddings": True}, "dense": {"mlp_only_layers": [1]}, "step": {"decoder_sparse_step": 2},
        "partial": rope(partial_rotary_factor=0.5)}),
    "qwen35": ("qwen3_5_text", LINEAR, {
        "tied": {"tie_word_embeddings": True}, "wide": {"linear_value_head_dim": 32},
        "partial": rope(partial_rotary_factor=0.5)}),
    "qwen35moe": ("qwen3_5_moe_text", {**EXPERTS, **LINEAR, "head_dim": 32, "shared_expert_intermediate_size": 48}, {
        "wide": {"linear_value_head_dim": 32}, "partial": rope(partial_rotary_factor=0.5)}),
    "paddleocr": ("paddleocr_vl", with_vision({"head_dim": 16, **SECTIONS}), {
        "bias": with_vision({"head_dim": 16, **SECTIONS, "use_bias": True}),
        "untied": with_vision({"head_dim": 16, **SECTIONS, "tie_word_embeddings": False}, tie_word_embeddings=False)}),
    "hunyuanvl": ("hunyuan_vl", with_vision({"head_dim": 16, "pad_token_id": 0, **HUNYUAN}), {
        "untied": with_vision({"head_dim": 16, "pad_token_id": 0, "tie_word_embeddings": False, **HUNYUAN},
                              tie_word_embeddings=False),
        "alpha": with_vision({"head_dim": 16, "pad_token_id": 0, **rope(
            "dynamic", alpha=50.0, factor=1.0, mrope_section=[2, 2, 2, 2])})}),
    "zamba2": ("zamba2", {
        "num_hidden_layers": 6, "layers_block_type": ["linear_attention", "hybrid", "linear_attention", "hybrid", "hybrid",
                                                      "linear_attention"],
        "num_key_value_heads": 4, "mamba_d_state": 16, "mamba_ngroups": 2, "n_mamba_heads": 8, "chunk_size": 8,
        "adapter_rank": 16, "pad_token_id": 0}, {
        **UNTIE, "adapters": {"use_shared_attention_adapter": True}, "rope": {"use_mem_rope": True},
        "blocks": {"num_mem_blocks": 2, "use_shared_attention_adapter": True, "use_mem_rope": True},
        "group": {"mamba_ngroups": 1}, "bias": {"add_bias_linear": True}, "step": {"time_step_min": 0.5}, "eps": {"rms_norm_eps": 0.1},
        "tanh": {"hidden_act": "gelu_pytorch_tanh"}}),
    "jetmoe": ("jetmoe", {
        "num_local_experts": 8, "num_experts_per_tok": 3, "kv_channels": 16, "num_key_value_heads": 2, "rms_norm_eps": 0.1}, {
        **UNTIE, "one": {"num_experts_per_tok": 1}, "heads": {"num_key_value_heads": 4},
        "head": {"kv_channels": 32}, "gelu": {"activation_function": "gelu"}, "theta": rope(theta=500.0)}),
    "longcat": ("longcat_flash", {
        "num_layers": 2, "num_hidden_layers": 4, "ffn_hidden_size": 96, "kv_lora_rank": 32, "q_lora_rank": 24,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 16, "head_dim": 16, "v_head_dim": 16, "num_key_value_heads": 4,
        "moe_topk": 4, "n_routed_experts": 6, "zero_expert_num": 4, "expert_ffn_hidden_size": 32}, {
        **TIE, "few": {"zero_expert_num": 1}, "many": {"zero_expert_num": 12}, "none": {"zero_expert_num": 0},
        "scale": {"routed_scaling_factor": 1.5}, "eps": {"rms_norm_eps": 0.1},
        "yarn": rope("yarn", factor=4.0, original_max_position_embeddings=32, mscale=1.0, mscale_all_dim=1.0)}),
}


def configured(kind, settings):
    head = settings.pop("head", None)
    if head is not None:
        settings = {k: v for k, v in settings.items() if v is not None or k not in ABSENT}
    config = AutoConfig.for_model(kind, **settings)
    if head is not None:  # of an encoder; "" is none
        config.architectures = [HEADS[head]._model_mapping[type(config)].__name__]
    return config


HEADS = {"": transformers.AutoModel, "texts": transformers.AutoModelForSequenceClassification,
         "tokens": transformers.AutoModelForTokenClassification, "terms": transformers.AutoModelForMaskedLM}


def cases(names):
    """(family, variant, configuration), of all or of those with these names."""
    for family, (kind, settings, variants) in FAMILIES.items():
        for variant, change in {"plain": {}, **variants}.items():
            if not names or family in names or f"{family}/{variant}" in names:
                yield family, variant, configured(kind, copy.deepcopy({**SMALL, **settings, **change}))


def auto(config):
    """The class of a model: of the configuration, or one that generates text."""
    if (head := head_of(config)) is not None:
        return HEADS[head]
    if config.is_encoder_decoder:
        return AutoModelForSeq2SeqLM
    if (hasattr(config, "vision_config") or hasattr(config, "vq_config")) and type(config) in AutoModelForImageTextToText._model_mapping:
        return AutoModelForImageTextToText
    return AutoModelForCausalLM


def head_of(config):
    """What an encoder computes, as HEADS has it; None: it generates text."""
    if not config.architectures:
        return None
    name, = config.architectures
    for head, end in (("texts", "ForSequenceClassification"), ("tokens", "ForTokenClassification"),
                      ("terms", "ForMaskedLM")):
        if name.endswith(end):
            return head
    return "" if name.endswith("Model") else None


def named(shapes):
    """The lines of tensors: those that differ in the number of their layer only are one."""
    lines = {}
    for name, (shape, integers) in sorted(shapes.items()):
        at = re.search(r"(?<=\.)\d+(?=\.)", name)
        layer = int(at[0]) if at else None
        pattern = name[:at.start()] + "#" + name[at.end():] if at else name
        if integers is not None:
            scale, offset = "is", ",".join(map(str, integers))
        else:
            scale, offset = ("below", CHOICES) if name.endswith(INTEGERS) else (f"{x:g}" for x in spread(name, shape))
        what = " ".join([pattern, *map(str, shape), scale, str(offset)])
        lines.setdefault(what, []).append(layer)
    out = []
    for what, layers in lines.items():
        if layers == [None]:
            out.append(what)
            continue
        spans = []
        for _, run in itertools.groupby(enumerate(sorted(layers)), lambda p: p[1] - p[0]):
            run = [n for _, n in run]
            spans.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
        out.append(",".join(spans) + ": " + what)
    return out


def written(path, shapes):
    """Write the weights of a checkpoint."""
    header, data = {}, bytearray()
    for name, (shape, integers) in sorted(shapes.items()):
        scale, offset = spread(name, shape)
        x = noise(name, int(np.prod(shape)))
        if integers is not None:
            kind, raw = "I64", integers.tobytes()
        elif name.endswith(INTEGERS):
            kind, raw = "I64", ((x + 1) / 2 * CHOICES).astype("<i8").tobytes()
        else:
            kind, raw = "F32", (offset + scale * x).astype("<f4").tobytes()
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header | {"__metadata__": {"format": "pt"}}).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def saved(folder, config):
    """Save a checkpoint with such weights, as transformers writes it. Returns the shapes of its tensors, and the numbers of
    those that stay."""
    torch.manual_seed(1)
    auto(config).from_config(config, dtype=torch.float32).save_pretrained(folder, max_shard_size="1GB")
    raw = (folder / "model.safetensors").read_bytes()
    size, = struct.unpack("<Q", raw[:8])
    shapes = {}
    for k, v in json.loads(raw[8:8 + size]).items():
        if k != "__metadata__" and not k.endswith(CONSTANTS):
            begin, end = (8 + size + at for at in v["data_offsets"])
            shapes[k] = v["shape"], np.frombuffer(raw[begin:end], "<i8") if k.endswith(GIVEN) else None
    written(folder / "model.safetensors", shapes)
    return shapes


def prompt_of(name):
    return [int(i) for i in ((noise(name, PROMPT) + 1) / 2 * VOCAB).astype(int)]


def neighbours(module):
    """Have a model rotate neighbouring channels, and not halves."""
    rotate = module.apply_rotary_pos_emb

    def halves(x):  # queries and keys in another order have the same products
        return x.unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)

    module.apply_rotary_pos_emb = lambda q, k, *rest, **more: rotate(halves(q), halves(k), *rest, **more)


# The published weights of Hunyuan V4 want neighbours, as vLLM and llama.cpp compute them.
neighbours(transformers.models.hy_v4.modeling_hy_v4)


def computed(folder, name, forced, pair, splade):
    """The prompt, the ids that follow it, and the log-probabilities at each position."""
    config = AutoConfig.from_pretrained(folder)
    kind = "sdpa" if getattr(config, "alibi", False) else "eager"  # Falcon's eager attention adds ALiBi twice
    model, report = auto(config).from_pretrained(folder, dtype=torch.float32, attn_implementation=kind,
                                                 output_loading_info=True)
    report["missing_keys"] = [k for k in report["missing_keys"] if not k.endswith(CONSTANTS)]
    bad = {k: v for k, v in report.items() if v}
    assert not bad, bad
    model.eval()
    prompt = prompt_of(name)
    if (head := head_of(config)) is not None:
        prompt = [i + 3 if i < 3 else i for i in prompt]  # without those that pad
        return {"prompt": prompt, **pair, **read(model, head, prompt, splade, **pair)}
    source, ids = (prompt, [config.decoder_start_token_id]) if config.is_encoder_decoder else (None, list(prompt))
    ids += forced
    first = len(ids)

    def logits():
        with torch.no_grad():
            if source:
                return model(input_ids=torch.tensor([source]), decoder_input_ids=torch.tensor([ids]),
                             use_cache=False).logits[0].double()
            return model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].double()

    grows = "dynamic" in json.dumps(config.to_dict().get("rope_parameters"))  # each token turns all before it
    for _ in range(0 if grows else GREEDY):
        last = logits()[-1]
        best = torch.topk(last, 2).values
        if best[0] - best[1] < 1e-3:
            return None
        ids.append(int(last.argmax()))
    logprobs = logits().log_softmax(-1)
    samples = [[round(float(logprobs[p, t]), 5) for t in sampled(ids, p)] for p in range(len(ids) - 1)]
    return {"prompt": prompt, "greedy": ids[first:], "sampled": samples}


def read(model, head, ids, splade, second=None):
    """What an encoder computes of a text, or of a pair of texts."""
    more = {}
    if second is not None:
        more["token_type_ids"] = torch.tensor([[int(p >= second) for p in range(len(ids))]])
    with torch.no_grad():
        out = model(input_ids=torch.tensor([ids]), attention_mask=torch.ones(1, len(ids), dtype=torch.long), **more)

    def listed(rows):
        return [[round(float(x), 5) for x in row] for row in rows]

    if head == "texts":
        return {"scores": listed(out.logits)[0]}
    if head == "tokens":
        return {"labels": listed(out.logits[0])}
    if head == "terms":  # as SpladePooling of sentence-transformers
        each = out.logits[0].relu().log1p()
        if splade.get("activation_function") == "log1p_relu":
            each = each.log1p()
        whole = each.sum(0) if splade.get("pooling_strategy") == "sum" else each.max(0).values
        return {"splade": splade, "terms": listed([whole])[0]}
    vectors = out.last_hidden_state[0]
    return {"vectors": listed([[vectors[p, (7 * p + 89 * k) % vectors.shape[1]] for k in range(SAMPLES)]
                               for p in range(len(ids))])}


def case(variant, config, folder):
    shapes, forced = saved(folder, config), [FORCED] if variant == "forced" else []
    pair, splade = {"second": SECOND} if variant.startswith("pair") else {}, SPLADE.get(variant, {})
    for seed in itertools.count():  # the first prompt whose likeliest tokens are that by far
        if found := computed(folder, f"prompt {seed}", forced, pair, splade):
            break
    text = json.loads((folder / "config.json").read_text())
    if forced:
        text["forced_bos_token_id"], = forced
    return {"name": variant, "config": text, "tensors": named(shapes), **found}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    if args.folder:
        [(_, _, config)] = cases(args.names)
        args.folder.mkdir(parents=True, exist_ok=True)
        saved(args.folder, config)
        tokenizer(args.folder)
        return
    for family, group in itertools.groupby(cases(args.names), lambda c: c[0]):
        found = []
        for _, variant, config in group:
            with tempfile.TemporaryDirectory() as folder:
                found.append(case(variant, config, pathlib.Path(folder)))
            if found[0]["name"] == "plain" and variant != "plain" and same(found[0], found[-1]):
                print(f"{family}/{variant}: computes what plain does", file=sys.stderr)
        archive(family, found)


def same(a, b):
    """Whether two cases compute the same."""
    return all(a.get(k) == b.get(k) for k in ("sampled", "vectors", "scores", "labels", "terms"))


def archive(family, found):
    """Write cases into the file of a family. Its other cases stay, in the order of the table."""
    path, new, order = ARCHIVE / f"{family}.json", {c["name"] for c in found}, ["plain", *FAMILIES[family][2]]
    if path.exists():
        found += [c for c in json.loads(path.read_text())["cases"] if c["name"] not in new and c["name"] in order]
    found.sort(key=lambda c: order.index(c["name"]))
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in found)
    ARCHIVE.mkdir(exist_ok=True)
    path.write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n')


def tokenizer(folder):
    """A tokenizer of a letter for each token."""
    vocab = [["<unk>", 0], ["<s>", 0], ["</s>", 0]] + [[chr(0x100 + i), -i - 1.0] for i in range(VOCAB - 3)]
    (folder / "tokenizer.json").write_text(json.dumps({
        "added_tokens": [], "model": {"type": "Unigram", "unk_id": 0, "vocab": vocab}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))


if __name__ == "__main__":
    main()
