package model

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// expertsOf returns the words by which the matrices of a model's experts are chosen.
func expertsOf(tb testing.TB, path string) []string {
	tb.Helper()
	f, err := OpenFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	words := map[string]bool{}
	for _, x := range f.GGUF.Tensors {
		if word := target(x.Name); strings.HasSuffix(word, "_exps") && len(x.Dims) == 3 {
			words[word] = true
		}
	}
	return slices.Sorted(maps.Keys(words))
}

// trainedExpertsFile says of each small mixture whether its experts are trained, or the error that refuses them.
const trainedExpertsFile = "testdata/trained_experts.txt"

// Gradients of adapters of experts are what differences of the loss are, for every mixture that can be trained.
func TestGradientOfExperts(t *testing.T) {
	var lines []string
	for _, path := range smallModels(t) {
		words := expertsOf(t, path)
		if len(words) == 0 {
			continue
		}
		name := strings.TrimSuffix(filepath.Base(path), ".gguf")
		t.Run(name, func(t *testing.T) {
			m, tr, err := trainer(t, path, LoRA{Rank: 3, Alpha: 4, Targets: words}, 1)
			if err != nil {
				lines = append(lines, fmt.Sprintf("%s: refused: %v\n", name, err))
				return
			}
			lines = append(lines, fmt.Sprintf("%s: trained: %s\n", name, strings.Join(words, " ")))
			most, where := differs(t, tr, someTexts(m.Config))
			t.Logf("%.4f of the gradient at most: %s", most, where)
			if most > 0.02 {
				t.Errorf("%.4f of the gradient: %s", most, where)
			}
			keepsTheSame(t, tr, someTexts(m.Config))
			servesWhatIsTrained(t, m, tr)
		})
	}
	isListed(t, trainedExpertsFile, lines)
}

// servesWhatIsTrained writes an adapter and opens it as a server does: it has the matrices that passes of training multiply
// with, to the bit, for the same products.
func servesWhatIsTrained(t *testing.T, m *Model, tr *Trainer) {
	t.Helper()
	var b bytes.Buffer
	a := tr.Adapter
	if err := a.Moved(tr.pool); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Write(m.Config.Arch, a.Numbers()).WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "adapter.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	served, err := openAdapter(t, m, path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := slices.Sorted(maps.Keys(served.low)), slices.Sorted(maps.Keys(a.adapter.low)); !slices.Equal(got, want) {
		t.Fatalf("the adapter is of %q, want %q", got, want)
	}
	for name, want := range a.adapter.low {
		got := served.low[name]
		if !slices.Equal(got.Gain, want.Gain) || got.Scale != want.Scale || !bytes.Equal(got.A.Data, want.A.Data) || !bytes.Equal(got.B.Data, want.B.Data) {
			t.Errorf("%q is not what was trained", name)
		}
	}
}

// An adapter of a tensor whose rows are multiplied apart, as of a gate and what it is of, has a term of each, by one A.
func TestFusedTensorsAreTrained(t *testing.T) {
	for name, want := range map[string]int{"phi3": 2, "phi3-long": 2, "glm4": 2, "modern-bert": 2, "llama": 1} {
		m, tr, err := trainer(t, testdata.Path(t, "archs/"+name+".gguf"), LoRA{Rank: 3, Alpha: 4, Targets: []string{"ffn_up"}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		a := tr.Adapter
		up, _ := m.weights.f.Tensor("blk.1.ffn_up.weight")
		for _, p := range a.Parts(a.Numbers()) {
			if p.Parts != want || uint64(p.Out) != up.Dims[1] || len(a.adapter.low) != want*len(a.names) {
				t.Errorf("%s: %q has %d rows in %d parts, want %d in %d", name, p.Name, p.Out, p.Parts, up.Dims[1], want)
			}
		}
		servesWhatIsTrained(t, m, tr)
	}
}
