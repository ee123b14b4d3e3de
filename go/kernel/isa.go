package kernel

// #include "quern.h"
import "C"

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
)

// ISA is a set of instruction sets beyond the CPU's baseline.
type ISA uint32

// The instruction sets, each listed after those it implies.
const (
	Scalar ISA = 0 // none: the specification of every kernel

	AVX2       ISA = C.QN_AVX2
	AVXVNNI    ISA = C.QN_AVXVNNI
	AVX512     ISA = C.QN_AVX512
	AVX512VNNI ISA = C.QN_AVX512VNNI
	AVX512BF16 ISA = C.QN_AVX512BF16
	AMX        ISA = C.QN_AMX

	NEON    ISA = C.QN_NEON
	DotProd ISA = C.QN_DOTPROD
	I8MM    ISA = C.QN_I8MM

	RVV    ISA = C.QN_RVV
	RVV256 ISA = C.QN_RVV256

	Best ISA = 1<<32 - 1 // all that the CPU has
)

// isas is the instruction sets of each CPU family, in ascending order.
var isas = [...][]struct {
	name string
	isa  ISA
}{
	{
		{"avx2", AVX2}, {"avxvnni", AVXVNNI}, {"avx512", AVX512}, {"avx512vnni", AVX512VNNI},
		{"avx512bf16", AVX512BF16}, {"amx", AMX},
	},
	{{"neon", NEON}, {"dotprod", DotProd}, {"i8mm", I8MM}},
	{{"rvv", RVV}, {"rvv256", RVV256}},
}

// CPU returns the instruction sets that this CPU and operating system support.
func CPU() ISA { return cpu() }

// cpu asks once: hypervisors answer slowly.
var cpu = sync.OnceValue(func() ISA { return ISA(C.qn_cpu_isa()) })

// chosen is set once the C library's kernels are selected; the selection is global to
// the process.
var chosen atomic.Bool

// using is the sets that it selected.
var using atomic.Uint32

// Init selects the kernels for this CPU among the sets in allow, and returns those in use. Call it before
// anything else, and never while a plan runs. Without it, the first use of kernels selects the best.
func Init(allow ISA) ISA {
	isa := ISA(C.qn_init(C.uint32_t(allow)))
	using.Store(uint32(isa))
	chosen.Store(true)
	return isa
}

// TwelvePays reports whether products of layout X12 are faster than those of X16 where weights come from memory, with the
// kernels in use. With AVX-512 they are; AVX2 takes as long to decode as is saved, and NEON and RISC-V's were not measured.
func TwelvePays() bool {
	choose()
	return ISA(using.Load())&AVX512 != 0
}

// choose selects the best kernels if none are selected.
func choose() {
	if !chosen.Load() {
		first.Do(func() { Init(Best) })
	}
}

var first sync.Once

// ParseISA returns the set of an instruction set's name: that set and those it builds on. "scalar" is none,
// "best" all.
func ParseISA(name string) (ISA, error) {
	names := []string{"scalar"}
	switch name {
	case "scalar":
		return Scalar, nil
	case "best":
		return Best, nil
	}
	for _, ladder := range isas {
		var below ISA
		for _, step := range ladder {
			below |= step.isa
			if step.name == name {
				return below, nil
			}
			names = append(names, step.name)
		}
	}
	return 0, fmt.Errorf("instruction set %q is unknown, want one of %s best", name, strings.Join(names, " "))
}

// Ladder returns the selections that can be compared on this CPU within allow: scalar, then each of its
// instruction sets together with those below.
func Ladder(allow ISA) []ISA {
	have, all := CPU()&allow, []ISA{Scalar}
	for _, ladder := range isas {
		var below ISA
		for _, step := range ladder {
			if have&step.isa == 0 {
				continue // AVX-512 does not imply AVX-VNNI
			}
			below |= step.isa
			all = append(all, below)
		}
	}
	return all
}

// String returns the names of the sets, lowest first, or "scalar".
func (s ISA) String() string {
	var names []string
	for _, ladder := range isas {
		for _, step := range ladder {
			if s&step.isa != 0 {
				names = append(names, step.name)
			}
		}
	}
	if names == nil {
		return "scalar"
	}
	return strings.Join(names, " ")
}
