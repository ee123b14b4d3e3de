package lang

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
)

// A View is a tensor whose elements are computed when they are read, from a tensor of a checkpoint or from other views.
// Elements are numbered row by row: the index of the last dimension runs fastest. Several goroutines may read at a time.
type View struct {
	Shape []uint64
	Read  func(dst []float32, at uint64) error // reads the elements from number at on

	Type  gguf.Type // of the blocks that Bytes copies, if they need no computing
	Bytes func(dst []byte, at uint64) error

	Held []Held // the blocks that have the numbers of Read; what computes others of them drops these
}

// Elems returns the number of elements.
func (v View) Elems() uint64 {
	n := uint64(1)
	for _, d := range v.Shape {
		n *= d
	}
	return n
}

// As returns the same elements in another shape.
func (v View) As(shape ...uint64) (View, error) {
	was := v.Shape
	v.Shape = shape
	if n := (View{Shape: was}).Elems(); v.Elems() != n {
		return View{}, fmt.Errorf("the shape %v, want %d elements as in %v", was, v.Elems(), shape)
	}
	return v, nil
}

// Squeezed returns v without its dimensions of size 1.
func (v View) Squeezed() View {
	v.Shape = slices.DeleteFunc(slices.Clone(v.Shape), func(d uint64) bool { return d == 1 })
	if len(v.Shape) == 0 {
		v.Shape = []uint64{1}
	}
	return v
}

// Each returns v with f applied to each element.
func (v View) Each(f func(float32) float32) View {
	read := v.Read
	v.Held = nil
	v.Read = func(dst []float32, at uint64) error {
		if err := read(dst, at); err != nil {
			return err
		}
		for i, x := range dst {
			dst[i] = f(x)
		}
		return nil
	}
	return v
}

// A Dim is a dimension of a strided view: its size, and the distance in elements between two neighbours of it. Like
// Rule it is an alias, so that fields need no names.
type Dim = struct{ N, Stride uint64 }

// Strided returns a view of the shape of dims. The element with the indices i, j, ... is the element of v with the
// number from + i*dims[0].Stride + j*dims[1].Stride + ...
func (v View) Strided(from uint64, dims ...Dim) View {
	var shape []uint64
	for _, d := range dims {
		shape = append(shape, d.N)
	}
	out := View{Shape: shape}
	// Neighbouring elements are read in one call.
	run := uint64(1)
	for len(dims) > 0 && dims[len(dims)-1].Stride == run {
		run *= dims[len(dims)-1].N
		dims = dims[:len(dims)-1]
	}
	place := func(i uint64) uint64 { // returns the first element of run i
		at := from
		for _, d := range slices.Backward(dims) {
			at += i % d.N * d.Stride
			i /= d.N
		}
		return at
	}
	out.Held = v.heldStrided(from, dims, run, place)
	if k := len(dims); run == 1 && k > 1 && dims[k-2].Stride == 1 {
		out.Read = v.crossed(dims[k-2].N, dims[k-1], place)
		return out
	}
	out.Read = func(dst []float32, at uint64) error {
		for len(dst) > 0 {
			n := min(uint64(len(dst)), run-at%run)
			if err := v.Read(dst[:n], place(at/run)+at%run); err != nil {
				return err
			}
			dst, at = dst[n:], at+n
		}
		return nil
	}
	return out
}

// crossed returns the reader of a transposed matrix: rows of inner.N elements, where elements of neighbouring rows are
// neighbours in v. It reads as many rows at a time as dst has room for, so that each call of v.Read is long.
func (v View) crossed(rows uint64, inner Dim, place func(uint64) uint64) func(dst []float32, at uint64) error {
	return func(dst []float32, at uint64) error {
		var buf []float32
		for len(dst) > 0 {
			row, col := at/inner.N, at%inner.N
			n := min(max(uint64(len(dst))/inner.N, 1), rows-row%rows) // how many rows are read at a time
			width := inner.N
			if col != 0 || uint64(len(dst)) < inner.N {
				n, width = 1, min(uint64(len(dst)), inner.N-col)
			}
			buf = slices.Grow(buf[:0], int(n))[:n]
			for c := range width {
				if err := v.Read(buf, place(row*inner.N+col+c)); err != nil {
					return err
				}
				for r, x := range buf {
					dst[uint64(r)*inner.N+c] = x
				}
			}
			dst, at = dst[n*width:], at+n*width
		}
		return nil
	}
}

