package bench

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/measure"
)

const (
	// kernelMemory is half for weights in the file's layout and half for the packed
	// ones: each half exceeds the caches.
	kernelMemory = 1 << 30
	// leastKernelMemory fits two copies of a matrix of the largest type.
	leastKernelMemory = 256 << 20
)

// Kernels configures benchmarks of single kernels.
type Kernels struct {
	measure.Bench // without Pool and Memory, which is allocated from the Budget

	Threads []int // numbers of threads to measure
	Machine *machine.Machine
	ISA     kernel.ISA // in use
}

// A KernelResult is a row of Kernels.
type KernelResult struct {
	BuildCommit string   `json:"build_commit"`
	CPUInfo     string   `json:"cpu_info"`
	Kernels     string   `json:"kernels"` // instruction sets in use
	Threads     int      `json:"n_threads"`
	Kernel      string   `json:"kernel"`
	Type        string   `json:"type"`
	From        string   `json:"from"` // memory or cache
	Tokens      int      `json:"n_tokens"`
	Depth       int      `json:"n_depth"`
	TestTime    string   `json:"test_time"`
	MedianNS    float64  `json:"median_ns"`
	SamplesNS   []uint64 `json:"samples_ns"`
	GBps        float64  `json:"gbps"`  // of the kernel's main input: weights, keys and values, floats
	GMACs       float64  `json:"gmacs"` // 1e9 multiply-adds per second; 0 if there are none

	// nil without the roofline; RoofFraction also if no roof is known.
	ReadGBps     *float64 `json:"read_gbps,omitempty"` // measured
	Int8GMACs    *float64 `json:"int8_gmacs,omitempty"`
	CopyGBps     *float64 `json:"copy_gbps,omitempty"` // measured alternately with packing; for packing only
	RoofFraction *float64 `json:"roof_fraction,omitempty"`
}

// Run measures every kernel on each number of threads.
func (k *Kernels) Run(ctx context.Context, out Output) error {
	rows := newPrinter(out, kernelTable(out.Roofline))
	if err := rows.begin(); err != nil {
		return err
	}
	for _, threads := range k.Threads {
		blank := KernelResult{BuildCommit: out.Commit, CPUInfo: k.Machine.Model, Kernels: k.ISA.String(), Threads: threads}
		if err := k.run(ctx, blank, rows, out.Roofline); err != nil {
			return err
		}
	}
	return rows.end()
}

// run measures on blank.Threads threads, placed like those of a model.
func (k *Kernels) run(ctx context.Context, blank KernelResult, rows printer[KernelResult], roofline bool) error {
	pool, roof, leave, err := enter(k.Machine, blank.Threads, roofline)
	if err != nil {
		return err
	}
	defer leave()
	size := max(min(kernelMemory, k.Budget.Free()/2), leastKernelMemory)
	region, err := k.Budget.Alloc("weights to measure kernels", size)
	if err != nil {
		return err
	}
	defer region.Close()
	if err := region.Prefault(pool.Threads()); err != nil {
		return fmt.Errorf("weights to measure kernels: %w", err)
	}
	todo := k.Bench
	todo.Pool, todo.Memory = pool, region.Bytes()
	return todo.Run(func(r *measure.Result) error {
		row := blank
		row.fill(r)
		if roof != nil {
			row.compare(r, *roof)
		}
		if err := rows.row(&row); err != nil {
			return err
		}
		return ctx.Err()
	})
}

// enter returns a pool of so many threads, placed like those of a model, with the calling thread, and if it is asked for their
// roofline, which is measured now. leave undoes it.
func enter(m *machine.Machine, threads int, roofline bool) (pool *kernel.Pool, roof *measure.Roofline, leave func(), err error) {
	place := m.Place(threads)
	at, err := engine.Threads(place, threads)
	if err != nil {
		return nil, nil, nil, err
	}
	if pool, err = kernel.NewPool(threads, at); err != nil {
		return nil, nil, nil, err
	}
	runtime.LockOSThread()
	caller := machine.ThisThread()
	caller.KeepOn(place.Home())
	leave = func() {
		caller.KeepOn(nil)
		runtime.UnlockOSThread()
		pool.Close()
	}
	if roofline {
		r, err := measure.NewRoofline(pool, place.Places)
		if err != nil {
			leave()
			return nil, nil, nil, err
		}
		roof = &r
	}
	return pool, roof, leave, nil
}

