package model

import (
	"encoding/binary"
	"math"

	"github.com/quern-llm/quern/go/kernel"
)

// What rank 0 tells the others in a pass. Where it cannot, the exchange that follows fails as well.

// pass tells the batch, of whose rows the plans read so many columns, and where its parts end: see Runner.Divide.
func (l *Lead) pass(b *kernel.Batch, columns int, ends []int) error {
	msg := binary.LittleEndian.AppendUint32(append(l.msg[:0], msgPass), uint32(len(ends)))
	for _, end := range ends {
		msg = binary.LittleEndian.AppendUint32(msg, uint32(end))
	}
	l.msg = b.AppendTo(msg, columns)
	if err := l.makeRoom(); err != nil {
		return err
	}
	if l.flight != nil {
		l.flight.told++
	}
	return l.send(l.msg)
}

// output tells which output of which rows is computed.
func (l *Lead) output(number int, rows []int32) { _ = l.words(msgOutput, []int32{int32(number)}, rows) }

// keep tells the tokens that follow those of the pass.
func (l *Lead) keep(next []int32) { _ = l.words(msgKeep, next) }

// step tells a step of the layer that drafts: its number, the hidden states before the tokens, the rows whose successors it
// predicts, and the batch.
func (l *Lead) step(k int, hidden [][]float32, rows []int32, b *kernel.Batch, columns int) {
	msg := append(l.msg[:0], msgStep)
	word := func(n int) { msg = binary.LittleEndian.AppendUint32(msg, uint32(n)) }
	word(k)
	word(len(rows))
	for _, r := range rows {
		word(int(r))
	}
	word(len(hidden))
	for _, h := range hidden {
		word(len(h))
		for _, x := range h {
			word(int(math.Float32bits(x)))
		}
	}
	l.msg = b.AppendTo(msg, columns)
	_ = l.send(l.msg)
}
