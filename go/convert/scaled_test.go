package convert

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/quant"
	"github.com/quern-llm/quern/go/safetensors"
)

// TestScaled reads 9 rows of 10 columns of ones in 8 bits, in blocks of the size that config.json gives. The last
// blocks are shorter than the others, which their number alone does not tell.
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
		config, err := hf.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		weights, err := safetensors.OpenFile(filepath.Join(dir, "model.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		m := &Model{config: config, weights: weights}
		v, err := m.of("x.weight")
		if err == nil {
			err = config.Err()
		}
		if c.side == 0 {
			refused(t, c.name, err)
		} else if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else {
			got := make([]float32, rows*cols)
			if err := v.Read(got, 0); err != nil {
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

// Experts of 4-bit floats with an exponent for each 32 numbers become MXFP4 with the same numbers. Matrices of 8 bits
// have exponents for blocks.
func TestExponents(t *testing.T) {
	const rows, cols, experts = 3, 64, 2
	table := []float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6}
	header, data := map[string]any{}, []byte{}
	put := func(name, dtype string, shape []int, b []byte) {
		header[name] = map[string]any{"dtype": dtype, "shape": shape, "data_offsets": []int{len(data), len(data) + len(b)}}
		data = append(data, b...)
	}
	var want []float32
	for x := range experts {
		packed, exponents := make([]byte, rows*cols/2), make([]byte, rows*cols/32)
		for i := range packed {
			packed[i] = byte(i*37 + 11*x)
		}
		for i := range exponents {
			exponents[i] = byte(125 + (i+x)%5)
		}
		for i := range rows * cols {
			code := packed[i/2] >> (4 * (i % 2)) & 15
			want = append(want, table[code]*float32(math.Ldexp(1, int(exponents[i/32])-127)))
		}
		put(fmt.Sprintf("layers.0.ffn.experts.%d.w1.weight", x), "I8", []int{rows, cols / 2}, packed)
		put(fmt.Sprintf("layers.0.ffn.experts.%d.w1.scale", x), "F8_E8M0", []int{rows, cols / 32}, exponents)
	}
	ones := bytes.Repeat([]byte{0x38}, rows*cols)
	put("layers.0.attn.wkv.weight", "F8_E4M3", []int{rows, cols}, ones)
	put("layers.0.attn.wkv.scale", "F8_E8M0", []int{1, 2}, []byte{128, 126})
	put("layers.0.attn.wq_a.weight", "I8", []int{rows, 8}, ones[:rows*8])
	put("layers.0.attn.wq_a.scale", "F8_E8M0", []int{rows, 1}, ones[:rows])
	dir := t.TempDir()
	save(t, dir, "config.json", `{"quantization_config": {"quant_method": "fp8", "weight_block_size": [32, 32]}}`)
	save(t, dir, "model.safetensors", string(safetensorsOf(t, header, data)))
	m := &Model{config: must(hf.Read(dir)), weights: must(safetensors.OpenFile(filepath.Join(dir, "model.safetensors")))}
	defer m.weights.Close()

	var each []lang.View
	for x := range experts {
		each = append(each, must(m.of(fmt.Sprintf("layers.0.ffn.experts.%d.w1.weight", x))))
	}
	all := must(lang.Stacked(each))
	if all.Type != gguf.MXFP4 || !slices.Equal(all.Shape, []uint64{experts, rows, cols}) {
		t.Fatalf("experts are %v of %v", all.Shape, all.Type)
	}
	const first = cols // from the second row on, as pieces are
	got, b := make([]float32, len(want)-first), make([]byte, (len(want)-first)/32*17)
	if err := all.Bytes(b, first); err != nil {
		t.Fatal(err)
	}
	if err := quant.Decode(gguf.MXFP4, got, b); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want[first:]) {
		t.Errorf("experts are %v, want %v", got[:cols], want[first:first+cols])
	}
	v, line := must(m.of("layers.0.attn.wkv.weight")), make([]float32, cols)
	if err := v.Read(line, cols); err != nil {
		t.Fatal(err)
	}
	if line[0] != 2 || line[31] != 2 || line[32] != 0.5 || line[63] != 0.5 {
		t.Errorf("8 bits with exponents are %v", line)
	}
	_, err := m.of("layers.0.attn.wq_a.weight")
	refused(t, "half a block", err, "layers.0.attn.wq_a.weight", "16 bytes")
}
