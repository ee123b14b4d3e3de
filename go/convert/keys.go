package convert

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// keys collects the settings of an architecture.
type keys struct {
	*config
	arch string
	list []gguf.KV
}

// A setting is a key, without the architecture's name, and what config.json calls its value. It has no name as a type, so
// that tables of settings may leave out the names of its fields.
type setting = struct {
	key  string
	kind byte // 'n': an integer of 32 bits, or a list of them; 'f': a float32; 'b': a bool
	from string
}

// settings is a table of settings. Of two with the same key, the last counts that has a value.
type settings []setting

// And returns these settings and others behind them.
func (s settings) And(others ...settings) settings {
	return slices.Concat(append([]settings{s}, others...)...)
}

// common are the settings that most families have.
var common = settings{
	{"context_length", 'n', "max_position_embeddings n_ctx n_positions max_length max_sequence_length model_max_length"},
	{"embedding_length", 'n', "hidden_size n_embd dim d_model"},
	{"feed_forward_length", 'n', "intermediate_size n_inner hidden_dim"},
	{"attention.head_count", 'n', "num_attention_heads n_head n_heads"},
	{"attention.head_count_kv", 'n', "num_key_value_heads n_kv_heads"},
	{"attention.key_length", 'n', "head_dim"},
	{"attention.value_length", 'n', "head_dim"},
	{"attention.layer_norm_rms_epsilon", 'f', "rms_norm_eps norm_eps"},
	{"attention.layer_norm_epsilon", 'f', "layer_norm_eps layer_norm_epsilon norm_epsilon"},
	{"expert_count", 'n', "num_local_experts num_experts"},
	{"expert_used_count", 'n', "num_experts_per_tok num_experts_per_token top_k_experts"},
	{"expert_group_count", 'n', "n_group"},
	{"expert_group_used_count", 'n', "topk_group"},
}

// set sets a key to a value of a type of GGUF.
func (k *keys) set(key string, value any) {
	key = k.arch + "." + key
	for i := range k.list {
		if k.list[i].Key == key {
			k.list[i].Value = value
			return
		}
	}
	k.list = append(k.list, gguf.KV{Key: key, Value: value})
}

// drop removes keys that were set.
func (k *keys) drop(names ...string) {
	for _, name := range names {
		for i := range k.list {
			if k.list[i].Key == k.arch+"."+name {
				k.list = append(k.list[:i], k.list[i+1:]...)
				break
			}
		}
	}
}

func (k *keys) n(key string, v int)       { k.set(key, uint32(v)) }
func (k *keys) f(key string, v float64)   { k.set(key, float32(v)) }
func (k *keys) b(key string, v bool)      { k.set(key, v) }
func (k *keys) bs(key string, v []bool)   { k.set(key, v) }
func (k *keys) ns(key string, v []uint32) { k.set(key, v) }

// settings sets the keys whose values there are.
func (k *keys) settings(list settings) {
	for _, s := range list {
		v, name := k.find(s.from)
		if name == "" {
			continue
		}
		switch s.kind {
		case 'n':
			if all, ok := v.([]any); ok {
				k.ns(s.key, k.integers(name, all))
				continue
			}
			k.n(s.key, k.count(name))
		case 'f':
			k.f(s.key, k.number(name))
		case 'b':
			k.b(s.key, k.flag(name))
		}
	}
}

// integers reads a list of integers.
func (k *keys) integers(name string, all []any) []uint32 {
	var list []uint32
	for _, v := range all {
		n, ok := asCount(v)
		if !ok {
			k.fail("%s has %.40v, want integers of 0 or more", name, v)
		}
		list = append(list, uint32(n))
	}
	return list
}

// all sets the keys of a family and returns the number of its layers.
func (k *keys) all(f *family) (layers int) {
	layers = k.layers()
	k.n("block_count", layers)
	k.settings(common)
	k.rope()
	k.settings(f.settings)
	if f.keys != nil {
		f.keys(k)
	}
	for _, kv := range k.list {
		if kv.Key == k.arch+".block_count" || kv.Key == k.arch+".decoder_block_count" {
			layers = max(layers, int(kv.Value.(uint32)))
		}
	}
	return layers
}

