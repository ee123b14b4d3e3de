package main

import (
	"io"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/bench"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
)

// measureTraining implements "quern bench --train".
func (f *benchFlags) measureTraining(cmd *cobra.Command, out bench.Output, stderr io.Writer) error {
	kv, err := f.kvTypes()
	if err != nil {
		return err
	}
	if err := f.find(cmd, stderr); err != nil {
		return err
	}
	m, err := f.machine()
	if err != nil {
		return err
	}
	if _, err := chooseKernels(); err != nil {
		return err
	}
	files := newFiles()
	t := bench.Training{
		Models: f.models, Tokens: f.train, Rank: f.rank, DoRA: f.dora, Full: f.full, Threads: f.threads, KV: kv, Repeats: f.reps, Warmup: !f.noWarmup, Profile: f.profile,
		Machine: m, Budget: mem.NewBudget(engine.Limit(m, f.memory)),
		Open: func(name string) (*model.File, error) { return files.Open(name, "") },
	}
	return t.Run(cmd.Context(), out)
}