// Rows returns the size of the first dimension, and the number of elements at each index of it.
func (v View) Rows() (n, each uint64) {
	if len(v.Shape) == 0 {
		return 1, 1
	}
	n = v.Shape[0]
	if n == 0 {
		return 0, 0
	}
	return n, v.Elems() / n
}

// Joined returns views one after the other along the first dimension.
func Joined(parts ...View) (View, error) {
	out := View{Shape: slices.Clone(parts[0].Shape), Type: parts[0].Type}
	ends := make([]uint64, len(parts))
	total, rows := uint64(0), uint64(0)
	for i, p := range parts {
		if !slices.Equal(p.Shape[1:], out.Shape[1:]) {
			return View{}, fmt.Errorf("the shapes %v and %v of parts", out.Shape, p.Shape)
		}
		if (p.Bytes == nil) != (parts[0].Bytes == nil) {
			return View{}, errors.New("numbers and blocks as parts")
		}
		total += p.Elems()
		rows += p.Shape[0]
		ends[i] = total
	}
	out.Shape[0] = rows
	if slices.ContainsFunc(parts, func(p View) bool { return p.Elems() == 0 }) && total > 0 {
		return Joined(slices.DeleteFunc(slices.Clone(parts), func(p View) bool { return p.Elems() == 0 })...)
	}
	if parts[0].Bytes != nil {
		return joinedBytes(out, parts, ends)
	}
	out.Held = heldJoined(parts, ends)
	out.Read = func(dst []float32, at uint64) error {
		for len(dst) > 0 {
			i, found := slices.BinarySearch(ends, at)
			if found {
				i++
			}
			begin := ends[i] - parts[i].Elems()
			n := min(uint64(len(dst)), ends[i]-at)
			if err := parts[i].Read(dst[:n], at-begin); err != nil {
				return err
			}
			dst, at = dst[n:], at+n
		}
		return nil
	}
	return out, nil
}

// Beside returns views one after the other along the last dimension.
func Beside(parts ...View) (View, error) {
	out := View{Shape: slices.Clone(parts[0].Shape)}
	k := len(out.Shape) - 1
	starts, cols := make([]uint64, len(parts)), uint64(0) // the first column of each part
	for i, p := range parts {
		if len(p.Shape) != k+1 || !slices.Equal(p.Shape[:k], out.Shape[:k]) || p.Bytes != nil {
			return View{}, fmt.Errorf("the shapes %v and %v of parts", parts[0].Shape, p.Shape)
		}
		starts[i] = cols
		cols += p.Shape[k]
	}
	out.Shape[k] = cols
	out.Read = func(dst []float32, at uint64) error {
		for len(dst) > 0 {
			row, col := at/cols, at%cols
			i, found := slices.BinarySearch(starts, col)
			if !found {
				i--
			}
			width := parts[i].Shape[k]
			n := min(uint64(len(dst)), starts[i]+width-col)
			if err := parts[i].Read(dst[:n], row*width+col-starts[i]); err != nil {
				return err
			}
			dst, at = dst[n:], at+n
		}
		return nil
	}
	return out, nil
}

// joinedBytes joins views of blocks, which must not cross the borders of parts.
func joinedBytes(out View, parts []View, ends []uint64) (View, error) {
	elems, size := uint64(out.Type.BlockElems()), uint64(out.Type.BlockBytes())
	for _, p := range parts {
		if p.Bytes == nil || p.Type == gguf.F32 || p.Type != out.Type || p.Elems()%max(elems, 1) != 0 {
			return View{}, fmt.Errorf("parts of several types, or of no whole blocks")
		}
	}
	out.Bytes = func(dst []byte, at uint64) error {
		for len(dst) > 0 {
			i, found := slices.BinarySearch(ends, at)
			if found {
				i++
			}
			n := min(uint64(len(dst)), (ends[i]-at)/elems*size)
			if err := parts[i].Bytes(dst[:n], at-(ends[i]-parts[i].Elems())); err != nil {
				return err
			}
			dst, at = dst[n:], at+n/size*elems
		}
		return nil
	}
	return out, nil
}

// Stacked returns views of the same shape as one, with a new first dimension.
func Stacked(parts []View) (View, error) {
	for i, p := range parts {
		parts[i].Shape = append([]uint64{1}, p.Shape...)
	}
	return Joined(parts...)
}

// Constant returns a vector of these numbers.
func Constant(v []float32) View {
	return View{Shape: []uint64{uint64(len(v))}, Read: func(dst []float32, at uint64) error {
		copy(dst, v[at:])
		return nil
	}}
}
