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

// WithNext returns a file of a model with a layer that predicts a token further on, in place of those that it may have: a copy of
// one of its layers, behind random weights, whose guesses are worth nothing.
func WithNext(file []byte, layer int) ([]byte, error) {
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
	w.Set(arch+".block_count", uint32(blocks+1))
	w.Set(arch+".nextn_predict_layers", uint32(1))
	like, last, width := fmt.Sprintf("blk.%d.", layer), fmt.Sprintf("blk.%d.", blocks), uint64(0)
	for _, t := range f.Tensors {
		if strings.HasPrefix(t.Name, last) {
			continue
		}
		w.AddTensor(t.Name, t.Type, t.Dims, gguf.Bytes(t.Data))
		if rest, ok := strings.CutPrefix(t.Name, like); ok {
			w.AddTensor(last+rest, t.Type, t.Dims, gguf.Bytes(t.Data))
		}
		if t.Name == "output_norm.weight" {
			width = t.Dims[0]
		}
	}
	random := func(name string, mean float64, dims ...uint64) error {
		r, n := rand.New(rand.NewPCG(uint64(len(name)), 5)), uint64(1)
		for _, k := range dims {
			n *= k
		}
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(mean + 0.1*r.NormFloat64())
		}
		data, err := binary.Append(nil, binary.LittleEndian, values)
		w.AddTensor(last+"nextn."+name+".weight", gguf.F32, dims, gguf.Bytes(data))
		return err
	}
	if width == 0 || width > math.MaxUint16 {
		return nil, fmt.Errorf("output_norm.weight of %d numbers", width)
	}
	if err := random("eh_proj", 0, 2*width, width); err != nil {
		return nil, err
	}
	for _, norm := range []string{"enorm", "hnorm", "shared_head_norm"} {
		if err := random(norm, 1, width); err != nil {
			return nil, err
		}
	}
	var out bytes.Buffer
	_, err = w.WriteTo(&out)
	return out.Bytes(), err
}
