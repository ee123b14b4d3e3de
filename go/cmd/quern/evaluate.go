package main

import (
	"context"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/eval"
)

// An engineText is a sequence of an engine, as package eval reads it.
type engineText struct {
	eng *engine.Engine
	seq *engine.Sequence
}

// evaluated returns the engine as package eval evaluates it.
func evaluated(eng *engine.Engine) eval.Model {
	return func() eval.Text { return engineText{eng, eng.NewSequence()} }
}

func (t engineText) Eval(ctx context.Context, ids []int32, from int, visit func(int, []float32) error) error {
	return t.eng.Eval(ctx, t.seq, ids, from, visit)
}

func (t engineText) Fork() eval.Text { return engineText{t.eng, t.seq.Fork()} }
func (t engineText) Close()          { t.seq.Close() }
