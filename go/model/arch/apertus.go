package arch

import (
	"math"

	"github.com/quern-llm/quern/go/internal/exactmath"
	"github.com/quern-llm/quern/go/kernel"
	. "github.com/quern-llm/quern/go/model/nn"
)

// apertus is Apertus: each head of queries and keys normalised, xIELU (Huang and Schlag 2025)
// without a gate, whose constants are keys of each layer. As in the original, alpha of positive
// numbers is softplus(key), that of others beta + softplus(key).
var apertus = Arch{
	Name: "apertus",
	config: func(k *Keys) {
		k.Dense(kernel.RopeNeox)
		k.EachConstant("xielu.beta", func(l *LayerConfig, v float64) { l.XIELU.Beta = float32(v) })
		k.EachConstant("xielu.alpha_p", func(l *LayerConfig, v float64) { l.XIELU.AlphaP = float32(softplus(v)) })
		k.EachConstant("xielu.alpha_n", func(l *LayerConfig, v float64) {
			l.XIELU.AlphaN = l.XIELU.Beta + float32(softplus(v))
		})
		k.EachConstant("xielu.eps", func(l *LayerConfig, v float64) { l.XIELU.Eps = float32(min(v, 0)) })
	},
	build: func(b *Builder) { b.Dense(Attention{QKNorm: NormHead}, FeedForward{XIELU: true}) },
}

// softplus is ln(1 + e^x), of which x itself is the nearest double from some 40 on.
func softplus(x float64) float64 {
	if x > 40 {
		return x
	}
	return exactmath.Log(1 + exactmath.Pow(math.E, x))
}
