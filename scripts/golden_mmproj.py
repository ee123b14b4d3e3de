#!/usr/bin/env python3
"""The projectors that llama.cpp's converter writes of small checkpoints: the witness of go/convert.

Needs torch, transformers 5 and a copy of llama.cpp, and nothing that the build or the tests need.

    golden_mmproj.py LLAMA.CPP           write go/convert/testdata/mmproj/
    golden_mmproj.py LLAMA.CPP NAME...   only these cases

pictures.json has the cases with an encoder of pictures, sounds.json the others. A case has

    name      of the projector, and of a variant
    types     that llama.cpp writes, if not all three
    config    config.json
    processor preprocessor_config.json
    also      other spellings of names of tensors, as "WAS>IS" with the beginning of names: they convert to the same
    tensors   those of the checkpoint, in lines as golden_hf.py has them
    keys      of the file, each with its type
    written   a line for each tensor of the file: its name, its types with --outtype f32, f16 and q8_0, its dimensions,
              the innermost first, and the first 8 hexadecimal digits of the SHA-256 of its numbers in F32. For layers
              after the first it is one line: the beginning of their names, how many tensors there are, and those
              digits of the SHA-256 of their lines. Tensors of which functions such as sines are computed have a ~ and
              some numbers in place of the hash: i * 7919 modulo their count says which
"""

import copy
import hashlib
import json
import logging
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest.mock

import numpy as np
import safetensors.numpy
import torch
import transformers
from golden_hf import named, noise, spread, written

ARCHIVE = pathlib.Path(__file__).parent.parent / "go/convert/testdata/mmproj"

TEXT = dict(vocab_size=48, hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=2,
            num_key_value_heads=1, head_dim=16, max_position_embeddings=128, bos_token_id=0, eos_token_id=1,
            pad_token_id=0)
GRID = dict(depth=3, hidden_size=32, intermediate_size=48, num_heads=2, patch_size=4, out_hidden_size=32)
VIT = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, image_size=16,
    patch_size=4)
WHISPER = dict(d_model=32, encoder_layers=3, encoder_attention_heads=2, encoder_ffn_dim=48, num_mel_bins=8,
               max_source_positions=10)
HALF = dict(image_mean=[0.5, 0.5, 0.5], image_std=[0.5, 0.5, 0.5])
CLIP = dict(image_mean=[0.48145466, 0.4578275, 0.40821073], image_std=[0.26862954, 0.26130258, 0.27577711])
TOWER = ("vision_tower.vision_model.", "vision_tower.")  # as published, and as transformers 5 has it

COMPUTED = ("qwen25o/a.position_embd.weight", "qwen3a/a.position_embd.weight", "qwen3omni/a.position_embd.weight",
    "gemma4/a.blk.0.per_dim_scale.weight", "nemotronv2/v.position_embd.weight",
    "resampler/resampler.pos_embed_k")

# What this release of llama.cpp gives a name that its own reader has for another tensor.
MISNAMED = {"llama4": ("attn_post_norm", "ln2"), "granitespeech": ("conv_norm_var.", "conv_norm.")}

# Cases whose encoder of sounds is left out.
DEAF = ("mimo",)

# What it leaves out, though its own reader wants it: the row of this number of a tensor.
LEFT_OUT = {"mistral3": ("v.token_embd.img_break", "language_model.model.embed_tokens.weight", 12),
            "pixtral": ("v.token_embd.img_break", "language_model.model.embed_tokens.weight", 12)}

# Names of tensors that transformers 5 saves otherwise than they were published.
PUBLISHED = {
    "gemma3": [(r"^vision_tower\.", TOWER[0]), ],
    "lfm2": [(r"^model\.vision_tower\.", "model.vision_tower.vision_model.")],
    "granite4vision": [(r"^model\.vision_tower\.", "model.vision_tower.vision_model.")],
    "internvl": [(r"^(vision_tower|multi_modal_projector)\.", r"model.\1.")],
}

ULTRAVOX = {"audio_tower." + n: s for n, s in {
    "conv1.weight": [32, 8, 3], "conv1.bias": [32], "conv2.weight": [32, 32, 3], "conv2.bias": [32],
    "embed_positions.weight": [10, 32], "layer_norm.weight": [32], "layer_norm.bias": [32]}.items()}


def linear(name, rows, columns, bias=True):
    return {name + ".weight": [rows, columns]} | ({name + ".bias": [rows]} if bias else {})


def norm(name, n, bias=True):
    return {name + ".weight": [n]} | ({name + ".bias": [n]} if bias else {})


def layers(prefix, n, *parts):
    return {f"{prefix}{i}.{name}": shape for i in range(n) for part in parts for name, shape in part.items()}


WHISPER_LAYER = (
    norm("self_attn_layer_norm", 32), norm("final_layer_norm", 32), linear("self_attn.q_proj", 32, 32),
    linear("self_attn.k_proj", 32, 32, False), linear("self_attn.v_proj", 32, 32), linear("self_attn.out_proj", 32, 32),
    linear("fc1", 48, 32), linear("fc2", 32, 48))

SLIM = dict(vocab_size_per_layer_input=48, hidden_size_per_layer_input=4)
OMNI = dict(WHISPER, encoder_layers=4, num_mel_bins=16, downsample_hidden_size=8, output_dim=32)
SOUNDS = {"thinker." + n: s for n, s in {
    **{f"audio_tower.conv2d{i}.{k}": s for i in (1, 2, 3)
       for k, s in {"weight": [8, 8 if i > 1 else 1, 3, 3], "bias": [8]}.items()},
    **linear("audio_tower.conv_out", 32, 16, False), **norm("audio_tower.ln_post", 32), **linear("audio_tower.proj1",
        32, 32),
    **linear("audio_tower.proj2", 32, 32), **layers("audio_tower.layers.", 4, *WHISPER_LAYER),
        "model.embed_tokens.weight": [48, 32],
    **{f"audio_tower.layers.{i}.self_attn.k_proj.bias": [32] for i in range(4)}}.items()}

