package lang

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
)

// A View is a tensor that is computed where it is read: of a checkpoint's, or of other views. Elements are counted row by
// row, the last dimension first. Reading is safe for concurrent use.
type View struct {
	Shape []uint64
	Read  func(dst []float32, at uint64) error // elements from number at on

	Typ   gguf.Type // of blocks that are copied
	Bytes func(dst []byte, at uint64) error
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

// Squeezed returns v without the dimensions of 1.
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

// A Dim is a dimension of a strided view: how many steps, and how many elements of what is read lie between two. Like a
// rule it has no name as a type.
type Dim = struct{ N, Stride uint64 }

// Strided returns the elements of v that lie at from and multiples of strides, counted by dims, the last first. The shape is
// that of dims.
func (v View) Strided(from uint64, dims ...Dim) View {
	var shape []uint64
	for _, d := range dims {
		shape = append(shape, d.N)
	}
	out := View{Shape: shape}
	// What lies together is read at once.
	run := uint64(1)
	for len(dims) > 0 && dims[len(dims)-1].Stride == run {
		run *= dims[len(dims)-1].N
		dims = dims[:len(dims)-1]
	}
	place := func(i uint64) uint64 { // of a run
		at := from
		for _, d := range slices.Backward(dims) {
			at += i % d.N * d.Stride
			i /= d.N
		}
		return at
	}
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

// crossed reads transposed matrices: rows of inner.n elements, of which those of neighbouring rows lie together. As many
// rows as there is room for are read at a time, so that runs are long.
func (v View) crossed(rows uint64, inner Dim, place func(uint64) uint64) func(dst []float32, at uint64) error {
	return func(dst []float32, at uint64) error {
		var buf []float32
		for len(dst) > 0 {
			row, col := at/inner.N, at%inner.N
			n := min(max(uint64(len(dst))/inner.N, 1), rows-row%rows) // rows at a time
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

// Rows returns the number of rows of all dimensions but the first, and the elements of one: an element of the first.
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

// Joined returns views one after another along the first dimension.
func Joined(parts ...View) (View, error) {
	out := View{Shape: slices.Clone(parts[0].Shape), Typ: parts[0].Typ}
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
	if parts[0].Bytes != nil {
		return joinedBytes(out, parts, ends)
	}
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

// Beside returns views one after another along the last dimension.
func Beside(parts ...View) (View, error) {
	out := View{Shape: slices.Clone(parts[0].Shape)}
	k := len(out.Shape) - 1
	starts, cols := make([]uint64, len(parts)), uint64(0) // columns
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

// joinedBytes is joined of blocks that are copied; no part ends within one.
func joinedBytes(out View, parts []View, ends []uint64) (View, error) {
	elems, size := uint64(out.Typ.BlockElems()), uint64(out.Typ.BlockBytes())
	for _, p := range parts {
		if p.Bytes == nil || p.Typ == gguf.F32 || p.Typ != out.Typ || p.Elems()%max(elems, 1) != 0 {
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

// Stacked returns views of one shape as one with a dimension more.
func Stacked(parts []View) (View, error) {
	for i, p := range parts {
		parts[i].Shape = append([]uint64{1}, p.Shape...)
	}
	return Joined(parts...)
}

// Constant returns a vector of given numbers.
func Constant(v []float32) View {
	return View{Shape: []uint64{uint64(len(v))}, Read: func(dst []float32, at uint64) error {
		copy(dst, v[at:])
		return nil
	}}
}
