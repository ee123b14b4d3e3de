package gguf

import (
	"cmp"
	"fmt"
	"strings"
)

// SizeName is a number of parameters as the names of models have it: 8B for
// 8 030 261 312.
func SizeName(params uint64) string {
	if params < 1e9 {
		return fmt.Sprintf("%.0fM", float64(params)/1e6)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(params)/1e9), ".0") + "B"
}

// mixNames are llama.cpp's words for general.file_type.
var mixNames = map[uint64]string{
	0: "all F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1",
	10: "Q2_K - Medium", 11: "Q3_K - Small", 12: "Q3_K - Medium", 13: "Q3_K - Large",
	14: "Q4_K - Small", 15: "Q4_K - Medium", 16: "Q5_K - Small", 17: "Q5_K - Medium", 18: "Q6_K",
	25: "IQ4_NL - 4.5 bpw", 30: "IQ4_XS - 4.25 bpw", 32: "BF16",
}

// MixName is what the file says of its mix of types, such as Q4_K - Medium, or
// the type that takes most of it.
func (f *File) MixName() string {
	sizes := map[Type]int{}
	var most Type
	for i := range f.Tensors {
		t := &f.Tensors[i]
		sizes[t.Type] += len(t.Data)
	}
	for t, n := range sizes {
		if n > sizes[most] || n == sizes[most] && t < most {
			most = t
		}
	}
	n, err := f.Uint("general.file_type")
	if err != nil {
		return most.String()
	}
	return cmp.Or(mixNames[n], most.String())
}
