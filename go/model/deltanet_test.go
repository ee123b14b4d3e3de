package model

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// Early files of Qwen 3 Next have the inputs of delta nets in one matrix, by key heads:
// the same numbers.
func TestEarlyQwen3Next(t *testing.T) {
	path := testdata.Path(t, "archs/qwen3next.gguf")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	d := &draft{f.KVs, f.Tensors}
	const heads, key, value = 2, 32, 64 // rows of a key head
	for il := range 8 {
		if il%4 == 3 {
			continue
		}
		qkv, gate := d.tensor(fmt.Sprintf("blk.%d.attn_qkv.weight", il)), d.tensor(fmt.Sprintf("blk.%d.attn_gate.weight", il))
		row := len(gate.Data) / (heads * value)
		var data []byte
		for h := range heads {
			for _, from := range []struct {
				data     []byte
				at, rows int
			}{
				{qkv.Data, h * key, key}, {qkv.Data, (heads + h) * key, key},
				{qkv.Data, 2*heads*key + h*value, value}, {gate.Data, h * value, value},
			} {
				data = append(data, from.data[from.at*row:(from.at+from.rows)*row]...)
			}
		}
		d.add(fmt.Sprintf("blk.%d.ssm_in.weight", il), qkv.Type, data, qkv.Dims[0], heads*(2*key+2*value))
		d.drop(fmt.Sprintf("blk.%d.attn_qkv.weight", il))
		d.drop(fmt.Sprintf("blk.%d.attn_gate.weight", il))
	}
	ids := []int32{1, 20, 30, 40, 50, 60, 70, 80, 90}
	var want [][]float32
	for _, path := range []string{path, d.write(t, "early.gguf")} {
		for _, r := range []Residency{Packed, Mapped} {
			m, err := load(t, path, r)
			if err != nil {
				t.Fatal(err)
			}
			got := newStepper(t, m, len(ids)).step(t, ids)
			if want == nil {
				want = got
			}
			for i := range ids {
				if !slices.Equal(got[i], want[i]) {
					t.Fatalf("%s, %v: logits after token %d differ", path, r, i)
				}
			}
		}
	}
}
