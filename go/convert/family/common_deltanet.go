package family

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

// linear is layers of linear attention, with a state instead of keys and values.
var linear = lang.Rules{
	{"post_attention_layernorm", "post_attention_norm", nil},
	{"linear_attn.A_log", "ssm_a", lang.NegExp},
	{"linear_attn.dt_bias", "ssm_dt.bias", nil},
	{"linear_attn.conv1d.weight", "ssm_conv1d.weight", lang.Squeeze},
	{"linear_attn.norm", "ssm_norm", nil},
	{"linear_attn.out_proj", "ssm_out", nil},
	{"linear_attn.in_proj_qkv", "attn_qkv", nil},
	{"linear_attn.in_proj_z", "attn_gate", nil},
	{"linear_attn.in_proj_a", "ssm_alpha", nil},
	{"linear_attn.in_proj_b", "ssm_beta", nil},
}

// tiled is linear for models in which several heads of values share a head of keys. In a checkpoint, heads of values
// with the same head of keys are neighbours; in GGUF the first one of each head of keys comes first, then the second of
// each, and so on.
var tiled = lang.Rules{
	{"linear_attn.A_log", "ssm_a", lang.Then(lang.NegExp, tile(0, headOne))},
	{"linear_attn.dt_bias", "ssm_dt.bias", tile(0, headOne)},
	{"linear_attn.conv1d.weight", "ssm_conv1d.weight", lang.Then(lang.Squeeze, tileValues)},
	{"linear_attn.in_proj_qkv", "attn_qkv", tileValues},
	{"linear_attn.in_proj_z", "attn_gate", tile(0, valueDim)},
	{"linear_attn.in_proj_a", "ssm_alpha", tile(0, headOne)},
	{"linear_attn.in_proj_b", "ssm_beta", tile(0, headOne)},
	{"linear_attn.out_proj", "ssm_out", tile(1, valueDim)},
}

func headOne(*hf.Config) int { return 1 }

func valueDim(c *hf.Config) int { return c.Count("linear_value_head_dim") }

func keyHeads(c *hf.Config) int { return c.Count("linear_num_key_heads") }

func valueHeads(c *hf.Config) int {
	return c.Count("linear_num_value_heads")
}

// tile reorders heads along an axis so. A head has this number of elements.
func tile(axis int, size func(*hf.Config) int) lang.Op {
	return lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
		k, h, d := uint64(keyHeads(c)), uint64(valueHeads(c)), uint64(size(c))
		if k == 0 || h%k != 0 || axis >= len(v.Shape) || v.Shape[axis] != h*d {
			return lang.View{}, fmt.Errorf("the shape %v, want %d heads of %d for %d", v.Shape, h, d, k)
		}
		inner, outer := uint64(1), uint64(1)
		for _, n := range v.Shape[axis+1:] {
			inner *= n
		}
		for _, n := range v.Shape[:axis] {
			outer *= n
		}
		r := h / k
		return v.Strided(0, lang.Dim{outer, h * d * inner}, lang.Dim{r, d * inner}, lang.Dim{k, r * d * inner},
			lang.Dim{d * inner, 1}).As(v.Shape...)
	})
}

// tileValues reorders the rows of values, which come after those of queries and keys.
var tileValues = lang.One(func(c *hf.Config, v lang.View) (lang.View, error) {
	before := 2 * uint64(keyHeads(c)) * uint64(c.Count("linear_key_head_dim"))
	if len(v.Shape) != 2 || v.Shape[0] < before {
		return lang.View{}, fmt.Errorf("the shape %v, want more than %d rows", v.Shape, before)
	}
	cols := v.Shape[1]
	rest := v.Strided(before*cols, lang.Dim{v.Shape[0] - before, cols}, lang.Dim{cols, 1})
	values, err := tile(0, valueDim)(c, []lang.View{rest})
	if err != nil {
		return lang.View{}, err
	}
	return lang.Joined(v.Strided(0, lang.Dim{before, cols}, lang.Dim{cols, 1}), values[0])
})

var linearSettings = lang.Settings{
	{"ssm.conv_kernel", 'n', "linear_conv_kernel_dim"},
	{"ssm.state_size", 'n', "linear_key_head_dim"},
	{"ssm.group_count", 'n', "linear_num_key_heads"},
	{"ssm.time_step_rank", 'n', "linear_num_value_heads"},
}

func linearKeys(k *lang.Keys) {
	k.N("ssm.inner_size", valueDim(k.Config)*valueHeads(k.Config))
	k.N("full_attention_interval", k.CountOr("full_attention_interval", 4))
	rotating(k, 0.25)
	if k.Has("layer_types") {
		every := k.CountOr("full_attention_interval", 4)
		for i, full := range k.TypesOf("full_attention indexed_attention") {
			if full != ((i+1)%max(every, 1) == 0) {
				k.Fail("layer_types: layer %d is not as %s has it, every %d with attention", i, k.Arch, every)
			}
		}
	}
}

// linearKeys35 also sets which channels rotate by which part of a position, and the number of layers that predict
// further tokens.
func linearKeys35(k *lang.Keys) {
	linearKeys(k)
	r := k.RopeOf("full_attention")
	if !r.Has("mrope_section") {
		k.Set("rope.dimension_sections", []int32{11, 11, 10, 0})
	}
	nextKeys(k)
}
