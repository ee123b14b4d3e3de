package generate

import (
	"math"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sample"
)

// proposing returns a model's proposal for a text in a vocabulary of 64 tokens, in its first round.
func proposing(t *testing.T, o draft.Options) *Proposal {
	t.Helper()
	o.Sources = 1 << draft.Model
	g, err := New(Params{Prompt: []int32{5, 6, 7}, MaxTokens: 40, Sampling: sample.Params{RepeatPenalty: 1}, Draft: o},
		Config{Vocab: 64, Ctx: 128, MaxRows: 32})
	if err != nil {
		t.Fatal(err)
	}
	lib := draft.NewLibrary()
	g.Speculate(lib, "")
	if !g.DraftsFrom(draft.Model) || g.DraftsFrom(draft.MTP) {
		t.Fatal("a text drafts from the sources that it asks for, and from no others")
	}
	p := NewProposal(g, draft.Model, lib, nil)
	p.Begin()
	return &p
}

func same(i int32) int32 { return i }

// Logits that are not numbers end drafting for a text; earlier guesses are kept.
func TestNoLogitsToDraftFrom(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, logits := range [][]float32{{nan, 1, 2}, {nan, nan, nan}, {1, inf, 2}, {inf, inf, inf}, {-inf, -inf, -inf}} {
		p := proposing(t, draft.Options{Max: 6})
		p.Take([]float32{1, 3, 2}, same)
		p.Take(logits, same)
		if found := p.Found(); !p.Lost || p.GoesOn() || len(found) != 1 || found[0].ID != 1 {
			t.Errorf("%v: lost %v, found %v", logits, p.Lost, found)
		}
	}
	p := proposing(t, draft.Options{Max: 6})
	if p.Take([]float32{1, nan, 2}, same); p.Lost || p.Found()[0].ID != 2 {
		t.Errorf("found %v, lost %v, want token 2: the one that is no number is not likely", p.Found(), p.Lost)
	}
}

// The guesses become the text's own, with second guesses as branches, if there are as many as the text asks for and they
// promise more than those it has. A new round begins with none.
func TestPropose(t *testing.T) {
	sure, unsure := []float32{0, 9, 1, 1}, []float32{0, 1, 5, 4.9}
	p := proposing(t, draft.Options{Max: 6})
	p.Take(unsure, func(i int32) int32 { return i + 10 })
	p.Take(sure, same)
	p.Propose()
	ids, branched := []int32{}, false
	for _, g := range p.Gen.Guesses() {
		ids, branched = append(ids, g.ID), branched || g.Back > 0
		if g.Source != draft.Model || g.Chance <= 0 || g.Chance > 1 {
			t.Errorf("guess %+v", g)
		}
	}
	if !slices.Contains(ids, 12) || !slices.Contains(ids, 13) || !slices.Contains(ids, 1) || !branched {
		t.Errorf("guesses %v, want 12 and 1, and 13 beside 12", p.Gen.Guesses())
	}
	if p.Begin(); len(p.Found()) > 0 || p.Gain() != p.Judge.Expected() {
		t.Errorf("a new round begins with %v", p.Found())
	}
	p.Take(sure, same)
	was := slices.Clone(p.Gen.Guesses())
	if p.Propose(); !slices.Equal(p.Gen.Guesses(), was) {
		t.Errorf("%v took the place of %v, which promise more", p.Gen.Guesses(), was)
	}
	p = proposing(t, draft.Options{Max: 6, Min: 3})
	p.Take(sure, same)
	p.Take(sure, same)
	if p.Propose(); len(p.Gen.Guesses()) > 0 {
		t.Errorf("guesses %v, where fewer than 3 are none", p.Gen.Guesses())
	}
}
