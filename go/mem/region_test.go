package mem

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/platform"
)

// file writes a file of n bytes, each different from its neighbours.
func file(t *testing.T, n int) (name string, content []byte) {
	t.Helper()
	content = make([]byte, n)
	for i := range content {
		content[i] = byte(i*7 + i>>8)
	}
	name = filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name, content
}

func TestMap(t *testing.T) {
	for _, n := range []int{1, 4095, 4096, 4097, 3<<20 + 5} {
		name, want := file(t, n)
		r, err := Map(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(r.Bytes(), want) {
			t.Errorf("%d bytes: the mapping differs from the file", n)
		}
		for _, err := range []error{r.DontNeed(0, n), r.Prefault(2)} {
			if err != nil {
				t.Errorf("%d bytes: %v", n, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Errorf("%d bytes: close: %v", n, err)
		}
	}
}

func TestMapRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refuses(t, dir, "a directory")
	refuses(t, empty, "empty")
	missing := filepath.Join(dir, "missing")
	refuses(t, missing, "")
	if _, err := Map(missing); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is missing: %v", err)
	}
}

// refuses checks that Map refuses to map a file, with one line that has the name and a reason.
func refuses(t *testing.T, name, want string) {
	t.Helper()
	r, err := Map(name)
	if err == nil {
		t.Errorf("mapped %s: %d bytes", name, len(r.Bytes()))
		return
	}
	if s := err.Error(); !strings.Contains(s, want) || !strings.Contains(s, name) || strings.Contains(s, "\n") {
		t.Errorf("Map(%s): %q, want one line with the name and %q", name, s, want)
	}
}

func TestDontNeed(t *testing.T) {
	name, want := file(t, 16<<20+100)
	r, err := Map(name)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if !bytes.Equal(r.Bytes(), want) {
		t.Fatal("the mapping differs from the file")
	}
	before := RSS()
	if err := r.DontNeed(0, len(want)); err != nil {
		t.Fatal(err)
	}
	if after := RSS(); before < after+8<<20 {
		t.Errorf("RSS went from %s to %s by dropping 16 MiB", FormatBytes(before), FormatBytes(after))
	}
	for _, span := range [][2]int{{1, 4094}, {4096, 4096}, {0, 0}, {len(want), 0}, {4095, 1 << 20}, {5, len(want) - 5}} {
		if err := r.DontNeed(span[0], span[1]); err != nil {
			t.Errorf("DontNeed(%d, %d): %v", span[0], span[1], err)
		}
	}
	if !bytes.Equal(r.Bytes(), want) {
		t.Error("the bytes changed when they were dropped")
	}
	const most = int(^uint(0) >> 1)
	for _, span := range [][2]int{{-1, 5}, {0, len(want) + 1}, {len(want) + 1, 0}, {10, -1}, {10, most}, {most, most}} {
		if r.DontNeed(span[0], span[1]) == nil {
			t.Errorf("DontNeed(%d, %d) of %d bytes: no error", span[0], span[1], len(want))
		}
	}
}

func TestAlloc(t *testing.T) {
	for _, n := range []uint64{1, 4096, 4097, HugePage - 1, HugePage, HugePage + 1, 2*HugePage + 12345} {
		r, err := Alloc(n, "tests")
		if err != nil {
			t.Fatal(err)
		}
		b := r.Bytes()
		if uint64(len(b)) != n || uint64(cap(b)) != n {
			t.Errorf("Alloc(%d) has length %d, capacity %d", n, len(b), cap(b))
		}
		if addr(b)%HugePage != 0 {
			t.Errorf("Alloc(%d) is at %#x", n, addr(b))
		}
		for i := range b {
			if b[i] != 0 {
				t.Fatalf("Alloc(%d)[%d] = %d", n, i, b[i])
			}
			b[i] = 0xa5
		}
		if err := r.Prefault(3); err != nil {
			t.Errorf("prefault %d: %v", n, err)
		}
		if bytes.Count(b, []byte{0xa5}) != len(b) {
			t.Errorf("prefault changed the bytes of Alloc(%d)", n)
		}
		if err := r.DontNeed(0, len(b)); err == nil || b[0] != 0xa5 {
			t.Errorf("DontNeed lost the bytes of Alloc(%d): %v", n, err)
		}
		if err := r.Close(); err != nil {
			t.Errorf("close %d: %v", n, err)
		}
	}
}

func TestAllocRefuses(t *testing.T) {
	for _, n := range []uint64{0, 1 << 62, 1<<63 - 1, 1 << 63, ^uint64(0)} {
		r, err := Alloc(n, "dreams")
		if err == nil {
			t.Errorf("Alloc(%d) gave %d bytes", n, len(r.Bytes()))
		} else if !strings.Contains(err.Error(), "dreams") {
			t.Errorf("Alloc(%d): %q does not say what for", n, err)
		}
	}
}

func TestClose(t *testing.T) {
	name, _ := file(t, 5000)
	mapped, err := Map(name)
	if err != nil {
		t.Fatal(err)
	}
	alloced, err := Alloc(5000, "tests")
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*Region{mapped, alloced, {}} {
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				if err := r.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		wg.Wait()
		if r.Bytes() != nil {
			t.Error("a closed region has bytes")
		}
		for _, err := range []error{r.DontNeed(0, 0), r.Prefault(1)} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("on a closed region: %v", err)
			}
		}
	}
}

