package kernel

// #include "quern.h"
import "C"

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// A Group is one kind of state that every sequence has, in units of memory: the keys and values of some
// layers, in blocks of KVBlock positions, or the whole recurrent state of a sequence, in one unit.
type Group struct {
	Name        string // for messages
	Bytes       int    // of a unit
	Window      int    // positions that a token sees, its own included; 0: all
	PerSequence bool   // a unit is the whole state of a sequence; a pass reads one and writes another

	// For adjacent groups that share blocks by their age in positions: see kvcache.Group. A block is in one of
	// them. AgeStep 0: the group has all blocks.
	AgeFrom, AgeTo, AgeStep int
}

// Units is the memory of a group: units one after the other, or their parts in each of several places. It is outside the Go
// heap and belongs to the caller.
//
// A group that has nothing but keys and values may be divided among places by their heads, of which each layer has a
// multiple of Places: a place has the same number of each layer's, in their order, and no other bytes of a unit.
type Units struct {
	Memory []byte
	Bytes  int // of a unit, in all places
	Places int // 0 and 1: units are whole
	Stride int // bytes from the parts in one place to those in the next
}

func (u Units) places() int { return max(u.Places, 1) }

// n returns the number of units, all of which are in the memory.
func (u Units) n() int {
	p := u.places()
	if u.Bytes < 1 || u.Bytes%(p*Align) != 0 && p > 1 || p == 1 && len(u.Memory)%u.Bytes != 0 || !aligned(u.Memory) {
		panic(fmt.Sprintf("kernel: units of %d in %d bytes, in %d places", u.Bytes, len(u.Memory), p))
	}
	if p == 1 {
		return len(u.Memory) / u.Bytes
	}
	if u.Stride < 1 || u.Stride%Align != 0 || len(u.Memory) < u.Stride*(p-1) {
		panic(fmt.Sprintf("kernel: %d places every %d bytes of %d", p, u.Stride, len(u.Memory)))
	}
	return min(u.Stride, len(u.Memory)-u.Stride*(p-1)) / (u.Bytes / p)
}

func (u Units) c() C.struct_qn_group {
	return C.struct_qn_group{
		data: unsafe.Pointer(unsafe.SliceData(u.Memory)), unit_bytes: C.int64_t(u.Bytes / u.places()),
		places: C.int32_t(u.Places), place_stride: C.int64_t(u.Stride),
	}
}

// A Batch is the tokens of one forward pass, of any mix of sequences and positions. It is in C memory and is
// refilled for each pass: Reset, then AddSeq for each sequence, followed by Add for each of its tokens.
//
// A sequence may begin with a source: the text that an encoder reads. Source tokens come before all others in
// a batch, and plans run over either of them: see Source and Look.
type Batch struct {
	c *C.struct_qn_batch

	tok, pos, seq, out []int32          // in C memory, allocated at their maximum length
	source, second     []int32          // the same, [maxSeq]
	prompt             []int32          // the same: see Prompt
	in                 []unsafe.Pointer // the same, [maxTok]: rows of floats
	place, span        []int32          // the same, [maxTok][Axes] and [maxTok][2]
	brought            int              // columns of the narrowest of the rows; 0: there is none
	n                  int              // tokens
	sources            int              // of which are of sources
	from               int              // the first that plans run over
	maxSeq             int
	groups             []batchGroup

	adapter      []int32   // in C memory, [maxSeq][adapters]
	adapterScale []float32 // the same
	adapters     int       // that any sequence of the batch has
}

type batchGroup struct {
	Group
	c     *C.struct_qn_group
	table []int32 // in C memory, [maxSeq][cols]
	cols  int     // of a row of table
	held  int     // units in the row of the sequence added last
	state Units
	units int // in it
}

