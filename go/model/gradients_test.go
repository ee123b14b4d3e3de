package model

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// randomWords returns n numbers of the stream of a name, as scripts/golden_types.py makes them.
func randomWords(name string, n int) []uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	state, all := h.Sum64(), make([]uint64, n)
	for i := range all {
		state += 0x9E3779B97F4A7C15
		z := state
		z = (z ^ z>>30) * 0xBF58476D1CE4E5B9
		z = (z ^ z>>27) * 0x94D049BB133111EB
		all[i] = z ^ z>>31
	}
	return all
}

// goldenTexts are those of scripts/golden_grad.py.
func goldenTexts(name string, c *Config) (texts []Text) {
	lengths := []int{40, 7, 20}
	all := randomWords(name, 67)
	for _, n := range lengths {
		x := Text{Tokens: make([]int32, n), Weights: make([]float32, n)}
		for i := range n {
			x.Tokens[i] = int32((all[i] >> 32) % uint64(c.NVocab))
			if i%4 != 2 {
				x.Weights[i] = float32(i%3+1) / 2
			}
		}
		texts, all = append(texts, x), all[n:]
	}
	return texts
}

// Gradients of models of many architectures are those that scripts/golden_grad.py has computed from the formulas in
// 64-bit floats, with the same rounding to BF16 in its products. Numbers that lie between two of BF16 round to one side or
// the other by the last bit of a float, and those are not the same. In the last layer few do: what was measured is at most
// 7e-4 of a matrix's gradient, where rounding itself is 4e-3 to 1.3e-2. From layer to layer more do, until each side has
// errors of its own: 9e-3 of the gradient was measured.
func TestGoldenGradients(t *testing.T) {
	data, err := os.ReadFile("testdata/gradients.json")
	if err != nil {
		t.Fatal(err)
	}
	var models map[string]struct {
		Loss      float64
		Gradients map[string][]float64 // the norm, and sums with random signs
	}
	if err := json.Unmarshal(data, &models); err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(models)) {
		want := models[name]
		t.Run(name, func(t *testing.T) {
			m, tr, err := trainer(t, filepath.Join(testdata.Path(t, "archs"), name+".gguf"), LoRA{Rank: 3, Alpha: 4}, 1)
			if err != nil {
				t.Fatal(err)
			}
			a := tr.Adapter
			if len(want.Gradients) != 2*len(a.names) {
				t.Errorf("%d matrices are trained, want %d", len(a.names), len(want.Gradients)/2)
			}
			parts, numbers := [2]string{".lora_a", ".lora_b"}, a.Numbers()
			for _, n := range a.names {
				for k, x := range [2][]float32{a.low[n].a, a.low[n].b} {
					for i, w := range randomWords(n+parts[k], len(x)) {
						numbers[i] = (float32(w>>40)/(1<<24) - 0.5) / 4
					}
					numbers = numbers[len(x):]
				}
			}
			if err := a.Moved(tr.pool); err != nil {
				t.Fatal(err)
			}
			loss, err := tr.Gradient(goldenTexts(name, m.Config), nil)
			if err != nil {
				t.Fatal(err)
			}
			if !(math.Abs(loss-want.Loss) <= 1e-5*want.Loss) {
				t.Errorf("the loss is %g, want %g", loss, want.Loss)
			}
			last := fmt.Sprintf("blk.%d.", len(m.Config.Layers)-1)
			for _, n := range a.names {
				for k, d := range [2][]float32{a.low[n].da, a.low[n].db} {
					want, most := want.Gradients[n+parts[k]], 0.015
					if strings.HasPrefix(n, last) {
						most = 0.0015
					}
					if want == nil {
						t.Errorf("%s has no golden gradient", n+parts[k])
					} else if off := offSums(d, want); !(off <= most) {
						t.Errorf("%s is off by %.1e of its gradient", n+parts[k], off)
					}
				}
			}
		})
	}
}

// offSums estimates by how much a gradient differs from the golden one, as a share of its norm: by the norm of both, and by
// sums with random signs.
func offSums(d []float32, want []float64) float64 {
	sums := make([]float64, len(want))
	for i, w := range randomWords("signs", len(d)) {
		v := float64(d[i])
		sums[0] += v * v
		for k := range sums[1:] {
			sums[1+k] += v * float64(1-2*int(w>>k&1))
		}
	}
	squares := 0.0
	for k, s := range sums[1:] {
		squares += (s - want[1+k]) * (s - want[1+k])
	}
	return max(math.Sqrt(squares/float64(len(want)-1)), math.Abs(math.Sqrt(sums[0])-want[0])) / want[0]
}
