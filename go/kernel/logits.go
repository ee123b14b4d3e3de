package kernel

/*
#include "quern.h"
#cgo noescape qn_logits_peaks
#cgo nocallback qn_logits_peaks
#cgo noescape qn_logits_weigh
#cgo nocallback qn_logits_weigh
#cgo noescape qn_logits_spread
#cgo nocallback qn_logits_spread
#cgo noescape qn_logits_bins
#cgo nocallback qn_logits_bins
#cgo noescape qn_logits_bound
#cgo nocallback qn_logits_bound
#cgo noescape qn_logits_order
#cgo nocallback qn_logits_order
#cgo noescape qn_logits_select
#cgo nocallback qn_logits_select
*/
import "C"

import (
	"slices"
	"unsafe"
)

// A Token is a candidate with its logit.
type Token struct {
	ID    int32
	Logit float32
}

// A Mass is the sum of the weights of some logits, w = 2^((x - top) scale), and that of
// each weight times its exponent.
type Mass struct{ Sum, Moment float32 }

// A LogitSpread is the number of finite logits, their mean and their variance.
type LogitSpread struct{ N, Mean, Variance float64 }

// LogitsBlock is the number of logits in a Mass.
const LogitsBlock = C.QN_LOGITS_BLOCK

// Peaks fills peaks with the maxima of disjoint sets of at most 64 logits that cover all logits; -Inf for an
// empty set. NaN is ignored.
func Peaks(peaks, logits []float32) []float32 {
	choose()
	n := (len(logits) + C.QN_LOGITS_CHUNK - 1) / C.QN_LOGITS_CHUNK * C.QN_LOGITS_LANES
	peaks = slices.Grow(peaks[:0], n)[:n]
	C.qn_logits_peaks((*C.float)(unsafe.SliceData(peaks)), (*C.float)(unsafe.SliceData(logits)), C.int64_t(len(logits)))
	return peaks
}

// PeakStart returns the start of the range of at most 1024 logits that contains peak i.
func PeakStart(i int) int { return i / C.QN_LOGITS_LANES * C.QN_LOGITS_CHUNK }

// WeighLogits fills mass with the masses of blocks of logits, counting only logits from .. to. No logit in
// that range is above top.
func WeighLogits(mass []Mass, logits []float32, top, scale, from, to float32) []Mass {
	return weigh(mass, (*C.float)(unsafe.SliceData(logits)), len(logits), 1, top, scale, from, to)
}

// WeighTokens is WeighLogits for a list of tokens.
func WeighTokens(mass []Mass, tokens []Token, top, scale, from, to float32) []Mass {
	return weigh(mass, logitsOf(tokens), len(tokens), 2, top, scale, from, to)
}

func weigh(mass []Mass, x *C.float, n, step int, top, scale, from, to float32) []Mass {
	blocks := (n + LogitsBlock - 1) / LogitsBlock
	choose()
	mass = slices.Grow(mass[:0], blocks)[:blocks]
	C.qn_logits_weigh((*C.struct_qn_mass)(unsafe.Pointer(unsafe.SliceData(mass))), x, C.int64_t(n), C.int64_t(step),
		C.float(top), C.float(scale), C.float(from), C.float(to))
	return mass
}

// LogitsBins is the number of bins of a histogram of logits.
const LogitsBins = C.QN_LOGITS_BINS

// BinLogits returns the histogram of the logits from .. to, by Bin, with weights as in WeighLogits. With
// scale 0 each weighs 1.
func BinLogits(bins []float64, logits []float32, top, scale, per, from, to float32) []float64 {
	return histogram(bins, (*C.float)(unsafe.SliceData(logits)), len(logits), 1, top, scale, per, from, to)
}

// BinTokens is BinLogits for a list of tokens.
func BinTokens(bins []float64, tokens []Token, top, scale, per, from, to float32) []float64 {
	return histogram(bins, logitsOf(tokens), len(tokens), 2, top, scale, per, from, to)
}

