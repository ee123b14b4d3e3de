package model

import (
	"errors"
	"fmt"
	"math"
	"runtime"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// An adapter with magnitudes (Liu et al. 2024, "DoRA") turns the rows of W + scale * B A, and gives each a length of its own:
// row i of what it makes of W is magnitude[i] times that row, divided by its length. Products have that as a gain of each row,
// magnitude by length: gain * (W x + scale * B (A x)). So passes add a share gain - 1 of the product, and what a B adds whose
// rows are times their gain (kernel.LowRank).

// dora is the type of adapters whose matrices have magnitudes, and lora of those that have none: values of adapter.type.
const dora, lora = "dora", "lora"

// A turned is rows of W + scale * B A, of which the lengths are taken.
type turned struct {
	t     *gguf.Tensor // W, a matrix
	file  *File        // whose pages are released once they were read; nil: they stay
	a, b  []float32    // [rank][in], [out][rank]
	rank  int
	scale float32
}

// lengthRows is how many rows of a matrix a thread measures at a time.
const lengthRows = 32

// lengths puts the length of each row into to, one of each row of W. It does not depend on the threads.
func (x *turned) lengths(to []float32, threads int) error {
	some := min(max((len(to)+threads-1)/max(threads, 1), lengthRows), len(to))
	return x.lengthsOf(to, 0, len(to), some)
}

// lengthsOf is lengths of the rows from .. to, by a thread for each so many of them.
func (x *turned) lengthsOf(all []float32, from, to, some int) error {
	return panics.Each((to-from+some-1)/some, func(k int) error {
		at, end := from+k*some, min(from+(k+1)*some, to)
		width := kernel.RowBytes(typeOf(x.t), int(x.t.Dims[0]))
		each := max(droppedBytes/width, 1)
		for ; at < end; at += each {
			rows := min(each, end-at)
			if err := x.measure(all, at, at+rows); err != nil {
				return err
			}
			if x.file != nil {
				x.file.Drop(x.t, at*width, rows*width)
			}
		}
		return nil
	})
}

// turnWork is about how many multiply-adds of a thread a turn has: some milliseconds.
const turnWork = 1 << 23

// lengthsInTurns is lengths some rows at a time, between which others have their turns. It ends early with the context's error.
func (x *turned) lengthsInTurns(to []float32, o Options) error {
	turn := o.Turn
	if turn == nil {
		turn = func(do func(threads int) error) error { return do(runtime.GOMAXPROCS(0)) }
	}
	each := max(turnWork/(int(x.t.Dims[0])*(x.rank+1)), 1)
	for from := 0; from < len(to); {
		if o.Until != nil && o.Until.Err() != nil {
			return o.Until.Err()
		}
		err := turn(func(threads int) error {
			end := min(from+each*max(threads, 1), len(to))
			err := x.lengthsOf(to, from, end, each)
			from = end
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// droppedBytes is how much of a tensor is read before its pages are released.
const droppedBytes = 1 << 20

// measure puts the lengths of rows from .. end into to.
func (x *turned) measure(to []float32, from, end int) error {
	in, typ := int(x.t.Dims[0]), typeOf(x.t)
	width := kernel.RowBytes(typ, in)
	row := make([]float32, in)
	for i := from; i < end; i++ {
		if err := kernel.Dequantize(typ, row, x.t.Data[i*width:(i+1)*width]); err != nil {
			return unsupported(x.t, err)
		}
		x.turn(row, i)
		sum := 0.0
		for _, v := range row {
			sum += float64(v) * float64(v)
		}
		if to[i] = float32(math.Sqrt(sum)); !(to[i] <= math.MaxFloat32) {
			return fmt.Errorf("tensor %q: row %d has %w", x.t.Name, i, errLength)
		}
	}
	return nil
}

var errLength = errors.New("no finite length")

// turn adds row i of scale * B A to a row, in a fixed order. Conversions keep products and sums from becoming one operation.
func (x *turned) turn(row []float32, i int) {
	b, n := x.b[i*x.rank:(i+1)*x.rank], len(row)
	k := 0
	for ; k+4 <= len(b); k += 4 { // so many at a time: the row is read and written as seldom
		s0, s1, s2, s3 := x.scale*b[k], x.scale*b[k+1], x.scale*b[k+2], x.scale*b[k+3]
		a0, a1 := x.a[k*n:(k+1)*n], x.a[(k+1)*n:(k+2)*n]
		a2, a3 := x.a[(k+2)*n:(k+3)*n], x.a[(k+3)*n:(k+4)*n]
		for j, v := range row {
			row[j] = v + (float32(s0*a0[j]) + float32(s1*a1[j])) + (float32(s2*a2[j]) + float32(s3*a3[j]))
		}
	}
	for ; k < len(b); k++ {
		s, a := x.scale*b[k], x.a[k*n:(k+1)*n]
		for j := range row {
			row[j] += float32(s * a[j])
		}
	}
}

// gains puts the share of its own product that each row has more into share, and what its B is multiplied by into by: 1 more. A
// row of zeros has no direction, and stays as it is.
func gains(share, by, magnitude, length []float32) {
	for i, n := range length {
		g := float32(1)
		if n > 0 {
			g = magnitude[i] / n
		}
		share[i] = g - 1
		by[i] = 1 + share[i]
	}
}

// scaleRows puts the rows of b, [out][rank], times the gain of each into to.
func scaleRows(to, b, by []float32, rank int) {
	for i, g := range by {
		for k := i * rank; k < (i+1)*rank; k++ {
			to[k] = g * b[k]
		}
	}
}

// measurable returns an error if the rows of a matrix as it is multiplied are not those of its tensor.
func (m *matrix) measurable(w *weights) error {
	switch {
	case w.packed != nil:
		return fmt.Errorf("magnitudes of %q are not supported: a packed file has no rows to take lengths of", m.Name)
	case m.N != 1 || len(m.parts) != 1 || m.rows || m.remade != nil || m.scales != nil || m.columns != nil:
		return fmt.Errorf("magnitudes of %q are not supported: it is not multiplied as one matrix of the file's rows", m.Name)
	}
	return nil
}

// A gained is what rows of a tensor get by an adapter's magnitudes.
type gained struct {
	of        *gguf.Tensor // its B
	share, by []float32    // see gains
	room      *loan        // that these are in, until close
}

func (g *gained) close() {
	if g.room != nil {
		g.room.Close()
		g.room = nil
	}
}

// gained measures the rows that a pair makes of its tensor of the model, which is read.
func (m *Model) gained(p pair, scale float32, o Options) (gained, error) {
	x := turned{rank: p.rank, scale: scale}
	if m.Residency != Mapped {
		x.file = m.file
	}
	var ok bool
	if x.t, ok = m.weights.f.Tensor(p.tensor); !ok {
		x.t, _ = m.weights.f.Tensor(embeddingName) // see corrected
	}
	return x.gained(p, o)
}

// gained returns what the rows get by a pair. It is to be closed.
func (x *turned) gained(p pair, o Options) (g gained, err error) {
	n := int(p.m.Elems())
	room, err := o.borrow("lengths of rows", 4*(p.a.Elems()+p.b.Elems()+4*uint64(n)))
	if err != nil {
		return g, err
	}
	g.of, g.room = p.b, room
	defer func() {
		if err != nil {
			g.close()
		}
	}()
	rest := mem.Float32s(room.Bytes())
	take := func(n uint64) (part []float32) {
		part, rest = rest[:n:n], rest[n:]
		return part
	}
	x.a, x.b = take(p.a.Elems()), take(p.b.Elems())
	magnitude, length := take(uint64(n)), take(uint64(n))
	g.share, g.by = take(uint64(n)), take(uint64(n))
	for _, c := range []struct {
		to []float32
		t  *gguf.Tensor
	}{{x.a, p.a}, {x.b, p.b}, {magnitude, p.m}} {
		if err := floatsInto(c.to, c.t); err != nil {
			return g, err
		}
	}
	if err := x.lengthsInTurns(length, o); err != nil {
		return g, err
	}
	return g, g.fill(p, magnitude, length)
}

// fill computes what rows of these lengths get by the magnitudes of a pair.
func (g *gained) fill(p pair, magnitude, length []float32) error {
	gains(g.share, g.by, magnitude, length)
	if err := finite(g.share); err != nil {
		return fmt.Errorf("tensor %q: by the length of its row %w", p.m.Name, err)
	}
	return nil
}

// A turning is what a matrix of an adapter has beside A and B while its magnitudes are trained, outside the Go heap. Lengths
// count as constants in the gradient (section 4.3 of the paper), as in PEFT.
type turning struct {
	of        *lowRank
	w         *gguf.Tensor
	m, dm     []float32      // [out]: the magnitudes, and their gradient
	length    []float32      // [out], of the rows of W + scale B A
	share, by []float32      // [out] and whole panels, see gains
	b         []float32      // [out][rank]: the rows of B times by
	rows      []byte         // b
	first     map[string]int // row of each of the matrices that are multiplied
}

// turningBytes returns the memory of a turning, without the numbers and their gradients.
func turningBytes(out, rank int) int {
	return 2*kernel.AlignUp(4*kernel.Pad(out)) + kernel.AlignUp(4*out) + kernel.AlignUp(4*out*rank)
}

// newTurning takes its memory of what is free.
func newTurning(w *gguf.Tensor, l *lowRank, free *[]byte) *turning {
	take := func(n int) (b []byte) {
		b, *free = (*free)[:4*n:4*n], (*free)[kernel.AlignUp(4*n):]
		return b
	}
	x := &turning{of: l, w: w, first: map[string]int{}}
	pad := kernel.Pad(l.out)
	x.share, x.by, x.length = mem.Float32s(take(pad)), mem.Float32s(take(pad)), mem.Float32s(take(l.out))
	x.rows = take(l.out * l.rank)
	x.b = mem.Float32s(x.rows)
	return x
}

// turned is of the numbers as they are now.
func (x *turning) turned() *turned {
	l := x.of
	return &turned{t: x.w, a: l.a, b: l.b, rank: l.rank, scale: l.scale}
}

// begin makes the magnitudes the lengths of the model's own rows: B is 0, so the adapter changes nothing.
func (x *turning) begin() error {
	own := turned{t: x.w}
	return own.lengths(x.m, runtime.GOMAXPROCS(0))
}

// measure takes the lengths by the numbers as they are now. It returns ErrNotFinite if these have diverged.
func (x *turning) measure(threads int) error {
	err := x.turned().lengths(x.length, threads)
	if errors.Is(err, errLength) { // the model's own rows had one
		err = ErrNotFinite
	}
	return err
}

// apply computes what passes multiply with by the lengths, and the numbers as they are now.
func (x *turning) apply() {
	gains(x.share, x.by, x.m, x.length)
	scaleRows(x.b, x.of.b, x.by[:x.of.out], x.of.rank)
}

// finish makes gradients of what passes back have computed. Of B that is the gradient by rows without their gains, and of the
// magnitudes the sum of dy * W x, which lacks what B A adds to W.
func (x *turning) finish() {
	l := x.of
	for i, n := range x.length {
		sum := x.dm[i]
		for k := i * l.rank; k < (i+1)*l.rank; k++ {
			sum += float32(l.b[k] * l.db[k])
			l.db[k] *= x.by[i]
		}
		if x.dm[i] = 0; n > 0 {
			x.dm[i] = sum / n
		}
	}
}

// part returns the gains of the rows of a matrix that is multiplied, and the gradients of their magnitudes.
func (x *turning) part(p kernel.Part) (by, dm []float32) {
	at := x.first[p.Name]
	return x.by[at : at+kernel.Pad(p.Out)], x.dm[at : at+p.Out]
}
