package engine

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
)

// Memory for a model is reserved as a whole or not at all, whatever it is that does not fit.
func TestHold(t *testing.T) {
	need := model.Estimate{Weights: 50, KV: 30, Activations: 7}
	for limit, want := range map[uint64]uint64{0: 0, 49: 0, 50: 0, 79: 0, 80: 0, 86: 0, 87: 37, 100: 37} {
		b := mem.NewBudget(limit, "a test")
		h, err := hold(b, model.Use{}, need)
		if b.Used() != want || h.bytes() != want || (err == nil) != (want > 0) {
			t.Errorf("of %d bytes %d are held, %d by their reservations: %v", limit, b.Used(), h.bytes(), err)
		}
		if h.release(); b.Used() != 0 {
			t.Errorf("of %d bytes %d are still held", limit, b.Used())
		}
	}
	for residency, want := range map[model.Residency]string{model.Packed: "packed weights", model.Mapped: "weights outside the file", model.Streamed: "streamed weights"} {
		_, err := hold(mem.NewBudget(10, "a test"), model.Use{Residency: residency}, need)
		var limit *mem.LimitError
		if !errors.As(err, &limit) || limit.Purpose != want {
			t.Errorf("%v: %v", residency, err)
		}
	}
}

// Logits of many requests are computed at once, as far as there is memory for rows of the vocabulary.
func TestRowsOfManyRequests(t *testing.T) {
	for _, c := range []struct{ vocab, sequences, want int }{
		{128256, 1, 32}, {128256, 32, 32}, {128256, 64, 64}, {128256, 1000, 130}, {32000, 1000, 524}, {32000, 500, 500}, {1 << 28, 1000, 32}, {0, 40, 40},
	} {
		if got := outRows(c.vocab, c.sequences); got != c.want {
			t.Errorf("%d requests, vocabulary of %d: %d rows, want %d", c.sequences, c.vocab, got, c.want)
		}
	}
	e := open(t, testdata.Path(t, "models/TinyStories-656K-f16.gguf"), Config{Ctx: 64, Sequences: 40})
	if len(e.logits) != 40 {
		t.Fatalf("room for %d rows", len(e.logits))
	}
	var items []Item
	for i := range 40 {
		s := e.NewSequence()
		defer s.Close()
		items = append(items, Item{Seq: s, IDs: []int32{int32(300 + i)}, Rows: 1})
	}
	leave := e.device.enter()
	defer leave()
	if err := e.pass(canceler{ctx: t.Context()}, items); err != nil {
		t.Fatal(err)
	}
	calls := 0
	err := e.heads(items, func(parts []part) error {
		calls++
		for _, p := range parts {
			if p.item%13 == 0 {
				alone := logits(t, open(t, testdata.Path(t, "models/TinyStories-656K-f16.gguf"), Config{Ctx: 64}), items[p.item].IDs[:1], nil)
				mustEqual(t, "a request of 40", map[int][]float32{0: p.rows[0]}, alone)
			}
		}
		return nil
	})
	if err != nil || calls != 1 {
		t.Errorf("%d calls: %v", calls, err)
	}
}

// The largest number of whole blocks for which there is memory.
func TestRoomFor(t *testing.T) {
	const block = kvcache.BlockTokens
	each := func(n int) uint64 { return uint64(n/block) * 10 }
	for _, c := range []struct {
		most  int
		bytes uint64
		want  int
	}{
		{10 * block, 0, 0}, {10 * block, 9, 0}, {10 * block, 10, block}, {10 * block, 19, block}, {10 * block, 20, 2 * block}, {10 * block, 95, 9 * block}, {10 * block, 100, 10 * block},
		{10 * block, 1000, 11 * block}, {block - 1, 1000, block}, {block, 10, block},
	} {
		if got := room(c.most, c.bytes, each); got != c.want {
			t.Errorf("%d positions of at most %d for %d bytes, want %d", got, c.most, c.bytes, c.want)
		}
	}
}

