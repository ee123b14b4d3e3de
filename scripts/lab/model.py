"""Forward passes in float32, open to experiments: llama, Gemma 3, and BERT's encoder.

golden_forward.py is the oracle, in float64, and one way through; this one lets an experiment leave layers out, replace
attention and weights, and look at what products read. witness.py holds it to the engine.
"""

import numpy as np

INPUTS = {  # what a matrix reads, by the names that taps have
    "attn_q": "attn_in",
    "attn_k": "attn_in",
    "attn_v": "attn_in",
    "attn_output": "attn_out",
    "ffn_gate": "ffn_in",
    "ffn_up": "ffn_in",
    "ffn_down": "ffn_mid",
}


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rotate(x, base, neox, at=0):
    """x [tokens, heads, dim] at positions at, at + 1, ..."""
    half = x.shape[-1] // 2
    angle = np.arange(at, at + len(x))[:, None] * base ** (-np.arange(half) / half)
    c, s = (f(angle)[:, None].astype(np.float32) for f in (np.cos, np.sin))
    a, b = (x[..., :half], x[..., half:]) if neox else (x[..., 0::2], x[..., 1::2])
    y = np.empty_like(x)
    first, second = (y[..., :half], y[..., half:]) if neox else (y[..., 0::2], y[..., 1::2])
    first[...], second[...] = a * c - b * s, a * s + b * c
    return y


def gelu(x):
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def silu(x):
    return x / (1 + np.exp(-x))


