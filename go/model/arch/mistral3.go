package arch

import . "github.com/quern-llm/quern/go/model/nn"

// mistral3 is Ministral 3 and Devstral 2: Llama, dense or with experts, whose queries grow with
// their position.
var mistral3 = Arch{
	Name: "mistral3",
	config: func(k *Keys) {
		llama.config(k)
		k.Temperature("rope.scaling.original_context_length")
	},
	build: llama.build,
}
