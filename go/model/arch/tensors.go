package arch

import "github.com/quern-llm/quern/go/kernel"

// Tensors of the file, by their GGUF names. in is the columns of a matrix, out its rows. A tensor that the file lacks, or
// has in another shape, ends the building.

// has reports whether the file has a tensor.
func (b *builder) has(name string) bool { return b.w.Has(name) }

// table returns a matrix whose rows are looked up.
func (b *builder) table(name string, in, out int) kernel.Matrix {
	return must(b.w.Table(name, in, out))
}

// matrix returns a matrix for products.
func (b *builder) matrix(name string, in, out int) kernel.Matrix {
	return must(b.w.Matrix(name, in, out, 1))
}

// vector returns floats, padded to whole panels; nil as long as there is no memory.
func (b *builder) vector(name string, dims ...int) []float32 {
	return must(b.w.Vector(name, dims...))
}

// optional returns a vector, or nil if the file does not have it.
func (b *builder) optional(name string, dims ...int) []float32 {
	if !b.has(name) {
		return nil
	}
	return b.vector(name, dims...)
}

// normWeights returns the weights of a norm, which some files have under the bare name.
func (b *builder) normWeights(name string, n int) []float32 {
	if b.has(name) {
		return b.vector(name, n)
	}
	return b.vector(name+".weight", n)
}

// constants returns n numbers that no file has; nil as long as there is no memory.
func (b *builder) constants(name string, n int, of func(i int) float64) []float32 {
	v := b.w.Floats(name, n)
	for i := range min(n, len(v)) {
		v[i] = float32(of(i))
	}
	return v
}

// The same of a layer, whose tensors are named without the "blk.N." that their names begin with.

func (l layer) has(name string) bool { return l.builder.has(l.blk + name) }

func (l layer) matrix(name string, in, out int) kernel.Matrix {
	return l.builder.matrix(l.blk+name, in, out)
}

func (l layer) vector(name string, dims ...int) []float32 {
	return l.builder.vector(l.blk+name, dims...)
}

func (l layer) optional(name string, dims ...int) []float32 {
	return l.builder.optional(l.blk+name, dims...)
}

func (l layer) normWeights(name string, n int) []float32 {
	return l.builder.normWeights(l.blk+name, n)
}

func (l layer) constants(name string, n int, of func(i int) float64) []float32 {
	return l.builder.constants(l.blk+name, n, of)
}

// matrices returns n matrices in one tensor.
func (l layer) matrices(name string, in, out, n int) kernel.Matrix {
	return must(l.w.Matrix(l.blk+name, in, out, n))
}

// nth returns matrix i of the n that a tensor has.
func (l layer) nth(name string, in, out, n, i int) kernel.Matrix {
	return must(l.w.Nth(l.blk+name, in, out, n, i))
}

// rows returns n rows from number `from` on of each of mats matrices of `of` rows.
func (l layer) rows(name string, in, of, from, n, mats int) kernel.Matrix {
	return must(l.w.Part(l.blk+name, in, of, from, n, mats))
}

// headRows returns n rows from number `from` on of each of `heads` heads of `of` rows: see Weights.Heads.
func (l layer) headRows(name string, in, of, from, n, heads int) kernel.Matrix {
	return must(l.w.Heads(l.blk+name, in, of, from, n, heads))
}

// made returns memory for n floats that are computed of the layer's weights: see Weights.Floats.
func (l layer) made(name string, n int) []float32 { return l.w.Floats(l.blk+name, n) }
