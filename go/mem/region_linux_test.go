package mem

import (
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
		return n * pageSize
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
