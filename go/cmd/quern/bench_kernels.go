package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/measure"
)

const (
	// kernelTokens and kernelDepth are what --kernels measures when -p and -d do
	// not say.
	kernelTokens = "1,2,4,8,16,32,64,128,256,512"
	kernelDepth  = 4096
	// kernelMemory is half for weights as a file has them and half for the same
	// packed: either is more than caches hold.
	kernelMemory = 1 << 30
	// leastKernelMemory holds a matrix of the largest type twice.
	leastKernelMemory = 256 << 20
)

// A kernelResult is a row of --kernels.
type kernelResult struct {
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
	GBps        float64  `json:"gbps"`  // of what the kernel is about: weights, keys and values, floats
	GMACs       float64  `json:"gmacs"` // 1e9 multiply-adds per second; 0 where there are none

	// nil with --no-roofline, and the last where no roof is known.
	ReadGBps     *float64 `json:"read_gbps,omitempty"` // measured
	Int8GMACs    *float64 `json:"int8_gmacs,omitempty"`
	CopyGBps     *float64 `json:"copy_gbps,omitempty"` // measured in turns with packing; of packing only
	RoofFraction *float64 `json:"roof_fraction,omitempty"`
}

func acceptWeightType(s string) error {
	_, err := parseWeightType(s)
	return err
}

func parseWeightType(s string) (kernel.Type, error) {
	var names []string
	for _, t := range kernel.Types() {
		if strings.EqualFold(s, t.String()) {
			return t, nil
		}
		names = append(names, t.String())
	}
	return 0, fmt.Errorf("want some of %s", strings.Join(names, " "))
}

// kernelBench is what the flags say, but for what threads and memory it runs on.
func (f *benchFlags) kernelBench() (measure.Bench, error) {
	b := measure.Bench{Types: kernel.Types(), Tokens: f.prompt, Depth: kernelDepth, Repeats: f.reps}
	if len(f.models) > 0 || f.curve || f.changed("n-gen") || f.changed("prompt-gen") {
		return b, usagef("--kernels measures without a model; leave -m, -n, -pg and --curve out")
	}
	if !f.changed("n-prompt") {
		b.Tokens, _ = parseList(kernelTokens, 1, maxTokens) // is a list: a test reads it
	}
	for _, n := range b.Tokens {
		if n < 1 || n > 1<<16 {
			return b, usagef("-p %d with --kernels: want tokens from 1 to %d", n, 1<<16)
		}
	}
	if f.changed("n-depth") {
		if len(f.depth) > 1 {
			return b, usagef("--kernels takes one --n-depth")
		}
		b.Depth = f.depth[0]
	}
	if f.changed("types") {
		b.Types = nil
		for _, name := range f.types {
			t, err := parseWeightType(name)
			if err != nil {
				return b, usagef("--types: %w", err)
			}
			b.Types = append(b.Types, t)
		}
	}
	kvs, err := f.kvTypes()
	if err != nil {
		return b, err
	}
	for _, kv := range kvs {
		cfg := engine.Config{KV: kv}
		b.KV = append(b.KV, measure.KV{Name: kv.String(), Type: cfg.KVTypes()})
	}
	return b, nil
}

// measureKernels is "quern bench --kernels".
func (f *benchFlags) measureKernels(ctx context.Context, stdout io.Writer) error {
	todo, err := f.kernelBench()
	if err != nil {
		return err
	}
	m, err := machine.Read()
	if err != nil {
		return err
	}
	if len(f.threads) == 0 {
		f.threads = []int{m.Threads()}
	}
	isa, err := chooseKernels()
	if err != nil {
		return err
	}
	blank := kernelResult{BuildCommit: readBuild().Commit, CPUInfo: m.Model, Kernels: isa.String()}
	out := newBenchPrinter(f.output, stdout, !f.noRoofline, f.kernelTable())
	if err := out.begin(); err != nil {
		return err
	}
	for _, threads := range f.threads {
		blank.Threads = threads
		if err := f.runKernels(ctx, m, todo, blank, out); err != nil {
			return err
		}
	}
	return out.end()
}

