package model

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// invited returns a follower for the model of a file, which nobody leads, another such, and an invitation that it takes.
func invited(t *testing.T, path string, drafts bool) (f, other *Follower, good invitation) {
	t.Helper()
	group, err := kernel.ThreadRanks(2)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		group[0].Close()
		group[1].Close()
		pool.Close()
	})
	follower := func() *Follower {
		f := &Follower{
			Group: group[1], Pool: pool, Budget: mem.NewBudget(1<<30, "test"), Version: "1",
			Open: func(bool) (*File, error) { return OpenFile(path) },
		}
		t.Cleanup(f.close)
		f.room = make([]byte, 64)
		return f
	}
	file := must1(OpenFile(path))
	defer file.Close()
	s, err := NewSurvey(file, kvI16, 0)
	if err == nil && drafts {
		s, err = s.Drafting()
	}
	if err == nil {
		s, err = s.Split(Ranks{Group: group[1]})
	}
	if err != nil {
		t.Fatal(err)
	}
	division, err := s.division(Packed)
	if err != nil {
		t.Fatal(err)
	}
	return follower(), follower(), invitation{
		Version: "1", File: file.identity(), Division: division, KV: kvI16, Ctx: s.Config.Ctx, Drafts: drafts,
		Use: Use{Ctx: 64, Batch: 8, MaxOut: 4},
	}
}

// ready has a follower load its part.
func (f *Follower) ready(t *testing.T, in invitation) {
	t.Helper()
	for _, m := range []struct {
		kind byte
		body any
	}{{msgJoin, in}, {msgLoad, nil}} {
		if err := f.do(t.Context(), m.kind, text(m.body)); err != nil {
			t.Fatalf("%q: %v", m.kind, err)
		}
	}
	l := limits{MaxTokens: 8, MaxSeqs: 2, MaxBlocks: 2, MaxOut: 4, Moves: true}
	for range f.model.Layout {
		l.Units = append(l.Units, 3)
	}
	if err := f.do(t.Context(), msgMemory, text(l)); err != nil {
		t.Fatal(err)
	}
}

