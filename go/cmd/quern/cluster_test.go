package main

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/ranks"
)

// A rankUnderTest is a rank of two whose transport is this process's memory, and rank 0 of its lines.
type rankUnderTest struct {
	lead        union
	ranks       *engine.Ranks           // of the lead
	first, now  context.CancelCauseFunc // its signals
	opening     chan struct{}           // it begins to load
	opened      chan struct{}           // it may go on
	ended, load chan error              // how it ends, and how rank 0's loading does
}

// startRank starts a rank, and has it load a model, which takes until opened is closed.
func startRank(t *testing.T) *rankUnderTest {
	t.Helper()
	groups, err := kernel.ThreadRanks(2)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	at := l.Addr().String()
	l.Close()
	c := ranks.Config{Open: func([]string) ([]byte, error) { return []byte("memory"), nil }}
	waiting := make(chan union, 1)
	go func() {
		lines, err := ranks.Wait(t.Context(), c, at)
		if err != nil {
			t.Error(err)
		}
		waiting <- union{lines, groups[1]}
	}()
	r := &rankUnderTest{opening: make(chan struct{}), opened: make(chan struct{}), ended: make(chan error, 1), load: make(chan error, 1)}
	lines, err := ranks.Dial(t.Context(), c, []string{at})
	if err != nil {
		t.Fatal(err)
	}
	r.lead = union{lines, groups[0]}
	r.ranks = &engine.Ranks{Ranks: model.Ranks{Group: groups[0]}, Version: rankVersion()}
	follower := <-waiting
	first, end := context.WithCancelCause(t.Context())
	now, stop := context.WithCancelCause(t.Context())
	r.first, r.now = end, stop
	read := newFiles().Opener("demo", launch.Draft{})
	open := func(head bool) (*model.File, error) {
		close(r.opening)
		<-r.opened
		return read(head)
	}
	go func() {
		r.ended <- follower.follow(first, now, open, launch.DeviceSettings{Threads: 1}, zerolog.New(io.Discard))
	}()
	go func() {
		f, err := read(false)
		if err != nil {
			r.load <- err
			return
		}
		d, err := engine.NewDevice(engine.DeviceConfig{Threads: 1})
		if err != nil {
			r.load <- err
			return
		}
		defer d.Close()
		e, err := engine.New(f, engine.Config{Device: d, Ctx: 64, Ranks: r.ranks})
		if err == nil {
			e.Close()
		}
		r.load <- err
	}()
	<-r.opening
	return r
}

// Where rank 0 ends in order while models are loaded, it leaves the group to who loads, and the others end in order too.
func TestRankEndsWhileItLoads(t *testing.T) {
	t.Parallel()
	r := startRank(t)
	if r.ranks.Dismiss() {
		t.Error("ranks that load are dismissed")
	}
	leaving := make(chan int, 1)
	r.lead.lines.Watch(func(err error) { t.Errorf("lost: %v", err) }, func(rank int) { leaving <- rank }, nil)
	r.first(nil) // a signal
	if rank := <-leaving; rank != 1 {
		t.Errorf("rank %d is asked to end, want 1", rank)
	}
	r.lead.lines.Close()
	close(r.opened)
	if err := <-r.ended; err != nil {
		t.Errorf("it ends with %v, want no error", err)
	}
	<-r.load // has the group until here
}

// A rank that loads stops when rank 0 is lost, and when it gets a second signal, and says which.
func TestRankIsLostWhileItLoads(t *testing.T) {
	t.Parallel()
	for _, lost := range []bool{true, false} {
		r := startRank(t)
		want := errSecond
		if lost {
			r.lead.lines.Fail(errors.New("rank 0 has no memory"))
			want = kernel.ErrRanks
		} else {
			r.now(errSecond)
		}
		time.Sleep(1500 * time.Millisecond) // until the line is taken for lost
		close(r.opened)
		if err := <-r.ended; !errors.Is(err, want) {
			t.Errorf("it ends with %v, want %v", err, want)
		}
		<-r.load
	}
}
