package model

import (
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// Scales beside matrices, one for each and one for each expert, multiply products: weights divided by powers of two, and
// these as scales, give the same logits.
func TestScales(t *testing.T) {
	for _, name := range []string{"tiny-llama-f32.gguf", "tiny-moe-f32.gguf"} {
		plain, scaled := read(t, name), read(t, name)
		for i, x := range scaled.tensors {
			base, ok := strings.CutSuffix(x.Name, ".weight")
			if !ok || len(x.Dims) < 2 || strings.HasPrefix(base, "token_embd") {
				continue
			}
			n := 1
			if len(x.Dims) == 3 {
				n = int(x.Dims[2])
			}
			data, each := slices.Clone(x.Data), len(x.Data)/n
			var scales []byte
			for e := range n {
				s := math.Ldexp(1, (i+e)%5+1)
				scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(float32(s)))
				for at := e * each; at < (e+1)*each; at += 4 {
					v := math.Float32frombits(binary.LittleEndian.Uint32(data[at:]))
					binary.LittleEndian.PutUint32(data[at:], math.Float32bits(v/float32(s)))
				}
			}
			scaled.tensors[i].Data = data
			scaled.add(base+".scale", gguf.F32, scales, uint64(n))
		}
		t.Run(name, func(t *testing.T) { sameLogits(t, plain, scaled) })
	}
}

// Scales of another shape, and of what is looked up and not multiplied, are refused by name.
func TestScalesRefused(t *testing.T) {
	for _, tt := range []struct {
		name string
		n    int
		want string
	}{
		{"blk.0.attn_q.scale", 2, `tensor "blk.0.attn_q.scale": shape [2], want [1]`},
		{"token_embd.scale", 1, `tensor "token_embd.scale": scales of "token_embd.weight" are not supported`},
	} {
		d := read(t, "tiny-llama-f32.gguf")
		d.add(tt.name, gguf.F32, make([]byte, 4*tt.n), uint64(tt.n))
		if _, err := load(t, d.write(t, "x.gguf"), Packed); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %s", tt.name, err, tt.want)
		}
	}
}

// Adapters of matrices with scales are not merged, neither plain ones nor those with magnitudes: what is added to the weights would
// be multiplied by the scale as well. Others of the same file are.
func TestScaledMatricesAreNotMerged(t *testing.T) {
	base := read(t, "tiny-llama-f32.gguf")
	base.add("blk.0.attn_q.scale", gguf.F32, make([]byte, 4), 1)
	file, err := OpenFile(base.write(t, "base.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, kind := range []string{lora, dora} {
		for name, want := range map[string]string{
			"blk.0.attn_q.weight": `tensor "blk.0.attn_q.weight.lora_a": the model multiplies the products of "blk.0.attn_q.weight" by "blk.0.attn_q.scale"`,
			"blk.1.attn_q.weight": "",
		} {
			w := base.tensor(name)
			d := adapterDraft("llama", 4)
			d.set("adapter.type", kind)
			d.add(name+".lora_a", gguf.F32, make([]byte, 4*2*w.Dims[0]), w.Dims[0], 2)
			d.add(name+".lora_b", gguf.F32, make([]byte, 4*2*w.Dims[1]), 2, w.Dims[1])
			if kind == dora {
				d.add(name+".lora_m", gguf.F32, make([]byte, 4*w.Dims[1]), w.Dims[1])
			}
			adapter, err := OpenFile(d.write(t, "adapter.gguf"))
			if err != nil {
				t.Fatal(err)
			}
			_, err = MergeAdapters(file, []ScaledFile{{adapter, 1}}, AsFloats)
			adapter.Close()
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("%s of %s: error %v, want %q", kind, name, err, want)
			}
		}
	}
}
