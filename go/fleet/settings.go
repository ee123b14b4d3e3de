package fleet

import (
	"cmp"
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/verify"
)

// Settings say how a model is opened and served.
type Settings struct {
	Launch    launch.Settings // Sequences: requests that run at a time, which share one pool; 0: Config.Parallel
	Queue     int             // requests that may wait
	TargetITL time.Duration   // between two tokens of a stream while prompts are evaluated; 0: by the speed of the model

	Template        launch.Template
	AdaptersIdle    bool // adapters are applied to requests that ask for them alone
	ReasoningFormat string
	SuffixFirst     bool // fill-in-the-middle prompts begin with the suffix
	Vectors         Vectors

	// Defaults of requests.
	Defaults  ask.Defaults
	Sampling  func(ofModel sample.Params) sample.Params // nil: as the model's file has it
	Seed      *uint32                                   // nil: a new one for each request
	MaxTokens int                                       // 0: until the context is full
	Keep      int                                       // see ask.Model

	// Check refuses settings that a vocabulary cannot satisfy; nil: there are none.
	Check func(*tokenizer.Tokenizer) error
}

// opening returns how a model is opened.
func (f *Fleet) opening(m *Model) launch.Settings {
	s := m.Launch
	s.Shared, s.Sequences = true, cmp.Or(s.Sequences, f.c.Parallel)
	return s
}

// serverModel returns the server's description of a loaded model, without its engine.
func (m *member) serverModel(open *launch.Model, log zerolog.Logger) ask.Model {
	sampling, ignored := sample.Defaults().ForModel(m.head.File.GGUF)
	for _, line := range ignored {
		log.Warn().Msg(line)
	}
	if m.Sampling != nil {
		sampling = m.Sampling(sampling)
	}
	s := ask.Describe(m.head.File, open.Engine, m.head.Tokenizer, m.template, open.Adapters)
	s.Projector = open.Projector
	s.TemplateWarning, s.Tags, s.Path, s.Fingerprint = m.warning, m.Tags, m.Path, verify.Profile()+"-"+open.Engine.Arithmetic()
	s.Sampling, s.Seed, s.MaxTokens, s.Defaults = sampling, m.Seed, m.MaxTokens, m.Defaults
	s.Shifts, s.Keep, s.ReasoningFormat, s.SuffixFirst = m.head.EngineConfig().Shift, m.Keep, m.ReasoningFormat, m.SuffixFirst
	for i := range s.Adapters {
		s.Adapters[i].Path = m.Launch.Adapters[i].Path
		if m.AdaptersIdle {
			s.Adapters[i].Applied = 0
		}
	}
	return s
}

// Vectors say how vectors of texts, and scores of documents, are made.
type Vectors struct {
	Only      bool        // no text is generated
	Ranks     bool        // documents are scored, and nothing else is done
	Pooling   *nn.Pooling // of the vectors of tokens; nil: the model's own
	Normalize *int        // the norm by which a vector gets length 1, unless the request sets it; nil: engine.Euclidean, and none of sparse ones
}

// apply sets what a model makes of texts.
func (v Vectors) apply(m *ask.Model, eng *engine.Engine) error {
	given, pooling := v.Pooling != nil, eng.Pooling()
	switch {
	case v.Ranks:
		pooling = nn.PoolRank
	case given:
		pooling = *v.Pooling
	}
	if _, err := eng.Embedding(1, pooling); err != nil && (v.Ranks || given) {
		return fmt.Errorf("%s: %w", m.Path, err)
	}
	m.Pool(pooling)
	if v.Normalize != nil {
		m.Normalize = *v.Normalize
	}
	if m.VectorsOnly == "" && (v.Only || v.Ranks || given && pooling == nn.PoolRank) {
		m.VectorsOnly = "this server makes vectors of texts or scores of documents, and generates nothing: it was " +
			"started with --embeddings or --reranking"
	}
	return nil
}
