package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/sched"
)

// What verifying drafts takes is what a pass of all streams takes with them, less what it takes without: their tokens, rows,
// and the positions that they attend to.
func TestTimeOfVerifying(t *testing.T) {
	c := costs(50*time.Millisecond, time.Millisecond, 0)
	c.Set(time.Second, 2*time.Second)
	c.SetRow(3 * time.Millisecond)
	streams := sched.Shape{Tokens: 2, Attended: 3000, Read: 3000, Rows: 2}
	plain, verify := verified(&c, streams)
	if want := c.Estimate(streams); plain != want || verify(0) != 0 {
		t.Errorf("a pass takes %v, want %v; no drafts take %v", plain, want, verify(0))
	}
	for _, n := range []int{1, 2, 7} {
		with := sched.Shape{Tokens: 2 + n, Attended: 3000 + n*(n+1)/2, Read: 3000 + n, Rows: 2 + n}
		if got, want := verify(n), c.Estimate(with)-plain; got != want || want < time.Duration(n)*4*time.Millisecond*99/100 {
			t.Errorf("%d drafts take %v, want %v", n, got, want)
		}
	}
}

// A token is worth a text's share of the pass of all streams, and the draft model guesses at it where that exceeds what the
// guess takes.
func TestWorthOfATokenAmongStreams(t *testing.T) {
	for _, streams := range []int{1, 2, 4} {
		for _, pays := range []bool{false, true} {
			h := byHand(t, tiny, Config{Ctx: 128, Sequences: 4})
			small := open(t, tiny, Config{Ctx: 128, Sequences: 4, Device: h.e.device})
			if err := h.e.DraftWith(small, func(err error) { t.Error(err) }); err != nil {
				t.Fatal(err)
			}
			small.timeless = true
			var drafted *Ticket
			for i := range streams {
				r := greedyRequest(randomIDs(h.e, uint64(i), 10), 20)
				if i == 0 {
					r.Draft = draft.Options{Sources: 1 << draft.Model, Max: 1}
				}
				k, _ := submit(t, h.Loop, r)
				if i == 0 {
					drafted = k
				}
			}
			h.sched.Cost = costs(100*time.Millisecond, 0, 0)
			gain := draft.NewLibrary().Judge(draft.Model).Expected()
			bound := gain * float64(100*time.Millisecond) / float64(streams) / 1.05
			part := map[bool]float64{false: 1.02, true: 0.98}[pays]
			h.e.drafts.cost = costs(time.Duration(part*bound), 0, 0)
			for drafted.j.first.IsZero() {
				h.turn()
			}
			if got := len(drafted.j.gen.Guesses()) > 0; got != pays || h.offered != pays {
				t.Errorf("%d streams, a guess takes %.2f of what it is worth: it is made: %v", streams, part, got)
			}
			if c := h.counts; c.Drafting <= 0 || c.Rested != 0 || h.spent <= 0 {
				t.Errorf("%d streams: drafting took %v, %d passes rested", streams, c.Drafting, c.Rested)
			}
		}
	}
}

// Where drafts have lost too much time there are none, which is counted for each pass that could have had some.
func TestDraftsRest(t *testing.T) {
	h := byHand(t, tiny, Config{Ctx: 128, Sequences: 2})
	lose := sched.Pass{Streams: sched.Shape{Tokens: 1, Rows: 1}, Tokens: 1, Took: 100 * time.Millisecond}
	for range 8 {
		h.sched.Cost.Generated(lose)
	}
	lose.Drafted, lose.Promised, lose.Took = true, 1, time.Second
	for n := 0; !h.sched.Cost.Resting(1); n++ {
		if h.sched.Cost.Generated(lose); n > 100 {
			t.Fatal("drafts do not rest")
		}
	}
	for _, drafts := range []bool{false, true} {
		h.counts.Rested = 0
		r := greedyRequest(wordy(h.e, 3), 6)
		if drafts {
			r.Draft = draft.Options{Sources: draft.All, Max: 8, Record: &draft.Recording{Text: wordy(h.e, 5), Right: 0.5, Seed: 3}}
		}
		_, sink := submit(t, h.Loop, r)
		h.run()
		guessed, _ := sink.wait(t).Drafted.Total()
		if want := map[bool]uint64{true: 5}[drafts]; h.counts.Rested != want || guessed != 0 || h.spent != 0 {
			t.Errorf("with drafts %v: %d passes rested, want %d; %d drafts", drafts, h.counts.Rested, want, guessed)
		}
	}
}