// rope sets the keys of rotations.
func (k *keys) rope() {
	if theta := k.theta(); theta > 0 {
		k.f("rope.freq_base", theta)
	}
	local := k.numberOr("local_rope_theta rope_local_theta rope_theta_local swa_rope_theta rope_local_base_freq", 0)
	if r := k.ropeOf("sliding_attention"); r.has("rope_theta") && k.within("rope_parameters").has("sliding_attention") {
		local = r.number("rope_theta")
	}
	if local > 0 {
		k.f("rope.freq_base_swa", local)
	}
	r := k.ropeOf("full_attention")
	defer k.config.take(r)
	switch kind := r.text("rope_type type"); kind {
	case "", "default", "llama3", "mrope", "proportional", "dynamic", "xdrope":
	case "linear":
		k.set("rope.scaling.type", "linear")
		k.f("rope.scaling.factor", r.number("factor"))
	case "yarn":
		k.set("rope.scaling.type", "yarn")
		k.f("rope.scaling.factor", r.number("factor"))
		k.n("rope.scaling.original_context_length", r.countOr("original_max_position_embeddings", k.countOr("max_position_embeddings", 0)))
		yarn := settings{
			{"rope.scaling.yarn_ext_factor", 'f', "extrapolation_factor"},
			{"rope.scaling.yarn_attn_factor", 'f', "attention_factor attn_factor"},
			{"rope.scaling.yarn_beta_fast", 'f', "beta_fast"},
			{"rope.scaling.yarn_beta_slow", 'f', "beta_slow"},
		}
		for _, s := range yarn {
			if r.has(s.from) {
				k.f(s.key, r.number(s.from))
			}
		}
	case "su", "longrope":
		k.set("rope.scaling.type", "longrope")
	default:
		k.fail("rotations of the type %q are not known", kind)
	}
	if sections := r.list("mrope_section xdrope_section"); sections != nil {
		list := k.integers("mrope_section", sections)
		for len(list) < 4 {
			list = append(list, 0)
		}
		all := make([]int32, 4)
		for i := range all {
			all[i] = int32(list[i])
		}
		k.set("rope.dimension_sections", all)
	}
}

// gating sets how experts are scored, by name or else as given.
func (k *keys) gating(otherwise string) {
	name := k.text("score_function scoring_func score_func moe_router_activation moe_router_activation_func")
	if name == "" {
		name = otherwise
	}
	switch strings.ToLower(name) {
	case "":
	case "softmax":
		k.n("expert_gating_func", 1)
	case "sigmoid":
		k.n("expert_gating_func", 2)
	case "sqrtsoftplus":
		k.n("expert_gating_func", 4)
	default:
		k.fail("experts scored by %q are not known", name)
	}
}

// where returns n for the layers that are of a kind, and otherwise for the others.
func where(is []bool, n, otherwise int) []uint32 {
	list := make([]uint32, len(is))
	for i, yes := range is {
		list[i] = uint32(otherwise)
		if yes {
			list[i] = uint32(n)
		}
	}
	return list
}

// limits sets a number for each of n layers, of a list in which null stands for none.
func (k *keys) limits(key, name string, n int) {
	list := k.config.list(name)
	if list == nil {
		return
	}
	all := make([]float32, n)
	for i, v := range list[:min(len(list), n)] {
		x, ok := v.(float64)
		if v != nil && !ok {
			k.fail("%s has %.40v, want numbers", name, v)
		}
		all[i] = float32(x)
	}
	k.set(key, all)
}

// every returns the layers of a period, from an offset on.
func every(layers, offset, period int) []bool {
	is := make([]bool, layers)
	for i := offset; i < layers; i += max(period, 1) {
		is[i] = true
	}
	return is
}
