package model

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kvcache"
)

// Each rank has its part of the states of recurrences, in every architecture. What is left whole are states of a few columns:
// those of convolutions over what every rank has. Units are whole pages.
func TestStatesOfRanks(t *testing.T) {
	seen := 0
	for _, path := range archFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			bytes := func(n int) (all []int) {
				models, err := dividedModel(t, path, n, Ranks{Least: 1}, Packed, kvI16)
				if err != nil {
					t.Fatal(err)
				}
				for _, m := range models {
					if g := slices.IndexFunc(m.Layout, func(g kvcache.Group) bool { return g.Name == "recurrent" }); g >= 0 {
						all = append(all, m.Layout[g].Bytes)
					}
				}
				return all
			}
			whole := bytes(1)
			if whole == nil {
				return
			}
			seen++
			for r, n := range bytes(2) {
				if part := float64(n) / float64(whole[0]); part < 0.45 || part > 0.7 && n > os.Getpagesize() {
					t.Errorf("rank %d of 2 keeps %.2f of the states", r, part)
				}
			}
		})
	}
	if seen < 20 {
		t.Errorf("%d models are recurrent", seen)
	}
}