# Checkpoints whose code is not part of transformers: config.json and the shapes of tensors.
FOREIGN = {
    "ultravox": (
        dict(architectures=["UltravoxModel"], model_type="ultravox", hidden_size=64, stack_factor=8,
            projector_act="swiglu",
             norm_init=0.4, projector_ln_mid=True, text_config=dict(TEXT, model_type="llama"),
             audio_config=dict(WHISPER, model_type="whisper")),
        ULTRAVOX | layers("audio_tower.layers.", 3, *WHISPER_LAYER) | norm("multi_modal_projector.ln_pre", 256, False)
            | norm("multi_modal_projector.ln_mid", 32, False)
        | linear("multi_modal_projector.linear_1", 64, 256, False) | linear("multi_modal_projector.linear_2", 32, 32,
            False)),
    "internvl/chat": (
        dict(architectures=["InternVLChatModel"], model_type="internvl_chat", downsample_ratio=0.5, min_dynamic_patch=1,
             max_dynamic_patch=12, llm_config=dict(TEXT, architectures=["Qwen2ForCausalLM"], model_type="qwen2"),
             vision_config=dict(VIT, num_hidden_layers=4, architectures=["InternVisionModel"],
             model_type="intern_vit_6b", hidden_act="gelu",
                                layer_norm_eps=1e-6, qkv_bias=True, qk_normalization=False)),
        {"vision_model.embeddings.class_embedding": [1, 1, 32], "vision_model.embeddings.position_embedding": [1, 17,
            32],
         "language_model.model.embed_tokens.weight": [48, 32]}
        | {"vision_model.embeddings.patch_embedding.weight": [32, 3, 4, 4],
            "vision_model.embeddings.patch_embedding.bias": [32]}
        | layers("vision_model.encoder.layers.", 4, norm("norm1", 32), norm("norm2", 32), {"ls1": [32], "ls2": [32]},
                 linear("attn.qkv", 96, 32), linear("attn.proj", 32, 32), linear("mlp.fc1", 48, 32), linear("mlp.fc2",
                 32, 48))
        | norm("mlp1.0", 128) | linear("mlp1.1", 32, 128) | linear("mlp1.3", 32, 32)),
    "internvl/norms": (
        dict(architectures=["InternVLChatModel"], model_type="internvl_chat", downsample_ratio=0.5,
             llm_config=dict(TEXT, architectures=["Qwen2ForCausalLM"], model_type="qwen2"),
             vision_config=dict(VIT, num_hidden_layers=4, architectures=["InternVisionModel"],
             model_type="intern_vit_6b", hidden_act="gelu",
                                layer_norm_eps=1e-6, qkv_bias=False, qk_normalization=True)),
        {"vision_model.embeddings.class_embedding": [1, 1, 32], "vision_model.embeddings.position_embedding": [1, 17,
            32]}
        | {"vision_model.embeddings.patch_embedding.weight": [32, 3, 4, 4],
            "vision_model.embeddings.patch_embedding.bias": [32]}
        | layers("vision_model.encoder.layers.", 4, norm("norm1", 32, False), norm("norm2", 32, False), {"ls1": [32],
            "ls2": [32]},
                 linear("attn.qkv", 96, 32, False), norm("attn.q_norm", 32, False), norm("attn.k_norm", 32, False),
                 linear("attn.proj", 32, 32), linear("mlp.fc1", 48, 32), linear("mlp.fc2", 32, 48))
        | norm("mlp1.0", 128) | linear("mlp1.1", 32, 128) | linear("mlp1.3", 32, 32)),
    "qwen3a": (
        dict(architectures=["Qwen3ASRForConditionalGeneration"], model_type="qwen3_asr", thinker_config=dict(
            text_config=TEXT, audio_config=dict(OMNI, model_type="qwen3_asr_audio_encoder"))),
        SOUNDS),
    "qwen3omni": (
        dict(architectures=["Qwen3OmniMoeForConditionalGeneration"], model_type="qwen3_omni_moe", thinker_config=dict(
            text_config=dict(TEXT, rms_norm_eps=1e-5), audio_config=dict(OMNI,
            model_type="qwen3_omni_moe_audio_encoder"),
            vision_config=dict(GRID, num_position_embeddings=16, deepstack_visual_indexes=[0, 2],
            model_type="qwen3_omni_moe_vision_encoder"))),
        SOUNDS | {"visual.pos_embed.weight": [16, 32], "visual.patch_embed.proj.weight": [32, 3, 2, 4, 4],
                  "visual.patch_embed.proj.bias": [32], "code2wav.code_embedding.weight": [4, 4],
                  "talker.model.layers.0.mlp.up_proj.weight": [4, 4]}
        | layers("visual.blocks.", 3, norm("norm1", 32), norm("norm2", 32), linear("attn.qkv", 96, 32),
                 linear("attn.proj", 32, 32), linear("mlp.linear_fc1", 48, 32), linear("mlp.linear_fc2", 32, 48))
        | norm("visual.merger.ln_q", 32) | linear("visual.merger.mlp.0", 128, 128)
        | linear("visual.merger.mlp.2", 32, 128)
        | layers("visual.merger_list.", 2, norm("ln_q", 128), linear("mlp.0", 128, 128), linear("mlp.2", 32, 128))),
    "kimivl": (
        dict(architectures=["KimiVLForConditionalGeneration"], model_type="kimi_vl", text_config=dict(TEXT,
            model_type="deepseek_v3"),
             vision_config=dict(hidden_size=32, init_pos_emb_height=4, init_pos_emb_width=4, intermediate_size=48,
                                merge_kernel_size=[2, 2], model_type="moonvit", num_attention_heads=2,
                                num_hidden_layers=3,
                                patch_size=4)),
        {"vision_tower.patch_embed.pos_emb.weight": [4, 4, 32], "vision_tower.patch_embed.proj.weight": [32, 3, 4, 4],
         "vision_tower.patch_embed.proj.bias": [32], "language_model.model.embed_tokens.weight": [48, 32]}
        | layers("vision_tower.encoder.blocks.", 3, norm("norm0", 32), norm("norm1", 32), linear("wqkv", 96, 32),
                 linear("wo", 32, 32), linear("mlp.fc0", 48, 32), linear("mlp.fc1", 32, 48))
        | norm("vision_tower.encoder.final_layernorm", 32) | norm("multi_modal_projector.pre_norm", 32)
        | linear("multi_modal_projector.linear_1", 128, 128) | linear("multi_modal_projector.linear_2", 32, 128)),
    "kimik25": (
        dict(architectures=["KimiK25ForConditionalGeneration"], model_type="kimi_k25_as_published",
            text_config=dict(TEXT, model_type="deepseek_v3"),
             vision_config=dict(vt_hidden_size=32, init_pos_emb_height=4, init_pos_emb_width=4, init_pos_emb_time=4,
                                vt_intermediate_size=48, merge_kernel_size=[2, 2], vt_num_attention_heads=2,
                                num_attention_heads=2,
                                vt_num_hidden_layers=3, patch_size=4, projector_hidden_act="gelu",
                                projector_ln_eps=1e-5)),
        {"vision_tower.patch_embed.pos_emb.weight": [4, 4, 32], "vision_tower.patch_embed.proj.weight": [32, 3, 4, 4],
         "vision_tower.patch_embed.proj.bias": [32], "language_model.model.embed_tokens.weight": [48, 32]}
        | layers("vision_tower.encoder.blocks.", 3, norm("norm0", 32), norm("norm1", 32), linear("wqkv", 96, 32),
                 linear("wo", 32, 32), linear("mlp.fc0", 48, 32), linear("mlp.fc1", 32, 48))
        | norm("vision_tower.encoder.final_layernorm", 32) | norm("mm_projector.pre_norm", 32)
        | linear("mm_projector.proj.0", 128, 128) | linear("mm_projector.proj.2", 32, 128)),
}

