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

// says makes the text go on with a token.
func says(t *testing.T, g *Generation, id int32) {
	t.Helper()
	row := make([]float32, g.Vocab)
	row[id] = 100
	s, err := g.Advance(len(g.Known())-g.Evaluated(), [][]float32{row})
	if err != nil || len(s.Tokens) != 1 || s.Tokens[0].ID != id {
		t.Fatalf("%+v, %v, want token %d", s, err, id)
	}
}

// A model that is wrong is believed less from round to round, and its second guesses more if they are right.
func TestRoundsAreJudged(t *testing.T) {
	for name, c := range map[string]struct {
		next          int32 // how the text goes on: the first guess is 2, the second is 3
		first, second int   // whether what they are given rises or falls
	}{
		"the first is right":  {2, +1, 0},
		"the second is right": {3, -1, +1},
		"both are wrong":      {9, -1, -1},
	} {
		p := proposing(t, draft.Options{Max: 6})
		var first, second []float64
		gain := p.Gain()
		for range 20 {
			p.Begin()
			p.Take([]float32{4.2, 4.2, 5, 4.6}, same)
			first = append(first, p.Found()[0].Chance)
			if len(p.rivals) > 0 { // it is likely enough
				second = append(second, p.rivals[0].Chance/(1-p.Found()[0].Chance))
			}
			says(t, p.Gen, c.next)
		}
		p.Begin()
		for what, got := range map[string][2]float64{
			"first":  {first[19] - first[0], float64(c.first)},
			"second": {second[len(second)-1] - second[0], float64(c.second)},
			"next":   {p.Gain() - gain, float64(c.first)},
		} {
			if d, want := got[0], got[1]; want == 0 && math.Abs(d) > 1e-9 || want != 0 && d*want < 0.05 {
				t.Errorf("%s: the chance of the %s guess changed by %.3f, want a sign of %+.0f", name, what, d, want)
			}
		}
	}
}

// Second guesses are made for the next tokens alone, where the text may have two guesses and theirs are likely enough.
func TestSecondGuesses(t *testing.T) {
	close, far := []float32{0, 0, 5, 4.9}, []float32{0, 0, 9, 1}
	for name, c := range map[string]struct {
		o      draft.Options
		logits []float32
		want   int
	}{
		"near the first":  {draft.Options{Max: 16}, close, rivalDepth},
		"two":             {draft.Options{Max: 2}, close, rivalDepth},
		"one":             {draft.Options{Max: 1}, close, 0},
		"far behind":      {draft.Options{Max: 16}, far, 0},
		"too little":      {draft.Options{Max: 16, MinChance: 0.6}, close, 0},
		"nothing but one": {draft.Options{Max: 16}, []float32{3}, 0},
	} {
		p := proposing(t, c.o)
		for n := range 6 {
			if p.Take(c.logits, same); len(p.Found()) != n+1 || len(p.rivals) > n+1 {
				t.Fatalf("%s: %d guesses, %d seconds after %d tokens", name, len(p.Found()), len(p.rivals), n+1)
			}
		}
		if len(p.rivals) != c.want {
			t.Errorf("%s: %d second guesses, want %d", name, len(p.rivals), c.want)
		}
		for i, r := range p.rivals {
			if r.depth != i || r.ID != 3 || r.Source != draft.Model || r.Chance < leastRival ||
				r.Chance+p.Found()[i].Chance > 1 {
				t.Errorf("%s: second guess %d is %+v beside %+v", name, i, r, p.Found()[i])
			}
		}
	}
}

// A model goes on guessing while its guesses are likely and may be used, and is not run where the text has better ones.
func TestGoesOn(t *testing.T) {
	sure, unsure := []float32{0, 30, 1, 1}, make([]float32, 40)
	count := func(p *Proposal, logits []float32) (n int) {
		for n = 1; ; n++ {
			if p.Take(logits, same); !p.GoesOn() || n == 50 {
				return n
			}
		}
	}
	for name, c := range map[string]struct {
		o      draft.Options
		logits []float32
		want   int
	}{
		"as many as are asked for": {draft.Options{Max: 5}, sure, 5},
		"as many as there may be":  {draft.Options{Max: 99}, sure, draft.MaxGuesses},
		"an unlikely one":          {draft.Options{Max: 5}, unsure, 1},
		"a chance that is too low": {draft.Options{Max: 5, MinChance: 0.99}, sure, 1},
	} {
		if n := count(proposing(t, c.o), c.logits); n != c.want {
			t.Errorf("%s: %d guesses, want %d", name, n, c.want)
		}
	}
	p := proposing(t, draft.Options{Max: 30})
	for range 37 {
		says(t, p.Gen, 8)
	}
	if p.Begin(); count(p, sure) != 2 {
		t.Errorf("%d guesses, where three tokens may come, of which the last is no draft", len(p.Found()))
	}

	likely := func(n int, chance float64) (list []draft.Guess) {
		for range n {
			list = append(list, draft.Guess{ID: 1, Chance: chance, Source: draft.NGram})
		}
		return list
	}
	for name, c := range map[string]struct {
		forced []int32
		list   []draft.Guess
		want   bool
	}{
		"nothing":          {want: false},
		"a forced token":   {forced: []int32{4}, want: true},
		"two sure tokens":  {list: likely(2, 1), want: false},
		"three":            {list: likely(3, 1), want: true},
		"many likely ones": {list: likely(9, 0.7), want: true},
		"unlikely ones":    {list: likely(9, 0.5), want: false},
	} {
		p := proposing(t, draft.Options{Max: 16})
		p.Gen.Propose(c.forced)
		if p.Gen.SetGuesses(c.list); p.Promised() != c.want {
			t.Errorf("%s: a model need not guess: %v, want %v", name, !c.want, c.want)
		}
	}
}

