package model

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/model/nn"
)

// What is seen uses matrices of its own: where all of a text is seen, the model is that whose matrices are each other's; where
// nothing is, or what it brings says so, that which sees nothing.
func TestSenseExperts(t *testing.T) {
	path, err := filepath.Abs("testdata/archs/cogvlm.gguf")
	if err != nil {
		t.Fatal(err)
	}
	pool := testPool(t, 1)
	ids := []int32{3, 5, 7, 9}
	of := func(d *draft, sees bool, brought []float32) [][]float32 {
		t.Helper()
		return logitsBehind(t, seeingDraft(t, d, pool, sees), ids, brought)
	}
	swapped := read(t, path)
	for i := range swapped.tensors {
		x := &swapped.tensors[i]
		for _, names := range [][2]string{{"attn_qkv", "vis_attn_qkv"}, {"attn_output", "vis_attn_output"}, {"ffn_gate", "vis_gate"},
			{"ffn_up", "vis_up"}, {"ffn_down", "vis_down"}} {
			stem, end, _ := strings.Cut(x.Name, names[1])
			if name := stem + names[0] + end; stem != x.Name {
				y := swapped.tensor(name)
				x.Data, y.Data = y.Data, x.Data
				break
			}
		}
	}
	const n = 64
	rows := func(kinds ...[16]float32) (all []float32) {
		for i, kind := range kinds {
			all = slices.Concat(all, noise(strings.Repeat("x", i+1), n), kind[:])
		}
		return all
	}
	near := func(what string, got, want [][]float32) {
		t.Helper()
		worst := 0.0
		for i := range want {
			for j, v := range want[i] {
				worst = max(worst, math.Abs(float64(got[i][j]-v)))
			}
		}
		if !(worst < 1e-4) {
			t.Errorf("%s: %.2g off", what, worst)
		}
	}
	plain := read(t, path)
	near("a text", of(plain, true, nil), of(plain, false, nil))
	seen := rows(nn.Seen, nn.Seen, nn.Seen, nn.Seen)
	unseen := rows(nn.Unseen, nn.Unseen, nn.Unseen, nn.Unseen)
	near("all is seen", of(plain, true, seen), of(swapped, true, unseen))
	mixed := of(plain, true, rows(nn.Unseen, nn.Seen, nn.Unseen))
	near("what is before the first that is seen", mixed[:1], of(plain, true, unseen)[:1])
	other := of(swapped, true, rows(nn.Seen, nn.Unseen, nn.Seen))
	for i := 1; i < 3; i++ {
		if slices.Equal(mixed[i], of(plain, true, unseen)[i]) || slices.Equal(mixed[i], of(plain, true, seen)[i]) {
			t.Errorf("token %d is all of one kind", i)
		}
	}
	near("the same with each other's matrices", mixed[:3], other[:3])

	// The same numbers in other types, as files have them whose matrices are quantized by their names.
	types := read(t, path)
	for _, name := range []string{"blk.0.vis_attn_qkv.weight", "blk.1.vis_down.weight", "blk.1.ffn_up.weight", "blk.2.attn_output.weight"} {
		types.floats(t, name)
	}
	near("matrices of several types", of(types, true, rows(nn.Unseen, nn.Seen, nn.Unseen)), mixed)
}
