package nn

import (
	"strconv"

	"github.com/quern-llm/quern/go/kernel"
)

// Sparse says that each 64 queries of a prompt, from position From on, read the blocks of keys that hold Part of the weight
// that an estimate gives them, and not all: see kernel.Blocks. The zero value: all read all.
type Sparse struct {
	Part float32
	From int // a multiple of kernel.KVBlock
}

// String returns the setting as model.ParseSparse reads it.
func (s Sparse) String() string {
	if s.Part == 0 {
		return ""
	}
	return strconv.FormatFloat(float64(s.Part), 'g', -1, 32) + ":" + strconv.Itoa(s.From)
}

// sparsely adds what chooses blocks of keys for an attention, if there is to be a choice and the attention is one that
// reads all that is before a token.
func (l Layer) sparsely(o *kernel.Attend) {
	s := l.Config.Sparse
	switch {
	case s.Part == 0 || l.residuals != "": // layers that draft see passes of their own
		return
	case o.Window > 0 || o.Ahead > 0 || o.Side != kernel.AnySide || o.Sight != kernel.NoSight || o.Best > 0,
		o.Bias.By != nil || o.Relative.At != nil || len(o.Tiers) > 0 || o.InKeys:
		return
	}
	const wordBlocks = 32
	blocks := (l.Config.Ctx + kernel.KVBlock - 1) / kernel.KVBlock
	o.Blocks = kernel.Blocks{Words: (blocks + wordBlocks - 1) / wordBlocks, From: s.From, Part: s.Part}
	o.Blocks.Mask = l.Floats("blocks", kernel.TokRows, o.Blocks.Columns(o.NHead))
	l.Add(kernel.ChooseBlocks{Attend: *o})
	l.Program.Sparse = true
}
