#!/usr/bin/env python3
"""What Hugging Face's transformers computes with a small Whisper: the witness of go/transcribe.

Needs torch and transformers 5, and nothing that the build or the tests need. It writes go/transcribe/testdata/:

    checkpoint/   config.json, generation_config.json and tokenizer.json of a model of random weights, which the test
                  makes of tensors.txt: lines "NAME SHAPE... SCALE OFFSET", as golden_hf.py has them
    witness.json  of that model and a sound that the test makes too (sound(), as floats):
        prompt    token ids of the decoder
        logits    after the last of them, all
        said      the tokens that follow with the rules of times, each the likeliest
    words.json    of the sound and a text of letters: its tokens, when each is said and the end, by transformers' median filter and
                  time warping, and what the first head that aligns attends to, of the first token that speaks
    rules.json    what the rules of times leave of noise: lists of [said, times, allowed, likeliest], in which `times`
                  is added to the logits of all times, and `allowed` is how many tokens remain
"""

import json
import pathlib

import numpy as np
import torch
import transformers
from golden_hf import noise, spread
from transformers import WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration
from transformers.models.whisper.generation_whisper import _dynamic_time_warping, _median_filter
from transformers.generation.logits_process import WhisperTimeStampLogitsProcessor

OUT = pathlib.Path(__file__).parent.parent / "go/transcribe/testdata"
SOURCE, ANSWER, BANDS = 50, 32, 16  # a window of one second
SUPPRESSED = [145, 146]
ALIGNED = [[1, 1], [2, 0], [2, 3]]  # layers and heads
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|de|>", "<|translate|>", "<|transcribe|>",
           "<|startoflm|>", "<|startofprev|>", "<|nospeech|>", "<|notimestamps|>"]


