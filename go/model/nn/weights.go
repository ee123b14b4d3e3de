package nn

import (
	"fmt"

	"github.com/quern-llm/quern/go/kernel"
)

// Weights returns tensors by their GGUF names. Each method checks that the shape is the expected one; its error names
// the tensor. Data is nil without memory.
type Weights interface {
	// Has reports whether there is such a tensor.
	Has(name string) bool
	// Table returns a matrix whose rows are looked up, not multiplied.
	Table(name string, in, out int) (kernel.Matrix, error)
	// Matrix returns n matrices for products: one tensor of three dimensions,
	// or of two when n is 1.
	Matrix(name string, in, out, n int) (kernel.Matrix, error)
	// Flat returns a matrix for products of `in` columns whose rows have several dimensions in the file, such as the
	// kernels of a convolution.
	Flat(name string, in, out int) (kernel.Matrix, error)
	// Regrouped is Flat with columns in another order, as floats: in the file they come in groups of n, of which the first
	// ones of all groups are then the first, and so on.
	Regrouped(name string, in, out, n int) (kernel.Matrix, error)
	// Rows returns how many rows a matrix has, by its last dimension that is not one; 0: there is no such tensor.
	Rows(name string) int
	// Repeated returns n of the rows of a matrix, from number `from` on, `times` times as floats, with rows of zeros behind them up to
	// whole panels.
	Repeated(name string, in, of, from, n, times int) (kernel.Matrix, error)
	// Summed returns sums of the rows of a matrix, each times numbers that are given for a sum, `times` times as floats. There are whole
	// panels of sums. key tells numbers from others.
	Summed(name, key string, in, of int, by [][]float64, times int) (kernel.Matrix, error)
	// Columns returns how many columns the rows of a matrix have; 0: there is no such tensor.
	Columns(name string) int
	// Stack returns matrices for products that are a tensor each.
	Stack(names []string, in, out int) (kernel.Matrix, error)
	// Part returns n rows, from number `from` on, of each of mats matrices of `of` rows.
	Part(name string, in, of, from, n, mats int) (kernel.Matrix, error)
	// Nth returns matrix i of the n that a tensor has.
	Nth(name string, in, out, n, i int) (kernel.Matrix, error)
	// Heads returns n rows, from number `from` on, of each of `heads` heads of `of` rows, as
	// one matrix, whose name is then HeadsName(name, from). n is a multiple of kernel.Panel.
	Heads(name string, in, of, from, n, heads int) (kernel.Matrix, error)
	// EachHead returns these rows as `heads` matrices; n may be any number.
	EachHead(name string, in, of, from, n, heads int) (kernel.Matrix, error)
	// Transposed returns, of n rows from number `from` on of each of `heads` heads of `of` rows,
	// the transpose: `heads` matrices of `in` rows and n columns, as floats.
	Transposed(name string, in, of, from, n, heads int) (kernel.Matrix, error)
	// Taps returns the kernels of a convolution, as floats: `out` rows with the `in` channels of each tap. Channels are padded
	// with zeros to whole panels, and so are the rows.
	Taps(name string, order TapOrder, taps, in, out int) (kernel.Matrix, error)
	// Against returns, for each of `heads` heads of `of` rows of `in` columns, the products of these with other rows, as
	// floats: `heads` matrices of as many rows as those, and of `of` columns.
	Against(name string, in, of, heads int, rows [][]float32) (kernel.Matrix, error)
	// Vector returns floats, of a tensor of these dimensions, padded with zeros to
	// whole panels.
	Vector(name string, dims ...int) ([]float32, error)
	// Squares returns the mean squares of what the rows of a matrix for products make
	// of independent inputs of mean square 1 that a norm has multiplied, by the vector
	// of that name if it was asked for before. It is nil as long as there is no memory.
	Squares(name, norm string) ([]float64, error)
	// Even multiplies the columns of matrices that have fewer bits than in the file, before they lose these, by the numbers
	// that it returns: EvenFactors of the weights of a norm, a vector of that name that was asked for before. It does nothing
	// and reports false if a matrix keeps its bits, or another norm is before it too. The numbers are nil as long as there is
	// no memory.
	Even(norm string, mats ...kernel.Matrix) (by []float32, ok bool)
	// Floats returns memory for n floats that are computed from the weights, under a
	// name of the caller's. It is nil until one is known.
	Floats(name string, n int) []float32
	// Choice returns a row of n numbers from 0 to below one, for each of rows. It is nil as long as there is no
	// memory.
	Choice(name string, n, rows, below int) ([]int32, error)
	// Rope returns the frequencies of r. See Rope.Freqs.
	Rope(r Rope) ([]float64, error)
}

// A TapOrder says in which order a file has the numbers of the kernels of a convolution.
type TapOrder int

const (
	TapsOfChannels TapOrder = iota // the taps of each channel
	TurnedTaps                     // the same, which are a square: rows become columns
	ChannelsOfTaps                 // the channels of each tap
)

// HeadsName names the matrix of Weights.Heads.
func HeadsName(name string, from int) string {
	return fmt.Sprintf("%s from row %d of each head", name, from)
}
