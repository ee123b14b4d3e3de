package answer_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// crowded is an engine that has room for few texts at a time, and ends them when the request waits for one.
type crowded struct {
	*fake.Engine
	slots, room int // of room 0 it refuses all

	mu      sync.Mutex
	running []*engine.Request
	most    int
	refused int
}

func (e *crowded) Status() engine.Status {
	return engine.Status{Slots: make([]engine.SlotStatus, e.slots)}
}

func (e *crowded) Submit(r *engine.Request) (ask.Ticket, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.running) == e.room {
		e.refused++
		return nil, &engine.BusyError{Queued: e.room, RetryAfter: time.Second}
	}
	e.running = append(e.running, r)
	e.most = max(e.most, len(e.running))
	if len(e.running) == 1 {
		time.AfterFunc(20*time.Millisecond, func() { // by then the others of the window are here
			e.mu.Lock()
			all := e.running
			e.running = nil
			e.mu.Unlock()
			for _, r := range all {
				for i := range r.Prompt {
					r.Reader.Read(i, []float32{3, 4})
				}
				r.Reader.End(nil)
				r.Sink.Done(engine.Result{Usage: engine.Usage{PromptTokens: len(r.Prompt), CachedTokens: 1}})
			}
		})
	}
	return ticketOf(7), nil
}

type ticketOf uint64

func (n ticketOf) ID() uint64 { return uint64(n) }
func (n ticketOf) Cancel()    {}

// All texts of a request are read, as many at a time as there is room for and no more than its share; only where none of
// them runs is there no waiting.
func TestTextsInTurn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		slots, room int
		encoder     bool
		most        int
	}{{4, 9, false, 1}, {8, 9, false, 2}, {8, 1, false, 1}, {3, 9, true, 3}, {9, 2, true, 2}, {4, 0, false, 0}} {
		e := &crowded{slots: c.slots, room: c.room}
		s := fake.New(t, "", func(_ *server.Config, m *ask.Model, f *fake.Engine) {
			e.Engine = f
			m.Engine, m.Encoder, m.Pooling = e, c.encoder, nn.PoolMean
		})
		status, b, h := s.Do("POST", "/v1/embeddings", `{"input":["a","bc","def","g","h","i"],"priority":3}`)
		if c.room == 0 {
			if status != 429 || h.Get("Retry-After") != "1" || e.refused != 1 {
				t.Errorf("%+v: %d %s, refused %d times", c, status, b, e.refused)
			}
			continue
		}
		got := fake.Parse[struct {
			Data  []struct{ Embedding []float64 }
			Usage struct {
				Prompt int `json:"prompt_tokens"`
			}
		}](t, b)
		if status != 200 || len(got.Data) != 6 || got.Usage.Prompt != 9+6 || e.most != c.most || (e.refused > 0) != (c.room < 9) {
			t.Errorf("%+v: %d %s, %d at a time, refused %d times", c, status, b, e.most, e.refused)
		}
	}
}

// What the engine is asked about a text is what the request says of it.
func TestRequestsOfTexts(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Pooling = nn.PoolMean })
	begun := time.Now()
	fake.Post[struct{}](s, "/v1/embeddings", `{"input":"a","priority":-3,"deadline_ms":60000}`)
	r := s.Last()
	if r.Priority != -3 || r.Slot != -1 || r.TopLogprobs != -1 || !r.NoCache || r.Deadline.Before(begun.Add(time.Minute)) ||
		r.Deadline.After(time.Now().Add(time.Minute)) {
		t.Errorf("%+v", r)
	}
	s.Model().Pooling = nn.PoolLast // whose tokens before the last may come from the cache
	fake.Post[struct{}](s, "/v1/embeddings", `{"input":"ab"}`)
	if r := s.Last(); r.NoCache || !r.Deadline.IsZero() || r.Priority != 0 {
		t.Errorf("%+v", r)
	}
	for header, want := range map[string]int{"5": 200, "soon": 400} {
		r, _ := http.NewRequest("POST", s.URL+"/v1/embeddings", strings.NewReader(`{"input":"a"}`))
		r.Header.Set("X-Request-Timeout", header)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != want {
			t.Errorf("a timeout of %s: %d", header, resp.StatusCode)
		}
	}
	s.Model().Pooling = nn.PoolRank
	if status, b, _ := s.Do("POST", "/v1/embeddings", `{"input":"a"}`); status != 501 || !strings.Contains(string(b), "use /v1/rerank") {
		t.Errorf("of a model that scores: %d %s", status, b)
	}
	s.Model().VectorsOnly = "it makes vectors"
	if status, b, _ := s.Do("POST", "/completion", `{"prompt":"a"}`); status != 501 || !strings.Contains(string(b), "it makes vectors; use /v1/embeddings") {
		t.Errorf("a text of a model that makes none: %d %s", status, b)
	}
}