FOREIGN |= {
    "exaone45": (
        dict(architectures=["Exaone4_5_ForConditionalGeneration"], model_type="exaone4_5_x", text_config=dict(TEXT,
            model_type="exaone4"),
             vision_config=dict(GRID, depth=4, num_key_value_heads=1, fullatt_block_indexes=[1, 3], window_size=16,
             rms_norm_eps=1e-5)),
        {"model.visual.patch_embed.proj.weight": [32, 3, 2, 4, 4], "model.language_model.embed_tokens.weight": [48, 32]}
        | layers("model.visual.blocks.", 4, norm("norm1", 32, False), norm("norm2", 32, False), linear("attn.qkv", 64,
            32), linear("attn.proj", 32, 32),
                 linear("mlp.gate_proj", 48, 32), linear("mlp.up_proj", 48, 32), linear("mlp.down_proj", 32, 48))
        | norm("model.visual.merger.ln_q", 32, False) | linear("model.visual.merger.mlp.0", 128, 128)
        | linear("model.visual.merger.mlp.2", 32, 128)),
    "januspro": (
        dict(architectures=["JanusForConditionalGeneration"], model_type="janus_x", text_config=dict(TEXT,
            model_type="llama"),
             vision_config=dict(hidden_size=32, mlp_ratio=2.0, num_hidden_layers=3, num_attention_heads=2,
             image_size=16, patch_size=4,
                                hidden_act="gelu", layer_norm_eps=1e-6)),
        {"model.vision_model.embeddings.patch_embedding.weight": [32, 3, 4, 4],
            "model.vision_model.embeddings.patch_embedding.bias": [32],
         "model.vision_model.embeddings.position_embedding.weight": [16, 32],
             "model.language_model.embed_tokens.weight": [48, 32],
         "model.vqmodel.quantize.embedding.weight": [4, 4], "model.generation_head.vision_head.weight": [4, 4],
         "model.generation_embeddings.weight": [4, 4], "model.generation_aligner.fc1.weight": [4, 4]}
        | layers("model.vision_model.encoder.layers.", 3, norm("layer_norm1", 32), norm("layer_norm2", 32),
            linear("self_attn.q_proj", 32, 32),
                 linear("self_attn.k_proj", 32, 32), linear("self_attn.v_proj", 32, 32),
                 linear("self_attn.projection_layer", 32, 32),
                 linear("mlp.fc1", 64, 32), linear("mlp.fc2", 32, 64))
        | norm("model.vision_model.post_layernorm", 32) | linear("model.aligner.fc1", 32, 32)
            | linear("model.aligner.hidden_layers.0", 32, 32)),
    "glma": (
        dict(architectures=["GlmasrModel"], model_type="Glmasr", merge_factor=4, lm_config=dict(TEXT,
            model_type="llama"),
             whisper_config=dict(WHISPER, model_type="whisper")),
        {n.replace("audio_tower.", "audio_encoder.whisper."): s
         for n, s in (ULTRAVOX | layers("audio_tower.layers.", 3, *WHISPER_LAYER)).items()
             if "layer_norm." not in n[:24]}
        | norm("audio_encoder.layer_norm", 32) | linear("audio_encoder.adapting.0", 64, 128)
            | linear("audio_encoder.adapting.2", 32, 64)
        | {"audio_encoder.audio_bos_eos_token.weight": [2, 32], "model.embed_tokens.weight": [48, 32]}),
    "musicflamingo": (
        dict(architectures=["AudioFlamingo3ForConditionalGeneration"], model_type="audioflamingo3_x",
            text_config=dict(TEXT, model_type="qwen2"),
             audio_config=dict(WHISPER, model_type="audioflamingo3_encoder")),
        ULTRAVOX | layers("audio_tower.layers.", 3, *WHISPER_LAYER) | linear("multi_modal_projector.linear_1", 32, 32)
        | linear("multi_modal_projector.linear_2", 32, 32) | {"language_model.model.embed_tokens.weight": [48, 32]}),
    "meralion": (
        dict(architectures=["MERaLiON2ForConditionalGeneration"], model_type="meralion2", speech_mlp_scale_factor=3,
             text_config=dict(TEXT, model_type="gemma2"), speech_config=dict(WHISPER, encoder_layers=4,
             model_type="whisper")),
        {n.replace("audio_tower.", "speech_encoder."): s for n, s in (ULTRAVOX | layers("audio_tower.layers.", 4,
            *WHISPER_LAYER)).items()}
        | norm("ln_speech", 32) | linear("speech_audio_adapter.mlp_adapter.0", 64, 96)
            | linear("speech_audio_adapter.gate_proj", 64, 64)
        | linear("speech_audio_adapter.pool_proj", 64, 64) | linear("speech_audio_adapter.out_proj", 32, 64)
        | {"text_decoder.model.embed_tokens.weight": [48, 32]}),
    "qwen25o": (
        dict(architectures=["Qwen2_5OmniModel"], model_type="qwen2_5_omni", thinker_config=dict(
            text_config=TEXT, audio_config=dict(WHISPER, model_type="qwen2_5_omni_audio_encoder_x", output_dim=32),
            vision_config=dict(GRID, fullatt_block_indexes=[1], window_size=16,
            model_type="qwen2_5_omni_vision_encoder_x"))),
        {"thinker." + n: s for n, s in (
            {n: s for n, s in (ULTRAVOX | layers("audio_tower.layers.", 3, *WHISPER_LAYER)).items()
            if "embed_pos" not in n and "tower.layer_norm" not in n}
            | norm("audio_tower.ln_post", 32) | linear("audio_tower.proj", 32, 32)
            | {"audio_tower.audio_bos_eos_token.weight": [2, 32]}
            | {"visual.patch_embed.proj.weight": [32, 3, 2, 4, 4], "model.embed_tokens.weight": [48, 32]}
            | layers("visual.blocks.", 3, norm("norm1", 32, False), norm("norm2", 32, False), linear("attn.qkv", 96,
            32), linear("attn.proj", 32, 32),
                     linear("mlp.gate_proj", 48, 32), linear("mlp.up_proj", 48, 32), linear("mlp.down_proj", 32, 48))
            | norm("visual.merger.ln_q", 32, False) | linear("visual.merger.mlp.0", 128, 128)
            | linear("visual.merger.mlp.2", 32, 128)).items()}
        | {"talker.model.layers.0.mlp.up_proj.weight": [4, 4], "token2wav.x.weight": [4, 4]}),
    "dotsocr": (
        dict(TEXT, architectures=["DotsOCRForCausalLM"], model_type="dots_ocr_x", vision_config=dict(
            embed_dim=32, hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2,
            patch_size=4,
            spatial_merge_size=2, rms_norm_eps=1e-5, use_bias=False)),
        {"vision_tower.patch_embed.patchifier.proj.weight": [32, 3, 4, 4],
            "vision_tower.patch_embed.patchifier.proj.bias": [32],
         "model.embed_tokens.weight": [48, 32]}
        | norm("vision_tower.patch_embed.patchifier.norm", 32, False)
        | layers("vision_tower.blocks.", 3, norm("norm1", 32, False), norm("norm2", 32, False), linear("attn.qkv", 96,
            32, False),
                 linear("attn.proj", 32, 32, False), linear("mlp.fc1", 48, 32, False), linear("mlp.fc2", 32, 48, False),
                 linear("mlp.fc3", 48, 32, False))
        | norm("vision_tower.post_trunk_norm", 32, False) | norm("vision_tower.merger.ln_q", 32)
        | linear("vision_tower.merger.mlp.0", 128, 128) | linear("vision_tower.merger.mlp.2", 32, 128)),
    "paddleocr": (
        dict(TEXT, architectures=["PaddleOCRVLForConditionalGeneration"], model_type="paddleocr_vl_x",
            vision_config=dict(
            VIT, architectures=["PaddleOCRVisionModel"], model_type="paddleocr_vl", hidden_act="gelu_pytorch_tanh")),
        {"visual.vision_model.embeddings.patch_embedding.weight": [32, 3, 4, 4],
            "visual.vision_model.embeddings.patch_embedding.bias": [32],
         "visual.vision_model.embeddings.position_embedding.weight": [16, 32],
         "visual.vision_model.embeddings.packing_position_embedding.weight": [32, 32],
             "visual.vision_model.head.probe": [1, 1, 32],
         "model.embed_tokens.weight": [48, 32]}
        | layers("visual.vision_model.encoder.layers.", 3, norm("layer_norm1", 32), norm("layer_norm2", 32),
            linear("self_attn.q_proj", 32, 32),
                 linear("self_attn.k_proj", 32, 32), linear("self_attn.v_proj", 32, 32), linear("self_attn.out_proj",
                 32, 32),
                 linear("mlp.fc1", 48, 32), linear("mlp.fc2", 32, 48))
        | norm("visual.vision_model.post_layernorm", 32) | norm("mlp_AR.pre_norm", 32) | linear("mlp_AR.linear_1", 128,
            128)
        | linear("mlp_AR.linear_2", 32, 128)),
    "hunyuanvl": (
        dict(TEXT, architectures=["HunYuanVLForConditionalGeneration"], model_type="hunyuan_vl_x", vision_config=dict(
            hidden_size=32, intermediate_size=48, num_hidden_layers=3, num_attention_heads=2, patch_size=4,
            max_image_size=16,
            spatial_merge_size=2, rms_norm_eps=1e-5, hidden_act="gelu")),
        {"vit.embeddings.patch_embedding.weight": [32, 3, 4, 4], "vit.embeddings.patch_embedding.bias": [32],
         "vit.embeddings.position_embedding.weight": [17, 32], "vit.perceive.image_newline": [64],
             "vit.perceive.image_begin": [32],
         "vit.perceive.image_end": [32], "vit.perceive.image_sep": [32], "vit.perceive.proj.0.weight": [64, 32, 2, 2],
         "vit.perceive.proj.0.bias": [64], "vit.perceive.proj.2.weight": [64, 64, 1, 1],
             "vit.perceive.proj.2.bias": [64],
         "model.embed_tokens.weight": [48, 32]}
        | linear("vit.perceive.mlp", 32, 64) | norm("vit.perceive.before_rms", 32, False)
            | norm("vit.perceive.after_rms", 32, False)
        | layers("vit.layers.", 3, norm("input_layernorm", 32), norm("post_attention_layernorm", 32),
            linear("self_attn.q_proj", 32, 32),
                 linear("self_attn.k_proj", 32, 32), linear("self_attn.v_proj", 32, 32), linear("self_attn.o_proj", 32,
                 32),
                 linear("mlp.dense_h_to_4h", 48, 32), linear("mlp.dense_4h_to_h", 32, 48))),
    "minicpmv46": (
        dict(architectures=["MiniCPMV4_6ForConditionalGeneration"], model_type="minicpmv4_6_x", insert_layer_id=1,
             text_config=dict(TEXT, model_type="qwen3_5"), vision_config=dict(VIT, model_type="siglip_vision_model",
             hidden_act="gelu_pytorch_tanh")),
        {"model.vision_tower.embeddings.patch_embedding.weight": [32, 3, 4, 4],
            "model.vision_tower.embeddings.patch_embedding.bias": [32],
         "model.vision_tower.embeddings.position_embedding.weight": [16, 32],
             "model.language_model.embed_tokens.weight": [48, 32],
         "mtp.norm.weight": [32]}
        | layers("model.vision_tower.encoder.layers.", 3, norm("layer_norm1", 32), norm("layer_norm2", 32),
            linear("self_attn.q_proj", 32, 32),
                 linear("self_attn.k_proj", 32, 32), linear("self_attn.v_proj", 32, 32), linear("self_attn.out_proj",
                 32, 32),
                 linear("mlp.fc1", 48, 32), linear("mlp.fc2", 32, 48))
        | norm("model.vision_tower.post_layernorm", 32) | norm("model.vision_tower.vit_merger.layer_norm1", 32)
        | linear("model.vision_tower.vit_merger.self_attn.q_proj", 32, 32)
            | linear("model.vision_tower.vit_merger.self_attn.k_proj", 32, 32)
        | linear("model.vision_tower.vit_merger.self_attn.v_proj", 32, 32)
            | linear("model.vision_tower.vit_merger.self_attn.out_proj", 32, 32)
        | norm("model.vision_tower.vit_merger.pre_norm", 128) | linear("model.vision_tower.vit_merger.linear_1", 64,
            128)
        | linear("model.vision_tower.vit_merger.linear_2", 32, 64) | norm("model.merger.mlp.0.pre_norm", 128)
        | linear("model.merger.mlp.0.linear_1", 64, 128) | linear("model.merger.mlp.0.linear_2", 32, 64)),
}