// The size of the pool: for contexts that were asked for, or as long as memory allows; shared, half of what is free, within what
// the contexts and their ends can use.
func TestKVBytes(t *testing.T) {
	const block = kvcache.BlockTokens
	all := kvcache.Layout{{Bytes: 100}}
	two := kvcache.Layout{{Bytes: 100}, {Bytes: 10, PerSequence: true}}
	for _, c := range []struct {
		what   string
		Config Config
		layout kvcache.Layout
		ctx    int // of the model, or asked for
		free   uint64
		bytes  uint64
		get    int // context; 0: refused
	}{
		{"as asked for", Config{Ctx: 10 * block}, all, 10 * block, 5, 3 * 1000, 10 * block},
		{"all of the model's", Config{}, all, 10 * block, 3000, 3 * 1000, 10 * block},
		{"what fits", Config{}, all, 10 * block, 2999, 3 * 900, 9 * block},
		{"a block at least", Config{}, all, 10 * block, 0, 3 * 100, block},
		{"shared: half", Config{Shared: true}, all, 10 * block, 2000, 1000, 9 * block},
		{"shared: half, in whole blocks", Config{Shared: true}, all, 10 * block, 2199, 1000, 9 * block},
		{"shared: half of much", Config{Shared: true}, all, 10 * block, 1 << 40, 3*1000 + 100, 10 * block},
		{"shared: least", Config{Shared: true}, all, 10 * block, 0, 200, block},
		{"shared: what a context needs", Config{Shared: true, Ctx: 10 * block}, all, 10 * block, 0, 1100, 10 * block},
		{"shared: more than a context needs", Config{Shared: true, Ctx: 10 * block}, all, 10 * block, 3000, 1500, 10 * block},
		{"shared: with ends", Config{Shared: true}, two, 10 * block, 1 << 40, 3*(1000+20+110+8*10) + 110, 10 * block},
		{"so many bytes", Config{Shared: true, KVBytes: 500}, all, 10 * block, 0, 500, 4 * block},
		{"so many bytes in whole blocks", Config{Shared: true, KVBytes: 599}, all, 10 * block, 0, 500, 4 * block},
		{"so many bytes of two groups", Config{Shared: true, KVBytes: 599}, two, 10 * block, 0, 599, 4 * block},
		{"bytes for nothing", Config{Shared: true, KVBytes: 199}, all, 10 * block, 0, 0, 0},
		{"bytes for less than was asked for", Config{Shared: true, KVBytes: 1000, Ctx: 10 * block}, all, 10 * block, 0, 0, 0},
		{"bytes for what was asked for", Config{Shared: true, KVBytes: 1100, Ctx: 10 * block}, all, 10 * block, 0, 1100, 10 * block},
	} {
		u := model.Use{Ctx: c.ctx, Sequences: 3, Batch: 100}
		got, err := c.Config.kvBytes(&u, c.layout, c.free)
		if c.get == 0 {
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("a context of %d tokens", max(c.Config.Ctx, block))) {
				t.Errorf("%s: %d bytes, %v", c.what, got, err)
			}
		} else if err != nil || got != c.bytes || u.Ctx != c.get {
			t.Errorf("%s: %d bytes for contexts of %d: %v, want %d and %d", c.what, got, u.Ctx, err, c.bytes, c.get)
		}
	}
	huge := kvcache.Layout{{Bytes: 1 << 60}}
	u := model.Use{Ctx: 10 * block, Sequences: 3, Batch: 100}
	if got, err := (&Config{Ctx: 10 * block}).kvBytes(&u, huge, 0); err != nil || got > math.MaxInt64 || got < 1<<61 {
		t.Errorf("more than there can be: %d bytes, %v", got, err)
	}
}

// What a plan counts for keys and values: what was asked for, or the least where they may be as many as fit.
func TestPlannedKV(t *testing.T) {
	f, err := model.OpenFile(tiny)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, c := range []struct {
		what   string
		Config Config
		want   func(p Plan) uint64
	}{
		{"alone", Config{Sequences: 3, Batch: 8}, func(p Plan) uint64 { return 3 * p.Need.Layout.Alone(1, p.Use.Batch) }},
		{"of a context", Config{Sequences: 3, Batch: 8, Ctx: 200}, func(p Plan) uint64 { return 3 * p.Need.Layout.Alone(200, p.Use.Batch) }},
		{"shared", Config{Sequences: 3, Batch: 8, Shared: true}, func(p Plan) uint64 { return least(p.Need.Layout, 1) }},
		{"shared, of a context", Config{Sequences: 3, Batch: 8, Shared: true, Ctx: 200}, func(p Plan) uint64 { return least(p.Need.Layout, 200) }},
		{"shared, so many bytes", Config{Sequences: 3, Batch: 8, Shared: true, KVBytes: 1 << 20}, func(Plan) uint64 { return 1 << 20 }},
		{"shared, one byte", Config{Sequences: 3, Batch: 8, Shared: true, KVBytes: 1}, func(Plan) uint64 { return 1 }},
	} {
		for _, residency := range []model.Residency{model.Packed, model.Mapped} {
			c.Config.Residency = residency
			p, err := NewPlan(f, mem.NewBudget(1<<40, "a test"), 1, c.Config)
			if err != nil || p.Need.KV != c.want(p) || p.Use.Residency != residency {
				t.Errorf("%s: %d bytes of %v, want %d: %v", c.what, p.Need.KV, p.Use.Residency, c.want(p), err)
			}
		}
	}
}

