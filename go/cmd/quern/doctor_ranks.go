package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
)

// rankFacts are what was measured between ranks, and how they would divide a model.
type rankFacts struct {
	Ranks     int            `json:"ranks"`
	Exchanges []exchangeFact `json:"exchanges"`
	Division  *divisionFact  `json:"division,omitempty"` // nil without a model, or without the measurements of this machine
	network   model.Network  // as it was measured
	chosen    model.Prediction
}

type exchangeFact struct {
	Bytes   int     `json:"bytes"` // of all ranks together
	Seconds float64 `json:"seconds"`
}

// divisionFact is how long a request is predicted to take.
type divisionFact struct {
	By     string   `json:"by"`
	Prompt int      `json:"prompt_tokens"`
	Answer int      `json:"answer_tokens"`
	Rows   float64  `json:"rows_seconds"`
	Layers *float64 `json:"layers_seconds"` // null: they cannot be divided
	One    float64  `json:"one_machine_seconds"`
}

// measureRanks measures exchanges, and predicts how long a model computes that is divided by rows or layers. Other ranks of an
// MPI job help, and are told so.
func measureRanks(ctx context.Context, f *rankFlags, of *modelFlags, m *measuredFacts) (facts *rankFacts, helped bool, err error) {
	g, leave, err := f.group(ctx)
	if err != nil {
		return nil, false, err
	}
	defer func() {
		if err == nil {
			leave()
		}
	}()
	if g.Rank() > 0 {
		return nil, true, (&model.Follower{Group: g}).Run(ctx)
	}
	r := model.Ranks{Group: g, Shares: f.shares}
	defer model.Dismiss(g)
	net, err := r.Measure()
	if err != nil {
		return nil, false, err
	}
	facts = &rankFacts{Ranks: g.Count(), network: net}
	for i, n := range net.Sizes {
		facts.Exchanges = append(facts.Exchanges, exchangeFact{n, net.Took[i].Seconds()})
	}
	if of.path == "" || m == nil {
		return facts, false, nil
	}
	h, err := of.readHead()
	if err != nil {
		return nil, false, err
	}
	defer h.Close()
	c := h.EngineConfig()
	s, err := model.NewSurvey(h.File, c.KVTypes(), c.Ctx)
	if err == nil && c.Fine {
		s, err = s.Finer()
	}
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", of.path, err)
	}
	p, err := s.Predict(r, model.Machine{ReadBytes: m.Read, Int8MACs: m.Int8}, net)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", of.path, err)
	}
	facts.chosen = p
	facts.Division = &divisionFact{
		By: p.By(), Prompt: p.Prompt, Answer: p.Answer, Rows: p.Rows.Seconds(), One: p.One.Seconds(),
	}
	if p.CanLayers {
		layers := p.Layers.Seconds()
		facts.Division.Layers = &layers
	}
	return facts, false, nil
}

// group returns ranks that follow this one, if it is rank 0, and a function that waits for their end.
func (f *rankFlags) group(ctx context.Context) (g *kernel.Ranks, leave func(), err error) {
	if f.apart() {
		u, err := f.united(ctx, notes(os.Stderr))
		return u.group, func() { u.leave(nil) }, err
	}
	if f.threads == 0 {
		if g, err = kernel.MPIRanks(); err != nil {
			return nil, nil, usagef("--ranks mpi: %w", err)
		}
		return g, g.Close, nil
	}
	all, err := kernel.ThreadRanks(f.threads)
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan error, f.threads)
	for _, g := range all[1:] {
		go func() {
			ended <- (&model.Follower{Group: g}).Run(ctx)
			g.Close()
		}()
	}
	return all[0], func() {
		for range all[1:] {
			<-ended
		}
		all[0].Close()
	}, nil
}

// print writes the facts line by line.
func (r *rankFacts) print(line func(name, format string, args ...any)) {
	for _, e := range r.Exchanges {
		line("exchange "+size(uint64(e.Bytes)), "%s", took(e.Seconds))
	}
	if d := r.Division; d != nil {
		line("divide", "by %s", r.chosen)
	}
}

// took formats a short time.
func took(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(100 * time.Nanosecond).String()
}
