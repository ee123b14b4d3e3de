package gguf

import "testing"

func TestSizeName(t *testing.T) {
	for n, want := range map[uint64]string{8030261312: "8B", 1235814400: "1.2B", 46702792704: "46.7B", 596049920: "596M"} {
		if got := SizeName(n); got != want {
			t.Errorf("SizeName(%d) = %s, want %s", n, got, want)
		}
	}
}