CONFORMER_LAYER = (
    {"conv.depthwise_conv.weight": [32, 1, 5]}, *(norm(n, 32) for n in ("norm_feed_forward1", "norm_self_att", "norm_conv",
        "norm_feed_forward2", "norm_out")))
BATCHES = {"weight": [32], "bias": [32], "running_mean": [32], "running_var": [32], "num_batches_tracked": []}


def thinned(prefix):
    """What makes one token of eight frames of 16 bands."""
    return {f"{prefix}{i}.{k}": s for i in (0, 2, 3, 5, 6)
            for k, s in {"weight": [8, 8, 1, 1] if i in (3, 6) else [8, 1, 3, 3], "bias": [8]}.items()}


FOREIGN |= {
    "lfm2a": (
        dict(architectures=["Lfm2AudioForConditionalGeneration"], model_type="lfm2_audio", lfm=dict(TEXT,
            model_type="lfm2"), hidden_size=32, encoder=dict(feat_in=16, feat_out=-1, n_layers=7, d_model=32,
            n_heads=2, ff_expansion_factor=2, subsampling_factor=8, subsampling_conv_channels=8, conv_kernel_size=5)),
        thinned("conformer.pre_encode.conv.") | linear("conformer.pre_encode.out", 32, 16)
        | layers("conformer.layers.", 7, *CONFORMER_LAYER, *(linear(f"feed_forward{i}.linear1", 48, 32) | linear(f"feed_forward{i}.linear2", 32, 48)
                   for i in (1, 2)),
                 *(linear(f"self_attn.linear_{n}", 32, 32) for n in ("q", "k", "v", "out")),
                 linear("self_attn.linear_pos", 32, 32, False),
                 {"self_attn.pos_bias_u": [2, 16], "self_attn.pos_bias_v": [2, 16],
                  "conv.depthwise_conv.weight": [32, 1, 5], "conv.depthwise_conv.bias": [32],
                  "conv.pointwise_conv1.weight": [64, 32, 1], "conv.pointwise_conv1.bias": [64],
                  "conv.pointwise_conv2.weight": [32, 32, 1], "conv.pointwise_conv2.bias": [32]},
                 {"conv.batch_norm." + k: s for k, s in BATCHES.items()})
        | norm("audio_adapter.model.0", 32) | linear("audio_adapter.model.1", 48, 32)
        | linear("audio_adapter.model.3", 32, 48)
        | {"audio_embedding.embedding.weight": [20, 32], "audio_embedding.to_logits.weight": [20, 32],
           "audio_embedding.embedding_norm.weight": [32], "audio_loss_weights": [4], "codebook_offsets": [4],
           "depth_embeddings.0.embedding.weight": [4, 4], "depthformer.layers.0.ffn_norm.weight": [4],
           "depth_linear.weight": [4, 4], "lfm.embed_tokens.weight": [48, 32]}),
    "mimo": (
        dict(TEXT, architectures=["MiMoV2ForCausalLM"], model_type="mimo_v2", audio_config=dict(
             input_local_layers=1, group_size=4, audio_channels=1), vision_config=dict(
             depth=3, hidden_size=32, intermediate_size=48, num_heads=4, num_key_value_heads=2, qk_channels=8,
             patch_size=4, temporal_patch_size=2, spatial_merge_size=2, fullatt_block_indexes=[2],
             vit_window_attn_types=[0, 1, -1], visual_token_window_size=8, use_sink=True)),
        {"visual.patch_embed.proj.weight": [32, 3, 2, 4, 4], "model.embed_tokens.weight": [48, 32],
         "speech_embeddings.0.weight": [4, 8]}
        | layers("visual.blocks.", 3, norm("norm1", 32, False), norm("norm2", 32, False), linear("attn.qkv", 64, 32),
                 linear("attn.proj", 32, 32), {"attn.sinks": [4]}, linear("mlp.gate_proj", 48, 32),
                 linear("mlp.up_proj", 48, 32), linear("mlp.down_proj", 32, 48))
        | norm("visual.merger.ln_q", 32, False) | linear("visual.merger.mlp.0", 128, 128, False)
        | linear("visual.merger.mlp.2", 32, 128, False)
        | linear("audio_encoder.projection.mlp.0", 8, 8, False) | linear("audio_encoder.projection.mlp.2", 32, 8, False)
        | norm("audio_encoder.input_local_transformer.norm", 8, False)),
    "step3vl": (
        dict(TEXT, architectures=["StepVLForConditionalGeneration"], model_type="step_robotics",
             understand_projector_stride=2, vision_config=dict(width=1536, layers=47, heads=16, image_size=728,
             patch_size=14, use_cls_token=False)),
        {"vision_model.conv1.weight": [8, 3, 2, 2], "vision_model.positional_embedding": [9, 8],
         "vision_model.vit_downsampler1.weight": [12, 8, 3, 3], "vision_model.vit_downsampler1.bias": [12],
         "vision_model.vit_downsampler2.weight": [16, 12, 3, 3], "vision_model.vit_downsampler2.bias": [16],
         "vit_large_projector.weight": [32, 16], "model.embed_tokens.weight": [48, 32]}
        | norm("vision_model.ln_pre", 8)
        | layers("vision_model.transformer.resblocks.", 47, norm("ln_1", 8), norm("ln_2", 8),
                 {"attn.in_proj_weight": [24, 8], "attn.in_proj_bias": [24], "ls_1.gamma": [8], "ls_2.gamma": [8]},
                 linear("attn.out_proj", 8, 8), linear("mlp.c_fc", 12, 8), linear("mlp.c_proj", 8, 12))),
    "youtuvl": (
        dict(TEXT, architectures=["YoutuVLForConditionalGeneration"], model_type="youtu_vl", vision_config=dict(
             VIT, num_hidden_layers=4, model_type="siglip2_vision_model", window_size=16, fullatt_block_indexes=[1, 3],
             spatial_merge_size=2, hidden_act="gelu_pytorch_tanh", layer_norm_eps=1e-5)),
        {"siglip2.vision_model.embeddings.patch_embedding.weight": [32, 48],
         "siglip2.vision_model.embeddings.patch_embedding.bias": [32], "model.embed_tokens.weight": [48, 32]}
        | layers("siglip2.vision_model.encoder.layers.", 4, norm("layer_norm1", 32), norm("layer_norm2", 32),
                 *(linear(f"self_attn.{n}_proj", 32, 32) for n in ("q", "k", "v", "out")), linear("mlp.fc1", 48, 32),
                 linear("mlp.fc2", 32, 48))
        | norm("siglip2.vision_model.post_layernorm", 32) | norm("merger.ln_q", 32, False)
        | linear("merger.mlp.0", 128, 128) | linear("merger.mlp.2", 32, 128)),
    "phi4": (
        dict(TEXT, architectures=["Phi4ForCausalLMV"], model_type="phi4-siglip", vision_config=dict(
             hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2,
             model_type="siglip2_vision_model")),
        {"model.vision_tower.vision_tower.vision_model.embeddings.patch_embedding.weight": [32, 48],
         "model.vision_tower.vision_tower.vision_model.embeddings.patch_embedding.bias": [32],
         "model.vision_tower.vision_tower.vision_model.embeddings.position_embedding.weight": [16, 32],
         "model.vision_tower.vision_tower.vision_model.head.probe": [1, 1, 32],
         "model.embed_tokens.weight": [48, 32]}
        | layers("model.vision_tower.vision_tower.vision_model.encoder.layers.", 4, norm("layer_norm1", 32),
                 norm("layer_norm2", 32), *(linear(f"self_attn.{n}_proj", 32, 32) for n in ("q", "k", "v", "out")),
                 linear("mlp.fc1", 48, 32), linear("mlp.fc2", 32, 48))
        | norm("model.vision_tower.vision_tower.vision_model.post_layernorm", 32)
        | linear("model.mm_projector.0", 48, 32) | linear("model.mm_projector.2", 32, 48)),
}

