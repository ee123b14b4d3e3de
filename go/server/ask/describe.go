package ask

import (
	"cmp"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/transcribe"
)

// Describe returns the description of an open model, with the vectors and the adapters that it has by itself. What runs
// its requests, and the defaults of these, are left to the caller.
func Describe(file *model.File, eng *engine.Engine, tok *tokenizer.Tokenizer, t *chat.Template, adapters []engine.ScaledAdapter) Model {
	cfg := eng.Model().Config
	m := Model{
		Tokenizer: tok, Template: t, Metadata: file.GGUF, Ctx: eng.Ctx(), Info: InfoOf(file, cfg),
		Encoder: cfg.BothWays, Classifier: cfg.Classifier,
		NVector: cfg.VectorWidth(), Prompts: cfg.Prompts, MaxText: cfg.MaxText,
	}
	m.Info.VocabType, m.Info.NVocab = vocabType(file), tok.Len()
	m.Pool(eng.Pooling())
	if cfg.BothWays {
		m.VectorsOnly = cfg.Arch + " " + engine.ErrBothWays.Error()
	}
	if cfg.Sound.Bands > 0 {
		if v, err := transcribe.NewVocabulary(tok); err == nil {
			m.Speech = &Speech{cfg, v}
		}
	}
	for _, a := range adapters {
		m.Adapters = append(m.Adapters, Adapter{Name: a.Name, Path: a.Name, Scale: a.Scale, Applied: a.Scale, Loaded: a.Adapter})
	}
	return m
}

// Pool sets what the vector of a text is made of. Sparse vectors keep their length.
func (m *Model) Pool(p nn.Pooling) {
	if m.Pooling, m.Normalize = p, engine.Euclidean; p.Sparse() {
		m.Normalize = -1
	}
}

// InfoOf returns what the API reports of a model's file.
func InfoOf(f *model.File, cfg *model.Config) ModelInfo {
	info := ModelInfo{
		Arch: cfg.Arch, FileType: f.GGUF.MixName(), NVocab: cfg.NVocab, NCtxTrain: cfg.NCtx, NEmbd: cfg.NEmbd, Size: f.Size(),
	}
	for i := range f.GGUF.Tensors {
		info.NParams += f.GGUF.Tensors[i].Elems()
	}
	return info
}

// vocabTypes are llama.cpp's enum values for the types of vocabularies; others are BPE.
var vocabTypes = map[string]int{"llama": 1, "bert": 3, "t5": 4, "rwkv": 5, "plamo2": 6}

func vocabType(f *model.File) int {
	const bpe = 2
	kind, _ := f.GGUF.Str("tokenizer.ggml.model")
	return cmp.Or(vocabTypes[kind], bpe)
}