// The heaviest of the usual mixes that takes a part of a file.
func TestLighter(t *testing.T) {
	for _, c := range []struct {
		bits, part float64
		want       string
	}{{16, 1, "Q8_0"}, {16, 0.54, "Q8_0"}, {16, 0.53, "Q6_K"}, {8.5, 1, "Q8_0"}, {8.5, 0.99, "Q6_K"}, {10, 0.58, "Q5_K_M"}, {10, 0.49, "Q4_K_M"}, {10, 0.4, "Q3_K_M"}, {10, 0.32, "Q2_K"}, {10, 0.31, ""}, {10, 0, ""}} {
		if got := lighter(c.bits, c.part); got != c.want {
			t.Errorf("%v of %v bits is %q, want %q", c.part, c.bits, got, c.want)
		}
	}
}

// What a refusal says: the numbers that matter, and to the byte where rounded ones are equal.
func TestFitErrors(t *testing.T) {
	e := FitError{Plan: Plan{Use: model.Use{Residency: model.Packed}, Need: model.Estimate{Weights: 5000, KV: 3000, Activations: 1000}}, Free: 4000, Limit: 8000, Reason: "a test"}
	packed := e.Error()
	if want := "it needs 9.0 kB: 5.0 kB of packed weights, 3.0 kB of keys and values, 1.0 kB of activations; 4.0 kB of the 8.0 kB limit are free (a test)"; packed != want {
		t.Errorf("%q, want %q", packed, want)
	}
	for _, c := range []struct {
		change func(e *FitError)
		with   string
		add    bool
	}{
		{func(e *FitError) { e.Need.Checks = 4000 }, "to check the weights", false}, {func(e *FitError) { e.Need.Checks = 4001 }, ", or 4.0 kB to check the weights first", true},
		{func(e *FitError) { e.Need.Apart = 100 }, "in several parts", false},
		{func(e *FitError) { e.Need.Apart, e.Use.Residency = 100, model.Streamed }, "of weights at a time (100 B of which the file has in several parts", true},
		{func(e *FitError) { e.Use.Residency = model.Streamed }, "in several parts", false},
		{func(e *FitError) { e.Use.Residency = model.Mapped }, "of weights outside the file,", true},
		{func(e *FitError) { e.Free = 8999 }, "it needs 9000 bytes: ", true}, {func(e *FitError) { e.Free = 8999 }, "; 8999 of the", true},
		{func(e *FitError) {}, "what would fit", false}, {func(e *FitError) { e.Advice = []string{"a", "b"} }, "; what would fit: a, or b", true},
	} {
		one := e
		c.change(&one)
		if got := one.Error(); strings.Contains(got, c.with) != c.add {
			t.Errorf("%q: %q is in it: %v", got, c.with, !c.add)
		}
	}
	var limit *mem.LimitError
	if !errors.As(&e, &limit) || limit.Need != 9000 || limit.Free != 4000 || limit.Limit != 8000 {
		t.Errorf("%+v", limit)
	}
}

// Slices of a prompt end at its cuts.
func TestCuts(t *testing.T) {
	c := cuts{64, 100, 200}
	for _, r := range []struct{ at, n, want int }{{0, 50, 50}, {0, 64, 64}, {0, 65, 64}, {63, 10, 1}, {64, 50, 36}, {64, 10, 10}, {99, 500, 1}, {100, 500, 100}, {199, 2, 1}, {200, 500, 500}, {250, 10, 10}} {
		if got := c.slice(r.at, r.n); got != r.want {
			t.Errorf("%d of %d tokens after %d, want %d", got, r.n, r.at, r.want)
		}
	}
	for at, want := range map[int]bool{0: false, 63: false, 64: true, 65: false, 100: true, 200: true} {
		if c.has(at) != want {
			t.Errorf("a cut at %d: %v", at, !want)
		}
	}
}