// Texts are read to so many tokens, or as many as the model takes, and not beyond the context; a list of ids as a text.
func TestTextsThatAreCut(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	letters := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		maxText, cut, letters, tokens int // with BOS; 0: it is refused
	}{
		{0, 0, 510, 511}, {0, 0, 511, 0}, {0, 0, 900, 0}, {0, 3, 900, 3}, {0, 3, 2, 3}, {0, 3, 1, 2}, {0, 1, 9, 1}, {0, -1, 400, 401}, {100, -1, 400, 100},
		{100, 0, 400, 401}, {100, 200, 400, 100}, {100, 99, 400, 99}, {900, -1, 511, 0}, {0, 600, 510, 511},
	} {
		s.Requests = nil
		s.Model().MaxText = c.maxText
		status, b, _ := s.Do("POST", "/v1/embeddings", fmt.Sprintf(`{"input":"%s","truncate_prompt_tokens":%d}`, letters(c.letters), c.cut))
		if (status == 200) != (c.tokens > 0) || status == 200 && len(s.Last().Prompt) != c.tokens {
			t.Errorf("%+v: %d %.200s", c, status, b)
		}
	}
	s.Model().MaxText = 0
	fake.Post[struct{}](s, "/v1/embeddings", `{"input":[[100,101,102]],"truncate_prompt_tokens":2}`)
	if got := s.Last().Prompt; !slices.Equal(got, []int32{100, 101}) {
		t.Errorf("ids are cut to %v", got)
	}
	// Of several, the one that is too long is named; ids are counted before texts are encoded.
	for inputs, want := range map[string]string{
		`"a","` + letters(600) + `"`: "element 1 has 601 tokens", `"` + letters(600) + `","a"`: "element 0 has 601 tokens",
		`"a",[` + strings.TrimSuffix(strings.Repeat("7,", 513), ",") + `]`: "element 1 has 513 tokens", `"` + letters(600) + `"`: "the request has 601 tokens",
		`[` + strings.TrimSuffix(strings.Repeat("7,", 513), ",") + `]`: "the request has 513 tokens",
	} {
		if status, b, _ := s.Do("POST", "/v1/embeddings", `{"input":[`+inputs+`]}`); status != 400 || !strings.HasPrefix(fake.ErrorOf(t, b).Message, want) {
			t.Errorf("%.20s: %d %s, want %s", inputs, status, b, want)
		}
	}
}

// A model's prompts stand before texts: the one that is asked for, or its default; before ids there is none.
func TestPromptsOfVectors(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", func(_ *server.Config, m *ask.Model, _ *fake.Engine) {
		m.Prompts = nn.Prompts{Names: []string{"query", "none", "doc"}, Texts: []string{"q:", "", "d:"}, Default: "doc"}
	})
	prompts := func(fields string) (all []string) {
		t.Helper()
		s.Requests = nil
		fake.Post[struct{}](s, "/v1/embeddings", `{"input":["a",[100,101],[102,"b"],["b",102]]`+fields+`}`)
		for _, r := range s.Requests {
			all = append(all, s.Tok.Detokenize(r.Prompt, true))
		}
		return all
	}
	for fields, before := range map[string]string{"": "d:", `,"prompt_name":""`: "d:", `,"prompt_name":"query"`: "q:", `,"prompt_name":"none"`: ""} {
		want := []string{"<s>" + before + "a", "ab", "cb", "<s>" + before + "bc"}
		if got := prompts(fields); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", fields, got, want)
		}
	}
	if status, b, _ := s.Do("POST", "/v1/embeddings", `{"input":"a","prompt_name":"Query"}`); status != 400 ||
		fake.ErrorOf(t, b).Message != "prompt_name: \"Query\", want one of the model's: [\"query\" \"none\" \"doc\"]" {
		t.Errorf("%d %s", status, b)
	}
}

