package main

import (
	"maps"
	"slices"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/fleet"
	"github.com/quern-llm/quern/go/model/nn"
)

// vectorFlags are the flags of "quern serve" for vectors of texts and scores of documents.
type vectorFlags struct {
	only, ranks bool
	pooling     string
	normalize   int
	flags       *pflag.FlagSet
}

func (f *vectorFlags) define(fs *pflag.FlagSet) {
	f.flags = fs
	fs.BoolVar(&f.only, "embeddings", false, "serve embeddings only; without it, generative models do both")
	fs.BoolVar(&f.ranks, "reranking", false, "serve reranking only: as --embeddings --pooling rank")
	choiceVar(fs, &f.pooling, "pooling", "", slices.Sorted(maps.Keys(poolings)), "pooling of token vectors (default: the file's, else mean for encoders, last for others)")
	intVar(fs, &f.normalize, "embd-normalize", "", engine.Euclidean, -1, 1<<15, "norm that scales vectors to length 1, unless the request sets it: 2 is Euclidean, 1 the sum, -1 none; 0 scales the largest number to 32760 (sparse vectors: -1)")
}

// settings returns the flags as settings of a model.
func (f *vectorFlags) settings() (fleet.Vectors, error) {
	v := fleet.Vectors{Only: f.only, Ranks: f.ranks}
	if f.flags.Changed("embd-normalize") {
		v.Normalize = &f.normalize
	}
	if pooling, given := poolings[f.pooling]; given {
		if v.Pooling = &pooling; f.ranks && pooling != nn.PoolRank {
			return v, usagef("--reranking and --pooling %s: want --pooling rank, or one of the flags", f.pooling)
		}
	}
	return v, nil
}