func histogram(bins []float64, x *C.float, n, step int, top, scale, per, from, to float32) []float64 {
	choose()
	const size = C.QN_LOGITS_BINS * C.QN_LOGITS_SUMS
	bins = slices.Grow(bins[:0], size)[:size]
	C.qn_logits_bins((*C.double)(unsafe.SliceData(bins)), x, C.int64_t(n), C.int64_t(step), C.float(top), C.float(scale), C.float(per),
		C.float(from), C.float(to))
	return bins[:LogitsBins]
}

// Bin returns the bin of a logit: the integer part of (to - logit) per, limited to the last bin. Each step is
// rounded as in C.
func Bin(logit, to, per float32) int {
	d := float32(float32(logit-to) * per)
	if !(d > 1-LogitsBins) {
		return LogitsBins - 1
	}
	return int(max(-d, 0))
}

// logitsOf returns the address of the first token's logit; the logits of the next ones are two floats apart.
func logitsOf(tokens []Token) *C.float {
	if len(tokens) == 0 {
		return nil
	}
	return (*C.float)(unsafe.Pointer(&tokens[0].Logit))
}

// SpreadLogits returns the spread of logits.
func SpreadLogits(logits []float32) LogitSpread {
	return spreadOf((*C.float)(unsafe.SliceData(logits)), len(logits), 1)
}

// SpreadTokens is SpreadLogits for a list of tokens.
func SpreadTokens(tokens []Token) LogitSpread { return spreadOf(logitsOf(tokens), len(tokens), 2) }

func spreadOf(x *C.float, n, step int) LogitSpread {
	choose()
	var s C.struct_qn_spread
	C.qn_logits_spread(&s, x, C.int64_t(n), C.int64_t(step))
	return LogitSpread{float64(s.n), float64(s.mean), float64(s.variance)}
}

// SelectTokens fills tokens with those whose logits are from .. to, sorted by id; peaks are those of the
// logits.
func SelectTokens(tokens []Token, logits, peaks []float32, from, to float32) []Token {
	choose()
	for {
		n := int(C.qn_logits_select((*C.struct_qn_token)(unsafe.Pointer(unsafe.SliceData(tokens))), C.int64_t(cap(tokens)),
			(*C.float)(unsafe.SliceData(logits)), C.int64_t(len(logits)), (*C.float)(unsafe.SliceData(peaks)), C.float(from), C.float(to)))
		if n <= cap(tokens) {
			return tokens[:n]
		}
		tokens = slices.Grow(tokens[:0], n)
	}
}

// CountLogits returns how many logits are from .. to.
func CountLogits(logits, peaks []float32, from, to float32) int {
	choose()
	return int(C.qn_logits_select(nil, 0, (*C.float)(unsafe.SliceData(logits)), C.int64_t(len(logits)),
		(*C.float)(unsafe.SliceData(peaks)), C.float(from), C.float(to)))
}

// Bound returns a number that k or more of logits reach, which may be peaks, and not many more where that is found soon; from,
// if no more than k + k/4 + 8 reach that, which may be fewer than k. top is the largest of them; both are finite.
func Bound(logits []float32, k int, from, top float32) float32 {
	choose()
	return float32(C.qn_logits_bound((*C.float)(unsafe.SliceData(logits)), C.int64_t(len(logits)), C.int64_t(k), C.float(from), C.float(top)))
}

// LogitsOrder is how many tokens Order takes at most.
const LogitsOrder = C.QN_LOGITS_ORDER

// Order moves the k first of tokens to the front and returns them: the larger logits first, and of equal ones the first in the
// list. No logit is NaN. It panics if there are more than LogitsOrder.
func Order(tokens []Token, k int) []Token {
	if len(tokens) > LogitsOrder {
		panic("kernel: more tokens than are put in order at once")
	}
	choose()
	at := (*C.struct_qn_token)(unsafe.Pointer(unsafe.SliceData(tokens)))
	C.qn_logits_order(at, C.int64_t(k), at, C.int64_t(len(tokens)))
	return tokens[:min(k, len(tokens))]
}