// Reasoning is where the request wants it, in whole answers as in streams, and calls are told apart from both.
func TestPlacesOfReasoning(t *testing.T) {
	t.Parallel()
	s := fake.Says(t, scripted.Script{When: "tools", Text: "<think>\nA tool?\n</think>\n\n" + fake.Calls}, scripted.Script{Text: "<think>\nHm, no.\n</think>\n\nHello."})
	type message struct {
		Content   string
		Reasoning string `json:"reasoning_content"`
		Calls     []struct {
			ID, Type string
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	}
	const tools = `,"tools":[{"type":"function","function":{"name":"get_weather"}},{"type":"function","function":{"name":"get_time"}}]`
	for format, want := range map[string]message{
		"":                {Content: "Hello.", Reasoning: "Hm, no."},
		"auto":            {Content: "Hello.", Reasoning: "Hm, no."},
		"deepseek":        {Content: "Hello.", Reasoning: "Hm, no."},
		"none":            {Content: "<think>\nHm, no.\n</think>\n\nHello."},
		"deepseek-legacy": {Content: "<think>\nHm, no.\n</think>\n\nHello.", Reasoning: "Hm, no."},
	} {
		fields := ""
		if format != "" {
			fields = `,"reasoning_format":"` + format + `"`
		}
		whole := fake.Post[struct{ Choices []struct{ Message message } }](s, "/v1/chat/completions", `{`+fake.Hi+`,"temperature":0`+fields+`}`).Choices[0].Message
		var streamed message
		for _, data := range s.Events("/v1/chat/completions", `{`+fake.Hi+`,"temperature":0,"stream":true`+fields+`}`) {
			if data == "[DONE]" {
				break
			}
			for _, c := range fake.Parse[struct{ Choices []struct{ Delta message } }](t, []byte(data)).Choices {
				streamed.Content += c.Delta.Content
				streamed.Reasoning += c.Delta.Reasoning
			}
		}
		for how, got := range map[string]message{"whole": whole, "streamed": streamed} {
			if got.Content != want.Content || got.Reasoning != want.Reasoning || got.Calls != nil {
				t.Errorf("%q, %s: %+v, want %+v", format, how, got, want)
			}
		}
		called := fake.Post[struct {
			Choices []struct {
				Message message
				Reason  string `json:"finish_reason"`
			}
		}](s, "/v1/chat/completions", `{`+fake.Hi+tools+`,"temperature":0`+fields+`}`).Choices[0]
		m := called.Message
		if called.Reason != "tool_calls" || len(m.Calls) != 2 || m.Calls[0].Function.Name != "get_weather" || m.Calls[1].Function.Name != "get_time" ||
			strings.ReplaceAll(m.Calls[0].Function.Arguments, " ", "") != `{"place":"Rome"}` || m.Calls[0].Type != "function" || m.Calls[0].ID == m.Calls[1].ID ||
			strings.Contains(m.Content, "tool_call") || !strings.Contains(m.Content, "Let me see.") {
			t.Errorf("%q with tools: %+v", format, called)
		}
	}
}

// Tokens have the model's log-probabilities, or the probabilities after the samplers, each with as many others as were
// asked for.
func TestProbabilitiesOfTokens(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "ab", nil)
	type one struct {
		ID      int32
		Token   string
		Bytes   []int
		Logprob *float64
		Prob    *float64
		Top     []one `json:"top_logprobs"`
		Chances []one `json:"top_probs"`
	}
	for fields, post := range map[string]bool{"": false, `,"post_sampling_probs":true`: true} {
		got := fake.Post[struct {
			Probs []one `json:"completion_probabilities"`
		}](s, "/completion", `{"prompt":"x","n_probs":2`+fields+`}`).Probs
		if len(got) != 2 || got[0].Token != "a" || got[1].Token != "b" || !slices.Equal(got[1].Bytes, []int{'b'}) {
			t.Fatalf("%+v", got)
		}
		for _, p := range got {
			others, values := p.Top, func(p one) *float64 { return p.Logprob }
			of := func(v float64) float64 { return v }
			if post {
				others, values, of = p.Chances, func(p one) *float64 { return p.Prob }, math.Exp
			}
			if v := values(p); v == nil || math.Abs(*v-of(-0.5)) > 1e-6 || len(others) != 2 || len(p.Top)+len(p.Chances) != 2 ||
				(p.Logprob != nil) == post || (p.Prob != nil) != post {
				t.Fatalf("%s: %+v", fields, p)
			}
			for k, o := range others {
				if v := values(o); v == nil || o.ID != p.ID+int32(k) || math.Abs(*v-of(-0.5-float64(k))) > 1e-6 || len(o.Bytes) != 1 {
					t.Errorf("%s: %+v", fields, o)
				}
			}
		}
	}
	if _, b, _ := s.Do("POST", "/completion", `{"prompt":"x"}`); strings.Contains(string(b), "probabilities") {
		t.Errorf("what was not asked for: %s", b)
	}
}

