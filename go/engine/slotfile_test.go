package engine

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
)

func TestSlots(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 2, Batch: 32}, LoopConfig{})
	r := greedyRequest(randomIDs(l.e, 3, 100), 5)
	r.Slot = 1
	_, c := submit(t, l, r)
	if u := c.wait(t); u.Slot != 1 {
		t.Errorf("it ran in slot %d", u.Slot)
	}
	var file bytes.Buffer
	saved, err := l.SaveSlot(1, "", &file)
	if err != nil || saved.Tokens != 104 || saved.Bytes != int64(file.Len()) {
		t.Fatalf("saved %+v, %d bytes, %v", saved, file.Len(), err)
	}
	if _, err := l.SaveSlot(0, "", &file); !errors.Is(err, ErrSlotEmpty) {
		t.Errorf("an empty slot: %v", err)
	}
	if _, err := l.SaveSlot(2, "", &file); !errors.Is(err, ErrSlot) {
		t.Errorf("no slot: %v", err)
	}
	if n, err := l.EraseSlot(1, ""); n != 104 || err != nil {
		t.Errorf("erased %d, %v", n, err)
	}
	if all, _ := l.tree.Bytes(); all != 0 {
		t.Errorf("%d bytes are left", all)
	}
	image := file.Bytes()[:saved.Bytes]
	for _, bad := range []struct {
		name string
		b    []byte
	}{
		{"empty", nil}, {"head", image[:20]}, {"ids", image[:60]}, {"blocks", image[:len(image)-1]},
		{"magic", slices.Concat([]byte("x"), image[1:])}, {"model", slices.Concat(image[:20], []byte("x"), image[21:])},
		{"count", slices.Concat(image[:40], []byte{255, 255, 255, 255}, image[44:])},
		{"token", slices.Concat(image[:44], []byte{255, 255, 255, 127}, image[48:])},
	} {
		if _, err := l.RestoreSlot(0, "", bytes.NewReader(bad.b)); !errors.Is(err, ErrSlotFile) {
			t.Errorf("%s: %v", bad.name, err)
		}
	}
	// Not a bit of it may be another, and nothing may follow.
	rng := rand.New(rand.NewPCG(7, 7))
	for range 1200 {
		damaged := slices.Clone(image)
		damaged[rng.IntN(len(damaged))] ^= 1 << rng.IntN(8)
		if _, err := l.RestoreSlot(0, "", bytes.NewReader(damaged)); !errors.Is(err, ErrSlotFile) {
			t.Fatalf("damaged: %v", err)
		}
	}
	if _, err := l.RestoreSlot(0, "", bytes.NewReader(slices.Concat(image, []byte{0}))); !errors.Is(err, ErrSlotFile) {
		t.Errorf("with a byte more: %v", err)
	}
	checkBlocks(t, l)
	if got, err := l.RestoreSlot(0, "", bytes.NewReader(image)); err != nil || got != saved {
		t.Errorf("restored %+v, %v", got, err)
	}
	again := slices.Concat(r.Prompt, c.ids)
	_, d := submit(t, l, greedyRequest(again, 5))
	if u := d.wait(t); u.CachedTokens != 104 {
		t.Errorf("found %d tokens of 104", u.CachedTokens)
	}
	probe := open(t, tiny, Config{})
	if want := greedy(t, probe, again, 5); !slices.Equal(d.ids, want) {
		t.Errorf("from the file %v, computed %v", d.ids, want)
	}
}

// What is saved, erased and restored is of the caller's namespace alone.
func TestSlotNamespace(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 1}, LoopConfig{})
	prompt := randomIDs(l.e, 3, 100)
	ask := func() int {
		r := greedyRequest(prompt, 1)
		r.Namespace = "a key"
		_, c := submit(t, l, r)
		return c.wait(t).CachedTokens
	}
	ask()
	var file bytes.Buffer
	if _, err := l.SaveSlot(0, "another", &file); !errors.Is(err, ErrSlotEmpty) {
		t.Errorf("saved for another: %v", err)
	}
	if n, err := l.EraseSlot(0, "another"); n != 0 || err != nil || ask() == 0 {
		t.Errorf("%d tokens were erased for another, %v", n, err)
	}
	if _, err := l.SaveSlot(0, "a key", &file); err != nil {
		t.Fatal(err)
	}
	for _, space := range []string{"another", "a key"} {
		if _, err := l.EraseSlot(0, "a key"); err != nil {
			t.Fatal(err)
		}
		if _, err := l.RestoreSlot(0, space, bytes.NewReader(file.Bytes())); err != nil {
			t.Fatal(err)
		}
		if n := ask(); n > 0 != (space == "a key") {
			t.Errorf("restored for %q: %d tokens were found", space, n)
		}
	}
}

