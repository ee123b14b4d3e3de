package family

import "github.com/quern-llm/quern/go/convert/lang"

var gptneo = lang.Family{
	Arch:  "gpt_neo",
	Names: "GPTNeoForCausalLM",
	Rules: lang.Rules{
		{"attn.attention.q_proj", "attn_q", nil},
		{"attn.attention.k_proj", "attn_k", nil},
		{"attn.attention.v_proj", "attn_v", nil},
		{"attn.attention.out_proj", "attn_output", nil},
		{"attn.attention.bias", "", nil},
		{"attn.attention.masked_bias", "", nil},
	}.And(gpt),
	Keys: func(k *lang.Keys) {
		k.N("attention.head_count", k.Count("num_heads"))
		k.N("feed_forward_length", k.CountOr("intermediate_size", 4*k.Count("hidden_size")))
		gptneoWindows(k)
	},
	Activation: "gelu_new",
	Tied:       true,
}

// gptneoWindows sets which layers have a window: a list says it, or lists of kinds and how often each list is repeated.
func gptneoWindows(k *lang.Keys) {
	kinds := k.Texts("attention_layers")
	if kinds == nil {
		for _, v := range k.List("attention_types") {
			pair, _ := v.([]any)
			if len(pair) != 2 {
				k.Fail("attention_types has %.40v, want a list of kinds and how often it is repeated", v)
				return
			}
			list, isList := pair[0].([]any)
			n, isCount := pair[1].(float64)
			if !isList || !isCount || n < 0 || n*float64(len(list)) > float64(k.Layers()) {
				k.Fail("attention_types has %.40v, want kinds of %d layers", v, k.Layers())
				return
			}
			for range int(n) {
				for _, kind := range list {
					text, _ := kind.(string)
					kinds = append(kinds, text)
				}
			}
		}
	}
	if len(kinds) != k.Layers() {
		k.Fail("attention_layers has %d layers of %d", len(kinds), k.Layers())
		return
	}
	local := make([]bool, len(kinds))
	for il, kind := range kinds {
		if local[il] = kind == "local"; !local[il] && kind != "global" {
			k.Fail("layer %d has attention of the kind %.40q, want global or local", il, kind)
		}
	}
	k.N("attention.sliding_window", k.CountOr("window_size", 256))
	k.Bs("attention.sliding_window_pattern", local)
}
