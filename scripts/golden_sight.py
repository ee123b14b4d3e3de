#!/usr/bin/env python3
"""What transformers' encoders of pictures make of a picture: the witness of go/model/projector.

Needs torch and transformers 5, and nothing that the build or the tests need.

    golden_sight.py            write go/convert/testdata/mmproj/sights.json
    golden_sight.py NAME...    only these cases

The checkpoints are those of golden_mmproj.py in pictures.json, and some more. A case has

    name     of the checkpoint
    more     of those that pictures.json lacks: config, processor and tensors, as there
    size     of the picture: its byte i is the first 8 bits of the noise of "picture"
    shape    of the rows
    numbers  some of theirs: i * 7919 modulo their count says which
"""

import json
import pathlib
import re
import sys
import tempfile
import unittest.mock

import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F
import transformers
from PIL import Image
from golden_hf import named, noise, written
from golden_mmproj import ARCHIVE, CLIP, GRID, TEXT, VIT
from transformers.models.hunyuan_vl import modeling_hunyuan_vl as hunyuan_vl
from transformers.models.minicpmv4_6.image_processing_pil_minicpmv4_6 import (
    MiniCPMV4_6ImageProcessorPil as PilMiniCPM)

COUNT = 32


def shapes_of(lines):
    """The shapes of tensors, from lines as golden_hf.py writes them."""
    shapes = {}
    for text in lines:
        of, _, rest = text.rpartition(": ")
        name, *shape, _, _ = rest.split()
        layers = [None]
        if of:
            layers = [n for span in of.split(",") for n in range(int(span.split("-")[0]), int(span.split("-")[-1]) + 1)]
        for layer in layers:
            shapes[name.replace("#", str(layer))] = [int(n) for n in shape], None
    return shapes


def pixels(w, h):
    return ((noise("picture", w * h * 3) + 1) * 128).astype(np.uint8).reshape(h, w, 3)


def picture(w, h, processor, of=None):
    """A picture as models take it: [3, height, width]."""
    of = pixels(w, h) if of is None else of
    mean, std = (np.float32(processor["image_" + name]) for name in ("mean", "std"))
    x = (of.astype(np.float32) / np.float32(255) - mean) / std
    return torch.from_numpy(x.transpose(2, 0, 1).copy())


