package bench

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
)

// An about is what a result says of a model, and what the roofline needs.
type about struct {
	desc   string // such as "llama 8B Q4_K - Medium"
	bytes  uint64 // of all tensors
	params uint64
	cost   cost
}

// describe adds up what the file's directory lists.
func describe(f *gguf.File, cfg *model.Config, kv kvcache.Types) about {
	var m about
	_, hasOutput := f.Tensor("output.weight")
	types := map[gguf.Type]uint64{}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		size := uint64(len(t.Data))
		m.bytes += size
		m.params += t.Elems()
		types[t.Type] += size

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
	m.desc = strings.Join([]string{cfg.Arch, paramsName(m.params), mixName(f, types)}, " ")
	return m
}

// expertTensor matches the experts of a layer: together, or, in older files,
// one by one.
var expertTensor = regexp.MustCompile(`ffn_(gate|up|down)(_exps|\.\d+)\.weight$`)

// paramsName is 8B for 8 030 261 312.
func paramsName(n uint64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.0fM", float64(n)/1e6)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/1e9), ".0") + "B"
}

// mixNames are llama.cpp's words for general.file_type.
var mixNames = map[uint64]string{
	0: "all F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1",
	10: "Q2_K - Medium", 11: "Q3_K - Small", 12: "Q3_K - Medium", 13: "Q3_K - Large",
	14: "Q4_K - Small", 15: "Q4_K - Medium", 16: "Q5_K - Small", 17: "Q5_K - Medium", 18: "Q6_K",
	25: "IQ4_NL - 4.5 bpw", 30: "IQ4_XS - 4.25 bpw", 32: "BF16",
}

// mixName is what the file says of itself, or the type that takes most of it.
func mixName(f *gguf.File, types map[gguf.Type]uint64) string {
	var most gguf.Type
	for t, n := range types {
		if n > types[most] || n == types[most] && t < most {
			most = t
		}
	}
	n, err := f.Uint("general.file_type")
	if err != nil {
		return most.String()
	}
	return cmp.Or(mixNames[n], most.String())
}
