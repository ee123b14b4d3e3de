package convert

import (
	"encoding/binary"
	"math"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/safetensors"
)

// TestScaled reads 9 rows of 10 columns of ones in 8 bits, whose blocks have the size that config.json gives: the last are
// shorter than the others, by more than the number of blocks tells.
func TestScaled(t *testing.T) {
	const rows, cols = 9, 10
	for _, c := range []struct {
		name, config string
		down, across int // scales
		side, width  int // of their blocks; 0: refused
	}{
		{"fp8", `{"quant_method": "fp8", "weight_block_size": [4, 4]}`, 3, 3, 4, 4},
		{"fp8, one block across", `{"quant_method": "fp8", "weight_block_size": [4, 128]}`, 3, 1, 4, 10},
		{"compressed-tensors", `{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"block_structure": [4, 4]}}}}`, 3, 3, 4, 4},
		{"compressed-tensors in words", `{"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"block_structure": "4x128"}}}}`, 3, 1, 4, 10},
		{"one in all", `{}`, 1, 1, 9, 10},
		{"one for each row", `{"weight_block_size": [4, 4]}`, 9, 1, 1, 10},
		{"no size, blocks alike", `{}`, 3, 5, 3, 2},
		{"no size, unlike blocks", `{}`, 3, 3, 0, 0},
		{"another size", `{"weight_block_size": [2, 4]}`, 3, 3, 0, 0},
		{"no two sides", `{"weight_block_size": [4]}`, 3, 5, 0, 0},
		{"sides of nothing", `{"weight_block_size": [0, 4]}`, 3, 5, 0, 0},
		{"two sizes", `{"config_groups": {"a": {"weights": {"block_structure": "4x4"}}, "b": {"weights": {"block_structure": "8x4"}}}}`, 3, 3, 0, 0},
	} {
		dir := t.TempDir()
		data := make([]byte, 0, rows*cols+4*c.down*c.across)
		for range rows * cols {
			data = append(data, 0x38) // 1
		}
		for i := range c.down * c.across {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(i+1)))
		}
		save(t, dir, "config.json", `{"quantization_config": `+c.config+`}`)
		save(t, dir, "model.safetensors", string(safetensorsOf(t, map[string]any{
			"x.weight":           map[string]any{"dtype": "F8_E4M3", "shape": []int{rows, cols}, "data_offsets": []int{0, rows * cols}},
			"x.weight_scale_inv": map[string]any{"dtype": "F32", "shape": []int{c.down, c.across}, "data_offsets": []int{rows * cols, len(data)}},
		}, data)))
		config, err := readConfig(dir)
		if err != nil {
			t.Fatal(err)
		}
		weights, err := safetensors.OpenFile(filepath.Join(dir, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		m := &Model{config: config, weights: weights}
		v, err := m.of(weights.Tensor("x.weight"))
		if err == nil {
			err = config.err
		}
		if c.side == 0 {
			refused(t, c.name, err)
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else {
			got := make([]float32, rows*cols)
			if err := v.read(got, 0); err != nil {
				t.Fatal(err)
			}
			for i, x := range got {
				if want := float32(i/cols/c.side*c.across + i%cols/c.width + 1); x != want {
					t.Errorf("%s: row %d, column %d: %v, want %v", c.name, i/cols, i%cols, x, want)
					break
				}
			}
		}
		if err := weights.Close(); err != nil {
			t.Error(err)
		}
	}
}
