package synth

import (
	"strings"

	"github.com/quern-llm/quern/go/gguf"
)

// A Mix assigns a type to each tensor of a model. Names and meanings are those of
// llama.cpp's quantizer without an importance matrix.
type Mix struct {
	Name  string
	ftype uint32    // general.file_type
	base  gguf.Type // of matrices without a rule
}

var mixes = []Mix{
	{"F32", 0, gguf.F32},
	{"F16", 1, gguf.F16},
	{"BF16", 32, gguf.BF16},
	{"Q4_0", 2, gguf.Q4_0},
	{"Q4_1", 3, gguf.Q4_1},
	{"Q5_0", 8, gguf.Q5_0},
	{"Q5_1", 9, gguf.Q5_1},
	{"Q8_0", 7, gguf.Q8_0},
	{"Q2_K", 10, gguf.Q2_K},
	{"Q3_K_M", 12, gguf.Q3_K},
	{"Q4_K_S", 14, gguf.Q4_K},
	{"Q4_K_M", 15, gguf.Q4_K},
	{"Q5_K_M", 17, gguf.Q5_K},
	{"Q6_K", 18, gguf.Q6_K},
	{"IQ4_NL", 25, gguf.IQ4_NL},
	{"IQ4_XS", 30, gguf.IQ4_XS},
	{"MXFP4_MOE", 38, gguf.MXFP4}, // experts; all else is Q8_0
	{"NVFP4", 39, gguf.NVFP4},
	{"Q1_0", 40, gguf.Q1_0},
	{"Q2_0", 41, gguf.Q2_0},
}

// Mixes returns the names of the mixes that ParseShape knows.
func Mixes() []string {
	var names []string
	for i := range mixes {
		names = append(names, mixes[i].Name)
	}
	return names
}

func findMix(name string) *Mix {
	for i := range mixes {
		if strings.EqualFold(name, mixes[i].Name) {
			return &mixes[i]
		}
	}
	return nil
}

// A role is the function of a matrix in the model; mixes give some roles more bits.
type role int

const (
	embed  role = iota // token_embd, if output is a separate matrix
	output             // output, or token_embd if it is also the output matrix
	attnQ
	attnQKV // all in one, as delta nets have them
	attnK
	attnV
	attnOut
	ffnUp // and ffn_gate
	ffnDown
)

// typeOf returns the type of a matrix of layer i.
func (m *Mix) typeOf(s *Shape, r role, i int) gguf.Type {
	if m.base.BlockElems() == 1 {
		return m.base
	}
	if m.base == gguf.MXFP4 {
		return pick(s.NExpert > 0 && (r == ffnUp || r == ffnDown), gguf.MXFP4, gguf.Q8_0)
	}
	var (
		n       = s.NLayer
		grouped = s.NHead/s.NHeadKV >= 4 // attn_v is small, so more bits cost little
		eight   = s.NExpert == 8         // as are all attention matrices relative to the experts
	)
	switch r {
	case output:
		if m.base == gguf.Q8_0 {
			return gguf.Q8_0
		}
		return gguf.Q6_K
	case attnV:
		if eight {
			return gguf.Q8_0
		}
		switch m.Name {
		case "Q2_K":
			return pick(grouped, gguf.Q4_K, gguf.Q3_K)
		case "Q3_K_M":
			return pick(i < 2, gguf.Q5_K, gguf.Q4_K)
		case "Q4_K_S":
			return pick(i < 4, gguf.Q5_K, gguf.Q4_K)
		case "Q4_K_M", "Q5_K_M":
			return pick(moreBits(i, n), gguf.Q6_K, m.base)
		case "IQ4_NL", "IQ4_XS":
			return pick(grouped, gguf.Q5_K, m.base)
		}
	case attnQKV:
		switch m.Name {
		case "Q3_K_M":
			return gguf.Q4_K
		case "Q4_K_M":
			return gguf.Q5_K
		case "Q5_K_M":
			return gguf.Q6_K
		}
	case attnK:
		return pick(eight, gguf.Q8_0, m.base)
	case attnOut:
		switch m.Name {
		case "Q2_K":
			return pick(eight, gguf.Q5_K, gguf.Q3_K)
		case "Q3_K_M":
			return pick(eight, gguf.Q5_K, gguf.Q4_K)
		case "Q4_K_S", "Q4_K_M", "IQ4_NL", "IQ4_XS":
			return pick(eight, gguf.Q5_K, m.base)
		}
	case ffnDown:
		switch m.Name {
		case "Q2_K":
			return gguf.Q3_K
		case "Q3_K_M":
			return pick(i < n/16, gguf.Q5_K, gguf.Q4_K)
		case "Q4_K_S", "IQ4_NL", "IQ4_XS":
			return pick(i < n/8, gguf.Q5_K, m.base)
		case "Q4_K_M", "Q5_K_M":
			return pick(moreBits(i, n), gguf.Q6_K, m.base)
		}
	}
	return m.base
}

// fitting returns t, or the type that llama.cpp's quantizer takes instead where rows of n weights
// are no whole blocks of t.
func fitting(t gguf.Type, n int) gguf.Type {
	if n%t.BlockElems() == 0 {
		return t
	}
	switch t {
	case gguf.Q4_K:
		return gguf.Q5_0
	case gguf.Q5_K:
		return gguf.Q5_1
	case gguf.Q6_K:
		return gguf.Q8_0
	case gguf.Q2_K, gguf.Q3_K, gguf.IQ4_XS:
		return gguf.IQ4_NL
	case gguf.Q1_0, gguf.Q2_0, gguf.NVFP4:
		return gguf.Q4_0
	}
	return t
}

// moreBits selects the layers whose errors matter most: the first and the last eighth,
// and every third between.
func moreBits(i, n int) bool {
	return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2
}

func pick(c bool, yes, no gguf.Type) gguf.Type {
	if c {
		return yes
	}
	return no
}
