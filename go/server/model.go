package server

import (
	"fmt"
	"io"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// An Engine runs requests: an engine.Loop.
type Engine interface {
	Submit(r *engine.Request) (Ticket, error)
	Status() engine.Status
	SaveSlot(slot int, w io.Writer) (engine.SlotFile, error)
	RestoreSlot(slot int, r io.Reader) (engine.SlotFile, error)
	EraseSlot(slot int) (tokens int, err error)
}

// A Ticket stands for a request that was taken.
type Ticket interface {
	ID() uint64
	Cancel() // the request ends soon, with context.Canceled
}

// A Model is what a Server serves.
type Model struct {
	Engine    Engine
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template
	Metadata  tokenizer.Metadata // of the file

	TemplateWarning string // why Template is not the model's own; empty where it is, or was chosen

	Name string // by which clients know it
	Path string
	Ctx  int // positions of a sequence

	// What requests that say nothing get.
	Sampling        sample.Params // but for the seed
	Seed            *uint32       // nil: a new one for each request
	MaxTokens       int           // 0: until the context is full
	ReasoningFormat string        // empty: auto

	Info ModelInfo

	loaded time.Time
	fim    fimTokens
}

// ModelInfo is what clients are told of a model.
type ModelInfo struct {
	VocabType int    `json:"vocab_type"` // llama.cpp's number
	NVocab    int    `json:"n_vocab"`
	NCtxTrain int    `json:"n_ctx_train"`
	NEmbd     int    `json:"n_embd"`
	NParams   uint64 `json:"n_params"`
	Size      uint64 `json:"size"` // bytes of weights
}

// slots is how many sequences can run at a time.
func (m *Model) slots() int { return len(m.Engine.Status().Slots) }

// ModelSampling returns p as a model's author would have it: with the values
// under general.sampling. The notes name those that are ignored, and why.
func ModelSampling(p sample.Params, meta tokenizer.Metadata) (sample.Params, []string) {
	var notes []string
	const prefix = "general.sampling."
	number := func(key string) (float64, bool) {
		v, ok := meta.Value(prefix + key)
		if !ok {
			return 0, false
		}
		switch v := v.(type) {
		case float32:
			return float64(v), true
		case float64:
			return v, true
		case uint32:
			return float64(v), true
		case int32:
			return float64(v), true
		}
		notes = append(notes, fmt.Sprintf("%s%s is %T, want a number: ignored", prefix, key, v))
		return 0, false
	}
	for _, f := range []struct {
		key string
		set func(p *sample.Params, v float64)
	}{
		{"temp", func(p *sample.Params, v float64) { p.Temp = float32(v) }},
		{"top_k", func(p *sample.Params, v float64) { p.TopK = int(v) }},
		{"top_p", func(p *sample.Params, v float64) { p.TopP = float32(v) }},
		{"min_p", func(p *sample.Params, v float64) { p.MinP = float32(v) }},
		{"penalty_last_n", func(p *sample.Params, v float64) { p.RepeatLastN = int(v) }},
		{"penalty_repeat", func(p *sample.Params, v float64) { p.RepeatPenalty = float32(v) }},
	} {
		v, ok := number(f.key)
		if !ok {
			continue
		}
		changed := p
		f.set(&changed, v)
		if err := changed.Validate(); err != nil {
			notes = append(notes, fmt.Sprintf("%s%s: %v: ignored", prefix, f.key, err))
			continue
		}
		p = changed
	}
	for _, key := range []string{"mirostat", "xtc_probability"} {
		if v, ok := number(key); ok && v != 0 {
			notes = append(notes, fmt.Sprintf("%s%s is %v, which is not supported yet: ignored", prefix, key, v))
		}
	}
	return p, notes
}
