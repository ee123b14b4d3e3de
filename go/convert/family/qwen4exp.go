package family

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var qwen4exp = lang.Family{
	Arch:  "qwen4exp",
	Names: "Qwen4ExpForConditionalGeneration Qwen4ExpForCausalLM",
	Rules: lang.PlusOne(lang.Rules{
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
		{"ple.conv1d.weight", "ple_conv1d.weight", lang.Squeeze},
		{"ple.norm_conv", "ple_norm_conv", lang.AddOne},
		{"ple.norm_key", "ple_norm_key", lang.AddOne},
		{"ple.norm_query", "ple_norm_query", lang.AddOne},
		{"ple.ple_embedding.layer_multipliers", "", nil}, // these become keys: see ngramKeys
		{"ple.ple_embedding.ngram_heads_offsets", "", nil},
		{"ple.ple_embedding.ngram_heads_vocab_sizes", "", nil},
		{"ngram_embedding.*", "per_layer_token_embd", below},
	}.And(tiled, linear, ends, attention, mixture)),
	Settings: expertSettings.And(linearSettings, lang.Settings{
		{"hyper_connection.count", 'n', "hc_count"},
		{"hyper_connection.low_rank", 'n', "hc_lowrank"},
		{"attention.indexer.head_count", 'n', "indexer_n_heads"},
		{"attention.indexer.key_length", 'n', "indexer_head_dim"},
		{"attention.indexer.top_k", 'n', "indexer_budget"},
	}),
	Keys: func(k *lang.Keys) {
		linearKeys35(k)
		rotating(k, 1)
		ratios := make([]bool, k.Layers())
		for il := range ratios {
			ratios[il] = !k.Has("layer_types") || k.TypesOf("full_attention indexed_attention")[il]
		}
		k.Ns("attention.compress_ratios", lang.Where(ratios, k.Count("indexer_compress_ratio"), 0))
		k.Drop("feed_forward_length")
		if n := len(k.List("ple_layer_ids")); n > 1 {
			k.Fail("ple_layer_ids has %d layers, and a file has the table of n-grams of one", n)
		}
		k.Want("output_gate_type", "silu", "sigmoid")
		if k.Text("output_gate_type") != "sigmoid" { // unset, it is hidden_act
			k.Set("quern.ssm.gate_activation", "silu")
		}
	},
	Change: func(c *hf.Config, f *lang.Family) *lang.Family {
		c.Remove(nextLayers) // see Skip
		return f
	},
	Rename: func(_ *hf.Config, name string) string { // a table in parts, which is outside of layers in GGUF
		if _, number, ok := strings.Cut(name, ".ple.ple_embedding.ngram_embedding.shard_"); ok {
			return "model.ngram_embedding." + strings.TrimSuffix(number, ".weight") + ".weight"
		}
		return name
	},
	Count: func(c *hf.Config, name string) int {
		if strings.HasPrefix(name, "ngram_embedding.") {
			return c.Count("split_ngram_parts")
		}
		return 0
	},
	Finish: ngramKeys,
	Skip:   []string{"mtp.", "model.mtp."}, // no program runs these yet
	Fixed:  scanAct,
}

// indexQueriesKeys splits a matrix that has the rows of an index's queries, and then those of its key.
var indexQueriesKeys lang.Op = func(c *hf.Config, in []lang.View) ([]lang.View, error) {
	v := in[0]
	rows, each := v.Rows()
	n := uint64(c.Count("indexer_n_heads")) * uint64(c.Count("indexer_head_dim"))
	if len(v.Shape) != 2 || rows <= n {
		return nil, fmt.Errorf("the shape %v, want more than %d rows", v.Shape, n)
	}
	return []lang.View{
		v.Strided(0, lang.Dim{n, each}, lang.Dim{each, 1}),
		v.Strided(n*each, lang.Dim{rows - n, each}, lang.Dim{each, 1}),
	}, nil
}

// below joins stacked matrices along their rows.
var below = lang.One(func(_ *hf.Config, v lang.View) (lang.View, error) {
	if len(v.Shape) != 3 {
		return lang.View{}, fmt.Errorf("the shape %v, want matrices", v.Shape)
	}
	return v.As(v.Shape[0]*v.Shape[1], v.Shape[2])
})

// ngramKeys sets the numbers that find the rows of n-grams in their table. They are tensors of 64-bit integers, which a
// float cannot hold.
func ngramKeys(d *lang.Draft, k *lang.Keys) {
	ids := k.Integers("ple_layer_ids", k.List("ple_layer_ids"))
	if len(ids) == 0 {
		return
	}
	for i := range ids {
		if ids[i] == 0 {
			k.Fail("ple_layer_ids has 0, want numbers from 1 on")
			return
		}
		ids[i]--
	}
	k.Ns("ple.layers", ids)
	k.N("ple.ngram_size", k.Count("ngram_size"))
	k.N("ple.heads_per_ngram", k.Count("heads_per_ngram"))
	k.N("ple.conv_kernel", k.Count("ple_conv_kernel_size"))
	end := k.Value("eos_token_id")
	if all, ok := end.([]any); ok && len(all) > 0 {
		end = all[0]
	}
	id, ok := hf.AsCount(end)
	if !ok {
		k.Fail("eos_token_id is %.40v, want the number of a token: n-grams end there", end)
	}
	k.N("ple.eos_token_id", id)
	if t := d.Target("per_layer_token_embd.weight"); t != nil {
		k.N("embedding_length_per_layer_input", int(min(t.Dims[0], math.MaxInt32)))
	}
	for _, s := range []struct{ key, name string }{
		{"layer_multipliers", "layer_multipliers"}, {"head_offsets", "ngram_heads_offsets"}, {"head_vocab_sizes",
			"ngram_heads_vocab_sizes"},
	} {
		k.Set("ple."+s.key, integersOf(d, k, "ple.ple_embedding."+s.name))
	}
}

// integersOf returns the 64-bit integers of the tensor whose name has this end.
func integersOf(d *lang.Draft, k *lang.Keys, end string) []uint64 {
	for _, name := range d.Weights.Names() {
		if !strings.HasSuffix(name, "."+end) {
			continue
		}
		t := d.Weights.Tensor(name)
		if t.DType != "I64" || t.Elems() > 1<<16 {
			k.Fail("tensor %q is %d numbers as %s, want I64", name, t.Elems(), t.DType)
			return nil
		}
		b := make([]byte, 8*t.Elems())
		if _, err := t.ReadAt(b, 0); err != nil {
			k.Fail("%s", err)
			return nil
		}
		all := make([]uint64, t.Elems())
		for i := range all {
			all[i] = binary.LittleEndian.Uint64(b[8*i:])
		}
		return all
	}
	k.Fail("no tensor %s", end)
	return nil
}
