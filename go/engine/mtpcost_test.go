package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/sched"
	"github.com/quern-llm/quern/go/scripted"
)

// draftLayers opens models with each kind of layer that drafts: one layer that goes on from its own guesses, a layer for each
// guess, and a head that guesses several tokens at once.
func draftLayers(t *testing.T, c Config) map[string]*mtp {
	t.Helper()
	all := map[string]*mtp{}
	for name, path := range map[string]string{
		"one layer": nextOf(t, "llama", 1), "three layers": nextOf(t, "llama", 1, 1, 1),
		"a block": headFor(t, tiny, scripted.Head{Arch: "dflash", Inputs: []int{0, 1, 2}}),
	} {
		c.MTP = true
		e := open(t, path, c)
		e.timeless = true
		all[name] = e.mtp
	}
	return all
}

// textOf returns a text of n tokens, of which all but the last are evaluated, that may have `most` more, and so many
// drafts.
func (m *mtp) textOf(t *testing.T, n, most, drafts int) *mtpText {
	t.Helper()
	p := likeliest(randomIDs(m.e, uint64(n), n-1), most+1)
	p.Draft = draft.Options{Sources: 1 << m.source(), Max: drafts}
	g, err := m.e.generation(p, nil)
	if err != nil {
		t.Fatal(err)
	}
	g.Speculate(m.e.library, "")
	text := m.text(g, draft.NewLibrary())
	seq := m.e.NewSequence()
	t.Cleanup(seq.Close)
	defer m.e.device.enter()()
	for seq.Len() < n-1 {
		items := []Item{{Seq: seq, IDs: g.Pending(nil, m.e.kv.Layout().Room(seq.Len(), m.e.batch))}}
		items[0].Rows = g.Rows(len(items[0].IDs))
		if err := m.e.device.inTurn(func() error {
			if err := m.e.pass(canceler{ctx: t.Context()}, items); err != nil {
				return err
			}
			if err := m.e.heads(items, func(parts []part) error {
				_, err := g.Advance(len(items[0].IDs), parts[0].rows)
				return err
			}); err != nil {
				return err
			}
			m.keep(items, []*generate.Generation{g}, []*mtpText{text})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	text.Begin()
	return text
}

// guess drafts for texts, with a token that is worth so much.
func (m *mtp) guess(texts []*mtpText, worth time.Duration, verify func(int) time.Duration) (found []int) {
	defer m.e.device.enter()()
	m.draft(texts, worth, verify, func(f func()) { f() })
	for _, text := range texts {
		found = append(found, len(text.Found()))
	}
	return found
}

// limited makes passes have no more sequences, rows of logits and tokens than these; undo ends that.
func (e *Engine) limited(seqs, rows, batch int) (undo func()) {
	s, l, b := e.seqs, e.logits, e.batch
	e.seqs, e.logits, e.batch = seqs, e.logits[:rows], batch
	return func() { e.seqs, e.logits, e.batch = s, l, b }
}

// How many tokens of a text may be guessed: what the request allows, what the text and the context still have room for, and
// no more than the layers guess. A block begins with the token that was sampled last.
func TestDepthOfGuesses(t *testing.T) {
	for _, shift := range []bool{false, true} {
		for name, m := range draftLayers(t, Config{Ctx: 64, Sequences: 20, Shift: shift}) {
			layers, less := 99, 0 // guesses of the layers, positions that they take more
			if m.e.model.NextSteps() > 0 {
				layers = 3
			}
			if block, _ := m.e.model.NextBlock(); block > 0 {
				layers, less = block-1, 1
			}
			left := func(n int) int { // positions for guesses after n tokens
				if shift {
					return 64 - (n - 1) - less
				}
				return 64 - n - 1 // the token that fills the context is sampled, and not guessed
			}
			for _, c := range []struct{ n, most, drafts, want int }{
				{20, 30, 4, 4}, {20, 30, 1, 1}, {20, -2, 99, draft.MaxGuesses}, {20, 3, 8, 2}, {20, 2, 8, 1}, {20, 1, 8, 0},
				{60, -2, 8, left(60)}, {61, -2, 8, left(61)}, {63, -2, 8, left(63)},
			} {
				text := m.textOf(t, c.n, c.most, c.drafts)
				if got, want := text.depth(), max(min(c.want, layers), 0); got != want {
					t.Errorf("%s, shifted %v: %d guesses after %d tokens, of %d that may come and %d that are asked for, want %d",
						name, shift, got, c.n, c.most, c.drafts, want)
				}
			}
			for what, change := range map[string]func(text *mtpText){
				"lost":        func(text *mtpText) { text.Lost = true },
				"no pass":     func(text *mtpText) { text.at = 0 },
				"an old pass": func(text *mtpText) { text.at-- },
				"promised": func(text *mtpText) {
					text.Gen.SetGuesses(slices.Repeat([]draft.Guess{{ID: 3, Chance: 0.95}}, 4))
				},
			} {
				text := m.textOf(t, 20, 30, 4)
				if change(text); text.depth() != 0 {
					t.Errorf("%s, %s: %d guesses", name, what, text.depth())
				}
			}
		}
	}
	var none *mtp
	if none.bytes() != 0 {
		t.Error("no layer takes memory")
	}
}

// Where blocks age before the next pass, nothing is guessed, and no guess is behind such a place.
func TestDepthBesideTiers(t *testing.T) {
	for name, m := range draftLayers(t, Config{Ctx: 256, Sequences: 20, Tiers: tiersOf(t, "64:i16,*:q8_0")}) {
		layout := m.e.kv.Layout()
		for n := 120; n < 132; n++ {
			most := layout.Room(n-1, 4) // the last token is evaluated with the guesses
			if block, _ := m.e.model.NextBlock(); block > 0 {
				most = layout.Room(n-1, 5) - 1
			}
			want := max(min(most, 4), 0)
			if m.e.model.NextSteps() > 0 {
				want = min(want, 3)
			}
			if layout.Room(n-2, 2) < 2 {
				want = 0
			}
			if got := m.textOf(t, n, 30, 4).depth(); got != want {
				t.Errorf("%s: %d guesses after %d tokens, want %d", name, got, n, want)
			}
		}
	}
}

// A further guess at each text is worth it while what it saves exceeds what the step takes, of all texts together, and what
// further drafts take to verify, by a twentieth. A layer that goes on from its guesses evaluates the last one alone; where
// each guess has a layer, it evaluates all of them.
func TestStepsPay(t *testing.T) {
	all := draftLayers(t, Config{Ctx: 256, Batch: 64, Sequences: 16})
	for name, m := range map[string]*mtp{"one layer": all["one layer"], "three layers": all["three layers"]} {
		some, long := m.textOf(t, 20, 50, 3), m.textOf(t, 40, 50, 3)
		if m.pays(nil, 0, time.Hour, noTime) || !m.pays([]*mtpText{some}, 0, 0, noTime) {
			t.Error("the first step does not pay, which measures the cost, or one of nobody does")
		}
		m.cost = costs(5*time.Millisecond, time.Millisecond, 0)
		m.cost.Set(time.Hour, 10*time.Hour)
		check := func(what string, active []*mtpText, n int, shape sched.Shape) {
			t.Helper()
			if got := m.shape(active); got != shape {
				t.Errorf("%s, %s: the step is %+v, want %+v", name, what, got, shape)
			}
			gain := 0.0
			for _, text := range active {
				gain += text.Gain()
			}
			verify := func(n int) time.Duration { return time.Duration(n*n) * time.Millisecond }
			took := m.cost.Estimate(shape) + verify(n+len(active)) - verify(n)
			bound := 1.05 * float64(took) / gain
			for worth, want := range map[time.Duration]bool{time.Duration(bound * 0.999): false, time.Duration(bound * 1.001): true} {
				if m.pays(active, n, worth, verify) != want {
					t.Errorf("%s, %s: with %v for a token it pays: %v, from %v on", name, what, worth, !want, time.Duration(bound))
				}
			}
			if cut := m.pays(active, n, 0, noTime); cut {
				t.Errorf("%s, %s: a step pays that saves nothing", name, what)
			}
		}
		check("a text that is new", []*mtpText{some}, 0, sched.ShapeOf(18, 1))
		check("two", []*mtpText{some, long}, 3, sched.ShapeOf(18, 1).Add(38, 1))
		if err := some.seq.table.Grow(3); err != nil {
			t.Fatal(err)
		}
		m.step([]*mtpText{some})
		after := sched.ShapeOf(19, 1)
		if m.e.model.NextSteps() > 0 {
			after = sched.ShapeOf(18, 2)
		}
		check("after a guess", []*mtpText{some}, 1, after)
		check("two after a guess", []*mtpText{long, some}, 2, sched.ShapeOf(38, 1).Add(after.Read-after.Tokens, after.Tokens))
		some.seq.table.Undo()
	}
}

// A step of a block guesses as many tokens of each text as save the most time, less what the step and verifying take, and a
// twentieth; none where they save none.
func TestTokensOfABlock(t *testing.T) {
	m := draftLayers(t, Config{Ctx: 256, Batch: 64, Sequences: 16})["a block"]
	texts := []*mtpText{m.textOf(t, 20, 50, 2), m.textOf(t, 40, 50, 7)}
	if n := m.most(texts, 0, noTime); n != 7 {
		t.Errorf("the first step guesses %d tokens, which measures the cost", n)
	}
	for _, c := range []struct{ logits, batch, want int }{{5, 64, 5}, {32, 5, 4}} {
		undo := m.e.limited(4, c.logits, c.batch)
		if n := m.most(texts, 0, noTime); n != c.want {
			t.Errorf("%d rows and %d tokens of a pass: %d are guessed", c.logits, c.batch, n)
		}
		undo()
	}
	m.cost = costs(5*time.Millisecond, time.Millisecond, 0)
	m.cost.Set(10*time.Second, 100*time.Second)
	m.cost.SetRow(time.Millisecond / 2)
	seen := map[int]bool{}
	for _, verify := range []func(int) time.Duration{noTime, func(n int) time.Duration { return time.Duration(n) * time.Millisecond }} {
		for worth := time.Millisecond; worth < time.Second; worth = worth * 21 / 20 {
			want, best := 0, 0.0
			for n := 1; n <= 7; n++ {
				gain := 0.0
				for k, depth := range []int{2, 7} {
					right := 1.0
					for range min(n, depth) {
						right *= texts[k].Judge.Expected()
						gain += right
					}
				}
				shape := sched.ShapeOf(19, 1+min(n, 2)).Add(39, 1+n)
				shape.Rows = min(n, 2) + n
				wins := gain*float64(worth) - 1.05*float64(m.cost.Estimate(shape)+verify(min(n, 2)+n))
				if wins > best {
					want, best = n, wins
				}
			}
			seen[want] = true
			if got := m.most(texts, worth, verify); got != want {
				t.Errorf("a token is worth %v: %d are guessed, want %d", worth, got, want)
			}
		}
	}
	if !seen[0] || len(seen) < 5 {
		t.Errorf("numbers of guesses that are best somewhere: %v", seen)
	}
}

// A text without room for guesses has none, and the others have what is worth it: a block of one token too, where more are
// not. What a step takes is what the layer had last evaluated.
func TestGuessesOfTexts(t *testing.T) {
	for name, m := range draftLayers(t, Config{Ctx: 256, Batch: 64, Sequences: 16}) {
		used := m.e.kv.Used
		last, some, two := m.textOf(t, 20, 1, 4), m.textOf(t, 21, 50, 1), m.textOf(t, 22, 50, 2)
		was := used()
		if got := m.guess([]*mtpText{last, some, two}, time.Hour, noTime); !slices.Equal(got, []int{0, 1, 2}) {
			t.Errorf("%s: %d tokens are guessed, want none, 1 and 2", name, got)
		}
		if used() != was || some.at != 0 || last.at == 0 {
			t.Errorf("%s: guesses leave %d bytes, %d before", name, used(), was)
		}
		width := m.bytes() / 4 / (1 + m.e.model.NextSteps())
		for _, text := range []*mtpText{some, two} {
			n := 0
			for _, h := range text.hidden {
				n += 4 * len(h)
			}
			if len(text.hidden) > 0 && len(text.hidden[0]) != width || n > m.bytes() || m.e.model.NextSteps() == 0 && len(text.hidden) > 0 && n != m.bytes() ||
				m.e.model.NextSteps() == 3 && n != m.bytes()/4*(1+len(text.Found())) {
				t.Errorf("%s: %d bytes are kept of a text, %d are said", name, n, m.bytes())
			}
		}
		m.cost = costs(5*time.Millisecond, time.Millisecond, 0)
		one := m.textOf(t, 23, 50, 4)
		if got := m.guess([]*mtpText{one}, 0, noTime); got[0] != 0 || one.at == 0 {
			t.Errorf("%s: %d tokens are guessed that save nothing", name, got)
		}
		block, _ := m.e.model.NextBlock()
		least := 7 * time.Millisecond // of a block of one guess
		if block == 0 {
			least = 6 * time.Millisecond
		}
		worth := time.Duration(1.1*1.05/one.Judge.Expected()*float64(least)) + 1
		dear := func(n int) time.Duration { return time.Duration(max(n-1, 0)) * time.Hour } // a second draft never pays
		if got := m.guess([]*mtpText{one}, worth, dear); got[0] != 1 {
			t.Errorf("%s: %d tokens are guessed, want the one that is worth it", name, got)
		}
	}
}

// Texts share the steps of a layer as far as the sequences, the rows of logits and the tokens of a pass go: the tokens of the
// last step, where each guess has a layer. The others have no guesses; those of a block have a step of their own.
func TestTextsOfAStep(t *testing.T) {
	for name, m := range draftLayers(t, Config{Ctx: 256, Batch: 64, Sequences: 16}) {
		steps := max(m.e.model.NextSteps(), 1)
		for what, c := range map[string]struct{ seqs, logits, batch, want int }{
			"sequences": {2, 32, 64, 2}, "rows": {4, 3, 64, 3}, "tokens": {4, 32, 3*steps + steps - 1, 3}, "all": {4, 32, 4 * steps, 4},
		} {
			var texts []*mtpText
			for i := range 4 {
				texts = append(texts, m.textOf(t, 20+i, 50, 3))
			}
			block, _ := m.e.model.NextBlock()
			undo := m.e.limited(c.seqs, c.logits, c.batch+min(block, 1))
			found := m.guess(texts, time.Hour, noTime)
			undo()
			for i, n := range found {
				if want := block > 0 && what == "tokens" || i < c.want; (n > 0) != want {
					t.Errorf("%s, %s: %d tokens are guessed", name, what, found)
				}
			}
		}
	}
	m := draftLayers(t, Config{Ctx: 256, Batch: 64, Sequences: 16})["a block"]
	texts := []*mtpText{m.textOf(t, 20, 50, 3), m.textOf(t, 21, 50, 2), m.textOf(t, 22, 50, 3)}
	for _, c := range []struct{ batch, logits, n, want int }{
		{11, 32, 9, 3}, {10, 32, 9, 2}, {7, 32, 9, 2}, {6, 32, 9, 1}, {4, 32, 9, 1}, {64, 8, 9, 3}, {64, 7, 9, 2}, {64, 5, 9, 2}, {64, 4, 9, 1},
		{6, 32, 1, 3}, {5, 32, 1, 2}, {64, 3, 1, 3}, {64, 2, 1, 2},
	} {
		undo := m.e.limited(4, c.logits, c.batch)
		if got := m.fitting(texts, c.n); got != c.want {
			t.Errorf("%+v: %d texts share a step", c, got)
		}
		undo()
	}
}

// Layers that draft go on where a context was shifted: they know which token of the text is which of the sequence.
func TestGuessesAfterAShift(t *testing.T) {
	for name, path := range map[string]string{
		"one layer": nextOf(t, "llama", 1), "a block": headFor(t, tiny, scripted.Head{Arch: "dflash", Inputs: []int{0, 1, 2}}),
	} {
		h := byHand(t, path, Config{Ctx: 64, Shift: true, MTP: true, Sequences: 2})
		r := greedyRequest(randomIDs(h.e, 3, 40), 120)
		r.Draft = draft.Options{Sources: 1 << h.e.mtp.source(), Max: 4}
		k, sink := submit(t, h.Loop, r)
		guesses, shifts := []uint64{0}, 0 // since each shift
		for len(h.jobs) > 0 {
			h.turn()
			for ; shifts < k.j.usage.Shifts; shifts++ {
				guesses = append(guesses, 0)
			}
			n, _ := k.j.usage.Drafted.Total()
			guesses[shifts] = n
		}
		sink.wait(t)
		if len(guesses) < 4 {
			t.Fatalf("%s: it is shifted %d times", name, shifts)
		}
		for i := 1; i < len(guesses)-1; i++ {
			if guesses[i] < guesses[i-1]+2 {
				t.Errorf("%s: %d tokens were guessed up to shift %d, %d up to the next", name, guesses[i-1], i, guesses[i])
			}
		}
	}
}
