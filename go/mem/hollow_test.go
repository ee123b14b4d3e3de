package mem

import (
	"runtime/debug"
	"testing"

	"github.com/quern-llm/quern/go/platform"
)

// Bytes of a hollow region are there once they are filled, until they are emptied: whole pages, since neighbours stay.
func TestHollow(t *testing.T) {
	page := platform.PageSize
	r, err := Hollow(uint64(8*page+5), "a test")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	readable := func(at int) (ok bool) {
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		defer func() { ok = recover() == nil }()
		return r.Bytes()[at] < 255
	}
	b, err := r.Fill(page+10, 2*page)
	if err != nil || len(b) != 2*page {
		t.Fatalf("%d bytes, %v", len(b), err)
	}
	b[0], b[2*page-1] = 1, 2
	for at, want := range map[int]bool{0: false, page: true, 3 * page: true, 4 * page: false, 8*page + 4: false} {
		if readable(at) != want {
			t.Errorf("byte %d is readable: %v", at, !want)
		}
	}
	if err := r.Empty(page+10, 2*page); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int]bool{page: true, page + 10: true, 2 * page: false, 3 * page: true} {
		if readable(at) != want {
			t.Errorf("emptied: byte %d is readable: %v", at, !want)
		}
	}
	if r.Bytes()[page+10] != 1 || r.Bytes()[3*page+9] != 2 {
		t.Error("neighbours of what was emptied are gone")
	}
	if b, err = r.Fill(2*page, page); err != nil || b[0] != 0 {
		t.Errorf("filled again it has %d, %v", b[0], err)
	}
	if b, err = r.Fill(8*page, 5); err != nil || len(b) != 5 {
		t.Errorf("the end: %v", err)
	}
	b[4] = 1
	if err := r.Empty(8*page, 5); err != nil || readable(8*page) {
		t.Errorf("the end is still there, %v", err)
	}
	if b, err = r.Fill(8*page, 5); err != nil || b[4] != 0 {
		t.Errorf("the end has %d when it is filled again, %v", b[4], err)
	}
	for _, bad := range [][2]int{{-1, 2}, {0, 8*page + 6}, {8*page + 6, 0}, {1, -1}} {
		if _, err := r.Fill(bad[0], bad[1]); err == nil {
			t.Errorf("%v was filled", bad)
		}
	}
	r.Close()
	if _, err := r.Fill(0, 1); err != ErrClosed {
		t.Errorf("closed: %v", err)
	}
}
