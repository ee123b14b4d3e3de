package sched

import (
	"testing"
	"time"
)

// A pass has all tokens of a span or none, whatever else is in it and however little time there is.
func TestSpansAreWhole(t *testing.T) {
	spans := []Span{{10, 50}, {50, 61}, {100, 164}}
	for _, each := range []time.Duration{time.Microsecond, time.Millisecond, 20 * time.Millisecond} {
		s := New(Config{Running: 3, Batch: 66, Queue: 10, Memory: simMemory{}})
		begin(t, s, Request{ID: 1, Prompt: 1, MaxTokens: 1 << 20}, Request{ID: 2, Prompt: 200, MaxTokens: 1, Spans: spans},
			Request{ID: 3, Prompt: 200, MaxTokens: 1, Spans: spans})
		passes := 0
		for left := 400; left > 0; passes++ {
			if passes > 400 {
				t.Fatalf("%v a token: %d tokens are never evaluated", each, left)
			}
			plan := s.Next(0, 1<<30)
			n := 0
			for _, it := range plan {
				j := s.find(it.ID)
				for _, span := range j.Spans {
					if end := j.done + it.Tokens; end > span.From && end < span.To {
						t.Fatalf("%v a token: a pass ends with token %d, inside of %v", each, end, span)
					}
				}
				if n += it.Tokens; it.ID > 1 {
					left -= it.Tokens
				}
			}
			if n > 66 {
				t.Fatalf("%d tokens in a pass", n)
			}
			for _, id := range s.Ran(plan, time.Duration(n)*each) {
				if j := s.find(id); id == 1 {
					s.Sampled(id, 1, j.known)
				}
			}
		}
		if each == time.Microsecond && passes > 10 {
			t.Errorf("%d passes, where time does not matter", passes)
		}
	}
}

// Tokens that cannot be evaluated yet are in no pass, and keep no others from it.
func TestLimit(t *testing.T) {
	s := New(Config{Running: 2, Batch: 512, Queue: 10, Memory: simMemory{}})
	begin(t, s, Request{ID: 1, Prompt: 100, MaxTokens: 1}, Request{ID: 2, Prompt: 300, MaxTokens: 1})
	s.Limit(1, 40)
	plan := s.Next(0, 1<<30)
	if len(plan) != 2 || plan[0].Tokens+plan[1].Tokens != 340 {
		t.Errorf("%+v, want 40 tokens of one and all of the other", plan)
	}
	s.Ran(plan, time.Millisecond)
	if plan := s.Next(0, 1<<30); len(plan) != 0 {
		t.Errorf("%+v, before what is next can be evaluated", plan)
	}
	s.Limit(1, 100)
	if plan := s.Next(0, 1<<30); len(plan) != 1 || plan[0].Tokens != 60 {
		t.Errorf("%+v, want the other 60", plan)
	}
}

// What is left beside streams is for other work, or half of it where prompts are evaluated as well.
func TestLeft(t *testing.T) {
	s := New(Config{Running: 2, Batch: 512, Queue: 10, Memory: simMemory{}, TargetITL: 100 * time.Millisecond})
	s.Beside(Load{Prompts: 1}) // that work
	if n := s.Left(); n < 100*time.Millisecond {
		t.Errorf("%v are left where nobody waits", n)
	}
	begin(t, s, Request{ID: 1, Prompt: 1, MaxTokens: 1 << 20})
	for range 20 {
		s.Sampled(s.Ran(s.Next(0, 1<<30), 20*time.Millisecond)[0], 1, s.find(1).known)
	}
	alone := s.Left()
	if alone < 50*time.Millisecond || alone > 65*time.Millisecond {
		t.Errorf("%v are left beside a stream that takes 20 ms of 80", alone)
	}
	begin(t, s, Request{ID: 2, Prompt: 100_000, MaxTokens: 1})
	if n := s.Left(); n < alone*2/5 || n > alone*3/5 {
		t.Errorf("%v are left beside a stream and a prompt, %v without the prompt", n, alone)
	}
}
