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
	meta := m.head.File.GGUF
	sampling, ignored := sample.Defaults().ForModel(meta)
	for _, line := range ignored {
		log.Warn().Msg(line)
	}
	if m.Sampling != nil {
		sampling = m.Sampling(sampling)
	}
	s := ask.Model{
		Tokenizer: m.head.Tokenizer, Template: m.template, TemplateWarning: m.warning, Metadata: meta,
		Tags: m.Tags, Path: m.Path, Ctx: open.Engine.Ctx(), Fingerprint: verify.Profile() + "-" + open.Engine.KVName(),
		Sampling: sampling, Seed: m.Seed, MaxTokens: m.MaxTokens, Defaults: m.Defaults,
		Shifts: m.head.EngineConfig().Shift, Keep: m.Keep, ReasoningFormat: m.ReasoningFormat, SuffixFirst: m.SuffixFirst,
		Info: infoOf(m.head),
	}
	s.Info.VocabType, s.Info.NVocab = vocabType(m.head), m.head.Tokenizer.Len()
	for i, a := range open.Adapters {
		one := ask.Adapter{
			Name: a.Adapter.Name, Path: m.Launch.Adapters[i].Path, Scale: a.Scale, Applied: a.Scale, Loaded: a.Adapter,
		}
		if m.AdaptersIdle {
			one.Applied = 0
		}
		s.Adapters = append(s.Adapters, one)
	}
	return s
}

// infoOf returns what the API reports of a model's file.
func infoOf(h *launch.Head) ask.ModelInfo {
	f, cfg := h.File, h.Config
	info := ask.ModelInfo{
		Arch: cfg.Arch, FileType: f.GGUF.MixName(), NVocab: cfg.NVocab, NCtxTrain: cfg.NCtx, NEmbd: cfg.NEmbd, Size: f.Size(),
	}
	for i := range f.GGUF.Tensors {
		info.NParams += f.GGUF.Tensors[i].Elems()
	}
	return info
}

// vocabTypes are llama.cpp's enum values for the types of vocabularies; others are BPE.
var vocabTypes = map[string]int{"llama": 1, "bert": 3, "t5": 4, "rwkv": 5, "plamo2": 6}

func vocabType(h *launch.Head) int {
	const bpe = 2
	kind, _ := h.File.GGUF.Str("tokenizer.ggml.model")
	return cmp.Or(vocabTypes[kind], bpe)
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
	cfg := eng.Model().Config
	m.Pooling, m.Normalize, m.Encoder, m.Classifier = pooling, engine.Euclidean, cfg.BothWays, cfg.Classifier
	m.NVector, m.Prompts, m.MaxText = cfg.VectorWidth(), cfg.Prompts, cfg.MaxText
	if pooling.Sparse() {
		m.Normalize = -1
	}
	if v.Normalize != nil {
		m.Normalize = *v.Normalize
	}
	switch {
	case cfg.BothWays:
		m.VectorsOnly = cfg.Arch + " " + engine.ErrBothWays.Error()
	case v.Only, v.Ranks, given && pooling == nn.PoolRank:
		m.VectorsOnly = "this server makes vectors of texts or scores of documents, and generates nothing: it was " +
			"started with --embeddings or --reranking"
	}
	return nil
}
