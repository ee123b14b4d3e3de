package answer_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Several answers to a prompt are those that each seed gives alone, whatever else
// runs. The first prompts are slices with room behind them.
func TestAnswersAreThoseOfTheirSeeds(t *testing.T) {
	t.Parallel()
	const n, tokens = 4, 24
	s := fake.Demo(t, fake.Setup{})
	type completion struct{ Choices []struct{ Text string } }
	ask := func(prompt string, n, seed int) []string {
		body := fmt.Sprintf(`{"prompt":%q,"n":%d,"seed":%d,"max_tokens":%d,"temperature":1}`, prompt, n, seed, tokens)
		var texts []string
		for _, c := range fake.Post[completion](s, "/v1/completions", body).Choices {
			texts = append(texts, c.Text)
		}
		return texts
	}
	prompts := []string{"Once upon a time, there was a", "There", "The dog and the cat went to", "Lily"}
	const rounds = 3
	want := map[string]string{}
	for _, p := range prompts {
		for seed := range rounds * n {
			want[fmt.Sprint(p, seed)] = ask(p, 1, seed)[0]
		}
	}
	var wg sync.WaitGroup
	for _, p := range prompts {
		wg.Go(func() {
			for round := range rounds {
				for i, got := range ask(p, n, round*n) {
					if alone := want[fmt.Sprint(p, round*n+i)]; got != alone {
						t.Errorf("%q, seed %d: %q among others, %q alone", p, round*n+i, got, alone)
					}
				}
			}
		})
	}
	wg.Wait()
}

// panicky is a sink that fails in one of its methods.
type panicky struct {
	engine.Sink
	in   string
	left int // tokens until then
}

func (p *panicky) Progress(q engine.Progress) {
	if p.in == "progress" {
		panic("no progress")
	}
	p.Sink.Progress(q)
}

func (p *panicky) Token(t generate.Token) bool {
	if p.left--; p.in == "token" && p.left == 0 {
		panic("no token")
	}
	return p.Sink.Token(t)
}

// A request whose answer cannot be made ends with 500, and no other with it. The
// log says why.
func TestPanicEndsOneRequest(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var in string
	var logged []string
	s := fake.Demo(t, fake.Setup{Loop: engine.LoopConfig{OnPanic: func(p *engine.PanicError) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, fmt.Sprint(p.Value, "\n", string(p.Stack)))
	}}, Submitted: func(r *engine.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Sampling.Seed == 666 {
			r.Sink = &panicky{r.Sink, in, 5}
			if in == "done" { // the server's own sink, with nothing to make text of
				r.Sink.(*panicky).Sink.(*answer.Sequence).Break()
			}
		}
	}})
	body := func(seed int, stream bool) string {
		return fmt.Sprintf(`{"prompt":"Once upon a time","n_predict":40,"seed":%d,"ignore_eos":true,"stream":%v}`, seed,
			stream)
	}
	type native struct{ Content string }
	want := fake.Post[native](s, "/completion", body(1, false)).Content
	for _, in = range []string{"progress", "token", "done"} {
		logged = nil
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if got := fake.Post[native](s, "/completion", body(1, false)).Content; got != want {
					t.Errorf("%s: one beside it got %q, want %q", in, got, want)
				}
			})
		}
		status, answer, _ := s.Do("POST", "/completion", body(666, false))
		if status != 500 || !strings.Contains(string(answer), "internal error") {
			t.Errorf("%s: %d %s", in, status, answer)
		}
		wg.Wait()
		mu.Lock()
		if len(logged) == 0 || !strings.Contains(logged[0], ".go:") {
			t.Errorf("%s: the log has %q", in, logged)
		}
		mu.Unlock()
		_, answer, _ = s.Do("POST", "/completion", body(666, true))
		if !strings.Contains(string(answer), "internal error") {
			t.Errorf("%s: a stream ends with %s", in, answer)
		}
	}
	if got := fake.Post[native](s, "/completion", body(1, false)).Content; got != want {
		t.Errorf("afterwards %q, want %q", got, want)
	}
}
