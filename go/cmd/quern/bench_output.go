package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"unicode/utf8"
)

// A benchResult is one row. The names, order and types of the fields are those
// of llama-bench, the ones that speak of devices we do not use included: what
// reads its output finds what it looks for. After them come our own.
type benchResult struct {
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

	// CSV ends here, as llama-bench's does, but for the roofline.
	SamplesNS []uint64  `json:"samples_ns"`
	SamplesTS []float64 `json:"samples_ts"`

	// nil with --no-roofline.
	ReadGBps     *float64 `json:"read_gbps,omitempty"`  // measured, 1e9 bytes per second
	Int8GMACs    *float64 `json:"int8_gmacs,omitempty"` // measured, 1e9 multiply-adds per second
	RoofTS       *float64 `json:"roof_ts,omitempty"`    // the most tokens per second that they allow
	RoofFraction *float64 `json:"roof_fraction,omitempty"`
}

// sample adds one repetition.
func (r *benchResult) sample(ns uint64) {
	ns = max(ns, 1)
	r.SamplesNS = append(r.SamplesNS, ns)
	r.SamplesTS = append(r.SamplesTS, 1e9*float64(r.Prompt+r.Gen)/float64(ns))
}

// finish works out the averages, and the fraction of the roofline where there
// is one.
func (r *benchResult) finish(roof *roofline, c cost) {
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
	most := roof.speed(c, r.Prompt, r.Gen, r.Depth, min(r.Batch, r.UBatch))
	fraction := r.AvgTS / most
	r.ReadGBps, r.Int8GMACs, r.RoofTS, r.RoofFraction = &gbps, &gmacs, &most, &fraction
}

// meanDev returns the mean and the standard deviation of a sample, 0 for one
// value.
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

// A benchPrinter writes results as they come.
type benchPrinter interface {
	begin() error
	row(r *benchResult) error
	end() error
}

func newBenchPrinter(format string, w io.Writer, f *benchFlags) benchPrinter {
	switch format {
	case "json":
		return &jsonPrinter{w: w}
	case "jsonl":
		return &jsonlPrinter{enc: json.NewEncoder(w)}
	case "csv":
		return &csvPrinter{w: csv.NewWriter(w), roofline: !f.noRoofline}
	}
	return &mdPrinter{w: w, columns: f.columns()}
}

type jsonPrinter struct {
	w    io.Writer
	rows int
}

func (p *jsonPrinter) begin() error { return nil }

func (p *jsonPrinter) row(r *benchResult) error {
	b, err := json.MarshalIndent(r, "  ", "  ")
	if err != nil {
		return err
	}
	open := "[\n  "
	if p.rows > 0 {
		open = ",\n  "
	}
	p.rows++
	_, err = fmt.Fprintf(p.w, "%s%s", open, b)
	return err
}

func (p *jsonPrinter) end() error {
	if p.rows == 0 {
		_, err := fmt.Fprintln(p.w, "[]")
		return err
	}
	_, err := fmt.Fprint(p.w, "\n]\n")
	return err
}

type jsonlPrinter struct{ enc *json.Encoder }

func (p *jsonlPrinter) begin() error             { return nil }
func (p *jsonlPrinter) row(r *benchResult) error { return p.enc.Encode(r) }
func (p *jsonlPrinter) end() error               { return nil }

type csvPrinter struct {
	w        *csv.Writer
	roofline bool
}

func (p *csvPrinter) begin() error {
	names, _ := p.fields(&benchResult{})
	return p.write(names)
}

func (p *csvPrinter) row(r *benchResult) error {
	_, values := p.fields(r)
	return p.write(values)
}

func (p *csvPrinter) end() error { return nil }

func (p *csvPrinter) write(record []string) error {
	if err := p.w.Write(record); err != nil {
		return err
	}
	p.w.Flush()
	return p.w.Error()
}

// fields returns the names and the values of all fields but the samples.
func (p *csvPrinter) fields(r *benchResult) (names, values []string) {
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.Kind() == reflect.Slice || f.Kind() == reflect.Pointer && !p.roofline {
			continue
		}
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		names = append(names, name)
		values = append(values, csvValue(f))
	}
	return names, values
}

func csvValue(v reflect.Value) string {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return ""
		}
		return csvValue(v.Elem())
	case reflect.Bool:
		if v.Bool() {
			return "1"
		}
		return "0"
	case reflect.Float64:
		return fmt.Sprintf("%.6f", v.Float())
	}
	return fmt.Sprint(v.Interface())
}

