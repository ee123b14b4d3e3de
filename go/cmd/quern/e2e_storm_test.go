package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/demo"
)

// stormSeed names the variable that repeats a storm.
const stormSeed = "STORM_SEED"

// A stormRequest is a request of a storm, and the texts that it gets alone.
type stormRequest struct {
	path  string
	body  map[string]any
	alone []string
}

// texts sends the request and returns the texts of its answer; none where it ended without one, with the status.
func (r *stormRequest) texts(ctx context.Context, s *service) (texts []string, status int) {
	b, err := json.Marshal(r.body)
	if err != nil {
		s.t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(ctx, "POST", "http://quern"+r.path, bytes.NewReader(b))
	if err != nil {
		s.t.Fatal(err)
	}
	q.Header.Set("Content-Type", "application/json")
	a, err := s.client.Do(q)
	if err != nil {
		return nil, 0
	}
	defer a.Body.Close()
	all, err := io.ReadAll(a.Body)
	if err != nil || a.StatusCode != 200 {
		return nil, a.StatusCode
	}
	var v struct {
		Content *string
		Choices []struct{ Text string }
	}
	if json.Unmarshal(all, &v) != nil {
		s.t.Errorf("%s: %s", r.path, all)
	}
	if v.Content != nil {
		return []string{*v.Content}, 200
	}
	for _, c := range v.Choices {
		texts = append(texts, c.Text)
	}
	return texts, 200
}

// stormRequests are requests to some models: texts that share beginnings, some longer than the context; greedy and
// drawn; several answers; answers by a grammar and by a schema; some before others.
func stormRequests(rng *rand.Rand, models []string, n int) (all []*stormRequest) {
	words := strings.Fields("Once upon a time there was a little girl named Lily who loved to play with her red ball in the park and one day she saw a big dog")
	for i := range n {
		prompt := strings.Join(words[:2+rng.IntN(len(words)-2)], " ")
		for range rng.IntN(20) {
			prompt += " " + words[rng.IntN(len(words))]
		}
		r := &stormRequest{path: "/completion", body: map[string]any{
			"model": models[i%len(models)], "prompt": prompt, "n_predict": 5 + rng.IntN(60), "seed": rng.IntN(1000),
			"temperature": []float64{0, 0.8, 1.2}[rng.IntN(3)],
		}}
		if rng.IntN(4) == 0 {
			r.body["priority"] = 5
		}
		kind := rng.IntN(6)
		if i%len(models) == 0 && rng.IntN(3) == 0 || i == 0 { // the first model: the others have no tokens for JSON
			kind = 6
		}
		switch kind {
		case 0: // past the end of the context
			r.body["n_predict"], r.body["ignore_eos"] = 260, true
		case 1:
			r.body["n_predict"] = 60
			r.body["grammar"] = `root ::= "I " ("saw " | "like ") [a-z ]{1,20} "."`
		case 6:
			r.body["n_predict"] = 60
			r.body["json_schema"] = map[string]any{
				"type": "object", "required": []string{"kind", "n"}, "additionalProperties": false,
				"properties": map[string]any{"kind": map[string]any{"enum": []string{"dog", "cat"}}, "n": map[string]any{"type": "integer", "maximum": 99}},
			}
		case 2:
			r.path = "/v1/completions"
			r.body["n"], r.body["max_tokens"] = 3, r.body["n_predict"]
			delete(r.body, "n_predict")
		}
		all = append(all, r)
	}
	return all
}

// stormModels are models by their names in the server. The first has a draft model, which is itself.
var stormModels = [][2]string{
	{"demo", demo.Name}, {"story", "TinyStories-656K-f32.gguf"}, {"half", "TinyStories-656K-x2-f16.gguf"}, {"baby", "BabyLlama105-f16.gguf"},
	{"moe", "TinyStories-656K-moe4x2-f16.gguf"}, {"qwen", "TinyStories-656K-qwen2arch-f16.gguf"},
}

// sum adds a metric up, over models and whatever else it is by.
func (s *service) sum(name string) (total float64) {
	s.t.Helper()
	_, all := s.get("/metrics")
	for line := range strings.Lines(all) {
		if rest, ok := strings.CutPrefix(line, name+"{"); ok {
			v, err := strconv.ParseFloat(strings.TrimSpace(rest[strings.LastIndex(rest, "}")+1:]), 64)
			if err != nil {
				s.t.Fatal(err)
			}
			total += v
		}
	}
	return total
}

// Everything at once over HTTP, with several models in one server, drafts and preemptions: every text that is finished is
// what the same request got alone. The seed is in the log; STORM_SEED=N repeats it.
func TestServeStorm(t *testing.T) {
	t.Parallel()
	took := 20 * time.Second
	if testing.Short() {
		took = 5 * time.Second
	}
	seed := uint64(time.Now().UnixNano())
	if v := os.Getenv(stormSeed); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatalf("%s: %v", stormSeed, err)
		}
	}
	t.Logf("%s=%d", stormSeed, seed)
	for name, flags := range map[string][]string{
		"context shift": {"--context-shift"},
		"tiers on disk": {"--kv-tiers", "128:i16,*:q8_0", "--cache-disk", t.TempDir()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 1))
			args := append([]string{"-c", "256", "--parallel", "6", "--queue", "64", "--kv-memory", "2M", "-t", "2"}, flags...)
			var names []string
			for _, m := range stormModels {
				args = append(args, "-m", m[0]+"="+modelPath(t, m[1]))
				names = append(names, m[0])
			}
			args = append(args, "-md", demo.Name)
			s := serve(t, "", args...)
			all := stormRequests(rng, names, 48)
			for _, r := range all {
				var status int
				if r.alone, status = r.texts(t.Context(), s); status != 200 {
					t.Fatalf("alone: %d for %v", status, r.body)
				}
			}
			var wg sync.WaitGroup
			var mu sync.Mutex
			counts := map[string]int{}
			end := time.Now().Add(took)
			for w := range 24 {
				rng := rand.New(rand.NewPCG(seed, uint64(w)+2))
				wg.Go(func() {
					for time.Now().Before(end) {
						r := all[rng.IntN(len(all))]
						ctx, cancel := context.WithCancel(t.Context())
						if rng.IntN(4) == 0 {
							time.AfterFunc(time.Duration(rng.IntN(60))*time.Millisecond, cancel)
						}
						texts, status := r.texts(ctx, s)
						left := ctx.Err() != nil
						cancel()
						kind := "finished"
						switch {
						case status == 429:
							kind = "refused"
						case status == 0 && left:
							kind = "cancelled"
						case status != 200:
							if !left {
								t.Errorf("%d for %v", status, r.body)
							}
							kind = "failed"
						case fmt.Sprintf("%q", texts) != fmt.Sprintf("%q", r.alone):
							t.Errorf("%v\ngot %q\nalone %q", r.body, texts, r.alone)
						}
						mu.Lock()
						counts[kind]++
						mu.Unlock()
					}
				})
			}
			wg.Wait()
			t.Log(counts)
			preempted, drafts, accepted := s.sum("quern_preemptions_total"), s.sum("quern_draft_tokens_total"), s.sum("quern_draft_accepted_tokens_total")
			t.Logf("%v preemptions, %v draft tokens, %v of them accepted", preempted, drafts, accepted)
			// The draft model is there, and rests: for models as small as these, its guesses cost more than they save.
			if drafter := s.sum("quern_draft_model_bytes"); counts["finished"] < 50 || counts["cancelled"] == 0 || preempted == 0 || accepted == 0 || accepted == drafts || drafter == 0 {
				t.Errorf("%v: the storm was none", counts)
			}
			if log := s.log.String(); regexp.MustCompile(`"level":"error"|panic`).MatchString(log) {
				t.Error("its log has errors")
			}
		})
	}
}