// fill sets the measured values.
func (row *KernelResult) fill(r *measure.Result) {
	row.Kernel, row.Type, row.From = string(r.Kernel), strings.ToLower(r.Type), "memory"
	if r.FromCache {
		row.From = "cache"
	}
	row.Tokens, row.Depth = r.Tokens, r.Depth
	row.TestTime = time.Now().UTC().Format(time.RFC3339)
	for _, s := range r.Samples {
		row.SamplesNS = append(row.SamplesNS, uint64(s.Nanoseconds()))
	}
	seconds := measure.Median(r.Samples).Seconds()
	row.MedianNS = 1e9 * seconds
	row.GBps, row.GMACs = r.Bytes/seconds/1e9, r.MACs/seconds/1e9
}

// compare sets the fraction of the roofline.
func (row *KernelResult) compare(r *measure.Result, roof measure.Roofline) {
	gbps, gmacs := roof.ReadBytesPerSec/1e9, roof.Int8MACPerSec/1e9
	row.ReadGBps, row.Int8GMACs = &gbps, &gmacs
	least := r.MACs / roof.Int8MACPerSec
	switch {
	case r.Kernel == measure.Pack:
		least = measure.Median(r.Copies).Seconds()
		copied := r.Bytes / least / 1e9
		row.CopyGBps = &copied
	case !r.FromCache:
		least = max(least, r.Bytes/roof.ReadBytesPerSec)
	case r.MACs == 0:
		return // from the caches, and without a measured arithmetic peak
	}
	fraction := 1e9 * least / row.MedianNS
	row.RoofFraction = &fraction
}

func kernelTable(roofline bool) table[KernelResult] {
	unless0 := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	columns := []column[KernelResult]{
		{"kernel", 9, true, func(r *KernelResult) string { return r.Kernel }},
		{"type", 8, true, func(r *KernelResult) string { return r.Type }},
		{"from", 6, true, func(r *KernelResult) string { return r.From }},
		{"threads", 7, false, func(r *KernelResult) string { return fmt.Sprint(r.Threads) }},
		{"n", 4, false, func(r *KernelResult) string { return unless0(r.Tokens) }},
		{"depth", 6, false, func(r *KernelResult) string { return unless0(r.Depth) }},
		{"µs", 10, false, func(r *KernelResult) string { return fmt.Sprintf("%.1f", r.MedianNS/1e3) }},
		{"GB/s", 8, false, func(r *KernelResult) string { return fmt.Sprintf("%.2f", r.GBps) }},
		{"GMAC/s", 8, false, func(r *KernelResult) string {
			if r.GMACs == 0 {
				return ""
			}
			return fmt.Sprintf("%.1f", r.GMACs)
		}},
	}
	if roofline {
		columns = append(columns, column[KernelResult]{"of roof", 7, false, func(r *KernelResult) string {
			if r.RoofFraction == nil {
				return ""
			}
			return fmt.Sprintf("%.1f %%", 100**r.RoofFraction)
		}})
	}
	return table[KernelResult]{columns, func(r *KernelResult) string {
		build := fmt.Sprintf("instruction sets in use: %s\nbuild: %s", r.Kernels, r.BuildCommit)
		if r.ReadGBps == nil {
			return build
		}
		return fmt.Sprintf("roof: %.1f GB/s read, %.0f G int8 multiply-adds/s measured; of packing a copy, in turns with it\n%s",
			*r.ReadGBps, *r.Int8GMACs, build)
	}}
}
