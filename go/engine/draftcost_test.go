package engine

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/sched"
)

// drafting returns a model that drafts for another, whose passes take no time and cost what a test says.
func drafting(t *testing.T, c Config) *draftModel {
	t.Helper()
	e := open(t, tiny, Config{Ctx: 1024})
	c.Device = e.device
	small := open(t, tiny, c)
	if err := e.DraftWith(small, func(err error) { t.Error(err) }); err != nil {
		t.Fatal(err)
	}
	small.timeless = true
	return e.drafts
}

// text returns a text of n tokens that may have `most` more.
func (m *draftModel) textOf(t *testing.T, n, most int) *modelText {
	t.Helper()
	p := generate.Params{Prompt: randomIDs(m.e, uint64(n), n), MaxTokens: most, Sampling: sample.Params{RepeatPenalty: 1},
		Draft: draft.Options{Sources: 1 << draft.Model, Max: 4}}
	g, err := generate.New(p, generate.Config{Vocab: m.e.model.Config.NVocab, Ctx: 1024, MaxRows: maxOut})
	if err != nil {
		t.Fatal(err)
	}
	lib := draft.NewLibrary()
	g.Speculate(lib, "")
	text := m.text(g, lib, "")
	text.Begin()
	t.Cleanup(text.drop)
	return text
}

// costs are those of passes of any length: so much for each, for each token, and for a million positions.
func costs(first, token, read time.Duration) (c sched.Cost) {
	for _, n := range []int{1, 2, 4, 8, 16, 32, 64, 128} {
		c.Observe(sched.Shape{Tokens: n, Rows: 1}, first+time.Duration(n)*token)
	}
	c.Set(0, read)
	return c
}

func noTime(int) time.Duration { return 0 }

// A further guess at each text is worth it while what it saves exceeds what the pass takes, of all texts together, and what
// further drafts take to verify, by a twentieth.
func TestDraftsPay(t *testing.T) {
	m := drafting(t, Config{Ctx: 512, Batch: 64, Sequences: 4})
	some, long := m.textOf(t, 20, 50), m.textOf(t, 40, 50)
	for _, text := range []*modelText{some, long} {
		text.attach(m.e)
	}
	if !m.pays([]*modelText{some}, 0, 0, noTime) {
		t.Error("the first pass does not pay, which measures the cost")
	}
	m.cost = costs(5*time.Millisecond, time.Millisecond, time.Hour)
	check := func(what string, active []*modelText, n int, shape sched.Shape) {
		t.Helper()
		gain := 0.0
		for _, text := range active {
			gain += text.Gain()
		}
		verify := func(n int) time.Duration { return time.Duration(n*n) * time.Millisecond }
		took := m.cost.Estimate(shape) + verify(n+len(active)) - verify(n)
		bound := 1.05 * float64(took) / gain
		for worth, want := range map[time.Duration]bool{time.Duration(bound * 0.999): false, time.Duration(bound * 1.001): true} {
			if m.pays(active, n, worth, verify) != want {
				t.Errorf("%s: with %v for a token it pays: %v, from %v on", what, worth, !want, time.Duration(bound))
			}
		}
	}
	check("a text that is new", []*modelText{some}, 0, sched.Shape{Tokens: 20, Read: 20, Rows: 1})
	check("two", []*modelText{some, long}, 3, sched.Shape{Tokens: 60, Read: 60, Rows: 2})
	if err := m.step([]*modelText{some, long}); err != nil || len(some.Found()) != 1 || len(long.Found()) != 1 {
		t.Fatal(err, some.Found(), long.Found())
	}
	check("after a guess", []*modelText{some}, 1, sched.Shape{Tokens: 1, Read: 22, Rows: 1})
	check("two after a guess", []*modelText{some, long}, 2, sched.Shape{Tokens: 2, Read: 22 + 42, Rows: 2})
}