// rangeReader wants the rows of a range.
type rangeReader struct {
	rowReader
	from, to int
}

func (r *rangeReader) Reads() (string, int, int) { return nn.Logits, r.from, r.to }

// Rows are of tokens of the prompt.
func TestRowsOfAPrompt(t *testing.T) {
	for _, c := range []struct {
		from, to int
		ok       bool
	}{{0, 10, true}, {0, 1, true}, {9, 10, true}, {-1, 10, false}, {0, 11, false}, {5, 5, false}, {6, 5, false}, {10, 10, false}, {0, 0, false}} {
		r, err := newReading(&rangeReader{from: c.from, to: c.to}, 0, 10)
		if (err == nil) != c.ok || c.ok && (r.next != c.from || r.to != c.to || r.ended) {
			t.Errorf("rows %d to %d of 10: %+v, %v", c.from, c.to, r, err)
		}
	}
	if r, err := newReading(nil, 0, 10); r != nil || err != nil {
		t.Errorf("no reader: %+v, %v", r, err)
	}
	l := openLoop(t, tiny, Config{Sequences: 1}, LoopConfig{})
	r := greedyRequest([]int32{1, 2, 3}, 0)
	r.Reader = &rangeReader{from: 0, to: 4}
	if _, err := l.Submit(r); err == nil {
		t.Error("a request is taken that reads rows which its prompt does not have")
	}
}

// Each page of a text has a key of its own, by its namespace, part and tokens; a longer text has those of what it begins with.
func TestKeysOfPages(t *testing.T) {
	ids := make([]int32, 3*kvcache.BlockTokens+10)
	for i := range ids {
		ids[i] = int32(i % 7)
	}
	root := diskcache.Key{1}
	names := newMediaIDs()
	whole := names.newChain(root, "a", ids)
	if len(whole) != 4 || len(names.newChain(root, "a", ids[:63])) != 1 || len(names.newChain(root, "a", ids[:64])) != 2 {
		t.Fatalf("%d keys of 3 blocks", len(whole))
	}
	for n := range len(ids) {
		if c := names.newChain(root, "a", ids[:n]); !slices.Equal(c, whole[:n/kvcache.BlockTokens+1]) {
			t.Fatalf("the first %d tokens have other keys", n)
		}
	}
	seen := map[diskcache.Key]string{}
	add := func(k diskcache.Key, what string) {
		t.Helper()
		if seen[k] != "" {
			t.Errorf("%s and %s have the same key", seen[k], what)
		}
		seen[k] = what
	}
	for _, ns := range []string{"a", "b", ""} {
		c := names.newChain(root, ns, ids)
		for i, k := range c {
			add(k, fmt.Sprintf("%d blocks in namespace %q", i, ns))
		}
		for part := range 3 {
			for from := 0; from < len(ids); from += kvcache.BlockTokens {
				for _, n := range []int{1, 10, 63, 64} {
					if from+n <= len(ids) {
						add(names.page(c, part, from, ids[from:from+n]), fmt.Sprintf("part %d of %d tokens from %d on in namespace %q", part, n, from, ns))
					}
				}
			}
		}
	}
	other := slices.Clone(ids)
	other[0]++
	c := names.newChain(root, "a", other)
	add(names.page(c, 0, 64, other[64:128]), "a block after another text")
	add(names.newChain(diskcache.Key{2}, "a", ids)[0], "another root")
}

