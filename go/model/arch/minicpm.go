package arch

import (
	"math"

	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// What files of MiniCPM do not say: old ones of minicpm, and all of minicpm3. See their
// config.json: scale_emb, scale_depth and dim_model_base. (Of old files llama.cpp multiplies the
// logits by what it should divide them by.)
const (
	miniCPMEmbed = 12
	miniCPMDepth = 1.4
	miniCPMBase  = 256
)

// minicpm is MiniCPM 1, 2 and 4: Llama with scales on embeddings, what is added to the residual,
// and logits.
var minicpm = Arch{
	Name: "minicpm",
	config: func(k *Keys) {
		llama.config(k)
		miniCPMScales(k)
	},
	build: llama.build,
}

// minicpm3 is MiniCPM 3: minicpm with attention over latents.
var minicpm3 = Arch{
	Name: "minicpm3",
	config: func(k *Keys) {
		k.RMSNorm()
		k.Latents()
		k.FeedForward()
		k.Rope(kernel.RopeNeox)
		miniCPMScales(k)
	},
	build: deepseek2Build,
}

func miniCPMScales(k *Keys) {
	c := k.Config
	c.EmbedScale = float32(k.FloatOr("embedding_scale", miniCPMEmbed, 1e-6, 1e6))
	c.ResidualScale = float32(k.FloatOr("residual_scale", miniCPMDepth/math.Sqrt(float64(max(len(c.Layers), 1))), 1e-6,
		1e6))
	c.LogitScale = float32(1 / k.FloatOr("logit_scale", float64(max(c.NEmbd, 1))/miniCPMBase, 1e-6, 1e6))
}
