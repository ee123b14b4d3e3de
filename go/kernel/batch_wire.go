//go:build cgo

package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// AppendTo appends what the batch holds to a message, for the batch of another rank: see Take. It returns an error if
// the batch holds something that is not part of messages, which the other rank would compute without.
func (b *Batch) AppendTo(msg []byte) ([]byte, error) {
	if err := b.isTokens(); err != nil {
		return nil, err
	}
	word := func(n int32) { msg = binary.LittleEndian.AppendUint32(msg, uint32(n)) }
	nSeq := int(b.c.n_seq)
	word(int32(nSeq))
	at := 0
	for row := range nSeq {
		n := 0
		for at+n < b.n && int(b.seq[at+n]) == row {
			n++
		}
		word(b.source[row])
		word(b.second[row])
		word(int32(n))
		blocks := 0
		if n > 0 {
			word(b.pos[at])
			for _, id := range b.tok[at : at+n] {
				word(id)
			}
			blocks = int(b.pos[at+n-1])/KVBlock + 1
		}
		for i := range b.groups {
			g, held := &b.groups[i], blocks
			if g.PerSequence {
				held = 2
			}
			word(int32(held))
			for _, id := range g.table[row*g.cols:][:held] {
				word(id)
			}
		}
		at += n
	}
	return msg, nil
}

// isTokens returns an error unless tokens at their positions are all that the batch has: no rows that they bring, no
// places and spans of pictures, no adapters.
func (b *Batch) isTokens() error {
	if b.brought > 0 || b.adapters > 0 {
		return fmt.Errorf("a batch with rows or adapters is %w", errNoMessage)
	}
	for i, pos := range b.pos[:b.n] {
		if slices.ContainsFunc(b.place[i*Axes:][:Axes], func(p int32) bool { return p != pos }) ||
			b.span[2*i] != pos || b.span[2*i+1] != pos {
			return fmt.Errorf("a batch with a token that is somewhere else than at its position is %w", errNoMessage)
		}
	}
	return nil
}

// errNoMessage reports a batch that AppendTo does not append.
var errNoMessage = errors.New("not for a model that is divided among ranks")

// Take fills the batch with what AppendTo wrote for a batch with the same groups. It returns an error for what no batch
// has, or not one of this capacity.
func (b *Batch) Take(msg []byte) (err error) {
	defer func() {
		if p := recover(); p != nil { // what AddSeq and Add refuse
			err = fmt.Errorf("a batch of another rank: %v", p)
		}
	}()
	short := errors.New("a batch of another rank is cut short")
	words := make([]int32, len(msg)/4)
	for i := range words {
		words[i] = int32(binary.LittleEndian.Uint32(msg[4*i:]))
	}
	take := func(n int) []int32 {
		if n < 0 || n > len(words) {
			panic(short)
		}
		some := words[:n:n]
		words = words[n:]
		return some
	}
	b.Reset()
	units := make([][]int32, len(b.groups))
	for range take(1)[0] {
		head := take(3)
		var ids []int32
		pos := int32(0)
		if n := int(head[2]); n > 0 {
			pos = take(1)[0]
			ids = take(n)
		}
		for i := range units {
			units[i] = take(int(take(1)[0]))
		}
		b.AddSeq(units...)
		b.Source(int(head[0]))
		b.Second(int(head[1]))
		for _, id := range ids {
			b.Add(id, pos)
			pos++
		}
	}
	if len(words) > 0 || len(msg)%4 != 0 {
		panic(short)
	}
	return nil
}
