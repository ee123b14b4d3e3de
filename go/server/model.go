package server

import (
	"io"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
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

// A Model is one of those that a Server serves.
type Model struct {
	Engine    Engine
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template
	Metadata  tokenizer.Metadata // of the file

	TemplateWarning string // why Template is not the model's own; empty where it is, or was chosen

	Name    string // by which clients know it; Add sets it
	Aliases []string
	Tags    []string
	Path    string
	// Fingerprint names what the text of a seed depends on besides the model and the
	// request: how numbers are computed, and the types of keys and values.
	Fingerprint string
	Ctx         int // positions of a sequence

	// What requests that say nothing get.
	Sampling        sample.Params // but for the seed
	Seed            *uint32       // nil: a new one for each request
	MaxTokens       int           // 0: until the context is full
	ReasoningFormat string        // empty: auto
	Defaults        Defaults

	Memory *mem.Budget // from which answers take their bytes; nil: they are not counted

	SuffixFirst bool // a prompt with a gap has what comes after the gap first

	Info ModelInfo

	loaded     time.Time
	vocabulary func() *constrain.Vocabulary // made when it is first needed
	fim        fimTokens
}

// ModelInfo is what clients are told of a model.
type ModelInfo struct {
	Arch      string `json:"architecture"`
	FileType  string `json:"ftype"`      // such as Q4_K - Medium
	VocabType int    `json:"vocab_type"` // llama.cpp's number
	NVocab    int    `json:"n_vocab"`
	NCtxTrain int    `json:"n_ctx_train"`
	NEmbd     int    `json:"n_embd"`
	NParams   uint64 `json:"n_params"`
	Size      uint64 `json:"size"` // bytes of weights
}

// slots is how many sequences can run at a time.
func (m *Model) slots() int { return len(m.Engine.Status().Slots) }
