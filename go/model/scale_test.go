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
