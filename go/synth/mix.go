package synth

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/quant"
)

// mixes are those of which random blocks can be made; types are as quantizers choose them without an importance matrix.
var mixes = strings.Fields("F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K_M Q4_K_S Q4_K_M Q5_K_M Q6_K IQ4_NL IQ4_XS MXFP4_MOE NVFP4 Q1_0 Q2_0")

// Mixes returns the names of the mixes that ParseShape knows.
func Mixes() []string { return slices.Clone(mixes) }

// findMix returns the mix of a name in any case.
func findMix(name string) (m quant.Mix, ok bool) {
	if !slices.Contains(mixes, strings.ToUpper(name)) {
		return quant.Mix{}, false
	}
	m, err := quant.ParseMix(name)
	return m, err == nil
}
