package main

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/server"
)

// vectorFlags are the flags of "quern serve" for vectors of texts and scores of documents.
type vectorFlags struct {
	only, ranks bool
	pooling     string
	normalize   int
}

func (f *vectorFlags) define(fs *pflag.FlagSet) {
	fs.BoolVar(&f.only, "embeddings", false, "serve embeddings only; without it, generative models do both")
	fs.BoolVar(&f.ranks, "reranking", false, "serve reranking only: as --embeddings --pooling rank")
	choiceVar(fs, &f.pooling, "pooling", "", slices.Sorted(maps.Keys(poolings)), "pooling of token vectors (default: the file's, else mean for encoders, last for others)")
	intVar(fs, &f.normalize, "embd-normalize", "", engine.Euclidean, -1, 1<<15, "norm that scales vectors to length 1, unless the request sets it: 2 is Euclidean, 1 the sum, -1 none; 0 scales the largest number to 32760")
}

// apply sets what a model makes of texts.
func (f *vectorFlags) apply(m *server.Model, eng *engine.Engine) error {
	pooling, given := poolings[f.pooling]
	switch {
	case f.ranks && given && pooling != arch.PoolRank:
		return usagef("--reranking and --pooling %s: want --pooling rank, or one of the flags", f.pooling)
	case f.ranks:
		pooling = arch.PoolRank
	case !given:
		pooling = eng.Pooling()
	}
	if _, err := eng.Embedding(1, pooling); err != nil && (f.ranks || given) {
		return fmt.Errorf("%s: %w", m.Path, err)
	}
	cfg := eng.Model().Config
	m.Pooling, m.Normalize, m.Encoder = pooling, f.normalize, cfg.BothWays
	switch {
	case cfg.BothWays:
		m.VectorsOnly = cfg.Arch + " " + engine.ErrBothWays.Error()
	case f.only, f.ranks, given && pooling == arch.PoolRank:
		m.VectorsOnly = "this server makes vectors of texts or scores of documents, and generates nothing: it was started with --embeddings or --reranking"
	}
	return nil
}
