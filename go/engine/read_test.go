package engine

import (
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/model/nn"
)

// rowReader keeps the largest number of each row of logits.
type rowReader struct {
	rows int
	best []float32
	ends int
}

func (r *rowReader) Reads() (string, int, int)             { return nn.Logits, 0, r.rows }
func (r *rowReader) Read(_ int, row []float32)             { r.best = append(r.best, slices.Max(row)) }
func (r *rowReader) End(func(string, []float32) []float32) { r.ends++ }

// A request with a Reader generates what it generates without, and the Reader gets each row once, also where the
// request is preempted and its prompt evaluated again.
func TestReaderBesideGeneration(t *testing.T) {
	const prompt, answer = 50, 12
	probe := open(t, tiny, Config{})
	c := Config{Sequences: 1, Batch: 16, Ctx: prompt + answer + 1}
	c.KVBytes = least(probe.kv.Layout(), c.Ctx)
	l := openLoop(t, tiny, c, LoopConfig{})
	ids := randomIDs(probe, 1, prompt)
	_, plain := submit(t, l, greedyRequest(ids, answer))
	plain.wait(t)

	ask := func(n int) (*rowReader, *Request) {
		r, reader := greedyRequest(ids, n), &rowReader{rows: len(ids)}
		r.Reader = reader
		return reader, r
	}
	alone, r := ask(0)
	_, s := submit(t, l, r)
	s.said(t, "a reader alone", nil, generate.MaxedOut)

	both, r := ask(answer)
	begun, other := make(chan struct{}), make(chan struct{})
	r.Sink.(*catcher).on = func(n int) {
		if n == 3 {
			close(begun)
			<-other
		}
	}
	_, s = submit(t, l, r)
	<-begun
	urgent := greedyRequest(randomIDs(probe, 2, prompt), answer)
	urgent.Priority = 1
	submit(t, l, urgent)
	close(other)
	if res := s.said(t, "a reader and an answer", plain.ids, generate.MaxedOut); res.Preempted == 0 {
		t.Errorf("%+v: it was not preempted", res)
	}
	if len(both.best) != prompt || !slices.Equal(both.best, alone.best) || both.ends != 1 || alone.ends != 1 {
		t.Errorf("%d rows and %d ends, %d and %d alone, of %d tokens", len(both.best), both.ends, len(alone.best), alone.ends, prompt)
	}
}
