package model

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/mutate"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/model/nn"
)

// FuzzModels changes what small models of every architecture say of themselves: counts, lengths, types, names,
// shapes. What comes of it is read, surveyed, loaded and run, or refused in a line, without memory for counts that
// nothing stands behind.
func FuzzModels(f *testing.F) {
	z := newZoo(f)
	for i := range z.models {
		f.Add(uint16(i), []byte{byte(i), 1, byte(i >> 1), 3, 5, 8, 13})
	}
	f.Fuzz(func(t *testing.T, which uint16, script []byte) {
		z.try(t, int(which)%len(z.models), script)
	})
}

// TestMutatedModels is FuzzModels with a fixed number of changes to each model.
func TestMutatedModels(t *testing.T) {
	z := newZoo(t)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range z.models {
		for range 40 {
			script := make([]byte, 24)
			for k := range script {
				script[k] = byte(rng.Uint32())
			}
			z.try(t, i, script)
			if t.Failed() {
				return
			}
		}
	}
	t.Logf("%d models: %d changed files were read, %d loaded, %d run", len(z.models), z.read, z.loaded, z.ran)
	if z.read == 0 || z.loaded == 0 || z.ran == 0 {
		t.Error("no changed file came far enough")
	}
}

// A zoo is small models, and all keys and tensors that they have.
type zoo struct {
	models []*draft
	names  []string
	keys   []string // without the architecture's name
	shapes []string // the names of tensors
	pool   *kernel.Pool
	path   string
	plain  string // a model that heads draft for

	read, loaded, ran int
}

func newZoo(tb testing.TB) *zoo {
	tb.Helper()
	z := &zoo{path: filepath.Join(tb.TempDir(), "changed.gguf"), plain: filepath.Join(golden, headed)}
	for _, dir := range []string{"testdata/archs", testdata.Path(tb, "archs")} {
		files, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
		if err != nil || len(files) == 0 {
			tb.Fatalf("%d models in %s: %v", len(files), dir, err)
		}
		for _, path := range files {
			path, err := filepath.Abs(path)
			if err != nil {
				tb.Fatal(err)
			}
			z.models, z.names = append(z.models, read(tb, path)), append(z.names, filepath.Base(path))
		}
	}
	raw, err := os.ReadFile(z.plain)
	if err != nil {
		tb.Fatal(err)
	}
	for _, h := range heads {
		head, err := h.GGUF(raw)
		if err != nil {
			tb.Fatal(err)
		}
		file, err := gguf.Parse(head)
		if err != nil {
			tb.Fatal(err)
		}
		z.models, z.names = append(z.models, &draft{file.KVs, file.Tensors}), append(z.names, "a head, "+h.Arch)
	}
	z.index()
	if z.pool, err = kernel.NewPool(1, nil); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(z.pool.Close)
	return z
}

// index lists the keys and the tensors of all models.
func (z *zoo) index() {
	for _, d := range z.models {
		for _, kv := range d.kvs {
			if _, key, ok := strings.Cut(kv.Key, d.arch()+"."); ok {
				z.keys = append(z.keys, key)
			}
		}
		for _, x := range d.tensors {
			z.shapes = append(z.shapes, x.Name)
		}
	}
	slices.Sort(z.keys)
	slices.Sort(z.shapes)
	z.keys, z.shapes = slices.Compact(z.keys), slices.Compact(z.shapes)
}

func (d *draft) arch() string {
	for _, kv := range d.kvs {
		if s, ok := kv.Value.(string); ok && kv.Key == "general.architecture" {
			return s
		}
	}
	return ""
}

// mutate changes a model's file once.
func (z *zoo) mutate(d *draft, r *mutate.Dice) {
	if len(d.kvs) == 0 || len(d.tensors) == 0 { // of which the last one was dropped
		return
	}
	kv := &d.kvs[r.Below(len(d.kvs))]
	x := &d.tensors[r.Below(len(d.tensors))]
	switch r.Below(16) {
	case 0:
		d.drop(kv.Key)
	case 1, 2:
		kv.Value = r.Any()
	case 3, 4:
		kv.Value = r.Nudge(kv.Value)
	case 5:
		d.set(d.arch()+"."+z.keys[r.Below(len(z.keys))], r.Any())
	case 6: // a number for each layer, or for some
		list := make([]int32, r.Below(9))
		for i := range list {
			list[i] = int32(r.Below(80)) - 2
		}
		kv.Value = list
	case 7:
		d.drop(x.Name)
	case 8:
		x.Name = z.shapes[r.Below(len(z.shapes))]
	case 9:
		other := &d.tensors[r.Below(len(d.tensors))]
		x.Name, other.Name = other.Name, x.Name
	case 10:
		x.Type = []gguf.Type{gguf.F32, gguf.F16, gguf.Q8_0, gguf.I32, gguf.I8, gguf.Q4_K, gguf.BF16}[r.Below(7)]
	case 11, 12, 13:
		at := r.Below(len(x.Dims))
		n := x.Dims[at]
		x.Dims[at] = []uint64{1, n + 1, n - 1, n + 16, n / 2, 2 * n, n + 32, 1 << 12, 1 << 22, 1 << 32}[r.Below(10)]
	case 14:
		if len(x.Dims) < gguf.MaxDims {
			x.Dims = append(x.Dims, uint64(r.Below(3)+1))
		} else {
			x.Dims = x.Dims[:1]
		}
	case 15:
		names := arch.Names()
		name, was := names[r.Below(len(names))], d.arch()
		for i := range d.kvs {
			if _, key, ok := strings.Cut(d.kvs[i].Key, was+"."); ok {
				d.kvs[i].Key = name + "." + key
			}
		}
		d.set("general.architecture", name)
	}
}

