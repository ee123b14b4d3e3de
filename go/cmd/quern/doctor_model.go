package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// A modelPlan is how a model would be loaded. Sizes are bytes.
type modelPlan struct {
	File        string   `json:"file"`
	FileBytes   uint64   `json:"file_bytes"`
	Fits        bool     `json:"fits"`
	Residency   string   `json:"weights_are"` // packed, or mapped
	Context     int      `json:"context"`
	Weights     uint64   `json:"weights"` // outside the file
	KV          uint64   `json:"keys_and_values"`
	KVPer1K     uint64   `json:"keys_and_values_per_1024_tokens"`
	Activations uint64   `json:"activations"`
	Program     uint64   `json:"program"` // with the tokenizer
	Total       uint64   `json:"total"`
	Limit       uint64   `json:"limit"`
	LimitReason string   `json:"limit_reason"`
	Advice      []string `json:"advice,omitempty"` // what would fit, where it does not
}

// planModel computes how the model that the flags name would be loaded, from its header.
func planModel(f *modelFlags) (*modelPlan, error) {
	h, err := readHead(f.path, true)
	if err != nil {
		return nil, err
	}
	defer h.file.Close()
	c, err := f.config(h.cfg.NCtx)
	if err != nil {
		return nil, err
	}
	if h.cfg.BothWays {
		c.Vectors = true
	}
	device, err := f.device()
	if err != nil {
		return nil, err
	}
	b := device.Budget
	m := &modelPlan{File: f.path, FileBytes: h.file.Size(), Program: engine.ProgramBytes(b)}
	m.Limit, m.LimitReason = b.Limit()
	if _, err := b.Reserve("the program", m.Program); err != nil {
		return nil, err
	}
	p, err := engine.NewPlan(h.file, b, device.Threads, c)
	var unfit *engine.FitError
	if err != nil && !errors.As(err, &unfit) {
		return nil, fmt.Errorf("%s: %w", f.path, err)
	}
	if m.Fits = err == nil; !m.Fits {
		m.Advice = unfit.Advice
	}
	m.Residency, m.Context, m.Weights, m.KV, m.KVPer1K = p.Use.Residency.String(), p.Use.Ctx, p.Need.Weights, p.Need.KV, p.Need.KVPer1K
	m.Activations, m.Total = p.Need.Activations, p.Need.Total()+m.Program
	return m, nil
}

// print writes the plan line by line.
func (m *modelPlan) print(line func(name, format string, args ...any)) {
	size := mem.FormatBytes
	where := "packed"
	if m.Residency == model.Mapped.String() {
		where = fmt.Sprintf("outside the file, whose %s stay mapped", size(m.FileBytes))
	}
	line("weights", "%s %s", size(m.Weights), where)
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
