package ask

import (
	"cmp"
	"context"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/transcribe"
)

// An Engine runs requests; engine.Loop implements it.
type Engine interface {
	Submit(r *engine.Request) (Ticket, error)
	Embedding(tokens int, pooling nn.Pooling) (*engine.Embedding, error)
	Status() engine.Status
	SaveSlot(slot int, namespace string, w io.Writer) (engine.SlotFile, error)
	RestoreSlot(slot int, namespace string, r io.Reader) (engine.SlotFile, error)
	EraseSlot(slot int, namespace string) (tokens int, err error)
	OpenAdapter(path string) (*engine.Adapter, error)
	DropAdapter(ctx context.Context, a *engine.Adapter) error
}

// A Ticket is a handle of a submitted request.
type Ticket interface {
	ID() uint64
	Cancel() // the request ends soon, with context.Canceled
}

// A Model is a model that a Server serves.
type Model struct {
	Engine    Engine
	Tokenizer *tokenizer.Tokenizer
	Template  *chat.Template
	Metadata  tokenizer.Metadata // of the file
	Projector *reading.Projector // nil: text only

	TemplateWarning string // why Template is not the model's own; empty if it is, or if it was chosen

	Name    string // the name for clients; set by Add
	Aliases []string
	Tags    []string
	Path    string
	// Fingerprint identifies what output for a given seed depends on besides the model
	// and the request: the numeric profile, and the types of keys and values.
	Fingerprint string
	Identity    string // a hash of the file, where models are fine-tuned; empty: it is not known
	Ctx         int    // positions of a sequence

	Encoder     bool       // a text is evaluated in one pass, beside others
	Pooling     nn.Pooling // what the vector of a text is made of
	Normalize   int        // the norm by which it gets length 1
	Classifier  nn.Classifier
	NVector     int // numbers of the vector of a text; 0: Info.NEmbd
	Prompts     nn.Prompts
	MaxText     int     // tokens that texts are cut to where a request asks for it; 0: Ctx
	VectorsOnly string  // why no text is generated; empty: it is
	Speech      *Speech // of a model that transcribes; nil: it does not

	// Defaults of requests.
	Sampling        sample.Params // except the seed
	Seed            *uint32       // nil: a new one for each request
	MaxTokens       int           // 0: until the context is full
	Shifts          bool          // a full context is shifted, and the answer goes on
	Keep            int           // first tokens of a prompt that stay then, beside BOS; -1: all
	ReasoningFormat string        // empty: auto
	Defaults        Defaults
	Persona         *Persona // nil: none
	base            *Model   // that it is a persona of; nil: it is none

	Memory *mem.Budget                   // the budget for answers; nil: they are not counted
	Spare  func(n uint64) (freed uint64) // frees about n bytes of it that no request is using; nil: nothing does

	Adapters []Adapter // that are loaded with it

	SuffixFirst bool // fill-in-the-middle prompts begin with the suffix

	Info ModelInfo

	LoRA       *Adapters // set by Add
	Tuned      *Adapters // that fine-tuning jobs have made, each for its owner; those that were asked for; set by Add
	Loaded     time.Time
	vocabulary func() *constrain.Vocabulary // computed on first use
	Grammars   func() uint64                // bytes that automata for it take
	samplers   *sample.Vocabulary
	gap        fimTokens
}

// A Speech is what a model that transcribes has for it.
type Speech struct {
	Config     *model.Config
	Vocabulary *transcribe.Vocabulary
}

// Listener returns what transcribes, for requests that are as the caller sets Request.
func (m *Model) Listener() *transcribe.Listener {
	l := &transcribe.Listener{
		Tokenizer: m.Tokenizer, Template: m.Template, Projector: m.Projector, Ctx: m.Ctx, Budget: m.Memory,
		Submit: func(r *engine.Request) (transcribe.Ticket, error) { return m.Engine.Submit(r) },
	}
	if m.Speech != nil {
		l.Config, l.Vocabulary = m.Speech.Config, m.Speech.Vocabulary
	}
	return l
}

// ModelInfo is what the API reports about a model.
type ModelInfo struct {
	Arch      string `json:"architecture"`
	FileType  string `json:"ftype"`      // such as Q4_K - Medium
	VocabType int    `json:"vocab_type"` // llama.cpp's enum value
	NVocab    int    `json:"n_vocab"`
	NCtxTrain int    `json:"n_ctx_train"`
	NEmbd     int    `json:"n_embd"`
	NParams   uint64 `json:"n_params"`
	Size      uint64 `json:"size"` // bytes of weights
}

// VectorWidth is how many numbers the vector of a text has.
func (m *Model) VectorWidth() int { return cmp.Or(m.NVector, m.Info.NEmbd) }

// Generates returns an error if the model generates no text.
func (m *Model) Generates() error {
	switch {
	case m.Speech != nil:
		return reply.Unsupported("this model transcribes sound, and has no answer to a text; use /v1/audio/transcriptions")
	case m.VectorsOnly != "":
		return reply.Unsupported("%s; use /v1/embeddings or /v1/rerank", m.VectorsOnly)
	}
	return nil
}

// Slots is how many sequences can run at a time.
func (m *Model) Slots() int { return len(m.Engine.Status().Slots) }

// Complete sets the derived fields.
func (m *Model) Complete() {
	m.Loaded = time.Now()
	m.LoRA, m.Tuned = &Adapters{}, &Adapters{}
	for i := range m.Adapters {
		m.LoRA.list = append(m.LoRA.list, &m.Adapters[i])
	}
	m.gap = findFIM(m.Tokenizer, m.Metadata)
	m.samplers = sample.NewVocabulary(m.Tokenizer)
	tok := m.Tokenizer
	var used atomic.Pointer[constrain.Vocabulary]
	m.vocabulary = sync.OnceValue(func() *constrain.Vocabulary {
		v := form.Vocabulary(tok)
		used.Store(v)
		return v
	})
	if m.VectorsOnly == "" {
		go func() { // beside what else is loaded; a panic ends the first request with a form, not the process
			_ = panics.Catch(func() error { form.Warm(tok.Len(), m.vocabulary); return nil })
		}()
	}
	m.Grammars = func() uint64 {
		if v := used.Load(); v != nil {
			return v.CachedBytes()
		}
		return 0
	}
}