def patches(x, p, merge=1, frames=1):
    """Rows of patches, of squares of merge x merge in succession."""
    c, h, w = x.shape
    x = x.reshape(c, h // p // merge, merge, p, w // p // merge, merge, p).permute(1, 4, 2, 5, 0, 3, 6)
    x = x.reshape(-1, c, 1, p, p).expand(-1, -1, frames, -1, -1)
    return x


def grid(x, p):
    return torch.tensor([[1, x.shape[1] // p, x.shape[2] // p]])


def internvl(model, x):
    return model.model.get_image_features(pixel_values=x[None])


def idefics3(model, x):
    return model.model.get_image_features(pixel_values=x[None, None])


def lfm2(model, x):
    rows = patches(x, 16)[:, :, 0].permute(0, 2, 3, 1).reshape(1, -1, 768)
    return model.model.get_image_features(pixel_values=rows, spatial_shapes=grid(x, 16)[:, 1:],
                                          pixel_attention_mask=torch.ones(1, rows.shape[1], dtype=torch.long))


def llama4(model, x):
    seen = model.get_image_features(pixel_values=x[None], vision_feature_select_strategy="default")
    seen = getattr(seen, "last_hidden_state", seen)
    return model.multi_modal_projector(seen.reshape(-1, seen.shape[-1]))


def glm4v(model, x):
    rows = patches(x, 4, 2, 2).reshape(-1, 3 * 2 * 4 * 4)
    return model.model.get_image_features(pixel_values=rows, image_grid_thw=grid(x, 4))


def in_rows(model, x):
    rows = patches(x, 4).reshape(-1, 3, 4, 4)
    return model.model.get_image_features(pixel_values=rows, image_grid_thw=grid(x, 4))


def hunyuan(model, x):
    rows = patches(x, 4).reshape(-1, 48)
    rows = rows.reshape(x.shape[1] // 4, -1, 48).flatten(0, 1)
    with unittest.mock.patch.object(hunyuan_vl.HunYuanVLVisionPatchEmbed, "interpolate_pos_encoding", stretched):
        return model.model.get_image_features(pixel_values=rows, image_grid_thw=grid(x, 4))


def stretched(self, embeddings, height, width):
    """The positions of Hunyuan's code, which is as that of DINO: a size is taken as 0.1 larger."""
    n, height, width = self.position_edge, int(height), int(width)
    table = self.position_embedding.weight[1:].reshape(1, n, n, -1).permute(0, 3, 1, 2)
    made = F.interpolate(table, scale_factor=((height + 0.1) / n, (width + 0.1) / n), mode="bilinear")
    return made.permute(0, 2, 3, 1).reshape(1, height * width, -1)


def minicpmv46(model, x):
    """A picture that is cut into slices."""
    see = PilMiniCPM(scale_resolution=12, patch_size=4)
    made = see(Image.fromarray(pixels(40, 24)), return_tensors="pt")
    return torch.cat(model.model.get_image_features(**{k: made[k] for k in ("pixel_values", "target_sizes")}).pooler_output)


def janus(model, x):
    return model.model.get_image_features(pixel_values=x[None])


def lightonocr(model, x):
    return model.model.get_image_features(pixel_values=x[None], image_sizes=torch.tensor([x.shape[1:]]))


def llava(model, x):
    """A picture that is as wide as two tiles: it is filled above and below, and the overview is of all of it."""
    _, h, w = x.shape
    whole = np.zeros((16, 32, 3), np.uint8)
    whole[(16 - h) // 2:][:h] = pixels(w, h)
    overview = np.asarray(Image.fromarray(pixels(w, h)).resize((16, 16), Image.BICUBIC))
    tiles = torch.stack([picture(0, 0, CLIP, t) for t in (overview, whole[:, :16], whole[:, 16:])])
    return model.model.get_image_features(pixel_values=tiles[None], image_sizes=torch.tensor([[h, w]]))


LLAVA = {"config": dict(architectures=["LlavaNextForConditionalGeneration"], model_type="llava_next",
                        image_grid_pinpoints=[[16, 32], [32, 16]], vision_feature_layer=-2,
                        vision_feature_select_strategy="default", projector_hidden_act="gelu",
                        text_config=dict(TEXT, model_type="llama"),
                        vision_config=dict(VIT, model_type="clip_vision_model", hidden_act="quick_gelu")),
         "processor": CLIP, "kind": "llava_next"}

CASES = {
    "internvl": ([16, 16], internvl), "idefics3": ([16, 16], idefics3),
    "lfm2": ([256, 256], lfm2), "llama4": ([16, 16], llama4), "glm4v": ([40, 24], glm4v), "glmocr": ([40, 24], glm4v),
    "kimivl": ([40, 24], in_rows), "kimik25": ([40, 24], in_rows), "paddleocr": ([40, 24], in_rows),
    "januspro": ([16, 16], janus),
    "exaone45": ([40, 24], glm4v),
    "dotsocr": ([40, 24], None), "lightonocr": ([16, 8], lightonocr),
    "llava": ([32, 10], llava), "hunyuanvl": ([40, 24], hunyuan),
    "minicpmv46": ([40, 24], minicpmv46),
}
HUNYUAN = {"config": dict(architectures=["HunYuanVLForConditionalGeneration"], model_type="hunyuan_vl",
                          text_config=dict(TEXT, model_type="hunyuan_vl_text", head_dim=16),
                          vision_config=dict(VIT, model_type="hunyuan_vl_vision", max_image_size=16, hidden_act="gelu",
                                             rms_norm_eps=1e-5, layer_norm_eps=1e-5, text_hidden_size=32,
                                             spatial_merge_size=2)),
           "processor": dict(CLIP, min_pixels=64, max_pixels=4096), "kind": "hunyuan_vl"}

MINICPM = {"config": dict(architectures=["MiniCPMV4_6ForConditionalGeneration"], model_type="minicpmv4_6", insert_layer_id=1,
                          text_config=dict(TEXT, model_type="qwen3_5_text"),
                          vision_config=dict(VIT, model_type="minicpmv4_6_vision", insert_layer_id=1,
                                             hidden_act="gelu_pytorch_tanh")),
           "processor": dict(image_mean=[0.5] * 3, image_std=[0.5] * 3, scale_resolution=12), "kind": "minicpmv4_6"}

MORE = {"llava": LLAVA, "hunyuanvl": HUNYUAN, "minicpmv46": MINICPM}

# What transformers calls the types of checkpoints that were published with their own code.
RETYPED = {
    "kimik25": dict(model_type="kimi_k25", projection_hidden_size=32, text_config=dict(TEXT, model_type="deepseek_v3"),
                    vision_config=dict(model_type="kimi_k25_vision", pos_emb_height=4, pos_emb_width=4, hidden_size=32,
                                       intermediate_size=48, num_attention_heads=2, num_hidden_layers=3, patch_size=4)),
    "paddleocr": dict(model_type="paddleocr_vl", text_config=dict(TEXT, model_type="paddleocr_vl_text"),
                      vision_config=dict(VIT, model_type="paddleocr_vl_vision", hidden_act="gelu_pytorch_tanh",
                                         spatial_merge_size=2)),
    "januspro": dict(model_type="janus", text_config=dict(TEXT, model_type="llama"),
                     vision_config=dict(model_type="janus_vision_model", hidden_size=32, mlp_ratio=2.0,
                                        num_hidden_layers=3, num_attention_heads=2, image_size=16, patch_size=4,
                                        hidden_act="gelu", layer_norm_eps=1e-6, projection_dim=32, depth=2)),
}




def dots(w, x):
    """dots.ocr by its publisher's code, which transformers lacks, in torch."""
    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w.get(name + ".bias"))

    def rms(x, name):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w[name + ".weight"]

    tower = "vision_tower."
    h = patches(x, 4, 2).reshape(-1, 48) @ w[tower + "patch_embed.patchifier.proj.weight"].reshape(32, 48).T
    h = rms(h + w[tower + "patch_embed.patchifier.proj.bias"], tower + "patch_embed.patchifier.norm")
    places = torch.stack(torch.meshgrid(torch.arange(x.shape[1] // 4), torch.arange(x.shape[2] // 4), indexing="ij"))
    places = places.reshape(2, x.shape[1] // 8, 2, x.shape[2] // 8, 2).permute(1, 3, 2, 4, 0).reshape(-1, 2).float()
    angles = (places[:, :, None] * 10000 ** (-torch.arange(0, 8, 2) / 8)).flatten(1).repeat(1, 2)[:, None]

    def turned(v):
        return v * angles.cos() + torch.cat([-v[..., 8:], v[..., :8]], -1) * angles.sin()

    for il in range(3):
        block = f"{tower}blocks.{il}."
        q, k, v = linear(rms(h, block + "norm1"), block + "attn.qkv").reshape(-1, 3, 2, 16).unbind(1)
        q, k, v = (t.transpose(0, 1) for t in (turned(q), turned(k), v))
        seen = ((q @ k.transpose(1, 2)) / 4).softmax(-1) @ v
        h = h + linear(seen.transpose(0, 1).reshape(-1, 32), block + "attn.proj")
        y = rms(h, block + "norm2")
        h = h + linear(F.silu(linear(y, block + "mlp.fc1")) * linear(y, block + "mlp.fc3"), block + "mlp.fc2")
    merger = tower + "merger."
    h = F.layer_norm(rms(h, tower + "post_trunk_norm"), (32,), w[merger + "ln_q.weight"], w[merger + "ln_q.bias"], 1e-6)
    return linear(F.gelu(linear(h.reshape(-1, 128), merger + "mlp.0")), merger + "mlp.2")


RETYPED["exaone45"] = dict(
    model_type="exaone4_5", text_config=dict(TEXT, model_type="exaone4"),
    vision_config=dict(GRID, model_type="exaone4_5_vision", depth=4, num_key_value_heads=1,
                       fullatt_block_indexes=[1, 3], window_size=16, rms_norm_eps=1e-5))
RETYPED["kimivl"] = RETYPED["kimik25"]  # the same encoder

# Names that the class which stands for another has.
RENAMED = {"kimivl": {"multi_modal_projector.pre_norm": "mm_projector.pre_norm",
                      "multi_modal_projector.linear_1": "mm_projector.proj.0",
                      "multi_modal_projector.linear_2": "mm_projector.proj.2"}}


def tensors(seen):
    """The tensors in what a model returns, the rows first."""
    if isinstance(seen, torch.Tensor):
        return [seen]
    if isinstance(seen, (list, tuple)):
        return [t for part in seen for t in tensors(part)]
    for name in ("pooler_output", "last_hidden_state"):
        if getattr(seen, name, None) is not None:
            return tensors(getattr(seen, name))
    raise ValueError(type(seen))


def renamed(path, names):
    """Give tensors the names that transformers' class has."""
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    text = raw[8:8 + size].decode()
    for was, new in names.items():
        text = text.replace(was, new)
    path.write_bytes(len(text.encode()).to_bytes(8, "little") + text.encode() + raw[8 + size:])


def said(size, rows):
    """What is said of rows."""
    flat = rows.flatten().tolist()
    some = [round(flat[i * 7919 % len(flat)], 6) for i in range(COUNT)]
    return {"size": size, "shape": list(rows.shape), "numbers": some}


def case(name, of):
    size, see = CASES[name]
    out = {"name": name}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        if name in MORE:
            of = dict(MORE[name])
            kind = of.pop("kind")
            settings = {k: v for k, v in of["config"].items() if k not in ("architectures", "model_type")}
            model = transformers.AutoModelForImageTextToText.from_config(
                transformers.AutoConfig.for_model(kind, **settings))
            model.save_pretrained(folder)
            raw = (folder / "model.safetensors").read_bytes()
            header = json.loads(raw[8:8 + int.from_bytes(raw[:8], "little")])
            of["tensors"] = named({k: (v["shape"], None) for k, v in header.items() if k != "__metadata__"})
            out["more"] = of
        config = RETYPED.get(name, of["config"])
        (folder / "config.json").write_text(json.dumps(config | {"architectures": of["config"]["architectures"]}))
        shapes = {k: v for k, v in shapes_of(of["tensors"]).items() if not re.search("vqmodel|generation_", k)}
        written(folder / "model.safetensors", shapes)
        if name == "dotsocr":
            w = safetensors.torch.load_file(folder / "model.safetensors")
            return out | said(size, dots(w, picture(*size, of["processor"])))
        renamed(folder / "model.safetensors", RENAMED.get(name, {}))
        model, info = transformers.AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        sight = re.compile("vis|proj|connector|merger|align")
        lost = [n for n in info["missing_keys"] if sight.search(n) and not re.search("language|vqmodel|generation_", n)]
        assert not lost, (name, lost)
        with torch.inference_mode():
            rows = tensors(see(model.eval(), picture(*size, of["processor"])))[0]
    return out | said(size, rows.reshape(-1, rows.shape[-1]))


def main():
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    path = ARCHIVE / "sights.json"
    checkpoints = {c["name"]: c for c in json.loads((ARCHIVE / "pictures.json").read_text())["cases"]}
    all = {}
    if sys.argv[1:] and path.exists():
        all = {c["name"]: c for c in json.loads(path.read_text())["cases"]}
    for name in sys.argv[1:] or CASES:
        all[name] = case(name, checkpoints.get(name))
    lines = ",\n".join(json.dumps(all[name], separators=(",", ":")) for name in sorted(all))
    path.write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
