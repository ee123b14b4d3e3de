package lang

import (
	"cmp"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/gguf"
)

// Keys are the metadata of an architecture. The methods with short names set a key, which is given without the
// architecture's name: N an integer, F a float, B true or false, Ns and Bs lists of them.
type Keys struct {
	*hf.Config
	Arch    string
	KVs     []gguf.KV
	Factors map[string]View // tensors that divide the frequencies of rotations, by their names in the file
}

// A Setting says which values of config.json a key has: the first of the names From, with spaces between them, that has
// one. Key is without the architecture's name. It is an alias, so that fields need no names in tables.
type Setting = struct {
	Key  string
	Kind byte // 'n': uint32, or a list of them; 'f': float32; 'b': bool
	From string
}

// Settings is a table of settings. If several with the same key have a value, the last counts.
type Settings []Setting

// And returns these settings followed by others.
func (s Settings) And(others ...Settings) Settings {
	return slices.Concat(append([]Settings{s}, others...)...)
}

// Fixed is a table of settings of config.json that an architecture has one value for. A checkpoint with another value is
// refused: it would be computed wrong.
type Fixed []struct {
	From   string // names with spaces between them, in objects with dots; each that has a value
	Values string // the values that mean the same, with spaces between them; all elements of a list have one of them
}

// And returns these rows followed by others.
func (f Fixed) And(others ...Fixed) Fixed { return slices.Concat(append([]Fixed{f}, others...)...) }

// fixed fails if a setting has another value than those that the architecture computes.
func (k *Keys) fixed(from, values string) {
	for path := range strings.FieldsSeq(from) {
		c, name := k.Config, path
		for {
			object, rest, deeper := strings.Cut(name, ".")
			if !deeper {
				break
			}
			c, name = c.Within(object), rest
		}
		c.Want(name, strings.Fields(values)...)
		k.Take(c)
	}
}

// common are the settings of most families.
var common = Settings{
	{"context_length", 'n',
		"max_position_embeddings n_ctx n_positions max_length max_sequence_length model_max_length"},
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

// own begins the names of keys that GGUF lacks. They are without an architecture's name.
const own = "quern."

// Set sets a key to a value of a type that GGUF has.
func (k *Keys) Set(key string, value any) {
	if !strings.HasPrefix(key, own) {
		key = k.Arch + "." + key
	}
	for i := range k.KVs {
		if k.KVs[i].Key == key {
			k.KVs[i].Value = value
			return
		}
	}
	k.KVs = append(k.KVs, gguf.KV{Key: key, Value: value})
}

// Drop removes keys.
func (k *Keys) Drop(names ...string) {
	for _, name := range names {
		for i := range k.KVs {
			if k.KVs[i].Key == k.Arch+"."+name {
				k.KVs = append(k.KVs[:i], k.KVs[i+1:]...)
				break
			}
		}
	}
}

// N sets a key to an integer.
func (k *Keys) N(key string, v int) { k.Set(key, uint32(v)) }

// F sets a key to a float.
func (k *Keys) F(key string, v float64) { k.Set(key, float32(v)) }

// B sets a key to true or false.
func (k *Keys) B(key string, v bool) { k.Set(key, v) }

// Bs sets a key to a list of true and false.
func (k *Keys) Bs(key string, v []bool) { k.Set(key, v) }

// Ns sets a key to a list of integers.
func (k *Keys) Ns(key string, v []uint32) { k.Set(key, v) }

// Settings sets the keys of a table that have a value in config.json.
func (k *Keys) Settings(list Settings) {
	for _, s := range list {
		v, name := k.Find(s.From)
		if name == "" {
			continue
		}
		switch s.Kind {
		case 'n':
			if all, ok := v.([]any); ok {
				k.Ns(s.Key, k.Integers(name, all))
				continue
			}
			k.N(s.Key, k.Count(name))
		case 'f':
			k.F(s.Key, k.Number(name))
		case 'b':
			k.B(s.Key, k.Flag(name))
		}
	}
}

// Integers returns a list of config.json as integers. Errors name it.
func (k *Keys) Integers(name string, all []any) []uint32 {
	var list []uint32
	for _, v := range all {
		n, ok := hf.AsCount(v)
		if !ok {
			k.Fail("%s has %.40v, want integers of 0 or more", name, v)
		}
		list = append(list, uint32(n))
	}
	return list
}

// All sets the keys of a family, and returns the number of layers with those that predict further tokens.
func (k *Keys) All(f *Family) (layers int) {
	layers = k.Layers()
	k.N("block_count", layers)
	k.Settings(common)
	k.rope()
	k.Settings(f.Settings)
	if f.Keys != nil {
		f.Keys(k)
	}
	k.factors()
	k.activation(cmp.Or(f.Activation, "silu"))
	for _, s := range f.Fixed {
		k.fixed(s.From, s.Values)
	}
	for _, kv := range k.KVs {
		if kv.Key == k.Arch+".block_count" || kv.Key == k.Arch+".decoder_block_count" {
			layers = max(layers, int(kv.Value.(uint32)))
		}
	}
	return layers
}

// Gating sets how experts are scored: as config.json says, or otherwise.
func (k *Keys) Gating(otherwise string) {
	name := k.Text("score_function scoring_func score_func moe_router_activation moe_router_activation_func")
	if name == "" {
		name = otherwise
	}
	switch strings.ToLower(name) {
	case "":
	case "softmax":
		k.N("expert_gating_func", 1)
	case "sigmoid":
		k.N("expert_gating_func", 2)
	case "sqrtsoftplus":
		k.N("expert_gating_func", 4)
	default:
		k.Fail("experts scored by %q are not known", name)
	}
}

// Where returns a list with n for each true and otherwise for each false.
func Where(is []bool, n, otherwise int) []uint32 {
	list := make([]uint32, len(is))
	for i, yes := range is {
		list[i] = uint32(otherwise)
		if yes {
			list[i] = uint32(n)
		}
	}
	return list
}

// Limits sets a key to a number for each of n layers, from a list in which null means none.
func (k *Keys) Limits(key, name string, n int) {
	list := k.List(name)
	if list == nil {
		return
	}
	all := make([]float32, n)
	for i, v := range list[:min(len(list), n)] {
		x, ok := v.(float64)
		if v != nil && !ok {
			k.Fail("%s has %.40v, want numbers", name, v)
		}
		all[i] = float32(x)
	}
	k.Set(key, all)
}

// Every returns which layers are at offset, offset + period, offset + 2*period and so on.
func Every(layers, offset, period int) []bool {
	is := make([]bool, layers)
	for i := offset; i < layers; i += max(period, 1) {
		is[i] = true
	}
	return is
}