// runKernels measures on blank.Threads threads, pinned as those of a model are.
func (f *benchFlags) runKernels(ctx context.Context, m *machine.Machine, todo measure.Bench, blank kernelResult, out benchPrinter[kernelResult]) error {
	cpus := m.WorkerCPUs(blank.Threads)
	pool, err := kernel.NewPool(blank.Threads, cpus)
	if err != nil {
		return err
	}
	defer pool.Close()
	if cpus != nil {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer machine.Pin(cpus[0])()
	}
	var roof *roofline
	if !f.noRoofline {
		r, err := measureRoofline(pool)
		if err != nil {
			return err
		}
		roof = &r
	}
	todo.Pool, todo.Budget = pool, newBudget(m, f.memory)
	size := max(min(kernelMemory, todo.Budget.Free()/2), leastKernelMemory)
	region, err := todo.Budget.Alloc("weights to measure kernels", size)
	if err != nil {
		return err
	}
	defer region.Close()
	if err := region.Prefault(pool.Threads()); err != nil {
		return fmt.Errorf("weights to measure kernels: %w", err)
	}
	todo.Memory = region.Bytes()
	return todo.Run(func(r *measure.Result) error {
		row := blank
		row.fill(r)
		if roof != nil {
			row.compare(r, *roof)
		}
		if err := out.row(&row); err != nil {
			return err
		}
		return ctx.Err()
	})
}

// fill writes what was measured.
func (row *kernelResult) fill(r *measure.Result) {
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

// compare adds the roof: the least time for the bytes and the multiply-adds.
func (row *kernelResult) compare(r *measure.Result, roof roofline) {
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
		return // from the caches, and no arithmetic that a peak was measured of
	}
	fraction := 1e9 * least / row.MedianNS
	row.RoofFraction = &fraction
}

func (f *benchFlags) kernelTable() benchTable[kernelResult] {
	unless0 := func(n int) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(n)
	}
	columns := []benchColumn[kernelResult]{
		{"kernel", 9, true, func(r *kernelResult) string { return r.Kernel }},
		{"type", 8, true, func(r *kernelResult) string { return r.Type }},
		{"from", 6, true, func(r *kernelResult) string { return r.From }},
		{"threads", 7, false, func(r *kernelResult) string { return fmt.Sprint(r.Threads) }},
		{"n", 4, false, func(r *kernelResult) string { return unless0(r.Tokens) }},
		{"depth", 6, false, func(r *kernelResult) string { return unless0(r.Depth) }},
		{"µs", 10, false, func(r *kernelResult) string { return fmt.Sprintf("%.1f", r.MedianNS/1e3) }},
		{"GB/s", 8, false, func(r *kernelResult) string { return fmt.Sprintf("%.2f", r.GBps) }},
		{"GMAC/s", 8, false, func(r *kernelResult) string {
			if r.GMACs == 0 {
				return ""
			}
			return fmt.Sprintf("%.1f", r.GMACs)
		}},
	}
	if !f.noRoofline {
		columns = append(columns, benchColumn[kernelResult]{"of roof", 7, false, func(r *kernelResult) string {
			if r.RoofFraction == nil {
				return ""
			}
			return fmt.Sprintf("%.1f %%", 100**r.RoofFraction)
		}})
	}
	return benchTable[kernelResult]{columns, func(r *kernelResult) string {
		build := fmt.Sprintf("instruction sets in use: %s\nbuild: %s", r.Kernels, r.BuildCommit)
		if r.ReadGBps == nil {
			return build
		}
		return fmt.Sprintf("roof: %.1f GB/s read, %.0f G int8 multiply-adds/s measured; of packing a copy, in turns with it\n%s",
			*r.ReadGBps, *r.Int8GMACs, build)
	}}
}
