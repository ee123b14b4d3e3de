// Package synth writes models of known shapes with random weights, for benchmarks: with
// the size, mix of types and speed of the real ones, and loadable by any engine. Their
// output is meaningless.
//
// A file is a pure function of shape, mix and seed. Blocks are generated directly in
// quantized form: random bits everywhere except in the scales, which are chosen so that
// the weights of a row of n have mean 0 and standard deviation 1/sqrt(n). That keeps a
// forward pass finite and its logits distinct at any depth.
package synth

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
)

// A Model is a shape with the types of its tensors.
type Model struct {
	Shape *Shape
	Mix   quant.Mix
	Seed  uint64 // changes the weights and nothing else
}

// ParseShape returns the model that "SHAPE:MIX" names, such as
// "llama-3.1-8b:Q4_K_M", or "SHAPE/N:MIX", with its first N layers alone, or "SHAPE+mtp:MIX" and "SHAPE/N+mtp:MIX", with a
// layer after these that predicts a token further on. Case does not matter. Without a mix it is Q4_K_M.
func ParseShape(spec string) (Model, error) {
	name, mix, found := strings.Cut(spec, ":")
	if !found {
		mix = "Q4_K_M"
	}
	name, mtp := strings.CutSuffix(strings.ToLower(name), "+mtp")
	name, layers, cut := strings.Cut(name, "/")
	s := findShape(name)
	m, known := findMix(mix)
	switch {
	case s == nil:
		return Model{}, fmt.Errorf("unknown shape %q, known are %s", name, strings.Join(Shapes(), " "))
	case !known:
		return Model{}, fmt.Errorf("unknown type %q, known are %s", mix, strings.Join(Mixes(), " "))
	}
	if cut {
		n, err := strconv.Atoi(layers)
		if err != nil || n < 1 || n > s.NLayer {
			return Model{}, fmt.Errorf("shape %q: %q layers, want 1 to %d", name, layers, s.NLayer)
		}
		part := *s
		part.Name, part.NLayer = fmt.Sprintf("%s/%d", s.Name, n), n
		s = &part
	}
	if mtp {
		if s.Gemma != nil || s.RWKV != nil || s.Pattern != "" || s.GPTOSS {
			return Model{}, fmt.Errorf("shape %q: no models like it have a layer that predicts further tokens", s.Name)
		}
		part := *s
		part.Name, part.MTP = s.Name+"+mtp", true
		s = &part
	}
	return Model{Shape: s, Mix: m}, nil
}

// String returns the name that ParseShape takes.
func (m Model) String() string { return m.Shape.Name + ":" + m.Mix.Name }

// Write writes the file to w and returns the bytes written. It stops early,
// with ctx's error, when ctx ends.
func (m Model) Write(ctx context.Context, w io.Writer) (int64, error) {
	g := gguf.NewWriter()
	m.metadata(g.Set)
	for _, t := range m.tensors() {
		g.AddTensor(t.name, t.typ, t.dims, func(w io.Writer) error { return m.fill(ctx, w, t) })
	}
	return g.WriteTo(w)
}

// DataBytes returns the size of the tensors: the whole file except its metadata, which
// is a few megabytes.
func (m Model) DataBytes() (uint64, error) {
	var sum uint64
	for _, t := range m.tensors() {
		n, err := t.typ.Size(t.dims)
		if err != nil {
			return 0, fmt.Errorf("tensor %q: %w", t.name, err)
		}
		sum += n
	}
	return sum, nil
}
