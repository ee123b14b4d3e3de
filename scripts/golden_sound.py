#!/usr/bin/env python3
"""What transformers' encoders of sounds make of a sound: the witness of the kinds of projectors in go/model/projector.

Needs torch and transformers 5, and nothing that the build or the tests need.

    golden_sound.py            write go/convert/testdata/mmproj/hearing.json

The checkpoints are those of golden_mmproj.py. A case has

    name     of the checkpoint
    samples  of the sound, at 16,000 a second: the noise of "sound"
    shape    of the rows
    numbers  some of theirs: i * 7919 modulo their count says which
"""

import json
import pathlib
import tempfile

import numpy as np
import torch
import transformers
from golden_hf import noise, written
from golden_mmproj import ARCHIVE
from golden_sight import COUNT, shapes_of
from safetensors.torch import load_file
from transformers.audio_utils import spectrogram, window_function
from transformers.models.audioflamingo3 import modeling_audioflamingo3 as flamingo
from transformers.models.gemma4 import feature_extraction_gemma4 as gemma4_features
from transformers.models.gemma4 import modeling_gemma4 as gemma4
from transformers.models.qwen2_audio import modeling_qwen2_audio as qwen2
from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as omni


def mel(n, bands, padded=0):
    """[bands, frames] of n samples, and of silence behind them up to `padded`."""
    x = np.zeros(max(n, padded))
    x[:n] = noise("sound", n).astype(np.float32)
    filters = transformers.WhisperFeatureExtractor(feature_size=bands).mel_filters
    m = spectrogram(x, window_function(400, "hann"), frame_length=400, hop_length=160, power=2.0, mel_filters=filters,
                    log_mel="log10")
    return (np.maximum(m, m.max() - 8) + 4) / 4


def loaded(module, prefix, weights):
    module.load_state_dict({k.removeprefix(prefix): v for k, v in weights.items() if k.startswith(prefix)})
    return module.eval()


def rounded(weights):
    """Convolutions as they are in files: F16."""
    return {k: v.half().float() if "conv" in k and k.endswith("weight") else v for k, v in weights.items()}


def whisper(config, weights, n, encoder, projector, masked=False):
    """Windows of as many frames as there are two for each position."""
    c = config.audio_config
    frames = 2 * c.max_source_positions
    windows = -(-n // (160 * frames))
    x = mel(n, c.num_mel_bins, windows * frames * 160)[:, :windows * frames]
    x = torch.tensor(x, dtype=torch.float32).reshape(-1, windows, frames).transpose(0, 1)
    mask = {"input_features_mask": torch.ones(windows, frames, dtype=torch.long)} if masked else {}
    seen = loaded(encoder(c), "audio_tower.", weights)(x, **mask).last_hidden_state
    return loaded(projector(config), "multi_modal_projector.", weights)(seen)


def qwen2a(of, weights, n):
    config = transformers.AutoConfig.for_model("qwen2_audio", **settings(of))
    return whisper(config, rounded(weights), n, qwen2.Qwen2AudioEncoder, qwen2.Qwen2AudioMultiModalProjector)


def musicflamingo(of, weights, n):
    config = transformers.AutoConfig.for_model("audioflamingo3", **settings(of))
    return whisper(config, weights, n, flamingo.AudioFlamingo3Encoder, flamingo.AudioFlamingo3MultiModalProjector, True)


def qwen3omni(of, weights, n):
    """Whole seconds: what is left of one is fewer rows there."""
    c = of["thinker_config"]["audio_config"]
    more = dict(n_window=50, n_window_infer=800, max_source_positions=1500)
    config = omni.Qwen3OmniMoeAudioEncoderConfig(**{k: v for k, v in c.items() if k != "model_type"} | more)
    tower = loaded(omni.Qwen3OmniMoeAudioEncoder(config), "thinker.audio_tower.", rounded(weights))
    x = torch.tensor(mel(n, c["num_mel_bins"]), dtype=torch.float32)
    assert x.shape[1] % 100 == 0, x.shape
    return tower(x, feature_lens=torch.tensor([x.shape[1]])).last_hidden_state


def gemma4a(of, weights, n):
    config = transformers.AutoConfig.for_model("gemma4_audio", **settings(of["audio_config"]))
    x = gemma4_features.Gemma4AudioFeatureExtractor()([noise("sound", n).astype(np.float32)], return_tensors="pt")
    tower = loaded(gemma4.Gemma4AudioModel(config), "model.audio_tower.", weights)
    text = transformers.AutoConfig.for_model("gemma4_text", **settings(of["text_config"]))
    embed = loaded(gemma4.Gemma4MultimodalEmbedder(config, text), "model.embed_audio.", weights)
    heard = tower(x["input_features"], x["input_features_mask"])
    return embed(heard.last_hidden_state[heard.attention_mask.bool()])


def settings(of):
    return {k: v for k, v in of.items() if k not in ("architectures", "model_type", "transformers_version", "dtype")}


CASES = {"gemma4/free": (gemma4a, 170000), "qwen2a": (qwen2a, 5000), "musicflamingo": (musicflamingo, 5000), "qwen3omni": (qwen3omni, 31999)}


def main():
    transformers.logging.set_verbosity_error()
    checkpoints = {c["name"]: c for f in ("pictures", "sounds")
                   for c in json.loads((ARCHIVE / f"{f}.json").read_text())["cases"]}
    all = []
    for name, (hear, n) in sorted(CASES.items()):
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            path = pathlib.Path(folder) / "model.safetensors"
            written(path, shapes_of(checkpoints[name]["tensors"]))
            rows = hear(checkpoints[name]["config"], load_file(path), n)
        rows = rows.reshape(-1, rows.shape[-1])
        flat = rows.flatten().tolist()
        all.append({"name": name, "samples": n, "shape": list(rows.shape),
                    "numbers": [round(flat[i * 7919 % len(flat)], 6) for i in range(COUNT)]})
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in all)
    (ARCHIVE / "hearing.json").write_text(f'{{"transformers": "{transformers.__version__}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