// Only slots that there are can be saved, and a loop counts as stalled by its last turn while it has requests.
func TestSlotsAndPulses(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 2}, LoopConfig{})
	for slot, want := range map[int]error{-1: ErrSlot, 0: ErrSlotEmpty, 1: ErrSlotEmpty, 2: ErrSlot} {
		if _, err := l.SaveSlot(slot, "", nil); !errors.Is(err, want) || want == ErrSlot && !strings.Contains(err.Error(), fmt.Sprintf("%d, want 0 to 1", slot)) {
			t.Errorf("slot %d: %v", slot, err)
		}
	}
	p := Loop{begun: time.Now().Add(-time.Hour)}
	for _, c := range []struct {
		beat time.Duration
		work int64
		want time.Duration // at least, and not a minute more
	}{{0, 5, 0}, {time.Minute, 0, 0}, {time.Minute, 1, 59 * time.Minute}, {1, 1, time.Hour - 1}, {2 * time.Hour, 1, 0}} {
		p.pulse.beat.Store(int64(c.beat))
		p.pulse.work.Store(c.work)
		if got := p.stalled(); got < c.want || got > c.want+time.Minute || c.want == 0 && got != 0 {
			t.Errorf("%+v: stalled for %v", c, got)
		}
	}
}

// Texts share a pass as long as their tokens fit in a batch, their blocks in a context, and there are sequences; those of a model
// that reads one way are alone.
func TestTextsOfAPass(t *testing.T) {
	for _, c := range []struct {
		seqs, batch, ctx int
		oneWay           bool
		texts            []int // their tokens
		want             int
	}{
		{8, 100, 640, false, []int{10}, 1}, {8, 100, 640, false, []int{10, 20, 30}, 3}, {2, 100, 640, false, []int{10, 20, 30}, 2}, {8, 60, 640, false, []int{10, 20, 30}, 3},
		{8, 59, 640, false, []int{10, 20, 30}, 2}, {8, 5, 640, false, []int{10, 20}, 1}, {8, 100, 192, false, []int{10, 20, 30}, 3}, {8, 100, 128, false, []int{10, 20, 30}, 2},
		{8, 1000, 256, false, []int{65, 64, 64, 1}, 3}, {8, 1000, 256, false, []int{65, 65, 1}, 2}, {8, 1000, 200, false, []int{64, 64, 64, 8}, 4}, {8, 100, 640, true, []int{10, 20, 30}, 1},
	} {
		e := &Engine{model: &model.Model{Config: &model.Config{}}, seqs: c.seqs, batch: c.batch, ctx: c.ctx}
		e.model.Config.BothWays = !c.oneWay
		var texts []Text
		for _, n := range c.texts {
			texts = append(texts, Text{IDs: make([]int32, n)})
		}
		if got := e.together(texts); got != c.want {
			t.Errorf("%+v: %d texts share a pass", c, got)
		}
	}
}

// Adapters of scale 0 have no effect, and the order of others neither; what cannot be applied is refused.
func TestSettledAdapters(t *testing.T) {
	of := func(numbers ...int32) (list []ScaledAdapter) {
		for _, n := range numbers {
			list = append(list, ScaledAdapter{&Adapter{number: n, m: &model.Adapter{}}, float32(n + 1)})
		}
		return list
	}
	off := of(0, 1, 2)
	off[1].Scale = 0
	bad := func(scale float64) []ScaledAdapter {
		list := of(0, 1)
		list[1].Scale = float32(scale)
		return list
	}
	most := make([]int32, MaxApplied+1)
	for i := range most {
		most[i] = int32(i)
	}
	for _, c := range []struct {
		list []ScaledAdapter
		want []int32 // nil: refused
	}{
		{nil, []int32{}}, {of(0), []int32{0}}, {of(2, 0, 1), []int32{0, 1, 2}}, {off, []int32{0, 2}}, {of(1, 1), nil}, {of(0, 3, 1, 3), nil}, {of(most...), nil},
		{of(most[1:]...), most[1:]}, {bad(math.NaN()), nil}, {bad(math.Inf(1)), nil}, {bad(math.Inf(-1)), nil}, {bad(-2), []int32{0, 1}},
	} {
		got, err := settled(c.list)
		numbers := []int32{}
		for _, a := range got {
			numbers = append(numbers, int32(a.number))
		}
		if (err == nil) != (c.want != nil) || err == nil && !slices.Equal(numbers, c.want) {
			t.Errorf("%d adapters: %v, %v, want %v", len(c.list), numbers, err, c.want)
		}
	}
	a, b := of(0, 1), of(0, 1)
	b[1].Scale++
	if adapterSpace(nil) != "" || adapterSpace(a) != adapterSpace(of(0, 1)) || adapterSpace(a) == adapterSpace(b) || adapterSpace(a) == adapterSpace(a[:1]) {
		t.Error("texts of other adapters have the same name")
	}
}

