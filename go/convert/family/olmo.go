package family

import "github.com/quern-llm/quern/go/convert/lang"

var olmo = lang.Family{
	Arch:     "olmo",
	Names:    "OlmoForCausalLM",
	Rules:    ends.And(pairs, dense),
	Settings: lang.Settings{{"attention.clamp_kqv", 'f', "clip_qkv"}},
	Keys:     func(k *lang.Keys) { k.F("attention.layer_norm_epsilon", 1e-5) },
}
