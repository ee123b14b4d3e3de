package bench

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/measure"
)

// A Result is one row. The names, order and types of the fields are those of
// llama-bench, including those for devices not used here, so that programs that parse
// its output work. Quern's own fields follow.
type Result struct {
	BuildCommit   string  `json:"build_commit"`
	BuildNumber   int     `json:"build_number"`
	CPUInfo       string  `json:"cpu_info"`
	GPUInfo       string  `json:"gpu_info"`
	Backends      string  `json:"backends"`
	ModelFilename string  `json:"model_filename"`
	ModelType     string  `json:"model_type"`
	ModelSize     uint64  `json:"model_size"`
	ModelParams   uint64  `json:"model_n_params"`
	Batch         int     `json:"n_batch"`
	UBatch        int     `json:"n_ubatch"`
	Threads       int     `json:"n_threads"`
	CPUMask       string  `json:"cpu_mask"`
	CPUStrict     bool    `json:"cpu_strict"`
	Poll          int     `json:"poll"`
	TypeK         string  `json:"type_k"`
	TypeV         string  `json:"type_v"`
	GPULayers     int     `json:"n_gpu_layers"`
	CPUMoE        int     `json:"n_cpu_moe"`
	SplitMode     string  `json:"split_mode"`
	MainGPU       int     `json:"main_gpu"`
	NoKVOffload   bool    `json:"no_kv_offload"`
	FlashAttn     int     `json:"flash_attn"`
	Devices       string  `json:"devices"`
	TensorSplit   string  `json:"tensor_split"`
	Overrides     string  `json:"tensor_buft_overrides"`
	LoadMode      string  `json:"load_mode"`
	Embeddings    bool    `json:"embeddings"`
	NoOpOffload   int     `json:"no_op_offload"`
	NoHost        bool    `json:"no_host"`
	FitTarget     int     `json:"fit_target"`
	FitMinCtx     int     `json:"fit_min_ctx"`
	Prompt        int     `json:"n_prompt"`
	Gen           int     `json:"n_gen"`
	Depth         int     `json:"n_depth"`
	TestTime      string  `json:"test_time"`
	AvgNS         uint64  `json:"avg_ns"`
	StdDevNS      uint64  `json:"stddev_ns"`
	AvgTS         float64 `json:"avg_ts"`
	StdDevTS      float64 `json:"stddev_ts"`

	// CSV ends here, like llama-bench's, except for the roofline.
	SamplesNS []uint64  `json:"samples_ns"`
	SamplesTS []float64 `json:"samples_ts"`

	// nil without the roofline.
	ReadGBps     *float64 `json:"read_gbps,omitempty"`  // measured, 1e9 bytes per second
	Int8GMACs    *float64 `json:"int8_gmacs,omitempty"` // measured, 1e9 multiply-adds per second
	RoofTS       *float64 `json:"roof_ts,omitempty"`    // the roofline's bound in tokens per second
	RoofFraction *float64 `json:"roof_fraction,omitempty"`

	// nil unless it was asked for and can be read.
	Joules *float64 `json:"joules_per_token,omitempty" bench:"energy"` // of the whole machine, in the repetitions
}

// sample adds one repetition.
func (r *Result) sample(ns uint64) {
	ns = max(ns, 1)
	r.SamplesNS = append(r.SamplesNS, ns)
	r.SamplesTS = append(r.SamplesTS, 1e9*float64(r.Prompt+r.Gen)/float64(ns))
}

// finish computes the averages, and the fraction of the roofline if there is one.
func (r *Result) finish(roof *measure.Roofline, c cost) {
	var ns []float64
	for _, v := range r.SamplesNS {
		ns = append(ns, float64(v))
	}
	avg, dev := meanDev(ns)
	r.AvgNS, r.StdDevNS = uint64(avg), uint64(dev)
	r.AvgTS, r.StdDevTS = meanDev(r.SamplesTS)
	if roof == nil {
		return
	}
	gbps, gmacs := roof.ReadBytesPerSec/1e9, roof.Int8MACPerSec/1e9
	most := c.speed(*roof, r.Prompt, r.Gen, r.Depth, min(r.Batch, r.UBatch))
	fraction := r.AvgTS / most
	r.ReadGBps, r.Int8GMACs, r.RoofTS, r.RoofFraction = &gbps, &gmacs, &most, &fraction
}

