#!/usr/bin/env python3
"""What encoders of pictures and sounds that transformers lacks make of one, written in torch after their publishers' code: the
witness of go/model/projector.

Needs torch, Pillow and transformers, and nothing that the build or the tests need. A kind that transformers has only without
its processor, or that no converter writes, is computed by its classes.

    golden_eyes.py            write go/model/testdata/eyes.json
    golden_eyes.py NAME...    only these cases

A case has

    name     of the kind
    keys     of its file: name, type, values
    tensors  of it: name, dimensions, scale, offset. Number i is offset + scale * noise(name, i); # is the number of each layer
    size     of the picture: its byte i is the first 8 bits of the noise of "picture"
    samples  of the sound in its place, at 16,000 a second: the noise of "sound"
    shape    of the rows
    numbers  some of theirs: i * 7919 modulo their count says which
"""

import json
import math
import pathlib
import sys

import numpy as np
import torch
import torch.nn.functional as F
from golden_hf import noise

PATH = pathlib.Path(__file__).resolve().parent.parent / "go/model/testdata/eyes.json"
LAYERS, WIDTH, FF, HEADS, PATCH, SIDE = 2, 32, 48, 2, 4, 16
COUNT = 32


def keys(kind, *more, width=WIDTH, side=SIDE, embd=WIDTH):
    v = "clip.vision."
    return ["general.architecture str \"clip\"", "clip.has_vision_encoder bool true", f'clip.projector_type str "{kind}"',
            f"{v}embedding_length u32 {embd}", f"{v}feed_forward_length u32 {FF}", f"{v}block_count u32 {LAYERS}",
            f"{v}attention.head_count u32 {HEADS}", f"{v}attention.layer_norm_epsilon f32 1e-06",
            f"{v}projection_dim u32 {width}", f"{v}image_size u32 {side}", f"{v}patch_size u32 {PATCH}",
            f"{v}image_mean f32[] 0.5*3", f"{v}image_std f32[] 0.5*3", *more]


def linear(name, n, m, bias=True):
    return {name + ".weight": (n, m)} | ({name + ".bias": (m,)} if bias else {})


def norm(name, n, bias=True):
    return {name + ".weight": (n,)} | ({name + ".bias": (n,)} if bias else {})


def vit(bias=True, embd=WIDTH):
    """The tensors of layers."""
    t, block = {}, "v.blk.#."
    for name in ("ln1", "ln2"):
        t |= norm(block + name, embd)
    for name in ("attn_q", "attn_k", "attn_v", "attn_out"):
        t |= linear(block + name, embd, embd, bias)
    return t | linear(block + "ffn_up", embd, FF) | linear(block + "ffn_down", FF, embd)


def siglip(positions=SIDE // PATCH, embd=WIDTH):
    return {"v.patch_embd.weight": (PATCH, PATCH, 3, embd), "v.patch_embd.bias": (embd,),
            "v.position_embd.weight": (embd, positions ** 2), **vit(embd=embd), **norm("v.post_ln", embd)}


def spread(name, dims):
    """The scale and the offset of a tensor's numbers."""
    if name.endswith("bias"):
        return 0.3, 0
    if len(dims) == 1 and name.endswith("weight"):
        return 0.4, 0.8
    if "position" in name or len(dims) == 1 or not name.endswith("weight"):
        return 0.5, 0
    return round(2 / math.sqrt(math.prod(dims[:-1])), 3), 0


class Weights(dict):
    """Tensors by their names, with their functions."""

    def linear(self, x, name):
        return F.linear(x, self[name + ".weight"], self.get(name + ".bias"))

    def norm(self, x, name, eps=1e-6):
        w = self[name + ".weight"]
        return F.layer_norm(x, w.shape, w, self.get(name + ".bias"), eps)

    def conv(self, x, name, **how):
        return F.conv2d(x, self[name + ".weight"], self.get(name + ".bias"), **how)

    def layer(self, h, block, act, turn, seen):
        y = self.norm(h, block + "ln1")
        q, k, v = (self.linear(y, block + "attn_" + n) for n in "qkv")
        h = h + self.linear(attention(q, k, v, HEADS, turn, seen), block + "attn_out")
        y = act(self.linear(self.norm(h, block + "ln2"), block + "ffn_up"))
        return h + self.linear(y, block + "ffn_down")

    def layers(self, h, act, turn=None, seen=None):
        """turn rotates queries and keys; seen says of each layer who sees whom."""
        for il in range(LAYERS):
            h = self.layer(h, f"v.blk.{il}.", act, turn, seen and seen[il])
        return h


def attention(q, k, v, heads, turn=None, seen=None):
    q, k, v = (t.reshape(len(t), heads, -1).transpose(0, 1) for t in (q, k, v))
    if turn:
        q, k = turn(q), turn(k)
    scores = (q @ k.transpose(1, 2)) / math.sqrt(q.shape[-1])
    if seen is not None:
        scores = scores.masked_fill(~seen, -math.inf)
    return (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)


def turned(x, angles, pairs):
    """Pairs of numbers turned: "neox" has the halves of a part, "norm" neighbours."""
    if pairs == "neox":
        a, b = x.chunk(2, -1)
        return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1).flatten(-2)


def angles(places, n):
    return places.float()[:, None] * 10000 ** (-torch.arange(n).float() / n)


