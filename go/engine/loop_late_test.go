package engine

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/generate"
)

// A slow constraint takes time for some masks: until it is let go, or nobody waits for it.
type slow struct {
	constrain.Constraint
	mask  int // how many it was asked for
	wait  func(mask int, gone func() bool)
	gone  func() bool
	ended error
}

func (s *slow) Mask(next constrain.Set) {
	s.mask++
	if s.wait(s.mask, s.gone); s.gone != nil && s.gone() {
		s.ended = constrain.ErrStopped
		return
	}
	s.Constraint.Mask(next)
}

func (s *slow) StopWhen(gone func() bool) { s.gone = gone }
func (s *slow) Err() error                { return s.ended }

func (s *slow) Forecast(dst []int32) []int32 {
	return s.Constraint.(constrain.Forecaster).Forecast(dst)
}

// requestsBytes returns the memory that is counted for running requests.
func requestsBytes(l *Loop) uint64 { return l.e.device.budget.ByPurpose()[requestsPurpose] }

// Masks are computed also where as many as there are CPUs are slow.
func TestManySlowMasks(t *testing.T) {
	slow := runtime.GOMAXPROCS(0)
	m := &masking{of: make([]masks, slow+5)}
	open := make(chan struct{})
	for i := range m.of {
		m.of[i].f = func() {
			if i < slow {
				<-open
			}
		}
	}
	m.begin()
	m.await()
	for i := slow; i < len(m.of); i++ {
		m.of[i].wait()
	}
	if m.of[0].ready() {
		t.Error("a slow mask is there")
	}
	close(open)
	<-m.there
	for i := range m.of {
		if !m.of[i].ready() {
			t.Errorf("mask %d is not there", i)
		}
	}
}

// Others do not wait for the masks of a request, and it ends when it is cancelled or its time is over.
func TestSlowMasks(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 4, Batch: 32}, LoopConfig{})
	probe := open(t, tiny, Config{})
	prompt := randomIDs(l.e, 4, 40)
	list := randomIDs(l.e, 50, 12)
	want := greedy(t, probe, prompt, 30)
	for _, tt := range []struct {
		name   string
		at     int // the slow mask
		change func(r *Request)
		cancel bool
		err    error
	}{
		{"is let go", 3, func(*Request) {}, false, nil},
		{"the first", 1, func(*Request) {}, false, nil},
		{"its time is over", 2, func(r *Request) { r.Deadline = time.Now().Add(300 * time.Millisecond) }, false, ErrDeadline},
		{"is cancelled", 2, func(*Request) {}, true, context.Canceled},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var open, waits atomic.Bool
			r := greedyRequest(prompt, 30)
			r.Constraint = &slow{Constraint: oneOf(t, l.e, list), wait: func(mask int, gone func() bool) {
				for mask == tt.at && !open.Load() && !gone() {
					waits.Store(true)
					time.Sleep(time.Millisecond)
				}
			}}
			tt.change(r)
			k, a := submit(t, l, r)
			for end := time.Now().Add(time.Minute); !waits.Load(); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatal("no mask is slow")
				}
			}
			row := 4 * uint64(l.e.model.Config.NVocab)
			for end := time.Now().Add(time.Minute); requestsBytes(l) < l.heldBytes+row; time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("requests have %d bytes, want the kept logits beside %d", requestsBytes(l), l.heldBytes)
				}
			}
			_, b := submit(t, l, greedyRequest(prompt, 30))
			if r := b.wait(t); r.Err != nil || !slices.Equal(b.ids, want) {
				t.Errorf("beside it: %+v, %v", r, b.ids)
			}
			if tt.cancel {
				k.Cancel()
			}
			if tt.err == nil {
				open.Store(true)
			}
			if r := a.wait(t); !errors.Is(r.Err, tt.err) || tt.err == nil && !slices.Equal(a.ids, list) {
				t.Errorf("%+v, %v, want %v", r, a.ids, tt.err)
			}
			if n := requestsBytes(l); n != l.heldBytes {
				t.Errorf("afterwards requests have %d bytes, want %d", n, l.heldBytes)
			}
		})
	}
	checkBlocks(t, l)
}

// Requests with slow masks give the texts that they give alone, also where memory is short and where drafts are in the
// passes.
func TestSlowMasksAmongOthers(t *testing.T) {
	const n = 24
	probe := open(t, tiny, Config{})
	block := uint64(probe.kv.Layout()[0].Bytes)
	for name, c := range map[string]Config{
		"ample":           {Sequences: 8, Batch: 64, KVBytes: 100 * block},
		"short of memory": {Sequences: 6, Batch: 32, Ctx: 200, KVBytes: 7 * block},
	} {
		t.Run(name, func(t *testing.T) {
			l := openLoop(t, tiny, c, LoopConfig{})
			var late atomic.Int64
			var all []*catcher
			var want [][]int32
			for i := range 30 {
				rng := rand.New(rand.NewPCG(uint64(i), 3))
				prompt := randomIDs(probe, uint64(i%7), 1+rng.IntN(100))
				r := greedyRequest(prompt, n)
				if r.Priority = i / 15; i%3 > 0 {
					list := randomIDs(l.e, uint64(90+i), n)
					one := oneOf(t, l.e, list, randomIDs(l.e, uint64(190+i), n))
					p := likeliest(prompt, n)
					p.Constraint = one.Fork()
					var ids []int32
					s := probe.NewSequence()
					if _, err := probe.Generate(t.Context(), s, p, func(id int32) error { ids = append(ids, id); return nil }); err != nil {
						t.Fatal(err)
					}
					s.Close()
					want = append(want, ids)
					r.Constraint = &slow{Constraint: one, wait: func(int, func() bool) {
						if rng.IntN(3) == 0 {
							late.Add(1)
							time.Sleep(time.Duration(rng.IntN(12)) * time.Millisecond)
						}
					}}
				} else {
					want = append(want, greedy(t, probe, prompt, n))
				}
				_, c := submit(t, l, r)
				all = append(all, c)
			}
			preempted := 0
			for i, c := range all {
				r := c.wait(t)
				preempted += r.Preempted
				if r.Err != nil || !slices.Equal(c.ids, want[i]) {
					t.Errorf("request %d: %+v, %v, alone %v", i, r, c.ids, want[i])
				}
			}
			if late.Load() == 0 || c.Ctx > 0 && preempted == 0 {
				t.Errorf("%d masks were slow, %d requests made room", late.Load(), preempted)
			}
			checkBlocks(t, l)
			if fmt.Sprint(l.late) != "[]" {
				t.Errorf("%v are left", l.late)
			}
		})
	}
}

// slowly is a constraint whose masks take longer than a pass waits for them.
type slowly struct{ constrain.Constraint }

func (s slowly) Mask(next constrain.Set) {
	time.Sleep(2 * lateTime)
	s.Constraint.Mask(next)
}

// A text alone ends although the masks of its last token are late.
func TestGenerateEndsWithLateMasks(t *testing.T) {
	e := open(t, tiny, Config{})
	list := randomIDs(e, 50, 9)
	p := likeliest(randomIDs(e, 4, 10), 4)
	p.Constraint = slowly{oneOf(t, e, list)}
	if ids, finish := alone(t, e, p); !slices.Equal(ids, list[:4]) || finish != generate.MaxedOut {
		t.Errorf("%v, %s, want %v, %s", ids, finish, list[:4], generate.MaxedOut)
	}
}
