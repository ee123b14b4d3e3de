package bench

import (
	"fmt"
	"io"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/model"
)

// A Plan lists what to measure.
type Plan struct {
	Setups      []Setup
	Cases       []Case       // of each setup
	Curve       bool         // each case is a single pass; for each depth, the pass of one token comes first
	Profile     bool         // report the time by operation instead of the speed
	Speculation *Speculation // not nil: report what drafts are worth instead
	Sound       *Sound       // not nil: report how fast models of speech transcribe it instead
	Repeats     int          // of each case
	Warmup      bool         // run each case once before, uncounted
	Weights     string       // their layout in memory, for the results
	Columns     Columns

	// Picture is called with a function that draws the profiles or the curves as SVG, after the last
	// of them; may be nil.
	Picture func(draw func(io.Writer) (int64, error)) error

	Machine *machine.Machine
	Energy  *machine.EnergyMeter // nil: it cannot be read, or was not asked for
	Open    func(model string) (*model.File, error)
	Load    func(file *model.File, s Setup, ctx int) (e *engine.Engine, done func() error, err error) // for ctx positions; the engine takes ownership of file
}

// Columns are the optional columns of the Markdown table.
type Columns struct{ Batch, UBatch, FlashAttn bool }

// An Output configures how results are written.
type Output struct {
	W        io.Writer
	Format   string // one of Formats
	Roofline bool   // measure the roofline, and report results relative to it
	Energy   bool   // report the energy of each token, of the tests of a Plan that are speeds
	Commit   string // that this program was built from
}

// A Setup is how a model is loaded. Cases that share one share the load.
type Setup struct {
	Model         string
	Batch, UBatch int
	KV            kvcache.Types
	FlashAttn     int // -1 auto, 1 on, as in llama.cpp; no difference here
	Threads       int
	Streams       int // at a time, at most; 0: one
}

// A Case is one row of the result: a prompt and the tokens generated after it, with
// Depth tokens in the context before both.
type Case struct{ Prompt, Gen, Depth int }

// String returns llama-bench's name of the test.
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
