package nn

import (
	"maps"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// neutralValues are keys that change what a model computes, where an architecture reads them, and the values with which
// they do not. A file that has another value, for an architecture that does not read the key, is of a model that this
// is not.
var neutralValues = map[string][]float64{
	"attn_logit_softcapping":   {0},
	"final_logit_softcapping":  {0},
	"router_logit_softcapping": {0},

	"logit_scale":                 {0, 1},
	"embedding_scale":             {0, 1},
	"residual_scale":              {0, 1},
	"expert_weights_scale":        {0, 1},
	"expert_group_scale":          {0, 1},
	"attention.scale":             {0},
	"attention.output_scale":      {0, 1},
	"attention.value_scale":       {0, 1},
	"attention.temperature_scale": {0},
	"attention.clamp_kqv":         {0},
	"attention.max_alibi_bias":    {0},
	"attention.rope_pattern":      {1},
	"attention.shared_kv_layers":  {0},

	"rope.scaling.alpha":     {0, 1},
	"rescale_every_n_layers": {0},
	"swiglu_clamp_exp":       {0},
	"swiglu_clamp_shexp":     {0},
	"num_loops":              {0, 1},
	"swin_norm":              {0},
	"kda.gate_lower_bound":   {0},
	"kda.safe_gate":          {0},
	"attn_res.block_size":    {0},
	"activation.situ_beta":   {0},

	"hyper_connection.magnitude":     {0},
	"attention.indexer.block_size":   {0},
	"attention.indexer.local_blocks": {0},
}

// ofWindows are keys of layers with a window, which have to say what those of the others do where an architecture does
// not read them.
var ofWindows = map[string]string{
	"attention.key_length_swa":   "attention.key_length",
	"attention.value_length_swa": "attention.value_length",
	"rope.dimension_count_swa":   "rope.dimension_count",
}

// unread refuses keys that were not read and whose values are not neutral.
func (k *Keys) unread() {
	const order = "attention.causal"
	asked := maps.Clone(k.asked) // what follows asks for all
	check := func(key string, same []float64) {
		if !k.Has(key) || asked[key] {
			return
		}
		for _, v := range k.valuesOf(key) {
			if !slices.Contains(same, v) {
				k.Fail(key, "%g is not supported by %s, which has no such thing", v, k.Config.Arch)
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(neutralValues)) {
		same := neutralValues[key]
		if key == "attention.max_alibi_bias" && k.Config.ALiBi {
			same = []float64{8}
		}
		check(key, same)
	}
	for _, key := range slices.Sorted(maps.Keys(ofWindows)) {
		if all := ofWindows[key]; k.Has(all) {
			check(key, k.valuesOf(all))
		}
	}
	if causal, err := k.File.Bool(k.Name(order)); err == nil && causal && k.Config.BothWays {
		k.Fail(order, "true is not supported by %s, whose tokens see those after them", k.Config.Arch)
	}
	if gating := gatings[k.Config.ExpertGating]; k.Config.NExpert > 0 && gating != nil {
		// the softmax of all or of the chosen is then the same
		if k.Config.ExpertNorm && k.Config.ExpertGating != kernel.GateSigmoid {
			gating = []float64{0, 1, 3}
		}
		check("expert_gating_func", gating)
	}
	if k.Config.NExpert > 0 {
		check("expert_weights_norm", []float64{number(k.Config.ExpertNorm)})
	}
}

// gatings is what expert_gating_func says of each, where an architecture does not read it.
var gatings = map[kernel.Gating][]float64{kernel.GateSoftmax: {0, 1}, kernel.GateSigmoid: {0, 2},
	kernel.GateChosen: {0, 3}}

// valuesOf returns a key as numbers, whatever it is: one or an array, of whole ones, of others, or of truths.
func (k *Keys) valuesOf(key string) []float64 {
	name := k.Name(key)
	if v, err := k.File.Float(name); err == nil {
		return []float64{v}
	}
	if v, err := k.File.Int(name); err == nil {
		return []float64{float64(v)}
	}
	if v, err := k.File.Bool(name); err == nil {
		return []float64{number(v)}
	}
	var all []float64
	if vs, err := k.File.Floats(name); err == nil {
		for _, v := range vs {
			all = append(all, float64(v))
		}
	} else if vs, err := k.File.Ints(name); err == nil {
		for _, v := range vs {
			all = append(all, float64(v))
		}
	} else if vs, err := k.File.Bools(name); err == nil {
		for _, v := range vs {
			all = append(all, number(v))
		}
	}
	return all
}

func number(v bool) float64 {
	if v {
		return 1
	}
	return 0
}
