package convert

import "fmt"

// linear is layers with a state in place of keys and values.
var linear = rules{
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
var tiled = rules{
	{"linear_attn.A_log", "ssm_a", then(negExp, tile(0, headOne))},
	{"linear_attn.dt_bias", "ssm_dt.bias", tile(0, headOne)},
	{"linear_attn.conv1d.weight", "ssm_conv1d.weight", then(squeeze, tileValues)},
	{"linear_attn.in_proj_qkv", "attn_qkv", tileValues},
	{"linear_attn.in_proj_z", "attn_gate", tile(0, valueDim)},
	{"linear_attn.in_proj_a", "ssm_alpha", tile(0, headOne)},
	{"linear_attn.in_proj_b", "ssm_beta", tile(0, headOne)},
	{"linear_attn.out_proj", "ssm_out", tile(1, valueDim)},
}

func headOne(*config) int { return 1 }

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

var linearSettings = settings{
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
