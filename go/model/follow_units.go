package model

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
)

// What a rank does with units of its own part of the state of sequences.

func (f *Follower) state(kind byte, body []byte) error {
	switch kind {
	case msgUnits:
		return f.note(words(body))
	case msgMove:
		return f.move(words(body))
	case msgAge:
		return f.age(words(body))
	case msgRead:
		return f.readUnits(words(body))
	}
	if len(body) < 12 {
		return fmt.Errorf("a unit of rank 0 is cut short: %w", ErrRank)
	}
	w, bytes := words(body[:12]), body[12:]
	u, err := f.unit(w[0], w[1])
	if err != nil {
		return err
	}
	at := int64(w[2]) * mostWritten
	if at < 0 || at+int64(len(bytes)) > int64(len(u)) {
		return fmt.Errorf("%d bytes behind %d of a unit of %d: %w", len(bytes), at, len(u), ErrRank)
	}
	copy(u[at:], bytes)
	return nil
}

// unit returns the memory of a unit.
func (f *Follower) unit(group, number int32) ([]byte, error) {
	if group < 0 || int(group) >= len(f.units) {
		return nil, fmt.Errorf("group %d of %d: %w", group, len(f.units), ErrRank)
	}
	all, size := f.units[group].Bytes(), f.survey.Layout[group].Bytes
	if number < 0 || int(number) >= len(all)/size {
		return nil, fmt.Errorf("unit %d of %d: %w", number, len(all)/size, ErrRank)
	}
	return all[int(number)*size:][:size:size], nil
}

// note copies units, and releases pages of others.
func (f *Follower) note(w []int32) error {
	for ; len(w) >= 3; w = w[3:] {
		to, err := f.unit(w[0], w[1])
		if err != nil {
			return err
		}
		if w[2] < 0 {
			if err := f.units[w[0]].Discard(int(w[1])*len(to), len(to)); err != nil {
				return err
			}
			continue
		}
		from, err := f.unit(w[0], w[2])
		if err != nil {
			return err
		}
		copy(to, from)
	}
	return nil
}

// move moves keys and values to other positions.
func (f *Follower) move(w []int32) error {
	next := func(n int32) []int32 {
		if n < 0 || int(n) > len(w) {
			panic(fmt.Errorf("it is cut short: %w", ErrRank))
		}
		list := w[:n:n]
		w = w[n:]
		return list
	}
	if f.mover == nil {
		return fmt.Errorf("keys and values are moved, which rank 0 had not said: %w", ErrRank)
	}
	head := next(3)
	s := &kvcache.Shift{At: int(head[0]), By: int(head[2])}
	for range f.units {
		s.To = append(s.To, next(next(1)[0]))
		s.From = append(s.From, next(next(1)[0]))
	}
	f.mover.move(f.Pool, f.unitsOf, s, int(head[1]))
	return nil
}

// age requantizes blocks.
func (f *Follower) age(w []int32) error {
	if f.mover == nil {
		return fmt.Errorf("keys and values age, which rank 0 had not said: %w", ErrRank)
	}
	var blocks []kvcache.AgedBlock
	for ; len(w) >= 4; w = w[4:] {
		if _, err := f.unit(w[0], w[1]); err != nil {
			return err
		}
		if _, err := f.unit(w[2], w[3]); err != nil {
			return err
		}
		blocks = append(blocks, kvcache.AgedBlock{From: int(w[0]), To: int(w[2]), Old: w[1], New: w[3]})
	}
	f.mover.age(f.Pool, f.unitsOf, blocks)
	return nil
}

// unitsOf returns the memory of a group.
func (f *Follower) unitsOf(group int) kernel.Units {
	return kernel.Units{Memory: f.units[group].Bytes(), Bytes: f.survey.Layout[group].Bytes}
}

// readUnits answers with what is in units.
func (f *Follower) readUnits(w []int32) error {
	var all [][]byte
	for ; len(w) >= 2; w = w[2:] {
		u, err := f.unit(w[0], w[1])
		if err != nil {
			return f.answer(nil, err)
		}
		all = append(all, u)
	}
	return f.Group.Send(0, append(f.head(msgReady), slices.Concat(all...)...))
}
