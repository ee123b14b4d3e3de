package model

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/synth"
)

// Every architecture gives the same bits on ranks that have some of its layers each as in one process.
func TestLayersOfRanks(t *testing.T) {
	for _, path := range archFiles(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".gguf"), func(t *testing.T) {
			one, err := dividedModel(t, path, 1, Ranks{}, Packed, kvI16)
			if err != nil {
				t.Fatal(err)
			}
			if canStage(one[0].Config) != nil {
				if _, err := dividedModel(t, path, 2, Ranks{Layers: true}, Packed, kvI16); err == nil {
					t.Error("layers of an encoder are divided")
				}
				return
			}
			want, err := runTogether(t, one)
			if err != nil {
				t.Fatal(err)
			}
			for _, shares := range [][]int{{1, 1}, {1, 1000}, {1000, 1}, {1, 1, 1}, {1, 1, 1, 1}} {
				if got := dividedBits(t, path, len(shares), Ranks{Layers: true, Shares: shares}); !slices.Equal(got, want[0]) {
					t.Errorf("shares %d: other bits, first at row %d", shares, firstOther(got, want[0]))
				}
			}
		})
	}
}

// Each rank has the matrices, keys and values of its layers, and rank 0 the output matrix. A pass hands the residual of each
// token to the next rank, and that of the wanted tokens to rank 0.
func TestWhatLayersTake(t *testing.T) {
	path := synthetic(t, "llama-3.2-1b/6:Q4_K_M", func(s *synth.Shape) {
		s.NEmbd, s.NFF, s.NHead, s.NHeadKV, s.HeadDim, s.NVocab, s.Tied = 512, 2048, 16, 4, 64, 800, false
	})
	one, err := dividedModel(t, path, 1, Ranks{}, Packed, kvI16)
	if err != nil {
		t.Fatal(err)
	}
	want, err := runTogether(t, one)
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range []Residency{Packed, Mapped} {
		all, err := dividedModel(t, path, 3, Ranks{Layers: true}, res, kvI16)
		if err != nil {
			t.Fatal(err)
		}
		got, err := runTogether(t, all)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got[0], want[0]) {
			t.Errorf("%v: other bits", res)
		}
		const tokens, passes, width = 58, 5, 4 * 512
		weights, kept := uint64(0), 0
		for r, m := range all {
			weights += m.weights.partBytes(1)
			kept += m.Layout[0].Bytes
			if n := m.Layout[0].Bytes; n != one[0].Layout[0].Bytes/3 {
				t.Errorf("rank %d keeps %d bytes of %d", r, n, one[0].Layout[0].Bytes)
			}
			if has := m.weights.byName["output.weight"]; slices.Contains(m.weights.mats, has) != (r == 0) {
				t.Errorf("rank %d has the output matrix or lacks it", r)
			}
			if sent := m.ranks.Load(r).Bytes; sent != tokens*width { // all rows are wanted in these passes
				t.Errorf("rank %d sent %d bytes, want %d", r, sent, tokens*width)
			}
			if n := m.ranks.Shares(); n != 3*passes {
				t.Errorf("rank %d counts %d exchanges, want %d", r, n, 3*passes)
			}
		}
		if res == Packed && weights != one[0].weights.partBytes(1) {
			t.Errorf("%d bytes of weights together, of %d", weights, one[0].weights.partBytes(1))
		}
	}
}
