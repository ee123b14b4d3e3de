package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/verify"
)

// serverModel returns the server's description of a loaded model.
func (f *serveFlags) serverModel(s *served, defaults server.Defaults, eng server.Engine, logs zerolog.Logger) server.Model {
	in := s.head
	m := server.Model{
		Engine: eng, Tokenizer: in.Tokenizer, Template: s.template, TemplateWarning: s.warning, Metadata: in.File.GGUF,
		Tags: s.tags, Path: s.path, Ctx: s.open.Engine.Ctx(), Fingerprint: verify.Profile() + "-" + s.open.Engine.KVName(),
		Sampling: f.sampling.forModel(in.File.GGUF, func(line string) { logs.Warn().Msg(line) }), MaxTokens: max(f.predict, 0), Shifts: in.EngineConfig().Shift, Keep: s.model.keep, ReasoningFormat: f.reasoning,
		Defaults: defaults, SuffixFirst: f.suffixed,
		Info: infoOf(in),
	}
	m.Info.VocabType, m.Info.NVocab = vocabType(in), in.Tokenizer.Len()
	if f.sampling.seed >= 0 {
		seed := uint32(f.sampling.seed)
		m.Seed = &seed
	}
	return m
}

// infoOf returns what the API reports of a model's file.
func infoOf(h *launch.Head) server.ModelInfo {
	f, cfg := h.File, h.Config
	info := server.ModelInfo{Arch: cfg.Arch, FileType: f.GGUF.MixName(), NVocab: cfg.NVocab, NCtxTrain: cfg.NCtx, NEmbd: cfg.NEmbd, Size: f.Size()}
	for i := range f.GGUF.Tensors {
		info.NParams += f.GGUF.Tensors[i].Elems()
	}
	return info
}

// vocabTypes are llama.cpp's enum values for the types of vocabularies; others are BPE.
var vocabTypes = map[string]int{"llama": 1, "bert": 3, "t5": 4, "rwkv": 5, "plamo2": 6}

func vocabType(in *launch.Head) int {
	const bpe = 2
	kind, _ := in.File.GGUF.Str("tokenizer.ggml.model")
	return cmp.Or(vocabTypes[kind], bpe)
}

// A body may have so many bytes by default: bodyTokenBytes for each position of the longest context, and bodyLeast.
const (
	bodyTokenBytes = 64
	bodyLeast      = 1 << 20
)

// maxBody returns the maximum size of a request's body: enough for a prompt as long as
// the context, in a language and an encoding that need many bytes.
func (f *serveFlags) maxBody(ctx int) int64 {
	if f.bodyLimit > 0 {
		return int64(f.bodyLimit)
	}
	return bodyLeast + bodyTokenBytes*int64(ctx)
}

// checkFolder returns an error unless path, which may be empty, is a folder.
func checkFolder(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", path)
	}
	return err
}
