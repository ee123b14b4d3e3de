package convert

import (
	"fmt"
	"slices"
	"strings"
)

var qwens = []family{
	{
		arch:  "qwen2",
		names: "Qwen2ForCausalLM Qwen2Model",
		rules: slices.Concat(ends, attention, dense),
	},
	{
		arch:  "qwen2vl",
		names: "Qwen2VLForConditionalGeneration Qwen2_5_VLForConditionalGeneration",
		rules: slices.Concat(ends, attention, dense),
	},
	{
		arch:     "qwen2moe",
		names:    "Qwen2MoeForCausalLM",
		rules:    slices.Concat(ends, attention, dense, mixture),
		settings: expertSettings,
	},
	{
		arch:  "qwen3",
		names: "Qwen3ForCausalLM Qwen3Model",
		rules: slices.Concat(ends, attention, dense),
	},
	{
		arch:     "qwen3moe",
		names:    "Qwen3MoeForCausalLM",
		rules:    slices.Concat(ends, attention, dense, mixture),
		settings: expertSettings,
	},
	{
		arch:  "qwen3vl",
		names: "Qwen3VLForConditionalGeneration",
		rules: slices.Concat(ends, attention, dense),
		keys:  deepstack,
	},
	{
		arch:  "qwen3vlmoe",
		names: "Qwen3VLMoeForConditionalGeneration",
		rules: with(slices.Concat(ends, attention, dense, mixture), // whose experts are the other way round
			rule{"mlp.experts.gate_up_proj", "ffn_gate_exps.weight ffn_up_exps.weight", then(transpose, halves)},
			rule{"mlp.experts.down_proj", "ffn_down_exps.weight", transpose}),
		settings: expertSettings,
		keys:     deepstack,
	},
	{
		arch:  "qwen3next",
		names: "Qwen3NextForCausalLM",
		rules: plusOne(with(slices.Concat(linear, predicting, ends, attention, dense, mixture),
			rule{"linear_attn.in_proj_qkvz", "attn_qkv attn_gate", queriesKeysValuesGates},
			rule{"linear_attn.in_proj_ba", "ssm_ba", nil})),
		settings: slices.Concat(expertSettings, linearSettings),
		keys: func(k *keys) {
			linearKeys(k)
			nextKeys(k)
		},
		rename: nextOfQwen,
	},
	{
		arch:     "qwen35",
		names:    "Qwen3_5ForConditionalGeneration Qwen3_5ForCausalLM",
		rules:    plusOne(slices.Concat(tiled, linear, predicting, ends, attention, dense)),
		settings: linearSettings,
		keys:     linearKeys35,
		rename:   nextOfQwen,
	},
	{
		arch:     "qwen35moe",
		names:    "Qwen3_5MoeForConditionalGeneration Qwen3_5MoeForCausalLM",
		rules:    plusOne(slices.Concat(tiled, linear, predicting, ends, attention, dense, mixture)),
		settings: slices.Concat(expertSettings, linearSettings),
		keys: func(k *keys) {
			linearKeys35(k)
			k.drop("feed_forward_length")
		},
		rename: nextOfQwen,
	},
}

// deepstack sets how many layers are given parts of images: none of texts, but the key is read.
func deepstack(k *keys) {
	v := k.within("vision_config")
	k.n("n_deepstack_layers", len(v.list("deepstack_visual_indexes")))
	k.take(v)
}

// linear is layers with a state in place of keys and values.
var linear = []rule{
	{"post_attention_layernorm", "post_attention_norm", nil},
	{"linear_attn.A_log", "ssm_a", negExp},
	{"linear_attn.dt_bias", "ssm_dt.bias", nil},
	{"linear_attn.conv1d.weight", "ssm_conv1d.weight", squeeze},
	{"linear_attn.norm", "ssm_norm", nil},
	{"linear_attn.out_proj", "ssm_out", nil},
	{"linear_attn.in_proj_qkv", "attn_qkv", nil},
	{"linear_attn.in_proj_z", "attn_gate", nil},
	{"linear_attn.in_proj_a", "ssm_alpha", nil},
	{"linear_attn.in_proj_b", "ssm_beta", nil},
}

