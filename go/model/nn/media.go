package nn

import (
	"slices"

	"github.com/quern-llm/quern/go/kernel"
)

// CanSee returns whether tokens of the model may bring rows: it is one that continues text, and begins with embeddings.
func (c *Config) CanSee() bool { return !c.OnePass() }

// MediaColumns returns the columns of a row that a token of a picture or a sound brings: in place of its embedding, and for
// each layer that adds more of them (Meng et al. 2024, "DeepStack"), and behind them which experts it uses.
func (c *Config) MediaColumns() int {
	n := c.NEmbd * (1 + len(c.Deepstack))
	if c.SenseExperts {
		n += senseColumns
	}
	return n
}

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

// deepstack adds the columns of the rows that are added in front of layer il.
func (b *Builder) deepstack(il int) {
	for i, at := range b.Config.Deepstack {
		if at == il {
			b.media(i + 1)
		}
	}
}

// DeepStack reads how many first layers have columns of the rows that tokens bring added behind them.
func (k *Keys) DeepStack() {
	for il := range k.IntOr("n_deepstack_layers", 0, 0, len(k.Config.Layers)) {
		k.Config.Deepstack = append(k.Config.Deepstack, il+1)
	}
}

// DeepStackAt reads for each layer which columns of these rows are added in front of it, if the file has it: numbers from 1 on,
// or -1.
func (k *Keys) DeepStackAt() {
	const mapping = "deepstack_mapping"
	if !k.Has(mapping) {
		return
	}
	list, err := k.File.Ints(k.Name(mapping))
	k.Check(err)
	k.ForLayers(mapping, len(list))
	for i := 1; ; i++ {
		at := slices.Index(list, int64(i))
		if at < 0 {
			break
		}
		k.Config.Deepstack = append(k.Config.Deepstack, at)
	}
	for il, i := range list {
		if i != -1 && (i < 1 || i > int64(len(k.Config.Deepstack)) || k.Config.Deepstack[i-1] != il) {
			k.Fail(mapping, "%d for layer %d, want -1, or each number from 1 on once", i, il)
		}
	}
}
