#!/usr/bin/env python3
"""What transformers' encoders of pictures make of a picture: the witness of the kinds of projectors in go/model/projector.

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

import numpy as np
import torch
import transformers
from PIL import Image
from golden_hf import named, noise, written
from golden_mmproj import ARCHIVE, CLIP, TEXT, VIT

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
    x = (of.astype(np.float32) / np.float32(255) - np.float32(processor["image_mean"])) / np.float32(processor["image_std"])
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
    "llava": ([32, 10], llava),
}
MORE = {"llava": LLAVA}


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
        (folder / "config.json").write_text(json.dumps(of["config"]))
        written(folder / "model.safetensors", shapes_of(of["tensors"]))
        model, said = transformers.AutoModelForImageTextToText.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
        sight = re.compile("vis|proj|connector|merger|align")
        lost = [n for n in said["missing_keys"] if sight.search(n) and "language" not in n]
        assert not lost, (name, lost)
        with torch.inference_mode():
            rows = tensors(see(model.eval(), picture(*size, of["processor"])))[0]
    rows = rows.reshape(-1, rows.shape[-1])
    flat = rows.flatten().tolist()
    return out | {"size": size, "shape": list(rows.shape), "numbers": [round(flat[i * 7919 % len(flat)], 6) for i in range(COUNT)]}


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
