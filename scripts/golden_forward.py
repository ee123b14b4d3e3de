"""A forward pass in float64 over any GGUF file of the architectures below.

The KV cache is float64 as well: what an engine loses by keeping it in f16, by
quantizing activations or by adding in float32 is its own error, and shows.
"""

import numpy as np

from golden_math import attention, moe_route, rms_norm, rope, swiglu

# Architecture -> whether RoPE pairs i with i + n_rot/2. Biases, per-head norms
# of q and k, experts and rope factors are used where their tensors exist.
NEOX = {"llama": False, "qwen2": True, "qwen3": True}


class Model:
    def __init__(self, file):
        arch = file.meta.get("general.architecture")
        if arch not in NEOX:
            raise ValueError(f"architecture {arch!r}; this oracle runs {' '.join(NEOX)}")

        def key(name, default=None):
            v = file.meta.get(f"{arch}.{name}", default)
            if v is None:
                raise ValueError(f"metadata has no {arch}.{name}")
            return v

        self.neox = NEOX[arch]
        self.n_layer = key("block_count")
        self.n_head = key("attention.head_count")
        self.n_head_kv = key("attention.head_count_kv", self.n_head)
        self.head_dim = key("attention.key_length", key("embedding_length") // self.n_head)
        self.eps = key("attention.layer_norm_rms_epsilon")
        self.n_expert_used = key("expert_used_count", 0)
        self.rope = dict(
            n_rot=key("rope.dimension_count", self.head_dim),
            freq_base=key("rope.freq_base", 10000.0),
            neox=self.neox,
            factors=file.tensor("rope_freqs.weight"),
        )
        scaling = key("rope.scaling.type", "none")
        if scaling in ("linear", "yarn"):
            self.rope["freq_scale"] = 1.0 / key("rope.scaling.factor")
        if scaling == "yarn":
            self.rope["yarn"] = dict(
                n_ctx_orig=key("rope.scaling.original_context_length", key("context_length")),
                ext_factor=1.0,
                attn_factor=key("rope.scaling.attn_factor", 1.0),
                beta_fast=key("rope.scaling.yarn_beta_fast", 32.0),
                beta_slow=key("rope.scaling.yarn_beta_slow", 1.0),
            )
        self.w = {name: file.tensor(name) for name in file.tensors}
        self.reset()

    def reset(self):
        """Forget every token."""
        empty = np.zeros((0, self.n_head_kv, self.head_dim))
        self.k = [empty] * self.n_layer
        self.v = [empty] * self.n_layer

    def read(self, name, x):
        """The activations x as the product with a tensor reads them: a subclass may round them."""
        return x

    def linear(self, name, x):
        y = self.read(name + ".weight", x) @ self.w[name + ".weight"].T
        bias = self.w.get(name + ".bias")
        return y if bias is None else y + bias

    def norm(self, name, x):
        return rms_norm(x, self.w[name + ".weight"], self.eps)

    def forward(self, tokens):
        """Append tokens; the logits after each of them, [len(tokens), n_vocab]."""
        x = self.w["token_embd.weight"][tokens]
        for il in range(self.n_layer):
            x = x + self.attend(il, self.norm(f"blk.{il}.attn_norm", x))
            h = self.norm(f"blk.{il}.ffn_norm", x)
            moe = f"blk.{il}.ffn_gate_inp.weight" in self.w
            x = x + (self.experts(il, h) if moe else self.feed_forward(il, h))
        output = "output" if "output.weight" in self.w else "token_embd"
        return self.linear(output, self.norm("output_norm", x))

    def attend(self, il, x):
        b, n_tok, n_past = f"blk.{il}.", len(x), len(self.k[il])
        q = self.linear(b + "attn_q", x).reshape(n_tok, self.n_head, self.head_dim)
        k = self.linear(b + "attn_k", x).reshape(n_tok, self.n_head_kv, self.head_dim)
        v = self.linear(b + "attn_v", x).reshape(n_tok, self.n_head_kv, self.head_dim)
        if b + "attn_q_norm.weight" in self.w:
            q, k = self.norm(b + "attn_q_norm", q), self.norm(b + "attn_k_norm", k)
        pos = n_past + np.arange(n_tok)
        q, k = rope(q, pos, **self.rope), rope(k, pos, **self.rope)
        self.k[il] = np.concatenate([self.k[il], k])
        self.v[il] = np.concatenate([self.v[il], v])
        y = attention(q, self.k[il], self.v[il], n_past)
        return self.linear(b + "attn_output", y.reshape(n_tok, -1))

    def feed_forward(self, il, x):
        b = f"blk.{il}."
        return self.linear(b + "ffn_down", swiglu(self.linear(b + "ffn_gate", x), self.linear(b + "ffn_up", x)))

    def experts(self, il, x):
        b = f"blk.{il}."

        def product(part, e, x):
            name = b + f"ffn_{part}_exps.weight"
            return self.w[name][e] @ self.read(name, x)

        ids, weights = moe_route(self.linear(b + "ffn_gate_inp", x), self.n_expert_used, renormalise=True)
        y = np.zeros_like(x)
        for t in range(len(x)):
            for e, w in zip(ids[t], weights[t]):
                y[t] += w * product("down", e, swiglu(product("gate", e, x[t]), product("up", e, x[t])))
        return y


def greedy(model, prompt_ids, n):
    """Run the prompt, then take the likeliest token n times.

    Returns the logits after every token fed, [len(prompt_ids) + n - 1, n_vocab],
    the n ids, and the smallest gap between the best two logits of those n steps.
    """
    model.reset()
    rows = [model.forward(list(prompt_ids))]
    ids, gap = [], np.inf
    for step in range(n):
        last = rows[-1][-1]
        ids.append(int(last.argmax()))
        second, first = np.partition(last, -2)[-2:]
        gap = min(gap, first - second)
        if step + 1 < n:
            rows.append(model.forward([ids[-1]]))
    return np.concatenate(rows), ids, float(gap)
