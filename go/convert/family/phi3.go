package family

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
)

var phi3 = lang.Family{
	Arch:  "phi3",
	Names: "Phi3ForCausalLM",
	Rules: phi3Rules,
	Keys:  phi3Keys,
}

// phi4Multimodal is the text model of Phi 4 Multimodal, without what sees and hears, and without the adapters for that.
var phi4Multimodal = lang.Family{
	Arch:  "phi3",
	Names: "Phi4MultimodalForCausalLM Phi4MMForCausalLM",
	Rules: phi3Rules,
	Keys:  phi3Keys,
	Skip: []string{"model.embed_tokens_extend.", ".lora_A.vision.weight", ".lora_B.vision.weight",
		".lora_A.speech.weight", ".lora_B.speech.weight"},
	Rename: func(_ *hf.Config, name string) string { return strings.Replace(name, ".base_layer.", ".", 1) },
}

var phi3Rules = lang.Rules{
	{"mlp.gate_up_proj", "ffn_up", nil},
}.And(ends, attention, dense)

func phi3Keys(k *lang.Keys) {
	rotating(k, 1)
	k.N("rope.scaling.original_context_length", k.CountOr("original_max_position_embeddings",
		k.Count("max_position_embeddings")))
	k.N("attention.sliding_window", k.CountOr("sliding_window", 0)) // Phi 4 is recognized by 0
	k.Drop("rope.scaling.type")
}
