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
		if err := w.bind(mem.NewBudget(1<<28, "test"), nil, nil); err != nil {
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
					if x.remade == nil {
						parts = append(parts, c.source())
					}
				}
			}
		}
		from, err := stream.Open(f.Paths)
		if err != nil {
			t.Fatal(err)
		}
		room, err := mem.Alloc(uint64(max(stream.FeedBytes(parts, 1<<20), 1)), "a test")
		if err != nil {
			t.Fatal(err)
		}
		defer room.Close()
		spare, err := mem.Alloc(uint64(max(w.checkBytes(), 1)), "a test")
		if err != nil {
			t.Fatal(err)
		}
		defer spare.Close()
		read := 0
		r := reading{Options: Options{Pack: pool.PackInto}, file: f, spare: spare.Bytes()}
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
	s := surveyCold(t, b)
	f := s.file
	pool, err := kernel.NewPool(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	began := make(chan struct{})
	m, err := s.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<28, "test"), Residency: Packed, Early: func() func() {
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

// A file that has no room in the page cache passes through a buffer, of which the load and what arrives after it have one if there is
// memory for it; else only the load has, in what is lent. What was taken is given back. A file that has grown is
// read where it is mapped; of one that was cut the weights are not there, which is an error.
func TestLoadsPastTheCache(t *testing.T) {
	b, err := os.ReadFile(testdata.Path(t, "models/quant/TinyStories-656K-moe4x2-Q4_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	pool, err := kernel.NewPool(2, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var want map[string][]byte
	for _, tt := range []struct {
		name      string
		own, lent int  // bytes of memory beyond the weights
		size      int  // of the file, once it is opened
		buffer    bool // what arrives has one
	}{
		{name: "room for all", own: 1 << 28, size: len(b)},
		{name: "a buffer", own: len(b) * 3 / 4, size: len(b), buffer: true},
		{name: "a lent buffer", lent: len(b) * 3 / 4, size: len(b)},
		{name: "no buffer", size: len(b)},
		{name: "grown", own: len(b) * 3 / 4, size: len(b) + 100_000},
		{name: "cut", own: len(b) * 3 / 4, size: len(b) / 2},
	} {
		s := surveyCold(t, b)
		f := s.file
		found, err := s.find(Packed)
		if err != nil {
			t.Fatal(err)
		}
		cold := !allCached(sources(found.weights.mats), func(r stream.Range) bool { return f.regions[r.File].Present(int(r.Off), r.N) })
		if tt.size != len(b) {
			if err := os.Truncate(f.Paths[0], int64(tt.size)); err != nil {
				t.Fatal(err)
			}
		}
		budget := mem.NewBudget(found.weights.bytes()+found.weights.checkBytes()+uint64(tt.own+tt.lent), "test")
		held, err := budget.Reserve("keys and values", uint64(tt.lent))
		if err != nil {
			t.Fatal(err)
		}
		began := make(chan struct{})
		m, err := s.Load(Options{Pack: pool.PackInto, Budget: budget, Residency: Packed, Lent: uint64(tt.lent), Early: func() func() {
			<-began
			return func() {}
		}})
		if err == nil {
			if taken := budget.ByPurpose()["weights on their way"]; (taken > 0) != (tt.buffer && cold) {
				t.Errorf("%s: a buffer of %d bytes for what arrives", tt.name, taken)
			}
			close(began)
			err = m.arriving.wait(m.arriving.all())
			if err == nil {
				got := map[string][]byte{}
				for _, x := range m.weights.mats {
					if x.anonymous() {
						got[x.Name] = bytes.Clone(x.Data)
					}
				}
				if want == nil {
					want = got
				}
				for name := range want {
					if !bytes.Equal(got[name], want[name]) {
						t.Errorf("%s: matrix %q is another one", tt.name, name)
					}
				}
			}
			m.Close()
		}
		if tt.size < len(b) != errors.Is(err, ErrDamaged) || tt.size >= len(b) && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if used := budget.Used(); used != held.Bytes() {
			t.Errorf("%s: %d bytes are still taken", tt.name, used-held.Bytes())
		}
	}
}

// surveyCold surveys a model in a file that is not in the page cache.
func surveyCold(t *testing.T, b []byte) *Survey {
	t.Helper()
	f := written(t, b)
	s, err := NewSurvey(f, kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16}, 0) // channels are balanced by what is read first
	if err != nil {
		t.Fatal(err)
	}
	forget(t, f)
	return s
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
