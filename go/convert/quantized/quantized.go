// Package quantized reads matrices that a checkpoint has quantized: GPTQ, AWQ, compressed-tensors, bitsandbytes and
// BitNet. Each becomes a view of the numbers that the method's own library computes of it in F32, under the name that the
// matrix has in a checkpoint that is not quantized. Where a type of GGUF has the same numbers, the view says so.
package quantized

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/safetensors"
)

// Weights are the quantized matrices of a checkpoint. The zero value has none.
type Weights struct {
	Method string // as config.json calls it; empty: none is quantized
	views  map[string]lang.View
	parts  map[string]bool // names of the tensors that they are made of
}

// plain are the methods whose tensors have the names of any checkpoint.
var plain = []string{"", "fp8", "mxfp4"}

// methods are those that this package reads.
var methods = map[string]func(r *reader) error{
	"gptq":               (*reader).gptq,
	"awq":                (*reader).awq,
	"compressed-tensors": (*reader).compressed,
	"bitsandbytes":       (*reader).bitsandbytes,
	"bitnet":             (*reader).bitnet,
}

// A reader finds the quantized matrices of a checkpoint.
type reader struct {
	Weights
	config  *hf.Config // quantization_config
	tensors *safetensors.Checkpoint
	tiles   *tiles
}

// Read finds the quantized matrices, and checks the shapes of their parts. Errors are one line, and name the tensor. Those of
// settings are the configuration's.
func Read(c *hf.Config, tensors *safetensors.Checkpoint) (Weights, error) {
	q := c.Within("quantization_config compression_config")
	r := &reader{Weights{q.Text("quant_method"), map[string]lang.View{}, map[string]bool{}}, q, tensors, newTiles()}
	if r.Method == "" && (q.Flag("load_in_4bit") || q.Flag("load_in_8bit")) {
		r.Method = "bitsandbytes"
	}
	var err error
	if read := methods[r.Method]; read != nil {
		err = read(r)
	} else if !slices.Contains(plain, r.Method) {
		q.Fail("weights quantized by %.40s are not read; want %s, or the checkpoint that they were made of", r.Method,
			strings.Join(append(slices.Sorted(maps.Keys(methods)), plain[1:]...), ", "))
	}
	c.Take(q)
	return r.Weights, err
}

// Names returns the names of the tensors of a checkpoint, sorted, where that of each quantized matrix replaces those of
// its parts.
func (w Weights) Names(tensors *safetensors.Checkpoint) []string {
	names := slices.DeleteFunc(tensors.Names(), func(name string) bool { return w.parts[name] })
	names = append(names, slices.Collect(maps.Keys(w.views))...)
	slices.Sort(names)
	return names
}

// View returns a quantized matrix, and whether there is one of this name.
func (w Weights) View(name string) (lang.View, bool) {
	v, ok := w.views[name]
	return v, ok
}

// Has reports whether a quantized matrix has this name.
func (w Weights) Has(name string) bool {
	_, ok := w.View(name)
	return ok
}

// Any reports whether there is a quantized matrix.
func (w Weights) Any() bool { return len(w.views) > 0 }

// Zeros reports whether a tensor is the bias of a quantized matrix and zero, as some methods write for all matrices.
func (w Weights) Zeros(t *safetensors.Tensor) bool {
	if t == nil {
		return false
	}
	base, ok := strings.CutSuffix(t.Name, ".bias")
	const most = 1 << 24
	if !ok || !w.Has(base+".weight") || t.Elems() > most {
		return false
	}
	all := make([]float32, t.Elems())
	return t.Floats(all, 0) == nil && !slices.ContainsFunc(all, func(x float32) bool { return x != 0 })
}

// each calls read with the beginning of each name that ends with a suffix.
func (r *reader) each(suffix string, read func(base string) error) error {
	for _, name := range r.tensors.Names() {
		base, ok := strings.CutSuffix(name, suffix)
		if !ok || r.config.Err() != nil {
			continue
		}
		if err := read(base); err != nil {
			return err
		}
	}
	return nil
}

// alone fails if there is a tensor with a suffix whose matrix was not found.
func (r *reader) alone(suffix, missing string) error {
	return r.each(suffix, func(base string) error {
		if r.Has(base + ".weight") {
			return nil
		}
		_, err := r.want(base, missing, nil)
		return err
	})
}

// part returns the tensor base + suffix, nil if there is none. No rule will see it.
func (r *reader) part(base, suffix string) *safetensors.Tensor {
	t := r.tensors.Tensor(base + suffix)
	if t != nil {
		r.parts[t.Name] = true
	}
	return t
}

// want returns the tensor base + suffix. It must be of one of these types, and if there is a shape, have that.
func (r *reader) want(base, suffix string, types []safetensors.DType, shape ...uint64) (*safetensors.Tensor, error) {
	t := r.part(base, suffix)
	if t == nil {
		return nil, fmt.Errorf("tensor %q is missing, without which %q cannot be read", base+suffix, base)
	}
	if !slices.Contains(types, t.DType) {
		return nil, fmt.Errorf("tensor %q is %s, want %v", t.Name, t.DType, types)
	}
	if len(shape) > 0 && !slices.Equal(t.Shape, shape) {
		return nil, fmt.Errorf("tensor %q has the shape %v, want %v", t.Name, t.Shape, shape)
	}
	return t, nil
}

// matrix returns the tensor base + suffix, which must be a matrix of one of these types that is not empty.
func (r *reader) matrix(base, suffix string, types []safetensors.DType) (*safetensors.Tensor, error) {
	t, err := r.want(base, suffix, types)
	if err == nil && (len(t.Shape) != 2 || t.Elems() == 0) {
		err = fmt.Errorf("tensor %q has the shape %v, want two dimensions", t.Name, t.Shape)
	}
	return t, err
}

// The types of parts.
var (
	words  = []safetensors.DType{safetensors.I32}
	floats = []safetensors.DType{safetensors.F16, safetensors.BF16, safetensors.F32}
	bytes  = []safetensors.DType{safetensors.U8}
	signed = []safetensors.DType{safetensors.I8}
	counts = []safetensors.DType{safetensors.I32, safetensors.I64}
)

// groupsOf returns the group of each of cols columns as a tensor has them, and nil if group i has the i-th width columns.
func groupsOf(t *safetensors.Tensor, cols, groups, width uint64) ([]uint32, error) {
	if !slices.Contains(counts, t.DType) || !slices.Equal(t.Shape, []uint64{cols}) {
		return nil, fmt.Errorf("tensor %q is %s of the shape %v, want %v of [%d]", t.Name, t.DType, t.Shape, counts, cols)
	}
	list, err := integers(t)
	if err != nil {
		return nil, err
	}
	all, sorted := make([]uint32, cols), true
	for c, g := range list {
		if g < 0 || uint64(g) >= groups {
			return nil, fmt.Errorf("tensor %q has the group %d for column %d, want 0 to %d", t.Name, g, c, groups-1)
		}
		all[c] = uint32(g)
		sorted = sorted && uint64(g) == uint64(c)/width
	}
	if sorted {
		return nil, nil
	}
	return all, nil
}

// upTo returns n divided by d, rounded up.
func upTo(n, d uint64) uint64 { return (n + d - 1) / d }
