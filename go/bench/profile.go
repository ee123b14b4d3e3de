package bench

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/measure"
	"github.com/quern-llm/quern/go/model"
)

// A ProfileResult is the time that a case spent in one kind of operation on the same
// tensors, over all layers.
type ProfileResult struct {
	BuildCommit   string `json:"build_commit"`
	CPUInfo       string `json:"cpu_info"`
	ModelFilename string `json:"model_filename"`
	ModelType     string `json:"model_type"`
	Threads       int    `json:"n_threads"`
	TypeK         string `json:"type_k"`
	TypeV         string `json:"type_v"`
	Prompt        int    `json:"n_prompt"`
	Gen           int    `json:"n_gen"`
	Depth         int    `json:"n_depth"`

	Operation string  `json:"operation"`
	Tensors   string  `json:"tensors"` // read by it, without the layer number
	Calls     int     `json:"calls"`
	WallNS    float64 `json:"wall_ns"` // busy and waiting time of all threads, divided by their number
	BusyNS    int64   `json:"busy_ns"` // summed over threads, as is WaitNS
	WaitNS    int64   `json:"wait_ns"`
	Share     float64 `json:"share"` // of the wall time of all operations
	GBps      float64 `json:"gbps"`  // of weights, keys and values; 0 where it reads none
	GMACs     float64 `json:"gmacs"` // 1e9 multiply-adds with them per second

	Bytes int64 `json:"bytes"`
	MACs  int64 `json:"macs"`

	RoofFraction *float64 `json:"roof_fraction,omitempty"` // the roofline's time for both, divided by the wall time
}

// Case is the name of the row's test.
func (r *ProfileResult) Case() string { return Case{r.Prompt, r.Gen, r.Depth}.String() }

// profile writes the profile of a case; r has its other fields.
func (b *run) profile(eng *engine.Engine, r *Result, roof *measure.Roofline) error {
	rows := summarize(eng.Profile(), r.Threads)
	for i := range rows {
		row := &rows[i]
		row.BuildCommit, row.CPUInfo, row.ModelFilename, row.ModelType = r.BuildCommit, r.CPUInfo, r.ModelFilename, r.ModelType
		row.Threads, row.TypeK, row.TypeV, row.Prompt, row.Gen, row.Depth = r.Threads, r.TypeK, r.TypeV, r.Prompt, r.Gen, r.Depth
		row.compare(roof)
		if err := b.ops.row(row); err != nil {
			return err
		}
	}
	b.profiles = append(b.profiles, rows)
	return nil
}

// summarize sums over layers, by kind of operation and tensors. The result is sorted by
// time, longest first.
func summarize(ops []model.OpProfile, threads int) []ProfileResult {
	var rows []ProfileResult
	total := 0.0
	for _, o := range ops {
		name := o.Kind
		if o.Again {
			name += " again"
		}
		i := slices.IndexFunc(rows, func(r ProfileResult) bool { return r.Operation == name && r.Tensors == o.Tensors })
		if i < 0 {
			i = len(rows)
			rows = append(rows, ProfileResult{Operation: name, Tensors: o.Tensors})
		}
		r := &rows[i]
		busy, wait := sum(o.Busy), sum(o.Wait)
		wall := float64(busy+wait) / float64(threads)
		r.Calls += o.Calls
		r.BusyNS += busy.Nanoseconds()
		r.WaitNS += wait.Nanoseconds()
		r.WallNS += wall
		r.Bytes += o.Bytes
		r.MACs += o.MACs
		total += wall
	}
	rows = slices.DeleteFunc(rows, func(r ProfileResult) bool { return r.Calls == 0 || r.WallNS <= 0 })
	for i := range rows {
		r := &rows[i]
		r.Share = r.WallNS / total
		r.GBps, r.GMACs = float64(r.Bytes)/r.WallNS, float64(r.MACs)/r.WallNS
	}
	slices.SortStableFunc(rows, func(a, b ProfileResult) int { return cmp.Compare(b.WallNS, a.WallNS) })
	return rows
}

func sum(d []time.Duration) (all time.Duration) {
	for _, t := range d {
		all += t
	}
	return all
}

// compare sets the fraction of the roofline.
func (r *ProfileResult) compare(roof *measure.Roofline) {
	if roof == nil || r.Bytes == 0 && r.MACs == 0 {
		return
	}
	least := max(float64(r.Bytes)/roof.ReadBytesPerSec, float64(r.MACs)/roof.Int8MACPerSec)
	fraction := 1e9 * least / r.WallNS
	r.RoofFraction = &fraction
}

// profileTable is the Markdown table of a profile.
func profileTable(roofline bool) table[ProfileResult] {
	unless0 := func(format string, v float64) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprintf(format, v)
	}
	type col = column[ProfileResult]
	columns := []col{
		{"test", 15, false, func(r *ProfileResult) string { return r.Case() }},
		{"threads", 7, false, func(r *ProfileResult) string { return fmt.Sprint(r.Threads) }},
		{"operation", 10, true, func(r *ProfileResult) string { return r.Operation }},
		{"tensors", 24, true, func(r *ProfileResult) string { return r.Tensors }},
		{"calls", 6, false, func(r *ProfileResult) string { return fmt.Sprint(r.Calls) }},
		{"ms", 9, false, func(r *ProfileResult) string { return fmt.Sprintf("%.2f", r.WallNS/1e6) }},
		{"of time", 7, false, func(r *ProfileResult) string { return fmt.Sprintf("%.1f %%", 100*r.Share) }},
		{"waiting", 7, false, func(r *ProfileResult) string {
			return fmt.Sprintf("%.1f %%", 100*float64(r.WaitNS)/float64(r.BusyNS+r.WaitNS))
		}},
		{"GB/s", 7, false, func(r *ProfileResult) string { return unless0("%.2f", r.GBps) }},
		{"GMAC/s", 7, false, func(r *ProfileResult) string { return unless0("%.1f", r.GMACs) }},
	}
	if roofline {
		columns = append(columns, col{"of roof", 7, false, func(r *ProfileResult) string {
			if r.RoofFraction == nil {
				return ""
			}
			return ofRoof(r.RoofFraction)
		}})
	}
	return table[ProfileResult]{columns, func(r *ProfileResult) string {
		return strings.Join([]string{
			"model: " + r.ModelType,
			"ms: of all runs of an operation in all layers; of time: of what all operations took; waiting: of the threads, for each other",
			"build: " + r.BuildCommit,
		}, "\n")
	}}
}