// A benchColumn is a column of the Markdown table. Numbers are right-aligned.
type benchColumn struct {
	name  string
	width int
	left  bool
	value func(r *benchResult) string
}

// columns are llama-bench's: always the same few, and those of flags that were
// given. The last two are ours.
func (f *benchFlags) columns() []benchColumn {
	number := func(n int) string { return fmt.Sprint(n) }
	cols := []benchColumn{
		{"model", 30, true, func(r *benchResult) string { return r.ModelType }},
		{"size", 10, false, func(r *benchResult) string { return sizeName(r.ModelSize) }},
		{"params", 10, false, func(r *benchResult) string { return fullParamsName(r.ModelParams) }},
		{"backend", 10, true, func(r *benchResult) string { return r.Backends }},
		{"threads", 7, false, func(r *benchResult) string { return number(r.Threads) }},
	}
	for _, c := range []struct {
		flag string
		col  benchColumn
	}{
		{"batch-size", benchColumn{"n_batch", 7, false, func(r *benchResult) string { return number(r.Batch) }}},
		{"ubatch-size", benchColumn{"n_ubatch", 8, false, func(r *benchResult) string { return number(r.UBatch) }}},
		{"cache-type-k", benchColumn{"type_k", 6, false, func(r *benchResult) string { return r.TypeK }}},
		{"cache-type-v", benchColumn{"type_v", 6, false, func(r *benchResult) string { return r.TypeV }}},
		{"flash-attn", benchColumn{"fa", 3, false, func(r *benchResult) string { return number(r.FlashAttn) }}},
	} {
		if f.changed(c.flag) {
			cols = append(cols, c.col)
		}
	}
	cols = append(cols,
		benchColumn{"test", 15, false, func(r *benchResult) string { return benchCase{r.Prompt, r.Gen, r.Depth}.String() }},
		benchColumn{"t/s", 20, false, func(r *benchResult) string { return fmt.Sprintf("%.2f ± %.2f", r.AvgTS, r.StdDevTS) }},
	)
	if f.noRoofline {
		return cols
	}
	return append(cols,
		benchColumn{"roof t/s", 10, false, func(r *benchResult) string { return fmt.Sprintf("%.2f", *r.RoofTS) }},
		benchColumn{"of roof", 7, false, func(r *benchResult) string { return fmt.Sprintf("%.1f %%", 100**r.RoofFraction) }},
	)
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

type mdPrinter struct {
	w       io.Writer
	columns []benchColumn
	last    *benchResult
}

func (p *mdPrinter) begin() error {
	var names, rules []string
	for _, c := range p.columns {
		names = append(names, pad(c.name, c.width, c.left))
		rule := strings.Repeat("-", c.width-1)
		if c.left {
			rules = append(rules, rule+"-")
		} else {
			rules = append(rules, rule+":")
		}
	}
	return p.line(names, rules)
}

func (p *mdPrinter) row(r *benchResult) error {
	var cells []string
	for _, c := range p.columns {
		cells = append(cells, pad(strings.ReplaceAll(c.value(r), "|", "/"), c.width, c.left))
	}
	p.last = r
	return p.line(cells)
}

func (p *mdPrinter) line(rows ...[]string) error {
	for _, cells := range rows {
		if _, err := fmt.Fprintf(p.w, "| %s |\n", strings.Join(cells, " | ")); err != nil {
			return err
		}
	}
	return nil
}

func (p *mdPrinter) end() error {
	if p.last == nil {
		return nil
	}
	if p.last.ReadGBps != nil {
		_, err := fmt.Fprintf(p.w, "\nroof: %.1f GB/s read, %.0f G int8 multiply-adds/s measured\nbuild: %s (%d)\n",
			*p.last.ReadGBps, *p.last.Int8GMACs, p.last.BuildCommit, p.last.BuildNumber)
		return err
	}
	_, err := fmt.Fprintf(p.w, "\nbuild: %s (%d)\n", p.last.BuildCommit, p.last.BuildNumber)
	return err
}

// pad fills s with spaces to width characters.
func pad(s string, width int, left bool) string {
	space := strings.Repeat(" ", max(width-utf8.RuneCountInString(s), 0))
	if left {
		return s + space
	}
	return space + s
}