RADIO = {
    "vision_model.radio_model.model.patch_generator.embedder.weight": [1280, 48],
    "vision_model.radio_model.model.patch_generator.pos_embed": [1, 16, 1280],
    "vision_model.radio_model.model.patch_generator.cls_token.token": [3, 32],
    "vision_model.radio_model.model.patch_generator.video_embedder.weight": [32, 96],
    "vision_model.radio_model.input_conditioner.norm_mean": [3, 1, 1], "language_model.backbone.norm.weight": [32],
} | layers("vision_model.radio_model.model.blocks.", 32, norm("norm1", 8), norm("norm2", 8), linear("attn.qkv", 24, 8),
           linear("attn.proj", 8, 8), linear("mlp.fc1", 12, 8), linear("mlp.fc2", 8, 12)
) | norm("mlp1.0", 32, False) | linear("mlp1.1", 48, 32, False) | linear("mlp1.3", 32, 48, False)

FOREIGN |= {
    "nemotronv2": (
        dict(architectures=["NemotronH_Nano_VL_V2"], model_type="NemotronH_Nano_VL_V2", force_image_size=12,
             downsample_ratio=0.5, llm_config=dict(TEXT, architectures=["NemotronHForCausalLM"],
             model_type="nemotron_h"), text_config=dict(TEXT), vision_config=dict(model_type="", patch_size=4)),
        RADIO),
    "nemotronv2/omni": (
        dict(architectures=["NemotronH_Nano_Omni_Reasoning_V3"], model_type="NemotronH_Nano_Omni_Reasoning_V3",
             force_image_size=16, downsample_ratio=0.5, text_config=dict(TEXT), vision_config=dict(
             architectures=["RADIOModel"], patch_size=4), sound_config=dict(model_type="parakeet", hidden_size=32,
             num_attention_heads=2, num_hidden_layers=2, intermediate_size=48, num_mel_bins=16, subsampling_factor=8,
             conv_kernel_size=5)),
        RADIO | thinned("sound_encoder.encoder.subsampling.layers.")
        | linear("sound_encoder.encoder.subsampling.linear", 32, 16)
        | layers("sound_encoder.encoder.layers.", 2, *CONFORMER_LAYER,
                 *(linear(f"feed_forward{i}.linear1", 48, 32, False) | linear(f"feed_forward{i}.linear2", 32, 48, False)
                   for i in (1, 2)),
                 *(linear(f"self_attn.{n}_proj", 32, 32, False) for n in ("q", "k", "v", "o", "relative_k")),
                 {"self_attn.bias_u": [2, 16], "self_attn.bias_v": [2, 16], "conv.pointwise_conv1.weight": [64, 32, 1],
                  "conv.pointwise_conv2.weight": [32, 32, 1]},
                 {"conv.norm." + k: s for k, s in BATCHES.items()})
        | {"sound_encoder.encoder.feature_extractor.featurizer.fb": [1, 16, 257],
           "sound_encoder.encoder.feature_extractor.featurizer.window": [400]}
        | norm("sound_projection.norm", 32, False) | linear("sound_projection.linear1", 48, 32, False)
        | linear("sound_projection.linear2", 32, 48, False)),
}
SAM = dict(width=64, layers=4, heads=2, global_attn_indexes=[1], downsample_channels=[40, 32])
SAM_SHAPES = {
    "model.sam_model.pos_embed": [1, 4, 4, 64], "model.sam_model.patch_embed.proj.weight": [64, 3, 4, 4],
    "model.sam_model.patch_embed.proj.bias": [64], "model.sam_model.neck.0.weight": [24, 64, 1, 1],
    "model.sam_model.neck.2.weight": [24, 24, 3, 3], "model.sam_model.net_2.weight": [40, 24, 3, 3],
    "model.sam_model.net_3.weight": [32, 40, 3, 3], "model.embed_tokens.weight": [48, 32], "model.view_seperator": [32],
} | norm("model.sam_model.neck.1", 24) | norm("model.sam_model.neck.3", 24) | layers(
    "model.sam_model.blocks.", 4, norm("norm1", 64), norm("norm2", 64), {"attn.rel_pos_h": [7, 32], "attn.rel_pos_w": [7, 32]},
    linear("attn.qkv", 192, 64), linear("attn.proj", 64, 64), linear("mlp.lin1", 96, 64), linear("mlp.lin2", 64, 96))
FOREIGN |= {
    "deepseekocr": (
        dict(TEXT, architectures=["DeepseekOCRForCausalLM"], model_type="deepseek_vl_v2", language_config=dict(TEXT,
             architectures=["DeepseekV2ForCausalLM"], model_type="deepseek_v2"), vision_config=dict(
             image_size=64, mlp_ratio=3.7, model_type="vision", width={"clip-l-14-224": dict(heads=2, image_size=16,
             layers=4, patch_size=4, width=32), "sam_vit_b": SAM})),
        SAM_SHAPES | {"model.image_newline": [32], "model.vision_model.embeddings.class_embedding": [32],
                      "model.vision_model.embeddings.patch_embedding.weight": [32, 3, 4, 4],
                      "model.vision_model.embeddings.position_embedding.weight": [17, 32]}
        | norm("model.vision_model.pre_layrnorm", 32)
        | layers("model.vision_model.transformer.layers.", 4, norm("layer_norm1", 32), norm("layer_norm2", 32),
                 linear("self_attn.qkv_proj", 96, 32), linear("self_attn.out_proj", 32, 32), linear("mlp.fc1", 48, 32),
                 linear("mlp.fc2", 32, 48)) | linear("model.projector.layers", 32, 64)),
    "deepseekocr2": (
        dict(TEXT, architectures=["DeepseekOCR2ForCausalLM"], model_type="deepseek_vl_v2", vision_config=dict(
             image_size=1024, mlp_ratio=3.7, model_type="vision", layers=4, width={"qwen2-0-5b": dict(dim=32),
             "sam_vit_b": SAM})),
        SAM_SHAPES | {"model.qwen2_model.query_768.weight": [4, 32], "model.qwen2_model.query_1024.weight": [9, 32]}
        | norm("model.qwen2_model.model.model.norm", 32, False)
        | layers("model.qwen2_model.model.model.layers.", 4, norm("input_layernorm", 32, False),
                 norm("post_attention_layernorm", 32, False), linear("self_attn.q_proj", 32, 32),
                 linear("self_attn.k_proj", 16, 32), linear("self_attn.v_proj", 16, 32),
                 linear("self_attn.o_proj", 32, 32, False), linear("mlp.gate_proj", 48, 32, False),
                 linear("mlp.up_proj", 48, 32, False), linear("mlp.down_proj", 32, 48, False))
        | linear("model.projector.layers", 32, 32)),
    "cogvlm": (
        dict(TEXT, architectures=["CogVLMForCausalLM"], model_type="cogvlm_x", vision_config=dict(VIT, num_heads=2,
             num_hidden_layers=4, layer_norm_eps=1e-6, num_positions=17, in_channels=3)),
        {"model.vision.patch_embedding.cls_embedding": [1, 32], "model.vision.patch_embedding.proj.weight": [32, 3, 4, 4],
         "model.vision.patch_embedding.proj.bias": [32], "model.vision.patch_embedding.position_embedding.weight": [17, 32],
         "model.vision.boi": [1, 1, 32], "model.vision.eoi": [1, 1, 32], "model.embed_tokens.weight": [48, 32],
         "model.layers.0.mlp.vision_mlp.up_proj.weight": [48, 32]}
        | layers("model.vision.transformer.layers.", 4, norm("input_layernorm", 32), norm("post_attention_layernorm", 32),
                 linear("attention.query_key_value", 96, 32), linear("attention.dense", 32, 32), linear("mlp.fc1", 48, 32),
                 linear("mlp.fc2", 32, 48))
        | linear("model.vision.linear_proj.linear_proj", 48, 32, False) | norm("model.vision.linear_proj.norm1", 48)
        | linear("model.vision.linear_proj.dense_h_to_4h", 40, 48, False)
        | linear("model.vision.linear_proj.gate_proj", 40, 48, False)
        | linear("model.vision.linear_proj.dense_4h_to_h", 32, 40, False)),
}
DOTS = linear("mlp.fc1", 48, 32, False) | linear("mlp.fc2", 32, 48, False) | linear("mlp.fc3", 48, 32, False)
DOTS_EXPERTS = {"mlp.gate_weight": [3, 32], "mlp.router_bias": [3]} | {
    f"mlp.experts.{i}.fc{k}.weight": [32, 48] if k == 2 else [48, 32] for i in range(3) for k in (1, 2, 3)}
