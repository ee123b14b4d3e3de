package family

import "github.com/quern-llm/quern/go/convert/lang"

var codeshell = lang.Family{
	Arch:  "codeshell",
	Names: "CodeShellForCausalLM",
	Rules: gpt,
	Settings: lang.Settings{
		{"attention.head_count_kv", 'n', "num_query_groups"},
	},
	Keys: func(k *lang.Keys) {
		k.N("feed_forward_length", k.CountOr("n_inner", 4*k.Count("n_embd")))
		k.F("rope.freq_base", 10000)
		k.Set("rope.scaling.type", "linear")
		k.F("rope.scaling.factor", 1)
	},
}
