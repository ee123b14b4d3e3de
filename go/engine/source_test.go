package engine

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
)

// A model with an encoder and a decoder answers texts in company, and where memory runs out, as it does alone, and
// begins as another implementation does.
func TestAnswers(t *testing.T) {
	path := testdata.Path(t, "archs/t5.gguf")
	raw, err := os.ReadFile(testdata.Path(t, "archs/t5.json"))
	if err != nil {
		t.Fatal(err)
	}
	var w struct {
		IDs []int32
		Top []struct{ Top [][2]float64 } `json:"logits_top"`
	}
	if err := json.Unmarshal(raw, &w); err != nil {
		t.Fatal(err)
	}
	const n = 40
	c := Config{Sequences: 4, Ctx: 192, KV: kvcache.Both(kvcache.F32)}
	texts := [][]int32{w.IDs, w.IDs[3:40], w.IDs[5:41], w.IDs[7:44], w.IDs[9:46], w.IDs[:1], w.IDs[:65]}
	e := open(t, path, c)
	var want [][]int32
	for _, ids := range texts {
		want = append(want, greedy(t, e, ids, n))
	}
	if best := int32(w.Top[0].Top[0][0]); want[0][0] != best {
		t.Errorf("the answer begins with %d, want %d", want[0][0], best)
	}
	s := e.NewSequence()
	defer s.Close()
	if err := e.Eval(context.Background(), s, w.IDs, 0, nil); !errors.Is(err, ErrAnswers) {
		t.Errorf("evaluation of a text: %v", err)
	}
	c.Vectors = true
	c.Device = device(t, 1)
	if _, err := Open(path, c); !errors.Is(err, ErrAnswers) {
		t.Errorf("vectors: %v", err)
	}
	for name, bytes := range map[string]uint64{"together": 0, "in little memory": e.kv.Layout().Bytes(256)} {
		c := Config{Sequences: 4, Ctx: 192, KV: c.KV, Shared: true, KVBytes: bytes}
		l := openLoop(t, path, c, LoopConfig{})
		var sinks []*catcher
		begun, all := make(chan struct{}), make(chan struct{})
		for i, ids := range texts {
			r := greedyRequest(ids, n)
			if i == 0 {
				r.Sink.(*catcher).on = func(n int) {
					if n == 3 {
						close(begun)
						<-all
					}
				}
			} else {
				<-begun
				r.Priority = 1 // which the first has to make room for
			}
			_, s := submit(t, l, r)
			sinks = append(sinks, s)
		}
		close(all)
		preempted := 0
		for i, s := range sinks {
			preempted += s.wait(t).Preempted
			if !slices.Equal(s.ids, want[i]) {
				t.Errorf("%s: text %d: %v, want %v", name, i, s.ids, want[i])
			}
		}
		if bytes > 0 && preempted == 0 {
			t.Errorf("%s: no request was preempted", name)
		}
		r := greedyRequest(w.IDs, 0)
		r.Reader, err = l.Embedding(len(w.IDs), nn.PoolLast)
		if err == nil {
			_, err = l.Submit(r)
		}
		if !errors.Is(err, ErrAnswers) {
			t.Errorf("a request for a vector: %v", err)
		}
	}
}

// A text and the token that its answer begins with need room.
func TestAnswersNeedTwoTokens(t *testing.T) {
	f, err := model.OpenFile(testdata.Path(t, "archs/t5.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	if e, err := New(f, Config{Device: device(t, 1), Ctx: 1}); err == nil || !strings.Contains(err.Error(), "needs 2") {
		t.Errorf("a context of 1: %v", err)
		e.Close()
	}
}
