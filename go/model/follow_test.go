package model

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// What another program might send is an error of the follower, and nothing is written or read where it should not be.
func TestFollowerRefuses(t *testing.T) {
	group, err := kernel.ThreadRanks(2)
	if err != nil {
		t.Fatal(err)
	}
	defer group[0].Close()
	defer group[1].Close()
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	path := small(t)
	follower := func() *Follower {
		f := &Follower{
			Group: group[1], Pool: pool, Budget: mem.NewBudget(1<<30, "test"), Version: "1",
			Open: func(bool) (*File, error) { return OpenFile(path) },
		}
		t.Cleanup(f.close)
		f.room = make([]byte, 64)
		return f
	}
	text := func(v any) []byte {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	numbers := func(list ...int32) (b []byte) {
		for _, n := range list {
			b = binary.LittleEndian.AppendUint32(b, uint32(n))
		}
		return b
	}
	f := follower()
	s, err := NewSurvey(must1(OpenFile(path)), kvI16, 0)
	if err == nil {
		s, err = s.Split(Ranks{Group: group[1]})
	}
	if err != nil {
		t.Fatal(err)
	}
	defer s.file.Close()
	division, err := s.division(Packed)
	if err != nil {
		t.Fatal(err)
	}
	good := invitation{Version: "1", File: s.file.identity(), Division: division, KV: kvI16, Ctx: s.Config.Ctx, Use: Use{Ctx: 64, Batch: 8, MaxOut: 4}}
	other := good
	other.Version = "2"
	for name, in := range map[string][]byte{"another version": text(other), "no JSON": []byte("{"), "nothing": nil} {
		if err := follower().do(t.Context(), msgJoin, in); err == nil {
			t.Errorf("%s: it joins", name)
		}
	}
	for _, kind := range []byte{msgPass, msgOutput, msgRead, msgFile, 'z'} {
		if err := f.do(t.Context(), kind, nil); !errors.Is(err, ErrRank) {
			t.Errorf("message %q too early: %v", kind, err)
		}
	}
	for _, m := range []struct {
		kind byte
		body []byte
	}{{msgJoin, text(good)}, {msgLoad, nil}, {msgMemory, text(limits{MaxTokens: 8, MaxSeqs: 2, MaxBlocks: 2, MaxOut: 4, Units: []int{3}, Moves: true})}} {
		if err := f.do(t.Context(), m.kind, m.body); err != nil {
			t.Fatalf("%q: %v", m.kind, err)
		}
	}
	unit := len(f.units[0].Bytes()) / 3
	for name, m := range map[string]struct {
		kind byte
		body []byte
	}{
		"a second model":        {msgJoin, text(good)},
		"a cut batch":           {msgPass, numbers(1, 0)},
		"an unknown token":      {msgPass, numbers(1, 0, 0, 0, 1, 0, 1<<30, 1, 0)},
		"a unit behind the end": {msgPass, numbers(1, 0, 0, 0, 1, 0, 5, 1, 3)},
		"many tokens":           {msgPass, numbers(1, 0, 0, 0, 1<<30)},
		"no such output":        {msgOutput, numbers(99, 0)},
		"an output of nothing":  {msgOutput, numbers(0, 0)},
		"what drafts":           {msgKeep, numbers(1)},
		"a step of it":          {msgStep, numbers(0, 1<<30)},
		"a copy to nowhere":     {msgUnits, numbers(0, 3, 0)},
		"a copy from nowhere":   {msgUnits, numbers(0, 0, 3)},
		"pages of no unit":      {msgUnits, numbers(1, 0, -1)},
		"a cut move":            {msgMove, numbers(0, 1, 1, 1<<30)},
		"a move to nowhere":     {msgMove, numbers(0, 1, 1, 1, 9, 1, 0)},
		"blocks of no group":    {msgAge, numbers(0, 0, 7, 0)},
		"a written unit":        {msgWrite, append(numbers(0, 9, 0), 1)},
		"more than a unit":      {msgWrite, append(numbers(0, 0, 0), make([]byte, unit+1)...)},
		"before a unit":         {msgWrite, append(numbers(0, 0, -1), 1)},
		"behind a unit":         {msgWrite, append(numbers(0, 0, 1<<30), 1)},
		"a read unit":           {msgRead, numbers(0, 3)},
		"a file of -1":          {msgFile, text([]int{-1})},
		"no adapter's number":   {msgAdapter, numbers(-1)},
		"a message":             {'z', nil},
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
		if err := f.do(t.Context(), msgAdapter, numbers(0)); err != nil {
			t.Errorf("an adapter that is not there: %v", err)
		}
	}
	if err := f.do(t.Context(), msgAdapters, numbers(4)); err != nil {
		t.Errorf("an unknown adapter: %v", err)
	}
	body := append(numbers(0, 2, 0), slices.Repeat([]byte{7}, unit)...)
	if err := f.do(t.Context(), msgWrite, body); err != nil || f.units[0].Bytes()[3*unit-1] != 7 || f.units[0].Bytes()[2*unit-1] != 0 {
		t.Errorf("a unit is not written: %v", err)
	}
}

// must1 returns a file that can be opened.
func must1(f *File, err error) *File {
	if err != nil {
		panic(err)
	}
	return f
}
