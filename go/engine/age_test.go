package engine

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

func tiersOf(t *testing.T, s string) kvcache.Tiers {
	t.Helper()
	tiers, err := kvcache.ParseTiers(s)
	if err != nil {
		t.Fatal(err)
	}
	return tiers
}

// evaluated returns the logits after each of ids, evaluated in passes of random lengths.
func evaluated(t *testing.T, e *Engine, ids []int32, rng *rand.Rand) (all [][]float32) {
	t.Helper()
	s := e.NewSequence()
	defer s.Close()
	for at := 0; at < len(ids); {
		n := min(1+rng.IntN(150), len(ids)-at)
		err := e.Eval(context.Background(), s, ids[at:at+n], 0, func(_ int, logits []float32) error {
			all = append(all, slices.Clone(logits))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		at += n
	}
	if want := e.kv.Layout().Bytes(len(ids)); e.kv.Limit()-e.kv.Available() != want && !e.kv.Layout()[0].PerSequence {
		t.Errorf("%d positions hold %d bytes, want %d", len(ids), e.kv.Limit()-e.kv.Available(), want)
	}
	return all
}

// Logits do not depend on where a text is cut, on threads or on the company, whatever the types of older positions.
// Where all are floats they are those of floats in one tier; of others they are near.
func TestTiersGiveTheSameBits(t *testing.T) {
	t.Parallel()
	for _, path := range []string{tiny, testdata.Path(t, "archs/gemma3.gguf"), testdata.Path(t, "archs/deepseek2.gguf"), testdata.Path(t, "archs/qwen35.gguf")} {
		rng := rand.New(rand.NewPCG(3, 1))
		probe := open(t, path, Config{Ctx: 500, KV: kvcache.Both(kvcache.F32)})
		ids := randomIDs(probe, 1, 420)
		exact := evaluated(t, probe, ids, rng)
		for _, tt := range []struct {
			tiers string
			near  float64
		}{
			{"64:f32,128:f32,*:f32", 1e-4}, {"64:i16,128:q8_0,*:q4_0", 1}, {"128:f16,*:q4_0/q8_0", 1}, {"64:i16,192:bf16,256:q8_0,*:q8_0", 0.3},
		} {
			tiers := tiersOf(t, tt.tiers)
			c := Config{Ctx: 500, Tiers: tiers}
			want := evaluated(t, open(t, path, c), ids, rng)
			c.Device = device(t, 3)
			for i, row := range evaluated(t, open(t, path, c), ids, rng) {
				if !slices.Equal(row, want[i]) {
					t.Fatalf("%s, %s: logits after token %d differ", path, tt.tiers, i)
				}
			}
			off, size := 0.0, 0.0
			for i, row := range want {
				for k, x := range row {
					off += math.Pow(float64(x-exact[i][k]), 2)
					size += math.Pow(float64(exact[i][k]), 2)
				}
			}
			if !(off <= tt.near*tt.near*size) {
				t.Errorf("%s, %s: off by %g of logits", path, tt.tiers, math.Sqrt(off/size))
			}
		}
	}
}

// inCompany submits requests, two times over, that share beginnings of base or have none in common, and compares their texts
// with those of the engine probe, which runs them alone. beside, unless nil, is called after each, and what it returns at the
// end. It returns how many tokens were found in the cache, and how often requests were preempted.
func inCompany(t *testing.T, l *Loop, probe *Engine, base []int32, rng *rand.Rand, beside func(i int) func()) (found, preempted int) {
	t.Helper()
	type ask struct {
		prompt []int32
		c      *catcher
	}
	for range 2 {
		var asks []ask
		begun, all := make(chan struct{}), make(chan struct{})
		for i := range 6 {
			if i == 1 {
				<-begun
			}
			prompt := slices.Concat(base[:1+rng.IntN(400)], randomIDs(probe, uint64(i), rng.IntN(30)))
			if i%2 == 1 { // nobody waits for its beginning
				prompt = randomIDs(probe, uint64(10+i), 330)
			}
			r := greedyRequest(prompt, 40)
			r.Priority = i
			if i == 0 {
				r.Sink.(*catcher).on = func(n int) {
					if n == 2 {
						close(begun)
						<-all
					}
				}
			}
			_, k := submit(t, l, r)
			asks = append(asks, ask{prompt, k})
			if beside != nil {
				defer beside(i)()
			}
		}
		close(all)
		for i, a := range asks {
			r := a.c.wait(t)
			found += r.CachedTokens
			preempted += r.Preempted
			if r.Err != nil || !slices.Equal(a.c.ids, greedy(t, probe, a.prompt, 40)) {
				t.Fatalf("request %d: %v, another text, %d tokens were cached", i, r.Err, r.CachedTokens)
			}
		}
	}
	return found, preempted
}

// Requests have the text that they have alone: with prefixes that others left at any length, where memory is short,
// and from the file of a slot.
func TestTiersInALoop(t *testing.T) {
	c := Config{Ctx: 500, Sequences: 4, Tiers: tiersOf(t, "64:i16,128:q8_0,*:q4_0")}
	for _, path := range []string{tiny, testdata.Path(t, "archs/gemma3.gguf")} {
		probe := open(t, path, Config{Ctx: 500, Tiers: c.Tiers})
		short := c
		short.KVBytes = least(probe.kv.Layout(), 500) * 3 / 2
		base := randomIDs(probe, 1, 400)
		rng := rand.New(rand.NewPCG(1, 9))
		for _, c := range []Config{c, short} {
			l := openLoop(t, path, c, LoopConfig{})
			found, preempted := inCompany(t, l, probe, base, rng, nil)
			if found == 0 || c.KVBytes > 0 && preempted == 0 {
				t.Errorf("%s: %d tokens were found, %d preempted: the test does not test that", path, found, preempted)
			}
			checkBlocks(t, l)
			r := greedyRequest(base, 20)
			r.Slot = 0
			_, k := submit(t, l, r)
			k.wait(t)
			var file bytes.Buffer
			if _, err := l.SaveSlot(0, "", &file); err != nil {
				t.Fatal(err)
			}
			again := openLoop(t, path, c, LoopConfig{})
			saved, err := again.RestoreSlot(0, "", &file)
			if err != nil {
				t.Fatal(err)
			}
			next := slices.Concat(base, k.ids, randomIDs(probe, 5, 10))
			_, k = submit(t, again, greedyRequest(next, 30))
			if r := k.wait(t); r.CachedTokens != saved.Tokens || !slices.Equal(k.ids, greedy(t, probe, next, 30)) {
				t.Errorf("%s: %d of %d tokens were found: %v", path, r.CachedTokens, saved.Tokens, k.ids)
			}
		}
	}
}

// Older positions take less memory, in plans as in the pool.
func TestTiersTakeLessMemory(t *testing.T) {
	f, err := model.OpenFile(tiny)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	of := func(c Config) uint64 {
		c.Ctx = 8192
		m, err := Memory(f, 1, c)
		if err != nil {
			t.Fatal(err)
		}
		return m.KV
	}
	i16, q4 := of(Config{}), of(Config{KV: kvcache.Both(kvcache.Q4)})
	if got := of(Config{Tiers: tiersOf(t, "256:i16,1024:q8_0,*:q4_0")}); got < q4 || got > i16*3/4 { // units are whole pages, which is much here
		t.Errorf("%d bytes, of i16 %d, of q4_0 %d", got, i16, q4)
	}
}

func TestTiersAreRefused(t *testing.T) {
	for _, tt := range []struct{ path, want string }{
		{testdata.Path(t, "archs/mamba.gguf"), "nothing to keep in tiers"}, {testdata.Path(t, "archs/t5.gguf"), "as a whole"},
		{testdata.Path(t, "archs/deepseek32.gguf"), "chooses positions"},
	} {
		_, err := Open(tt.path, Config{Device: device(t, 1), Tiers: tiersOf(t, "64:i16,*:q8_0")})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.path, err, tt.want)
		}
	}
	_, err := Open(tiny, Config{Device: device(t, 1), Shift: true, Tiers: tiersOf(t, "64:i16,*:q8_0")})
	if err == nil || !strings.Contains(err.Error(), "cannot be shifted") || errors.Is(err, model.ErrShift) {
		t.Error(err)
	}
	for _, s := range []string{"", "i16", "64:i16", "64:i16,128:q8_0", "63:i16,*:q8_0", "0:i16,*:q8_0", "-64:i16,*:q8_0", "128:i16,64:q8_0,*:q4_0",
		"64:i16,*:q9", "64:i16/f17,*:f16", "64:i16,128:i16,192:i16,256:i16,*:q4_0", "99999999999999999999:i16,*:q8_0", "*:i16,*:i16", "64:i16,:q8_0"} {
		if tiers, err := kvcache.ParseTiers(s); err == nil {
			t.Errorf("%q is taken, as %v", s, tiers)
		}
	}
	if s := "64:i16,128:q8_0/f16,*:q4_0"; tiersOf(t, s).String() != s {
		t.Errorf("%q becomes %q", s, tiersOf(t, s))
	}
}
