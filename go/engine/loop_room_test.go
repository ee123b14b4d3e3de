package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/mem"
)

// longLoop returns a loop with so many slots of a very long context, and its budget.
func longLoop(t *testing.T, slots int) (*Loop, *mem.Budget) {
	t.Helper()
	b := mem.NewBudget(64<<30, "test")
	return openLoop(t, tiny, Config{Sequences: slots, Ctx: 1 << 20, Device: deviceOf(t, DeviceConfig{Threads: 1, Budget: b})}, LoopConfig{}), b
}

// The memory of a slot does not grow with the context: requests reserve what their texts may need.
func TestSlotsReserveLittle(t *testing.T) {
	l, _ := longLoop(t, 8)
	if n := requestsBytes(l); n > 8<<20 {
		t.Errorf("8 slots have reserved %s for texts that nobody asks for", mem.FormatBytes(n))
	}
}

// needy is a request whose text may need much memory beside keys and values: up to the end of the context, with
// samplers that look at the whole text.
func needy(l *Loop, seed uint64) *Request {
	r := greedyRequest(randomIDs(l.e, seed, 10), -1)
	r.Sampling.RepeatLastN, r.Sampling.FrequencyPenalty = -1, 0.5
	r.Sampling.DryMultiplier, r.Sampling.DryLastN = 0.5, -1
	return r
}

// What requests reserve is given back, however they end.
func TestRoomIsGivenBack(t *testing.T) {
	l, _ := longLoop(t, 4)
	before := requestsBytes(l)
	var all []*catcher
	var tickets []*Ticket
	for i := range 24 {
		r := greedyRequest(randomIDs(l.e, uint64(i), 50), 20)
		if i%2 > 0 {
			r = needy(l, uint64(i))
		}
		if i%3 == 0 {
			r.Deadline = time.Now().Add(100 * time.Millisecond)
		}
		k, err := l.Submit(r)
		if busy := new(BusyError); errors.As(err, &busy) && i%3 == 0 {
			continue // on a slow machine it would wait past its deadline
		} else if err != nil {
			t.Fatal(err)
		}
		tickets, all = append(tickets, k), append(all, r.Sink.(*catcher))
	}
	for end := time.Now().Add(time.Minute); requestsBytes(l) < before+10<<20; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s are reserved while texts of the whole context run", mem.FormatBytes(requestsBytes(l)))
		}
	}
	time.Sleep(100 * time.Millisecond)
	for _, k := range tickets {
		k.Cancel()
	}
	for _, c := range all {
		c.wait(t)
	}
	if n := requestsBytes(l); n != before {
		t.Errorf("requests have %d bytes after they have ended, and %d before", n, before)
	}
	checkBlocks(t, l)
}

// A request without memory for its text waits while others run, then runs; alone it is refused. Those that need none
// do not wait for it.
func TestRequestsWaitForRoom(t *testing.T) {
	l, b := longLoop(t, 4)
	probe := open(t, tiny, Config{})
	limit, _ := b.Limit()
	free := func(n uint64) { b.SetLimit(b.Used()+n, "test") }

	_, c := submit(t, l, func() *Request { free(1 << 20); return needy(l, 1) }())
	var short *MemoryError
	if r := c.wait(t); !errors.As(r.Err, &short) || short.Need <= short.Have || short.Have > 1<<20 {
		t.Errorf("there is too little memory: %+v", r)
	}

	b.SetLimit(limit, "test")
	running, first := submit(t, l, needy(l, 2))
	for end := time.Now().Add(time.Minute); requestsBytes(l) < l.heldBytes+10<<20; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first request has no memory for its text")
		}
	}
	free(1 << 20)
	waits, second := submit(t, l, needy(l, 3))
	prompt := randomIDs(l.e, 4, 40)
	_, third := submit(t, l, greedyRequest(prompt, 30))
	if r := third.wait(t); r.Err != nil || !slices.Equal(third.ids, greedy(t, probe, prompt, 30)) {
		t.Errorf("beside one that waits for memory: %+v", r)
	}
	if s := l.Status(); s.Queued != 1 || s.Parked != 0 {
		t.Errorf("%d requests wait, %d after they had begun, want one that has not", s.Queued, s.Parked)
	}
	running.Cancel()
	first.wait(t)
	for end := time.Now().Add(time.Minute); l.Status().Queued > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the second request waits when the memory is free")
		}
	}
	waits.Cancel()
	if r := second.wait(t); len(second.ids) == 0 && r.Queued == 0 {
		t.Errorf("the second has not run: %+v", r)
	}
}
