package model

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

var kvF32 = kernel.KVTypes{K: kernel.KVF32, V: kernel.KVF32}

const golden = "../../scripts/golden"

// A draft is a GGUF file to be changed and written.
type draft struct {
	kvs     []gguf.KV
	tensors []gguf.Tensor
}

// read drafts a copy of a golden model, or of the file at an absolute path.
func read(tb testing.TB, name string) *draft {
	tb.Helper()
	if !filepath.IsAbs(name) {
		name = filepath.Join(golden, name)
	}
	raw, err := os.ReadFile(name)
	if err != nil {
		tb.Fatal(err)
	}
	f, err := gguf.Parse(raw)
	if err != nil {
		tb.Fatal(err)
	}
	return &draft{f.KVs, f.Tensors}
}

// set changes a key, or adds it.
func (d *draft) set(key string, v any) {
	for i := range d.kvs {
		if d.kvs[i].Key == key {
			d.kvs[i].Value = v
			return
		}
	}
	d.kvs = append(d.kvs, gguf.KV{Key: key, Value: v})
}

// drop removes a key or a tensor.
func (d *draft) drop(name string) {
	for i := range d.kvs {
		if d.kvs[i].Key == name {
			d.kvs = append(d.kvs[:i:i], d.kvs[i+1:]...)
			return
		}
	}
	for i := range d.tensors {
		if d.tensors[i].Name == name {
			d.tensors = append(d.tensors[:i:i], d.tensors[i+1:]...)
			return
		}
	}
	panic("no " + name)
}

func (d *draft) tensor(name string) *gguf.Tensor {
	for i := range d.tensors {
		if d.tensors[i].Name == name {
			return &d.tensors[i]
		}
	}
	panic("no tensor " + name)
}

func (d *draft) add(name string, typ gguf.Type, data []byte, dims ...uint64) {
	d.tensors = append(d.tensors, gguf.Tensor{Name: name, Type: typ, Dims: dims, Data: data})
}

// write writes the file, and returns its path.
func (d *draft) write(tb testing.TB, name string) string {
	tb.Helper()
	w := gguf.NewWriter()
	for _, kv := range d.kvs {
		w.Set(kv.Key, kv.Value)
	}
	for _, t := range d.tensors {
		w.AddTensor(t.Name, t.Type, t.Dims, gguf.Bytes(t.Data))
	}
	path := filepath.Join(tb.TempDir(), name)
	f, err := os.Create(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	if _, err := w.WriteTo(f); err != nil {
		tb.Fatal(err)
	}
	return path
}

// load opens and loads the file at path.
func load(tb testing.TB, path string, r Residency) (*Model, error) {
	tb.Helper()
	f, err := OpenFile(path)
	if err != nil {
		return nil, err
	}
	return loadFile(tb, f, r, kvF32)
}

func loadFile(tb testing.TB, f *File, r Residency, kv kernel.KVTypes) (*Model, error) {
	tb.Helper()
	tb.Cleanup(func() { f.Close() })
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pool.Close)
	s, err := NewSurvey(f, kv, 0)
	if err != nil {
		return nil, err
	}
	m, err := s.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test"), Residency: r})
	if err == nil {
		tb.Cleanup(m.Close)
	}
	return m, err
}

// logits returns the logits after each of ids.
func logits(tb testing.TB, m *Model, ids []int32) [][]float32 {
	tb.Helper()
	return logitsBehind(tb, m, ids, nil)
}

// logitsBehind is logits of tokens that bring rows, one after the other, from the first on.
func logitsBehind(tb testing.TB, m *Model, ids []int32, brought []float32) [][]float32 {
	tb.Helper()
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		tb.Fatal(err)
	}
	defer pool.Close()
	r, err := NewRunner(m, RunnerConfig{
		Pool: pool, Budget: mem.NewBudget(1<<28, "test"),
		MaxTokens: len(ids), MaxSeqs: 1, MaxBlocks: 1, MaxOut: len(ids),
	})
	if err != nil {
		tb.Fatal(err)
	}
	defer r.Close()
	block := m.Layout[0].Bytes
	kv, err := mem.Alloc(uint64(block), "test")
	if err != nil {
		tb.Fatal(err)
	}
	defer kv.Close()
	b := r.Batch()
	b.SetState(0, kv.Bytes(), block)
	b.AddSeq([]int32{0})
	region, err := mem.Alloc(uint64(max(4*len(brought), kernel.Align)), "test") // C keeps no memory of Go's
	if err != nil {
		tb.Fatal(err)
	}
	defer region.Close()
	own, each := mem.Float32s(region.Bytes()), m.Config.MediaColumns()
	copy(own, brought)
	rows := make([]int32, len(ids))
	for i, id := range ids {
		b.Add(id, int32(i))
		if (i+1)*each <= len(brought) {
			b.Bring(own[i*each:][:each])
		}
		rows[i] = int32(i)
	}
	if err := r.Forward(nil, nil); err != nil {
		tb.Fatal(err)
	}
	r.Head(rows)
	var out [][]float32
	for i := range ids {
		out = append(out, append([]float32(nil), r.Logits(i)...))
	}
	return out
}

// seeingDraft loads the model in a draft of a file, which may be shown pictures if it sees.
func seeingDraft(t *testing.T, d *draft, pool *kernel.Pool, sees bool) *Model {
	t.Helper()
	f, err := OpenFile(d.write(t, "draft.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s, err := NewSurvey(f, kvF32, 0)
	if err != nil {
		t.Fatal(err)
	}
	if sees {
		if s, err = s.Seeing(); err != nil {
			t.Fatal(err)
		}
	}
	m, err := s.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test"), Residency: Packed})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}
