package family

import "github.com/quern-llm/quern/go/convert/lang"

var nanbeige = lang.Family{
	Arch:     "nanbeige",
	Names:    "NanbeigeForCausalLM",
	Rules:    ends.And(pairs, dense),
	Settings: lang.Settings{{"num_loops", 'n', "num_loops"}, {"skip_loop_final_norm", 'b', "skip_loop_final_norm"}},
	Keys:     commonKeys,
}