class Decoder:
    """A llama or Gemma 3 model. Experiments set

    attend(layer, head, q, k, v, mask) -> output [tokens, dim], in place of softmax(q k^T) v; q is scaled and rotated
    tap(layer, what, x), shown what products read (INPUTS) and, as "probs", the weights of attention of each head
    read(layer, what, x) -> x, in place of what they read; layer n_layer's "head" is what the output reads
    over[(layer, name)], a matrix in place of the file's
    past[layer] = (k, v) of tokens before those that forward() is given, to which it adds theirs; None: there are none
    """

    def __init__(self, lab):
        arch = lab.file.meta["general.architecture"]
        if arch not in ("llama", "gemma3"):
            raise ValueError(f"{lab.path.name}: this forward pass is of llama and gemma3, not of {arch}")
        self.gemma = arch == "gemma3"
        self.w = {n[: -len(".weight")]: lab.tensor(n) for n in lab.file.tensors if n.endswith(".weight")}
        if (
            any("_exps" in n for n in self.w)
            or any(n.endswith(".bias") for n in lab.file.tensors)
            or "rope_freqs" in self.w
        ):
            raise ValueError(f"{lab.path.name}: experts, biases and factors of frequencies are not computed here")
        self.n_layer, self.n_embd = lab.meta("block_count"), lab.meta("embedding_length")
        self.n_head = lab.meta("attention.head_count")
        self.n_head_kv = lab.meta("attention.head_count_kv", self.n_head)
        self.head_dim = lab.meta("attention.key_length", self.n_embd // self.n_head)
        self.eps, self.n_ctx = lab.meta("attention.layer_norm_rms_epsilon"), lab.meta("context_length")
        self.base, self.window = lab.meta("rope.freq_base", 10000.0), lab.meta("attention.sliding_window", 0)
        self.attend = self.tap = self.read = self.past = None
        self.over = {}

    def matrix(self, layer, name):
        return self.over.get((layer, name), self.w.get(f"blk.{layer}.{name}"))

    def norm(self, x, w):
        return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.eps) * w

    def see(self, layer, what, x):
        if self.tap:
            self.tap(layer, what, x)
        return self.read(layer, what, x) if self.read and what != "probs" else x

    def attention(self, layer, x):
        n, b = len(x), f"blk.{layer}."
        q, k, v = ((x @ self.matrix(layer, f"attn_{p}").T).reshape(n, -1, self.head_dim) for p in "qkv")
        local = self.gemma and layer % 6 != 5  # five layers of a window, then one of all
        if self.gemma:
            q, k = self.norm(q, self.w[b + "attn_q_norm"]), self.norm(k, self.w[b + "attn_k_norm"])
        before = self.past[layer] if self.past else None
        at = len(before[0]) if before else 0
        q, k = (rotate(y, 10000.0 if local else self.base, self.gemma, at) for y in (q, k))
        if before:
            k, v = (np.concatenate(y) for y in zip(before, (k, v)))
        if self.past:
            self.past[layer] = k, v
        q = q / np.float32(np.sqrt(self.head_dim))
        ago = np.arange(at, at + n)[:, None] - np.arange(at + n)
        mask = (ago >= 0) & (ago < self.window) if local else ago >= 0
        out = self.heads(layer, q, k, v, mask)
        return self.see(layer, "attn_out", out.reshape(n, -1)) @ self.matrix(layer, "attn_output").T

    def heads(self, layer, q, k, v, mask):
        """Attention of q [tokens, heads, dim] over k and v [positions, kv heads, dim]."""
        out = np.empty_like(q)
        for h in range(self.n_head):
            kh, vh = (y[:, h * self.n_head_kv // self.n_head] for y in (k, v))
            if self.attend:
                out[:, h] = self.attend(layer, h, q[:, h], kh, vh, mask)
            else:
                out[:, h] = self.see(layer, "probs", softmax(np.where(mask, q[:, h] @ kh.T, -np.inf))) @ vh
        return out

    def feed_forward(self, layer, x):
        gate, up = (x @ self.matrix(layer, n).T for n in ("ffn_gate", "ffn_up"))
        mid = (gelu(gate) if self.gemma else silu(gate)) * up
        return self.see(layer, "ffn_mid", mid) @ self.matrix(layer, "ffn_down").T

    def forward(self, ids, layers=None):
        """The residual stream after the embedding and after each layer: [tokens, n_embd] each."""
        x = self.w["token_embd"][ids]
        if self.gemma:
            x = x * np.float32(np.sqrt(self.n_embd))
        stream = [x]
        for i in range(self.n_layer) if layers is None else layers:
            y = self.attention(i, self.see(i, "attn_in", self.norm(x, self.w[f"blk.{i}.attn_norm"])))
            x = x + (self.norm(y, self.w[f"blk.{i}.post_attention_norm"]) if self.gemma else y)
            y = self.feed_forward(i, self.see(i, "ffn_in", self.norm(x, self.w[f"blk.{i}.ffn_norm"])))
            x = x + (self.norm(y, self.w[f"blk.{i}.post_ffw_norm"]) if self.gemma else y)
            stream.append(x)
        return stream

    def logits(self, x):
        x = self.norm(x, self.w["output_norm"])
        if self.read:
            x = self.read(self.n_layer, "head", x)
        return x @ self.w.get("output", self.w["token_embd"]).T

    def losses(self, hidden, ids):
        """Of each token but the first, given those before it, in nats; some rows of logits at a time."""
        out = []
        for i in range(0, len(ids) - 1, 128):
            z = self.logits(hidden[i : min(i + 128, len(ids) - 1)]).astype(np.float64)
            z -= z.max(axis=1, keepdims=True)
            out.append(np.log(np.exp(z).sum(axis=1)) - z[np.arange(len(z)), ids[i + 1 : i + 1 + len(z)]])
        return np.concatenate(out)

    def loss(self, windows, start=1, layers=None):
        """Mean over the tokens of all windows from position start on, in nats."""
        return float(
            np.concatenate([self.losses(self.forward(w, layers)[-1], w)[start - 1 :] for w in windows]).mean()
        )


class Encoder:
    """BERT's layers: what their products read, for a tap, and nothing behind them."""

    def __init__(self, lab):
        if lab.file.meta["general.architecture"] != "bert":
            raise ValueError(f"{lab.path.name}: not BERT")
        self.w = {n: lab.tensor(n) for n in lab.file.tensors}
        self.n_layer, self.n_head = lab.meta("block_count"), lab.meta("attention.head_count")
        self.eps, self.n_ctx, self.tap = lab.meta("attention.layer_norm_epsilon"), lab.meta("context_length"), None

    def matrix(self, layer, name):
        return self.w.get(f"blk.{layer}.{name}.weight")

    def linear(self, name, x):
        return x @ self.w[name + ".weight"].T + self.w[name + ".bias"]

    def norm(self, name, x):
        x = x - x.mean(axis=-1, keepdims=True)
        return (
            x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + self.eps) * self.w[name + ".weight"]
            + self.w[name + ".bias"]
        )

    def forward(self, ids):
        n = len(ids)
        x = self.w["token_embd.weight"][ids] + self.w["position_embd.weight"][:n] + self.w["token_types.weight"][0]
        x = self.norm("token_embd_norm", x)
        for i in range(self.n_layer):
            b = f"blk.{i}."
            self.tap(i, "attn_in", x)
            q, k, v = (self.linear(f"{b}attn_{p}", x).reshape(n, self.n_head, -1).transpose(1, 0, 2) for p in "qkv")
            p = softmax(q @ k.transpose(0, 2, 1) / np.float32(np.sqrt(q.shape[-1])))
            y = (p @ v).transpose(1, 0, 2).reshape(n, -1)
            self.tap(i, "attn_out", y)
            x = self.norm(b + "attn_output_norm", x + self.linear(b + "attn_output", y))
            self.tap(i, "ffn_in", x)
            y = gelu(self.linear(b + "ffn_up", x))
            self.tap(i, "ffn_mid", y)
            x = self.norm(b + "layer_output_norm", x + self.linear(b + "ffn_down", y))
        return x


def reading(lab, windows, length):
    """(layer, name of a matrix) -> (the matrix, what it reads [tokens, cols]), over windows of the text."""
    model = (Encoder if lab.file.meta["general.architecture"] == "bert" else Decoder)(lab)
    seen = {}
    model.tap = lambda layer, what, x: None if what == "probs" else seen.setdefault((layer, what), []).append(x)
    for w in lab.windows(min(length, model.n_ctx), windows):
        model.forward(w)
    kept = sorted({int(i) for i in np.linspace(0, model.n_layer - 1, min(model.n_layer, 6)).round()})
    return {
        (i, n): (model.matrix(i, n), np.concatenate(seen[i, what]))
        for i in kept
        for n, what in INPUTS.items()
        if model.matrix(i, n) is not None
    }
