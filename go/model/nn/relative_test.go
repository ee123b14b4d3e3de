package nn

import "testing"

// TestDistances compares which number each distance has with those of transformers: hashes (FNV-1a) of the numbers from the
// largest distance behind the key to that before it.
func TestDistances(t *testing.T) {
	for _, tt := range []struct {
		buckets, positions int
		hash               uint32
	}{
		{256, 512, 0x5aab5d00}, {8, 40, 0xbc445220}, {8, 512, 0x90185942}, {32, 128, 0x2f03936a}, {4, 16, 0x1a28afe6},
		{256, 4096, 0xc79b50f2}, {64, 2048, 0xc78b7e8e}, {6, 13, 0xc63c43c4}, {128, 513, 0xeaf4fa0a},
	} {
		hash := uint32(2166136261)
		for _, n := range (Distances{Positions: tt.positions, Buckets: tt.buckets}).table() {
			hash = (hash ^ uint32(n)) * 16777619
		}
		if hash != tt.hash {
			t.Errorf("%d buckets of %d distances: %#x, want %#x", tt.buckets, tt.positions, hash, tt.hash)
		}
	}
	got := Distances{Positions: 3}.table()
	for i, want := range []int32{0, 1, 2, 3, 4, 5, 5} {
		if got[i] != want {
			t.Errorf("without buckets distance %d has number %d, want %d", i-3, got[i], want)
		}
	}
}
