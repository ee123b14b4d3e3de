package model

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// Columns of rows are added in front of the layers that the file says, to what tokens bring as it is. Where the layers before
// compute nothing, they are a part of what tokens bring; rows of models without these keys are scaled.
func TestDeepStackAt(t *testing.T) {
	pool := testPool(t, 1)
	// of returns logits of a model whose only layers that compute something are these.
	of := func(mapping []int32, brought []float32, layers ...int) [][]float32 {
		d := read(t, testdata.Path(t, "archs/granite.gguf"))
		if mapping != nil {
			d.set("granite.deepstack_mapping", mapping)
		}
		for il := range 4 {
			if !slices.Contains(layers, il) {
				clear(d.tensor(fmt.Sprintf("blk.%d.attn_output.weight", il)).Data)
				clear(d.tensor(fmt.Sprintf("blk.%d.ffn_down.weight", il)).Data)
			}
		}
		return logitsBehind(t, seeingDraft(t, d, pool, true), []int32{3, 5, 7}, brought)
	}
	const n, scale = 64, 12
	a, g, h, none := noise("a", n), noise("g", n), noise("h", n), make([]float32, n)
	two := func(groups ...[]float32) []float32 {
		return slices.Concat(slices.Concat(groups...), slices.Concat(groups...))
	}
	plain := func(layers []int, groups ...[]float32) [][]float32 {
		sum := make([]float32, n)
		for _, of := range groups {
			for i, v := range of {
				sum[i] += v / scale
			}
		}
		return of(nil, two(sum), layers...)
	}
	for _, c := range []struct {
		name    string
		mapping []int32
		groups  [][]float32
		layers  []int
		sum     [][]float32
		alike   bool
	}{
		{"behind a layer that does nothing", []int32{-1, 1, -1, -1}, [][]float32{a, g}, []int{1, 2, 3}, [][]float32{a, g}, true},
		{"behind two", []int32{-1, -1, 1, -1}, [][]float32{a, g}, []int{2, 3}, [][]float32{a, g}, true},
		{"in front of all", []int32{1, -1, -1, -1}, [][]float32{a, g}, []int{0, 1, 2, 3}, [][]float32{a, g}, true},
		{"behind one that does", []int32{-1, -1, 1, -1}, [][]float32{a, g}, []int{1, 2}, [][]float32{a, g}, false},
		{"two in front of layers", []int32{-1, 2, 1, -1}, [][]float32{a, g, h}, []int{2}, [][]float32{a, g, h}, true},
		{"the second before the first", []int32{-1, 2, 1, -1}, [][]float32{a, none, h}, []int{1}, [][]float32{a, h}, true},
		{"the first behind the second", []int32{-1, 2, 1, -1}, [][]float32{a, g, none}, []int{1}, [][]float32{a, g}, false},
	} {
		got, want, worst := of(c.mapping, two(c.groups...), c.layers...), plain(c.layers, c.sum...), 0.0
		for i := range got {
			for j, v := range got[i] {
				worst = max(worst, math.Abs(float64(v-want[i][j])))
			}
		}
		if (worst < 1e-4) != c.alike {
			t.Errorf("%s: %.2g off", c.name, worst)
		}
	}
	for _, mapping := range [][]int32{{-1, 2, -1, -1}, {-1, 1, 1, -1}, {-1, 0, 1, -1}, {1}} {
		d := read(t, testdata.Path(t, "archs/granite.gguf"))
		d.set("granite.deepstack_mapping", mapping)
		if _, err := load(t, d.write(t, "granite.gguf"), Packed); err == nil || !strings.Contains(err.Error(), "deepstack_mapping") {
			t.Errorf("%v: %v", mapping, err)
		}
	}
}

func noise(name string, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(mixedNoise(name, i)>>8)/(1<<23) - 1
	}
	return x
}
