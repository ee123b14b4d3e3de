package model

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/quern-llm/quern/go/kernel"
)

// patienceOfLayers is how long ranks that have layers each wait for others at least: a whole pass of others is between what they
// receive.
const patienceOfLayers = 2 * time.Minute

// A flight is the passes that rank 0 has told the others and that they have not done yet. Ranks that have layers each compute
// one pass behind the other: rank 0 goes on to the next when it has handed on what its own layers made, unless it wants
// outputs. So the slices of a prompt are in flight on all ranks at once, and nobody above a Lead knows.
type flight struct {
	told int
	done []int // by each rank
}

// most is how many passes are in flight at a time: one on each rank, and one that waits for the next, so that small
// differences delay nobody. What is handed on lies in the memory of the receiver meanwhile.
func (f *flight) most() int { return len(f.done) + 1 }

// heard records that a rank has done a pass.
func (f *flight) heard(g *kernel.Ranks, r int, body []byte) error {
	if f == nil || len(body) != 16 || f.done[r] >= f.told {
		return fmt.Errorf("it says that it did a pass: %w", ErrRank)
	}
	f.done[r]++
	g.Heard(r, kernel.RankLoad{
		Computed: time.Duration(binary.LittleEndian.Uint64(body)), Waited: time.Duration(binary.LittleEndian.Uint64(body[8:])),
	})
	return nil
}

// makeRoom waits until one more pass may be in flight.
func (l *Lead) makeRoom() error {
	f := l.flight
	for r := 1; f != nil && r < l.group.Count(); r++ {
		for f.told-f.done[r] >= f.most() {
			if err := l.landed(r, patienceOfLayers); err != nil {
				return fmt.Errorf("rank %d: %w", r, err)
			}
		}
	}
	return nil
}

// landed waits until a rank says something, such as that it has done a pass.
func (l *Lead) landed(r int, patience time.Duration) error {
	answer, err := l.group.Recv(r, l.room, patience)
	switch {
	case errors.Is(err, kernel.ErrLong):
		return nil // as in Lead.answer
	case err != nil:
		return err
	case len(answer) > 0 && answer[0] == msgDone:
		return l.flight.heard(l.group, r, answer[1:])
	case len(answer) > 0 && (answer[0] == msgReady || answer[0] == msgBusy):
		return nil // to a question that nobody waits for any more
	}
	return fmt.Errorf("%s: %w", answer[min(5, len(answer)):], ErrRank)
}

// flying reports whether passes are in flight. Ranks that have done none for long are lost.
func (l *Lead) flying() (bool, error) {
	f := l.flight
	for r := 1; f != nil && r < l.group.Count(); r++ {
		for f.done[r] < f.told {
			err := l.landed(r, time.Microsecond)
			switch {
			case errors.Is(err, kernel.ErrSilent) && time.Since(l.told) < patienceOfLayers:
				return true, nil
			case err != nil:
				return true, fmt.Errorf("rank %d: %w", r, err)
			}
		}
	}
	return false, nil
}

// land waits until no pass is in flight, or a rank is lost: who says later that a pass is done finds nobody to hear it.
func (l *Lead) land() {
	f := l.flight
	for r := 1; f != nil && r < l.group.Count(); r++ {
		for f.done[r] < f.told {
			if l.landed(r, patienceOfLayers) != nil {
				return
			}
		}
	}
}

// did tells rank 0 that a pass is done.
func (f *Follower) did() error {
	load := f.Group.Load(f.Group.Rank())
	msg := binary.LittleEndian.AppendUint64([]byte{msgDone}, uint64(load.Computed))
	return f.Group.Send(0, binary.LittleEndian.AppendUint64(msg, uint64(load.Waited)))
}
