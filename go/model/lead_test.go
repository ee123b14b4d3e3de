package model

import (
	"context"
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
