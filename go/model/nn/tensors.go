package nn

import "github.com/quern-llm/quern/go/kernel"

// Tensors of the file, by their GGUF names. in is the columns of a matrix, out its rows. A tensor that the file lacks,
// or has in another shape, ends the building.

// Has reports whether the file has a tensor.
func (b *Builder) Has(name string) bool { return b.weights.Has(name) }

// Table returns a matrix whose rows are looked up, not multiplied.
func (b *Builder) Table(name string, in, out int) kernel.Matrix {
	return must(b.weights.Table(name, in, out))
}

// Matrix returns a matrix for products.
func (b *Builder) Matrix(name string, in, out int) kernel.Matrix {
	return must(b.weights.Matrix(name, in, out, 1))
}

// Vector returns floats, padded to whole panels; nil without memory.
func (b *Builder) Vector(name string, dims ...int) []float32 {
	return must(b.weights.Vector(name, dims...))
}

// optional returns a vector, or nil if the file does not have it.
func (b *Builder) optional(name string, dims ...int) []float32 {
	if !b.Has(name) {
		return nil
	}
	return b.Vector(name, dims...)
}

// NormWeights returns the weights of a norm, which some files have under the bare name.
func (b *Builder) NormWeights(name string, n int) []float32 {
	if b.Has(name) {
		return b.Vector(name, n)
	}
	return b.Vector(name+".weight", n)
}

// constants returns n numbers that no file has; nil without memory.
func (b *Builder) constants(name string, n int, of func(i int) float64) []float32 {
	v := b.weights.Floats(name, n)
	for i := range min(n, len(v)) {
		v[i] = float32(of(i))
	}
	return v
}

// Has reports whether the file has a tensor of the layer.
func (l Layer) Has(name string) bool { return l.Builder.Has(l.prefix + name) }

// Matrix returns a matrix of the layer for products.
func (l Layer) Matrix(name string, in, out int) kernel.Matrix {
	return l.Builder.Matrix(l.prefix+name, in, out)
}

// Vector returns floats of the layer, padded to whole panels; nil without memory.
func (l Layer) Vector(name string, dims ...int) []float32 {
	return l.Builder.Vector(l.prefix+name, dims...)
}

func (l Layer) optional(name string, dims ...int) []float32 {
	return l.Builder.optional(l.prefix+name, dims...)
}

// NormWeights returns the weights of a norm of the layer.
func (l Layer) NormWeights(name string, n int) []float32 {
	return l.Builder.NormWeights(l.prefix+name, n)
}

func (l Layer) constants(name string, n int, of func(i int) float64) []float32 {
	return l.Builder.constants(l.prefix+name, n, of)
}

// matrices returns n matrices of the layer that are one tensor.
func (l Layer) matrices(name string, in, out, n int) kernel.Matrix {
	return must(l.weights.Matrix(l.prefix+name, in, out, n))
}

// nth returns matrix i of the n in a tensor of the layer.
func (l Layer) nth(name string, in, out, n, i int) kernel.Matrix {
	return must(l.weights.Nth(l.prefix+name, in, out, n, i))
}

// rows returns n rows from number `from` on of each of mats matrices of `of` rows.
func (l Layer) rows(name string, in, of, from, n, mats int) kernel.Matrix {
	return must(l.weights.Part(l.prefix+name, in, of, from, n, mats))
}

// headRows returns n rows from number `from` on of each of `heads` heads of `of` rows: see Weights.Heads.
func (l Layer) headRows(name string, in, of, from, n, heads int) kernel.Matrix {
	return must(l.weights.Heads(l.prefix+name, in, of, from, n, heads))
}

// eachHead returns the same rows as a matrix of each head: see Weights.EachHead.
func (l Layer) eachHead(name string, in, of, from, n, heads int) kernel.Matrix {
	return must(l.weights.EachHead(l.prefix+name, in, of, from, n, heads))
}

// made returns memory for n floats that are computed from weights of the layer: see Weights.Floats.
func (l Layer) made(name string, n int) []float32 { return l.weights.Floats(l.prefix+name, n) }