// A loop's costs can be exchanged between two passes.
func TestExchange(t *testing.T) {
	l := openLoop(t, tiny, Config{Ctx: 64}, LoopConfig{})
	first := costs(time.Second, 0, 0)
	if _, err := l.Exchange(first); err != nil {
		t.Fatal(err)
	}
	was, err := l.Exchange(costs(time.Minute, 0, 0))
	if now := l.Status().Cost.First; err != nil || was.First() != time.Second || now != time.Minute {
		t.Errorf("%v in place of %v: %v", now, was.First(), err)
	}
	l.Close()
	if _, err := l.Exchange(first); err == nil {
		t.Error("a closed loop has other costs")
	}
}

// A request whose masks are late is in no pass until they are there. Its logits are kept, and counted; when it is removed
// or preempted, all that it had in the pass is released.
func TestPostponed(t *testing.T) {
	for _, end := range []string{"forget", "resume", "not yet", "an error"} {
		h := byHand(t, tiny, Config{Ctx: 128, Sequences: 2})
		k, sink := submit(t, h.Loop, greedyRequest(randomIDs(h.e, 3, 70), 20))
		for k.j.first.IsZero() {
			h.turn()
		}
		j, e := k.j, h.e
		at, said := j.seq.Len(), len(sink.ids)
		// A pass of its last token, with another in a branch.
		it := Item{Seq: j.seq, IDs: j.gen.Pending(nil, 1), Rows: 1, Branches: []Branch{{IDs: []int32{7}, Rows: 1}}}
		items := []Item{it}
		s := &step{masks: &masks{}}
		leave := e.device.enter()
		err := e.device.inTurn(func() error {
			if err := e.pass(canceler{ctx: t.Context()}, items); err != nil {
				return err
			}
			return e.heads(items, func(parts []part) error {
				s.keep(parts[0].rows[:1])
				return nil
			})
		})
		leave()
		if err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		scratch := items[0].IDs
		h.postpone(j, items[0], s)
		scratch[0]++ // the next pass has the same memory
		h.mu.Unlock()
		row := uint64(4 * e.model.Config.NVocab)
		if h.kept.Bytes() != row || len(h.late) != 1 || j.late.item.IDs[0] == scratch[0] || j.seq.Len() != at+1 {
			t.Errorf("%s: %d bytes of logits are kept, want %d", end, h.kept.Bytes(), row)
		}
		j.seq.table.Settle()
		switch end {
		case "not yet":
			if h.resumeLate() || len(h.late) != 1 {
				t.Error("it is resumed before its masks are there")
			}
			s.masks.finish()
			<-h.wake // it is told of
			h.resumeLate()
		case "resume", "an error":
			if s.masks.finish(); end == "an error" {
				s.err = generate.ErrBanned
			}
			if !h.resumeLate() {
				t.Error("it is not resumed")
			}
		case "forget":
			s.masks.finish()
			h.mu.Lock()
			h.yield(j)
			h.sched.Yield(j.id)
			h.mu.Unlock()
		}
		if h.kept.Bytes() != 0 || len(h.late) != 0 || j.late != nil {
			t.Errorf("%s: %d bytes of logits are kept of %d requests", end, h.kept.Bytes(), len(h.late))
		}
		if more := len(sink.ids) - said; (more == 1) != (end == "resume" || end == "not yet") {
			t.Errorf("%s: %d tokens more", end, more)
		}
		h.run()
		r := sink.wait(t)
		if end == "an error" {
			if r.Err == nil {
				t.Error("the error is not told")
			}
			continue
		}
		if want := greedy(t, open(t, tiny, Config{Ctx: 128}), randomIDs(e, 3, 70), 20); !slices.Equal(sink.ids, want) || r.Err != nil {
			t.Errorf("%s: %v, %v, want %v", end, r.Err, sink.ids, want)
		}
	}
	if h := (*masks)(nil); !h.ready() {
		t.Error("no masks are not there")
	}
}
