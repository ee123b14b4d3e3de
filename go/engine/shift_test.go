package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

// shiftAlone returns the likeliest n tokens, of a sequence of its own.
func shiftAlone(t *testing.T, e *Engine, p generate.Params) ([]int32, Stats) {
	t.Helper()
	s := e.NewSequence()
	defer s.Close()
	var ids []int32
	st, err := e.Generate(context.Background(), s, p, func(id int32) error { ids = append(ids, id); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return ids, st
}

// A text goes on where the context is full, and is the same with any slices, threads and types that are read in blocks
// of other sequences; up to the first shift it is that of a larger context.
func TestShiftGoesOn(t *testing.T) {
	t.Parallel()
	shiftables(t, func(t *testing.T, path string) {
		const ctx, n = 150, 90
		e := open(t, path, Config{Ctx: ctx, Shift: true})
		prompt := randomIDs(e, 1, 140)
		p := likeliest(prompt, n)
		p.Keep = 11
		got, st := shiftAlone(t, e, p)
		if by := (ctx - 1 - 11) / 2; len(got) != n || st.Shifts != (len(prompt)+n-1-ctx)/by+1 || st.Finish != generate.MaxedOut {
			t.Errorf("%d tokens, %d shifts, %q", len(got), st.Shifts, st.Finish)
		}
		if large := greedy(t, open(t, path, Config{Ctx: 600}), prompt, n); !slices.Equal(got[:ctx-len(prompt)], large[:ctx-len(prompt)]) {
			t.Error("it is another text before the context is full")
		}
		for _, c := range []Config{{Batch: 70, Device: device(t, 3)}} {
			c.Ctx, c.Shift = ctx, true
			if again, _ := shiftAlone(t, open(t, path, c), p); !slices.Equal(again, got) {
				t.Errorf("%+v: another text", c)
			}
		}
		l := openLoop(t, path, Config{Ctx: ctx, Shift: true, Sequences: 3}, LoopConfig{})
		var cs []*catcher
		for i := range 3 {
			q := p
			if i == 2 {
				q = likeliest(prompt[5:], n)
			}
			r := &Request{Params: q, Slot: -1, Sink: newCatcher()}
			_, c := submit(t, l, r)
			cs = append(cs, c)
		}
		for i, c := range cs {
			r := c.wait(t)
			if r.Err != nil || r.Shifts == 0 {
				t.Errorf("%v, %d shifts", r.Err, r.Shifts)
			}
			if i < 2 && !slices.Equal(c.ids, got) {
				t.Error("another text in company")
			}
		}
		checkBlocks(t, l)
	})
}

// shiftables are models with rotations of all kinds, windows and latents.
func shiftables(t *testing.T, test func(t *testing.T, path string)) {
	t.Run("tiny", func(t *testing.T) { test(t, tiny) })
	models(t, test, "gemma3", "deepseek2")
}

// Where memory is short a request is preempted after its context was shifted. It goes on with the blocks that it had,
// or is computed again; either gives the text that it has alone.
func TestShiftedArePreempted(t *testing.T) {
	probe := open(t, tiny, Config{Ctx: 150, Shift: true})
	block := uint64(probe.kv.Layout()[0].Bytes)
	for _, blocks := range []uint64{4, 5, 7} {
		l := openLoop(t, tiny, Config{Ctx: 150, Shift: true, Sequences: 1 + int(blocks)/5, KVBytes: blocks * block}, LoopConfig{})
		ask := func(i int) (generate.Params, *Request) {
			p := likeliest(randomIDs(probe, uint64(i), 30+20*i), 150+150*(1-min(i, 1)))
			p.Keep, p.Discard = []int{0, -1, 70}[i%3], []int{0, 30}[i%2]
			return p, &Request{Params: p, Slot: -1, Sink: newCatcher(), NoCache: i == 1, Priority: i}
		}
		shifted, submitted := make(chan struct{}), make(chan struct{})
		var params []generate.Params
		var cs []*catcher
		for i := range 5 {
			p, r := ask(i)
			if i == 0 {
				r.Sink.(*catcher).on = func(n int) {
					if n == 135 {
						close(shifted)
						<-submitted // the loop waits here, so that the first does not end before
					}
				}
			} else if i == 1 {
				<-shifted
			}
			_, c := submit(t, l, r)
			params, cs = append(params, p), append(cs, c)
		}
		close(submitted)
		for i, c := range cs {
			r := c.wait(t)
			if r.Err != nil || r.Shifts == 0 || i == 0 && r.Preempted == 0 {
				t.Errorf("%d blocks, request %d: %v, %d shifts, preempted %d times", blocks, i, r.Err, r.Shifts, r.Preempted)
			}
			if want, _ := shiftAlone(t, probe, params[i]); !slices.Equal(c.ids, want) {
				t.Errorf("%d blocks, request %d, preempted %d times: another text", blocks, i, r.Preempted)
			}
		}
		checkBlocks(t, l)
	}
}

// A request may ask that its context is not shifted: its text ends where that is full.
func TestNoShift(t *testing.T) {
	l := openLoop(t, tiny, Config{Ctx: 100, Shift: true}, LoopConfig{})
	for _, no := range []bool{false, true} {
		r := greedyRequest(randomIDs(l.e, 1, 40), 150)
		r.NoShift = no
		_, c := submit(t, l, r)
		if u := c.wait(t); u.Err != nil || no != (u.Shifts == 0) || no != (len(c.ids) < 70) {
			t.Errorf("no shift %v: %d shifts, %d tokens, %v", no, u.Shifts, len(c.ids), u.Err)
		}
	}
}

// A request alone is shifted in the memory of one context, whatever has its own part of the cache.
func TestShiftInNamespace(t *testing.T) {
	probe := open(t, tiny, Config{Ctx: 150, Shift: true})
	l := openLoop(t, tiny, Config{Ctx: 150, Shift: true, KVBytes: least(probe.kv.Layout(), 150)}, LoopConfig{})
	first := greedyRequest(randomIDs(probe, 1, 140), 1)
	first.Namespace = "a key"
	_, c := submit(t, l, first)
	c.wait(t)
	p := likeliest(first.Prompt, 60)
	p.Discard = 10 // so all blocks are moved, and those of the cache would have to be copied
	_, c = submit(t, l, &Request{Params: p, Slot: -1, Sink: newCatcher(), Namespace: "a key"})
	if r := c.wait(t); r.Err != nil || r.Shifts == 0 || r.Preempted > 0 {
		t.Errorf("%v, %d shifts, preempted %d times", r.Err, r.Shifts, r.Preempted)
	}
	if want, _ := shiftAlone(t, probe, p); !slices.Equal(c.ids, want) {
		t.Error("another text")
	}
}

// What a shifted sequence leaves is not taken for the state of its tokens: not by the next prompt of a chat, not by
// other requests, not by a slot file.
func TestShiftedStateIsNotReused(t *testing.T) {
	e := open(t, tiny, Config{Ctx: 150, Shift: true})
	fresh := open(t, tiny, Config{Ctx: 150})
	p := likeliest(randomIDs(e, 1, 100), 90)
	p.Keep = 70
	s := e.NewSequence()
	defer s.Close()
	if _, err := e.Generate(context.Background(), s, p, func(int32) error { return nil }); err != nil {
		t.Fatal(err)
	}
	left := slices.Clone(s.Tokens())
	var got []int32
	st, err := e.Generate(context.Background(), s, likeliest(left[:len(left)-1], 20), func(id int32) error { got = append(got, id); return nil })
	if want := greedy(t, fresh, left[:len(left)-1], 20); err != nil || !slices.Equal(got, want) || st.CachedTokens != 70 {
		t.Errorf("%v, %d tokens were there: %v, want %v", err, st.CachedTokens, got, want)
	}

	l := openLoop(t, tiny, Config{Ctx: 150, Shift: true, Sequences: 2}, LoopConfig{})
	_, c := submit(t, l, &Request{Params: p, Slot: 0, Sink: newCatcher()})
	if r := c.wait(t); r.Shifts == 0 {
		t.Fatal("not shifted")
	}
	var file bytes.Buffer
	saved, err := l.SaveSlot(0, "", &file)
	if err != nil || saved.Tokens < 64 || saved.Tokens > 100 {
		t.Fatalf("%d tokens, %v", saved.Tokens, err)
	}
	_, c = submit(t, l, greedyRequest(left[:len(left)-1], 20))
	if r := c.wait(t); r.CachedTokens > 70 {
		t.Errorf("%d tokens were in the cache", r.CachedTokens)
	}
	if want := greedy(t, fresh, left[:len(left)-1], 20); !slices.Equal(c.ids, want) {
		t.Errorf("%v, want %v", c.ids, want)
	}
	again := openLoop(t, tiny, Config{Ctx: 150, Shift: true}, LoopConfig{})
	if _, err := again.RestoreSlot(0, "", &file); err != nil {
		t.Fatal(err)
	}
	_, c = submit(t, again, greedyRequest(p.Prompt, 20))
	if r := c.wait(t); r.CachedTokens != min(saved.Tokens, 99) || !slices.Equal(c.ids, greedy(t, fresh, p.Prompt, 20)) {
		t.Errorf("%d tokens of the file's %d: %v", r.CachedTokens, saved.Tokens, c.ids)
	}
}

// A request that is parked is cancelled, and leaves nothing.
func TestParkedIsCancelled(t *testing.T) {
	probe := open(t, tiny, Config{Ctx: 150, Shift: true})
	l := openLoop(t, tiny, Config{Ctx: 150, Shift: true, Sequences: 2, KVBytes: 4 * uint64(probe.kv.Layout()[0].Bytes)}, LoopConfig{})
	shifted := make(chan struct{})
	low := greedyRequest(randomIDs(probe, 1, 100), 100000)
	low.MaxTokens, low.Priority = -1, -1
	low.Sink.(*catcher).on = func(n int) {
		if n == 200 {
			close(shifted)
		}
	}
	ticket, c := submit(t, l, low)
	<-shifted
	high := greedyRequest(randomIDs(probe, 2, 140), 100)
	_, h := submit(t, l, high)
	ticket.Cancel()
	if r := c.wait(t); !errors.Is(r.Err, context.Canceled) {
		t.Error(r.Err)
	}
	if r := h.wait(t); r.Err != nil {
		t.Error(r.Err)
	}
	checkBlocks(t, l)
}

func TestShiftIsRefused(t *testing.T) {
	for _, tt := range []struct {
		model string
		ctx   int
		want  string
	}{
		{"qwen35", 100, "recurrent state"}, {"t5", 100, "as a whole"},
		{"gemma3", 1000, ""}, {"llama4", 100, "chunks"}, {"llama", 7, "too few"},
	} {
		t.Run(fmt.Sprint(tt.model, tt.ctx), func(t *testing.T) {
			path := tiny
			if tt.model != "llama" {
				path = testdata.Path(t, "archs/"+tt.model+".gguf")
			}
			e, err := Open(path, Config{Device: device(t, 1), Ctx: tt.ctx, Shift: true})
			if err == nil {
				defer e.Close()
			}
			if tt.want == "" != (err == nil) || tt.want != "" && (!errors.Is(err, model.ErrShift) || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	// A window that sees further than the half that is left.
	wide := kvcache.NewLayout(kvcache.Group{Bytes: 64, Window: 300})
	if wide.Shiftable(500) >= 0 || wide.Shiftable(900) < 0 {
		t.Errorf("%d of 500 and %d of 900 may be kept", wide.Shiftable(500), wide.Shiftable(900))
	}
}
