package main

import (
	"fmt"
	"io"
	"time"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

// defaultCtx bounds the context when no flag does: the model's own may need
// more memory than its weights.
const defaultCtx = 4096

// modelFlags are the flags of every command that runs a model.
type modelFlags struct {
	path         string
	ctx          int // -1 is the default, 0 the model's own
	threads      int // 0 is the default
	batch        int
	typeK, typeV string
	weights      string
	memory       uint64
}

// define adds them all but -c, see defineContext.
func (f *modelFlags) define(fs *pflag.FlagSet) {
	f.defineMemory(fs)
	intVar(fs, &f.threads, "threads", "t", 0, 1, kernel.MaxThreads, "threads (default: what \"quern doctor\" says)")
}

// defineMemory adds the flags that decide how much memory the model takes.
func (f *modelFlags) defineMemory(fs *pflag.FlagSet) {
	types := kvcache.TypeNames()
	fs.StringVarP(&f.path, "model", "m", "", "GGUF `FILE`; of a split model, the first")
	intVar(fs, &f.batch, "batch-size", "b", 512, 1, 1<<16, "tokens of one forward pass")
	choiceVar(fs, &f.typeK, "cache-type-k", types[0], types, "type of the keys kept")
	choiceVar(fs, &f.typeV, "cache-type-v", types[0], types, "type of the values kept")
	alias(fs, "cache-type-k", "ctk")
	alias(fs, "cache-type-v", "ctv")
	choiceVar(fs, &f.weights, "weights", "auto", []string{"auto", "packed", "mapped"}, "how weights lie in memory")
	bytesVar(fs, &f.memory, "memory", "limit on memory, such as 4G (default: what \"quern doctor\" says)")
}

// defineContext adds -c, whose default and meaning differ between commands.
func (f *modelFlags) defineContext(fs *pflag.FlagSet, value, least int, usage string) {
	intVar(fs, &f.ctx, "ctx-size", "c", value, least, 1<<28, usage)
	if value < 0 {
		fs.Lookup("ctx-size").DefValue = "" // is no number, and the usage says it in words
	}
}

var errNoModel = usagef("no model; give one with -m FILE")

// check finds what no single flag can.
func (f *modelFlags) check() error {
	if f.path == "" {
		return errNoModel
	}
	return nil
}

// config turns the flags into an engine's Config, for a model whose own
// context is modelCtx.
func (f *modelFlags) config(modelCtx int) (engine.Config, error) {
	m, err := machine.Read()
	if err != nil {
		return engine.Config{}, err
	}
	k, err := kvcache.ParseType(f.typeK)
	if err != nil {
		return engine.Config{}, err
	}
	v, err := kvcache.ParseType(f.typeV)
	if err != nil {
		return engine.Config{}, err
	}
	residency, err := model.ParseResidency(f.weights)
	if err != nil {
		return engine.Config{}, err
	}
	cfg := engine.Config{
		Ctx:       f.context(modelCtx),
		Batch:     min(f.batch, f.context(modelCtx)),
		KV:        kvcache.Types{K: k, V: v},
		Threads:   f.threads,
		Residency: residency,
		Budget:    newBudget(m, f.memory),
	}
	if cfg.Threads == 0 {
		cfg.Threads = m.Threads()
	}
	cfg.CPUs = m.WorkerCPUs(cfg.Threads)
	return cfg, nil
}

// context returns the tokens of context that the flags ask for, for a model
// whose own is modelCtx.
func (f *modelFlags) context(modelCtx int) int {
	switch f.ctx {
	case -1:
		return min(modelCtx, defaultCtx)
	case 0:
		return modelCtx
	}
	return f.ctx
}

// open loads the model, showing its progress on stderr to a person, and
// returns how long it took.
func (f *modelFlags) open(modelCtx int, stderr io.Writer) (*engine.Engine, time.Duration, error) {
	cfg, err := f.config(modelCtx)
	if err != nil {
		return nil, 0, err
	}
	bar := newLoadBar(stderr)
	defer bar.done()
	cfg.Progress = bar.update
	start := time.Now()
	eng, err := engine.Open(f.path, cfg)
	return eng, time.Since(start), err
}

// loadTokenizer reads the vocabulary of the model at path.
func loadTokenizer(path string) (*tokenizer.Tokenizer, error) {
	h, err := readHead(path, false)
	if err != nil {
		return nil, err
	}
	return h.tok, h.file.Close()
}

// A head is what a model's file says without its weights: open, until it is closed.
type head struct {
	file *model.File
	tok  *tokenizer.Tokenizer
	cfg  *model.Config // nil unless the model is to run
}

// readHead reads it from the file at path: with the model's Config, if it is to run.
func readHead(path string, runs bool) (h *head, err error) {
	h = &head{}
	if h.file, err = model.OpenFile(path); err != nil {
		return nil, err
	}
	if err := h.read(runs); err != nil {
		h.file.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return h, nil
}

func (h *head) read(runs bool) (err error) {
	if runs {
		if h.cfg, err = model.ReadConfig(h.file.GGUF); err != nil {
			return err
		}
	}
	if h.tok, err = tokenizer.New(h.file.GGUF); err != nil {
		return err
	}
	// The other way round is common: embeddings are padded.
	if runs && h.tok.Len() > h.cfg.NVocab {
		return fmt.Errorf("the vocabulary has %d tokens and token_embd.weight %d rows, want a row for each; convert the model again", h.tok.Len(), h.cfg.NVocab)
	}
	return nil
}
