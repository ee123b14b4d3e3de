package model

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
)

// Every architecture gives the same bits with panels in several places as in one, also where a place has no panel of some
// matrices.
func TestArchitecturesInPlaces(t *testing.T) {
	for _, path := range archFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			var want hashes
			for places := 1; places <= 3; places++ {
				m := inPlaces(t, path, places)
				got, err := passes(m, newStepper(t, m, 64))
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
}

// inPlaces loads the model of a file with panels in so many places, each packed by a thread of its own.
func inPlaces(t *testing.T, path string, places int) *Model {
	t.Helper()
	at, nodes := make([]kernel.Thread, places), make([]int, places)
	for k := range places {
		at[k].Place, nodes[k] = k, -1
	}
	pool, err := kernel.NewPool(places, at)
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
	return m
}
