package model

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// poison returns n bytes that no C function may be called with, since they hold Go pointers: the call panics.
func poison(n int) []byte {
	all := make([]*int, n/8+1)
	for i := range all {
		all[i] = new(int)
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(all))), n)
}

// A panic in one of the goroutines that read weights is the error of who waits for it.
func TestPanicsOfWorkers(t *testing.T) {
	path, err := filepath.Abs("testdata/rows-interleaved.gguf")
	if err != nil {
		t.Fatal(err)
	}
	d := read(t, path)
	for name, typ := range interleavedTypes() {
		x := *d.tensor(name)
		in, of := int(x.Dims[0]), int(x.Dims[1])
		x.Data = poison(len(x.Data))
		f32 := gguf.Tensor{Name: "x", Type: gguf.F32, Dims: []uint64{64, 32}, Data: poison(4 * 64 * 32)}
		rows := &matrix{Matrix: kernel.Matrix{Type: kernel.F32, In: 64, Out: 32}}
		for what, f := range map[string]func() error{
			"apart": func() error {
				_, err := apart(make([]byte, len(x.Data)), &x, in, x.Data)
				return err
			},
			"transposed": func() error {
				_, err := transpose(make([]byte, 4*in*of), &x)
				return err
			},
			"squares": func() error { return (&squares{}).read(rows, 0, f32.Data) },
			"merged":  func() error { return writeMerged(io.Discard, &f32, nil, gguf.F32) },
		} {
			var p *panics.Panic
			if err := f(); !errors.As(err, &p) || len(p.Stack) == 0 || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v, %s: %v", typ, what, err)
			}
		}
	}
}

// A panic where weights are packed after the load is the error of those who wait for them.
func TestPanicsLater(t *testing.T) {
	b, err := os.ReadFile(testdata.Path(t, "models/quant/TinyStories-656K-moe4x2-Q4_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var later atomic.Bool
	m, err := surveyCold(t, b).Load(Options{
		Budget: mem.NewBudget(1<<28, "test"), Residency: Packed,
		Pack: func(dst kernel.Matrix, first int, src kernel.Matrix) error {
			if later.Load() {
				panic("a bug")
			}
			return pool.PackInto(dst, first, src)
		},
		Early: func() func() {
			later.Store(true)
			return func() {}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var p *panics.Panic
	if err := m.arriving.wait(m.arriving.all()); !errors.As(err, &p) || p.Value != "a bug" {
		t.Errorf("those who wait are told %v", err)
	}
}

// So is one while packed rows are copied.
func TestSpreadPanics(t *testing.T) {
	src := make([]byte, 8*kernel.Align)
	if err := spread(make([]byte, len(src)), src, 4); err != nil {
		t.Error(err)
	}
	err := spread(make([]byte, kernel.Align), src, 4)
	if p := (*panics.Panic)(nil); !errors.As(err, &p) {
		t.Errorf("%v, want a panic", err)
	}
}
