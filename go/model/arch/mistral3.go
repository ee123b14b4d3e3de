package arch

import "github.com/quern-llm/quern/go/kernel"

// mistral3 is Ministral 3 and Devstral 2: Llama, dense or with experts, whose queries grow with
// their position.
var mistral3 = Arch{
	Name: "mistral3",
	config: func(k *keys) {
		llama.config(k)
		scale := float32(k.floatOr("attention.temperature_scale", 0, 0, 1e3))
		if scale == 0 {
			return
		}
		span := k.intOr("rope.scaling.original_context_length", k.c.NCtx, 1, maxCtx)
		for il := range k.c.Layers {
			k.c.Layers[il].Temperature = kernel.Temperature{Scale: scale, Span: span}
		}
	},
	build: llama.build,
}
