package model

import (
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model/nn"
)

// A list of operations that the kernels refuse is an error that says which, wherever it stands.
func TestPlansRefused(t *testing.T) {
	bufs := []kernel.BufSpec{{Kind: kernel.Floats, Width: 16}, {Kind: kernel.Floats, Width: 16}}
	gate := kernel.Gate{Dst: 0, Src: 1, Cols: 16}
	good := []kernel.Op{gate}
	gate.Cols = 17
	bad := []kernel.Op{gate}
	for want, p := range map[string]*nn.Program{
		"embedding: ": {Bufs: bufs, Begin: bad},
		"layer 1: ":   {Bufs: bufs, Begin: good, Layers: [][]kernel.Op{good, bad}},
		"logits: ":    {Bufs: bufs, Begin: good, Layers: [][]kernel.Op{good}, Outputs: []nn.Output{{Name: "logits", Ops: bad}}},
	} {
		if ps, err := newPlans(p, &weights{}); ps != nil || err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, error %v, want one that begins with %q", ps, err, want)
		}
	}
}
