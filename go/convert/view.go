package convert

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
)

// A view is a tensor that is computed where it is read: of a checkpoint's, or of other views. Elements are counted row by
// row, the last dimension first. Reading is safe for concurrent use.
type view struct {
	shape []uint64
	read  func(dst []float32, at uint64) error // elements from number at on

	typ   gguf.Type // of blocks that are copied
	bytes func(dst []byte, at uint64) error
}

// elems returns the number of elements.
func (v view) elems() uint64 {
	n := uint64(1)
	for _, d := range v.shape {
		n *= d
	}
	return n
}

// as returns the same elements in another shape.
func (v view) as(shape ...uint64) (view, error) {
	was := v.shape
	v.shape = shape
	if n := (view{shape: was}).elems(); v.elems() != n {
		return view{}, fmt.Errorf("the shape %v, want %d elements as in %v", was, v.elems(), shape)
	}
	return v, nil
}

// squeezed returns v without the dimensions of 1.
func (v view) squeezed() view {
	v.shape = slices.DeleteFunc(slices.Clone(v.shape), func(d uint64) bool { return d == 1 })
	if len(v.shape) == 0 {
		v.shape = []uint64{1}
	}
	return v
}

// each returns v with f applied to each element.
func (v view) each(f func(float32) float32) view {
	read := v.read
	v.read = func(dst []float32, at uint64) error {
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

// A dim is a dimension of a strided view: how many steps, and how many elements of what is read lie between two. Like a
// rule it has no name as a type.
type dim = struct{ n, stride uint64 }

// strided returns the elements of v that lie at from and multiples of strides, counted by dims, the last first. The shape is
// that of dims.
func (v view) strided(from uint64, dims ...dim) view {
	var shape []uint64
	for _, d := range dims {
		shape = append(shape, d.n)
	}
	out := view{shape: shape}
	// What lies together is read at once.
	run := uint64(1)
	for len(dims) > 0 && dims[len(dims)-1].stride == run {
		run *= dims[len(dims)-1].n
		dims = dims[:len(dims)-1]
	}
	place := func(i uint64) uint64 { // of a run
		at := from
		for _, d := range slices.Backward(dims) {
			at += i % d.n * d.stride
			i /= d.n
		}
		return at
	}
	if k := len(dims); run == 1 && k > 1 && dims[k-2].stride == 1 {
		out.read = v.crossed(dims[k-2].n, dims[k-1], place)
		return out
	}
	out.read = func(dst []float32, at uint64) error {
		for len(dst) > 0 {
			n := min(uint64(len(dst)), run-at%run)
			if err := v.read(dst[:n], place(at/run)+at%run); err != nil {
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
func (v view) crossed(rows uint64, inner dim, place func(uint64) uint64) func(dst []float32, at uint64) error {
	return func(dst []float32, at uint64) error {
		var buf []float32
		for len(dst) > 0 {
			row, col := at/inner.n, at%inner.n
			n := min(max(uint64(len(dst))/inner.n, 1), rows-row%rows) // rows at a time
			width := inner.n
			if col != 0 || uint64(len(dst)) < inner.n {
				n, width = 1, min(uint64(len(dst)), inner.n-col)
			}
			buf = slices.Grow(buf[:0], int(n))[:n]
			for c := range width {
				if err := v.read(buf, place(row*inner.n+col+c)); err != nil {
					return err
				}
				for r, x := range buf {
					dst[uint64(r)*inner.n+c] = x
				}
			}
			dst, at = dst[n*width:], at+n*width
		}
		return nil
	}
}

// rows returns the number of rows of all dimensions but the first, and the elements of one: an element of the first.
func (v view) rows() (n, each uint64) {
	if len(v.shape) == 0 {
		return 1, 1
	}
	n = v.shape[0]
	if n == 0 {
		return 0, 0
	}
	return n, v.elems() / n
}

// joined returns views one after another along the first dimension.
func joined(parts ...view) (view, error) {
	out := view{shape: slices.Clone(parts[0].shape), typ: parts[0].typ}
	ends := make([]uint64, len(parts))
	total, rows := uint64(0), uint64(0)
	for i, p := range parts {
		if !slices.Equal(p.shape[1:], out.shape[1:]) {
			return view{}, fmt.Errorf("the shapes %v and %v of parts", out.shape, p.shape)
		}
		if (p.bytes == nil) != (parts[0].bytes == nil) {
			return view{}, errors.New("numbers and blocks as parts")
		}
		total += p.elems()
		rows += p.shape[0]
		ends[i] = total
	}
	out.shape[0] = rows
	if parts[0].bytes != nil {
		return joinedBytes(out, parts, ends)
	}
	out.read = func(dst []float32, at uint64) error {
		for len(dst) > 0 {
			i, found := slices.BinarySearch(ends, at)
			if found {
				i++
			}
			begin := ends[i] - parts[i].elems()
			n := min(uint64(len(dst)), ends[i]-at)
			if err := parts[i].read(dst[:n], at-begin); err != nil {
				return err
			}
			dst, at = dst[n:], at+n
		}
		return nil
	}
	return out, nil
}

// beside returns views one after another along the last dimension.
func beside(parts ...view) (view, error) {
	out := view{shape: slices.Clone(parts[0].shape)}
	k := len(out.shape) - 1
	starts, cols := make([]uint64, len(parts)), uint64(0) // columns
	for i, p := range parts {
		if len(p.shape) != k+1 || !slices.Equal(p.shape[:k], out.shape[:k]) || p.bytes != nil {
			return view{}, fmt.Errorf("the shapes %v and %v of parts", parts[0].shape, p.shape)
		}
		starts[i] = cols
		cols += p.shape[k]
	}
	out.shape[k] = cols
	out.read = func(dst []float32, at uint64) error {
		for len(dst) > 0 {
			row, col := at/cols, at%cols
			i, found := slices.BinarySearch(starts, col)
			if !found {
				i--
			}
			width := parts[i].shape[k]
			n := min(uint64(len(dst)), starts[i]+width-col)
			if err := parts[i].read(dst[:n], row*width+col-starts[i]); err != nil {
				return err
			}
			dst, at = dst[n:], at+n
		}
		return nil
	}
	return out, nil
}

// joinedBytes is joined of blocks that are copied; no part ends within one.
func joinedBytes(out view, parts []view, ends []uint64) (view, error) {
	elems, size := uint64(out.typ.BlockElems()), uint64(out.typ.BlockBytes())
	for _, p := range parts {
		if p.bytes == nil || p.typ == gguf.F32 || p.typ != out.typ || p.elems()%max(elems, 1) != 0 {
			return view{}, fmt.Errorf("parts of several types, or of no whole blocks")
		}
	}
	out.bytes = func(dst []byte, at uint64) error {
		for len(dst) > 0 {
			i, found := slices.BinarySearch(ends, at)
			if found {
				i++
			}
			n := min(uint64(len(dst)), (ends[i]-at)/elems*size)
			if err := parts[i].bytes(dst[:n], at-(ends[i]-parts[i].elems())); err != nil {
				return err
			}
			dst, at = dst[n:], at+n/size*elems
		}
		return nil
	}
	return out, nil
}

// stacked returns views of one shape as one with a dimension more.
func stacked(parts []view) (view, error) {
	for i, p := range parts {
		parts[i].shape = append([]uint64{1}, p.shape...)
	}
	return joined(parts...)
}

// constant returns a vector of given numbers.
func constant(v []float32) view {
	return view{shape: []uint64{uint64(len(v))}, read: func(dst []float32, at uint64) error {
		copy(dst, v[at:])
		return nil
	}}
}