// meanDev returns the mean and the standard deviation of a sample; the latter is 0 for
// a single value.
func meanDev(v []float64) (mean, dev float64) {
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	if n < 2 {
		return mean, 0
	}
	for _, x := range v {
		dev += (x - mean) * (x - mean) / (n - 1)
	}
	return mean, math.Sqrt(dev)
}

// footer describes what all rows of a table have in common.
func (r *Result) footer() string {
	build := fmt.Sprintf("build: %s (%d)", r.BuildCommit, r.BuildNumber)
	if r.ReadGBps == nil {
		return build
	}
	return fmt.Sprintf("roof: %.1f GB/s read, %.0f G int8 multiply-adds/s measured\n%s", *r.ReadGBps, *r.Int8GMACs, build)
}

// A resultColumn is a column of the table of results.
type resultColumn = column[Result]

// columns are llama-bench's: the fixed ones, and those on request. Those of the energy and of the
// roofline are Quern's.
func (p *Plan) columns(out Output) []resultColumn {
	number := func(n int) string { return fmt.Sprint(n) }
	cols := []resultColumn{
		{"model", 30, true, func(r *Result) string { return r.ModelType }},
		{"size", 10, false, func(r *Result) string { return sizeName(r.ModelSize) }},
		{"params", 10, false, func(r *Result) string { return fullParamsName(r.ModelParams) }},
		{"backend", 10, true, func(r *Result) string { return r.Backends }},
		{"threads", 7, false, func(r *Result) string { return number(r.Threads) }},
	}
	for _, c := range []struct {
		shown bool
		col   resultColumn
	}{
		{p.Columns.Batch, resultColumn{"n_batch", 7, false, func(r *Result) string { return number(r.Batch) }}},
		{p.Columns.UBatch, resultColumn{"n_ubatch", 8, false, func(r *Result) string { return number(r.UBatch) }}},
		{true, resultColumn{"type_k", 6, false, func(r *Result) string { return r.TypeK }}},
		{true, resultColumn{"type_v", 6, false, func(r *Result) string { return r.TypeV }}},
		{p.Columns.FlashAttn, resultColumn{"fa", 3, false, func(r *Result) string { return number(r.FlashAttn) }}},
	} {
		if c.shown {
			cols = append(cols, c.col)
		}
	}
	cols = append(cols,
		resultColumn{"test", 15, false, func(r *Result) string { return Case{r.Prompt, r.Gen, r.Depth}.String() }},
		resultColumn{"t/s", 20, false, func(r *Result) string { return fmt.Sprintf("%.2f ± %.2f", r.AvgTS, r.StdDevTS) }},
	)
	if out.Energy {
		cols = append(cols, resultColumn{"J/token", 12, false, func(r *Result) string { return joules(r.Joules) }})
	}
	if !out.Roofline {
		return cols
	}
	return append(cols,
		resultColumn{"roof t/s", 10, false, func(r *Result) string { return fmt.Sprintf("%.2f", *r.RoofTS) }},
		resultColumn{"of roof", 7, false, func(r *Result) string { return ofRoof(r.RoofFraction) }},
	)
}

func joules(j *float64) string {
	if j == nil {
		return "not readable"
	}
	return fmt.Sprintf("%.3g", *j)
}

// ofRoof returns a share of the roofline in words. The roofline is that of memory: more than all of it is reached by what
// the caches hold.
func ofRoof(share *float64) string {
	if *share > 1 {
		return fmt.Sprintf("%.1f %% (in cache)", 100**share)
	}
	return fmt.Sprintf("%.1f %%", 100**share)
}

func sizeName(n uint64) string {
	if n < 1<<30 {
		return fmt.Sprintf("%.2f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
}

func fullParamsName(n uint64) string {
	if n < 1e9 {
		return fmt.Sprintf("%.2f M", float64(n)/1e6)
	}
	return fmt.Sprintf("%.2f B", float64(n)/1e9)
}
