package engine

import (
	"bytes"
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

var tiny = filepath.Join(golden, "tiny-llama-f32.gguf")

// Decoding leaves the Go heap alone: what it needs was there before.
func TestDecodeDoesNotGrowTheHeap(t *testing.T) {
	e := open(t, tiny, Config{Device: device(t, 2)})
	s := e.NewSequence()
	defer s.Close()
	var from, to runtime.MemStats
	n := 0
	_, err := e.Generate(context.Background(), s, likeliest(randomIDs(e, 1, 20), 200), func(int32) error {
		n++
		switch n {
		case 100: // a KV block and the list of ids have grown by now, and will hold what follows
			runtime.GC()
			runtime.ReadMemStats(&from)
		case 164:
			runtime.ReadMemStats(&to)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if mallocs, bytes := to.Mallocs-from.Mallocs, int64(to.HeapAlloc)-int64(from.HeapAlloc); mallocs >= 64 || bytes > 16<<10 {
		t.Errorf("64 tokens took %d allocations, %d bytes", mallocs, bytes)
	}
}

// An engine that waits for work takes no CPU: its threads sleep. One that spins
// would take all of every window; what else the test process does falls into
// some of them at most.
func TestIdleTakesNoCPU(t *testing.T) {
	e := open(t, tiny, Config{Device: device(t, 3)})
	s := e.NewSequence()
	defer s.Close()
	if _, err := e.Generate(context.Background(), s, likeliest(randomIDs(e, 1, 20), 8), func(int32) error { return nil }); err != nil {
		t.Fatal(err)
	}
	const window = 100 * time.Millisecond
	least := window
	for range 5 {
		before := processTime(t)
		time.Sleep(window)
		least = min(least, processTime(t)-before)
	}
	if least > window/20 {
		t.Errorf("an idle engine takes at least %v of CPU in %v", least, window)
	}
}

func TestGenerate(t *testing.T) {
	e := open(t, tiny, Config{Ctx: 40})
	ctx := context.Background()
	prompt := randomIDs(e, 2, 10)
	want := greedy(t, e, prompt, 12)
	run := func(limit int, stop func(int32) bool, emit func(int32) error) (Stats, *Sequence, []int32, error) {
		s := e.NewSequence()
		t.Cleanup(s.Close)
		var ids []int32
		p := likeliest(prompt, limit)
		p.Stop = stop
		st, err := e.Generate(ctx, s, p, func(id int32) error {
			ids = append(ids, id)
			if emit != nil {
				return emit(id)
			}
			return nil
		})
		return st, s, ids, err
	}
	st, s, ids, err := run(12, nil, nil)
	if err != nil || st.Finish != generate.MaxedOut || st.Generated != 12 || st.PromptTokens != 10 || len(ids) != 12 || s.Len() != 21 {
		t.Errorf("12 tokens: %+v, %d ids, length %d, %v", st, len(ids), s.Len(), err)
	}
	if st.TTFT < st.Prefill || st.Prefill <= 0 || st.Decode <= 0 {
		t.Errorf("times %+v", st)
	}
	s.Close()
	at := len(want)
	for i, id := range want { // the first time that it comes
		if id == want[len(want)-1] {
			at = i
			break
		}
	}
	st, s, ids, err = run(-1, func(id int32) bool { return id == want[at] }, nil)
	if err != nil || st.Finish != generate.Stopped || st.Generated != at || len(ids) != at {
		t.Errorf("stop at %d: %+v, %v, %v", at, st, ids, err)
	}
	s.Close()
	st, s, ids, err = run(-1, nil, nil)
	if err != nil || st.Finish != generate.CtxFull || s.Len() != 39 || len(ids) != 30 {
		t.Errorf("to the end: %+v, %d ids, length %d, %v", st, len(ids), s.Len(), err)
	}
	s.Close()
	st, s, ids, err = run(0, nil, nil)
	if err != nil || st.Finish != generate.MaxedOut || s.Len() != 10 || len(ids) != 0 {
		t.Errorf("no tokens: %+v, %d ids, length %d, %v", st, len(ids), s.Len(), err)
	}
	s.Close()
	broken := errors.New("pipe broken")
	if _, _, ids, err = run(5, nil, func(int32) error { return broken }); !errors.Is(err, broken) || len(ids) != 1 {
		t.Errorf("emit failed: %v after %d", err, len(ids))
	}
}

// Each refusal says what was wrong, with its numbers, and changes nothing.
func TestRefusals(t *testing.T) {
	e := open(t, tiny, Config{Ctx: 100, Batch: 16, Sequences: 2})
	ctx := context.Background()
	s := e.NewSequence()
	defer s.Close()
	if err := e.Eval(ctx, s, randomIDs(e, 1, 30), 0, nil); err != nil {
		t.Fatal(err)
	}
	over := randomIDs(e, 1, 200)
	none := func(int32) error { return nil }
	check := func(name string, err error, is error, parts ...string) {
		t.Helper()
		if err == nil || is != nil && !errors.Is(err, is) {
			t.Errorf("%s: error = %v, want %v", name, err, is)
			return
		}
		for _, p := range parts {
			if !strings.Contains(err.Error(), p) {
				t.Errorf("%s: error %q lacks %q", name, err, p)
			}
		}
		if s.Len() != 30 || s.table.Len() != 30 {
			t.Errorf("%s: the sequence has %d tokens, %d positions, want 30", name, s.Len(), s.table.Len())
		}
	}
	check("too long", e.Eval(ctx, s, over, 0, nil), ErrTooLong, "200 tokens after 30", "100")
	empty := e.NewSequence()
	_, err := e.Generate(ctx, empty, likeliest(over, 5), none)
	check("long prompt", err, ErrTooLong, "200 tokens in a context of 100")
	_, err = e.Generate(ctx, s, likeliest(nil, 5), none)
	check("empty prompt", err, nil, "empty")
	check("unknown token", e.Eval(ctx, s, []int32{1, math.MaxInt32}, 0, nil), model.ErrToken, "2147483647")
	check("negative token", e.Eval(ctx, s, []int32{-1}, 0, nil), model.ErrToken, "-1")
	done, cancel := context.WithCancel(ctx)
	cancel()
	check("canceled", e.Eval(done, s, over[:5], 0, nil), context.Canceled)

	// Other sequences hold the blocks.
	a, b := e.NewSequence(), e.NewSequence()
	for _, o := range []*Sequence{a, b} {
		if err := e.Eval(ctx, o, over[:64], 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Eval(ctx, a, over[:36], 0, nil); err != nil {
		t.Fatal(err)
	}
	full := e.Eval(ctx, s, over[:64], 0, nil)
	s.Truncate(30) // what was evaluated before stays
	check("cache full", full, kvcache.ErrFull, "0 B of ")
	a.Close()
	b.Close()
	if err := e.Eval(ctx, s, over[:5], 0, nil); err != nil || s.Len() != 35 {
		t.Errorf("after all refusals: length %d, %v", s.Len(), err)
	}
}

func TestOpenRefuses(t *testing.T) {
	whole, err := os.ReadFile(tiny)
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	small := deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(10_000, "a test")})
	ample := device(t, 1)
	var limit *mem.LimitError
	for _, tt := range []struct {
		name, path string
		c          Config
		want       string
	}{
		{"no such file", "no-such.gguf", Config{}, "no-such.gguf"},
		{"empty", write("empty.gguf", nil), Config{}, "empty"},
		{"cut short", write("short.gguf", whole[:len(whole)/2]), Config{}, "short.gguf"},
		{"unknown architecture", write("arch.gguf", bytes.Replace(whole, []byte("llama"), []byte("lama9"), 1)), Config{}, `"lama9" is not supported, supported are llama qwen2 qwen3 `},
		{"missing key", write("key.gguf", bytes.Replace(whole, []byte("llama.block_count"), []byte("llama.block_xount"), 1)), Config{}, `key "llama.block_count"`},
		{"missing tensor", write("tensor.gguf", bytes.Replace(whole, []byte("blk.1.attn_k.weight"), []byte("blk.1.attn_x.weight"), 1)), Config{}, `tensor "blk.1.attn_k.weight" is missing`},
		{"too little memory", tiny, Config{Device: small, Residency: model.Packed}, "of packed weights"},
		{"context too large", tiny, Config{Ctx: 1 << 27}, "of keys and values"},
		{"negative batch", tiny, Config{Batch: -1}, "batch -1"},
		{"unknown KV type", tiny, Config{KV: kvcache.Both(7)}, "KV type 7"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.c.Device == nil {
				tt.c.Device = ample
			}
			e, err := Open(tt.path, tt.c)
			if err == nil {
				e.Close()
				t.Fatal("it was opened")
			}
			if !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, tt.want)
			}
			if tt.c.Device == small && !errors.As(err, &limit) {
				t.Errorf("error %v, want a LimitError", err)
			}
			if used := tt.c.Device.Budget().Used(); used != 0 {
				t.Errorf("%d bytes are still taken: %v", used, tt.c.Device.Budget().ByPurpose())
			}
		})
	}
}

// What was taken is given back, and a context that was not asked for is what
// memory allows.
func TestBudget(t *testing.T) {
	b := mem.NewBudget(900_000, "a test")
	e, err := Open(tiny, Config{Device: deviceOf(t, DeviceConfig{Threads: 1, Budget: b}), Batch: 8})
	if err != nil {
		t.Fatal(err)
	}
	if e.Ctx() != 256 || e.Model().Residency != model.Packed {
		t.Errorf("context %d, %v", e.Ctx(), e.Model().Residency)
	}
	used := b.Used()
	e.Close()
	e.Close()
	if b.Used() != 0 {
		t.Errorf("%d bytes are still taken", b.Used())
	}
	// A little less than all of it leaves a part of the context.
	e, err = Open(tiny, Config{Device: deviceOf(t, DeviceConfig{Threads: 1, Budget: mem.NewBudget(used-1000, "a test")}), Batch: 8, Residency: model.Packed})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if e.Ctx() >= 256 || e.Ctx() < 64 {
		t.Errorf("context %d in less memory, want 64 to 255", e.Ctx())
	}
}

// A text for which there is no memory ends with an error, and its sequence keeps what it has. Where another has left,
// it goes on.
func TestGenerateWithoutMemory(t *testing.T) {
	e := open(t, tiny, Config{Ctx: 64})
	prompt := randomIDs(e, 1, 40)
	want := greedy(t, e, prompt, 20)
	other := e.NewSequence()
	if err := e.Eval(t.Context(), other, randomIDs(e, 2, 30), 30, nil); err != nil {
		t.Fatal(err)
	}
	s := e.NewSequence()
	defer s.Close()
	var ids []int32
	run := func() error {
		ids = nil
		_, err := e.Generate(t.Context(), s, likeliest(prompt, 20), func(id int32) error { ids = append(ids, id); return nil })
		return err
	}
	if err := run(); !errors.Is(err, kvcache.ErrFull) || s.Len() > len(prompt)+len(ids) {
		t.Errorf("%d tokens of %d, and %v, want %v", len(ids), s.Len(), err, kvcache.ErrFull)
	}
	other.Close()
	if err := run(); err != nil || !slices.Equal(ids, want) {
		t.Errorf("when there is memory again: %v, %v, want %v", ids, err, want)
	}
}

// A closed engine has given all back: its memory to the budget, what moves its keys and values, its adapters, its model
// and its file. To close it again is no fault.
func TestCloseGivesAllBack(t *testing.T) {
	d := device(t, 1)
	before := d.budget.Used()
	e := open(t, tiny, Config{Device: d, Ctx: 128, Shift: true})
	greedy(t, e, randomIDs(e, 1, 20), 5)
	a := openAdapter(t, e, writeAdapter(t, e, 4, 1, "blk.0.attn_q.weight"))
	if len(d.engines) != 1 || d.budget.Used() == before || e.mover == nil || a == nil {
		t.Fatalf("%d engines, %d bytes", len(d.engines), d.budget.Used()-before)
	}
	for range 2 {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		if used := d.budget.Used(); used != before || len(d.engines) != 0 {
			t.Errorf("%d bytes are still reserved, %v; %d engines", used-before, d.budget.ByPurpose(), len(d.engines))
		}
		e.mover.Move(d.pool, nil, nil, 0) // a closed one has no layers, so there is nothing to move
	}
}
