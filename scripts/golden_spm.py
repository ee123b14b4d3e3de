"""The tokenizer of the tiny models: SentencePiece merges with byte fallback."""

from golden_gguf import ARRAY, BOOL, F32, I32, STR, U32

SPACE = "\u2581"  # SentencePiece writes a space so
UNKNOWN, BOS, EOS = 0, 1, 2

# Letters, then pieces that merges of them reach, best first.
LETTERS = list(SPACE + "etaoinsrhldumcfpgwybkvxjqz,.'") + ["\n"]
MERGES = [SPACE + "t", "he", SPACE + "a", SPACE + "the", "in", "re", "nd", "on", SPACE + "and", "er", SPACE + "s"]
MORE_MERGES = "ou it is or at en ed ing ll as es al le ar an st om ow th ver".split() + [SPACE + "w", SPACE + "b"]


class Vocab:
    """bytes: whether <0x00> .. <0xFF> follow the three control tokens."""

    def __init__(self, with_bytes):
        self.with_bytes = with_bytes
        merges = MERGES if with_bytes else MERGES + MORE_MERGES
        raw = [f"<0x{b:02X}>" for b in range(256)] if with_bytes else []
        self.pieces = ["<unk>", "<s>", "</s>"] + raw + LETTERS + merges
        self.types = [2, 3, 3] + [6] * len(raw) + [1] * (len(LETTERS) + len(merges))
        # Merges rank by score; a letter is never the result of one.
        self.scores = [0.0] * (3 + len(raw)) + [-1000.0] * len(LETTERS)
        self.scores += [-float(i) for i in range(len(merges))]
        self.ids = {p: i for i, p in enumerate(self.pieces)}

    def __len__(self):
        return len(self.pieces)

    def encode(self, text):
        """BOS, then the text with a space put before it."""
        parts = list(SPACE + text.replace(" ", SPACE))
        while True:
            best = None
            for i in range(len(parts) - 1):
                at = self.ids.get(parts[i] + parts[i + 1])
                if at is not None and (best is None or self.scores[at] > self.scores[self.ids[best[1]]]):
                    best = (i, self.pieces[at])
            if best is None:
                break
            parts[best[0] : best[0] + 2] = [best[1]]
        ids = [BOS]
        for p in parts:
            if p in self.ids:
                ids.append(self.ids[p])
            elif self.with_bytes:
                ids += [self.ids[f"<0x{b:02X}>"] for b in p.encode()]
            else:
                ids.append(UNKNOWN)
        return ids

    def meta(self):
        return [
            ("tokenizer.ggml.model", STR, "llama"),
            ("tokenizer.ggml.pre", STR, "default"),
            ("tokenizer.ggml.tokens", (ARRAY, STR), self.pieces),
            ("tokenizer.ggml.scores", (ARRAY, F32), self.scores),
            ("tokenizer.ggml.token_type", (ARRAY, I32), self.types),
            ("tokenizer.ggml.bos_token_id", U32, BOS),
            ("tokenizer.ggml.eos_token_id", U32, EOS),
            ("tokenizer.ggml.unknown_token_id", U32, UNKNOWN),
            ("tokenizer.ggml.add_bos_token", BOOL, True),
            ("tokenizer.ggml.add_eos_token", BOOL, False),
            ("tokenizer.ggml.add_space_prefix", BOOL, True),
        ]
