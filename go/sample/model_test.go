package sample

import (
	"slices"
	"strings"
	"testing"
)

type metadata map[string]any

func (m metadata) Value(key string) (any, bool) { v, ok := m[key]; return v, ok }

func TestForModel(t *testing.T) {
	p, notes := Defaults().ForModel(metadata{
		"general.sampling.temp": float32(0.6), "general.sampling.top_k": int32(20), "general.sampling.top_p": float32(7),
		"general.sampling.min_p": "low", "general.sampling.mirostat": int32(3), "general.sampling.xtc_probability": float32(0.5), "general.sampling.sequence": "top_k;temperature",
	})
	want := Defaults()
	want.Temp, want.TopK, want.XTCProbability, want.Chain = 0.6, 20, 0.5, "kt"
	if p != want {
		t.Errorf("got %+v", p)
	}
	if len(notes) != 3 || !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, "general.sampling.top_p: ") }) {
		t.Errorf("notes %q", notes)
	}
	for _, v := range []any{"top_k;luck", "", strings.Repeat("xtc;", 40) + "xtc", 7} {
		if p, notes := Defaults().ForModel(metadata{"general.sampling.sequence": v}); p != Defaults() || len(notes) != 1 {
			t.Errorf("sequence %v: %+v, %q", v, p, notes)
		}
	}
}