// mostBytes is how large a file a test writes.
const mostBytes = 8 << 20

// try changes a model by a script, and has it read, loaded and run as far as it goes.
func (z *zoo) try(t *testing.T, which int, script []byte) {
	t.Helper()
	d := &draft{slices.Clone(z.models[which].kvs), slices.Clone(z.models[which].tensors)}
	for i := range d.tensors {
		d.tensors[i].Dims = slices.Clone(d.tensors[i].Dims)
	}
	r := &mutate.Dice{Left: script}
	for range 1 + r.Below(3) {
		if len(d.kvs) > 0 && len(d.tensors) > 0 {
			z.mutate(d, r)
		}
	}
	w := gguf.NewWriter()
	for _, kv := range d.kvs {
		w.Set(kv.Key, kv.Value)
	}
	for _, x := range d.tensors {
		size, err := x.Type.Size(x.Dims)
		if err != nil || size == 0 {
			return // which the format does not allow
		}
		if size <= mostBytes && size != uint64(len(x.Data)) {
			x.Data = bytes.Repeat(x.Data[:max(min(len(x.Data), int(size)), 1)], int(size)/max(min(len(x.Data), int(size)), 1)+1)[:size]
		}
		w.AddTensor(x.Name, x.Type, x.Dims, gguf.Bytes(x.Data))
	}
	outline, err := w.Outline()
	if err != nil {
		return
	}
	defer func() {
		if v := recover(); v != nil {
			t.Errorf("%s by %v: panic: %v", z.names[which], script, v)
			panic(v)
		}
	}()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err = z.survey(Outline("changed", outline))
	runtime.ReadMemStats(&after)
	if made := after.TotalAlloc - before.TotalAlloc; made > 100<<20 {
		t.Errorf("%s by %v: %d MB to read it, error %v", z.names[which], script, made>>20, err)
	}
	if err == nil {
		z.read++
		if size, serr := w.Size(); serr == nil && size < mostBytes {
			err = z.run(t, w, r)
		}
	}
	if err != nil && strings.ContainsAny(err.Error(), "\n\x00") {
		t.Errorf("%s by %v: more than a line: %v", z.names[which], script, err)
	}
}

// survey reads all of a file but its data.
func (z *zoo) survey(file *File) error {
	if name, err := file.GGUF.Str("general.architecture"); err == nil && arch.IsHead(name) {
		plain, err := OpenFile(z.plain)
		if err != nil {
			return err
		}
		defer plain.Close()
		if err := plain.DraftBy(file); err != nil {
			return err
		}
		s, err := NewSurvey(plain, kvF32, 64)
		if err != nil {
			return err
		}
		if _, err = s.Drafting(); err != nil {
			return err
		}
		return errors.New("a head is not run alone")
	}
	s, err := NewSurvey(file, kvF32, 64)
	if err != nil {
		return err
	}
	if _, err := s.Drafting(); err != nil && strings.Contains(err.Error(), "\n") {
		return err
	}
	_, err = s.find(Mapped)
	return err
}

// run writes the file, loads it and evaluates some tokens.
func (z *zoo) run(t *testing.T, w *gguf.Writer, r *mutate.Dice) error {
	out, err := os.Create(z.path)
	if err != nil {
		t.Fatal(err)
	}
	buf := bufio.NewWriter(out)
	_, err = w.WriteTo(buf)
	if err = errors.Join(err, buf.Flush(), out.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(z.path)
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := NewSurvey(f, kvF32, 64)
	if err != nil {
		return err
	}
	budget := mem.NewBudget(1<<28, "test")
	m, err := s.Load(Options{Pack: z.pool.PackInto, Budget: budget, Residency: []Residency{Packed, Mapped}[r.Below(2)]})
	if err != nil {
		return err
	}
	defer m.Close()
	z.loaded++
	const n = 5
	run, err := NewRunner(m, RunnerConfig{Pool: z.pool, Budget: budget, MaxTokens: n, MaxSeqs: 2, MaxBlocks: 1, MaxOut: n})
	if err != nil {
		return err
	}
	defer run.Close()
	kv, err := kvcache.NewPool(budget, m.Layout, m.Layout.Most(2*n, 2*n)+m.Layout.Copy())
	if err != nil {
		return err
	}
	defer kv.Close()
	b := run.Batch()
	for i, g := range m.Layout {
		b.SetState(i, kv.Units(i).Memory, g.Bytes)
	}
	table := kv.NewTable()
	steps := 2
	if m.Config.OnePass() {
		steps = 1
	}
	for step := range steps {
		if err := table.Grow(n); err != nil {
			return err
		}
		b.Reset()
		source := 0
		if len(m.Config.Encoder) > 0 {
			source = 2
		}
		var rows []int32
		for i := range n {
			if i == 0 || i == source {
				b.AddSeq(table.Units()...)
				b.Source(source)
			}
			b.Add(int32((step*n+i*7)%m.Config.NVocab), int32(step*n+i))
			if i >= source {
				rows = append(rows, int32(i-source))
			}
		}
		if err := run.Forward(nil, nil); err != nil {
			return err
		}
		if m.Has(nn.Logits) {
			run.Head(rows)
		} else {
			run.Compute(nn.Vectors, rows)
		}
		table.Commit()
	}
	z.ran++
	if n := budget.Used(); n == 0 {
		return fmt.Errorf("no memory was counted")
	}
	return nil
}