// As many answers as a request may have are given, and the ids of its stream's tokens are those of the whole.
func TestMostAnswers(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "ab", nil)
	if got := fake.Post[struct{ Choices []struct{ Index int } }](s, "/v1/completions", `{"prompt":["x","y"],"n":64,"max_tokens":1}`).Choices; len(got) != 128 || got[127].Index != 127 {
		t.Errorf("%d answers", len(got))
	}
	if status, b, _ := s.Do("POST", "/v1/completions", `{"prompt":["x","y"],"n":65,"max_tokens":1}`); status != 400 ||
		fake.ErrorOf(t, b).Message != "n: 65 answers to each of 2 prompts, want 128 in all at most" {
		t.Errorf("%d %s", status, b)
	}
	type native struct{ Tokens []int32 }
	for fields, want := range map[string]int{``: 0, `,"return_tokens":true`: 2, `,"return_tokens":true,"n_predict":1`: 1} {
		if got := fake.Post[native](s, "/completion", `{"prompt":"x"`+fields+`}`).Tokens; got == nil || len(got) != want {
			t.Errorf("%s: tokens %v", fields, got)
		}
	}
}

// Details of an error that clients are not told are in the log, with the stack of a panic; those that they are told are
// not.
func TestHiddenErrors(t *testing.T) {
	t.Parallel()
	secret := errors.New("the secret")
	stack := &panics.Panic{Value: "the secret", Stack: []byte("main.go:7")}
	for _, c := range []struct {
		err   error
		lines int
		stack bool
	}{{secret, 1, false}, {stack, 1, true}, {fmt.Errorf("more: %w", stack), 1, true}, {&engine.BusyError{}, 0, false}, {engine.ErrDeadline, 0, false}, {answer.ErrAnswers, 0, false}} {
		for _, stream := range []bool{false, true} {
			for _, later := range []bool{false, true} {
				var log fake.Log
				s := fake.New(t, "Hello", func(conf *server.Config, _ *ask.Model, f *fake.Engine) {
					conf.Log = zerolog.New(&log)
					if later {
						f.Ends = c.err
					} else {
						f.Err = c.err
					}
				})
				_, b, _ := s.Do("POST", "/v1/completions", fmt.Sprintf(`{"prompt":"x","stream":%v}`, stream))
				text := log.String()
				if strings.Count(text, `"message":"request failed"`) != c.lines || strings.Contains(text, "the secret") != (c.lines > 0) ||
					c.lines > 0 && !strings.Contains(text, `"path":"/v1/completions"`) || strings.Contains(text, "main.go:7") != c.stack || strings.Contains(string(b), "secret") {
					t.Errorf("%v, stream %v, later %v: %s, and the log has %s", c.err, stream, later, b, text)
				}
			}
		}
	}
}

// What may take more memory than there is is told how much: 64 bytes for each of a body's if they are there, at least 8.
func TestMemoryOfPrompts(t *testing.T) {
	t.Parallel()
	s := fake.Demo(t, fake.Setup{})
	budget := s.Device.Budget()
	for _, tt := range []struct{ limit, length int }{{64 << 20, 9 << 20}, {40 << 20, 6 << 20}} {
		budget.SetLimit(uint64(tt.limit), "test")
		body := `{"content":"` + strings.Repeat("a", tt.length) + `"}`
		status, b, _ := s.Do("POST", "/tokenize", body)
		if want := fmt.Sprintf("the prompt may take %.1f MB of memory", float64(8*len(body))/1e6); status != http.StatusRequestEntityTooLarge || !strings.HasPrefix(fake.ErrorOf(t, b).Message, want) {
			t.Errorf("%+v: %d %s, want %s", tt, status, b, want)
		}
	}
}

// Parameters of the query are on or off.
func TestSwitches(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	for query, want := range map[string]int{"true": 200, "1": 200, "false": 200, "0": 200, "": 400, "yes": 400, "2": 400, "TRUE": 400} {
		status, b, _ := s.Do("GET", "/slots?fail_on_no_slot="+query, "")
		if status != want || want == 400 && !strings.HasPrefix(fake.ErrorOf(t, b).Message, `fail_on_no_slot: "`+query+`", want true or false`) {
			t.Errorf("%q: %d %s", query, status, b)
		}
	}
}