def places(x):
    _, h, w = (n // PATCH for n in x.shape)
    y, x = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
    return y.flatten(), x.flatten()


def squares(h, x, n=2):
    """Rows of n x n patches side by side."""
    _, down, across = (side // PATCH for side in x.shape)
    return h.reshape(down // n, n, across // n, n, -1).transpose(1, 2).reshape(down * across // n ** 2, -1)


def windows(x, side):
    """Who is in whose window of so many patches."""
    y, x = (p // side for p in places(x))
    return (y[:, None] == y) & (x[:, None] == x)


def rms(x, weight):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight


def mlp(w, h, act, *names):
    for name in names[:-1]:
        h = act(w.linear(h, name))
    return w.linear(h, names[-1])


def tanh_gelu(x):
    return F.gelu(x, approximate="tanh")


def quick_gelu(x):
    return x * torch.sigmoid(1.702 * x)


def pixels(w, h):
    return ((noise("picture", w * h * 3) + 1) * 128).astype(np.uint8).reshape(h, w, 3)


def picture(of):
    return torch.from_numpy(((of.astype(np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)).transpose(2, 0, 1).copy())


def patches(w, x):
    """Rows of patches, row by row, with their bias."""
    return F.conv2d(x[None], w["v.patch_embd.weight"], w.get("v.patch_embd.bias"), stride=PATCH).flatten(2)[0].T


def waves(width, places):
    """MiniCPM's get_1d_sincos_pos_embed."""
    omega = 1 / 10000 ** (torch.arange(width // 2, dtype=torch.float64) / (width // 2))
    angles = places.double()[:, None] * omega
    return torch.cat([angles.sin(), angles.cos()], 1).float()


def resampler(w, x):
    y, across = places(x)
    _, rows, columns = (n // PATCH for n in x.shape)
    n = math.isqrt(len(w["v.position_embd.weight"]))
    h = patches(w, x) + w["v.position_embd.weight"][y * n // rows * n + across * n // columns]
    h = w.norm(w.layers(h, tanh_gelu), "v.post_ln")
    n = 128
    value = w.norm(w.linear(h, "resampler.kv"), "resampler.ln_kv")
    key = value + torch.cat([waves(n // 2, across), waves(n // 2, y)], 1)
    asked = w.norm(w["resampler.query"], "resampler.ln_q")
    a = "resampler.attn."
    made = attention(w.linear(asked, a + "q"), w.linear(key, a + "k"), w.linear(value, a + "v"), n // 128)
    return w.linear(w.norm(w.linear(made, a + "out"), "resampler.ln_post"), "resampler.proj")


def minimax(w, x):
    y, across = places(x)
    h = patches(w, x) + F.conv2d(x[None], w["v.patch_embd.weight.1"], stride=PATCH).flatten(2)[0].T
    n = WIDTH // HEADS // 6 * 2

    def turn(q):
        t, down, wide, rest = q.split([n, n, n, q.shape[-1] - 3 * n], -1)
        down, wide = (turned(v, angles(p, n // 2), "neox") for v, p in ((down, y), (wide, across)))
        return torch.cat([t, down, wide, rest], -1)

    h = w.layers(w.norm(h, "v.pre_ln"), F.gelu, turn)
    return mlp(w, squares(mlp(w, h, F.gelu, "mm.1", "mm.2"), x), F.gelu, "mm.merger.fc1", "mm.merger.fc2")


def youtu(w, x):
    y, across = places(x)
    h = F.unfold(x[None], PATCH, stride=PATCH)[0].T.reshape(-1, 3, PATCH * PATCH).transpose(1, 2).flatten(1)
    h = w.linear(h, "v.patch_embd")
    n = WIDTH // HEADS // 4
    both = torch.cat([angles(y, n), angles(across, n)], 1)
    h = w.layers(h, tanh_gelu, lambda q: turned(q, both, "neox"), [windows(x, 4), None])
    h = w.norm(h, "v.post_ln")
    return mlp(w, squares(rms(h, w["mm.input_norm.weight"]), x), F.gelu, "mm.0", "mm.2")


def nemotron(w, x):
    h = patches(w, x) + w["v.position_embd.weight"]
    h = w.layers(torch.cat([w["v.class_embd"], h]), F.gelu)[len(w["v.class_embd"]):]
    h = rms(squares(h, x), w["mm.model.mlp.0.weight"])
    return mlp(w, h, lambda v: v.relu() ** 2, "mm.model.mlp.1", "mm.model.mlp.3")


def resized(w, x, **how):
    """Embeddings of positions of another size."""
    t = w["v.position_embd.weight"]
    n = math.isqrt(len(t))
    size = [side // PATCH for side in x.shape[1:]]
    t = F.interpolate(t.reshape(1, n, n, -1).permute(0, 3, 1, 2), size=size, mode="bilinear", **how)
    return t.flatten(2)[0].T


def phi4(w, x):
    h = w.layers(patches(w, x) + resized(w, x, antialias=True), tanh_gelu)
    return mlp(w, h, F.gelu, "mm.0", "mm.2")


def step(w, x):
    y, across = places(x)
    n = WIDTH // HEADS // 4
    both = torch.cat([angles(across, n), angles(y, n)], 1)
    h = w.norm(patches(w, x) + resized(w, x), "v.pre_ln")
    h = w.layers(h, quick_gelu, lambda q: turned(q, both, "norm"))
    h = h.T.reshape(1, WIDTH, *(side // PATCH for side in x.shape[1:]))
    h = w.conv(w.conv(h, "mm.0", stride=2, padding=1), "mm.1", stride=2, padding=1)
    return w.linear(h.flatten(2)[0].T, "mm.model.fc")


def muse(w, x):
    y, across = places(x)
    n = WIDTH // HEADS // 4
    # A head's first half turns by columns, and its second by rows; both begin at 1, and have the frequencies of every other pair.
    both = torch.cat([angles(across + 1, n), angles(y + 1, n)], 1)
    h = w.norm(patches(w, x) + resized(w, x), "v.pre_ln")
    h = w.layers(h, F.gelu, lambda q: turned(q, both, "norm"), [windows(x, 4), None])
    h = squares(w.norm(h, "v.post_ln"), x).reshape(-1, 4, WIDTH).transpose(1, 2).flatten(1)
    return mlp(w, h, F.gelu, "mm.0", "mm.1", "mm.2")


def adapter(w, x):
    h = w.norm(w.layers(patches(w, x) + w["v.position_embd.weight"], tanh_gelu), "v.post_ln")
    side = SIDE // PATCH
    h = w.conv(h.T.reshape(1, WIDTH, side, side), "adapter.conv", stride=2).flatten(2)[0].T
    a = "adapter.linear."
    h = F.gelu(w.norm(w.linear(h, a + "linear"), a + "norm1", 1e-5))
    h = w.linear(F.silu(w.linear(h, a + "gate")) * w.linear(h, a + "dense_h_to_4h"), a + "dense_4h_to_h")
    return torch.cat([w["adapter.boi"][None], h, w["adapter.eoi"][None]])


def ldpv2(w, x):
    h = torch.cat([w["v.class_embd"][None], patches(w, x)]) + w["v.position_embd.weight"]
    h = w.layer(w.norm(h, "v.pre_ln"), "v.blk.0.", quick_gelu, None, None)[1:]
    h = mlp(w, h, F.gelu, "mm.model.mlp.0", "mm.model.mlp.2")
    side = SIDE // PATCH
    h = F.avg_pool2d(h.T.reshape(1, -1, side, side), 2)
    h = h + w.conv(h, "mm.model.peg.0", padding=1, groups=h.shape[1])
    return h.flatten(2)[0].T


def ldp(w, x):
    h = torch.cat([w["v.class_embd"][None], patches(w, x)]) + w["v.position_embd.weight"]
    h = w.layer(w.norm(h, "v.pre_ln"), "v.blk.0.", quick_gelu, None, None)[1:]
    h = mlp(w, h, F.gelu, "mm.model.mlp.1", "mm.model.mlp.3")
    side = SIDE // PATCH
    h = h.T.reshape(1, -1, side, side)

    def norm(y, name):
        return w.norm(y.permute(0, 2, 3, 1), name, 1e-5).permute(0, 3, 1, 2)

    for i in range(2):
        block = f"mm.model.mb_block.{i + 1}.block."
        y = F.hardswish(norm(w.conv(h, block + "0.0", padding=1, stride=i + 1, groups=h.shape[1]), block + "0.1"))
        mean = w.conv(w.conv(F.adaptive_avg_pool2d(y, 1), block + "1.fc1").relu(), block + "1.fc2")
        y = norm(w.conv(y * F.hardsigmoid(mean), block + "2.0"), block + "2.1")
        h = y if i else h + y
    return h.flatten(2)[0].T


def cogvlm(w, x):
    h = torch.cat([w["v.class_embd"][None], patches(w, x)]) + w["v.position_embd.weight"]
    for il in range(LAYERS):
        block = f"v.blk.{il}."
        q, k, v = w.linear(h, block + "attn_qkv").chunk(3, 1)
        h = h + w.norm(w.linear(attention(q, k, v, HEADS), block + "attn_out"), block + "ln1")
        h = h + w.norm(mlp(w, h, F.gelu, block + "ffn_up", block + "ffn_down"), block + "ln2")
    h = F.gelu(w.norm(w.linear(h[1:], "mm.model.fc"), "mm.post_fc_norm", 1e-5))
    h = w.linear(F.silu(w.linear(h, "mm.gate")) * w.linear(h, "mm.up"), "mm.down")
    h = torch.cat([w["v.boi"][None], h, w["v.eoi"][None]])
    expert = torch.zeros(len(h), 16)  # the scores of that of text and of that of what is seen: the last row is text's
    expert[:, 0], expert[:, 1], expert[-1, :2] = -20, 20, torch.tensor([20, -20])
    return torch.cat([h, expert], 1)


def yi(w, x):
    h = torch.cat([w["v.class_embd"][None], patches(w, x)]) + w["v.position_embd.weight"]
    h = w.layer(w.norm(h, "v.pre_ln"), "v.blk.0.", quick_gelu, None, None)[1:]
    h = F.gelu(w.norm(w.linear(h, "mm.0"), "mm.1"))
    return w.norm(w.linear(h, "mm.3"), "mm.4")


def mimo(w, x):
    """A layer with squares column by column, and one with them row by row."""
    _, rows, columns = (n // PATCH for n in x.shape)
    order = squares(torch.arange(rows * columns)[:, None], x)
    h = patches(w, x) + F.conv2d(x[None], w["v.patch_embd.weight.1"], stride=PATCH).flatten(2)[0].T
    down, across = places(x)
    dim, n = 16, len(h)
    at = torch.arange(n)
    near = (at[:, None] - at).abs() <= 3
    for il, column in enumerate((True, False)):
        block = f"v.blk.{il}."
        o = order.reshape(rows // 2, columns // 2, 4)
        o = (o.transpose(0, 1) if column else o).flatten()
        y = w.linear(rms(h[o], w[block + "ln1.weight"]), block + "attn_qkv")
        q, k, v = y.reshape(n, 4, dim).split([2, 1, 1], 1)
        both = torch.cat([angles(down[o], dim // 4), angles(across[o], dim // 4)], 1)[:, None]
        q, k = turned(q, both, "neox"), turned(k, both, "neox")
        scores = (q.transpose(0, 1) @ k.permute(1, 2, 0) / math.sqrt(dim)).masked_fill(~near, -math.inf)
        scores = torch.cat([scores, w[block + "attn_sinks"][:, None, None].expand(-1, n, 1)], -1).softmax(-1)[..., :-1]
        seen = w.linear((scores @ v.transpose(0, 1)).transpose(0, 1).flatten(1), block + "attn_out")
        h = h.index_add(0, o, seen)
        y = rms(h, w[block + "ln2.weight"])
        h = h + w.linear(F.silu(w.linear(y, block + "ffn_gate")) * w.linear(y, block + "ffn_up"), block + "ffn_down")
    return mlp(w, squares(w.norm(h, "v.post_ln"), x), F.gelu, "mm.0", "mm.2")


# What transformers calls tensors of Granite Vision, and how files do.
GRANITE = [(f"qformer.encoder.layer.0.{theirs}", ours) for theirs, ours in (
    [(f"{kind}attention.attention.{n}", f"{stem}_attn_{n[0]}") for kind, stem in (("", "self"), ("cross", "cross"))
     for n in ("query", "key", "value")]
    + [(f"{kind}attention.output.{n}", f"{stem}_attn_{end}") for kind, stem in (("", "self"), ("cross", "cross"))
       for n, end in (("dense", "out"), ("LayerNorm", "norm"))]
    + [("intermediate_query.dense", "ffn_up"), ("output_query.dense", "ffn_down"), ("output_query.LayerNorm", "ffn_norm")])]
GRANITE += [("qformer.layernorm", "post_norm"), ("norm", "norm"), ("out_linear", "linear")]
GRANITE_WIDTH, GRANITE_SIDE, GRANITE_GRIDS = 128, 32, [[32, 32], [32, 64], [64, 32]]


def granite(w, x):
    from transformers import Granite4VisionConfig
    from transformers.models.granite4_vision.modeling_granite4_vision import Granite4VisionModel
    from transformers.models.llava_next.image_processing_pil_llava_next import LlavaNextImageProcessorPil

    m = Granite4VisionModel(Granite4VisionConfig(
        vision_config=dict(model_type="siglip_vision_model", hidden_size=GRANITE_WIDTH, intermediate_size=FF, num_hidden_layers=LAYERS,
                           num_attention_heads=HEADS, image_size=GRANITE_SIDE, patch_size=PATCH),
        text_config=dict(hidden_size=WIDTH, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, vocab_size=64),
        qformer_config=dict(model_type="blip_2_qformer", num_hidden_layers=1, cross_attention_frequency=1, intermediate_size=FF,
                            use_qformer_text_input=False),
        downsample_rate="2/4", deepstack_layer_map=[[-1, 0], [-2, 1]], spatial_vision_layer=-1, spatial_target_layers=[2, 3],
        image_grid_pinpoints=GRANITE_GRIDS)).eval()
    own = m.state_dict()

    def put(to, name, *only):
        for end in only or ("weight", "bias"):
            own[f"{to}.{end}"].copy_(w[f"{name}.{end}"].reshape(own[f"{to}.{end}"].shape))

    own["image_newline"].copy_(w["v.image_newline"])
    put("vision_tower.embeddings.patch_embedding", "v.patch_embd")
    put("vision_tower.embeddings.position_embedding", "v.position_embd", "weight")
    for il in range(LAYERS):
        for theirs, ours in (("layer_norm1", "ln1"), ("layer_norm2", "ln2"), ("mlp.fc1", "ffn_up"), ("mlp.fc2", "ffn_down"),
                             ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"), ("self_attn.v_proj", "attn_v"),
                             ("self_attn.out_proj", "attn_out")):
            put(f"vision_tower.encoder.layers.{il}.{theirs}", f"v.blk.{il}.{ours}")
    for i, to in enumerate(("layerwise_projectors.0", "layerwise_projectors.1", "spatial_projectors.0", "spatial_projectors.1")):
        block = f"v.proj_blk.{i}."
        for theirs, ours in GRANITE:
            put(f"{to}.{theirs}", block + ours)
        own[to + ".query"].copy_(w[block + "query"][None])
        own[to + ".image_positions"].copy_(w[block + "img_pos"][None])
    side = {"height": GRANITE_SIDE, "width": GRANITE_SIDE}
    processor = LlavaNextImageProcessorPil(size=side, crop_size=side, image_grid_pinpoints=GRANITE_GRIDS, image_mean=[0.5] * 3,
                                           image_std=[0.5] * 3)
    _, height, width = x.shape
    made = processor(pixels(width, height), return_tensors="pt")
    features = m.get_image_features(made["pixel_values"].float(), made["image_sizes"], vision_feature_select_strategy="full",
                                    return_dict=True).deepstack_features
    return torch.cat([packed[0] for _, packed in features], 1)


def resize(of, width, height):
    """A picture of another size, as Pillow makes it."""
    from PIL import Image
    return np.asarray(Image.fromarray(of).resize((width, height), Image.BICUBIC))


def padded(of, side):
    from PIL import Image, ImageOps
    return np.asarray(ImageOps.pad(Image.fromarray(of), (side, side), color=(127, 127, 127)))


def square(t, n):
    """A square of embeddings of another side."""
    side = math.isqrt(len(t))
    if side == n:
        return t
    t = t.reshape(1, side, side, -1).permute(0, 3, 1, 2)
    return F.interpolate(t, size=(n, n), mode="bicubic", antialias=True).flatten(2)[0].T


SAM_WINDOW, SAM_SIDE, SAM_BLOCKS, SAM_WHOLE = 3, 16, 3, 1


def sam(w, x):
    """DeepSeek-OCR's ImageEncoderViT: a map of what its last convolution makes."""
    x = F.conv2d(x[None], w["v.sam.patch_embd.weight"], w["v.sam.patch_embd.bias"], stride=PATCH)[0].permute(1, 2, 0)
    n = len(x)
    x = x + square(w["v.sam.pos_embd.weight"].reshape(SAM_SIDE ** 2, -1), n).reshape(n, n, -1)
    for il in range(SAM_BLOCKS):
        block = f"v.sam.blk.{il}."
        y = w.norm(x, block + "pre_ln")
        side = n if il == SAM_WHOLE else SAM_WINDOW
        more = -n % side
        y = F.pad(y, (0, 0, 0, more, 0, more))
        k = (n + more) // side
        y = y.reshape(k, side, k, side, -1).transpose(1, 2).reshape(k * k, side, side, -1)
        y = torch.stack([sam_attention(w, window, block) for window in y])
        y = y.reshape(k, k, side, side, -1).transpose(1, 2).reshape(n + more, n + more, -1)[:n, :n]
        x = x + y
        x = x + mlp(w, w.norm(x, block + "post_ln"), F.gelu, block + "mlp.lin1", block + "mlp.lin2")
    x = w.norm(w.conv(x.permute(2, 0, 1)[None], "v.sam.neck.0").permute(0, 2, 3, 1), "v.sam.neck.1").permute(0, 3, 1, 2)
    x = w.norm(w.conv(x, "v.sam.neck.2", padding=1).permute(0, 2, 3, 1), "v.sam.neck.3").permute(0, 3, 1, 2)
    return w.conv(w.conv(x, "v.sam.net_2", stride=2, padding=1), "v.sam.net_3", stride=2, padding=1)[0]


def sam_attention(w, x, block):
    n, width = x.shape[1:]
    q, k, v = w.linear(x.reshape(n * n, -1), block + "attn.qkv").reshape(n * n, 3, HEADS, -1).permute(1, 2, 0, 3)
    scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])
    at = torch.arange(n)
    apart = at[:, None] - at + n - 1

    def table(name):
        t = w[block + name]
        if len(t) != 2 * n - 1:
            t = F.interpolate(t.T[None], size=2 * n - 1, mode="linear")[0].T
        return t[apart]

    q = q.reshape(HEADS, n, n, -1)
    down = torch.einsum("ayxc,ykc->ayxk", q, table("attn.pos_h.weight"))
    across = torch.einsum("ayxc,xkc->ayxk", q, table("attn.pos_w.weight"))
    scores = scores + (down[..., :, None] + across[..., None, :]).reshape(HEADS, n * n, n * n)
    made = (scores.softmax(-1) @ v).transpose(0, 1).flatten(1)
    return w.linear(made, block + "attn.out").reshape(n, n, -1)


def ocr_rows(w, x):
    """The rows of a square picture, a line each."""
    seen = sam(w, x)
    n = seen.shape[1]
    t = w["v.position_embd.weight"]
    seen = seen.flatten(1).T
    h = torch.cat([w["v.class_embd"][None], seen]) + torch.cat([t[:1], square(t[1:], n)])
    h = w.norm(h, "v.pre_ln", 1e-5)
    for il in range(LAYERS):
        block = f"v.blk.{il}."
        q, k, v = w.linear(w.norm(h, block + "ln1", 1e-5), block + "attn_qkv").chunk(3, 1)
        h = h + w.linear(attention(q, k, v, HEADS), block + "attn_out")
        h = h + mlp(w, w.norm(h, block + "ln2", 1e-5), quick_gelu, block + "ffn_up", block + "ffn_down")
    return w.linear(torch.cat([h[1:], seen], 1), "mm.model.fc").reshape(n, n, -1)


def ocr(w, x):
    _, height, width = x.shape
    of, side = pixels(width, height), SAM_SIDE * PATCH
    tile = side * 5 // 8
    cut, lines = resize(of, 2 * tile, 2 * tile), []
    end = w["v.image_newline"][None]
    for y in range(2):
        views = [ocr_rows(w, picture(cut[y * tile:][:tile, i * tile:][:, :tile])) for i in range(2)]
        lines += [torch.cat([line, end]) for line in torch.cat(views, 1)]
    lines += [torch.cat([line, end]) for line in ocr_rows(w, picture(padded(of, side)))]
    return torch.cat([*lines, w["v.view_seperator"][None]])


def ocr2_rows(w, x):
    seen = sam(w, x).flatten(1).T
    n = len(seen)
    asked = w[f"v.resample_query_{1024 if n == 16 else 768}.weight"]
    h = torch.cat([seen, asked])
    at = torch.arange(2 * n)
    sees = (at[None] < n) | (at[None] <= at[:, None])
    turns = at.float()[:, None] * 1e6 ** (-torch.arange(8).float() / 8)
    for il in range(LAYERS):
        block = f"v.blk.{il}."
        y = rms(h, w[block + "ln1.weight"])
        q, k, v = (w.linear(y, block + "attn_" + name).reshape(2 * n, -1, 16).transpose(0, 1) for name in "qkv")
        q, k = turned(q, turns, "neox"), turned(k, turns, "neox")
        scores = (q @ k.transpose(1, 2) / 4).masked_fill(~sees, -math.inf)  # of one head of keys
        h = h + w.linear((scores.softmax(-1) @ v).transpose(0, 1).flatten(1), block + "attn_out")
        y = rms(h, w[block + "ln2.weight"])
        h = h + w.linear(F.silu(w.linear(y, block + "ffn_gate")) * w.linear(y, block + "ffn_up"), block + "ffn_down")
    return w.linear(rms(h[n:], w["v.post_ln.weight"]), "mm.model.fc")


def ocr2(w, x):
    _, height, width = x.shape
    of, side = pixels(width, height), SAM_SIDE * PATCH
    tile = side * 3 // 4
    cut = resize(of, 2 * tile, 2 * tile)
    views = [picture(cut[y * tile:][:tile, i * tile:][:, :tile]) for y in range(2) for i in range(2)]
    return torch.cat([ocr2_rows(w, view) for view in [*views, picture(padded(of, side))]] + [w["v.view_seperator"][None]])


def glm_asr(w, n):
    """GLM-ASR's AudioMLPAdapter, of parts of a sound that have as many tokens as there are embeddings of positions."""
    from golden_sound import mel

    tokens, rows = len(w["a.position_embd.weight"]), []
    each = 2 * tokens * 160
    parts = -(-n // each)
    whole = torch.from_numpy(mel(n, BANDS, parts * each)[:, :2 * parts * tokens]).float()
    turns = torch.arange(tokens).float()[:, None] * 10000 ** (-torch.arange(4).float() / 4)

    def turn(q):
        return torch.cat([turned(q[..., :8], turns, "norm"), q[..., 8:]], -1)

    for part in range(parts):
        x = whole[None, :, 2 * part * tokens:][..., :2 * tokens]
        x = F.gelu(F.conv1d(x, w["a.conv1d.1.weight"], w["a.conv1d.1.bias"].flatten(), padding=1))
        h = F.gelu(F.conv1d(x, w["a.conv1d.2.weight"], w["a.conv1d.2.bias"].flatten(), padding=1, stride=2))[0].T
        for il in range(LAYERS):
            h = w.layer(h, f"a.blk.{il}.", F.gelu, turn, None)
        h = mlp(w, w.norm(h, "mm.a.norm_pre").reshape(tokens // 4, -1), F.gelu, "mm.a.mlp.1", "mm.a.mlp.2")
        frames = min(n - part * each, each) // 160
        rows += [w["v.boi"][None], h[:((frames - 1) // 2 + 1) // 4], w["v.eoi"][None]]
    return torch.cat(rows)


def dots3(w, x):
    from transformers.models.dots3_note.configuration_dots3_note import Dots3NoteVisionConfig
    from transformers.models.dots3_note.modeling_dots3_note import Dots3NoteVisionModel

    m = Dots3NoteVisionModel(Dots3NoteVisionConfig(
        hidden_size=WIDTH, intermediate_size=FF, moe_intermediate_size=24, num_hidden_layers=len(DOTS_EXPERTS), num_attention_heads=HEADS,
        patch_size=PATCH, rms_norm_eps=1e-6, pyramid_num_routed=[n or -1 for n in DOTS_EXPERTS], capacity_factor=2,
        adapter_in_dim=WIDTH, adapter_out_dim=WIDTH)).eval()
    own = m.state_dict()
    names = {"patch_embed.proj": "v.patch_embd", "patch_embed.norm": "v.pre_ln", "norm": "mm.post_norm", "merger.ln_q": "mm.input_norm",
             "merger.mlp.0": "mm.0", "merger.mlp.2": "mm.2"}
    for il, experts in enumerate(DOTS_EXPERTS):
        block, to = f"blocks.{il}.", f"v.blk.{il}."
        names |= {block + theirs: to + ours for theirs, ours in (
            ("norm1", "ln1"), ("norm2", "ln2"), ("attn.qkv", "attn_qkv"), ("attn.proj", "attn_out"), ("attn.q_norm", "attn_q_norm"),
            ("attn.k_norm", "attn_k_norm"), ("mlp.gate", "ffn_gate_inp"), ("mlp.gate_proj", "ffn_gate"), ("mlp.up_proj", "ffn_up"),
            ("mlp.down_proj", "ffn_down"))}
        if experts:
            own[block + "mlp.e_score_correction_bias"].copy_(w[to + "exp_probs_b.weight"])
            own[block + "mlp.experts.gate_up_proj"].copy_(torch.cat([w[to + "ffn_gate_exps.weight"], w[to + "ffn_up_exps.weight"]], 1))
            own[block + "mlp.experts.down_proj"].copy_(w[to + "ffn_down_exps.weight"])
    for name, of in own.items():
        stem, end = name.rsplit(".", 1)
        if stem in names:
            of.copy_(w[f"{names[stem]}.{end}"].reshape(of.shape))
    _, rows, columns = (n // PATCH for n in x.shape)
    flat = F.unfold(x[None], PATCH, stride=PATCH)[0].T
    order = squares(torch.arange(rows * columns)[:, None], x).flatten()
    return m(flat[order], grid_thw=torch.tensor([[1, rows, columns]])).pooler_output


def dots3_sound(w, n):
    from transformers.models.dots3_note.configuration_dots3_note import Dots3NoteAudioConfig
    from transformers.models.dots3_note.feature_extraction_dots3_note import Dots3NoteFeatureExtractor
    from transformers.models.dots3_note.modeling_dots3_note import Dots3NoteAudioModel

    m = Dots3NoteAudioModel(Dots3NoteAudioConfig(
        hidden_size=WIDTH, intermediate_size=FF, num_hidden_layers=LAYERS, num_attention_heads=HEADS, feature_size=BANDS,
        downsample_hidden_size=24, adapter_input_size=WIDTH, adapter_out_dim=WIDTH,
        rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5))).eval()
    names = {f"conv_stem.convs.{i}": f"a.conv2d.{i + 1}" for i in range(3)}
    names |= {"conv_stem.conv_out": "a.conv_out", "layer_norm": "a.post_ln", "adapter.norm": "mm.a.norm_pre", "adapter.fc1": "mm.a.mlp.1",
              "adapter.fc2": "mm.a.mlp.3"}
    own = m.state_dict()
    for il in range(LAYERS):
        block, to = f"layers.{il}.", f"a.blk.{il}."
        names |= {block + theirs: to + ours for theirs, ours in (
            ("input_layernorm", "ln1"), ("post_attention_layernorm", "ln2"), ("self_attn.q_proj", "attn_q"), ("self_attn.k_proj", "attn_k"),
            ("self_attn.v_proj", "attn_v"), ("self_attn.o_proj", "attn_out"), ("mlp.down_proj", "ffn_down"))}
        for end in ("weight", "bias"):
            own[block + f"mlp.gate_up_proj.{end}"].copy_(torch.cat([w[to + f"ffn_gate.{end}"], w[to + f"ffn_up.{end}"]]))
    for name, of in own.items():
        stem, end = name.rsplit(".", 1)
        if stem in names:
            of.copy_(w[f"{names[stem]}.{end}"].reshape(of.shape))
    given = Dots3NoteFeatureExtractor(feature_size=BANDS)(noise("sound", n).astype(np.float32), sampling_rate=16000)
    return m(given["input_features"], given["chunk_sample_lengths"]).pooler_output


RESAMPLER = siglip() | {"resampler.query": (128, 5), "resampler.pos_embed_k": (128, 16)}
for name in ("q", "k", "v", "out"):
    RESAMPLER |= linear("resampler.attn." + name, 128, 128)
for name in ("q", "kv", "post"):
    RESAMPLER |= norm("resampler.ln_" + name, 128)
RESAMPLER |= linear("resampler.kv", WIDTH, 128, False) | linear("resampler.proj", 128, 128, False)

PATCHES = {"v.patch_embd.weight": (PATCH, PATCH, 3, WIDTH)}

CLIP = PATCHES | {"v.class_embd": (WIDTH,), "v.position_embd.weight": (WIDTH, 17)} | vit() | norm("v.pre_ln", WIDTH)

ADAPTER = siglip() | {"adapter.conv.weight": (2, 2, WIDTH, 40), "adapter.conv.bias": (40,), "adapter.boi": (WIDTH,),
                      "adapter.eoi": (WIDTH,)} | norm("adapter.linear.norm1", 48)
for name, n, m in (("linear", 40, 48), ("gate", 48, 40), ("dense_h_to_4h", 48, 40), ("dense_4h_to_h", 40, WIDTH)):
    ADAPTER |= linear("adapter.linear." + name, n, m, False)

MIMO = PATCHES | {"v.patch_embd.weight.1": (PATCH, PATCH, 3, WIDTH), "v.blk.#.attn_sinks": (2,)} | norm("v.post_ln", WIDTH)
for name, n, m in (("attn_qkv", WIDTH, 64), ("attn_out", WIDTH, WIDTH), ("ffn_gate", WIDTH, FF), ("ffn_up", WIDTH, FF),
                   ("ffn_down", FF, WIDTH)):
    MIMO |= linear("v.blk.#." + name, n, m)
MIMO |= norm("v.blk.#.ln1", WIDTH, False) | norm("v.blk.#.ln2", WIDTH, False)
MIMO |= linear("mm.0", 4 * WIDTH, 40, False) | linear("mm.2", 40, WIDTH, False)

VISION = siglip(GRANITE_SIDE // PATCH, GRANITE_WIDTH) | {"v.image_newline": (WIDTH,)}
for i in range(4):
    block = f"v.proj_blk.{i}."
    VISION |= {block + "query": (GRANITE_WIDTH, 4), block + "img_pos": (GRANITE_WIDTH, 16)}
    for _, name in GRANITE:
        if name.endswith("norm"):
            VISION |= norm(block + name, GRANITE_WIDTH)
        else:
            sizes = {"ffn_up": (GRANITE_WIDTH, FF), "ffn_down": (FF, GRANITE_WIDTH), "linear": (GRANITE_WIDTH, WIDTH)}
            VISION |= linear(block + name, *sizes.get(name, (GRANITE_WIDTH, GRANITE_WIDTH)))

OCR = {"v.sam.patch_embd.weight": (PATCH, PATCH, 3, 64), "v.sam.patch_embd.bias": (64,), "v.sam.pos_embd.weight": (64, SAM_SIDE, SAM_SIDE),
       "v.sam.neck.0.weight": (1, 1, 64, 24), "v.sam.neck.2.weight": (3, 3, 24, 24), "v.sam.net_2.weight": (3, 3, 24, 40),
       "v.sam.net_3.weight": (3, 3, 40, WIDTH), "v.class_embd": (WIDTH,), "v.position_embd.weight": (WIDTH, 17),
       "v.image_newline": (WIDTH,), "v.view_seperator": (WIDTH,)}
OCR |= norm("v.sam.neck.1", 24) | norm("v.sam.neck.3", 24) | norm("v.pre_ln", WIDTH) | linear("mm.model.fc", 2 * WIDTH, WIDTH)
for name, n, m in (("attn_qkv", WIDTH, 3 * WIDTH), ("attn_out", WIDTH, WIDTH), ("ffn_up", WIDTH, FF), ("ffn_down", FF, WIDTH)):
    OCR |= linear("v.blk.#." + name, n, m)
OCR |= norm("v.blk.#.ln1", WIDTH) | norm("v.blk.#.ln2", WIDTH)
for il in range(SAM_BLOCKS):
    block = f"v.sam.blk.{il}."
    n = 2 * (SAM_SIDE if il == SAM_WHOLE else SAM_WINDOW) - 1
    OCR |= norm(block + "pre_ln", 64) | norm(block + "post_ln", 64) | linear(block + "attn.qkv", 64, 192)
    OCR |= linear(block + "attn.out", 64, 64) | linear(block + "mlp.lin1", 64, FF) | linear(block + "mlp.lin2", FF, 64)
    OCR |= {block + "attn.pos_h.weight": (32, n), block + "attn.pos_w.weight": (32, n)}

OCR2 = {name: dims for name, dims in OCR.items() if "v.sam" in name} | linear("mm.model.fc", WIDTH, WIDTH)
OCR2 |= {"v.resample_query_1024.weight": (WIDTH, 16), "v.resample_query_768.weight": (WIDTH, 9), "v.view_seperator": (WIDTH,)}
for name, n, m in (("attn_q", WIDTH, WIDTH), ("attn_k", WIDTH, 16), ("attn_v", WIDTH, 16)):
    OCR2 |= linear("v.blk.#." + name, n, m)
for name, n, m in (("attn_out", WIDTH, WIDTH), ("ffn_gate", WIDTH, FF), ("ffn_up", WIDTH, FF), ("ffn_down", FF, WIDTH)):
    OCR2 |= linear("v.blk.#." + name, n, m, False)
OCR2 |= norm("v.blk.#.ln1", WIDTH, False) | norm("v.blk.#.ln2", WIDTH, False) | norm("v.post_ln", WIDTH, False)

BANDS = 16
GLMA = {"a.conv1d.1.weight": (3, BANDS, WIDTH), "a.conv1d.1.bias": (1, WIDTH), "a.conv1d.2.weight": (3, WIDTH, WIDTH),
        "a.conv1d.2.bias": (1, WIDTH), "a.position_embd.weight": (WIDTH, 24), "v.boi": (WIDTH,), "v.eoi": (WIDTH,)}
GLMA |= {name.replace("v.", "a.", 1): dims for name, dims in vit().items() if "attn_k.bias" not in name}
GLMA |= norm("mm.a.norm_pre", WIDTH) | linear("mm.a.mlp.1", 4 * WIDTH, 48) | linear("mm.a.mlp.2", 48, WIDTH)

DOTS_EXPERTS = [0, 3, 5]
DOTS = PATCHES | {"v.patch_embd.bias": (WIDTH,)} | norm("v.pre_ln", WIDTH, False) | norm("mm.post_norm", WIDTH, False)
DOTS |= norm("mm.input_norm", WIDTH) | linear("mm.0", 4 * WIDTH, 4 * WIDTH) | linear("mm.2", 4 * WIDTH, WIDTH)
for il, n in enumerate(DOTS_EXPERTS):
    block = f"v.blk.{il}."
    DOTS |= norm(block + "ln1", WIDTH, False) | norm(block + "ln2", WIDTH, False) | linear(block + "attn_qkv", WIDTH, 3 * WIDTH, False)
    DOTS |= linear(block + "attn_out", WIDTH, WIDTH, False) | norm(block + "attn_q_norm", 16, False) | norm(block + "attn_k_norm", 16, False)
    if n:
        DOTS |= linear(block + "ffn_gate_inp", WIDTH, n, False) | {block + "exp_probs_b.weight": (n,)}
        DOTS |= {block + f"ffn_{name}_exps.weight": (WIDTH, 24, n) for name in ("gate", "up")} | {block + "ffn_down_exps.weight": (24, WIDTH, n)}
    else:
        DOTS |= linear(block + "ffn_gate", WIDTH, FF, False) | linear(block + "ffn_up", WIDTH, FF, False) | linear(block + "ffn_down", FF, WIDTH, False)

LDP = CLIP | linear("mm.model.mlp.1", WIDTH, WIDTH) | linear("mm.model.mlp.3", WIDTH, WIDTH)
for i in (1, 2):
    block = f"mm.model.mb_block.{i}.block."
    LDP |= {block + "0.0.weight": (3, 3, 1, WIDTH), block + "2.0.weight": (1, 1, WIDTH, WIDTH), block + "1.fc1.weight": (1, 1, WIDTH, 16),
            block + "1.fc1.bias": (16,), block + "1.fc2.weight": (1, 1, 16, WIDTH), block + "1.fc2.bias": (WIDTH,)}
    LDP |= norm(block + "0.1", WIDTH) | norm(block + "2.1", WIDTH)

COGVLM = PATCHES | {"v.patch_embd.bias": (WIDTH,), "v.class_embd": (WIDTH,), "v.position_embd.weight": (WIDTH, 17), "v.boi": (WIDTH,),
                    "v.eoi": (WIDTH,)} | linear("mm.model.fc", WIDTH, 48, False) | norm("mm.post_fc_norm", 48)
for name, n, m in (("attn_qkv", WIDTH, 3 * WIDTH), ("attn_out", WIDTH, WIDTH), ("ffn_up", WIDTH, FF), ("ffn_down", FF, WIDTH)):
    COGVLM |= linear("v.blk.#." + name, n, m)
COGVLM |= norm("v.blk.#.ln1", WIDTH) | norm("v.blk.#.ln2", WIDTH)
for name, n, m in (("gate", 48, 40), ("up", 48, 40), ("down", 40, WIDTH)):
    COGVLM |= linear("mm." + name, n, m, False)

DOTS_SOUND = {"a.conv2d.1.weight": (3, 3, 1, 24), "a.conv2d.2.weight": (3, 3, 24, 24), "a.conv2d.3.weight": (3, 3, 24, 24),
              "a.conv_out.weight": (48, WIDTH)} | {f"a.conv2d.{i}.bias": (24,) for i in (1, 2, 3)} | norm("a.post_ln", WIDTH, False)
DOTS_SOUND |= norm("mm.a.norm_pre", WIDTH) | linear("mm.a.mlp.1", WIDTH, WIDTH) | linear("mm.a.mlp.3", WIDTH, WIDTH)
for name, n, m in (("attn_q", WIDTH, WIDTH), ("attn_k", WIDTH, WIDTH), ("attn_v", WIDTH, WIDTH), ("attn_out", WIDTH, WIDTH),
                   ("ffn_gate", WIDTH, FF), ("ffn_up", WIDTH, FF), ("ffn_down", FF, WIDTH)):
    DOTS_SOUND |= linear("a.blk.#." + name, n, m, name != "attn_k")
DOTS_SOUND |= norm("a.blk.#.ln1", WIDTH, False) | norm("a.blk.#.ln2", WIDTH, False)


def ear(kind, *more):
    """The keys of an encoder of sounds."""
    a = "clip.audio."
    return ["general.architecture str \"clip\"", "clip.has_audio_encoder bool true", f'clip.projector_type str "{kind}"',
            f"{a}embedding_length u32 {WIDTH}", f"{a}feed_forward_length u32 {FF}", f"{a}block_count u32 {LAYERS}",
            f"{a}attention.head_count u32 {HEADS}", f"{a}attention.layer_norm_epsilon f32 1e-06", f"{a}projection_dim u32 {WIDTH}",
            f"{a}num_mel_bins u32 {BANDS}", *more]


CASES = {
    "dots3note_a": (19201, dots3_sound, DOTS_SOUND, ear("dots3note_a")),
    "cogvlm": ([16, 16], cogvlm, COGVLM, keys("cogvlm")),
    "ldp": ([16, 16], ldp, LDP, keys("ldp")),
    "dots3note_v": ([24, 16], dots3, DOTS,
                    [line.replace("block_count u32 2", "block_count u32 3") for line in
                     keys("dots3note_v", "clip.use_silu bool true", "clip.vision.spatial_merge_size u32 2", "clip.vision.expert_used_count u32 2",
                          "clip.vision.image_min_pixels u32 64", "clip.vision.image_max_pixels u32 4096")]),
    "glma": (10000, glm_asr, GLMA,
             ear("glma", "clip.audio.projector.stack_factor u32 4")),
    "deepseekocr2": ([70, 64], ocr2, OCR2,
                     keys("deepseekocr2", "clip.use_gelu bool true", "clip.vision.window_size u32 3", "clip.vision.sam.block_count u32 3",
                          "clip.vision.sam.head_count u32 2", "clip.vision.sam.embedding_length u32 64",
                          "clip.vision.attention.head_count_kv u32 1", "clip.vision.preproc_min_tiles u32 2",
                          "clip.vision.preproc_max_tiles u32 6")),
    "deepseekocr": ([70, 64], ocr, OCR,
                    keys("deepseekocr", "clip.use_gelu bool true", "clip.vision.window_size u32 3", "clip.vision.sam.block_count u32 3",
                         "clip.vision.sam.head_count u32 2", "clip.vision.sam.embedding_length u32 64",
                         "clip.vision.preproc_min_tiles u32 2", "clip.vision.preproc_max_tiles u32 9")),
    "granite4_vision": ([44, 20], granite, VISION,
                        keys("granite4_vision", "clip.use_gelu bool true", "clip.vision.feature_layer i32[] 1 0 1 1",
                             "clip.vision.projector.spatial_offsets i32[] -1 -1 0 1", "clip.vision.projector.window_side u32 4",
                             "clip.vision.projector.query_side u32 2", "clip.vision.image_grid_pinpoints i32[] 32 32 64 32 32 64",
                             side=GRANITE_SIDE, embd=GRANITE_WIDTH)),
    "step3vl": ([20, 20], step,
                PATCHES | {"v.position_embd.weight": (WIDTH, 16), "mm.0.weight": (3, 3, WIDTH, 48),
                           "mm.1.weight": (3, 3, 48, 64), "mm.1.bias": (64,)} | vit() | norm("v.pre_ln", WIDTH)
                | linear("mm.model.fc", 64, WIDTH, False), keys("step3vl", side=20)),
    "mimovl": ([24, 16], mimo, MIMO,
               keys("mimovl", "clip.use_silu bool true", "clip.vision.attention.head_count_kv u32 1",
                    "clip.vision.window_size u32 3", "clip.vision.wa_pattern_mode i32[] 1 0",
                    "clip.vision.image_min_pixels u32 64", "clip.vision.image_max_pixels u32 4096")),
    "adapter": ([16, 16], adapter, ADAPTER, keys("adapter", "clip.use_gelu bool true")),
    "ldpv2": ([16, 16], ldpv2,
              CLIP | {"mm.model.peg.0.bias": (WIDTH,), "mm.model.peg.0.weight": (3, 3, 1, WIDTH)}
              | linear("mm.model.mlp.0", WIDTH, 48) | linear("mm.model.mlp.2", 48, WIDTH), keys("ldpv2")),
    "mlp": ([16, 16], yi, CLIP | linear("mm.0", WIDTH, 40) | norm("mm.1", 40) | linear("mm.3", 40, WIDTH) | norm("mm.4", WIDTH),
            keys("mlp")),
    "resampler": ([20, 12], resampler, RESAMPLER,
                  keys("resampler", "clip.use_gelu bool true", "clip.minicpmv_version i32 3", width=0)),
    "minimax_m3": ([24, 16], minimax,
                   PATCHES | {"v.patch_embd.weight.1": (PATCH, PATCH, 3, WIDTH)} | vit() | norm("v.pre_ln", WIDTH)
                   | linear("mm.1", WIDTH, 40) | linear("mm.2", 40, 48) | linear("mm.merger.fc1", 192, 40)
                   | linear("mm.merger.fc2", 40, WIDTH), keys("minimax_m3")),
    "youtuvl": ([24, 16], youtu,
                {"v.patch_embd.weight": (3 * PATCH * PATCH, WIDTH), "v.patch_embd.bias": (WIDTH,)} | vit()
                | norm("v.post_ln", WIDTH) | norm("mm.input_norm", WIDTH, False) | linear("mm.0", 4 * WIDTH, 40)
                | linear("mm.2", 40, WIDTH),
                keys("youtuvl", "clip.use_gelu bool true", "clip.vision.window_size u32 16",
                     "clip.vision.wa_layer_indexes i32[] 1")),
    "nemotron_v2_vl": ([16, 16], nemotron,
                       PATCHES | {"v.class_embd": (WIDTH, 3), "v.position_embd.weight": (WIDTH, 16)} | vit()
                       | norm("mm.model.mlp.0", 4 * WIDTH, False) | linear("mm.model.mlp.1", 4 * WIDTH, 40, False)
                       | linear("mm.model.mlp.3", 40, WIDTH, False), keys("nemotron_v2_vl", "clip.use_gelu bool true")),
    "phi4": ([24, 12], phi4, {n: d for n, d in siglip().items() if "post_ln" not in n} | linear("mm.0", WIDTH, 40) | linear("mm.2", 40, WIDTH),
             keys("phi4", "clip.use_gelu bool true", "clip.vision.image_min_pixels u32 16",
                  "clip.vision.image_max_pixels u32 4096")),
    "muse-glimmer": ([24, 16], muse,
                     siglip() | norm("v.pre_ln", WIDTH) | linear("mm.0", 4 * WIDTH, 40, False)
                     | linear("mm.1", 40, 40, False) | linear("mm.2", 40, WIDTH, False), keys("muse-glimmer")),
}


def case(name):
    size, see, tensors, of = CASES[name]
    lines, w = [], Weights()
    for tensor, dims in sorted(tensors.items()):
        scale, offset = spread(tensor, dims)
        lines.append(" ".join(map(str, (tensor, *dims, scale, offset))))
        for layer in range(LAYERS) if "#" in tensor else [0]:
            one = tensor.replace("#", str(layer))
            numbers = (offset + scale * noise(one, math.prod(dims))).astype(np.float32)
            w[one] = torch.from_numpy(numbers.reshape(dims[::-1]))
    with torch.inference_mode():
        rows = see(w, size if isinstance(size, int) else picture(pixels(*size)))
    flat = rows.flatten().tolist()
    given = {"samples": size} if isinstance(size, int) else {"size": size}
    return {"name": name, "keys": of, "tensors": lines, **given, "shape": list(rows.shape),
            "numbers": [round(flat[i * 7919 % len(flat)], 6) for i in range(COUNT)]}


def main():
    all = {}
    if sys.argv[1:] and PATH.exists():
        all = {c["name"]: c for c in json.loads(PATH.read_text())}
    for name in sys.argv[1:] or CASES:
        all[name] = case(name)
    lines = ",\n".join(json.dumps(all[name], separators=(",", ":")) for name in sorted(all))
    PATH.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
