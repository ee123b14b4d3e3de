#!/usr/bin/env python3
"""What tokens and types Hugging Face's transformers makes of pairs of texts: the witness of go/convert and go/rerank.

Needs transformers 5, and nothing that the build or the tests need.

    golden_pairs.py                write go/convert/testdata/pairs.json

A tokenizer of a few tokens for each line of TOKENIZERS, with

    family    whose first checkpoint of go/convert/testdata/transformers it is for, or with / and a name that one
    files     tokenizer.json and tokenizer_config.json, as transformers saves them
    pairs     for each of TEXTS, the ids, and the types: all 0 where transformers gives a model none
"""

import json
import pathlib
import tempfile

import transformers as hf

ARCHIVE = pathlib.Path(__file__).parent.parent / "go/convert/testdata/pairs.json"
TEXTS = ("a", "b"), ("a b", "b a a"), ("b", "")
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
MPNET = ["<s>", "<pad>", "</s>", "[UNK]", "a", "b", "<mask>"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "a", "b", "\u0120", "<mask>"]
DEBERTA = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "a", "b", "\u0120", "[MASK]"]
PIECES = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "\u2581a", "\u2581b", "\u2581", "[MASK]"]
XLMR = ["<s>", "<pad>", "</s>", "<unk>", "\u2581a", "\u2581b", "\u2581", "<mask>"]


def numbered(tokens):
    return {t: i for i, t in enumerate(tokens)}


def scored(tokens):
    return [(t, -float(i) if i > 3 else 0.0) for i, t in enumerate(tokens)]


TOKENIZERS = {
    "bert": ("bert", lambda: hf.BertTokenizer(vocab=numbered(BERT))),
    "bert-untyped": ("bert", lambda: hf.BertTokenizer(
        vocab=numbered(BERT), model_input_names=["input_ids", "attention_mask"])),
    "bert-distil": ("bert", lambda: hf.DistilBertTokenizer(vocab=numbered(BERT))),
    "electra": ("electra", lambda: hf.ElectraTokenizer(vocab=numbered(BERT))),
    "distilbert": ("distilbert", lambda: hf.DistilBertTokenizer(vocab=numbered(BERT))),
    "mpnet": ("mpnet", lambda: hf.MPNetTokenizer(vocab=numbered(MPNET))),
    "roberta": ("roberta", lambda: hf.RobertaTokenizer(vocab=numbered(ROBERTA), merges=[])),
    "xlmroberta": ("xlmroberta", lambda: hf.XLMRobertaTokenizer(vocab=scored(XLMR))),
    "camembert": ("xlmroberta", lambda: hf.CamembertTokenizer(vocab=scored(XLMR))),
    "deberta": ("deberta/types", lambda: hf.DebertaTokenizer(vocab=numbered(DEBERTA), merges=[])),
    "debertav2": ("debertav2/types", lambda: hf.DebertaV2Tokenizer(vocab=scored(PIECES))),
    "bert-pieces": ("bert", lambda: hf.DebertaV2Tokenizer(vocab=scored(PIECES))),
}


def main():
    found = []
    for name, (family, make) in TOKENIZERS.items():
        with tempfile.TemporaryDirectory() as folder:
            make().save_pretrained(folder)
            files = {n: (pathlib.Path(folder) / n).read_text() for n in ("tokenizer.json", "tokenizer_config.json")}
            tokenizer = hf.AutoTokenizer.from_pretrained(folder)
        out = tokenizer([first for first, _ in TEXTS], [second for _, second in TEXTS])  # as cross-encoders are given them
        types = out.get("token_type_ids", [[0] * len(ids) for ids in out["input_ids"]])
        pairs = [{"texts": texts, "ids": out["input_ids"][i], "types": types[i]} for i, texts in enumerate(TEXTS)]
        files = {n: json.dumps(json.loads(text), separators=(",", ":")) for n, text in files.items()}
        found.append({"name": name, "family": family, "files": files, "pairs": pairs})
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in found)
    ARCHIVE.write_text(f'{{"transformers": "{hf.__version__}", "cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