// NewBatch allocates a batch for maxTok tokens of maxSeq sequences, with tables of up to maxBlocks blocks per
// group, and for maxOut rows of logits.
func NewBatch(maxTok, maxSeq, maxBlocks, maxOut int, groups []Group) (*Batch, error) {
	const most = 1 << 24
	for _, n := range []int{maxTok, maxSeq, maxBlocks, maxOut} {
		if n < 1 || n > most {
			return nil, shapeErr("batches of %d tokens, %d sequences of %d KV blocks, %d rows of logits", maxTok, maxSeq, maxBlocks, maxOut)
		}
	}
	if maxSeq > math.MaxInt32/max(maxBlocks, 2) {
		return nil, shapeErr("batches of %d sequences of %d KV blocks", maxSeq, maxBlocks)
	}
	b := &Batch{
		c:   (*C.struct_qn_batch)(calloc(1, C.sizeof_struct_qn_batch)),
		tok: int32s(maxTok), pos: int32s(maxTok), seq: int32s(maxTok), out: int32s(maxOut), maxSeq: maxSeq,
	}
	b.source, b.second, b.prompt = int32s(maxSeq), int32s(maxSeq), int32s(maxSeq)
	b.in = unsafe.Slice((*unsafe.Pointer)(calloc(maxTok, C.sizeof_size_t)), maxTok)
	b.place, b.span = int32s(maxTok*Axes), int32s(maxTok*2)
	b.adapter = int32s(maxSeq * MaxAdapters)
	b.adapterScale = float32s(maxSeq * MaxAdapters)
	b.c.out, b.c.source, b.c.second, b.c.prompt = ptr(b.out), ptr(b.source), ptr(b.second), ptr(b.prompt)
	b.Look(0, 0)
	b.c.adapter, b.c.adapter_scale = ptr(b.adapter), (*C.float)(unsafe.SliceData(b.adapterScale))
	b.c.groups = (*C.struct_qn_group)(calloc(len(groups), C.sizeof_struct_qn_group))
	b.c.n_group = C.int32_t(len(groups))
	for i, c := range unsafe.Slice(b.c.groups, len(groups)) {
		g := batchGroup{Group: groups[i], c: &unsafe.Slice(b.c.groups, len(groups))[i], cols: maxBlocks}
		if g.PerSequence {
			g.cols = 2
		}
		g.table = int32s(maxSeq * g.cols)
		c.table, c.cols = ptr(g.table), C.int32_t(g.cols)
		*g.c = c
		b.groups = append(b.groups, g)
	}
	return b, nil
}

func ptr(v []int32) *C.int32_t { return (*C.int32_t)(unsafe.Pointer(unsafe.SliceData(v))) }

// SetState sets the memory of a group, in which units are whole.
func (b *Batch) SetState(group int, units []byte, unitBytes int) {
	b.SetUnits(group, Units{Memory: units, Bytes: unitBytes})
}

// SetUnits sets the memory of a group.
func (b *Batch) SetUnits(group int, u Units) {
	g := &b.groups[group]
	table, cols := g.c.table, g.c.cols
	g.state, g.units = u, u.n()
	*g.c = u.c()
	g.c.table, g.c.cols = table, cols
}

// Reset empties the batch.
func (b *Batch) Reset() {
	b.c.n_seq, b.c.n_out, b.c.n_adapter = 0, 0, 0
	b.adapters, b.n, b.sources, b.brought = 0, 0, 0, 0
	b.Look(0, 0)
}

// Look restricts plans to a range of the batch's tokens. Rows of logits are then counted from the first of
// these.
func (b *Batch) Look(from, to int) {
	if from < 0 || to < from || to > b.n {
		panic(fmt.Sprintf("kernel: tokens %d to %d of %d", from, to, b.n))
	}
	b.c.tok, b.c.pos, b.c.seq = ptr(b.tok[from:]), ptr(b.pos[from:]), ptr(b.seq[from:])
	b.c.in = (**C.float)(unsafe.Pointer(unsafe.SliceData(b.in[from:])))
	b.c.place, b.c.span = ptr(b.place[from*Axes:]), ptr(b.span[from*2:])
	b.from, b.c.n_tok, b.c.n_out = from, C.int32_t(to-from), 0
}

// Source declares the first n positions of the sequence added last as its source.
func (b *Batch) Source(n int) { b.source[b.c.n_seq-1] = int32(n) }

