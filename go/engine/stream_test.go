package engine

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/stream"
)

// leastDevice is a Device with the least memory in which a streamed model runs, and some more.
func leastDevice(t *testing.T, path string, threads int, c Config, more uint64) *Device {
	t.Helper()
	f, err := model.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	need, err := Memory(f, threads, c)
	if err != nil {
		t.Fatal(err)
	}
	return deviceOf(t, DeviceConfig{Threads: threads, Budget: mem.NewBudget(need.Total()+more, "a test")})
}

// With the least memory weights come and go in each pass, and the bits are those of packed ones.
func TestStreamedBits(t *testing.T) {
	t.Parallel()
	paths := []string{filepath.Join(golden, "tiny-llama-mixed.gguf"), filepath.Join(golden, "tiny-moe-f32.gguf"), testdata.Path(t, "models/quant/TinyStories-656K-moe4x2-Q4_0.gguf")}
	for _, arch := range []string{"gpt-oss", "qwen3next", "jamba", "gemma3n", "deepseek2-lite", "granitemoe", "t5"} {
		paths = append(paths, testdata.Path(t, "archs/"+arch+".gguf"))
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			packed := open(t, path, Config{Ctx: 200, Batch: 64, Residency: model.Packed})
			ids := randomIDs(packed, 5, 90)
			c := Config{Ctx: 200, Batch: 64, Residency: model.Streamed}
			c.Device = leastDevice(t, path, 2, c, 0)
			e := open(t, path, c)
			if len(packed.Model().Config.Encoder) > 0 {
				if got, want := greedy(t, e, ids[:20], 12), greedy(t, packed, ids[:20], 12); !slices.Equal(got, want) {
					t.Errorf("%v, want %v", got, want)
				}
				return
			}
			want := logits(t, packed, ids, nil)
			for range 2 {
				mustEqual(t, "streamed", logits(t, e, ids, nil), want)
			}
			st, ok := e.Model().Stream()
			if !ok || st.Present > st.Limit || st.Read == 0 || st.Errors > 0 {
				t.Errorf("%+v", st)
			}
			if st.Limit < st.Bytes && st.Read <= st.Bytes {
				t.Errorf("in %d bytes of %d, %d were read", st.Limit, st.Bytes, st.Read)
			}
		})
	}
}

// Requests in company share the passes over the disk, and one that is cancelled changes nothing for others.
func TestStreamedTogether(t *testing.T) {
	path := testdata.Path(t, "archs/qwen35moe.gguf")
	base := open(t, path, Config{Ctx: 256, KV: kvcache.Both(kvcache.F32)})
	c := Config{Ctx: 256, Batch: 32, Sequences: 3, Shared: true, KV: kvcache.Both(kvcache.F32), Residency: model.Streamed}
	c.Device = leastDevice(t, path, 2, c, 8<<20)
	l := openLoop(t, path, c, LoopConfig{})
	var sinks []*catcher
	var want [][]int32
	for i := range 3 {
		prompt := randomIDs(base, uint64(i), 20)
		want = append(want, greedy(t, base, prompt, 16))
		_, s := submit(t, l, greedyRequest(prompt, 16))
		sinks = append(sinks, s)
	}
	k, gone := submit(t, l, greedyRequest(randomIDs(base, 9, 40), 100))
	k.Cancel()
	for i, s := range sinks {
		if r := s.wait(t); r.Err != nil || !slices.Equal(s.ids, want[i]) {
			t.Errorf("request %d: %v, %v, want %v", i, r.Err, s.ids, want[i])
		}
	}
	gone.wait(t)
}

// A file that is cut while its layers are read ends the requests that need it.
func TestStreamedCut(t *testing.T) {
	path := copyOf(t, tiny)
	c := Config{Ctx: 200, Batch: 64, Shared: true, Residency: model.Streamed}
	c.Device = leastDevice(t, path, 2, c, 8<<20)
	l := openLoop(t, path, c, LoopConfig{})
	_, s := submit(t, l, greedyRequest(randomIDs(l.e, 1, 20), 8))
	if r := s.wait(t); r.Err != nil {
		t.Fatal(r.Err)
	}
	cut(t, path)
	_, s = submit(t, l, greedyRequest(randomIDs(l.e, 2, 20), 8))
	if r := s.wait(t); !errors.Is(r.Err, ErrDamaged) {
		t.Errorf("a request of a cut file: %+v", r)
	}
}

