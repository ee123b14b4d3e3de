package generate

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/sched"
)

// What a pass evaluates of a tree of drafts, which row belongs to which draft, and which sequence has it, by definition:
// some drafts are forced, some branches are snapshots, which have nothing new.
func TestTrees(t *testing.T) {
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(3, seed))
		var d drafts
		var parents []int
		for v := range rng.IntN(3) {
			d.draft, parents = append(d.draft, int32(rng.IntN(2))), append(parents, v-1)
		}
		for i := range rng.IntN(8) {
			parent := len(d.draft) - 1
			if i > 0 && rng.IntN(2) == 0 {
				parent = d.Forced() - 1 + rng.IntN(i+1)
			}
			d.guesses = append(d.guesses, draft.Guess{Back: len(d.draft) - 1 - parent, Source: draft.MTP})
			d.draft, parents = append(d.draft, int32(rng.IntN(2))), append(parents, parent)
		}
		path := func(v int) (list []int) {
			for ; v >= 0; v = parents[v] {
				list = append(list, v)
			}
			slices.Reverse(list)
			return list
		}
		trunk := 0
		for trunk < len(parents) && parents[trunk] == trunk-1 {
			trunk++
		}
		if d.trunk() != trunk {
			t.Fatalf("of the parents %v %d drafts are the trunk, want %d", parents, d.trunk(), trunk)
		}
		trunk = rng.IntN(trunk + 1) // in the pass
		sequences, order := [][]int{path(trunk - 1)}, []int{-1}
		order = append(order, sequences[0]...)
		for range rng.IntN(4) {
			b := sched.Branch{Path: path(rng.IntN(len(parents)+1) - 1)}
			for _, v := range b.Path {
				if !slices.Contains(order, v) {
					b.New++
					order = append(order, v)
				}
			}
			d.split, sequences = append(d.split, b), append(sequences, b.Path)
		}
		if got := d.evaluated(nil, trunk); !slices.Equal(got, order) {
			t.Fatalf("rows of %v, want %v", got, order)
		}
		for v, parent := range parents {
			source := draft.MTP
			if v < d.Forced() {
				source = draft.Forced
			}
			if d.before(v) != parent || d.source(v) != source {
				t.Fatalf("draft %d follows %d, by %v, want %d, %v", v, d.before(v), d.source(v), parent, source)
			}
		}
		for v := -1; v < len(parents); v++ {
			for id := range int32(3) {
				k := slices.IndexFunc(order, func(w int) bool { return w >= 0 && parents[w] == v && d.draft[w] == id })
				k = max(k, 0)
				if got := d.follows(order, v, id); got != k {
					t.Fatalf("token %d after draft %d is row %d, want %d", id, v, got, k)
				}
			}
			last := func(s []int) bool { return len(s) == 0 && v < 0 || len(s) > 0 && s[len(s)-1] == v }
			want := slices.IndexFunc(sequences, last)
			if want < 0 {
				want = max(slices.IndexFunc(sequences, func(s []int) bool { return slices.Contains(s, v) }), 0)
			}
			if got := d.sequence(v, trunk); got != want {
				t.Fatalf("of %v sequence %d has draft %d, want %d", sequences, got, v, want)
			}
		}
	}
}

// Of a model whose state cannot be rolled back a pass keeps snapshots: the text goes on from the one where its right
// drafts end, without a token too many.
func TestSnapshots(t *testing.T) {
	p := asked()["25 tokens"]
	p.Sampling.Temp = 0
	want, _ := drive(t, p, Config{Ctx: 60}).all(t, func() (int, []sched.Branch) { return 100, nil })
	for right := range 4 {
		d := drive(t, p, Config{Ctx: 60})
		d.pass(t, 5)
		list := slices.Clone(want[1:4])
		if right < 3 {
			list[right] = (list[right] + 1) % vocab
		}
		d.Propose(list)
		d.pass(t, 4, sched.Branch{}, sched.Branch{Path: []int{0}}, sched.Branch{Path: []int{0, 1}})
		if taken := (right + 1) % 4; d.Taken() != taken || d.Evaluated() != 6+right {
			t.Errorf("%d right drafts: sequence %d, %d tokens are evaluated, want %d, %d", right, d.Taken(), d.Evaluated(),
				taken, 6+right)
		}
	}
}