// text returns what follows the kind in a message in JSON.
func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// wordsOf returns what follows it in a message of numbers.
func wordsOf(list ...int32) (b []byte) {
	for _, n := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// What another program might send is an error of the follower, and nothing is written or read where it should not be.
func TestFollowerRefuses(t *testing.T) {
	f, stranger, good := invited(t, small(t), false)
	other := good
	other.Version = "2"
	for name, in := range map[string][]byte{"another version": text(other), "no JSON": []byte("{"), "nothing": nil} {
		if err := stranger.do(t.Context(), msgJoin, in); err == nil {
			t.Errorf("%s: it joins", name)
		}
	}
	for _, kind := range []byte{msgPass, msgOutput, msgRead, msgFile, 'z'} {
		if err := f.do(t.Context(), kind, nil); !errors.Is(err, ErrRank) {
			t.Errorf("message %q too early: %v", kind, err)
		}
	}
	f.ready(t, good)
	unit := len(f.units[0].Bytes()) / 3
	for name, m := range map[string]struct {
		kind byte
		body []byte
	}{
		"a second model":          {msgJoin, text(good)},
		"a cut batch":             {msgPass, wordsOf(0, 1, 0)},
		"an unknown token":        {msgPass, wordsOf(0, 1, 0, 0, 0, 1, 0, 1<<30, 1, 0)},
		"a unit behind the end":   {msgPass, wordsOf(0, 1, 0, 0, 0, 1, 0, 5, 1, 3)},
		"many tokens":             {msgPass, wordsOf(0, 1, 0, 0, 0, 1<<30)},
		"a cut list of parts":     {msgPass, wordsOf(1<<30, 1, 0, 0, 0, 1, 0, 5, 1, 0)},
		"fewer parts than none":   {msgPass, wordsOf(-1, 1, 0, 0, 0, 1, 0, 5, 1, 0)},
		"parts of a pass by rows": {msgPass, wordsOf(1, 1, 1, 0, 0, 0, 1, 0, 5, 1, 0)},
		"no such output":          {msgOutput, wordsOf(99, 0)},
		"an output of nothing":    {msgOutput, wordsOf(0, 0)},
		"what drafts":             {msgKeep, wordsOf(1)},
		"a step of it":            {msgStep, wordsOf(0, 1<<30)},
		"a copy to nowhere":       {msgUnits, wordsOf(0, 3, 0)},
		"a copy from nowhere":     {msgUnits, wordsOf(0, 0, 3)},
		"pages of no unit":        {msgUnits, wordsOf(1, 0, -1)},
		"a cut move":              {msgMove, wordsOf(0, 1, 1, 1<<30)},
		"a move to nowhere":       {msgMove, wordsOf(0, 1, 1, 1, 9, 1, 0)},
		"blocks of no group":      {msgAge, wordsOf(0, 0, 7, 0)},
		"a written unit":          {msgWrite, append(wordsOf(0, 9, 0), 1)},
		"more than a unit":        {msgWrite, append(wordsOf(0, 0, 0), make([]byte, unit+1)...)},
		"before a unit":           {msgWrite, append(wordsOf(0, 0, -1), 1)},
		"behind a unit":           {msgWrite, append(wordsOf(0, 0, 1<<30), 1)},
		"a read unit":             {msgRead, wordsOf(0, 3)},
		"a file of -1":            {msgFile, text([]int{-1})},
		"no adapter's number":     {msgAdapter, wordsOf(-1)},
		"a message":               {'z', nil},
	} {
		if err := f.do(t.Context(), m.kind, m.body); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	// What there is no room or file for, rank 0 is told, and the follower goes on.
	for _, body := range [][]byte{text([]int{1 << 39}), text([]int{5})} {
		if err := f.do(t.Context(), msgFile, body); err != nil {
			t.Fatal(err)
		}
		if err := f.do(t.Context(), msgAdapter, wordsOf(0)); err != nil {
			t.Errorf("an adapter that is not there: %v", err)
		}
	}
	if err := f.do(t.Context(), msgAdapters, wordsOf(4)); err != nil {
		t.Errorf("an unknown adapter: %v", err)
	}
	body := append(wordsOf(0, 2, 0), slices.Repeat([]byte{7}, unit)...)
	if err := f.do(t.Context(), msgWrite, body); err != nil || f.units[0].Bytes()[3*unit-1] != 7 || f.units[0].Bytes()[2*unit-1] != 0 {
		t.Errorf("a unit is not written: %v", err)
	}
}

// What drafts reads embeddings of tokens of the vocabulary alone.
func TestFollowerKnowsTokens(t *testing.T) {
	f, _, good := invited(t, withNext(t, "llama", 1).write(t, "next.gguf"), true)
	f.ready(t, good)
	batch := func(id int32) (list []int32) {
		list = []int32{1, 0, 0, 0, 1, 0, id}
		for range f.model.Layout {
			list = append(list, 1, 0)
		}
		return list
	}
	step := func(id int32) []int32 { return append([]int32{0, 1, 0, 1, 2, 0, 0}, batch(id)...) }
	n := int32(f.model.Config.NVocab)
	for _, id := range []int32{n, -1, 1 << 30} {
		if err := f.take(wordsOf(batch(5)...)); err != nil {
			t.Fatal(err)
		}
		f.runner.ran = 1
		for kind, body := range map[byte][]int32{msgPass: append([]int32{0}, batch(id)...), msgKeep: {id}, msgStep: step(id)} {
			if err := f.do(t.Context(), kind, wordsOf(body...)); err == nil || !strings.Contains(err.Error(), "token") {
				t.Errorf("token %d of %d in message %q: %v", id, n, kind, err)
			}
			if err := f.Group.Failed(); err != nil {
				t.Fatalf("token %d in message %q is used: %v", id, kind, err)
			}
		}
	}
	f.Group.Break() // what is known is computed, up to the first exchange
	if err := f.do(t.Context(), msgStep, wordsOf(step(n-1)...)); !errors.Is(err, kernel.ErrRanks) {
		t.Errorf("the last token: %v", err)
	}
}

// must1 returns a file that can be opened.
func must1(f *File, err error) *File {
	if err != nil {
		panic(err)
	}
	return f
}
