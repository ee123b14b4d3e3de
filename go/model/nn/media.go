package nn

import (
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// CanSee returns whether tokens of the model may bring rows: it is one that continues text, and begins with embeddings.
func (c *Config) CanSee() bool { return !c.OnePass() }

// MediaColumns returns the columns of a row that a token of a picture or a sound brings: in place of its embedding, and for
// each layer that adds more of them (Meng et al. 2024, "DeepStack").
func (c *Config) MediaColumns() int { return c.NEmbd * (1 + c.Deepstack) }

// ByPlaces reports whether a token's places, and not its position, rotate its queries and keys.
func (c *Config) ByPlaces() bool {
	for _, l := range c.Layers {
		if l.Rope.sections() != nil {
			return c.Media
		}
	}
	return false
}

// media reads part i of the rows that tokens bring, if they may: the first replaces their embeddings, others are added.
func (b *Builder) media(i int) {
	if c := b.Config; c.Media {
		b.Add(kernel.Input{Dst: b.X(), From: i * c.NEmbd, Cols: c.NEmbd, Add: i > 0})
	}
}

// SeesMedia reports whether tokens of a medium may see each other in both directions.
func (c *Config) SeesMedia() bool {
	return slices.ContainsFunc(c.Layers, func(l LayerConfig) bool { return l.SeesMedia })
}

// SeeMedia says in which layers they may.
func (k *Keys) SeeMedia(in func(l *LayerConfig) bool) {
	for il := range k.Config.Layers {
		l := &k.Config.Layers[il]
		l.SeesMedia = in(l)
	}
}

// DeepStack reads how many first layers add columns of the rows that tokens bring.
func (k *Keys) DeepStack() {
	k.Config.Deepstack = k.IntOr("n_deepstack_layers", 0, 0, len(k.Config.Layers))
}
