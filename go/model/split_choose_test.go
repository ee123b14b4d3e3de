package model

import (
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
)

// With activations of 16 bits a pass reads as much as with 8, and multiplies twice with each quantized matrix: some of the second model.
func TestWorkOfFinerActivations(t *testing.T) {
	for path, quantized := range map[string]bool{filepath.Join(golden, "tiny-llama-f32.gguf"): false, llamaFile: true} {
		f, err := OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := NewSurvey(f, kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16}, 0)
		if err != nil {
			t.Fatal(err)
		}
		fine, err := s.Finer()
		if err != nil {
			t.Fatal(err)
		}
		var works []work
		for _, x := range []*Survey{s, fine} {
			found, err := x.find(Packed)
			if err != nil {
				t.Fatal(err)
			}
			works = append(works, workOf(found.program, 0))
		}
		a, b := works[0], works[1]
		if a.macs == 0 || (b.macs > a.macs) != quantized || b.macs > 2*a.macs || b.dense != a.dense {
			t.Errorf("%s: %+v with 16 bits, %+v with 8", path, b, a)
		}
	}
}
