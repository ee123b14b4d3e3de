package main

import (
	"errors"
	"math/bits"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/machine"
)

// maxCPU is Linux's own bound on CPU numbers.
const maxCPU = 1 << 13

// cpuFlags are the CPUs that threads may run on; empty means all.
type cpuFlags struct {
	mask, span []int
	placeFlags
}

// placeFlags say where threads and memory are.
type placeFlags struct {
	pinning machine.Pinning
	numa    string
	nodes   int // NUMA nodes to pretend that there are; 0: the real ones
}

func (f *cpuFlags) define(fs *pflag.FlagSet) {
	fs.Var(&cpuValue{&f.mask, "", parseMask}, "cpu-mask", "CPUs for threads, as a hexadecimal `MASK`")
	fs.Var(&cpuValue{&f.span, "", parseSpan}, "cpu-range", "the same, as `FIRST-LAST`")
	fs.Lookup("cpu-mask").Hidden, fs.Lookup("cpu-range").Hidden = true, true
	f.placeFlags.define(fs)
}

func (f *placeFlags) define(fs *pflag.FlagSet) {
	choiceVar(fs, &f.numa, "numa", machine.NUMAAuto.String(), machine.NUMANames(), "how threads and weights are spread over NUMA nodes")
	intVar(fs, &f.nodes, "nodes", "", 0, 1, machine.MaxPlaces, "NUMA nodes to pretend that there are, for tests")
	fs.Var((*pinningValue)(&f.pinning), "cpu-strict", "`1` pins each thread to a CPU, 0 pins none (default: see \"quern doctor\")")
	fs.Lookup("cpu-strict").Hidden, fs.Lookup("nodes").Hidden = true, true
}

// mode returns the value of --numa.
func (f *placeFlags) mode() machine.NUMA {
	mode, _ := machine.ParseNUMA(f.numa) // the flag was checked
	return mode
}

type pinningValue machine.Pinning

func (v *pinningValue) Set(s string) error {
	switch s {
	case "0":
		*v = pinningValue(machine.PinNever)
	case "1":
		*v = pinningValue(machine.PinAlways)
	default:
		return errors.New("want 1 to pin threads, or 0 to leave them to the kernel")
	}
	return nil
}

func (v *pinningValue) String() string {
	return map[machine.Pinning]string{machine.PinNever: "0", machine.PinAlways: "1"}[machine.Pinning(*v)]
}
func (v *pinningValue) Type() string { return "0|1" }

// ids returns the CPUs of both flags, or nil for all.
func (f *cpuFlags) ids() []int { return append(f.mask[:len(f.mask):len(f.mask)], f.span...) }

type cpuValue struct {
	p     *[]int
	given string
	parse func(string) ([]int, error)
}

func (v *cpuValue) Set(s string) error {
	ids, err := v.parse(s)
	*v.p, v.given = ids, s
	return err
}

func (v *cpuValue) String() string { return v.given }
func (v *cpuValue) Type() string   { return "CPUS" }

// parseMask reads the CPUs of a mask such as 0xf.
func parseMask(s string) ([]int, error) {
	digits := strings.TrimPrefix(strings.ToLower(s), "0x")
	var ids []int
	for i := range len(digits) {
		d, err := strconv.ParseUint(digits[len(digits)-1-i:len(digits)-i], 16, 8)
		if err != nil || 4*i+4 > maxCPU {
			ids = nil
			break
		}
		for ; d != 0; d &= d - 1 {
			ids = append(ids, 4*i+bits.TrailingZeros64(d))
		}
	}
	if ids == nil {
		return nil, errors.New("want a hexadecimal mask such as 0xf, which is the CPUs 0 to 3")
	}
	return ids, nil
}

// parseSpan parses a range of CPUs, open at either end.
func parseSpan(s string) ([]int, error) {
	bad := errors.New("want a range of CPUs such as 0-3")
	from, to, ok := strings.Cut(s, "-")
	first, last := 0, maxCPU-1
	var err error
	if from != "" {
		if first, err = strconv.Atoi(from); err != nil {
			return nil, bad
		}
	}
	if to != "" {
		if last, err = strconv.Atoi(to); err != nil {
			return nil, bad
		}
	}
	if !ok || s == "-" || first < 0 || last < first || last >= maxCPU {
		return nil, bad
	}
	var ids []int
	for id := first; id <= last; id++ {
		ids = append(ids, id)
	}
	return ids, nil
}