// An alarm rings once, and again when the value was below half of the threshold.
func TestAlarm(t *testing.T) {
	var a alarm
	for i, c := range []struct {
		v    float64
		want bool
	}{{0.09, false}, {0.1, true}, {0.1, false}, {0.5, false}, {0.06, false}, {0.2, false}, {0.05, false}, {0.2, false}, {0.049, false}, {0.09, false}, {0.1, true}, {0, false}, {0.3, true}} {
		if got := a.rings(c.v, 0.1); got != c.want {
			t.Errorf("reading %d, %v: rings %v", i, c.v, got)
		}
	}
}

// A request has the slot that it asks for if that is free, and otherwise the lowest free one.
func TestSlotsAreTaken(t *testing.T) {
	l := &Loop{slots: make([]slot, 4)}
	var jobs []*job
	for i, c := range []struct{ ask, want int }{{-1, 0}, {2, 2}, {2, 1}, {0, 3}} {
		j := &job{Request: &Request{Slot: c.ask}, slot: -1, id: uint64(i + 1)}
		if l.takeSlot(j); j.slot != c.want || l.slots[c.want].job != j || j.usage.Slot != c.want || j.progress.Slot != c.want {
			t.Errorf("request %d that asks for %d has slot %d, want %d", i, c.ask, j.slot, c.want)
		}
		jobs = append(jobs, j)
	}
	l.freeSlot(jobs[2])
	l.freeSlot(jobs[2]) // has none
	if jobs[2].slot != -1 || l.slots[1].job != nil || l.slots[1].was.Busy || l.slots[1].was.Request != 3 || l.slots[0].job != jobs[0] {
		t.Errorf("%+v, slot %d", l.slots[1].was, jobs[2].slot)
	}
	j := &job{Request: &Request{Slot: 99}, slot: -1}
	if l.takeSlot(j); j.slot != 1 {
		t.Errorf("a request that asks for a slot that is not there has slot %d", j.slot)
	}
}

// Parts of the heap with purposes of their own are not counted as the program's.
func TestPartsOfTheHeap(t *testing.T) {
	d := deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(1<<40, "a test")})
	b := d.Budget()
	r, err := b.Reserve(programPurpose, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	d.program = r
	defer func() { d.program = nil }()
	size := uint64(0)
	d.Count("one part", func() uint64 { return size })
	d.Count("another", func() uint64 { return 2 * size })
	d.measure()
	if none := b.ByPurpose()["one part"]; none != 0 || r.Bytes() < programBytes {
		t.Errorf("%d bytes of a part of none, %d of the program", none, r.Bytes())
	}
	size = 3 << 30 // more than the heap has
	d.measure()
	by := b.ByPurpose()
	if by["one part"] != size || by["another"] != 2*size || by[programPurpose] != 0 {
		t.Errorf("%v", by)
	}
	size = 1000
	d.measure()
	if by = b.ByPurpose(); by["one part"] != size || by["another"] != 2*size || by[programPurpose] < programBytes {
		t.Errorf("%v", by)
	}
}

// The bits of a weight are those of the file, of all its tensors.
func TestBitsOfAFile(t *testing.T) {
	f := openFile(t, testdata.Path(t, "models/quant/TinyStories-656K-x2-Q4_K_M.gguf"))
	bytes, weights := 0, 0
	for _, x := range f.GGUF.Tensors {
		bytes, weights = bytes+len(x.Data), weights+int(x.Elems())
	}
	if got, want := bits(f), 8*float64(bytes)/float64(weights); math.Abs(got-want) > 1e-9 || got < 4 || got > 17 {
		t.Errorf("%g bits, want %g", got, want)
	}
}

// Something is done once for each of many, by as many goroutines as there are CPUs.
func TestEach(t *testing.T) {
	cpus := runtime.GOMAXPROCS(0)
	for _, n := range []int{0, 1, 2, 3, 100} {
		done := make([]atomic.Int32, n)
		each(n, func(i int) { done[i].Add(1) })
		for i := range done {
			if k := done[i].Load(); k != 1 {
				t.Errorf("of %d, number %d is done %d times", n, i, k)
			}
		}
	}
	if now := runtime.GOMAXPROCS(0); now != cpus {
		t.Errorf("%d CPUs are used from now on, %d before", now, cpus)
	}
}