FOREIGN["dots3note"] = (
    dict(TEXT, architectures=["Dots3NoteForConditionalGeneration"], model_type="dots3_note_x", vision_config=dict(
         embed_dim=32, hidden_size=32, intermediate_size=48, num_hidden_layers=4, num_attention_heads=2, patch_size=4,
         spatial_merge_size=2, rms_norm_eps=1e-5, pyramid_num_routed=[-1, -1, 3, 3], capacity_factor=2,
         adapter_type="patch_merger", pre_pixel_shuffle=True, router_scoring_func="sigmoid", router_scale=1.0,
         temporal_patch_size=1, use_bias=False, use_qk_norm=True), audio_config=dict(
         use_conv2d_stem=True, use_rope=True, use_rms_norm=True, use_causal=False, merge_factor=1, chunk_seconds=60,
         rope_parameters=dict(partial_rotary_factor=0.5, rope_theta=10000.0), whisper_config=dict(d_model=32,
         encoder_ffn_dim=48, encoder_attention_heads=2, encoder_layers=3, activation_function="swiglu", num_mel_bins=16))),
    {"vision_encoder.patch_embed.proj.weight": [32, 3, 4, 4], "vision_encoder.patch_embed.proj.bias": [32],
     "model.embed_tokens.weight": [48, 32]}
    | norm("vision_encoder.patch_embed.norm", 32, False) | norm("vision_encoder.post_trunk_norm", 32, False)
    | layers("vision_encoder.blocks.", 4, norm("norm_1", 32, False), norm("norm_2", 32, False),
             linear("attn.qkv", 96, 32, False), linear("attn.proj", 32, 32, False), norm("attn.q_norm", 16, False),
             norm("attn.k_norm", 16, False))
    | layers("vision_encoder.blocks.", 2, DOTS)
    | {f"vision_encoder.blocks.{i}.{n}": s for i in (2, 3) for n, s in DOTS_EXPERTS.items()}
    | norm("vision_encoder.adapter.ln_q", 32) | linear("vision_encoder.adapter.mlp.0", 128, 128)
    | linear("vision_encoder.adapter.mlp.2", 32, 128)
    | {f"audio_encoder.dots_encoder.speech_encoder.conv2d{i}.{k}": s for i in (1, 2, 3)
       for k, s in {"weight": [8, 8 if i > 1 else 1, 3, 3], "bias": [8]}.items()}
    | linear("audio_encoder.dots_encoder.speech_encoder.conv_out", 32, 16, False)
    | norm("audio_encoder.dots_encoder.speech_encoder.layer_norm", 32, False)
    | layers("audio_encoder.dots_encoder.speech_encoder.layers.", 3, norm("self_attn_layer_norm", 32, False),
             norm("final_layer_norm", 32, False), linear("self_attn.q_proj", 32, 32),
             linear("self_attn.k_proj", 32, 32, False), linear("self_attn.v_proj", 32, 32),
             linear("self_attn.out_proj", 32, 32), linear("fc1", 96, 32), linear("fc2", 32, 48))
    | norm("audio_encoder.audio_adapter.proj.0", 32) | linear("audio_encoder.audio_adapter.proj.1", 32, 32)
    | linear("audio_encoder.audio_adapter.proj.3", 32, 32))
FOREIGN["deepseekocr/unlimited"] = (FOREIGN["deepseekocr"][0] | dict(architectures=["UnlimitedOCRForCausalLM"]),
    FOREIGN["deepseekocr"][1])
FOREIGN["step3vl/flash"] = (FOREIGN["step3vl"][0] | dict(architectures=["Step3p7ForConditionalGeneration"],
    model_type="step3p7", text_config=dict(TEXT, model_type="step3p5")), FOREIGN["step3vl"][1])

FOREIGN["qwen2vl/sarashina"] = (
    dict(architectures=["Sarashina2VisionForCausalLM"], model_type="sarashina2_vision", text_config=dict(TEXT,
        model_type="llama"), vision_config=dict(depth=3, embed_dim=32, hidden_size=32, num_heads=2, patch_size=4,
        mlp_ratio=2, model_type="qwen2_vl")),
    {"visual.patch_embed.proj.weight": [32, 3, 2, 4, 4], "llm.model.embed_tokens.weight": [48, 32], "norm.weight": [32]}
    | layers("visual.blocks.", 3, norm("norm1", 32), norm("norm2", 32), linear("attn.qkv", 96, 32),
             linear("attn.proj", 32, 32), linear("mlp.fc1", 64, 32), linear("mlp.fc2", 32, 64))
    | norm("visual.merger.ln_q", 32) | linear("visual.merger.mlp.0", 128, 128) | linear("visual.merger.mlp.2", 32, 128))

# Checkpoints of which llama.cpp's converter makes nothing, but a script that it had before, in F16 alone.
LEGACY = {"resampler": "minicpmv-convert-image-encoder-to-gguf.py", "adapter": "glmedge-convert-image-encoder-to-gguf.py"}


def old_vit(prefix, n):
    return {f"{prefix}embeddings.patch_embedding.weight": [32, 3, 4, 4], f"{prefix}embeddings.patch_embedding.bias": [32],
            f"{prefix}embeddings.position_embedding.weight": [n, 32]} | norm(prefix + "post_layernorm", 32) | layers(
        prefix + "encoder.layers.", 3, norm("layer_norm1", 32), norm("layer_norm2", 32), linear("mlp.fc1", 48, 32),
        linear("mlp.fc2", 32, 48), *(linear(f"self_attn.{n}_proj", 32, 32) for n in ("q", "k", "v", "out")))


RESAMPLER = old_vit("vpm.", 25) | {
    "resampler.query": [4, 128], "resampler.proj": [128, 128], "resampler.kv_proj.weight": [128, 32],
    "resampler.attn.in_proj_weight": [384, 128], "resampler.attn.in_proj_bias": [384], "llm.model.norm.weight": [128],
} | linear("resampler.attn.out_proj", 128, 128) | norm("resampler.ln_q", 128) | norm("resampler.ln_kv", 128) | norm(
    "resampler.ln_post", 128)
SIGLIP = dict(VIT, image_size=20, model_type="siglip")
FOREIGN |= {
    "resampler": (
        dict(TEXT, hidden_size=128, architectures=["MiniCPMV"], model_type="minicpmv", version=2.6, query_num=4, image_size=8,
             drop_vision_last_layer=False, vision_config=SIGLIP), RESAMPLER),
    "resampler/scaled": (
        dict(TEXT, hidden_size=128, architectures=["MiniCPMV"], model_type="minicpmv", version=4.0, query_num=4, image_size=8,
             scale_emb=12, drop_vision_last_layer=False, vision_config=SIGLIP), RESAMPLER),
    "resampler/omni": (
        dict(TEXT, hidden_size=128, architectures=["MiniCPMO"], model_type="minicpmo", version="2.6", query_num=4, image_size=8,
             drop_vision_last_layer=False, vision_config=SIGLIP),
        RESAMPLER | {"apm.conv1.weight": [4, 4, 3], "audio_projection_layer.linear1.weight": [4, 4], "tts.emb_text.weight": [4, 4]}),
    "adapter": (
        dict(TEXT, architectures=["GlmForCausalLM"], model_type="glm", vision_config=dict(SIGLIP, image_size=16)),
        {"model." + n: s for n, s in (old_vit("vision.vit.model.vision_model.", 16) | {
            "vision.adapter.boi": [32], "vision.adapter.eoi": [32], "vision.adapter.conv.weight": [40, 32, 2, 2],
            "vision.adapter.conv.bias": [40], "embed_tokens.weight": [48, 32]}
            | norm("vision.adapter.linear.norm1", 48) | linear("vision.adapter.linear.linear", 48, 40, False)
            | linear("vision.adapter.linear.gate_proj", 64, 48, False)
            | linear("vision.adapter.linear.dense_h_to_4h", 64, 48, False)
            | linear("vision.adapter.linear.dense_4h_to_h", 32, 64, False)).items()}),
}
MINICPM = {"resampler": 3, "resampler/scaled": 5, "resampler/omni": 4}  # --minicpmv_version

# What a case has in the folder audio_tokenizer of its checkpoint, which is not converted: config.json and the shapes of tensors.
TOKENIZERS = {"mimo": (
    dict(d_model=8, encoder_ffn_dim=8, encoder_attention_heads=2, encoder_layers=1, n_mels=8,
         encoder_attn_window_size=[4, 4]),
    {"encoder.quantizer.vq.layers.0._codebook.embed": [4, 8]})}

PIXTRAL = dict(VIT, model_type="pixtral", hidden_act="silu")
GEMMA4 = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=2,
    head_dim=16,
              patch_size=4, position_embedding_size=8)

GRANITE = dict(input_dim=16, num_layers=4, hidden_dim=32, feedforward_mult=2, num_heads=2, dim_head=16, output_dim=12,
               context_size=8, max_pos_emb=8, conv_kernel_size=3, conv_expansion_factor=2)
