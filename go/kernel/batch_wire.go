//go:build cgo

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// What a sequence of a message has beside tokens at their positions.
const (
	wireAdapters = 1 << iota // numbers and scales
	wirePlaces               // of each token
	wireSpans                // of each token
	wireRows                 // of some tokens
)

// AppendTo appends what the batch holds to a message, for the batch of another rank: see Take. Of rows that tokens bring
// it has so many columns.
func (b *Batch) AppendTo(msg []byte, columns int) []byte {
	word := func(n int32) { msg = binary.LittleEndian.AppendUint32(msg, uint32(n)) }
	list := func(all []int32) {
		for _, n := range all {
			word(n)
		}
	}
	nSeq := int(b.c.n_seq)
	word(int32(nSeq))
	at := 0
	for row := range nSeq {
		n := 0
		for at+n < b.n && int(b.seq[at+n]) == row {
			n++
		}
		adapters := b.adaptersOf(row)
		has := b.has(at, n, columns)
		if adapters > 0 {
			has |= wireAdapters
		}
		list([]int32{b.source[row], b.second[row], has, int32(n)})
		blocks := 0
		if n > 0 {
			word(b.pos[at])
			list(b.tok[at : at+n])
			blocks = int(b.pos[at+n-1])/KVBlock + 1
		}
		for i := range b.groups {
			g, held := &b.groups[i], blocks
			if g.PerSequence {
				held = 2
			}
			word(int32(held))
			list(g.table[row*g.cols:][:held])
		}
		if has&wireAdapters != 0 {
			word(int32(adapters))
			for k := range adapters {
				word(b.adapter[row*b.adapters+k])
				word(int32(math.Float32bits(b.adapterScale[row*b.adapters+k])))
			}
		}
		if has&wirePlaces != 0 {
			list(b.place[at*Axes : (at+n)*Axes])
		}
		if has&wireSpans != 0 {
			list(b.span[2*at : 2*(at+n)])
		}
		if has&wireRows != 0 {
			word(int32(columns))
			for _, in := range b.in[at : at+n] {
				if in == nil {
					word(0)
					continue
				}
				word(1)
				msg = append(msg, unsafe.Slice((*byte)(in), 4*columns)...)
			}
		}
		at += n
	}
	return msg
}

// adaptersOf returns how many adapters a sequence has.
func (b *Batch) adaptersOf(row int) (n int) {
	for n < b.adapters && b.adapter[row*b.adapters+n] >= 0 {
		n++
	}
	return n
}

// has returns what n tokens from `at` on have beside their positions.
func (b *Batch) has(at, n, columns int) (has int32) {
	for i := at; i < at+n; i++ {
		pos := b.pos[i]
		if slices.ContainsFunc(b.place[i*Axes:][:Axes], func(p int32) bool { return p != pos }) {
			has |= wirePlaces
		}
		if b.span[2*i] != pos || b.span[2*i+1] != pos {
			has |= wireSpans
		}
		if b.in[i] != nil && columns > 0 {
			has |= wireRows
		}
	}
	return has
}

// Take fills the batch with what AppendTo wrote for a batch with the same groups. Rows that tokens bring are copied to
// `rows`, which has so many columns for each token of a batch, outside the Go heap; nil: there are none. It returns an error
// for what no batch has, or not one of this capacity.
func (b *Batch) Take(msg []byte, rows []float32, columns int) (err error) {
	defer func() {
		if p := recover(); p != nil { // what AddSeq and others refuse
			err = fmt.Errorf("a batch of another rank: %v", p)
		}
	}()
	w := wire{msg}
	b.Reset()
	units := make([][]int32, len(b.groups))
	for range w.word() {
		source, second, has, n := w.word(), w.word(), w.word(), int(w.word())
		var ids []int32
		pos := int32(0)
		if n > 0 {
			pos = w.word()
			ids = w.words(n)
		}
		for i := range units {
			units[i] = w.words(int(w.word()))
		}
		b.AddSeq(units...)
		b.Source(int(source))
		b.Second(int(second))
		if has&wireAdapters != 0 {
			b.takeAdapters(&w)
		}
		from := b.n
		for i, id := range ids {
			b.Add(id, pos+int32(i))
		}
		if has&wirePlaces != 0 {
			copy(b.place[from*Axes:], w.words(len(ids)*Axes))
		}
		if has&wireSpans != 0 {
			b.takeSpans(from, w.words(2*len(ids)))
		}
		if has&wireRows != 0 {
			if int(w.word()) != columns {
				panic(errors.New("rows of other columns"))
			}
			for i := from; i < b.n; i++ {
				if w.word() != 0 {
					row := rows[i*columns:][:columns]
					copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(row))), 4*columns), w.bytes(4*columns))
					b.BringTo(i, row)
				}
			}
		}
	}
	if len(w.msg) > 0 {
		panic(errShort)
	}
	return nil
}

func (b *Batch) takeAdapters(w *wire) {
	n := int(w.word())
	if n < 1 || n > MaxAdapters {
		panic(errors.New("too many adapters"))
	}
	var numbers []int32
	var scales []float32
	for range n {
		numbers, scales = append(numbers, w.word()), append(scales, math.Float32frombits(uint32(w.word())))
	}
	b.Adapt(numbers, scales)
}

// takeSpans sets what the tokens from `from` on see: positions of the batch's or of their source.
func (b *Batch) takeSpans(from int, spans []int32) {
	last := max(b.source[b.c.n_seq-1]-1, b.pos[b.n-1])
	for i := 0; i < len(spans); i += 2 {
		if spans[i] < 0 || spans[i+1] < spans[i] || spans[i+1] > last {
			panic(fmt.Errorf("a token that sees positions %d to %d", spans[i], spans[i+1]))
		}
	}
	copy(b.span[2*from:], spans)
}

var errShort = errors.New("it is cut short, or too long")

// A wire is the rest of a message. It panics where that ends too early.
type wire struct{ msg []byte }

func (w *wire) bytes(n int) []byte {
	if n < 0 || n > len(w.msg) {
		panic(errShort)
	}
	some := w.msg[:n:n]
	w.msg = w.msg[n:]
	return some
}

func (w *wire) word() int32 { return int32(binary.LittleEndian.Uint32(w.bytes(4))) }

func (w *wire) words(n int) []int32 {
	if n < 0 || n > len(w.msg)/4 {
		panic(errShort)
	}
	list := make([]int32, n)
	for i := range list {
		list[i] = w.word()
	}
	return list
}
