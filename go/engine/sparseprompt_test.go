package engine

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

func sparse(part float32, from int) model.Sparse { return model.Sparse{Part: part, From: from} }

// prompted returns the logits after each of ids, a prompt, in passes of up to `batch` tokens.
func prompted(t *testing.T, e *Engine, ids []int32) (all [][]float32) {
	t.Helper()
	s := e.NewSequence()
	defer s.Close()
	err := e.Eval(context.Background(), s, ids, 0, func(_ int, logits []float32) error {
		all = append(all, slices.Clone(logits))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Logits do not depend on slices, threads or places. Where all blocks are chosen they are those of prompts that read all;
// where fewer are, only those from the first block of queries on are others.
func TestSparsePromptsGiveTheSameBits(t *testing.T) {
	t.Parallel()
	for _, path := range []string{tiny, testdata.Path(t, "archs/gemma3.gguf"), testdata.Path(t, "archs/gpt-oss.gguf"), testdata.Path(t, "archs/qwen35.gguf")} {
		for _, types := range []kvcache.Types{{}, kvcache.Both(kvcache.Q8), kvcache.Both(kvcache.F16), kvcache.Both(kvcache.Q4)} {
			if path != tiny && types != (kvcache.Types{}) {
				continue
			}
			c := Config{Ctx: 600, KV: types}
			probe := open(t, path, c)
			ids := randomIDs(probe, 1, 530)
			dense := prompted(t, probe, ids)
			for _, how := range []model.Sparse{sparse(1, 0), sparse(0.5, 128), sparse(0.3, 0)} {
				c.Sparse, c.Batch, c.Device = how, 0, nil
				want := prompted(t, open(t, path, c), ids)
				for i, batch := range []int{64, 100, 256} {
					c.Batch, c.Device = batch, device(t, 1+i)
					if got := prompted(t, open(t, path, c), ids); !slices.EqualFunc(got, want, slices.Equal) {
						t.Fatalf("%s %v %s: other logits in passes of %d tokens", path, types, how, batch)
					}
				}
				at := 0
				for at < len(ids) && slices.Equal(want[at], dense[at]) {
					at++
				}
				if how.Part == 1 && at < len(ids) || how.Part < 1 && (at < max(how.From, 3*kvcache.BlockTokens) || at == len(ids)) {
					t.Errorf("%s %v %s: logits differ from token %d on", path, types, how, at)
				}
			}
		}
	}
}

// Requests have the text that they have alone: with prefixes that others left at any length, cancelled ones too, where memory
// is short, from the file of a slot, and as the next turn of a conversation.
func TestSparsePromptsInALoop(t *testing.T) {
	c := Config{Ctx: 500, Sequences: 4, Sparse: sparse(0.4, 128)}
	for _, path := range []string{tiny, testdata.Path(t, "archs/gemma3.gguf"), testdata.Path(t, "archs/qwen35.gguf")} {
		probe := open(t, path, Config{Ctx: 500, Sparse: c.Sparse})
		short := c
		short.KVBytes = least(probe.kv.Layout(), 500) * 3 / 2
		base := randomIDs(probe, 1, 400)
		rng := rand.New(rand.NewPCG(1, 9))
		for _, c := range []Config{c, short} {
			l := openLoop(t, path, c, LoopConfig{})
			found, preempted := inCompany(t, l, probe, base, rng, func(i int) func() {
				if i%2 == 1 {
					return func() {}
				}
				gone, _ := submit(t, l, greedyRequest(slices.Concat(base[:1+rng.IntN(400)], randomIDs(probe, uint64(i), 50)), 40))
				if i > 0 { // nobody waits for its end: what it has evaluated stays
					gone.Cancel()
				}
				return gone.Cancel
			})
			if c.KVBytes == 0 && found == 0 || c.KVBytes > 0 && preempted == 0 {
				t.Errorf("%s: %d tokens were found, %d preempted: the test does not test that", path, found, preempted)
			}
			checkBlocks(t, l)
			r := greedyRequest(base, 50)
			r.Slot = 0
			_, k := submit(t, l, r)
			k.wait(t)
			var file bytes.Buffer
			if _, err := l.SaveSlot(0, "", &file); err != nil {
				t.Fatal(err)
			}
			// The answer reads all keys, as part of the next prompt it does not.
			next := slices.Concat(base, k.ids, randomIDs(probe, 5, 10))
			for range 2 {
				_, k = submit(t, l, greedyRequest(next, 30))
				if r := k.wait(t); r.CachedTokens == 0 || !slices.Equal(k.ids, greedy(t, probe, next, 30)) {
					t.Errorf("%s: another text of the next turn, %d tokens were found: %v", path, r.CachedTokens, k.ids)
				}
			}
			again := openLoop(t, path, c, LoopConfig{})
			if _, err := again.RestoreSlot(0, "", &file); err != nil {
				t.Fatal(err)
			}
			_, k = submit(t, again, greedyRequest(next, 30))
			if r := k.wait(t); r.CachedTokens == 0 || r.CachedTokens > 384 || !slices.Equal(k.ids, greedy(t, probe, next, 30)) {
				t.Errorf("%s: %d tokens of a slot were found: %v", path, r.CachedTokens, k.ids)
			}
		}
	}
}

// A sequence of the caller's goes on from what two prompts have in common, in whole blocks.
func TestSparsePromptsOfOneSequence(t *testing.T) {
	c := Config{Ctx: 500, Sparse: sparse(0.4, 64)}
	probe, e := open(t, tiny, c), open(t, tiny, c)
	s := e.NewSequence()
	defer s.Close()
	text := randomIDs(e, 1, 300)
	for i, n := range []int{300, 200, 299, 70, 64, 1} {
		prompt := slices.Concat(text[:n], randomIDs(e, uint64(2+i), 100))
		var ids []int32
		_, err := e.Generate(context.Background(), s, likeliest(prompt, 40), func(id int32) error { ids = append(ids, id); return nil })
		if err != nil || !slices.Equal(ids, greedy(t, probe, prompt, 40)) {
			t.Fatalf("%d tokens of the text before: another text, %v", n, err)
		}
		row := prompted(t, probe, prompt)[len(prompt)-1]
		if first := int32(slices.Index(row, slices.Max(row))); len(ids) > 0 && ids[0] != first {
			t.Fatalf("%d tokens of the text before: %d is first, by one pass %d", n, ids[0], first)
		}
		text = slices.Concat(prompt, ids)
	}
}

func TestSparsePromptsAreRefused(t *testing.T) {
	for _, tt := range []struct {
		path string
		c    Config
		want string
	}{
		{testdata.Path(t, "archs/mamba.gguf"), Config{}, "no layer of mamba"}, {testdata.Path(t, "archs/t5.gguf"), Config{}, "as a whole"},
		{testdata.Path(t, "archs/deepseek32.gguf"), Config{}, "no layer of"},
		{tiny, Config{Shift: true}, "--context-shift"}, {tiny, Config{Batch: 63}, "blocks of 64; give a larger one"},
		{tiny, Config{Tiers: tiersOf(t, "64:i16,*:q8_0")}, "--kv-tiers"},
	} {
		tt.c.Device, tt.c.Sparse = device(t, 1), sparse(0.9, 64)
		if _, err := Open(tt.path, tt.c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.path, err, tt.want)
		}
	}
	for _, s := range []string{"0", "-1", "1.01", "NaN", "1e-99", "x", "0.9:", "0.9:63", "0.9:-64", "0.9:99999999999999999999", "0.9:64:1", ":64", " 0.9"} {
		if v, err := model.ParseSparse(s); err == nil {
			t.Errorf("%q is %v", s, v)
		}
	}
	for s, want := range map[string]model.Sparse{"": {}, "0.95": sparse(0.95, 4096), "1:0": sparse(1, 0), "0.5:64": sparse(0.5, 64)} {
		if v, err := model.ParseSparse(s); err != nil || v != want {
			t.Errorf("%q is %v, %v", s, v, err)
		} else if again, err := model.ParseSparse(v.String()); err != nil || again != v {
			t.Errorf("%q is %v again, %v", v.String(), again, err)
		}
	}
}
