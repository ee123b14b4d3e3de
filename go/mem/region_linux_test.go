package mem

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMapRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	refuses(t, link, "a directory")
	refuses(t, fifo, "a pipe")
	refuses(t, "/dev/zero", "a device")
}

// What was mapped for the alignment is given back, or each small region would
// take 2 MiB of addresses.
func TestAllocTrims(t *testing.T) {
	size := func() uint64 { // in pages
		b, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.ParseUint(strings.Fields(string(b))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n * uint64(os.Getpagesize())
	}
	before := size()
	const n = 100
	for range n {
		r, err := Alloc(4096, "tests")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
	}
	if grew := size() - before; grew > n*HugePage/8 {
		t.Errorf("%d regions of 4096 bytes took %s of addresses", n, FormatBytes(grew))
	}
}

// Memory that is moved has its bytes elsewhere, and leaves zeros.
func TestMove(t *testing.T) {
	r, err := Alloc(4*HugePage, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b := r.Bytes()
	for i := range b {
		b[i] = byte(1 + i/HugePage)
	}
	for _, m := range [][2]int{{0, 3}, {3, 1}, {2, 0}} { // to, from
		if err := r.Move(m[0]*HugePage, m[1]*HugePage, HugePage); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []byte{0, 0, 4, 2} {
		if part := b[i*HugePage : (i+1)*HugePage]; bytes.Count(part, []byte{want}) != HugePage {
			t.Errorf("huge page %d has %d, want %d", i, part[0], want)
		}
	}
	for _, bad := range [][3]int{{-HugePage, 0, HugePage}, {0, 4 * HugePage, HugePage}, {0, HugePage, 2 * HugePage}, {0, HugePage, 4096}, {HugePage, HugePage, HugePage}} {
		if err := r.Move(bad[0], bad[1], bad[2]); err == nil {
			t.Errorf("%v was moved", bad)
		}
	}
	if err := Static(b).Move(0, HugePage, HugePage); err == nil {
		t.Error("static bytes were moved")
	}
}

// mapSparse maps a file of zeros that nobody has read.
func mapSparse(t *testing.T, size int64) *Region {
	t.Helper()
	name := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, size); err != nil {
		t.Fatal(err)
	}
	r, err := Map(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// Pages of a file that nobody has read are not in the page cache, those that were are.
func TestPresent(t *testing.T) {
	const size = 8 << 20
	r := mapSparse(t, size)
	if r.Present(0, size) {
		t.Error("a file that was never read is in the page cache")
	}
	const at = 5 << 20
	if r.Bytes()[at+7] != 0 || !r.Present(at+5, 100) || r.Present(0, size) {
		t.Error("a page that was read is not in the page cache, or all others are")
	}
	if !r.Present(size, 1) || !r.Present(-1, 2) || !Static([]byte("x")).Present(0, 1) {
		t.Error("what is no part of a mapped file need not be read")
	}
}

// Of what is read at random, a page brings no others.
func TestRandom(t *testing.T) {
	const size = 8 << 20
	r := mapSparse(t, size)
	if err := r.Random(100, size-200); err != nil {
		t.Fatal(err)
	}
	const at, page = 5 << 20, 64 << 10
	if r.Bytes()[at] != 0 || !r.Present(at, 1) || r.Present(at+page, 1) || r.Present(at-page, 1) {
		t.Error("a page was read, and pages around it are in the page cache")
	}
	if r.Random(1, size) == nil || r.Random(-1, 1) == nil {
		t.Error("advice on what is not there")
	}
	if err := Static([]byte("x")).Random(0, 1); err != nil {
		t.Error(err)
	}
}
