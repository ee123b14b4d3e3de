package bench

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
)

// Images configures benchmarks of encoders of pictures.
type Images struct {
	Projectors []string // files
	Name       string   // of the picture
	Picture    *picture.RGB
	Threads    []int // numbers of threads to measure
	Type       model.EncoderType
	KV         []kvcache.Types
	Repeats    int
	Warmup     bool
	Machine    *machine.Machine
	Budget     *mem.Budget
}

// An ImageResult is a row of Images: how long an encoder takes for a picture.
type ImageResult struct {
	BuildCommit string   `json:"build_commit"`
	CPUInfo     string   `json:"cpu_info"`
	Projector   string   `json:"projector_filename"`
	Kind        string   `json:"projector"`
	Threads     int      `json:"n_threads"`
	Type        string   `json:"type"` // of the layers' weights
	TypeK       string   `json:"type_k"`
	TypeV       string   `json:"type_v"`
	Picture     string   `json:"picture"`
	Patches     int      `json:"n_patches"`
	Rows        int      `json:"n_rows"` // of embeddings
	Memory      uint64   `json:"memory_bytes"`
	AvgNS       uint64   `json:"avg_ns"`
	StdDevNS    uint64   `json:"stddev_ns"`
	SlowestNS   uint64   `json:"slowest_step_ns"`
	GMACs       float64  `json:"gmacs"` // 1e9 multiply-adds per second
	SamplesNS   []uint64 `json:"samples_ns"`

	// nil without the roofline.
	Int8GMACs    *float64 `json:"int8_gmacs,omitempty"`
	RoofFraction *float64 `json:"roof_fraction,omitempty"`
}

func imageTable(roofline bool) table[ImageResult] {
	t := table[ImageResult]{[]column[ImageResult]{
		{"projector", 24, true, func(r *ImageResult) string { return filepath.Base(r.Projector) }},
		{"kind", 16, true, func(r *ImageResult) string { return r.Kind }},
		{"threads", 7, false, func(r *ImageResult) string { return fmt.Sprint(r.Threads) }},
		{"type", 6, false, func(r *ImageResult) string { return r.Type }},
		{"type_k", 6, false, func(r *ImageResult) string { return r.TypeK }},
		{"type_v", 6, false, func(r *ImageResult) string { return r.TypeV }},
		{"patches", 7, false, func(r *ImageResult) string { return fmt.Sprint(r.Patches) }},
		{"rows", 5, false, func(r *ImageResult) string { return fmt.Sprint(r.Rows) }},
		{"memory", 8, false, func(r *ImageResult) string { return mem.FormatBytes(r.Memory) }},
		{"time", 9, false, func(r *ImageResult) string { return fmt.Sprintf("%.3f s", float64(r.AvgNS)/1e9) }},
		{"slowest step", 12, false, func(r *ImageResult) string { return fmt.Sprintf("%.1f ms", float64(r.SlowestNS)/1e6) }},
		{"GMAC/s", 8, false, func(r *ImageResult) string { return fmt.Sprintf("%.0f", r.GMACs) }},
	}, func(r *ImageResult) string { return "picture: " + r.Picture }}
	if roofline {
		t.columns = append(t.columns, column[ImageResult]{"of int8 peak", 12, false, func(r *ImageResult) string {
			return fmt.Sprintf("%.0f %%", 100**r.RoofFraction)
		}})
	}
	return t
}

// Run measures every encoder on each number of threads.
func (m *Images) Run(ctx context.Context, out Output) error {
	rows := newPrinter(out, imageTable(out.Roofline))
	if err := rows.begin(); err != nil {
		return err
	}
	for _, threads := range m.Threads {
		if err := m.run(ctx, threads, rows, out); err != nil {
			return err
		}
	}
	return rows.end()
}

func (m *Images) run(ctx context.Context, threads int, rows printer[ImageResult], out Output) error {
	pool, roof, leave, err := enter(m.Machine, threads, out.Roofline)
	if err != nil {
		return err
	}
	defer leave()
	for _, path := range m.Projectors {
		for _, kv := range m.KV {
			r := &ImageResult{
				BuildCommit: out.Commit, CPUInfo: m.Machine.Model, Projector: path, Threads: threads, Picture: m.Name,
				TypeK: kv.K.String(), TypeV: kv.V.String(),
			}
			if err := m.measure(ctx, path, kv, pool, r); err != nil {
				return err
			}
			if roof != nil {
				peak := roof.Int8MACPerSec / 1e9
				of := r.GMACs / peak
				r.Int8GMACs, r.RoofFraction = &peak, &of
			}
			if err := rows.row(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure encodes the picture as often as is asked for.
func (m *Images) measure(ctx context.Context, path string, kv kvcache.Types, pool *kernel.Pool, r *ImageResult) error {
	f, err := model.OpenFile(path)
	if err != nil {
		return err
	}
	defer f.Close()
	e, err := model.LoadEncoder(f, projector.Sight, m.Type, (&engine.Config{KV: kv}).KVTypes(), model.Options{Pack: pool.PackInto, Budget: m.Budget, Until: ctx})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer e.Close()
	r.Kind, r.Type = e.Kind.Name, e.LayerType().String()
	parts, work := e.See(m.Picture), 0.0
	for _, p := range parts {
		if in := p.Input; in != nil {
			r.Patches, r.Rows = r.Patches+in.Tokens, r.Rows+in.Rows()
			r.Memory = max(r.Memory, e.BytesOf(in, pool.Threads()))
			work += e.Work(in.Tokens)
		}
	}
	var times []float64
	for i := range m.Repeats + 1 {
		if i == 0 && !m.Warmup {
			continue
		}
		start := time.Now()
		for _, p := range parts {
			if p.Input == nil {
				continue
			}
			if err := m.encode(ctx, e, p.Input, pool, r); err != nil {
				return err
			}
		}
		if took := max(time.Since(start), 1); i > 0 {
			r.SamplesNS = append(r.SamplesNS, uint64(took))
			times = append(times, float64(took))
		}
	}
	avg, dev := meanDev(times)
	r.AvgNS, r.StdDevNS, r.GMACs = uint64(avg), uint64(dev), work/avg
	return nil
}

func (m *Images) encode(ctx context.Context, e *model.Encoder, in *projector.Input, pool *kernel.Pool, r *ImageResult) error {
	x, err := e.Begin(in, pool, m.Budget)
	if err != nil {
		return err
	}
	defer x.Close()
	for done := false; !done; {
		step := time.Now()
		done = x.Step()
		r.SlowestNS = max(r.SlowestNS, uint64(time.Since(step)))
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}