// The model catches up with a text where the tokens that may still come save twice as much as it takes, in slices that do
// not take longer than two tokens are worth.
func TestCatchingUp(t *testing.T) {
	m := drafting(t, Config{Ctx: 1024, Batch: 128, Sequences: 4})
	const worth = 40 * time.Millisecond
	soon := m.soon()
	for name, c := range map[string]struct {
		cost   sched.Cost
		tokens int
		has    int // evaluated
		ready  bool
	}{
		"few":                   {costs(0, time.Millisecond, 0), soon, 0, true},
		"one too many":          {costs(0, time.Millisecond, 0), soon + 1, soon, true},
		"many":                  {costs(0, time.Microsecond, 0), 128 + soon, 128, true},
		"very many":             {costs(0, time.Microsecond, 0), 129 + soon, 128, false},
		"in slices":             {costs(0, time.Millisecond, 0), 161, 64, false}, // 128 take 128 ms, 64 take 64 ms
		"in slices, just":       {costs(16*time.Millisecond, time.Millisecond/2, 0), 161, 128, true},
		"in the smallest slice": {costs(20*time.Millisecond, 2*time.Millisecond, 0), 150, 32, false},
	} {
		m.cost = c.cost
		text := m.textOf(t, c.tokens, -1)
		text.attach(m.e)
		ready, err := m.catchUp(text, worth)
		if err != nil || ready != c.ready || name != "few" && name != "one too many" && text.seq.Len() != c.has {
			t.Errorf("%s: %d tokens of %d are evaluated, ready %v: %v, want %d", name, text.seq.Len(), c.tokens, ready, err, c.has)
		}
	}
	m.cost = costs(0, time.Millisecond, 0)
	const tokens = 110
	text := m.textOf(t, tokens, -1)
	text.attach(m.e)
	each := text.Judge.Expected()*float64(worth) - float64(m.cost.Estimate(sched.ShapeOf(tokens, 1)))
	least := 2 * float64(m.cost.Estimate(sched.ShapeOf(0, tokens))) / each
	if least < 3 || least > 200 {
		t.Fatalf("it pays from %.1f tokens on", least)
	}
	for most := int(least) - 1; most <= int(least)+2; most++ {
		text := m.textOf(t, tokens, most)
		text.attach(m.e)
		if _, err := m.catchUp(text, worth); err != nil || text.seq.Len() > 0 != (float64(most) >= least) {
			t.Errorf("of %d tokens that may come, where it pays from %.1f on, it evaluates %d: %v", most, least, text.seq.Len(), err)
		}
	}
	// What has been generated does not come again.
	for said := range 2 {
		text := m.textOf(t, tokens-said, int(least)+said)
		for range said {
			says(t, text.Gen, 9)
		}
		text.attach(m.e)
		if _, err := m.catchUp(text, worth); err != nil || text.seq.Len() > 0 {
			t.Errorf("after %d tokens of %d it evaluates %d: %v", said, int(least)+said, text.seq.Len(), err)
		}
	}
	m.cost = costs(0, 300*time.Millisecond, 0) // 256 tokens do not save it: more are not counted on
	text = m.textOf(t, tokens, -1)
	text.attach(m.e)
	if _, err := m.catchUp(text, worth); err != nil || text.seq.Len() > 0 {
		t.Errorf("%d tokens of an expensive model are evaluated: %v", text.seq.Len(), err)
	}
}

// Texts share the first pass as far as the batch and the sequences go; the others wait. A text whose guesses cannot be
// used is not guessed at.
func TestTextsOfADraftingPass(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		texts  []int
		want   []bool
	}{
		"all":           {Config{Ctx: 256, Batch: 64, Sequences: 4}, []int{20, 20, 24}, []bool{true, true, true}},
		"a small batch": {Config{Ctx: 256, Batch: 64, Sequences: 4}, []int{20, 20, 25, 24}, []bool{true, true, false, true}},
		"two sequences": {Config{Ctx: 256, Batch: 64, Sequences: 2}, []int{5, 6, 7}, []bool{true, true, false}},
		"a short context": {
			Config{Ctx: 64, Batch: 64, Sequences: 2}, []int{64 - draft.MaxGuesses - 1, 64 - draft.MaxGuesses}, []bool{true, false},
		},
	} {
		m := drafting(t, c.config)
		var texts []*modelText
		for _, n := range c.texts {
			texts = append(texts, m.textOf(t, n, 50))
		}
		m.draft(texts, time.Hour, noTime)
		for i, text := range texts {
			if got := len(text.Found()) > 0; got != c.want[i] || text.Lost {
				t.Errorf("%s: text %d has %d guesses", name, i, len(text.Found()))
			}
		}
	}
	m := drafting(t, Config{Ctx: 256, Batch: 64, Sequences: 4})
	last, next, promised, forced := m.textOf(t, 20, 1), m.textOf(t, 21, 2), m.textOf(t, 22, 50), m.textOf(t, 23, 50)
	promised.Gen.SetGuesses(slices.Repeat([]draft.Guess{{ID: 3, Chance: 0.95}}, 4))
	forced.Gen.Propose([]int32{5})
	m.draft([]*modelText{last, next, promised, forced}, time.Hour, noTime)
	if len(last.Found()) != 0 || len(next.Found()) != 1 || len(promised.Found()) != 0 || len(forced.Found()) != 0 {
		t.Errorf("guesses %v, %v, %v, %v", last.Found(), next.Found(), promised.Found(), forced.Found())
	}
	lost, found := m.textOf(t, 24, 50), m.textOf(t, 25, 50)
	lost.Lost = true
	m.draft([]*modelText{lost, found}, time.Hour, noTime)
	if len(lost.Found()) != 0 || lost.seq != nil || len(found.Found()) == 0 {
		t.Errorf("a text that is lost has %d guesses, another %d", len(lost.Found()), len(found.Found()))
	}
	// Nothing is worth a token that saves nothing.
	m.cost = costs(time.Millisecond, time.Microsecond, 0)
	free := m.textOf(t, 20, 50)
	if m.draft([]*modelText{free}, 0, noTime); len(free.Found()) != 0 {
		t.Errorf("guesses %v that save nothing", free.Found())
	}
}

