package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/stream"
)

// A modelPlan is how a model would be loaded. Sizes are bytes.
type modelPlan struct {
	File        string   `json:"file"`
	FileBytes   uint64   `json:"file_bytes"`
	Fits        bool     `json:"fits"`
	Residency   string   `json:"weights_are"` // packed, mapped or streamed
	Context     int      `json:"context"`
	Weights     uint64   `json:"weights"`           // outside the file
	Streams     uint64   `json:"streamed_per_pass"` // read from the disk, at most
	KV          uint64   `json:"keys_and_values"`
	KVPer1K     uint64   `json:"keys_and_values_per_1024_tokens"`
	Activations uint64   `json:"activations"`
	Program     uint64   `json:"program"` // with the tokenizer
	Total       uint64   `json:"total"`
	Limit       uint64   `json:"limit"`
	LimitReason string   `json:"limit_reason"`
	Advice      []string `json:"advice,omitempty"` // what would fit, where it does not

	Disk *diskFacts `json:"disk,omitempty"` // nil if it was not measured
}

// diskFacts is how fast the file is read.
type diskFacts struct {
	Read float64 `json:"read_bytes_per_second"`
	How  string  `json:"how"`
	Slow bool    `json:"slow"`
}

// measureDisk measures how fast the file at path is read.
func measureDisk(path string) (*diskFacts, error) {
	rate, how, err := stream.Measure(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &diskFacts{rate, how, rate < stream.Slow}, nil
}

// words describes the disk, and what to expect of passes that read so many bytes from it.
func (d *diskFacts) words(streams uint64) string {
	s := fmt.Sprintf("%s/s in order (%s)", mem.FormatBytes(uint64(d.Read)), d.How)
	if streams > 0 {
		s += fmt.Sprintf("; a pass takes %.2f s or more, so a text alone has %.2f tokens/s at most", float64(streams)/d.Read, d.Read/float64(streams))
	}
	if d.Slow {
		s += "; SLOW: weights that do not fit in memory should lie on a faster disk"
	}
	return s
}

// planModel computes how the model that the flags name would be loaded, from its header.
func planModel(f *modelFlags) (*modelPlan, error) {
	h, err := f.readHead()
	if err != nil {
		return nil, err
	}
	defer h.Close()
	c := h.EngineConfig()
	if h.Config.BothWays {
		c.Vectors = true
	}
	device, err := f.device().Config()
	if err != nil {
		return nil, err
	}
	b := device.Budget
	m := &modelPlan{File: f.path, FileBytes: h.File.Size(), Program: engine.ProgramBytes(b)}
	m.Limit, m.LimitReason = b.Limit()
	if _, err := b.Reserve("the program", m.Program); err != nil {
		return nil, err
	}
	p, err := engine.NewPlan(h.File, b, device.Threads, c)
	var unfit *engine.FitError
	if err != nil && !errors.As(err, &unfit) {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	if m.Fits = err == nil; !m.Fits {
		m.Advice = unfit.Advice
	}
	m.Residency, m.Context, m.Weights, m.KV, m.KVPer1K = p.Use.Residency.String(), p.Use.Ctx, p.Need.Weights, p.Need.KV, p.Need.KVPer1K
	m.Streams = p.Streams
	if p.Use.Residency == model.Streamed && m.Fits && p.Streams == 0 { // all of them stay
		m.Weights += p.Need.Streamable
	}
	m.Activations, m.Total = p.Need.Activations, p.Need.Total()-p.Need.Weights+m.Weights+m.Program
	return m, nil
}

// print writes the plan line by line.
func (m *modelPlan) print(line func(name, format string, args ...any)) {
	size := mem.FormatBytes
	where := "packed"
	switch m.Residency {
	case model.Mapped.String():
		where = fmt.Sprintf("outside the file, whose %s stay mapped", size(m.FileBytes))
	case model.Streamed.String():
		where = "at least, and all that is free; they come from the disk"
	}
	line("weights", "%s %s", size(m.Weights), where)
	if m.Streams > 0 {
		line("streamed", "%s at most for each pass, whatever its tokens", size(m.Streams))
	}
	if d := m.Disk; d != nil {
		line("disk", "%s", d.words(m.Streams))
	}
	line("keys and values", "%s for a context of %d, %s for each 1024", size(m.KV), m.Context, size(m.KVPer1K))
	line("activations", "%s", size(m.Activations))
	line("the program", "%s", size(m.Program))
	verdict := "fits"
	if !m.Fits {
		verdict = "does not fit"
	}
	line("total", "%s: %s in %s (%s)", size(m.Total), verdict, size(m.Limit), m.LimitReason)
	if len(m.Advice) > 0 {
		line("what would fit", "%s", strings.Join(m.Advice, ", or "))
	}
}
