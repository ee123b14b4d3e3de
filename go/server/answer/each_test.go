package answer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

// stoppable is a ticket that counts how often it is cancelled.
type stoppable struct {
	id        uint64
	cancelled int
	then      func() // nil: nothing
}

func (s *stoppable) ID() uint64 { return s.id }
func (s *stoppable) Cancel() {
	if s.cancelled++; s.then != nil {
		s.then()
	}
}

// running returns a generation of n answers to a prompt that holds a part of a budget.
func running(t *testing.T, n int, held int) (*Generation, *mem.Budget) {
	t.Helper()
	budget := mem.NewBudget(1<<20, "a test")
	taken, err := budget.Reserve(answersPurpose, 0)
	if err != nil {
		t.Fatal(err)
	}
	o := ask.NewOptions(&ask.Model{})
	o.N, o.Stream = n, true
	g := &Generation{ID: "g", Request: &Request{Caller: Caller{Owner: "me"}}, Model: &ask.Model{}, Opts: &o, box: newMailbox(),
		Ledger: &ledger{taken: taken, from: budget, open: true}, registry: NewRunning(), reads: func(Event) {}}
	for i := range n {
		g.Seqs = append(g.Seqs, &Sequence{Index: i})
		g.tickets = append(g.tickets, &stoppable{id: uint64(i + 1)})
	}
	g.registry.add(g)
	if !g.Ledger.Hold(held) {
		t.Fatal("no room")
	}
	return g, budget
}

func (g *Generation) cancels() (n int) {
	for _, t := range g.tickets {
		n += t.(*stoppable).cancelled
	}
	return n
}

// Events come until all sequences have ended; what is processed takes no memory, and a request that has ended is not
// known as one that runs.
func TestEachUntilAllEnd(t *testing.T) {
	g, _ := running(t, 2, 30)
	me := &Caller{Owner: "me"}
	progress := 0
	g.reads = func(e Event) { progress += e.Progress.Done }
	g.box.put(Event{Seq: g.Seqs[1], content: 10, Progress: &progressOf5})
	g.box.put(Event{Seq: g.Seqs[1], frame: 5, Usage: engine.Usage{PromptTokens: 7, Generated: 3}, End: &Ending{Thought: 2}})
	calls, seen := 0, 0
	err := g.Each(t.Context(), 0, func(events []Event) (bool, error) {
		seen += len(events)
		if calls++; calls == 1 {
			if g.registry.Generation("g", me) != g {
				t.Error("it is not known while it runs")
			}
			g.box.put(Event{Seq: g.Seqs[0], frame: 5, Usage: engine.Usage{PromptTokens: 7, Generated: 4}, End: &Ending{}})
		}
		return false, nil
	})
	if err != nil || calls != 2 || seen != 3 || g.Used != (Used{Prompt: 7, Generated: 7, Thought: 2}) || g.First.Generated != 4 || progress != 5 ||
		g.Ledger.held != 10 || g.cancels() != 0 || g.registry.Generation("g", me) != nil || len(g.registry.by) != 0 {
		t.Errorf("%v, %d calls, %d events, %+v, first %+v, %d read, %d held, %d cancelled", err, calls, seen, g.Used, g.First, progress,
			g.Ledger.held, g.cancels())
	}
}

var progressOf5 = progress{engine.Progress{Done: 5, Total: 9}, time.Second}

// What is closed takes no more events, and its memory is given back.
func TestClosedGeneration(t *testing.T) {
	g, budget := running(t, 1, 30)
	g.box.put(Event{Seq: g.Seqs[0]})
	g.Close()
	if g.box.put(Event{Seq: g.Seqs[0]}); len(g.box.fetch()) != 0 || budget.Used() != 0 || g.Ledger.Hold(1) {
		t.Errorf("%d bytes are taken", budget.Used())
	}
}

// The first error of a sequence ends all of them, and is the request's.
func TestEachUntilOneFails(t *testing.T) {
	first, second := errors.New("first"), errors.New("second")
	g, _ := running(t, 3, 0)
	g.box.put(Event{Seq: g.Seqs[0], Usage: engine.Usage{Generated: 1}, End: &Ending{}})
	g.box.put(Event{Seq: g.Seqs[2], Usage: engine.Usage{Generated: 2}, End: &Ending{err: first}})
	g.box.put(Event{Seq: g.Seqs[1], Usage: engine.Usage{Generated: 4}, End: &Ending{err: second}})
	err := g.Each(t.Context(), 0, func([]Event) (bool, error) { return true, nil })
	if err != first || g.cancels() != 3 || g.Used.Generated != 7 || len(g.registry.by) != 0 {
		t.Errorf("%v, %d cancelled, %+v", err, g.cancels(), g.Used)
	}
}