// What the draft model knows of a text is what the text still has, at most all but its last token; at its end it is kept
// for texts that go on from it, without what was only guessed.
func TestStateOfADraftedText(t *testing.T) {
	m := drafting(t, Config{Ctx: 256, Batch: 64, Sequences: 4, Shared: true})
	text := m.textOf(t, 40, 50)
	m.draft([]*modelText{text}, time.Hour, noTime)
	if text.work != nil || text.seq.Len() <= 40 {
		t.Fatalf("%d tokens are evaluated with the guesses", text.seq.Len())
	}
	if text.attach(m.e); text.seq.Len() != 39 {
		t.Errorf("%d tokens of a text that is the same, want all but the last of 40", text.seq.Len())
	}
	says(t, text.Gen, 9)
	text.Begin()
	m.draft([]*modelText{text}, time.Hour, noTime)
	text.close()
	text.close() // again
	if n := m.e.tree.Len("", text.Known()); n != 41 {
		t.Errorf("%d tokens are kept of 41", n)
	}
	next := m.textOf(t, 40, 50) // the same prompt
	if next.attach(m.e); next.seq.Len() != 39 {
		t.Errorf("%d tokens are found of a text of 40", next.seq.Len())
	}
	next.drop()
	if next.drop(); next.seq != nil {
		t.Error("what is dropped is there")
	}
	if all, idle := m.e.tree.Bytes(); all == 0 || all != idle || m.e.kv.Available() != m.e.kv.Limit() {
		t.Errorf("%d of %d bytes are kept, %d of %d are available", idle, all, m.e.kv.Available(), m.e.kv.Limit())
	}
	var none *draftModel
	if none.textBytes(5) != 0 || m.textBytes(5) != 3*mem.Appended(20) || m.textBytes(1000) != 3*mem.Appended(4*256) {
		t.Errorf("texts take %d and %d bytes", m.textBytes(5), m.textBytes(1000))
	}
}

// says makes a text go on with a token.
func says(t *testing.T, g *generate.Generation, id int32) {
	t.Helper()
	row := make([]float32, g.Vocab)
	row[id] = 100
	if s, err := g.Advance(len(g.Known())-g.Evaluated(), [][]float32{row}); err != nil || s.Tokens[0].ID != id {
		t.Fatalf("%+v, %v", s, err)
	}
}

// A pause is a minute, and twice as long each time, up to an hour; a pass ends that.
func TestPauses(t *testing.T) {
	var told []error
	m := &draftModel{failed: func(err error) { told = append(told, err) }}
	for i, want := range []time.Duration{1, 2, 4, 8, 16, 32, 60, 60} {
		why, now := errors.New("why"), time.Now()
		m.fail(why)
		if off := m.off.Sub(now); m.pause != want*time.Minute || off < m.pause || off > m.pause+time.Minute/2 {
			t.Errorf("failure %d: off for %v, the pause is %v, want %v", i+1, off, m.pause, want*time.Minute)
		}
		if len(told) != i+1 || told[i] != why {
			t.Errorf("failure %d: told %v", i+1, told)
		}
	}
	m.failed = nil
	m.fail(nil) // nobody is told
	d := drafting(t, Config{Ctx: 256})
	d.pause = time.Hour
	if err := d.step([]*modelText{d.attached(d.textOf(t, 9, 9))}); err != nil || d.pause != 0 {
		t.Errorf("after a pass: %v, %v", d.pause, err)
	}
}

func (m *draftModel) attached(text *modelText) *modelText {
	text.attach(m.e)
	return text
}