// Second declares that the sequence added last is a pair of texts, whose second begins at a position; 0: it is one text.
func (b *Batch) Second(pos int) { b.second[b.c.n_seq-1] = int32(pos) }

// Prompt declares that the sequence added last begins with a prompt of so many positions, whole blocks, each of which is in
// one batch: see Blocks. 0: there is none.
func (b *Batch) Prompt(n int) { b.prompt[b.c.n_seq-1] = int32(n) }

// Sources returns the number of source tokens, which are the first of the batch.
func (b *Batch) Sources() int { return b.sources }

// mustHaveSources panics unless all tokens that plans run over follow a source.
func (b *Batch) mustHaveSources() {
	for _, row := range b.seq[b.from:][:b.nTok()] {
		if b.source[row] < 1 {
			panic("kernel: a token that answers nothing")
		}
	}
}

// mustAnswerWithin panics unless the tokens that plans run over are behind their source, by less than n.
func (b *Batch) mustAnswerWithin(n int) {
	for i, row := range b.seq[b.from:][:b.nTok()] {
		if at := b.pos[b.from+i] - b.source[row]; at < 0 || int(at) >= n {
			panic(fmt.Sprintf("kernel: position %d behind a source, the plan has a table of %d", at, n))
		}
	}
}

// AddSeq begins a sequence with its units in each group: blocks in the order of position, -1 for blocks that
// no token of the batch attends to; or the state before the batch, -1 if there is none yet, and the one
// after. The tokens added next belong to it. It panics when the batch is full, or on units that the group
// does not have.
func (b *Batch) AddSeq(units ...[]int32) {
	row := int(b.c.n_seq)
	if row >= b.maxSeq || len(units) != len(b.groups) {
		panic(fmt.Sprintf("kernel: too many sequences for the batch, or %d groups of %d", len(units), len(b.groups)))
	}
	for i := range b.groups {
		g := &b.groups[i]
		list := units[i]
		if len(list) > g.cols || g.PerSequence && (len(list) != 2 || list[1] < 0 || list[0] == list[1]) {
			panic(fmt.Sprintf("kernel: group %q: too many KV blocks for the batch, or no state: %d units", g.Name, len(list)))
		}
		for _, id := range list {
			if id < -1 || int(id) >= g.units {
				panic(fmt.Sprintf("kernel: group %q: KV block %d of %d", g.Name, id, g.units))
			}
		}
		// The rest of the row is stale, from an earlier pass. It is not cleared, since rows are long if the
		// context is: Add refuses positions that would reach it.
		g.held = copy(g.table[row*g.cols:], list)
	}
	b.noAdapters(row)
	b.source[row], b.second[row], b.prompt[row] = 0, 0, 0
	b.c.n_seq++
}

// Add appends a token of the sequence added last. Positions must ascend by one. It panics when the batch is
// full, and on a position that attends to one without a block.
func (b *Batch) Add(tok, pos int32) {
	i, row := b.n, int32(b.c.n_seq)-1
	switch {
	case row < 0 || i >= len(b.tok) || tok < 0:
		panic("kernel: token without a sequence, or too many for the batch")
	case i > 0 && b.seq[i-1] == row && b.pos[i-1]+1 != pos:
		panic(fmt.Sprintf("kernel: position %d after %d", pos, b.pos[i-1]))
	}
	if first := i == 0 || b.seq[i-1] != row; first || pos%KVBlock == 0 {
		for k := range b.groups {
			b.mustHold(k, row, pos, first)
		}
	}
	if pos < b.source[row] {
		if b.sources++; b.sources <= i {
			panic("kernel: a token of a source after others")
		}
	}
	b.tok[i], b.pos[i], b.seq[i] = tok, pos, row
	b.in[i] = nil
	for axis := range Axes {
		b.place[i*Axes+axis] = pos
	}
	b.span[2*i], b.span[2*i+1] = pos, pos
	b.n++
	b.c.n_tok++
}

// Bring gives the token added last a row, which Input reads. It lies outside the Go heap, and stays as it is until the batch
// is reset.
func (b *Batch) Bring(row []float32) { b.BringTo(b.n-1, row) }