// Two packed models that differ in a matrix alone are two.
func TestSlotFileOfPackedFile(t *testing.T) {
	raw, err := os.ReadFile(tiny)
	if err != nil {
		t.Fatal(err)
	}
	other := slices.Clone(raw)
	f, err := gguf.Parse(other)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := f.Tensor("blk.0.ffn_down.weight")
	if !ok {
		t.Fatal("no such matrix")
	}
	x.Data[len(x.Data)-7] ^= 1
	prints := map[string]bool{}
	for _, b := range [][]byte{raw, other, raw} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		prints[string(open(t, packFile(t, path), Config{Ctx: 64, KV: kvcache.Both(kvcache.F32)}).fingerprint())] = true
	}
	if len(prints) != 2 {
		t.Errorf("%d fingerprints, want 2", len(prints))
	}
}

// A slot file is of one model: one whose norm or rotation is another in the metadata
// alone has other keys and values.
func TestSlotFileKnowsTheConfiguration(t *testing.T) {
	whole, err := os.ReadFile(tiny)
	if err != nil {
		t.Fatal(err)
	}
	save := func(path string) []byte {
		l := openLoop(t, path, Config{Sequences: 1}, LoopConfig{})
		_, c := submit(t, l, greedyRequest(randomIDs(l.e, 3, 70), 2))
		c.wait(t)
		var file bytes.Buffer
		if _, err := l.SaveSlot(0, "", &file); err != nil {
			t.Fatal(err)
		}
		return file.Bytes()
	}
	file := save(tiny)
	l := openLoop(t, tiny, Config{Sequences: 1}, LoopConfig{})
	if _, err := l.RestoreSlot(0, "", bytes.NewReader(file)); err != nil {
		t.Errorf("the same model: %v", err)
	}
	old := slices.Concat([]byte("quernKV1"), file[8:])
	if _, err := l.RestoreSlot(0, "", bytes.NewReader(old)); !errors.Is(err, ErrSlotFile) || !strings.Contains(err.Error(), "older version") {
		t.Errorf("an old file: %v", err)
	}
	for _, key := range []string{"llama.attention.layer_norm_rms_epsilon", "llama.rope.freq_base"} {
		at := bytes.Index(whole, []byte(key))
		if at < 0 {
			t.Fatalf("the test model has no %s", key)
		}
		other := slices.Clone(whole)
		other[at+len(key)+4+2] ^= 0x40 // of a float32, after its type
		path := filepath.Join(t.TempDir(), "other.gguf")
		if err := os.WriteFile(path, other, 0o600); err != nil {
			t.Fatal(err)
		}
		l := openLoop(t, path, Config{Sequences: 1}, LoopConfig{})
		if _, err := l.RestoreSlot(0, "", bytes.NewReader(file)); !errors.Is(err, ErrSlotFile) || !strings.Contains(err.Error(), "configuration") {
			t.Errorf("another %s: %v", key, err)
		}
		c := openLoop(t, tiny, Config{Sequences: 1, KV: kvcache.Both(kvcache.F32)}, LoopConfig{})
		if _, err := c.RestoreSlot(0, "", bytes.NewReader(file)); !errors.Is(err, ErrSlotFile) {
			t.Errorf("another type of keys and values: %v", err)
		}
	}
}

