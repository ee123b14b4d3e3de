package convert

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/quern-llm/quern/go/gguf"
)

// descendants are later families that differ from Llama in their norms, their gates or their activation.
var descendants = []family{
	{
		arch:  "apertus",
		names: "ApertusForCausalLM",
		rules: with(slices.Concat(ends, attention, dense),
			rule{"attention_layernorm", "attn_norm", nil},
			rule{"feedforward_layernorm", "ffn_norm", nil},
			rule{"mlp.act_fn.alpha_p", "", nil}, // which keys say: see xielu
			rule{"mlp.act_fn.alpha_n", "", nil},
			rule{"mlp.act_fn.beta", "", nil},
			rule{"mlp.act_fn.eps", "", nil}),
		keys:   commonKeys,
		extra:  llama3Factors,
		finish: xielu,
	},
	{
		arch:  "bitnet",
		names: "BitnetForCausalLM BitNetForCausalLM",
		rules: slices.Concat([]rule{
			{"self_attn.q_proj.weight", "attn_q.weight attn_q.scale", ternary},
			{"self_attn.k_proj.weight", "attn_k.weight attn_k.scale", ternary},
			{"self_attn.v_proj.weight", "attn_v.weight attn_v.scale", ternary},
			{"self_attn.o_proj.weight", "attn_output.weight attn_output.scale", ternary},
			{"mlp.gate_proj.weight", "ffn_gate.weight ffn_gate.scale", ternary},
			{"mlp.up_proj.weight", "ffn_up.weight ffn_up.scale", ternary},
			{"mlp.down_proj.weight", "ffn_down.weight ffn_down.scale", ternary},
			{"self_attn.inner_attn_ln", "attn_sub_norm", nil},
			{"self_attn.attn_sub_norm", "attn_sub_norm", nil},
			{"mlp.ffn_layernorm", "ffn_sub_norm", nil},
			{"mlp.ffn_sub_norm", "ffn_sub_norm", nil},
		}, ends, attention, dense),
		keys: func(k *keys) {
			commonKeys(k)
			k.set("rope.scaling.type", "linear")
			k.f("rope.scaling.factor", 1)
		},
	},
	{
		arch:  "maincoder",
		names: "MaincoderForCausalLM",
		rules: slices.Concat(ends, attention, dense), // whose channels are in pairs
	},
	{
		arch:  "jais2",
		names: "Jais2ForCausalLM",
		rules: slices.Concat(ends, attention, dense),
		keys:  func(k *keys) { rotating(k, 1) },
	},
	{
		arch:  "pangu-embedded",
		names: "PanguEmbeddedForCausalLM",
		rules: slices.Concat(ends, attention, dense),
		keys: func(k *keys) {
			commonKeys(k)
			k.n("attention.key_length", k.headDim())
			k.n("attention.value_length", k.headDim())
		},
	},
	{
		arch:  "plamo3",
		names: "Plamo3ForCausalLM PLaMo3ForCausalLM",
		rules: with(slices.Concat(plamo, ends),
			rule{"mixer.q_norm", "attn_q_norm", addOne},
			rule{"mixer.k_norm", "attn_k_norm", addOne}),
		keys: func(k *keys) {
			commonKeys(k)
			if k.countOr("window_size sliding_window", 0) > 0 && k.has("layer_types") {
				k.n("attention.sliding_window", k.count("window_size sliding_window"))
				k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention"))
			}
		},
		vocab: plamo2Vocab,
	},
	{
		arch:  "muse-glimmer",
		names: "MuseGlimmerForConditionalGeneration MuseGlimmerForCausalLM",
		rules: slices.Concat([]rule{
			{"self_attn.q_proj", "attn_q", permute((*config).heads)},
			{"self_attn.k_proj", "attn_k", permute((*config).headsKV)},
			{"self_attn.gate_proj", "attn_gate", nil},
			{"input_layernorm", "attn_norm", addOne},
			{"post_attention_layernorm", "post_attention_norm", addOne},
			{"pre_feedforward_layernorm", "ffn_norm", addOne},
			{"post_feedforward_layernorm", "post_ffw_norm", addOne},
		}, ends, attention, dense),
		settings: []setting{
			{"final_logit_softcapping", 'f', "final_logit_softcapping"},
			{"logit_scale", 'f', "output_multiplier"},
			{"attention.sliding_window", 'n', "sliding_window"},
		},
		keys:  func(k *keys) { k.bs("attention.sliding_window_pattern", k.typesOf("sliding_attention")) },
		extra: glimmerNorms,
		vocab: func(_ *Model, v *vocabulary) { v.setSpecial("eot", slices.Index(v.tokens, "<|eot|>")) },
	},
}

// xielu reads the constants of the activation, a tensor of one number for each layer.
func xielu(m *Model, k *keys) {
	for _, name := range []string{"alpha_n", "alpha_p", "beta", "eps"} {
		all := make([]float32, m.layers)
		for il := range all {
			t := m.weights.Tensor(fmt.Sprintf("model.layers.%d.mlp.act_fn.%s", il, name))
			if t == nil || t.Elems() != 1 {
				k.fail("layer %d has no mlp.act_fn.%s of one number", il, name)
				return
			}
			if err := t.Floats(all[il:il+1], 0); err != nil {
				k.fail("%s", err)
				return
			}
		}
		k.list = append(k.list, gguf.KV{Key: "xielu." + name, Value: all}) // of no architecture
	}
}

// ternary makes of a matrix the signs of its numbers, or 0 where they are less than half of the mean, and that mean, by which
// their products are multiplied.
var ternary op = func(_ *config, in []view) ([]view, error) {
	v := in[0]
	mean := sync.OnceValues(func() (float32, error) {
		sum, n := 0.0, v.elems()
		buf := make([]float32, min(n, pieceElems))
		for at := uint64(0); at < n; at += uint64(len(buf)) {
			buf = buf[:min(uint64(len(buf)), n-at)]
			if err := v.read(buf, at); err != nil {
				return 0, err
			}
			for _, x := range buf {
				sum += math.Abs(float64(x))
			}
		}
		return float32(max(sum/float64(max(n, 1)), 1e-5)), nil
	})
	signs := v
	signs.read = func(dst []float32, at uint64) error {
		m, err := mean()
		if err == nil {
			err = v.read(dst, at)
		}
		for i, x := range dst {
			switch r := x / m; { // halves are rounded to 0, an even number
			case r > 0.5:
				dst[i] = 1
			case r < -0.5:
				dst[i] = -1
			default:
				dst[i] = 0
			}
		}
		return err
	}
	scale := view{shape: []uint64{1}, read: func(dst []float32, _ uint64) (err error) {
		dst[0], err = mean()
		return err
	}}
	return []view{signs, scale}, nil
}

// glimmerNorms are norms of heads of queries and keys, which the model has without weights, with the factor of queries.
func glimmerNorms(c *config) map[string]view {
	queries, keys := make([]float32, c.headDim()), make([]float32, c.headDim())
	scale := float32(c.numberOr("qk_scale_factor", 1))
	for i := range queries {
		queries[i], keys[i] = scale, 1
	}
	all := map[string]view{}
	for il := range c.layers() {
		all[fmt.Sprintf("blk.%d.attn_q_norm.weight", il)] = constant(queries)
		all[fmt.Sprintf("blk.%d.attn_k_norm.weight", il)] = constant(keys)
	}
	return all
}
