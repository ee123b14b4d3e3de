package answer_test

import (
	"errors"
	"flag"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

var update = flag.Bool("update", false, "write testdata/requests.txt anew")

// What requests for vectors may have changes on purpose only.
func TestPublishedFields(t *testing.T) {
	t.Parallel()
	q := answer.NewVectorQuery(&ask.Model{Normalize: engine.Euclidean})
	fake.PublishedFields(t, *update, q.Fields())
}

// A fussy engine refuses requests from the nth on, and counts those that are cancelled.
type fussy struct {
	*fake.Engine
	taken int
	err   error

	mu        sync.Mutex
	submitted int
	cancelled []uint64
}

func (f *fussy) Submit(r *engine.Request) (ask.Ticket, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.submitted++; f.submitted > f.taken {
		return nil, f.err
	}
	t, err := f.Engine.Submit(r)
	return fussyTicket{t, f}, err
}

type fussyTicket struct {
	ask.Ticket
	of *fussy
}

func (t fussyTicket) Cancel() {
	t.of.mu.Lock()
	t.of.cancelled = append(t.of.cancelled, t.ID())
	t.of.mu.Unlock()
	t.Ticket.Cancel()
}

// Of several answers all begin, or none: those that did are cancelled, and nothing is reserved for them.
func TestAllAnswersOrNone(t *testing.T) {
	t.Parallel()
	e := &fussy{taken: 2, err: &engine.BusyError{Queued: 3, RetryAfter: time.Second}}
	s := fake.New(t, "Hello", func(_ *server.Config, m *ask.Model, f *fake.Engine) {
		e.Engine, m.Engine = f, e
		f.Delay = 5 * time.Millisecond
	})
	budget := remember(s, 64<<20)
	status, b, h := s.Do("POST", "/completion", `{"prompt":"x","n":3,"ignore_eos":true}`)
	if status != 429 || h.Get("Retry-After") != "1" || len(e.cancelled) != 2 || budget.Used() != 0 {
		t.Errorf("%d %s, cancelled %v, %d bytes are taken", status, b, e.cancelled, budget.Used())
	}
	fake.Eventually(t, "ended", func() bool { return s.Active() == 0 })
	e.submitted = 0
	if got := fake.Post[[]struct{}](s, "/completion", `{"prompt":"x","n":2,"n_predict":1}`); len(got) != 2 {
		t.Errorf("%d answers", len(got))
	}
}

// Where the engine says no time, a client may come again in a second; it is told whole seconds.
func TestTimesToRetry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		want   string
	}{
		{&engine.BusyError{}, 429, "1"}, {&engine.BusyError{RetryAfter: time.Second + 1}, 429, "2"}, {&engine.MemoryError{RetryAfter: time.Minute}, 503, "60"},
		{&engine.MemoryError{RetryAfter: 1}, 503, "1"}, {&engine.MemoryError{}, 503, ""}, {engine.ErrClosing, 503, ""},
	} {
		s := fake.New(t, "", func(_ *server.Config, _ *ask.Model, f *fake.Engine) { f.Err = c.err })
		if status, _, h := s.Do("POST", "/completion", `{"prompt":"x"}`); status != c.status || h.Get("Retry-After") != c.want {
			t.Errorf("%+v: %d, after %q", c.err, status, h.Get("Retry-After"))
		}
	}
}