// tiled is what differs where several heads of values share one of keys: in a checkpoint they lie by the head of keys that
// they share, in GGUF the first of each, then the second of each.
var tiled = []rule{
	{"linear_attn.A_log", "ssm_a", then(negExp, tile(0, headOne))},
	{"linear_attn.dt_bias", "ssm_dt.bias", tile(0, headOne)},
	{"linear_attn.conv1d.weight", "ssm_conv1d.weight", then(squeeze, tileValues)},
	{"linear_attn.in_proj_qkv", "attn_qkv", tileValues},
	{"linear_attn.in_proj_z", "attn_gate", tile(0, valueDim)},
	{"linear_attn.in_proj_a", "ssm_alpha", tile(0, headOne)},
	{"linear_attn.in_proj_b", "ssm_beta", tile(0, headOne)},
	{"linear_attn.out_proj", "ssm_out", tile(1, valueDim)},
}

func headOne(*config) int    { return 1 }
func valueDim(c *config) int { return c.count("linear_value_head_dim") }
func keyHeads(c *config) int { return c.count("linear_num_key_heads") }
func valueHeads(c *config) int {
	return c.count("linear_num_value_heads")
}

// tile exchanges, along an axis, the order of heads of the given number of elements.
func tile(axis int, size func(*config) int) op {
	return one(func(c *config, v view) (view, error) {
		k, h, d := uint64(keyHeads(c)), uint64(valueHeads(c)), uint64(size(c))
		if k == 0 || h%k != 0 || axis >= len(v.shape) || v.shape[axis] != h*d {
			return view{}, fmt.Errorf("the shape %v, want %d heads of %d for %d", v.shape, h, d, k)
		}
		inner, outer := uint64(1), uint64(1)
		for _, n := range v.shape[axis+1:] {
			inner *= n
		}
		for _, n := range v.shape[:axis] {
			outer *= n
		}
		r := h / k
		return v.strided(0, dim{outer, h * d * inner}, dim{r, d * inner}, dim{k, r * d * inner}, dim{d * inner, 1}).as(v.shape...)
	})
}

// tileValues tiles the rows of values, which are behind those of queries and keys.
var tileValues = one(func(c *config, v view) (view, error) {
	before := 2 * uint64(keyHeads(c)) * uint64(c.count("linear_key_head_dim"))
	if len(v.shape) != 2 || v.shape[0] < before {
		return view{}, fmt.Errorf("the shape %v, want more than %d rows", v.shape, before)
	}
	cols := v.shape[1]
	rest := v.strided(before*cols, dim{v.shape[0] - before, cols}, dim{cols, 1})
	values, err := tile(0, valueDim)(c, []view{rest})
	if err != nil {
		return view{}, err
	}
	return joined(v.strided(0, dim{before, cols}, dim{cols, 1}), values[0])
})

// queriesKeysValuesGates brings rows that lie by heads into the order of the tensors: queries, keys and values in one, gates
// in another.
var queriesKeysValuesGates op = func(c *config, in []view) ([]view, error) {
	v := in[0]
	heads, dk := uint64(keyHeads(c)), uint64(c.count("linear_key_head_dim"))
	dv := uint64(valueDim(c)) * uint64(valueHeads(c)) / max(heads, 1) // of all values of a head of keys
	each := 2*dk + 2*dv
	if len(v.shape) != 2 || v.shape[0] != heads*each {
		return nil, fmt.Errorf("the shape %v, want %d rows", v.shape, heads*each)
	}
	cols := v.shape[1]
	part := func(from, n uint64) view {
		p, _ := v.strided(from*cols, dim{heads, each * cols}, dim{n, cols}, dim{cols, 1}).as(heads*n, cols)
		return p
	}
	all, err := joined(part(0, dk), part(dk, dk), part(2*dk, dv))
	return []view{all, part(2*dk+dv, dv)}, err
}

