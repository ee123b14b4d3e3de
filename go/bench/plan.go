package bench

import (
	"fmt"
	"io"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/model"
)

// A Plan is what of which models is measured.
type Plan struct {
	Setups  []Setup
	Cases   []Case // of each setup
	Curve   bool   // each case is a single pass; of each depth, that of one token comes first
	Profile bool   // where the time went, by operation, instead of how much it was
	Repeats int    // of each case
	Warmup  bool   // run each case once before, which is not counted
	Weights string // how they lie in memory, for the results
	Columns Columns

	// Picture is given what draws the profiles as SVG, when there are all; may be nil.
	Picture func(draw func(io.Writer) (int64, error)) error

	Machine *machine.Machine
	Open    func(model string) (*model.File, error)
	Load    func(file *model.File, s Setup, ctx int) (e *engine.Engine, done func() error, err error) // for ctx positions; the file is the engine's then
}

// Columns are those of the Markdown table that are there on request.
type Columns struct{ Batch, UBatch, FlashAttn bool }

// An Output is where results go.
type Output struct {
	W        io.Writer
	Format   string // one of Formats
	Roofline bool   // measure what the machine allows, and say how near results come
	Commit   string // that this program was built from
}

// A Setup is how a model is loaded. Cases that share one share the load.
type Setup struct {
	Model         string
	Batch, UBatch int
	KV            kvcache.Types
	FlashAttn     int // -1 auto, 1 on: llama.cpp's numbers; the same to us
	Threads       int
}

// A Case is one row of the result: a prompt, then tokens generated after it,
// where Depth tokens come before both.
type Case struct{ Prompt, Gen, Depth int }

// String returns the name that llama-bench gives the row.
func (c Case) String() string {
	var name string
	switch {
	case c.Gen == 0:
		name = fmt.Sprintf("pp%d", c.Prompt)
	case c.Prompt == 0:
		name = fmt.Sprintf("tg%d", c.Gen)
	default:
		name = fmt.Sprintf("pp%d+tg%d", c.Prompt, c.Gen)
	}
	if c.Depth > 0 {
		name += fmt.Sprintf(" @ d%d", c.Depth)
	}
	return name
}
