package convert

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

var qwen4exp = family{
	arch:  "qwen4exp",
	names: "Qwen4ExpForConditionalGeneration Qwen4ExpForCausalLM",
	rules: plusOne(rules{
		{"hyper_connection_mixer.hc_norm", "output_hc_norm", nil},
		{"hyper_connection_mixer.input_mix_weight_down", "output_hc_down", nil},
		{"hyper_connection_mixer.input_mix_weight_up", "output_hc_up", nil},
		{"attn_hyper_connection.hc_norm", "hc_attn_norm", nil},
		{"attn_hyper_connection.input_mix_weight_down", "hc_attn_down", nil},
		{"attn_hyper_connection.input_mix_weight_up", "hc_attn_up", nil},
		{"attn_hyper_connection.block_inject_weight", "hc_attn_inject", nil},
		{"mlp_hyper_connection.hc_norm", "hc_ffn_norm", nil},
		{"mlp_hyper_connection.input_mix_weight_down", "hc_ffn_down", nil},
		{"mlp_hyper_connection.input_mix_weight_up", "hc_ffn_up", nil},
		{"mlp_hyper_connection.block_inject_weight", "hc_ffn_inject", nil},
		{"self_attn.indexer.index_qk_proj", "indexer.q_proj indexer.k_proj", indexQueriesKeys},
		{"self_attn.indexer.q_layernorm", "indexer.q_norm", nil},
		{"self_attn.indexer.k_layernorm", "indexer.k_norm", nil},
		{"ple.key_proj", "ple_key", nil},
		{"ple.value_proj", "ple_value", nil},
		{"ple.conv1d.weight", "ple_conv1d.weight", squeeze},
		{"ple.norm_conv", "ple_norm_conv", addOne},
		{"ple.norm_key", "ple_norm_key", addOne},
		{"ple.norm_query", "ple_norm_query", addOne},
		{"ple.ple_embedding.layer_multipliers", "", nil}, // see ngramKeys
		{"ple.ple_embedding.ngram_heads_offsets", "", nil},
		{"ple.ple_embedding.ngram_heads_vocab_sizes", "", nil},
		{"ngram_embedding.*", "per_layer_token_embd", below},
	}.And(tiled, linear, ends, attention, mixture)),
	settings: expertSettings.And(linearSettings, settings{
		{"hyper_connection.count", 'n', "hc_count"},
		{"hyper_connection.low_rank", 'n', "hc_lowrank"},
		{"attention.indexer.head_count", 'n', "indexer_n_heads"},
		{"attention.indexer.key_length", 'n', "indexer_head_dim"},
		{"attention.indexer.top_k", 'n', "indexer_budget"},
	}),
	keys: func(k *keys) {
		linearKeys35(k)
		ratios := make([]bool, k.layers())
		for il := range ratios {
			ratios[il] = !k.has("layer_types") || k.typesOf("full_attention")[il]
		}
		k.ns("attention.compress_ratios", where(ratios, k.count("indexer_compress_ratio"), 0))
		k.drop("feed_forward_length")
	},
	change: func(c *config, f *family) *family {
		c.remove(nextLayers) // see skip
		return f
	},
	rename: func(_ *config, name string) string { // parts of a table that is of no layer in GGUF
		if _, number, ok := strings.Cut(name, ".ple.ple_embedding.ngram_embedding.shard_"); ok {
			return "model.ngram_embedding." + strings.TrimSuffix(number, ".weight") + ".weight"
		}
		return name
	},
	count: func(c *config, name string) int {
		if strings.HasPrefix(name, "ngram_embedding.") {
			return c.count("split_ngram_parts")
		}
		return 0
	},
	finish: ngramKeys,
	skip:   []string{"mtp.", "model.mtp."}, // which no program runs yet
}

// indexQueriesKeys splits what makes an index's queries and, behind them, its key.
var indexQueriesKeys op = func(c *config, in []view) ([]view, error) {
	v := in[0]
	rows, each := v.rows()
	n := uint64(c.count("indexer_n_heads")) * uint64(c.count("indexer_head_dim"))
	if len(v.shape) != 2 || rows <= n {
		return nil, fmt.Errorf("the shape %v, want more than %d rows", v.shape, n)
	}
	return []view{
		v.strided(0, dim{n, each}, dim{each, 1}),
		v.strided(n*each, dim{rows - n, each}, dim{each, 1}),
	}, nil
}

// below puts matrices that were stacked one below the other.
var below = one(func(_ *config, v view) (view, error) {
	if len(v.shape) != 3 {
		return view{}, fmt.Errorf("the shape %v, want matrices", v.shape)
	}
	return v.as(v.shape[0]*v.shape[1], v.shape[2])
})

// ngramKeys sets what finds rows of Qwen 4 Exp's table of n-grams: numbers of more bits than a float has, of the checkpoint's tensors.
func ngramKeys(d *draft, k *keys) {
	ids := k.integers("ple_layer_ids", k.config.list("ple_layer_ids"))
	if len(ids) == 0 {
		return
	}
	for i := range ids {
		if ids[i] == 0 {
			k.fail("ple_layer_ids has 0, want numbers from 1 on")
			return
		}
		ids[i]--
	}
	k.ns("ple.layers", ids)
	k.n("ple.ngram_size", k.count("ngram_size"))
	k.n("ple.heads_per_ngram", k.count("heads_per_ngram"))
	k.n("ple.conv_kernel", k.count("ple_conv_kernel_size"))
	end := k.value("eos_token_id")
	if all, ok := end.([]any); ok && len(all) > 0 {
		end = all[len(all)-1]
	}
	id, ok := asCount(end)
	if !ok {
		k.fail("eos_token_id is %.40v, want the number of a token: n-grams end there", end)
	}
	k.n("ple.eos_token_id", id)
	if t := d.target("per_layer_token_embd.weight"); t != nil {
		k.n("embedding_length_per_layer_input", int(min(t.dims[0], math.MaxInt32)))
	}
	for _, s := range []struct{ key, name string }{
		{"layer_multipliers", "layer_multipliers"}, {"head_offsets", "ngram_heads_offsets"}, {"head_vocab_sizes", "ngram_heads_vocab_sizes"},
	} {
		k.set("ple."+s.key, integersOf(d, k, "ple.ple_embedding."+s.name))
	}
}

// integersOf reads the only tensor whose name ends so, of integers of 64 bits.
func integersOf(d *draft, k *keys, end string) []uint64 {
	for _, name := range d.weights.Names() {
		if !strings.HasSuffix(name, "."+end) {
			continue
		}
		t := d.weights.Tensor(name)
		if t.DType != "I64" || t.Elems() > 1<<16 {
			k.fail("tensor %q is %d numbers as %s, want I64", name, t.Elems(), t.DType)
			return nil
		}
		b := make([]byte, 8*t.Elems())
		if _, err := t.ReadAt(b, 0); err != nil {
			k.fail("%s", err)
			return nil
		}
		all := make([]uint64, t.Elems())
		for i := range all {
			all[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
		return all
	}
	k.fail("no tensor %s", end)
	return nil
}
