package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/launch"
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

	Disk    *diskFacts   `json:"disk,omitempty"`    // nil if it was not measured
	Prompts []promptTime `json:"prompts,omitempty"` // nil if they were not measured
}

// A promptTime is how long a prompt takes to be read, before the first token of its answer.
type promptTime struct {
	Tokens  int     `json:"tokens"`
	Seconds float64 `json:"seconds"`
}

// measurePrompts loads the model that the flags name and estimates, as a server does, how long prompts take: one that fills
// the context, and shorter ones. The time grows faster than the length.
func measurePrompts(ctx context.Context, f *modelFlags) (times []promptTime, err error) {
	h, err := f.readHead()
	if err != nil {
		return nil, err
	}
	if h.Config.BothWays {
		h.Close()
		return nil, errors.New("--prompt-time: the model makes vectors of texts, and answers none")
	}
	device, err := f.device().Open()
	if err != nil {
		h.Close()
		return nil, err
	}
	defer device.Close()
	m, err := h.Open(ctx, device, launch.Events{})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	loop, err := engine.NewLoop(m.Engine, engine.LoopConfig{})
	if err != nil {
		return nil, err
	}
	defer loop.Close()
	for n := m.Engine.Ctx(); n >= 256 && len(times) < 3; n /= 4 {
		times = append(times, promptTime{n, loop.PromptTime(n).Seconds()})
	}
	return times, nil
}

// words describes the time.
func (t promptTime) words() string {
	took := fmt.Sprintf("%.2g s", t.Seconds)
	if t.Seconds >= 100 {
		took = fmt.Sprintf("%.0f s", t.Seconds)
	}
	return fmt.Sprintf("about %s for %d tokens (%.0f tokens/s)", took, t.Tokens, float64(t.Tokens)/max(t.Seconds, 1e-9))
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
	for i, t := range m.Prompts {
		name := "reading a prompt"
		if i > 0 {
			name = ""
		}
		line(name, "%s", t.words())
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
