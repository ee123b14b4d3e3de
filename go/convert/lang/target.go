package lang

import (
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// A Target is a tensor of the file that is written. Its Type is that in the file.
type Target struct {
	Name string
	Type gguf.Type
	Dims []uint64 // as GGUF orders them, the innermost first

	Quantized bool // of tensors that are quantized in the checkpoint
	View
}

// A Draft is a conversion whose tensors are known and whose keys are not complete yet.
type Draft struct {
	Layers  int
	Weights *safetensors.Checkpoint
	Targets []*Target
}

// Target returns the tensor of this name, nil if there is none.
func (d *Draft) Target(name string) *Target {
	for _, t := range d.Targets {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Stripes says how a matrix was divided among machines before it was quantized. Each of N machines has an equal share
// of the rows of each kind, such as queries, keys and values, one kind after the other; its blocks begin anew. Rows are
// the rows of each kind in the whole matrix.
type Stripes struct {
	N    uint64
	Rows []uint64
}