// BringTo is Bring for token i of the batch.
func (b *Batch) BringTo(i int, row []float32) {
	if len(row) == 0 {
		panic("kernel: a row without columns")
	}
	b.in[:b.n][i] = unsafe.Pointer(unsafe.SliceData(row))
	if b.brought == 0 || len(row) < b.brought {
		b.brought = len(row)
	}
}

// Place says where the token added last is on each axis, if not at its position on all.
func (b *Batch) Place(at [Axes]int32) { copy(b.place[(b.n-1)*Axes:], at[:]) }

// Span says that the last tokens of the sequence added last, n of them, are a span: see Sight.
func (b *Batch) Span(n int) {
	from := b.n - n
	if n < 1 || from < 0 || b.seq[from] != b.seq[b.n-1] {
		panic(fmt.Sprintf("kernel: a span of %d tokens", n))
	}
	for i := from; i < b.n; i++ {
		b.span[2*i], b.span[2*i+1] = b.pos[from], b.pos[b.n-1]
	}
}

// Sees says which positions the token added last sees where spans alone are seen: see Sight.
func (b *Batch) Sees(first, last int) {
	if row := b.seq[b.n-1]; first < 0 || last < first || int32(last) >= b.source[row] && int32(last) > b.pos[b.n-1] {
		panic(fmt.Sprintf("kernel: a token that sees positions %d to %d", first, last))
	}
	b.span[2*b.n-2], b.span[2*b.n-1] = int32(first), int32(last)
}

// mustHaveBlocks panics unless the blocks of queries that see some blocks of keys are in the batch whole, and masks have room
// for these.
func (b *Batch) mustHaveBlocks(o Blocks) {
	for i := b.from; i < b.from+b.nTok(); i++ {
		pos, end := b.pos[i], b.prompt[b.seq[i]]
		begin := pos - pos%KVBlock
		if pos >= end || int(begin) < o.From {
			continue
		}
		last := i + KVBlock - 1
		if pos != begin || last >= b.from+b.nTok() || b.seq[last] != b.seq[i] || begin+KVBlock > end || int(begin)/KVBlock >= 32*o.Words {
			panic(fmt.Sprintf("kernel: position %d of a prompt of %d is in no whole block of the batch, or behind %d words", pos, end, o.Words))
		}
		i = last
	}
}

// mustBring panics unless all rows that tokens bring have so many columns.
func (b *Batch) mustBring(columns int) {
	if b.brought > 0 && b.brought < columns {
		panic(fmt.Sprintf("kernel: rows of %d columns, the plan reads %d", b.brought, columns))
	}
}

// mustHaveRows panics unless each token whose output is requested begins n tokens of its sequence.
func (b *Batch) mustHaveRows(n int) {
	for _, i := range b.out[:b.nOut()] {
		if last := int(i) + n - 1; last >= b.nTok() || b.seq[b.from+last] != b.seq[b.from+int(i)] {
			panic(fmt.Sprintf("kernel: %d rows from token %d of %d on", n, i, b.nTok()))
		}
	}
}

// mustHold panics unless the sequence in row has a block of group k for pos and, for the first position of
// the batch, all blocks that it attends to, in the group or in the groups of older blocks that follow it.
func (b *Batch) mustHold(k int, row, pos int32, first bool) {
	g := &b.groups[k]
	if g.PerSequence || g.AgeFrom > 0 {
		return
	}
	from, to := int(pos)/KVBlock, int(pos)/KVBlock
	if first {
		from = 0
		if g.Window > 0 {
			from = max(int(pos)-g.Window+1, 0) / KVBlock
		}
	}
	if pos < 0 || to >= g.held {
		panic(fmt.Sprintf("kernel: group %q: position %d has no KV block", g.Name, pos))
	}
	for i, id := range g.table[int(row)*g.cols:][from : to+1] {
		if id < 0 && !b.hasAged(k, row, from+i) {
			panic(fmt.Sprintf("kernel: group %q: position %d has no KV block, and %d sees it", g.Name, (from+i)*KVBlock, pos))
		}
	}
}