QFORMER = dict(model_type="blip_2_qformer", num_hidden_layers=2, hidden_size=32, num_attention_heads=2,
               intermediate_size=48, encoder_hidden_size=32, cross_attention_frequency=1, vocab_size=4)

# The rest: a model type, its settings, preprocessor_config.json, and settings that config.json leaves out.
CASES = {
    "qwen3vl": ("qwen3_vl", dict(vision_config=dict(GRID, num_position_embeddings=16, deepstack_visual_indexes=[1])),
        HALF),
    "qwen3vl/flat": ("qwen3_vl", dict(vision_config=dict(GRID, num_position_embeddings=16, deepstack_visual_indexes=[]),
                                      text_config=dict(rms_norm_eps=1e-5)), HALF),
    "qwen35": ("qwen3_5", dict(vision_config=dict(GRID, num_position_embeddings=16)), HALF),
    "qwen2vl": ("qwen2_vl", dict(vision_config=dict(depth=3, embed_dim=32, hidden_size=32, num_heads=2, patch_size=4,
        mlp_ratio=2)),
                CLIP),
    "qwen25vl": ("qwen2_5_vl", dict(vision_config=dict(GRID, depth=4, fullatt_block_indexes=[1, 3], window_size=16)),
        CLIP),
    "gemma3": ("gemma3", dict(vision_config=dict(VIT, vision_use_head=False), mm_tokens_per_image=4), dict(HALF,
        image_seq_length=4)),
    "gemma3/standard": ("gemma3", dict(vision_config=dict(VIT, image_size=64, vision_use_head=False),
        mm_tokens_per_image=16),
                        dict(HALF, image_seq_length=16)),
    "gemma4": ("gemma4", dict(text_config=SLIM, vision_config=GEMMA4, audio_config=None), dict(image_mean=[0.0, 0.0,
        0.0], image_std=[1.0, 1.0, 1.0])),
    "gemma4/clipped": ("gemma4", dict(text_config=SLIM, vision_config=dict(GEMMA4, use_clipped_linears=True,
        standardize=True), audio_config=None),
                       dict(image_mean=[0.0, 0.0, 0.0], image_std=[1.0, 1.0, 1.0])),
    "gemma4/audio": ("gemma4", dict(text_config=SLIM, vision_config=GEMMA4, audio_config=dict(hidden_size=32,
        num_hidden_layers=1, num_attention_heads=2)),
                     dict(image_mean=[0.0, 0.0, 0.0], image_std=[1.0, 1.0, 1.0])),
    "gemma4/free": ("gemma4", dict(text_config=SLIM, vision_config=GEMMA4, audio_config=dict(hidden_size=32, num_hidden_layers=1,
        num_attention_heads=2, subsampling_conv_channels=[128, 4], output_proj_dims=48, use_clipped_linears=False)),
        dict(image_mean=[0.0, 0.0, 0.0], image_std=[1.0, 1.0, 1.0])),
    "gemma4unified": ("gemma4_unified", dict(
        vision_config=dict(patch_size=2, pooling_kernel_size=2, model_patch_size=4, mm_embed_dim=32, mm_posemb_size=8,
            output_proj_dims=32),
        audio_config=dict(audio_embed_dim=64, audio_samples_per_token=64, output_proj_dims=64)),
        dict(image_mean=[0.0, 0.0, 0.0], image_std=[1.0, 1.0, 1.0])),
    "mistral3": ("mistral3", dict(vision_config=PIXTRAL, text_config=dict(model_type="mistral")), CLIP),
    "pixtral": ("llava", dict(vision_config=PIXTRAL, text_config=dict(model_type="mistral")), CLIP),
    "lightonocr": ("lighton_ocr", dict(vision_config=PIXTRAL, text_config=dict(model_type="qwen3")), CLIP),
    "smolvlm": ("smolvlm", dict(vision_config=VIT, text_config=dict(model_type="llama")), dict(HALF,
        size=dict(longest_edge=64))),
    "idefics3": ("idefics3", dict(vision_config=VIT, scale_factor=2, text_config=dict(model_type="llama")), HALF),
    "internvl": ("internvl", dict(vision_config=dict(VIT, num_hidden_layers=4, image_size=[16, 16], patch_size=[4, 4]),
        text_config=dict(model_type="qwen2")),
                 CLIP),
    "lfm2": ("lfm2_vl", dict(vision_config=dict(VIT, model_type="siglip2_vision_model", patch_size=16, num_patches=16,
        vision_use_head=False),
                             text_config=dict(model_type="lfm2"), projector_hidden_size=48), HALF),
    "glm4v": ("glm4v", dict(vision_config=dict(GRID, image_size=16)), CLIP),
    "glmocr": ("glm_ocr", dict(vision_config=dict(GRID, image_size=16)), CLIP),
    "llama4": ("llama4", dict(vision_config=dict(VIT, intermediate_size=128, vision_output_dim=32,
        projector_input_dim=32,
                                                 projector_output_dim=32),
                              text_config=dict(num_local_experts=2, intermediate_size_mlp=48)), HALF),
    "qwen2a": ("qwen2_audio", dict(audio_config=WHISPER, text_config=dict(model_type="qwen2")), {}),
    "granitespeech": ("granite_speech", dict(encoder_config=GRANITE, projector_config=QFORMER, window_size=6,
        downsample_rate=3, text_config=dict(model_type="granite")), {}),
    "granitespeech/plus": ("granite_speech_plus", dict(encoder_config=dict(GRANITE, cat_hidden_layers=[1]),
        projector_config=dict(QFORMER, encoder_hidden_size=64), window_size=6, downsample_rate=3,
        text_config=dict(model_type="granite")), {}),
    "granite4vision": ("granite4_vision", dict(vision_config=dict(VIT, hidden_size=64, num_hidden_layers=6, image_size=32,
        model_type="siglip_vision_model"), qformer_config=dict(model_type="blip_2_qformer", num_hidden_layers=1,
        cross_attention_frequency=1, intermediate_size=48, use_qformer_text_input=False, hidden_size=64,
        encoder_hidden_size=64, num_attention_heads=1), text_config=dict(num_hidden_layers=6), downsample_rate="2/4",
        deepstack_layer_map=[[-1, 0], [-2, 1]], spatial_vision_layer=-1, spatial_target_layers=[2, 3, 4, 5],
        image_grid_pinpoints=[[32, 32], [32, 64]]), HALF),
    "museglimmer": ("muse_glimmer", dict(vision_config=dict(hidden_size=32, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=2, patch_size=4, pos_emb_height=4, pos_emb_width=4, merge_size=2),
        projector_hidden_size=48, out_hidden_size=128), HALF),
    "minimaxm3": ("minimax_m3_vl", dict(vision_config=dict(hidden_size=160, intermediate_size=48, num_hidden_layers=3,
        num_attention_heads=2, patch_size=4, image_size=16), projector_hidden_size=48, text_config=dict(
        num_local_experts=2, num_experts_per_tok=1, shared_intermediate_size=48)), CLIP),
    "voxtral": ("voxtral", dict(audio_config=dict(hidden_size=32, num_hidden_layers=3, num_attention_heads=2,
        intermediate_size=128,
                                                  num_mel_bins=8, max_source_positions=10),
                                                  text_config=dict(model_type="llama")), {}),
}
ALSO = {"gemma3": [">".join(TOWER)], "lfm2": ["model.vision_tower.vision_model.>model.vision_tower."],
        "internvl": ["model.>"],
        "qwen3a": ["thinker.audio_tower.proj1.>model.multi_modal_projector.linear_1.",
                   "thinker.audio_tower.proj2.>model.multi_modal_projector.linear_2.", "thinker.>model."],
        "qwen3omni": ["visual.>thinker.visual."]}  # as published, which this release of llama.cpp does not read
FOREIGN_PROCESSOR = {"internvl": CLIP, "kimivl": HALF, "kimik25": dict(HALF, in_patch_limit=64), "ultravox": {},
    "qwen3a": {}, "qwen3omni": HALF,
                     "glma": {}, "meralion": {}, "musicflamingo": {}, "qwen25o": CLIP, "dotsocr": dict(CLIP,
                     min_pixels=64, max_pixels=4096),
                     "paddleocr": dict(HALF, min_pixels=64, max_pixels=4096), "hunyuanvl": dict(CLIP, min_pixels=64,
                     max_pixels=4096),
                     "minicpmv46": dict(HALF, scale_resolution=12), "januspro": HALF,
                     "lfm2a": {}, "mimo": dict(CLIP, min_pixels=64, max_pixels=4096), "step3vl": {}, "youtuvl": HALF,
                     "dots3note": dict(vision_config=dict(CLIP, min_pixels=64, max_pixels=4096)), "deepseekocr": HALF, "deepseekocr2": HALF, "cogvlm": CLIP, "resampler": {}, "adapter": {}, "qwen2vl": CLIP, "phi4": dict(HALF, patch_size=4, min_num_patches=4, max_num_patches=256), "nemotronv2": {},
                     "exaone45": dict(CLIP, min_pixels=64, max_pixels=4096)}


