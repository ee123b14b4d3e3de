package model

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/stream"
)

// Matrices that are read past the file's pages are those that are read from them, whatever parts of the file are cached.
func TestFed(t *testing.T) {
	for _, path := range []string{
		filepath.Join(golden, "tiny-llama-mixed.gguf"), filepath.Join(golden, "tiny-moe-f32.gguf"),
		testdata.Path(t, "models/quant/TinyStories-656K-moe4x2-Q4_0.gguf"), testdata.Path(t, "archs/deepseek2.gguf"),
	} {
		base, err := load(t, path, Packed)
		if err != nil {
			t.Fatal(err)
		}
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := NewSurvey(f, kvF32, 0)
		if err != nil {
			t.Fatal(err)
		}
		w, err := s.take(Packed)
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		if err := w.bind(mem.NewBudget(1<<28, "test"), nil); err != nil {
			t.Fatal(err)
		}
		pool, err := kernel.NewPool(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		var mats []*matrix
		var parts []stream.Range
		for _, x := range w.mats {
			if w.readNow(x) {
				mats = append(mats, x)
				for _, c := range x.chunks() {
					if !x.transposed {
						parts = append(parts, c.source())
					}
				}
			}
		}
		from, err := stream.Open(f.Paths)
		if err != nil {
			t.Fatal(err)
		}
		room, err := mem.Alloc(uint64(max(stream.FeedBytes(parts, 2), 1)), "a test")
		if err != nil {
			t.Fatal(err)
		}
		defer room.Close()
		spare := make([]byte, w.checkBytes())
		read := 0
		r := reading{Options: Options{Pack: pool.PackMat}, file: f, pack: w.big, spare: spare}
		r.feed = &feed{parts: stream.NewFeed(from, parts, room.Bytes(), func(r stream.Range) bool {
			cached := r.Off%3 == 0
			if !cached {
				read++
			}
			return cached
		})}
		defer r.feed.parts.Close()
		for _, x := range mats {
			if err := r.matrix(x); err != nil {
				t.Fatal(err)
			}
			if want := base.weights.byName[x.Name].Data; x.anonymous() && !bytes.Equal(x.Data, want) {
				t.Errorf("%s: matrix %q is another one", path, x.Name)
			}
		}
		if read == 0 {
			t.Errorf("%s: nothing was read past the file's pages", path)
		}
	}
}

// Where the file has room in the page cache, what is packed later is read while what is needed first is packed.
func TestReadsOn(t *testing.T) {
	b, err := os.ReadFile(testdata.Path(t, "models/quant/TinyStories-656K-moe4x2-Q4_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s, err := NewSurvey(f, kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16}, 0) // channels are balanced by what is read first
	if err != nil {
		t.Fatal(err)
	}
	forget(t, f)
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	began := make(chan struct{})
	m, err := s.Load(Options{Pack: pool.PackMat, Budget: mem.NewBudget(1<<28, "test"), Residency: Packed, Early: func() func() {
		<-began // nothing is packed before
		return func() {}
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	defer close(began)
	if n := m.arriving.all(); n == 0 || n == len(inOrder(&find{m.weights, m.program})) {
		t.Fatalf("%d matrices are packed later: none, or all", n)
	}
	for x := range m.arriving.place {
		for _, r := range sources([]*matrix{x}) {
			for end := time.Now().Add(time.Minute); !f.regions[r.File].Present(int(r.Off), r.N); time.Sleep(time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%s is not in the page cache", x.Name)
				}
			}
		}
	}
}

// forget drops a file from memory, and has the kernel read no more of it than what it is asked for.
func forget(t *testing.T, f *File) {
	t.Helper()
	region := f.regions[0]
	if err := errors.Join(region.DontNeed(0, len(region.Bytes())), region.Random(0, len(region.Bytes()))); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(f.Paths[0], os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := errors.Join(w.Sync(), unix.Fadvise(int(w.Fd()), 0, 0, unix.FADV_DONTNEED)); err != nil {
		t.Fatal(err)
	}
}