// packFile packs a model into a file of its own.
func packFile(t *testing.T, path string) string {
	t.Helper()
	f, err := model.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b bytes.Buffer
	d := device(t, 2)
	if _, err := d.PackFile(t.Context(), &b, f, nil); err != nil {
		t.Fatal(err)
	}
	if used := d.Budget().Used(); used != 0 {
		t.Errorf("%d bytes are still taken", used)
	}
	out := filepath.Join(t.TempDir(), "packed.gguf")
	if err := os.WriteFile(out, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return out
}

// A packed file gives the bits of the file that it was made of, however its panels lie.
func TestPackedFile(t *testing.T) {
	t.Parallel()
	paths := []string{filepath.Join(golden, "tiny-llama-mixed.gguf"), filepath.Join(golden, "tiny-llama-tied-f16.gguf"), testdata.Path(t, "models/quant/TinyStories-656K-moe4x2-Q4_0.gguf")}
	for _, arch := range []string{"gpt-oss", "qwen35moe", "jamba", "gemma3n", "deepseek2", "mistral4", "rwkv7", "bitnet", "phi3-long", "deepseek4"} {
		paths = append(paths, testdata.Path(t, "archs/"+arch+".gguf"))
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			own := packFile(t, path)
			base := open(t, path, Config{Ctx: 200, Batch: 64, Residency: model.Packed})
			ids := randomIDs(base, 5, 90)
			want := logits(t, base, ids, nil)
			for _, r := range []model.Residency{model.Auto, model.Packed, model.Mapped, model.Streamed} {
				c := Config{Ctx: 200, Batch: 64, Residency: r}
				if r == model.Streamed {
					c.Device = leastDevice(t, own, 2, c, 0)
				}
				e := open(t, own, c)
				if got := e.Model().Residency; r == model.Auto && got != model.Mapped || r != model.Auto && got != r {
					t.Errorf("%v: weights are %v", r, got)
				}
				for range 2 {
					mustEqual(t, r.String(), logits(t, e, ids, nil), want)
				}
			}
			f, err := model.OpenFile(own)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := f.Verify(func(uint64, uint64) {}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A packed file that was damaged is an error of what reads it: streamed weights, and Verify.
func TestPackedFileDamaged(t *testing.T) {
	own := packFile(t, tiny)
	b, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gguf.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := g.Tensor("panels:blk.1.ffn_down.weight")
	if !ok {
		t.Fatal("no such matrix")
	}
	b[x.Offset+77] ^= 4
	if err := os.WriteFile(own, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := model.OpenFile(own)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := f.Verify(func(uint64, uint64) {}); !errors.Is(err, stream.ErrSum) {
		t.Errorf("verified: %v", err)
	}
	e := open(t, own, Config{Residency: model.Streamed})
	s := e.NewSequence()
	defer s.Close()
	for range 2 {
		if err := e.Eval(t.Context(), s, []int32{1, 2, 3}, 3, nil); !errors.Is(err, stream.ErrSum) || s.Len() != 0 {
			t.Errorf("evaluated: %v, %d tokens", err, s.Len())
		}
	}
}

// Of another version a packed file is refused, and so is packing one again.
func TestPackedFileRefused(t *testing.T) {
	own := packFile(t, tiny)
	f, err := model.OpenFile(own)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := device(t, 1).PackFile(t.Context(), io.Discard, f, nil); !errors.Is(err, model.ErrPacked) {
		t.Errorf("packed again: %v", err)
	}
	b, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte("quern.packed.panels"))
	b[at+len("quern.packed.panels")+4]++
	if err := os.WriteFile(own, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := model.OpenFile(own); err == nil || !strings.Contains(err.Error(), "a packed file of version 1.5, this program reads 1.4: pack the model again") {
		t.Errorf("another version: %v", err)
	}
}

// A pass over many tokens reads the weights once, as one of a single token does.
func TestStreamedReadsOnce(t *testing.T) {
	path := filepath.Join(golden, "tiny-llama-mixed.gguf")
	c := Config{Ctx: 200, Batch: 100, Residency: model.Streamed}
	c.Device = leastDevice(t, path, 2, c, 0)
	e := open(t, path, c)
	s := e.NewSequence()
	defer s.Close()
	for _, n := range []int{100, 1, 50} {
		before, _ := e.Model().Stream()
		if err := e.Eval(t.Context(), s, randomIDs(e, 1, n), n, nil); err != nil {
			t.Fatal(err)
		}
		after, _ := e.Model().Stream()
		if read := after.Read - before.Read; read > after.Bytes+after.Ring { // with what is read ahead for the next
			t.Errorf("a pass of %d tokens read %d bytes, there are %d", n, read, after.Bytes)
		}
	}
}

// With room for two layers' experts the next layer's are guessed, and read while this one computes: most of them rightly, in a prompt
// nearly all, and what is guessed wrongly changes no bit.
func TestStreamedGuesses(t *testing.T) {
	t.Parallel()
	for _, arch := range []string{"gpt-oss", "qwen3next", "qwen35moe", "granitemoe", "gemma4-moe"} {
		t.Run(arch, func(t *testing.T) {
			path := testdata.Path(t, "archs/"+arch+".gguf")
			packed := open(t, path, Config{Ctx: 200, Batch: 64, Residency: model.Packed})
			ids := randomIDs(packed, 5, 90)
			c := Config{Ctx: 200, Batch: 64, Residency: model.Streamed}
			c.Device = leastDevice(t, path, 2, c, 256<<10)
			e := open(t, path, c)
			want := logits(t, packed, ids, nil)
			for range 2 {
				mustEqual(t, "streamed", logits(t, e, ids, nil), want)
			}
			if st, _ := e.Model().Stream(); st.Guessed == 0 || 2*st.Right < st.Guessed || st.Right > st.Guessed || st.Present > st.Limit {
				t.Errorf("%+v: want guesses of which half are right", st)
			}
		})
	}
}
