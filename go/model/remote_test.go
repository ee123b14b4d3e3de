package model

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// A far is a Source that counts how often each byte is asked for.
type far struct {
	b     []byte
	sum   string
	fail  error // of every request but those of the head
	head  int64
	next  func(p []byte)            // is called with bytes that were asked for before; may be nil
	until func(ctx context.Context) // is called when bytes are asked for again; may be nil

	mu    sync.Mutex
	asked []uint8 // by byte
}

func newFar(b []byte, sum bool) *far {
	f := &far{b: b, asked: make([]uint8, len(b))}
	if sum {
		f.sum = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	return f
}

func (f *far) Name() string    { return "far.gguf" }
func (f *far) Size() int64     { return int64(len(f.b)) }
func (f *far) Version() string { return "1" }
func (f *far) SHA256() string  { return f.sum }

func (f *far) Fetch(ctx context.Context, p []byte, off int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f.mu.Lock()
	again := f.asked[off] > 0
	f.mu.Unlock()
	if again && f.next != nil {
		defer f.next(p)
	}
	if again && f.until != nil {
		f.until(ctx)
	}
	if f.fail != nil && off >= f.head {
		return f.fail
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if copy(p, f.b[off:]) != len(p) {
		return errors.New("behind the end")
	}
	for i := range p {
		f.asked[int(off)+i]++
	}
	return nil
}

// times returns how many bytes were asked for 0 times, once and more often.
func (f *far) times() (n [3]int) {
	for _, k := range f.asked {
		n[min(k, 2)]++
	}
	return n
}

// openFar opens sources with heads that are asked for in small parts.
func openFar(t *testing.T, sources ...*far) *File {
	t.Helper()
	var all []Source
	for _, s := range sources {
		all = append(all, s)
	}
	f, err := openRemote(t.Context(), "far", all, 512)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// loadFar surveys and loads a file.
func loadFar(t *testing.T, f *File, budget *mem.Budget) (*Model, error) {
	t.Helper()
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	s, err := NewSurvey(f, kvF32, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Load(Options{Pack: pool.PackInto, Budget: budget, Residency: Auto})
	if err == nil {
		t.Cleanup(m.Close)
	}
	return m, err
}

// sameWeights compares the matrices, vectors and tables of two models.
func sameWeights(t *testing.T, name string, got, want *Model) {
	t.Helper()
	if len(got.weights.mats) != len(want.weights.mats) {
		t.Fatalf("%s: %d matrices, want %d", name, len(got.weights.mats), len(want.weights.mats))
	}
	for i, x := range got.weights.mats {
		y := want.weights.mats[i]
		if x.Name != y.Name || x.Layout != y.Layout || !bytes.Equal(x.Data, y.Data) {
			t.Errorf("%s: matrix %q, %v, is not %q, %v", name, x.Name, x.Layout, y.Name, y.Layout)
		}
	}
	if !bytes.Equal(got.weights.small.Bytes(), want.weights.small.Bytes()) {
		t.Errorf("%s: vectors differ", name)
	}
}

func farFiles(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testdata.Path(t, "archs"), "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d models: %v", len(files), err)
	}
	more, err := filepath.Glob(filepath.Join(golden, "tiny-*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	return append(files, more...)
}

// A model that is elsewhere has the weights of the same file here, in every architecture, and no byte of it is asked for twice.
// With a sum, all of them are.
func TestRemote(t *testing.T) {
	t.Parallel()
	checked, passed := 0, 0
	for _, path := range farFiles(t) {
		if testing.Short() && passed > 8 {
			break
		}
		here, err := load(t, path, Packed)
		if err != nil {
			continue // not a model alone
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(path)
		for _, sum := range []bool{false, true} {
			src := newFar(b, sum)
			f := openFar(t, src)
			budget := mem.NewBudget(1<<28, "test")
			m, err := loadFar(t, f, budget)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			sameWeights(t, name, m, here)
			n := src.times()
			if n[2] > 0 {
				t.Errorf("%s: %d bytes were asked for more than once", name, n[2])
			}
			if sum && f.Unchecked() == "" {
				if checked++; n[0] > 0 {
					t.Errorf("%s: %d bytes were not asked for, and the sum is said to be that of all", name, n[0])
				}
			}
			if !sum && f.Unchecked() == "" {
				t.Errorf("%s: without a sum it is said to be checked", name)
			}
			m.Close()
			if used := budget.Used(); used != 0 {
				t.Errorf("%s: %d bytes are reserved when it is closed: %v", name, used, budget.ByPurpose())
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
			passed++
		}
		here.Close()
		here.file.Close()
	}
	if checked < passed/3 || passed < 10 {
		t.Errorf("%d of %d loads compared sums", checked, passed)
	}
}

// What is computed is the same to the bit, also of a model that sleeps and wakes: it is read again.
func TestRemoteComputes(t *testing.T) {
	t.Parallel()
	path := testdata.Path(t, "models/quant/TinyStories-656K-moe4x2-Q4_0.gguf")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	here, err := load(t, path, Packed)
	if err != nil {
		t.Fatal(err)
	}
	ids := []int32{1, 5, 9, 2, 7}
	want := logits(t, here, ids)
	src := newFar(b, true)
	f := openFar(t, src)
	budget := mem.NewBudget(1<<28, "test")
	for i := range 2 {
		m, err := loadFar(t, f, budget)
		if err != nil {
			t.Fatal(err)
		}
		for k, row := range logits(t, m, ids) {
			for j, v := range row {
				if v != want[k][j] {
					t.Fatalf("load %d: logit %d of token %d is %v, want %v", i, j, k, v, want[k][j])
				}
			}
		}
		m.Close()
		if used := budget.Used(); used != 0 {
			t.Errorf("%d bytes are reserved when it is closed", used)
		}
	}
}

// The memory while it is loaded is what the estimate says.
func TestRemoteFits(t *testing.T) {
	t.Parallel()
	for _, path := range farFiles(t) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var all []Source
		f, err := openRemote(t.Context(), "far", append(all, newFar(b, true)), 512)
		if err != nil {
			continue
		}
		s, err := NewSurvey(f, kvF32, 0)
		if err != nil {
			f.Close()
			continue // not a model alone
		}
		e, err := s.Memory(Use{Ctx: 64, Sequences: 1, Batch: 8, MaxOut: 1, Threads: 1})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		budget := mem.NewBudget(e.Weights+e.Checks, "test")
		m, err := loadFar(t, f, budget)
		if err != nil {
			t.Errorf("%s: %v", filepath.Base(path), err)
		} else {
			if budget.Used() != m.WeightBytes() || m.WeightBytes() > e.Weights {
				t.Errorf("%s: %d bytes are reserved, the model says %d, the estimate %d", filepath.Base(path), budget.Used(), m.WeightBytes(), e.Weights)
			}
			m.Close()
		}
		for _, r := range []Residency{Mapped, Streamed} {
			if _, err := s.Memory(Use{Ctx: 64, Sequences: 1, Batch: 8, MaxOut: 1, Threads: 1, Residency: r}); !errors.Is(err, errRemote) {
				t.Errorf("%s: %v weights: %v", filepath.Base(path), r, err)
			}
		}
		f.Close()
	}
}

// Shards and packed files are read like others.
func TestRemoteForms(t *testing.T) {
	t.Parallel()
	path := testdata.Path(t, "models/quant/TinyStories-656K-moe4x2-Q4_0.gguf")
	here, err := load(t, path, Packed)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	shards, err := gguf.Cut(whole.GGUF, gguf.CutOptions{MaxTensors: 7})
	if err != nil {
		t.Fatal(err)
	}
	var sources []*far
	for _, s := range shards {
		var b bytes.Buffer
		if _, err := s.WriteTo(&b); err != nil {
			t.Fatal(err)
		}
		sources = append(sources, newFar(b.Bytes(), true))
	}
	f := openFar(t, sources...)
	m, err := loadFar(t, f, mem.NewBudget(1<<28, "test"))
	if err != nil {
		t.Fatal(err)
	}
	sameWeights(t, "shards", m, here)
	for i, s := range sources {
		if n := s.times(); n[2] > 0 || f.Unchecked() == "" && n[0] > 0 {
			t.Errorf("shard %d: bytes were asked for %v times", i, n)
		}
	}

	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var packed bytes.Buffer
	if _, err := Pack(&packed, whole, Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test")}); err != nil {
		t.Fatal(err)
	}
	src := newFar(packed.Bytes(), true)
	p := openFar(t, src)
	if m, err = loadFar(t, p, mem.NewBudget(1<<28, "test")); err != nil {
		t.Fatal(err)
	}
	ids := []int32{1, 5, 9}
	want := logits(t, here, ids)
	for k, row := range logits(t, m, ids) {
		for j, v := range row {
			if v != want[k][j] {
				t.Fatalf("packed: logit %d of token %d is %v, want %v", j, k, v, want[k][j])
			}
		}
	}
	if n := src.times(); n[2] > 0 || n[0] > 0 || p.Unchecked() != "" {
		t.Errorf("packed: bytes were asked for %v times; unchecked: %q", n, p.Unchecked())
	}
	if len(p.Digests()) == 0 {
		t.Error("a packed file has no digests")
	}
}

// Faults are one line that names the model, and leave no memory reserved.
func TestRemoteFaults(t *testing.T) {
	t.Parallel()
	path := testdata.Path(t, "models/quant/TinyStories-656K-moe4x2-Q4_0.gguf")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	load := func(src *far, fail error) error {
		f := openFar(t, src)
		src.fail, src.head = fail, int64(f.headBytes(0))+4096
		budget := mem.NewBudget(1<<28, "test")
		_, err := loadFar(t, f, budget)
		if used := budget.Used(); used != 0 {
			t.Errorf("after %v: %d bytes are reserved: %v", err, used, budget.ByPurpose())
		}
		return err
	}
	broken := newFar(b, false)
	if err := load(broken, errors.New("the server answers 500")); err == nil || !strings.Contains(err.Error(), "500") {
		t.Errorf("a server that fails: %v", err)
	}
	other := newFar(b, true)
	other.sum = fmt.Sprintf("%064x", 1)
	if err := load(other, nil); err == nil || !strings.Contains(err.Error(), "sha256") || strings.Contains(err.Error(), "\n") {
		t.Errorf("a file with another sum: %v", err)
	}
	for _, bad := range [][]byte{{}, []byte("<!doctype html>"), b[:100], append([]byte("GGUF\x03\x00\x00\x00"), bytes.Repeat([]byte{0xff}, 100)...)} {
		_, err := openRemote(t.Context(), "far", []Source{newFar(bad, false)}, 16)
		if err == nil || !strings.HasPrefix(err.Error(), "far: ") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%.20q: %v", bad, err)
		}
	}
	f := openFar(t, newFar(b, false))
	if _, err := f.Again(); !errors.Is(err, errRemote) {
		t.Errorf("a second time: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s, err := NewSurvey(f, kvF32, 0)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := s.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test"), Until: ctx}); !errors.Is(err, context.Canceled) {
		t.Errorf("a load that nobody waits for: %v", err)
	}
}

// A matrix whose weights do not fit 12 bits is read again: what passed through the buffer is asked for twice, and nothing else.
func TestRemoteTwelve(t *testing.T) {
	defer func(pays func() bool) { twelvePays = pays }(twelvePays)
	twelvePays = func() bool { return true }
	for _, sum := range []bool{false, true} {
		d := read(t, "tiny-llama-f32.gguf")
		brainFloats(d, "ffn_up.weight")
		path := d.write(t, "bf16.gguf")
		here, err := load(t, path, Packed)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		src := newFar(b, sum)
		f := openFar(t, src)
		budget := mem.NewBudget(1<<28, "test")
		m, err := loadFar(t, f, budget)
		if err != nil {
			t.Fatal(err)
		}
		sameWeights(t, "12 bits", m, here)
		twice := 0
		for _, x := range m.weights.mats {
			if strings.HasSuffix(x.Name, "ffn_up.weight") {
				twice += len(x.parts[0].Data)
			}
		}
		if n := src.times(); n[2] == 0 || n[2] > twice || sum && (n[0] > 0 || f.Unchecked() != "") {
			t.Errorf("bytes were asked for %v times, want %d twice; unchecked: %q", n, twice, f.Unchecked())
		}
		m.Close()
		if used := budget.Used(); used != 0 {
			t.Errorf("%d bytes are reserved when it is closed", used)
		}
	}
}

// Weights that are read again are those that came first, where there is a sum, and are not read when nobody waits for them.
func TestRemoteTwelveAgain(t *testing.T) {
	defer func(pays func() bool) { twelvePays = pays }(twelvePays)
	twelvePays = func() bool { return true }
	d := read(t, "tiny-llama-f32.gguf")
	brainFloats(d, "ffn_up.weight")
	b, err := os.ReadFile(d.write(t, "bf16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	src := newFar(b, true)
	src.next = func(p []byte) { p[len(p)/2] ^= 1 }
	if _, err := loadFar(t, openFar(t, src), mem.NewBudget(1<<28, "test")); err == nil || !strings.Contains(err.Error(), "ffn_up") || !strings.Contains(err.Error(), "other bytes") {
		t.Errorf("a bit differs the second time: %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	src = newFar(b, true)
	f := openFar(t, src)
	var seen context.Context
	src.until = func(ctx context.Context) { seen = ctx; cancel() }
	s, err := NewSurvey(f, kvF32, 0)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	_, err = s.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test"), Until: ctx})
	if !errors.Is(err, context.Canceled) || seen == nil || seen.Err() == nil {
		t.Errorf("a load that ends when it reads again: %v", err)
	}
}

// What is fetched before a budget is known is limited over all shards.
func TestRemoteOpenIsLimited(t *testing.T) {
	t.Parallel()
	d := read(t, "tiny-llama-f32.gguf")
	b, err := os.ReadFile(d.write(t, "a.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, open := range []int64{maxOpen, 600} {
		src := newFar(b, true)
		f := &File{name: "far", remote: &remote{sources: []Source{src}, here: map[string]int{}, stays: map[string]bool{}, first: 512, open: open}}
		err := f.openRemote(t.Context())
		if errors.Is(err, errOpen) != (open == 600) {
			t.Errorf("at most %d bytes: %v", open, err)
		}
		if n := src.times(); open == 600 && n[1] != 512 {
			t.Errorf("%d bytes were asked for", n[1])
		}
		f.Close()
	}
}
