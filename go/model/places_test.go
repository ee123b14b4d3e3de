package model

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// Every architecture gives the same bits with panels, and keys and values, in several places as in one, also where a place
// has no panel of some matrices.
func TestArchitecturesInPlaces(t *testing.T) {
	divided := map[int]int{} // groups of keys and values, by places
	for _, path := range archFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			var want hashes
			for places := 1; places <= 3; places++ {
				m, pool := inPlaces(t, path, places)
				for _, layers := range m.KeptByHeads(places) {
					if layers != nil {
						divided[places]++
					}
				}
				got, err := passes(m, newStepperOn(t, m, 64, pool, slices.Repeat([]int{-1}, places)))
				switch {
				case err != nil:
					t.Fatal(err)
				case places == 1:
					want = got
				case !slices.Equal(got, want):
					t.Errorf("%d places: other bits, first at row %d", places, firstOther(got, want))
				}
			}
		})
	}
	if divided[2] < 30 || divided[3] < 1 {
		t.Errorf("keys and values of %d models are in two places, of %d in three", divided[2], divided[3])
	}
}

// inPlaces loads the model of a file with panels in so many places, of two threads each.
func inPlaces(t *testing.T, path string, places int) (*Model, *kernel.Pool) {
	t.Helper()
	at, nodes := make([]kernel.Thread, 2*places), make([]int, places)
	for k := range at {
		at[k].Place, nodes[k/2] = k/2, -1
	}
	pool, err := kernel.NewPool(len(at), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	s, err := NewSurvey(f, kvI16, 0)
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Load(Options{Pack: pool.PackInto, Budget: mem.NewBudget(1<<30, "a test"), Residency: Packed, Nodes: nodes})
	if err != nil {
		t.Fatalf("%d places: %v", places, err)
	}
	t.Cleanup(m.Close)
	return m, pool
}