// plusOne returns rules with 1 added to the weights of all norms but that of the states.
func plusOne(rules []rule) []rule {
	rules = slices.Clone(rules)
	for i, r := range rules {
		if strings.HasSuffix(r.to, "norm") && r.to != "ssm_norm" {
			rules[i].do = addOne
		}
	}
	return rules
}

var linearSettings = []setting{
	{"ssm.conv_kernel", 'n', "linear_conv_kernel_dim"},
	{"ssm.state_size", 'n', "linear_key_head_dim"},
	{"ssm.group_count", 'n', "linear_num_key_heads"},
	{"ssm.time_step_rank", 'n', "linear_num_value_heads"},
}

func linearKeys(k *keys) {
	k.n("ssm.inner_size", valueDim(k.config)*valueHeads(k.config))
	k.n("full_attention_interval", k.countOr("full_attention_interval", 4))
	rotating(k, 0.25)
	if k.has("layer_types") {
		every := k.countOr("full_attention_interval", 4)
		for i, full := range k.typesOf("full_attention") {
			if full != ((i+1)%max(every, 1) == 0) {
				k.fail("layer_types: layer %d is not as %s has it, every %d with attention", i, k.arch, every)
			}
		}
	}
}

// linearKeys35 also sets the parts of rotations, and how many layers predict further tokens.
func linearKeys35(k *keys) {
	linearKeys(k)
	r := k.ropeOf("full_attention")
	if !r.has("mrope_section") {
		k.set("rope.dimension_sections", []int32{11, 11, 10, 0})
	}
	nextKeys(k)
}

// nextLayers is where config.json says how many layers predict tokens further on; see countNext.
const nextLayers = "mtp_num_hidden_layers"

func nextKeys(k *keys) {
	if n := k.countOr(nextLayers, 0); n > mostNext {
		k.fail("%s: %d, want %d at most", nextLayers, n, mostNext)
	} else if n > 0 {
		k.n("nextn_predict_layers", n)
		k.n("block_count", k.layers()+n)
	}
}

// countNext counts those layers where config.json does not say their number: Qwen 3 Next's and MiMo V2's do not. Whatever
// dots3-note's says, there are as many as it has tensors of.
func (m *Model) countNext() {
	key, first, from, end := nextLayers, 0, "mtp.layers.", ""
	switch m.family.arch {
	case "qwen3next", "mimo2":
	case "dots3note":
		key, first, from, end = "num_nextn_predict_layers", m.config.layers(), "layers.", ".eh_proj.weight"
		delete(m.config.m, key)
	default:
		return
	}
	if m.config.has(key) {
		return
	}
	n := 0
	for _, name := range m.weights.Names() {
		rest, ok := strings.CutPrefix(strings.TrimPrefix(plain(name), "model."), from)
		if ok && strings.HasSuffix(rest, end) && !slices.Contains(m.skip, name) {
			number, _, _ := strings.Cut(rest, ".")
			if i, ok := digits(number); ok {
				n = max(n, i+1-first)
			}
		}
	}
	if n > 0 {
		m.config.m[key] = float64(n)
	}
}

// nextOfQwen names the tensors of the layer that predicts a token further on as those of a layer behind the last.
func nextOfQwen(c *config, name string) string {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "model."), "mtp.")
	if !ok {
		return name
	}
	n := c.layers()
	if of, ok := strings.CutPrefix(rest, "layers."); ok {
		number, tail, _ := strings.Cut(of, ".")
		if i, ok := digits(number); ok {
			return fmt.Sprintf("model.layers.%d.%s", n+i, tail)
		}
		return name
	}
	module, suffix, _ := strings.Cut(rest, ".")
	if to := map[string]string{"fc": "eh_proj", "pre_fc_norm_embedding": "enorm", "pre_fc_norm_hidden": "hnorm", "norm": "shared_head.norm"}[module]; to != "" {
		return fmt.Sprintf("model.layers.%d.%s.%s", n, to, suffix)
	}
	return name
}
