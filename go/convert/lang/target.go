package lang

import (
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// A Target is a tensor to be written.
type Target struct {
	Name string
	Typ  gguf.Type
	Dims []uint64 // in ggml's order
	View
}

// A Draft is a conversion before its keys are complete: what is read, and what it becomes.
type Draft struct {
	Layers  int
	Weights *safetensors.Checkpoint
	Targets []*Target
}

// Target returns a tensor to be written, nil if there is none of that name.
func (d *Draft) Target(name string) *Target {
	for _, t := range d.Targets {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Stripes says how a matrix was cut before it was quantized: into n parts with blocks of their own, each of which has the next
// rows of all kinds. Of the kinds it says the rows of all parts together.
type Stripes struct {
	N    uint64
	Rows []uint64
}