// Where the client is gone, or cannot be told, the sequences are cancelled, and what they did until then counts.
func TestEachUntilClientIsGone(t *testing.T) {
	for _, told := range []bool{true, false} {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		g, _ := running(t, 2, 9)
		g.tickets[1].(*stoppable).then = func() {
			g.box.put(Event{Seq: g.Seqs[1]})
			g.box.put(Event{Seq: g.Seqs[1], Usage: engine.Usage{Generated: 6}, End: &Ending{err: context.Canceled}})
		}
		g.box.put(Event{Seq: g.Seqs[0], frame: 4, Usage: engine.Usage{Generated: 1}, End: &Ending{}})
		err := g.Each(ctx, 0, func([]Event) (bool, error) {
			if leave(); !told {
				return true, errors.New("the connection is closed")
			}
			return true, nil
		})
		want := 9
		if told {
			want -= 4
		}
		if err != reply.ErrGone || g.cancels() != 2 || g.Used.Generated != 7 || g.Ledger.held != want ||
			g.tally.outcome != slices.Index(outcomes, "cancelled") || len(g.registry.by) != 0 {
			t.Errorf("told %v: %v, %d cancelled, %+v, %d held, %s", told, err, g.cancels(), g.Used, g.Ledger.held, outcomes[g.tally.outcome])
		}
	}
}

// Silence is told, again and again, until there is something to send; where no time is given it is not.
func TestEachInSilence(t *testing.T) {
	g, _ := running(t, 1, 0)
	silent := 0
	err := g.Each(t.Context(), time.Millisecond, func(events []Event) (bool, error) {
		if len(events) > 0 {
			return true, nil
		}
		if silent++; silent == 3 {
			g.box.put(Event{Seq: g.Seqs[0], End: &Ending{}})
		}
		return false, nil
	})
	if err != nil || silent < 3 {
		t.Errorf("%v, told %d times", err, silent)
	}
	for _, quiet := range []time.Duration{0, -1, time.Hour} {
		g, _ := running(t, 1, 0)
		g.box.ready <- struct{}{} // there is nothing
		time.AfterFunc(5*time.Millisecond, func() { g.box.put(Event{Seq: g.Seqs[0], End: &Ending{}}) })
		if err := g.Each(t.Context(), quiet, func(events []Event) (bool, error) {
			if len(events) == 0 {
				t.Errorf("%v: silence is told", quiet)
			}
			return true, nil
		}); err != nil {
			t.Errorf("%v: %v", quiet, err)
		}
	}
}

// How far a prompt is is logged at times, until it is read.
func TestProgressIsLoggedAtTimes(t *testing.T) {
	var b strings.Builder
	h := &Host{Log: zerolog.New(&b), Progress: 10 * time.Second}
	req := requestOf(t, h, nil, 0)
	req.HTTP.Writer.Header().Set("X-Request-Id", "r")
	tell := req.tellProgress(&Generation{ID: "g", Name: "m"})
	for _, p := range []struct {
		s, done int
	}{{0, 1}, {9, 2}, {10, 3}, {19, 4}, {20, 5}, {35, 6}, {44, 7}, {45, 8}, {60, 9}} {
		tell(Event{Progress: &progress{engine.Progress{Done: p.done, Total: 9, Cached: 1}, time.Duration(p.s) * time.Second}})
	}
	var done []int
	for line := range strings.Lines(b.String()) {
		var one struct {
			Request, Completion, Model string
			Done                       int `json:"done_tokens"`
			Total                      int `json:"prompt_tokens"`
			Cached                     int `json:"cached_tokens"`
			Took                       int `json:"took_ms"`
		}
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			t.Fatal(err)
		}
		if done = append(done, one.Done); fmt.Sprint(one.Request, one.Completion, one.Model, one.Total, one.Cached) != "rgm9 1" || one.Done == 6 && one.Took != 35000 {
			t.Errorf("%+v", one)
		}
	}
	if !slices.Equal(done, []int{3, 5, 6, 8}) {
		t.Errorf("told at %v", done)
	}
}