// What is told to a Scheduler of each draft: the one before it, and its chance, 1 where it is forced; there are no more
// than it has rows for, beside that of the text.
func TestDraftsOfAPass(t *testing.T) {
	p := asked()["25 tokens"]
	p.Constraint = &rule{next: func(text []int32) []int32 {
		if len(text) < 3 {
			return []int32{2}
		}
		return []int32{2, 3, 4}
	}, ahead: true}
	d := drive(t, p, Config{Ctx: 60})
	d.pass(t, 5) // two more are forced
	d.SetGuesses([]draft.Guess{{ID: 2, Chance: 0.5}, {ID: 4, Chance: 0.25}, {ID: 3, Chance: 0.125, Back: 2}})
	want := []sched.Draft{
		{Chance: 1, After: -1}, {Chance: 1, After: 0}, {Chance: 0.5, After: 1}, {Chance: 0.25, After: 2}, {Chance: 0.125, After: 1},
	}
	for rows := 1; rows < 9; rows++ {
		if got := d.Drafts(rows); !slices.Equal(got, want[:min(rows-1, 5)]) {
			t.Errorf("with %d rows %v, want %v", rows, got, want[:min(rows-1, 5)])
		}
	}
	d.MaxTokens = 4 // one is there, and the last is not drafted
	d.SetGuesses([]draft.Guess{{ID: 2, Chance: 0.5}, {ID: 4, Chance: 0.25}})
	if got := d.Drafts(9); !slices.Equal(got, want[:2]) {
		t.Errorf("%v, where two more may be drafted", got)
	}
}

// A text drafts if it asks for a source and for drafts, and has tokens to generate; a model drafts for it unless guesses
// are recorded.
func TestSpeculate(t *testing.T) {
	for _, c := range []struct {
		sources draft.Set
		max     int
		tokens  int
		want    bool
	}{
		{1 << draft.Model, 1, 1, true}, {1 << draft.Forced, 1, -1, true}, {1 << draft.Model, 5, 9, true},
		{0, 5, 9, false}, {1 << draft.Model, 0, 9, false}, {1 << draft.Model, 5, 0, false}, {},
	} {
		for _, recorded := range []bool{false, true} {
			p := asked()["25 tokens"]
			p.MaxTokens, p.Draft = c.tokens, draft.Options{Sources: c.sources, Max: c.max}
			if recorded {
				p.Draft.Record = &draft.Recording{Text: p.Prompt, Right: 1}
			}
			d := drive(t, p, Config{Ctx: 60})
			d.Speculate(draft.NewLibrary(), "")
			model := c.want && c.sources.Has(draft.Model) && !recorded
			if d.Speculates() != c.want || d.DraftsFrom(draft.Model) != model || d.DraftsFrom(draft.MTP) {
				t.Errorf("%+v: it drafts: %v, from a model: %v", c, d.Speculates(), d.DraftsFrom(draft.Model))
			}
		}
	}
}

// What a Drafter guesses comes after what is forced, and only where drafts are allowed: it learns the text all the same.
func TestGuessesOfADrafter(t *testing.T) {
	line := []int32{3, 1, 4, 1, 5, 9, 2, 6}
	p := asked()["25 tokens"]
	p.Prompt = slices.Concat(line, line, line[:5])
	p.Draft = draft.Options{Sources: 1 << draft.NGram, Max: 3}
	for _, learns := range []bool{false, true} {
		d := drive(t, p, Config{Ctx: 60})
		d.Guess(true) // without a Drafter there are none
		if len(d.Guesses()) > 0 {
			t.Fatalf("guesses %v of nobody", d.Guesses())
		}
		d.Speculate(draft.NewLibrary(), "")
		if learns {
			d.Guess(false)
			if len(d.Guesses()) > 0 {
				t.Errorf("guesses %v where none are allowed", d.Guesses())
			}
		}
		if d.Guess(true); !slices.Equal(d.draft, line[5:]) || len(d.Guesses()) != 3 {
			t.Errorf("guesses %v, drafts %v, want %v", d.Guesses(), d.draft, line[5:])
		}
	}
}

