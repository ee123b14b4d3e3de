package model

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/quern-llm/quern/go/kvcache"
)

// What rank 0 tells the others of units: their numbers are the same on all ranks, and each has its own part of what is in them.

// note adds to what is told before the next message.
func (l *Lead) note(group int, unit, from int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.noted) == 0 {
		l.noted = append(l.noted, msgUnits)
	}
	for _, n := range []int32{int32(group), unit, from} {
		l.noted = binary.LittleEndian.AppendUint32(l.noted, uint32(n))
	}
}

// Copied implements kvcache.Twin.
func (l *Lead) Copied(group int, to, from int32) { l.note(group, to, from) }

// Discarded implements kvcache.Twin.
func (l *Lead) Discarded(group int, unit int32) { l.note(group, unit, -1) }

// Moved has the other ranks move keys and values as Mover.Move does.
func (l *Lead) Moved(s *kvcache.Shift, end int) {
	if l == nil {
		return
	}
	lists := [][]int32{{int32(s.At), int32(end), int32(s.By)}}
	for i := range s.To {
		lists = append(lists, []int32{int32(len(s.To[i]))}, s.To[i], []int32{int32(len(s.From[i]))}, s.From[i])
	}
	_ = l.words(msgMove, lists...) // the next exchange fails as well
}

// Aged has the other ranks requantize blocks as Mover.Age does.
func (l *Lead) Aged(a *kvcache.Aging) {
	if l == nil {
		return
	}
	var all []int32
	for _, b := range a.Blocks {
		all = append(all, int32(b.From), b.Old, int32(b.To), b.New)
	}
	_ = l.words(msgAge, all) // the next exchange fails as well
}

// UnitBytes returns the bytes of a unit of a group on all ranks together.
func (l *Lead) UnitBytes(group int) (n int) {
	for _, of := range l.bytes {
		n += of[group]
	}
	return n
}

// UnitsOfRanks returns the bytes of a unit of each group, by rank.
func (l *Lead) UnitsOfRanks() [][]int { return l.bytes }

// ComputedHashes returns Model.ComputedHash of each rank but this one, whose is empty.
func (l *Lead) ComputedHashes() [][]byte { return l.made }

// Parts cuts memory for what all ranks have in a unit into the parts of each.
func (l *Lead) Parts(group int, whole []byte) (parts [][]byte) {
	for _, of := range l.bytes {
		parts = append(parts, whole[:of[group]:of[group]])
		whole = whole[of[group]:]
	}
	return parts
}

// Gather reads what the other ranks have in units. parts has memory for each rank's part of each unit; rank 0's is not
// written.
func (l *Lead) Gather(ctx context.Context, units []kvcache.Unit, parts [][][]byte) error {
	var list []int32
	most := 0
	for _, u := range units {
		list = append(list, int32(u.Group), u.Number)
		most += l.UnitBytes(u.Group)
	}
	if err := l.words(msgRead, list); err != nil {
		return err
	}
	if room := most + 5; len(l.room) < room {
		l.room = make([]byte, room)
	}
	return l.ready(ctx, func(r int, answer []byte) error {
		for i := range units {
			n := copy(parts[i][r], answer)
			if answer = answer[n:]; n < len(parts[i][r]) {
				return fmt.Errorf("a unit is cut short: %w", ErrRank)
			}
		}
		return nil
	})
}

// mostWritten is the most bytes of a unit in a message.
const mostWritten = 16 << 20

// Scatter has the other ranks write their parts of a unit.
func (l *Lead) Scatter(u kvcache.Unit, parts [][]byte) error {
	for r := 1; r < len(parts); r++ {
		for at := 0; at < len(parts[r]); at += mostWritten {
			msg := append(l.msg[:0], msgWrite)
			for _, n := range []int{u.Group, int(u.Number), at / mostWritten} {
				msg = binary.LittleEndian.AppendUint32(msg, uint32(n))
			}
			l.msg = append(msg, parts[r][at:min(at+mostWritten, len(parts[r]))]...)
			if err := l.sendTo(r, l.msg); err != nil {
				return err
			}
		}
	}
	return nil
}
