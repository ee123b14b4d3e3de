package platform

import (
	"bytes"
	"testing"
)

func TestResident(t *testing.T) {
	for status, want := range map[string]uint64{
		"Name:\tx\nVmRSS:\t    1234 kB\n": 1234 * 1024,
		"Name:\tx\n":                      0,
		"VmRSS:\tmany kB\n":               0,
		"VmRSS: 99999999999999999999 kB":  0,
	} {
		if got := resident(status).All; got != want {
			t.Errorf("resident(%q) = %d, want %d", status, got, want)
		}
	}
	if got, want := resident("VmHWM: 4 kB\nRssAnon: 1 kB\nRssFile: 9 kB\nRssShmem: 2 kB\n"), (Resident{0, 3 << 10, 4 << 10}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What an older kernel gets leaves the bytes as they are.
func TestTouch(t *testing.T) {
	b, err := Allocate(3<<12+5, 1<<12)
	if err != nil {
		t.Fatal(err)
	}
	defer Free(b)
	for i := range b {
		b[i] = 0xa5
	}
	touch(b)
	if bytes.Count(b, []byte{0xa5}) != len(b) {
		t.Error("bytes have changed")
	}
}
