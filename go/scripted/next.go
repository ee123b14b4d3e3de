package scripted

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// WithNext returns a file of a model with layers that predict tokens further on, in place of those that it may have: copies of
// these of its layers, behind random weights, whose guesses are worth nothing.
func WithNext(file []byte, layers ...int) ([]byte, error) {
	f, err := gguf.Parse(file)
	if err != nil {
		return nil, err
	}
	arch, err := f.Str("general.architecture")
	if err != nil {
		return nil, err
	}
	blocks, err := f.Int(arch + ".block_count")
	if err != nil {
		return nil, err
	}
	if next, err := f.Int(arch + ".nextn_predict_layers"); err == nil {
		blocks -= next
	}
	w := gguf.NewWriter()
	for _, kv := range f.KVs {
		if kv.Key != arch+".block_count" && kv.Key != arch+".nextn_predict_layers" {
			w.Set(kv.Key, kv.Value)
		}
	}
	w.Set(arch+".block_count", uint32(blocks+int64(len(layers))))
	w.Set(arch+".nextn_predict_layers", uint32(len(layers)))
	width := uint64(0)
	for _, t := range f.Tensors {
		var il int64
		if n, _ := fmt.Sscanf(t.Name, "blk.%d.", &il); n == 1 && il >= blocks {
			continue
		}
		w.AddTensor(t.Name, t.Type, t.Dims, gguf.Bytes(t.Data))
		for i, layer := range layers {
			if rest, ok := strings.CutPrefix(t.Name, fmt.Sprintf("blk.%d.", layer)); ok {
				w.AddTensor(fmt.Sprintf("blk.%d.%s", int(blocks)+i, rest), t.Type, t.Dims, gguf.Bytes(t.Data))
			}
		}
		if t.Name == "output_norm.weight" {
			width = t.Dims[0]
		}
	}
	random := func(i int, name string, mean float64, dims ...uint64) error {
		r, n := rand.New(rand.NewPCG(uint64(len(name)), 5+uint64(i))), uint64(1)
		for _, k := range dims {
			n *= k
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(mean + 0.1*r.NormFloat64())
		}
		data, err := binary.Append(nil, binary.LittleEndian, values)
		w.AddTensor(fmt.Sprintf("blk.%d.nextn.%s.weight", int(blocks)+i, name), gguf.F32, dims, gguf.Bytes(data))
		return err
	}
	if width == 0 || width > math.MaxUint16 {
		return nil, fmt.Errorf("output_norm.weight of %d numbers", width)
	}
	for i := range layers {
		if err := random(i, "eh_proj", 0, 2*width, width); err != nil {
			return nil, err
		}
		for _, norm := range []string{"enorm", "hnorm", "shared_head_norm"} {
			if err := random(i, norm, 1, width); err != nil {
				return nil, err
			}
		}
	}
	var out bytes.Buffer
	_, err = w.WriteTo(&out)
	return out.Bytes(), err
}
