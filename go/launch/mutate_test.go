package launch

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/mutate"
	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/tokenizer"
)

// FuzzFiles changes the metadata of whole models: vocabulary, chat template, sizes. What comes of them is opened and
// continues a text, or is refused in a line.
func FuzzFiles(f *testing.F) {
	z := newZoo(f)
	for i := range z.files {
		f.Add(uint8(i), []byte{1, 7, 2, 3, 5, 8, 13, 21})
	}
	f.Fuzz(func(t *testing.T, which uint8, script []byte) { z.try(t, int(which)%len(z.files), script) })
}

// TestMutatedFiles is FuzzFiles with a fixed number of changes to each model.
func TestMutatedFiles(t *testing.T) {
	z := newZoo(t)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range z.files {
		for range 60 {
			script := make([]byte, 16)
			for k := range script {
				script[k] = byte(rng.Uint32())
			}
			if z.try(t, i, script); t.Failed() {
				return
			}
		}
	}
	if t.Logf("%d of %d changed models were opened", z.opened, 60*len(z.files)); z.opened == 0 {
		t.Error("none came far enough")
	}
}

// A zoo is models that have everything.
type zoo struct {
	files  []*gguf.File
	path   string
	device *engine.Device
	opened int
}

func newZoo(tb testing.TB) *zoo {
	tb.Helper()
	z := &zoo{path: filepath.Join(tb.TempDir(), "changed.gguf")}
	talker := scripted.Model{
		Template: "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}", Scripts: []scripted.Script{{Text: "Hello."}},
	}
	said, err := talker.GGUF()
	if err != nil {
		tb.Fatal(err)
	}
	tiny, err := os.ReadFile(tinyModel(tb))
	if err != nil {
		tb.Fatal(err)
	}
	for _, raw := range [][]byte{said, tiny} {
		f, err := gguf.Parse(raw)
		if err != nil {
			tb.Fatal(err)
		}
		z.files = append(z.files, f)
	}
	if z.device, err = (DeviceSettings{Threads: 1, Memory: 1 << 30}).Open(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { z.device.Close() })
	return z
}

func (z *zoo) try(t *testing.T, which int, script []byte) {
	t.Helper()
	dice := &mutate.Dice{Left: script}
	kvs := slices.Clone(z.files[which].KVs)
	for range 1 + dice.Below(2) {
		kvs = dice.KVs(kvs)
	}
	w := gguf.NewWriter()
	for _, kv := range kvs {
		w.Set(kv.Key, kv.Value)
	}
	for _, x := range z.files[which].Tensors {
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
	}
	if _, err := w.Size(); err != nil {
		return // which the format does not allow
	}
	out, err := os.Create(z.path)
	if err != nil {
		t.Fatal(err)
	}
	buf := bufio.NewWriter(out)
	_, err = w.WriteTo(buf)
	if err = errors.Join(err, buf.Flush(), out.Close()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("model %d by %v: panic: %v", which, script, v)
			panic(v)
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = z.open(t.Context())
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 200<<20 {
		t.Errorf("model %d by %v: %d MB, error %v", which, script, made>>20, err)
	}
	if err != nil && (strings.ContainsAny(err.Error(), "\n\x00") || bytes.Contains([]byte(err.Error()), []byte("bug in"))) {
		t.Errorf("model %d by %v: %v", which, script, err)
	}
}

// open opens the changed model, and continues a text.
func (z *zoo) open(ctx context.Context) error {
	h, err := (&Files{}).ReadHead(z.path, Settings{Ctx: 64, Batch: 16})
	if err != nil {
		return err
	}
	if _, _, err := h.Template(Template{}); err != nil {
		h.Close()
		return err
	}
	m, err := h.Open(ctx, z.device, Events{})
	if err != nil {
		return err
	}
	defer m.Close()
	s, err := m.NewSequence()
	if err != nil {
		return err
	}
	defer s.Close()
	ids := h.Tokenizer.Begin(h.Tokenizer.Encode("Hello there", tokenizer.Options{ParseSpecial: true}))
	if len(ids) == 0 {
		return nil
	}
	ids = ids[:min(len(ids), 20)]
	z.opened++
	return m.Engine.Eval(ctx, s, ids, len(ids)-1, func(int, []float32) error { return nil })
}