// Whatever ends a request, nothing stays reserved for it.
func TestNothingStaysReserved(t *testing.T) {
	t.Parallel()
	e := &fussy{}
	var f *fake.Engine
	s := fake.New(t, "Hello", func(c *server.Config, m *ask.Model, of *fake.Engine) {
		e.Engine, m.Engine, f = of, e, of
		c.Caller = func(*gin.Context) answer.Caller { return answer.Caller{Priority: 5} }
	})
	budget := remember(s, 64<<20)
	refuses := errors.New("no")
	for _, c := range []struct {
		path, body string
		err        error // of the engine
		overflows  bool
		status     int
	}{
		{"/completion", `{"prompt":"x","lora":[{"id":0}]}`, nil, false, 400}, {"/completion", `{"prompt":"x","priority":6}`, nil, false, 403},
		{"/completion", `{"prompt":"x","priority":5}`, nil, false, 200}, {"/completion", `{"prompt":"x"}`, refuses, false, 500},
		{"/v1/embeddings", `{"input":["x","yy"],"priority":6}`, nil, false, 403}, {"/v1/embeddings", `{"input":["x","yy"]}`, refuses, false, 500},
		{"/v1/embeddings", `{"input":["x","yy"]}`, nil, true, 500}, {"/v1/embeddings", `{"input":["x","yy"]}`, nil, false, 200},
		{"/v1/rerank", `{"query":"x","documents":["y"]}`, refuses, false, 500}, {"/v1/completions", `{"prompt":"x","max_tokens":1,"echo":true,"logprobs":1}`, nil, true, 500},
	} {
		e.err, f.Overflows, e.taken, e.submitted = c.err, c.overflows, 100, 0
		if c.err != nil {
			e.taken = 0
		}
		status, b, _ := s.Do("POST", c.path, c.body)
		if status != c.status {
			t.Errorf("%+v: %d %s", c, status, b)
		}
		if budget.Used() != 0 && c.status != 200 { // an answer is given back once it is sent
			t.Errorf("%+v: %d bytes are taken", c, budget.Used())
		}
		fake.Eventually(t, "given back", func() bool { return budget.Used() == 0 })
	}
}

// The numbers of an answer take 28 bytes twice: those of each token, or of each text.
func TestMemoryOfVectors(t *testing.T) {
	t.Parallel()
	peak := func(body string, pooling nn.Pooling) int {
		t.Helper()
		s := fake.New(t, "", func(_ *server.Config, m *ask.Model, _ *fake.Engine) {
			m.Pooling, m.Classifier.NScore = pooling, 10
		})
		budget := remember(s, 64<<20)
		s.Model().Info.NEmbd = 100
		fake.Post[any](s, "/embedding", body)
		return int(budget.Peak())
	}
	one := peak(`{"content":"abcdefg"}`, nn.PoolLast)
	for what, c := range map[string]struct{ got, numbers int }{
		"each token":            {peak(`{"content":"abcdefg"}`, nn.PoolNone), 7 * 100},
		"each token's scores":   {peak(`{"content":"abcdefg"}`, nn.PoolTokens), 8*10 - 100},
		"two texts":             {peak(`{"content":["abcdefg","a"]}`, nn.PoolLast), 100},
		"the mean of all of it": {peak(`{"content":"abcdefg"}`, nn.PoolMean), 0},
	} {
		if more := c.got - one - 2*28*c.numbers; more < 0 || more > 100 { // the body and the tokens take some
			t.Errorf("of %s there are %d bytes more than of a text, which are not %d numbers", what, c.got-one, c.numbers)
		}
	}
}

// An answer of llama-server's form tells what it is of, and how it came.
func TestNativeAnswers(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "a\nbc", nil)
	type native struct {
		Index, ID_slot                                    int
		Content, Model, Prompt, Stop_type, Stopping_word  string
		Tokens_predicted, Tokens_evaluated, Tokens_cached int
		Has_new_line, Truncated, Stop                     bool
		Tokens                                            []int32
		Completion_probabilities                          []any
		Generation_settings                               map[string]any
	}
	all := fake.Post[[]native](s, "/completion", `{"prompt":["ab","cdefgh"],"n":2,"stop":"c","n_probs":1}`)
	if len(all) != 4 {
		t.Fatalf("%d answers", len(all))
	}
	for i, a := range all {
		prompt, n, cached := "<s>ab", 3, 2
		if i >= 2 {
			prompt, n, cached = "<s>cdefgh", 7, 4
		}
		if a.Index != i || a.ID_slot != 1 || a.Content != "a\nb" || a.Model != "fake/model" || a.Prompt != prompt || a.Stop_type != "word" || a.Stopping_word != "c" ||
			a.Tokens_predicted != 4 || a.Tokens_evaluated != n || a.Tokens_cached != cached || !a.Has_new_line || a.Truncated || !a.Stop || len(a.Tokens) != 0 ||
			len(a.Completion_probabilities) != 3 || a.Generation_settings["n_probs"] != 1.0 {
			t.Errorf("%d: %+v", i, a)
		}
	}
	for fields, want := range map[string]int{``: 0, `,"logprobs":true`: 4, `,"logprobs":true,"top_logprobs":2`: 4} {
		got := fake.Post[struct {
			Verbose native `json:"__verbose"`
		}](s, "/v1/chat/completions", `{`+fake.Hi+`,"verbose":true`+fields+`}`).Verbose
		if len(got.Completion_probabilities) != want || got.Content != "a\nbc" {
			t.Errorf("%s: %+v", fields, got)
		}
	}
	if a := fake.Post[native](s, "/completion", `{"prompt":"x","n_predict":1}`); a.Has_new_line || a.Stop_type != "limit" || a.Stopping_word != "" || a.Completion_probabilities != nil {
		t.Errorf("%+v", a)
	}
}

