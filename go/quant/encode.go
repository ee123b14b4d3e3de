// Package quant makes quantized models: which type each tensor of a file takes, how much the columns of each matrix count,
// and the files that come of it. The arithmetic is kernel's.
package quant

import (
	"fmt"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
)

// CanEncode reports whether Encode writes rows of n weights as type t.
func CanEncode(t gguf.Type, n int) bool { return kernel.CanEncode(kernel.Type(t), n) }

// NeedsImportance reports whether type t has too few bits to be encoded without importance.
func NeedsImportance(t gguf.Type) bool { return kernel.NeedsImportance(kernel.Type(t)) }

// Encode writes rows of n weights each, one after the other, as type t into dst, which has their size. importance has how
// much the error of each of the n columns counts, and is nil where all count alike. The bytes are those of llama.cpp's
// encoders, but of the trellis types, of which it has none. It runs on the caller's thread; call it from as many as there are.
func Encode(t gguf.Type, dst []byte, rows []float32, n int, importance []float32) error {
	return kernel.Encode(kernel.CPU(), kernel.Type(t), dst, rows, n, importance)
}

// Decode writes one row of type t as floats, len(y) of them.
func Decode(t gguf.Type, y []float32, row []byte) error {
	return kernel.Dequantize(kernel.Type(t), y, row)
}

// RowBytes returns the size of a row of n weights of type t.
func RowBytes(t gguf.Type, n int) int { return kernel.RowBytes(kernel.Type(t), n) }

// Fallback returns t, or where rows of n weights are no whole blocks of t the type that llama.cpp takes in its place.
func Fallback(t gguf.Type, n int) gguf.Type {
	if n%t.BlockElems() == 0 {
		return t
	}
	use := t
	switch t {
	case gguf.IQ1_S, gguf.IQ1_M, gguf.IQ2_XXS, gguf.IQ2_XS, gguf.IQ2_S, gguf.IQ3_XXS, gguf.IQ3_S, gguf.IQ4_XS,
		gguf.IQ1_KT, gguf.IQ2_KT, gguf.IQ3_KT, gguf.IQ4_KT:
		use = gguf.IQ4_NL
	case gguf.Q2_K, gguf.Q3_K, gguf.TQ1_0, gguf.TQ2_0, gguf.Q2_0, gguf.Q1_0, gguf.NVFP4:
		use = gguf.Q4_0
	case gguf.Q4_K:
		use = gguf.Q5_0
	case gguf.Q5_K:
		use = gguf.Q5_1
	case gguf.Q6_K:
		use = gguf.Q8_0
	}
	if n%use.BlockElems() != 0 {
		return gguf.F16
	}
	return use
}

// ParseType returns the type called s, if there is an encoder for it.
func ParseType(s string) (gguf.Type, error) {
	t, err := gguf.ParseType(s)
	if err == nil && !CanEncode(t, 256) {
		err = fmt.Errorf("no encoder for tensor type %v", t)
	}
	return t, err
}