// The expected number of accepted guesses is the sum of the chances to reach each of them.
func TestExpected(t *testing.T) {
	tree := []draft.Guess{{Chance: 0.5}, {Chance: 0.5}, {Chance: 0.25, Back: 1}, {Chance: 0.4, Back: 3}, {Chance: 1}}
	if got, want := expected(tree), 0.5+0.25+0.125+0.4+0.4; math.Abs(got-want) > 1e-12 {
		t.Errorf("%v, want %v", got, want)
	}
}

// The likeliest two tokens have the probabilities that the softmax of all gives them, the second one's if it is not the
// first.
func TestTopTokens(t *testing.T) {
	for _, logits := range [][]float32{
		{1, 2, 3}, {3, 1, 2, 3}, {-5, -4}, {0.5, 20, 3, -30}, {7}, {4, 1, 5}, {2, 5, 2}, {2, 2, 2},
	} {
		sum, first, second := 0.0, 0, -1
		for i, v := range logits {
			if sum += math.Exp(float64(v)); v > logits[first] {
				first = i
			}
		}
		for i, v := range logits {
			if i != first && (second < 0 || v > logits[second]) {
				second = i
			}
		}
		id, p, ok := topToken(logits)
		if want := math.Exp(float64(logits[first])) / sum; !ok || int(id) != first || math.Abs(float64(p)-want) > 1e-6 {
			t.Errorf("%v: token %d, %v, want %d, %v", logits, id, p, first, want)
		}
		other, q := secondToken(logits, id, p)
		if second < 0 || p >= 1 {
			if other != -1 || q != 0 {
				t.Errorf("%v: second %d, %v, want none", logits, other, q)
			}
			continue
		}
		want := math.Exp(float64(logits[second])) / (sum - math.Exp(float64(logits[first])))
		if int(other) != second || math.Abs(float64(q)/want-1) > 1e-2 {
			t.Errorf("%v: second %d, %v, want %d, %v", logits, other, q, second, want)
		}
	}
}

// logits of which the first two places are the first and the second guess.
func near(first, second int32) []float32 {
	row := make([]float32, 64)
	row[first], row[second] = 5, 4.9
	return row
}

// A second guess is beside the first at its place: it follows the guesses before that. Of all guesses as many are
// proposed as the text may have, the likeliest.
func TestPlacesOfSecondGuesses(t *testing.T) {
	for most := 2; most <= 8; most++ {
		p := proposing(t, draft.Options{Max: most})
		for i := range int32(4) {
			p.Take(near(30-i, i), same) // token 0 may be a second guess, as any
		}
		p.Propose()
		list := p.Gen.Guesses()
		if want := min(most, 4+rivalDepth); len(list) != want {
			t.Fatalf("%d guesses, want %d: %+v", len(list), want, list)
		}
		seconds := 0
		for i, g := range list {
			depth, b := 0, i
			for b = draft.Before(list, b); b >= 0; b = draft.Before(list, b) {
				if depth++; list[b].ID <= 3 {
					t.Errorf("%+v follows a second guess", g)
				}
			}
			if g.ID <= 3 {
				seconds++
			}
			if g.ID != int32(30-depth) && g.ID != int32(depth) {
				t.Errorf("of at most %d guesses %+v has %d before it", most, g, depth)
			}
		}
		if most == 8 && seconds != rivalDepth {
			t.Errorf("%d second guesses, want %d", seconds, rivalDepth)
		}
	}
}

// Guesses are proposed from the least number on that the text asks for, and take the place of others only if they promise
// more; one guess may be enough.
func TestLeastProposal(t *testing.T) {
	for least := range 4 {
		for n := 1; n <= 4; n++ {
			p := proposing(t, draft.Options{Max: 6, Min: least})
			for range n {
				p.Take([]float32{0, 9, 1, 1}, same)
			}
			if p.Propose(); len(p.Gen.Guesses()) > 0 != (n >= least) {
				t.Errorf("%d guesses, of at least %d: %v are proposed", n, least, p.Gen.Guesses())
			}
		}
	}
	p := proposing(t, draft.Options{Max: 6})
	p.Gen.SetGuesses([]draft.Guess{{ID: 1, Chance: 0.5, Source: draft.NGram}})
	p.found = []draft.Guess{{ID: 2, Chance: 0.5, Source: draft.Model}}
	if p.Propose(); p.Gen.Guesses()[0].ID != 1 {
		t.Error("guesses that promise as much took the place of others")
	}
}

// A further guess is worth it as long as the last was as likely as the text asks for, and all are right with more than a
// tenth.
func TestBoundsOfGoingOn(t *testing.T) {
	p := proposing(t, draft.Options{Max: 6, MinChance: 0.5})
	for _, c := range []struct {
		chance, reach float64
		want          bool
	}{{0.5, 1, true}, {0.49, 1, false}, {0.51, 1, true}, {0.5, 0.11, true}, {0.5, 0.1, false}, {0.5, 0.05, false}} {
		p.found, p.reach = []draft.Guess{{ID: 2, Chance: c.chance}}, c.reach
		if p.GoesOn() != c.want {
			t.Errorf("%+v: it goes on: %v", c, !c.want)
		}
	}
}

// A model with the text's vocabulary has nothing to convert.
func TestNothingToTranslate(t *testing.T) {
	p := proposing(t, draft.Options{Max: 6})
	p.Take([]float32{0, 9, 1, 1}, same)
	p.Read(2)
	p.Translate()
	if p.Translates() || p.Lost || len(p.Found()) != 1 || !slices.Equal(p.Known(), p.Gen.Known()) {
		t.Errorf("lost %v, found %v, the text is %v", p.Lost, p.Found(), p.Known())
	}
}
