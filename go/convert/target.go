package convert

import (
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/safetensors"
)

// A target is a tensor to be written.
type target struct {
	name string
	typ  gguf.Type
	dims []uint64 // in ggml's order
	view
}

// A draft is a conversion before its keys are complete: what is read, and what it becomes.
type draft struct {
	layers  int
	weights *safetensors.Checkpoint
	targets []*target
}

// target returns a tensor to be written, nil if there is none of that name.
func (d *draft) target(name string) *target {
	for _, t := range d.targets {
		if t.name == name {
			return t
		}
	}
	return nil
}

// stripes says how a matrix was cut before it was quantized: into n parts with blocks of their own, each of which has the next
// rows of all kinds. Of the kinds it says the rows of all parts together.
type stripes struct {
	n    uint64
	rows []uint64
}
