// Package distil makes what a small model learns to draft for a larger one: the larger one's own answers (Kim and Rush 2016,
// "Sequence-Level Knowledge Distillation"), and measures how many of its drafts are accepted.
package distil

import (
	"context"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/sample"
)

// Streams is how many answers an engine writes at a time, for which it must be opened.
const Streams = 4

// A Question is how answers are written. The answer to a prompt depends on these, on the model, on the prompt and on its index
// alone.
type Question struct {
	MaxTokens int                 // of an answer
	Context   int                 // of a prompt with its answer
	Temp      float64             // 0: the likeliest tokens
	Seed      uint64              // of the first prompt; others have those after it
	Stop      func(id int32) bool // whether a token ends an answer, of which it is a part
}

// params are those of prompt i.
func (q *Question) params(i int, prompt []int32) generate.Params {
	return generate.Params{Prompt: prompt, MaxTokens: min(q.MaxTokens, q.Context-len(prompt)), TopLogprobs: -1, Stop: q.Stop,
		Sampling: sample.Params{Temp: float32(q.Temp), Seed: q.Seed + uint64(i), TopP: 1, RepeatPenalty: 1, XTCThreshold: 1, TypicalP: 1}}
}

// Answer has the engine answer the prompts of which answers has none yet (nil), and calls done, unless it is nil, after each.
// On an error answers has those that are complete.
func (q *Question) Answer(ctx context.Context, eng *engine.Engine, prompts, answers [][]int32, done func() error) (err error) {
	loop, err := engine.NewLoop(eng, engine.LoopConfig{Queue: Streams})
	if err != nil {
		return err
	}
	defer loop.Close()
	ended := make(chan *answer, Streams) // as many as are under way
	running := map[*answer]*engine.Ticket{}
	defer func() {
		for _, ticket := range running {
			ticket.Cancel()
		}
		for range running {
			<-ended
		}
	}()
	for next := 0; ; {
		for ; next < len(prompts) && len(running) < Streams; next++ {
			if answers[next] != nil {
				continue
			}
			a := &answer{i: next, ended: ended}
			ticket, err := loop.Submit(&engine.Request{Params: q.params(next, prompts[next]), NoCache: true, Slot: -1, Sink: a})
			if err != nil {
				return err
			}
			running[a] = ticket
		}
		if len(running) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case a := <-ended:
			delete(running, a)
			if a.err != nil {
				return a.err
			}
			answers[a.i] = append([]int32{}, a.ids...) // not nil, even if there is nothing in it
			if done != nil {
				if err := done(); err != nil {
					return err
				}
			}
		}
	}
}

// An answer is one that is being written.
type answer struct {
	i     int // of the prompt
	ids   []int32
	err   error
	ended chan<- *answer
}

func (a *answer) Progress(engine.Progress) {}

func (a *answer) Token(t generate.Token) bool {
	a.ids = append(a.ids, t.ID)
	return true
}

func (a *answer) Done(r engine.Result) {
	a.err = r.Err
	a.ended <- a
}