// A closed region is unmapped: to read it faults.
func TestCloseUnmaps(t *testing.T) {
	r, err := Alloc(HugePage, "tests")
	if err != nil {
		t.Fatal(err)
	}
	b := r.Bytes()
	b[0] = 1
	r.Close()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil {
			t.Error("the bytes of a closed region can be read")
		}
	}()
	t.Log(b[0])
}

func TestViews(t *testing.T) {
	r, err := Alloc(64, "tests")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := r.Bytes()
	copy(b, []byte{0, 0, 0x80, 0x3f, 0xff, 0xff, 0xff, 0xff})
	if f := Float32s(b); len(f) != 16 || f[0] != 1 {
		t.Errorf("floats %v", f)
	}
	if v := Int32s(b); len(v) != 16 || v[1] != -1 {
		t.Errorf("ints %v", v)
	}
	if v := Uint32s(b); len(v) != 16 || v[1] != 1<<32-1 {
		t.Errorf("uints %v", v)
	}
	Float32s(b)[3] = 2
	if b[15] != 0x40 {
		t.Error("a view is a copy")
	}
	if len(Float32s(nil)) != 0 || len(Uint32s(b[4:4])) != 0 {
		t.Error("a view of nothing has something")
	}
	for name, f := range map[string]func(){
		"floats, misaligned":    func() { Float32s(b[2:6]) },
		"floats with remainder": func() { Float32s(b[:6]) },
		"ints, misaligned":      func() { Int32s(b[1:5]) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// A region of the program's own bytes keeps them, whatever it is told.
func TestStatic(t *testing.T) {
	own := bytes.Repeat([]byte("0123456789abcdef"), 1<<12)
	b := own[5 : len(own)-3] // neither end is a page's
	r := Static(b)
	if !bytes.Equal(r.Bytes(), b) {
		t.Fatal("it is not what was given")
	}
	for name, err := range map[string]error{
		"Prefault": r.Prefault(2), "DontNeed": r.DontNeed(0, len(b)),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r.DontNeed(0, len(b)+1) == nil {
		t.Error("a byte more than it has was dropped")
	}
	if want := bytes.Repeat([]byte("0123456789abcdef"), 1<<12); !bytes.Equal(own, want) {
		t.Error("advice changed the bytes")
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if r.Bytes() != nil || !errors.Is(r.DontNeed(0, 1), ErrClosed) {
		t.Error("it is not closed")
	}
	if want := bytes.Repeat([]byte("0123456789abcdef"), 1<<12); !bytes.Equal(own, want) {
		t.Error("closing changed the bytes")
	}
}

// Discarded pages read as zeros, and those that are not whole stay.
func TestDiscard(t *testing.T) {
	r, err := Alloc(8*uint64(platform.PageSize), "test")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, page := r.Bytes(), platform.PageSize
	for i := range b {
		b[i] = 1
	}
	if err := r.Discard(page/2, 3*page); err != nil {
		t.Fatal(err)
	}
	for i, want := range map[int]byte{0: 1, page - 1: 1, page: 0, 3*page - 1: 0, 3 * page: 1} {
		if b[i] != want {
			t.Errorf("byte %d is %d, want %d", i, b[i], want)
		}
	}
	for _, bad := range [][2]int{{-1, 1}, {0, 8*page + 1}, {8*page + 1, 0}, {1, 1 << 62}} {
		if err := r.Discard(bad[0], bad[1]); err == nil {
			t.Errorf("[%d,+%d) was discarded", bad[0], bad[1])
		}
	}
	if err := Static(b).Discard(0, page); err == nil {
		t.Error("static bytes were discarded")
	}
}
