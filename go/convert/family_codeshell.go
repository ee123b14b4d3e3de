package convert

var codeshell = family{
	arch:  "codeshell",
	names: "CodeShellForCausalLM",
	rules: gpt,
	settings: settings{
		{"attention.head_count_kv", 'n', "num_query_groups"},
	},
	keys: func(k *keys) {
		k.n("feed_forward_length", k.countOr("n_inner", 4*k.count("n_embd")))
		k.f("rope.freq_base", 10000)
		k.set("rope.scaling.type", "linear")
		k.f("rope.scaling.factor", 1)
	},
}