def saved(folder, kind, settings):
    """Save a checkpoint as transformers does. Returns the shapes of its tensors."""
    settings = copy.deepcopy(settings)
    settings["text_config"] = TEXT | settings.get("text_config", {})
    config = transformers.AutoConfig.for_model(kind, **settings)
    try:
        maker = transformers.AutoModelForImageTextToText
        model = maker.from_config(config)
    except ValueError:
        model = transformers.AutoModelForMultimodalLM.from_config(config)
    model.save_pretrained(folder)
    raw = (folder / "model.safetensors").read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return {k: v["shape"] for k, v in json.loads(raw[8:8 + size]).items() if k != "__metadata__"}


def exact_root(x, root=torch.sqrt):
    """A square root that is rounded once: some builds of torch are off by the last bit."""
    return root(x.double()).float()


def converted(folder, kind):
    """Convert a checkpoint as llama.cpp does. Returns its file."""
    import gguf
    from conversion import ModelBase, ModelType, get_model_architecture, get_model_class
    arch = get_model_architecture(ModelBase.load_hparams(folder, False), ModelType.MMPROJ)
    out, types = folder / f"{kind}.gguf", gguf.LlamaFileType
    file_type = {"f32": types.ALL_F32, "f16": types.MOSTLY_F16, "q8_0": types.MOSTLY_Q8_0}[kind]
    with torch.inference_mode(), unittest.mock.patch("torch.sqrt", exact_root):
        get_model_class(arch, mmproj=True)(folder, file_type, out).write()
    return gguf.GGUFReader(out)


# Runs a script where models of SigLIP have the tensors that are loaded, by their names.
OLD_NAMES = """
import runpy, sys, torch, transformers
class Vision:
    def __init__(self, config): pass
    def load_state_dict(self, state): self.state = state
    def state_dict(self): return self.state
transformers.SiglipVisionModel = Vision
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def converted_before(folder, case, llama):
    """Convert a checkpoint as a script of llama.cpp did before its converter could. Returns its file."""
    import gguf
    state = {k: torch.from_numpy(v) for k, v in safetensors.numpy.load_file(folder / "model.safetensors").items()}
    if case in MINICPM:
        scale = json.loads((folder / "config.json").read_text()).get("scale_emb", 1)
        torch.save({k.removeprefix("vpm."): v for k, v in state.items() if k.startswith("vpm.")}, folder / "minicpmv.clip")
        torch.save({k: v / scale if k == "resampler.proj" else v for k, v in state.items() if k.startswith("resampler")},
                   folder / "minicpmv.projector")
        options = ["--minicpmv-projector", folder / "minicpmv.projector", "--minicpmv_version", str(MINICPM[case])]
    else:
        state = {k.removeprefix("model."): v for k, v in state.items()}
        vit = {k.removeprefix("vision.vit.model."): v for k, v in state.items() if k.startswith("vision.vit.")}
        torch.save(vit, folder / "glm.clip")
        torch.save({k: v for k, v in state.items() if k.startswith("vision.adapter.")}, folder / "glm.projector")
        options = ["--llava-projector", folder / "glm.projector"]
    script = pathlib.Path(llama) / "tools/mtmd/legacy-models" / LEGACY[case.split("/")[0]]
    subprocess.run([sys.executable, "-c", OLD_NAMES, script, "-m", folder, *options], check=True, capture_output=True)
    return gguf.GGUFReader(folder / "mmproj-model-f16.gguf")


def line(case, name, types, dims, numbers):
    """What is said of a tensor of the file."""
    what = hashlib.sha256(numbers.tobytes()).hexdigest()[:8]
    if f"{case.split('/')[0]}/{name}" in COMPUTED:
        what = "~" + ",".join(f"{numbers[i * 7919 % len(numbers)]:.5f}" for i in range(24))
    return " ".join([name, *types, "x".join(map(str, dims)), what])


def case(name, llama):
    family = name.split("/")[0]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if name in FOREIGN:
            config, shapes = FOREIGN[name]
            processor = FOREIGN_PROCESSOR[family]
            (folder / "config.json").write_text(json.dumps(config))
        else:
            kind, settings, processor = CASES[name]
            shapes = saved(folder, kind, settings)
            for was, new in PUBLISHED.get(family, []):
                shapes = {re.sub(was, new, k): v for k, v in shapes.items()}
            config = json.loads((folder / "config.json").read_text())
            if family == "internvl":
                config["vision_config"]["architectures"] = ["InternVisionModel"]
            if family == "lightonocr":
                config["architectures"] = ["LightOnOCRForConditionalGeneration"]
            if family == "minimaxm3":
                config["architectures"] = ["MiniMaxM3SparseForConditionalGeneration"]
            (folder / "config.json").write_text(json.dumps(config))
        if name in TOKENIZERS:
            (folder / "audio_tokenizer").mkdir()
            (folder / "audio_tokenizer/config.json").write_text(json.dumps(TOKENIZERS[name][0]))
            written(folder / "audio_tokenizer/model.safetensors", {n: (s, None) for n, s in TOKENIZERS[name][1].items()})
        floats = {name: (shape, None) for name, shape in shapes.items()}
        written(folder / "model.safetensors", floats)
        (folder / "preprocessor_config.json").write_text(json.dumps(processor))
        tokens = {"added_tokens_decoder": {"12": {"content": "[IMG_BREAK]"}}}
        (folder / "tokenizer_config.json").write_text(json.dumps(tokens))
        if family in LEGACY:
            files, types = [converted_before(folder, name, llama)], {}
        else:
            files, types = [converted(folder, kind) for kind in ("f32", "f16", "q8_0")], {}
        for t in [t for f in files for t in f.tensors]:
            types.setdefault(t.name, []).append(t.tensor_type.name)
        exact = files[0]
        keys = {}
        for key, field in exact.fields.items():
            if key.startswith("clip.") or key in ("general.type", "general.architecture", "general.file_type"):
                value = field.contents()
                kinds = "/".join(k.name for k in field.types)
                if family not in DEAF or not key.startswith(("clip.audio.", "clip.has_audio")):
                    keys[key] = [kinds, value]
        lines = [line(name, t.name.replace(*MISNAMED.get(family, ("\n", ""))), types[t.name],
                      [int(d) for d in t.shape], np.ascontiguousarray(t.data, dtype="<f4").reshape(-1))
                      for t in exact.tensors if family not in DEAF or not t.name.startswith(("a.", "mm.a."))]
        if family in LEFT_OUT:
            to, of, row = LEFT_OUT[family]
            scale, offset = spread(of, shapes[of])
            numbers = (offset + scale * noise(of, int(np.prod(shapes[of])))).astype("<f4").reshape(shapes[of])[row]
            lines.append(line(name, to, ["F32"] * 3, [len(numbers)], numbers))
    groups = {}
    for text in sorted(lines):
        layer = re.match(r"[av]\.blk\.[1-9]\d*\.", text)
        groups.setdefault(layer[0] if layer else text, []).append(text)
    lines = [k if k == v[0] else f"{k} {len(v)} {hashlib.sha256(chr(10).join(v).encode()).hexdigest()[:8]}"
             for k, v in groups.items()]
    out = {"name": name, "types": ["f16"] if family in LEGACY else [], "config": config, "processor": processor, "also": ALSO.get(family, []),
        "tensors": named(floats),
           "keys": keys, "written": sorted(lines)}
    return {k: v for k, v in out.items() if v}


def main():
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    llama, names = sys.argv[1], sys.argv[2:]
    sys.path[:0] = [llama, llama + "/gguf-py"]
    logging.disable()
    all = {}
    if names:
        all = {c["name"]: c for file in ("pictures", "sounds")
               for c in json.loads((ARCHIVE / f"{file}.json").read_text())["cases"]}
    all |= {name: case(name, llama) for name in names or [*CASES, *FOREIGN]}
    ARCHIVE.mkdir(exist_ok=True)
    for file, sees in {"pictures": True, "sounds": False}.items():
        lines = ",\n".join(json.dumps(all[name], separators=(",", ":")) for name in sorted(all)
                           if ("clip.has_vision_encoder" in all[name]["keys"]) == sees)
        head = f'{{"transformers": "{transformers.__version__}", "cases": [\n'
        (ARCHIVE / f"{file}.json").write_text(head + lines + "\n]}\n")


if __name__ == "__main__":
    main()
