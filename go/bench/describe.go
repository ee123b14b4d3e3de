package bench

import (
	"regexp"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

// An about describes a model, for results and the roofline.
type about struct {
	desc   string // such as "llama 8B Q4_K - Medium"
	bytes  uint64 // of all tensors
	params uint64
	cost   cost
}

// describe sums the tensors of the file's directory.
func describe(f *gguf.File, cfg *model.Config, kv kvcache.Types) about {
	var m about
	_, hasOutput := f.Tensor("output.weight")
	for i := range f.Tensors {
		t := &f.Tensors[i]
		size := uint64(len(t.Data))
		m.bytes += size
		m.params += t.Elems()

		bytes, macs := float64(size), float64(t.Elems())
		if len(t.Dims) < 2 {
			macs = 0
		}
		switch {
		case t.Name == "output.weight", t.Name == "token_embd.weight" && !hasOutput:
			m.cost.outputBytes += bytes
			m.cost.outputMACs += macs
		case t.Name == "token_embd.weight": // one row of it for each token
		case expertTensor.MatchString(t.Name):
			m.cost.expertBytes += bytes
			m.cost.expertMACs += macs
		default:
			m.cost.bytes += bytes
			m.cost.macs += macs
		}
	}
	m.cost.nExpert, m.cost.nUsed = cfg.NExpert, cfg.NExpertUsed
	for _, l := range cfg.Layers {
		m.cost.kvBytes += float64(l.NHeadKV*(l.HeadDim*kv.K.Bits()+l.ValueDim*kv.V.Bits())) / 8
	}
	m.desc = strings.Join([]string{cfg.Arch, gguf.SizeName(m.params), f.MixName()}, " ")
	return m
}

// expertTensor matches the expert tensors of a layer: stacked, or, in older files, one
// per expert.
var expertTensor = regexp.MustCompile(`ffn_(gate|up|down)(_exps|\.\d+)\.weight$`)
