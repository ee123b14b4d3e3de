package model

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/kernel"
)

// A rank that is busy is waited for as long as it says so, one that is silent is not, and one that cannot follow says why.
func TestAnswers(t *testing.T) {
	t.Parallel()
	ask := func(follow func(f *Follower)) error {
		group, err := kernel.ThreadRanks(2)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			follow(&Follower{Group: group[1]})
		}()
		l := &Lead{group: group[0], room: make([]byte, 4096), silence: 1500 * time.Millisecond, asked: math.MaxUint32}
		if err = l.send([]byte{msgJoin}); err == nil {
			err = l.ready(t.Context(), nil)
		}
		group[0].Close()
		<-ended
		group[1].Close()
		return err
	}
	if err := ask(func(f *Follower) {
		_ = f.answer(nil, f.busy(func() error {
			time.Sleep(2500 * time.Millisecond)
			return nil
		}))
	}); err != nil {
		t.Errorf("busy: %v", err)
	}
	if err := ask(func(f *Follower) { time.Sleep(3 * time.Second) }); !errors.Is(err, kernel.ErrSilent) {
		t.Errorf("silent: %v", err)
	}
	err := ask(func(f *Follower) { _ = Decline(f.Group, errors.New("no file")) })
	if err == nil || err.Error() != "rank 1: no file: "+ErrRank.Error() {
		t.Errorf("declined: %v", err)
	}
}

// Who follows can be told to end at the moment when rank 0 quits, and the group is closed then.
func TestEndsTwice(t *testing.T) {
	t.Parallel()
	for range 50 {
		group, err := kernel.ThreadRanks(2)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			err := (&Follower{Group: group[1]}).Run(ctx)
			group[1].Close()
			ended <- err
		}()
		Dismiss(group[0])
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		group[0].Close()
	}
}

// What comes late, when another question is asked, is dropped, whatever its length. A new Lead has less room than that had.
func TestLateAnswers(t *testing.T) {
	t.Parallel()
	for _, late := range []int{1, 1 << 20} {
		group, err := kernel.ThreadRanks(2)
		if err != nil {
			t.Fatal(err)
		}
		l := &Lead{group: group[0], room: make([]byte, 4096), silence: time.Second, asked: 7}
		f := &Follower{Group: group[1], asked: 8}
		if err := group[1].Send(0, append(binary.LittleEndian.AppendUint32([]byte{msgReady}, 5), make([]byte, late)...)); err != nil {
			t.Fatal(err)
		}
		if err := f.answer(1234, nil); err != nil {
			t.Fatal(err)
		}
		var got string
		err = l.ready(t.Context(), func(_ int, answer []byte) error {
			got = string(answer)
			return nil
		})
		if err != nil || got != "1234" {
			t.Errorf("behind a late answer of %d bytes: %q, %v", late, got, err)
		}
		// One that is too long, and behind which no other comes, is what is wrong.
		if err := group[1].Send(0, make([]byte, 5000)); err != nil {
			t.Fatal(err)
		}
		if err := l.ready(t.Context(), nil); !errors.Is(err, kernel.ErrLong) {
			t.Errorf("an answer that is too long: %v", err)
		}
		group[0].Close()
		group[1].Close()
	}
}