// The factors of channels follow from all of the weights, of which the fingerprint has the
// first bytes only. Of a divided model each rank has those of its heads.
func TestSlotFileKnowsTheFactors(t *testing.T) {
	whole, err := os.ReadFile(testdata.Path(t, "archs/llama.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	other := slices.Clone(whole)
	f, err := gguf.Parse(other)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := f.Tensor("blk.0.attn_q.weight")
	if !ok || x.Type != gguf.F16 || len(x.Data) <= 4096 {
		t.Fatalf("%+v", x.Dims)
	}
	last := x.Data[len(x.Data)-4*int(x.Dims[0]):] // two rows, which the last rank has
	for i := 1; i < len(last); i += 2 {
		last[i] += 7 << 2 // times 128
	}
	for _, n := range []int{1, 2} {
		prints := map[string]string{}
		for name, kv := range map[string]kvcache.Type{"integers": kvcache.I16, "floats": kvcache.F32} {
			for i, b := range [][]byte{whole, whole, other} {
				path := filepath.Join(t.TempDir(), "m.gguf")
				if err := os.WriteFile(path, b, 0o600); err != nil {
					t.Fatal(err)
				}
				c := Config{KV: kvcache.Both(kv)}
				if n > 1 {
					c.Ranks = divided(t, path, n)
				}
				prints[fmt.Sprintf("%s %d", name, i)] = string(openLoop(t, path, c, LoopConfig{}).e.fingerprint())
			}
		}
		different := map[string]bool{}
		for _, p := range prints {
			different[p] = true
		}
		if len(different) != 3 || prints["integers 0"] != prints["integers 1"] || prints["floats 0"] != prints["floats 2"] { // floats have no factors
			t.Errorf("%d ranks: %d fingerprints, want 3: %x", n, len(different), prints)
		}
	}
}

// FuzzSlotFile restores slots from files that are anything, of this model by their head. What is refused leaves nothing in the cache.
func FuzzSlotFile(f *testing.F) {
	l := openLoop(f, tiny, Config{Sequences: 1, Batch: 32, Ctx: 256}, LoopConfig{})
	number := func(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
	units := make([]byte, l.e.kv.Layout()[0].Bytes)
	f.Add(false, slices.Concat(number(3), number(1), number(2), number(3), units))
	f.Add(false, slices.Concat(number(3), number(1), number(2), number(3), units[:99]))
	f.Add(true, slices.Concat(number(2), []byte("ab"), number(1), number(1), units))
	f.Add(true, number(1<<32-1))
	f.Fuzz(func(t *testing.T, adapted bool, rest []byte) {
		magic := slotMagic
		if adapted {
			magic = slotMagicAdapted
		}
		file := slices.Concat([]byte(magic), l.e.fingerprint(), rest)
		was, _ := l.tree.Bytes()
		got, err := l.RestoreSlot(0, "", bytes.NewReader(file))
		switch {
		case err != nil && !errors.Is(err, ErrSlotFile):
			t.Error(err)
		case err == nil && (got.Tokens == 0 || got.Bytes > int64(len(file))):
			t.Errorf("%+v of %d bytes", got, len(file))
		}
		if all, _ := l.tree.Bytes(); err != nil && all > was {
			t.Errorf("%d bytes of what was refused are in the cache", all-was)
		}
		if _, err := l.EraseSlot(0, ""); err != nil {
			t.Error(err)
		}
		checkBlocks(t, l)
	})
}

// A loop that is closed has no slots any more, whose memory is going to be the engine's; one that is being saved is
// waited for.
func TestSlotsOfAClosedLoop(t *testing.T) {
	l := openLoop(t, tiny, Config{Sequences: 1}, LoopConfig{})
	_, c := submit(t, l, greedyRequest(randomIDs(l.e, 3, 100), 1))
	c.wait(t)
	file := &gated{Buffer: &bytes.Buffer{}, begun: make(chan struct{}), gate: make(chan struct{})}
	go func() {
		if _, err := l.SaveSlot(0, "", file); err != nil {
			t.Error(err)
		}
	}()
	<-file.begun
	go func() {
		<-l.closed // the goroutine has ended, and Close goes on
		time.Sleep(20 * time.Millisecond)
		close(file.gate)
	}()
	l.Close()
	checkBlocks(t, l)
	_, save := l.SaveSlot(0, "", file)
	_, restore := l.RestoreSlot(0, "", file)
	_, erase := l.EraseSlot(0, "")
	for _, err := range []error{save, restore, erase} {
		if !errors.Is(err, ErrClosing) {
			t.Errorf("of a closed loop: %v", err)
		}
	}
}
