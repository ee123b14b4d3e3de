package model

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/kernel"
)

// Rank 0 tells passes ahead of ranks that have layers, but not more than they have room for, and knows what they say of
// themselves. While passes are in flight nobody is pinged.
func TestPassesInFlight(t *testing.T) {
	t.Parallel()
	group, err := kernel.ThreadRanks(3)
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range group {
		defer g.Close()
	}
	b, err := kernel.NewBatch(4, 1, 1, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.AddSeq()
	b.Add(1, 0)
	l := &Lead{group: group[0], room: make([]byte, 4096), silence: time.Second, flight: &flight{done: make([]int, 3)}}
	did := func(r int, computed time.Duration) {
		msg := binary.LittleEndian.AppendUint64([]byte{msgDone}, uint64(computed))
		if err := group[r].Send(0, binary.LittleEndian.AppendUint64(msg, 7)); err != nil {
			t.Error(err)
		}
	}
	for range l.flight.most() {
		if err := l.pass(b, 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Ping(0, time.Second); err != nil || l.flight.done[1] != 0 {
		t.Errorf("a ping of ranks that compute: %v", err)
	}
	told := make(chan error, 1)
	go func() { told <- l.pass(b, 0, nil) }()
	did(1, time.Second)
	select {
	case err := <-told:
		t.Fatalf("rank 2 has done nothing, and was told one more pass: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	did(2, 3*time.Second)
	if err := <-told; err != nil {
		t.Fatal(err)
	}
	if got := group[0].Load(2); got.Computed != 3*time.Second || got.Waited != 7 {
		t.Errorf("rank 2 has done %+v", got)
	}
	ended := make(chan struct{})
	go func() {
		l.land()
		close(ended)
	}()
	for i := range l.flight.most() {
		if did(1, 4*time.Second); i == 0 {
			select {
			case <-ended:
				t.Error("rank 0 ends while passes are in flight")
			case <-time.After(20 * time.Millisecond):
			}
		}
		did(2, 4*time.Second)
	}
	<-ended
	if flying, err := l.flying(); flying || err != nil {
		t.Errorf("all is done, and is in flight: %v", err)
	}
	did(1, 5*time.Second)
	if err := l.landed(1, time.Second); !errors.Is(err, ErrRank) {
		t.Errorf("more passes are done than told: %v", err)
	}
}
