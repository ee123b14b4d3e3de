package kernel

// #include "quern.h"
import "C"

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"unsafe"
)

// Buf is the number of a buffer: its index in the specs of a plan.
type Buf int32

// NoBuf is no buffer.
const NoBuf Buf = -1

const none = NoBuf

// BufKind is the kind of contents of a buffer.
type BufKind int32

const (
	Floats        BufKind = iota // rows of Width floats
	ActF32                       // float activations
	ActQ8x256                    // 8-bit activations, a scale for each 256
	ActQ8x32                     // 8-bit activations, a scale for each 32
	ActQ8x32Sum16                // the same, with sums of each 16
	ActBF16                      // activations rounded to BF16
	Route                        // the experts that each token is routed to
)

// Eight reports whether activations of the kind have 8 bits, or 16 where they are Fine.
func (k BufKind) Eight() bool { return k == ActQ8x256 || k == ActQ8x32 || k == ActQ8x32Sum16 }

// act is C's number of a kind of activations.
func (k BufKind) act(fine bool) int {
	if fine {
		return int(k - ActQ8x256 + C.QN_ACT_Q16_256)
	}
	return int(k - ActF32)
}

// RowSet is the set of rows that an operation works on, and so the number of rows of a buffer.
type RowSet int32

const (
	TokRows  RowSet = C.QN_ROWS_TOK  // every token of the batch
	OutRows  RowSet = C.QN_ROWS_OUT  // the tokens whose logits are requested
	PairRows RowSet = C.QN_ROWS_PAIR // (token, expert) pairs, grouped by expert
	HeadRows RowSet = C.QN_ROWS_HEAD // (head, token) pairs, grouped by head: of activations
)

// floats returns the rows of floats that an operation on rows r reads or writes: those of heads are columns
// of tokens.
func (r RowSet) floats() RowSet {
	if r == HeadRows {
		return TokRows
	}
	return r
}

// A BufSpec describes a buffer of the forward pass.
type BufSpec struct {
	Kind  BufKind
	Rows  RowSet
	Width int  // columns; a multiple of Panel in Floats
	Fine  bool // of activations of 8 bits: they have 8 more for what the first leave, and products with them twice the work
	Whole bool // it has rows of all tokens of the batch, also where plans run over a part of them: see Buffers.Look

	NExpert, NUsed int // of Route and of PairRows
	NHead          int // of HeadRows
}

// A Room is how many rows buffers have at most.
type Room struct {
	Tok   int // tokens that plans run over
	Out   int // rows of logits
	Whole int // tokens of a batch of which plans run over a part at a time; 0: Tok
}

// rows returns the maximum number of rows of the buffer.
func (s BufSpec) rows(r Room) int {
	switch s.Rows {
	case OutRows:
		return r.Out
	case PairRows:
		return r.Tok * s.NUsed
	case HeadRows:
		return r.Tok * s.NHead
	}
	if s.Whole {
		return max(r.Tok, r.Whole)
	}
	return r.Tok
}

// bytes returns the size of the buffer.
func (s BufSpec) bytes(r Room) int {
	n := s.rows(r)
	switch s.Kind {
	case ActF32, ActQ8x256, ActQ8x32, ActQ8x32Sum16, ActBF16:
		return int(C.qn_act_bytes(C.enum_qn_act(s.Kind.act(s.Fine)), C.int64_t(n), C.int64_t(s.Width)))
	case Route:
		return int(C.qn_route_bytes(C.int64_t(r.Tok), C.int32_t(s.NExpert), C.int32_t(s.NUsed)))
	}
	return n * s.Width * 4
}

func (s BufSpec) check(i int) error {
	const most = 1 << 28 // columns: times 4 bytes and any batch stays far from overflow
	switch {
	case s.Width < 1 || s.Width > most || s.Kind == Floats && s.Width%Panel != 0:
		return shapeErr("buffer %d of %d columns", i, s.Width)
	case (s.Rows == PairRows || s.Kind == Route) && (s.NUsed < 1 || s.NUsed > s.NExpert):
		return shapeErr("buffer %d for %d of %d experts", i, s.NUsed, s.NExpert)
	case s.Rows == HeadRows && (s.NHead < 1 || s.Kind == Floats || s.Kind == Route):
		return shapeErr("buffer %d of kind %d for %d heads", i, s.Kind, s.NHead)
	case s.Fine && !s.Kind.Eight():
		return shapeErr("buffer %d of kind %d with 8 bits more", i, s.Kind)
	case s.Whole && (s.Kind != Floats || s.Rows != TokRows):
		return shapeErr("buffer %d of kind %d for all tokens of a batch", i, s.Kind)
	}
	return nil
}

// BufBytes returns the memory of buffers of these specs.
func BufBytes(specs []BufSpec, r Room) int {
	total := 0
	for _, s := range specs {
		total += AlignUp(s.bytes(r))
	}
	return total
}

// Buffers are the working memory of plans.
type Buffers struct {
	c     *C.struct_qn_buf // [len(specs)], in C memory
	specs []BufSpec
	at    [][]byte // the memory of each
	room  Room
	from  int // the first token that plans run over
}

