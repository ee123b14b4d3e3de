package model

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// A led is rank 0 of a model whose other ranks follow it.
type led struct {
	*stepper
	m       *Model
	lead    *Lead
	use     Use
	budgets []*mem.Budget // of the others
}

// leading divides the model of a file among n ranks, goroutines of this process, of which the others follow the first.
func leading(t *testing.T, path string, n int) *led {
	t.Helper()
	group, err := kernel.ThreadRanks(n)
	if err != nil {
		t.Fatal(err)
	}
	l := &led{use: Use{Ctx: 64, Sequences: 2, Batch: 64, MaxOut: 64, Threads: 1, Places: 1}}
	ended := make(chan error, n)
	for _, g := range group[1:] {
		pool, err := kernel.NewPool(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		f := &Follower{
			Group: g, Pool: pool, Budget: mem.NewBudget(1<<30, "test"), Version: "1",
			Open: func(bool) (*File, error) { return OpenFile(path) },
		}
		l.budgets = append(l.budgets, f.Budget)
		go func() {
			err := f.Run(context.Background())
			g.Close()
			pool.Close()
			ended <- err
		}()
	}
	t.Cleanup(func() {
		if l.lead != nil {
			l.lead.Close()
		}
		Dismiss(group[0])
		group[0].Close()
		for range n - 1 {
			if err := <-ended; err != nil {
				t.Errorf("a rank: %v", err)
			}
		}
	})
	file, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	s, err := NewSurvey(file, kvI16, 0)
	if err == nil {
		s, err = s.Split(Ranks{Group: group[0], Least: 1})
	}
	if err == nil {
		l.lead, err = s.Invite(t.Context(), "1", l.use)
	}
	if err == nil {
		l.m = loaded(t, s, err, Packed)
		_, err = l.lead.Loaded(t.Context(), l.m.Layout)
	}
	if err != nil {
		t.Fatal(err)
	}
	l.stepper = newStepper(t, l.m, 64)
	var units []int
	for i := range l.m.Layout {
		units = append(units, l.kv.Count(i))
	}
	if err := l.r.Lead(t.Context(), l.lead, units, false, false); err != nil {
		t.Fatal(err)
	}
	return l
}

// slept has the other ranks fall asleep and wake.
func (l *led) slept(t *testing.T) {
	t.Helper()
	err := l.lead.Sleep(t.Context())
	if err == nil {
		err = l.lead.Wake(l.use)
	}
	if err == nil {
		err = l.lead.Woken(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// said returns hashes of a text that uses these adapters.
func said(t *testing.T, m *Model, s *stepper, numbers ...int32) hashes {
	t.Helper()
	s.table.Free()
	s.table, s.numbers, s.scales = s.kv.NewTable(), numbers, slices.Repeat([]float32{0.5}, len(numbers))
	o, err := passes(m, s)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// loraOf writes an adapter of some tensors of a model.
func loraOf(t *testing.T, m *Model, seed uint64, tensors ...string) string {
	t.Helper()
	const rank = 4
	d, rnd := adapterDraft(m.Config.Arch, rank), rand.New(rand.NewPCG(seed, 1))
	for _, name := range tensors {
		w, ok := m.GGUF().Tensor(name)
		if !ok {
			t.Fatalf("no tensor %s", name)
		}
		for part, dims := range map[string][]uint64{".lora_a": {w.Dims[0], rank}, ".lora_b": {rank, w.Dims[1]}} {
			v := make([]float32, dims[0]*dims[1])
			for i := range v {
				v[i] = float32(rnd.NormFloat64())
			}
			d.add(name+part, gguf.F32, floatBytes(v), dims...)
		}
	}
	return d.write(t, "adapter.gguf")
}

// Adapters come and go on all ranks or on none: where the memory of one is full, the others have what they had, also when they
// have slept, and other adapters come and go later.
func TestAdaptersOnAllRanks(t *testing.T) {
	t.Parallel()
	path := small(t)
	whole, err := load(t, path, Packed)
	if err != nil {
		t.Fatal(err)
	}
	files := []string{
		loraOf(t, whole, 1, "blk.0.attn_q.weight", "output.weight"), loraOf(t, whole, 2, "blk.1.ffn_down.weight"),
		loraOf(t, whole, 3, "blk.0.ffn_up.weight"),
	}
	alone, err := dividedModel(t, path, 1, Ranks{}, Packed, kvI16)
	if err != nil {
		t.Fatal(err)
	}
	var all []*Adapter
	for _, file := range files {
		a, err := openAdapter(t, alone[0], file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, a)
	}
	one := newStepper(t, alone[0], 64)
	if err := one.r.SetAdapters(all); err != nil {
		t.Fatal(err)
	}
	var want []hashes
	for i := range int32(3) {
		want = append(want, said(t, alone[0], one, i))
	}
	plain := said(t, alone[0], one)

	l := leading(t, path, 3)
	with := func(when string, list []*Adapter) {
		t.Helper()
		if got := said(t, l.m, l.stepper); !slices.Equal(got, plain) {
			t.Fatalf("%s: other bits without adapters", when)
		}
		for i, a := range list {
			if a == nil {
				continue
			}
			if got := said(t, l.m, l.stepper, int32(i)); !slices.Equal(got, want[i]) {
				t.Fatalf("%s: other bits with adapter %d", when, i)
			}
		}
	}
	used := func() (list []uint64) {
		if err := l.lead.Ping(0, 10*time.Second); err != nil { // they have done what they were told
			t.Fatal(err)
		}
		for _, b := range l.budgets {
			list = append(list, b.Used())
		}
		return list
	}
	var ours []*Adapter
	for i, file := range files {
		a, err := openAdapter(t, l.m, file)
		if err != nil {
			t.Fatal(err)
		}
		ours = append(ours, a)
		if i > 1 {
			break
		}
		if err := l.r.SetAdapters(ours); err != nil {
			t.Fatal(err)
		}
	}
	with("two adapters", ours[:2])

	before, size := used(), uint64(ours[2].Bytes())
	for _, c := range []struct {
		free  uint64 // bytes that are left to the last rank
		list  []*Adapter
		words string
	}{
		{0, ours, "the file of an adapter"},
		{0, []*Adapter{ours[0], nil}, "activations"},
		{3*size + 1<<16, ours, "activations"}, // what it needs to load the third is there
	} {
		full, err := l.budgets[1].Reserve("a test", l.budgets[1].Free()-c.free)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.r.SetAdapters(c.list); err == nil || !strings.Contains(err.Error(), "rank 2: ") || !strings.Contains(err.Error(), c.words) {
			t.Fatalf("with %d bytes free: %v", c.free, err)
		}
		with("refused", ours[:2])
		full.Release()
		if after := used(); !slices.Equal(after, before) {
			t.Errorf("with %d bytes free the ranks had %d bytes, and then %d", c.free, before, after)
		}
		l.slept(t)
		with("slept", ours[:2])
	}
	for _, list := range [][]*Adapter{ours, {nil, ours[1], ours[2]}, {nil, nil, ours[2]}, {nil, nil, nil}} {
		if err := l.r.SetAdapters(list); err != nil {
			t.Fatal(err)
		}
		with("later", list)
	}
	if after := used(); after[0] >= before[0] || after[1] >= before[1] {
		t.Errorf("without adapters the ranks have %d bytes, with two they had %d", after, before)
	}
}