// hasAged reports whether the groups of older blocks that follow group k have a block.
func (b *Batch) hasAged(k int, row int32, block int) bool {
	for k++; k < len(b.groups) && b.groups[k].AgeFrom > 0; k++ {
		if g := &b.groups[k]; block < g.held && g.table[int(row)*g.cols+block] >= 0 {
			return true
		}
	}
	return false
}

// SetOut selects the tokens whose logits are computed, in ascending order. It panics on indices out of order
// or range, and on too many.
func (b *Batch) SetOut(rows []int32) {
	if len(rows) > len(b.out) {
		panic(fmt.Sprintf("kernel: %d rows of logits, room for %d", len(rows), len(b.out)))
	}
	last := int32(-1)
	for i, r := range rows {
		if r <= last || r >= int32(b.c.n_tok) {
			panic(fmt.Sprintf("kernel: logits of token %d after %d, of %d", r, last, b.c.n_tok))
		}
		b.out[i], last = r, r
	}
	b.c.n_out = C.int32_t(len(rows))
}

// Tokens returns the ids of the tokens in the batch. They are in the batch's memory, valid until it is reset.
func (b *Batch) Tokens() []int32 { return b.tok[:b.n] }

// Follow replaces the tokens that plans run over, at the same positions.
func (b *Batch) Follow(ids []int32) {
	if len(ids) != b.nTok() || slices.ContainsFunc(ids, func(id int32) bool { return id < 0 }) {
		panic(fmt.Sprintf("kernel: %d tokens in the place of %d, or none", len(ids), b.nTok()))
	}
	copy(b.tok[b.from:], ids)
}

// MaxTokens returns the capacity of the batch in tokens.
func (b *Batch) MaxTokens() int { return len(b.tok) }

// MaxOut returns the capacity of the batch in rows of logits.
func (b *Batch) MaxOut() int { return len(b.out) }

// Close frees the batch, not the units. Closing again is a no-op.
func (b *Batch) Close() {
	if b.c == nil {
		return
	}
	for _, v := range [][]int32{b.tok, b.pos, b.seq, b.out, b.source, b.second, b.prompt, b.adapter, b.place, b.span} {
		free(unsafe.Pointer(unsafe.SliceData(v)))
	}
	free(unsafe.Pointer(unsafe.SliceData(b.in)))
	free(unsafe.Pointer(unsafe.SliceData(b.adapterScale)))
	for _, g := range b.groups {
		free(unsafe.Pointer(unsafe.SliceData(g.table)))
	}
	free(unsafe.Pointer(b.c.groups))
	free(unsafe.Pointer(b.c))
	*b = Batch{}
}

func (b *Batch) nTok() int { return int(b.c.n_tok) }
func (b *Batch) nOut() int { return int(b.c.n_out) }

// mustServe panics unless the batch's groups match an operation's use of them.
func (b *Batch) mustServe(u groupUse) {
	if u.group < 0 || u.group >= len(b.groups) {
		panic(fmt.Sprintf("kernel: group %d of %d", u.group, len(b.groups)))
	}
	g := &b.groups[u.group]
	switch {
	case u.bytes > g.state.Bytes:
		panic(fmt.Sprintf("kernel: group %q: units of %d bytes, the plan reaches %d into them", g.Name, g.state.Bytes, u.bytes))
	case g.state.places() > 1 && (u.heads == 0 || u.heads%g.state.places() != 0):
		panic(fmt.Sprintf("kernel: group %q: units in %d places, the plan has %d heads there, or something else", g.Name, g.state.places(), u.heads))
	case u.perSequence != g.PerSequence:
		panic(fmt.Sprintf("kernel: group %q: state of a sequence: %v, the plan has %v", g.Name, g.PerSequence, u.perSequence))
	case g.Window > 0 && (u.window == 0 || u.window > g.Window):
		panic(fmt.Sprintf("kernel: group %q: a window of %d positions, the plan looks at %d", g.Name, g.Window, u.window))
	}
}
