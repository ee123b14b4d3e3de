package model

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// demoFile returns a file with the demo, changed.
func demoFile(t *testing.T, change func(f *File, b []byte)) *File {
	t.Helper()
	b := bytes.Clone(demo.GGUF())
	if change != nil {
		plain, err := OpenBytes("demo", demo.GGUF())
		if err != nil {
			t.Fatal(err)
		}
		change(plain, b)
	}
	return written(t, b)
}

// written returns a file on the disk with the bytes of a model.
func written(t *testing.T, b []byte) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// placeOf returns where a tensor's bytes lie in the demo.
func placeOf(t *testing.T, f *File, name string) int {
	t.Helper()
	x, ok := f.GGUF.Tensor(name)
	at := bytes.Index(demo.GGUF(), x.Data)
	if !ok || at < 0 {
		t.Fatalf("no tensor %q", name)
	}
	return at
}

// The same matrices are held once, whatever the files; others, even if their samples are the same, are not taken for them.
// What a closed model leaves to another stays as long as that does, and no longer.
func TestShared(t *testing.T) {
	t.Run("one place", func(t *testing.T) { testShared(t, nil) })
	t.Run("two places", func(t *testing.T) { testShared(t, []int{-1, -1}) })
	t.Run("three places, of a node", func(t *testing.T) { testShared(t, []int{0, -1, 0}) })
}

func testShared(t *testing.T, nodes []int) {
	exact := nodes == nil // else the demo's weights are far smaller than the huge pages of their places
	budget, shared := mem.NewBudget(1<<30, "a test"), NewShared()
	p, err := kernel.NewPool(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	load := func(f *File) (*Model, uint64) {
		t.Helper()
		s, err := NewSurvey(f, kvF32, 0)
		if err != nil {
			t.Fatal(err)
		}
		before := budget.Used()
		m, err := s.Load(Options{Pack: p.PackInto, Budget: budget, Residency: Packed, Shared: shared, Nodes: nodes})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		if n := budget.Used() - before; n != m.WeightBytes() {
			t.Errorf("it takes %d bytes, and says %d", n, m.WeightBytes())
		}
		return m, m.WeightBytes()
	}
	common := func(f *File) uint64 {
		t.Helper()
		s, err := NewSurvey(f, kvF32, 0)
		if err != nil {
			t.Fatal(err)
		}
		n, err := s.Common(shared)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	same := func(a, b *Model) {
		t.Helper()
		for i, x := range a.weights.mats {
			if x.Data == nil || !x.anonymous() {
				continue
			}
			var of [2][]byte
			for k, m := range []kernel.Matrix{x.Matrix, b.weights.mats[i].Matrix} {
				for piece := range m.Pieces(0, m.Bytes()) {
					of[k] = append(of[k], piece...)
				}
			}
			if !bytes.Equal(of[0], of[1]) {
				t.Errorf("%s differs", x.Name)
			}
		}
	}
	plain := demoFile(t, nil)
	if common(plain) != 0 {
		t.Error("nothing is loaded, and something is common")
	}
	first, all := load(plain)
	if n := common(demoFile(t, nil)); n*10 < all*8 && exact {
		t.Errorf("%d bytes of %d are common with itself", n, all)
	}
	again, n := load(demoFile(t, nil))
	if n*5 > all {
		t.Errorf("loaded again it takes %d bytes of %d", n, all)
	}
	same(first, again)

	// One matrix is another, in a byte that is in no sample; one in its first byte.
	name := first.weights.mats[len(first.weights.mats)/2].parts[0].Name
	tuned := demoFile(t, func(f *File, b []byte) {
		x, _ := f.GGUF.Tensor(name)
		b[placeOf(t, f, name)+len(x.Data)/16*16/samples+len(x.Data)/samples/2] ^= 1
	})
	third, m := load(tuned)
	if m <= n || m*3 > all && exact {
		t.Errorf("with another matrix it takes %d bytes, with none %d, of %d", m, n, all)
	}
	alone, err := NewSurvey(tuned, kvF32, 0)
	if err != nil {
		t.Fatal(err)
	}
	own, err := alone.Load(Options{Pack: p.PackInto, Budget: budget, Residency: Packed})
	if err != nil {
		t.Fatal(err)
	}
	same(own, third)
	own.Close()

	// The owner goes: what the others use stays.
	used := budget.Used()
	first.Close()
	if freed := used - budget.Used(); freed == 0 || freed*2 > all && exact {
		t.Errorf("%d bytes of %d were freed while others use them", freed, all)
	}
	back, n := load(demoFile(t, nil))
	if n*5 > all {
		t.Errorf("it finds what it left, and takes %d bytes", n)
	}
	same(back, again)
	again.Close()
	third.Close()
	back.Close()
	if budget.Used() != 0 || len(shared.parts) != 0 {
		t.Errorf("%d bytes are left, and %d matrices", budget.Used(), len(shared.parts))
	}
}