def letters():
    """The bytes as GPT-2 spells them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    names = {b: chr(b) for b in plain}
    for n, b in enumerate(b for b in range(256) if b not in names):
        names[b] = chr(256 + n)
    return [names[b] for b in range(256)]


def tokenizer():
    words = letters()
    return {
        "version": "1.0",
        "added_tokens": [{"id": len(words) + i, "content": text, "special": True} for i, text in enumerate(SPECIAL)],
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
        "decoder": {"type": "ByteLevel"},
        "model": {"type": "BPE", "vocab": {w: i for i, w in enumerate(words)}, "merges": []},
    }


def sound(n):
    """A sound of n samples: noise, and two tones that come and go."""
    t = np.arange(n) / 16000
    tones = np.where(np.arange(n) % 4000 < 2000, np.sin(2 * np.pi * 440 * t), np.sin(2 * np.pi * 1320 * t))
    return (0.3 * tones + 0.05 * noise("sound", n)).astype(np.float32)


def rules(start, times, vocab, eos):
    config = transformers.GenerationConfig(
        eos_token_id=eos, no_timestamps_token_id=times - 1, max_initial_timestamp_index=50, bos_token_id=eos)
    list_ = []
    for said in [[], [times], [times, 5], [times, 5, times + 9], [times, 5, times + 9, times + 9],
                 [times, 5, times + 9, times + 12, 7], [times + 3, 5, 6, 7, times + 50], [times + 9, 5, times + 9]]:
        for raised in (-9, 0, 9):
            head = [start]
            process = WhisperTimeStampLogitsProcessor(config, begin_index=len(head))
            logits = 3 * noise(f"logits {len(list_)}", vocab)
            logits[times:] += raised
            ids = torch.tensor([head + said])
            scores = torch.tensor(logits, dtype=torch.float32)[None]
            if not said:
                scores[:, [32, eos]] = -torch.inf  # which SuppressTokensAtBegin does
            left = process(ids, scores)[0]
            list_.append([said, raised, int(torch.isfinite(left).sum()), int(left.argmax())])
    return list_


def main():
    words, special = 256, len(SPECIAL)
    vocab = words + special + SOURCE + 1
    ids = {text: words + i for i, text in enumerate(SPECIAL)}
    end = ids["<|endoftext|>"]
    config = WhisperConfig(
        vocab_size=vocab, num_mel_bins=BANDS, d_model=64, encoder_layers=2, decoder_layers=3, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=96, decoder_ffn_dim=96, max_source_positions=SOURCE,
        max_target_positions=ANSWER, bos_token_id=end, eos_token_id=end, pad_token_id=end,
        decoder_start_token_id=ids["<|startoftranscript|>"], suppress_tokens=None, begin_suppress_tokens=None)
    model = WhisperForConditionalGeneration(config).eval()
    lines = []
    with torch.no_grad():
        for name, p in model.state_dict().items():
            if name == "proj_out.weight":
                continue
            scale, offset = spread(name, tuple(p.shape))
            values = (offset + scale * noise(name, p.numel())).astype(np.float32)
            p.copy_(torch.from_numpy(values).reshape(p.shape))
            lines.append(f"{name} {' '.join(map(str, p.shape))} {scale} {offset}")
        model.tie_weights()
        samples = sound(16000)
        extract = WhisperFeatureExtractor(feature_size=BANDS, chunk_length=1)
        mel = torch.from_numpy(extract._np_extract_fbank_features(samples[None], "cpu")).float()  # in doubles
        encoded = model.model.encoder(mel).last_hidden_state
        head = [ids["<|startoftranscript|>"], ids["<|en|>"], ids["<|transcribe|>"]]
        said = []
        times = vocab - SOURCE - 1
        rule = WhisperTimeStampLogitsProcessor(
            transformers.GenerationConfig(eos_token_id=end, no_timestamps_token_id=times - 1, bos_token_id=end,
                                          max_initial_timestamp_index=50), begin_index=len(head))
        while len(said) < ANSWER // 2:
            all_ids = torch.tensor([head + said])
            logits = model(encoder_outputs=(encoded,), decoder_input_ids=all_ids).logits[:, -1].clone()
            if not said:
                first = logits[0].clone()
                logits[:, [32, end]] = -torch.inf
            logits[:, SUPPRESSED] = -torch.inf
            left = rule(all_ids, logits)[0]
            said.append(int(left.argmax()))
            if said[-1] == end:
                said.pop()
                break
        text = [ord(c) for c in "ab cde, f. g"]  # not the tokens of these letters, but some
        spoken = torch.tensor([head + [times - 1] + text + [end]])
        model.set_attn_implementation("eager")
        attended = model(encoder_outputs=(encoded,), decoder_input_ids=spoken, output_attentions=True).cross_attentions
        weights = torch.stack([attended[layer][0, h] for layer, h in ALIGNED])
        first_row = weights[0, len(head)]
        weights = (weights - weights.mean(-2, keepdim=True)) / weights.std(-2, keepdim=True, unbiased=False)
        matrix = _median_filter(weights[None], 7)[0].mean(0)[len(head):-1]
        rows, columns = _dynamic_time_warping(-matrix.double().numpy())
        words = [int(columns[list(rows).index(i)]) for i in range(len(text) + 1)]
    (OUT / "checkpoint").mkdir(parents=True, exist_ok=True)
    settings = json.loads(config.to_json_string(use_diff=False))
    keep = ("architectures model_type vocab_size num_mel_bins d_model encoder_layers decoder_layers encoder_ffn_dim "
            "decoder_ffn_dim encoder_attention_heads decoder_attention_heads max_source_positions max_target_positions "
            "activation_function scale_embedding bos_token_id eos_token_id pad_token_id decoder_start_token_id").split()
    settings["architectures"] = ["WhisperForConditionalGeneration"]
    write = lambda name, v: (OUT / name).write_text(json.dumps(v) + "\n")
    write("checkpoint/config.json", {k: settings[k] for k in keep})
    write("checkpoint/generation_config.json", {"suppress_tokens": SUPPRESSED, "alignment_heads": ALIGNED})
    write("words.json", {"text": text, "positions": words, "weights": first_row.tolist()})
    write("checkpoint/tokenizer.json", tokenizer())
    (OUT / "checkpoint/tensors.txt").write_text("\n".join(lines) + "\n")
    write("witness.json", {
        "prompt": head,
        "logits": first.tolist(), "said": said})
    write("rules.json", rules(head[0], 266, 266 + 81, 256))


if __name__ == "__main__":
    main()