// NewBuffers places the buffers in mem, which is BufBytes long and outside the Go heap. The caller keeps
// ownership; it must outlive the Buffers.
func NewBuffers(specs []BufSpec, r Room, mem []byte) (*Buffers, error) {
	if r.Tok < 1 || r.Out < 1 || max(r.Tok, r.Whole) > math.MaxInt32 || r.Out > r.Tok {
		return nil, shapeErr("batches of %d tokens, %d at a time, and %d rows of logits", r.Whole, r.Tok, r.Out)
	}
	if len(specs) == 0 {
		return nil, shapeErr("no buffers")
	}
	for i, s := range specs {
		if err := s.check(i); err != nil {
			return nil, err
		}
	}
	if need := BufBytes(specs, r); len(mem) < need || !aligned(mem) {
		return nil, shapeErr("%d bytes for buffers, want %d at a multiple of %d", len(mem), need, Align)
	}
	b := &Buffers{specs: specs, at: make([][]byte, len(specs)), room: r}
	for i, s := range specs {
		n := AlignUp(s.bytes(r))
		b.at[i], mem = mem[:n:n], mem[n:]
	}
	b.bind()
	return b, nil
}

// bind makes C's table of the buffers.
func (b *Buffers) bind() {
	b.c = (*C.struct_qn_buf)(calloc(len(b.specs), C.sizeof_struct_qn_buf))
	c := unsafe.Slice(b.c, len(b.specs))
	for i, s := range b.specs {
		c[i] = C.struct_qn_buf{data: unsafe.Pointer(unsafe.SliceData(b.at[i])), width: C.int64_t(s.Width)}
	}
}

// With returns other Buffers, in the same memory but for those that lie elsewhere: outside the Go heap too, and of the size
// that BufBytes has for their specs. It panics where a buffer is Whole, or its memory is too small or not aligned.
func (b *Buffers) With(elsewhere map[Buf][]byte) *Buffers {
	other := &Buffers{specs: b.specs, at: slices.Clone(b.at), room: b.room, from: b.from}
	for buf, mem := range elsewhere {
		if s := b.specs[buf]; s.Whole || len(mem) < AlignUp(s.bytes(b.room)) || !aligned(mem) {
			panic(fmt.Sprintf("kernel: buffer %d cannot be in %d bytes elsewhere", buf, len(mem)))
		}
		other.at[buf] = mem
	}
	other.bind()
	return other
}

// Memory returns the memory of a buffer.
func (b *Buffers) Memory(buf Buf) []byte { return b.at[buf] }

// Look has plans run over a part of the batch, from token `from` on: see Batch.Look, which is called as well.
func (b *Buffers) Look(from int) {
	if from < 0 || from >= max(b.room.Tok, b.room.Whole) {
		panic(fmt.Sprintf("kernel: buffers of %d tokens from token %d on", max(b.room.Tok, b.room.Whole), from))
	}
	c := unsafe.Slice(b.c, len(b.specs))
	for i, s := range b.specs {
		if s.Whole {
			c[i].data = unsafe.Pointer(unsafe.SliceData(b.at[i][from*s.Width*4:]))
		}
	}
	b.from = from
}

// Row returns row i of a buffer of Floats: of all tokens of the batch, where it has them.
func (b *Buffers) Row(buf Buf, i int) []float32 {
	s := b.specs[buf]
	if s.Kind != Floats || i < 0 || i >= s.rows(b.room) {
		panic(fmt.Sprintf("kernel: row %d of buffer %d", i, buf))
	}
	start := (*float32)(unsafe.Pointer(&b.at[buf][i*s.Width*4]))
	return unsafe.Slice(start, s.Width)
}

// Close frees the table of buffers, not their memory. Closing again is a no-op.
func (b *Buffers) Close() {
	free(unsafe.Pointer(b.c))
	b.c = nil
}

// unboundBufs returns what C needs to check a plan: the widths, with an address that is never used. The
// caller frees it.
func unboundBufs(specs []BufSpec) *C.struct_qn_buf {
	p := (*C.struct_qn_buf)(calloc(len(specs), C.sizeof_struct_qn_buf))
	for i, s := range specs {
		unsafe.Slice(p, len(specs))[i] = C.struct_qn_buf{data: unbound(), width: C.int64_t(s.Width)}
	}
	return p
}

// Routed yields the experts that tokens are routed to, by the last contents of a buffer of kind Route.
func (b *Buffers) Routed(buf Buf) iter.Seq[int] {
	s := b.specs[buf]
	if s.Kind != Route {
		panic(fmt.Sprintf("kernel: routing of buffer %d", buf))
	}
	// See route_of in csrc/ops/route.c: the buffer begins with the offset of each expert's pairs, and the end of the
	// last.
	offsets := unsafe.Slice((*int32)(unsafe.Pointer(&b.at[buf][0])), s.NExpert+1)
	return func(yield func(int) bool) {
		for e := range s.NExpert {
			if offsets[e+1] > offsets[e] && !yield(e) {
				return
			}
		}
	}
}