// A deadline ends the making of a prompt as well.
func TestDeadlineOfPrompts(t *testing.T) {
	t.Parallel()
	tmpl, err := chat.Parse("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	s := fake.New(t, "Hello", func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Template = tmpl })
	if status, b, _ := s.Do("POST", "/v1/chat/completions", `{`+fake.Hi+`,"deadline_ms":5}`); status != 504 {
		t.Errorf("%d %s", status, b)
	}
}

// A body that is compressed is refused wherever one is read.
func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for _, path := range []string{"/models/load", "/v1/completions"} {
		r, _ := http.NewRequest("POST", s.URL+path, strings.NewReader(`{"model":"fake/model","prompt":"x"}`))
		r.Header.Set("Content-Encoding", "gzip")
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != 415 {
			t.Errorf("%s: %s", path, resp.Status)
		}
	}
}

// What was read is noted, and an error of one text ends the others.
func TestReadingOfTexts(t *testing.T) {
	t.Parallel()
	n := newNoted()
	e := &fussy{taken: 100}
	s := fake.New(t, "", func(c *server.Config, m *ask.Model, f *fake.Engine) {
		c.Note = n.note
		e.Engine, m.Engine, m.Encoder, m.Pooling = f, e, true, nn.PoolMean
	})
	sendNoted(t, s, t.Context(), "read", "/v1/embeddings", `{"input":["abcdef","ab"]}`, -1)
	if f := n.of(t, "read"); f["model"] != "fake/model" || f["prompt_tokens"] != 10 || f["cached_tokens"] != 4+2 {
		t.Errorf("%v", f)
	}
	e.mu.Lock()
	e.taken, e.submitted, e.err, e.cancelled = 1, 0, errors.New("no"), nil
	e.mu.Unlock()
	status, _, _ := s.Do("POST", "/v1/embeddings", `{"input":["abcdef","ab"]}`)
	if e.mu.Lock(); status != 500 || len(e.cancelled) != 1 {
		t.Errorf("%d, cancelled %v", status, e.cancelled)
	}
	e.mu.Unlock()
}

// An answer in deepseek's older form has all text as content, to its end.
func TestContentOfLegacyReasoning(t *testing.T) {
	t.Parallel()
	tmpl, err := chat.Parse(fake.ChatML, chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	for _, reply := range []string{"Hello <think", "<think>Hm</think>Hello <tool_", "<think>Hm </thi", "Hello <"} {
		s := fake.New(t, reply, func(_ *server.Config, m *ask.Model, _ *fake.Engine) { m.Template = tmpl })
		for _, format := range []string{"deepseek-legacy", "none"} {
			body := `{` + fake.Hi + `,"tools":[{"type":"function","function":{"name":"f"}}],"reasoning_format":"` + format + `"`
			type message struct{ Content string }
			whole := fake.Post[struct{ Choices []struct{ Message message } }](s, "/v1/chat/completions", body+"}").Choices[0].Message.Content
			streamed := ""
			for _, data := range s.Events("/v1/chat/completions", body+`,"stream":true}`) {
				if data != "[DONE]" {
					for _, c := range fake.Parse[struct{ Choices []struct{ Delta message } }](t, []byte(data)).Choices {
						streamed += c.Delta.Content
					}
				}
			}
			if whole != reply || streamed != reply {
				t.Errorf("%q in %s: %q, streamed %q", reply, format, whole, streamed)
			}
		}
	}
}

// The error that ends a stream is noted as one that refuses a request is.
func TestNotesOfBrokenStreams(t *testing.T) {
	t.Parallel()
	n := newNoted()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, f *fake.Engine) { c.Note, f.Ends = n.note, engine.ErrClosing })
	sendNoted(t, s, t.Context(), "broken", "/v1/completions", `{"prompt":"x","stream":true}`, -1)
	fake.Eventually(t, "noted", func() bool {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.all["broken"]["error"] != nil && n.all["broken"]["outcome"] == "shutdown"
	})
}