// Masks that were computed serve a later pass with the same drafts, and no other.
func TestMasksOfAnotherPass(t *testing.T) {
	d, r := (*driver)(nil), (*rule)(nil)
	begin := func() {
		p := asked()["25 tokens"]
		r = &rule{next: func([]int32) []int32 { return []int32{1, 3, 5} }}
		p.Constraint = r
		d = drive(t, p, Config{Ctx: 60})
		d.pass(t, 5)
		d.SetGuesses([]draft.Guess{{ID: 1}, {ID: 5, Back: 1}})
	}
	if begin(); len(d.Guesses()) != 2 {
		t.Fatalf("guesses %v, want two beside each other", d.Guesses())
	}
	d.Split(nil)
	d.Prepare(2)
	before := r.masks
	d.Split(nil) // the pass was aborted, and is made again
	if d.Prepare(2); r.masks != before {
		t.Errorf("%d masks are computed twice", r.masks-before)
	}
	begin()
	d.Prepare(1)
	for range 2 {
		d.Split([]sched.Branch{{Path: []int{1}, New: 1}})
		before = r.masks
		if d.Prepare(1); r.masks != before+2 {
			t.Errorf("%d masks of a pass with another branch, want 2", r.masks-before)
		}
	}
}

// What is proposed takes the place of all drafts.
func TestProposeReplaces(t *testing.T) {
	d := drive(t, asked()["25 tokens"], Config{Ctx: 60})
	d.SetGuesses([]draft.Guess{{ID: 1}, {ID: 2, Back: 1}})
	for _, list := range [][]int32{{5, 6, 7}, {8, 9}, {}} {
		if n := d.Propose(list); n != len(list) || !slices.Equal(d.draft, list) || len(d.Guesses()) > 0 {
			t.Errorf("%d of %v are drafts: %v, with guesses %v", n, list, d.draft, d.Guesses())
		}
	}
}

// A sequence that has lost tokens to shifts counts its positions, and the text its tokens.
func TestSettle(t *testing.T) {
	d := drive(t, asked()["25 tokens"], Config{Ctx: 60, Shift: Shift{Limit: 19, Keep: 5, By: 7}})
	d.pass(t, 5)
	d.Shifted()
	d.Shifted()
	d.SetGuesses([]draft.Guess{{ID: 1}})
	d.Settle(9)
	if d.Positions() != 9 || d.Evaluated() != 9+14 || d.Dropped() != 14 || len(d.Guesses()) != 1 {
		t.Errorf("%d positions of %d tokens, %d dropped, guesses %v", d.Positions(), d.Evaluated(), d.Dropped(), d.Guesses())
	}
	never := Shift{}
	if never.Due(0) || never.Due(1<<30) || never.Room(0, 7) != 7 || never.Room(5, 7) != 7 {
		t.Error("what is never shifted has a bound")
	}
	s := Shift{Limit: 10, Keep: 2, By: 4}
	for positions, want := range map[int]int{0: 6, 4: 6, 5: 5, 9: 1, 10: 0} {
		if got := s.Room(positions, 6); got != want || s.Due(positions) != (positions == 10) {
			t.Errorf("after %d positions there is room for %d of 6, want %d; due: %v", positions, got, want, s.Due(positions))
		}
	}
	if got := s.Findable(make([]int32, 12)); len(got) != 10 {
		t.Errorf("%d tokens may be found, want 10", len(got))
	}
}
