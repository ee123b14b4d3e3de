package answer_test

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

func TestWrongJSON(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for _, c := range []struct{ name, body, want string }{
		{"nothing", ``, "empty"},
		{"space", " \n", "empty"},
		{"no JSON", `hello`, "not JSON"},
		{"cut", `{"prompt":"x"`, "ends in the middle"},
		{"array", `[1]`, "an array, want an object"},
		{"more", `{"prompt":"x"} {}`, "goes on after"},
		{"trailing comma", `{"prompt":"x",}`, "not JSON"},
		{"twice", `{"prompt":"x","prompt":"y"}`, `"prompt": given twice`},
		{"twice inside", `{"prompt":"x","stream_options":{"a":1,"a":2}}`, `"a": given twice`},
		{"NaN", `{"prompt":"x","temperature":NaN}`, "not JSON"},
		{"infinity", `{"prompt":"x","temperature":Infinity}`, "not JSON"},
		{"bytes", "{\"prompt\":\"\xff\xfe\"}", "UTF-8"},
		{"half a pair", `{"prompt":"\ud800"}`, "not JSON"},
		{"deep", `{"prompt":` + strings.Repeat("[", 100000) + strings.Repeat("]", 100000) + `}`, "nests more than 64"},
		{"deep objects", `{"x":` + strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 101), "nests more than 64"},
		{"control characters", "{\"prompt\":\"\x00\"}", "not JSON"},
	} {
		status, b, _ := s.Do("POST", "/completion", c.body)
		e := fake.ErrorOf(t, b)
		if status != 400 || e.Type != "invalid_request_error" || !strings.Contains(e.Message, c.want) ||
			len(e.Message) > 200 {
			t.Errorf("%s: got %d %s, want %q", c.name, status, b, c.want)
		}
	}
}

// What the engine says becomes a status, and a stream that has not begun has
// one too.
func TestEngineErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		status int
		kind   string
	}{
		{&engine.BusyError{Queued: 17, RetryAfter: 2500 * time.Millisecond}, 429, "rate_limit_error"},
		{&engine.TooLongError{Prompt: 600, Ctx: 512}, 400, "exceed_context_size_error"},
		{engine.ErrClosing, 503, "unavailable_error"},
		{fmt.Errorf("%w: 9 at once", engine.ErrAdapters), 400, "invalid_request_error"},
		{engine.ErrDeadline, 504, "timeout_error"},
		{fmt.Errorf("secret"), 500, "server_error"},
	} {
		submit := fake.New(t, "", func(_ *server.Config, _ *ask.Model, f *fake.Engine) { f.Err = c.err })
		later := fake.New(t, "", func(_ *server.Config, _ *ask.Model, f *fake.Engine) { f.Ends = c.err })
		for _, s := range []*fake.Site{submit, later} {
			for _, stream := range []string{"false", "true"} {
				status, b, h := s.Do("POST", "/v1/chat/completions", "{"+fake.Hi+`,"stream":`+stream+"}")
				e := fake.ErrorOf(t, b)
				if status != c.status || e.Type != c.kind || strings.Contains(e.Message, "secret") {
					t.Errorf("%v, stream %s: got %d %s", c.err, stream, status, b)
				}
				switch {
				case status == 429 && (h.Get("Retry-After") != "3" || e.Queued != 17 ||
					!strings.Contains(e.Message, "17 requests")):
					t.Errorf("got %s, Retry-After %q", b, h.Get("Retry-After"))
				case e.Type == "exceed_context_size_error" && (e.Prompt != 600 || e.Ctx != 512):
					t.Errorf("got %s", b)
				}
			}
		}
	}
	s := fake.New(t, "Hello", nil)
	s.Refused("/completion", `{"prompt":"`+strings.Repeat("x", 600)+`"}`, 400, "")

	// Once a stream has begun, an error is its last event, before the mark of the end.
	s = fake.New(t, "Hello", func(_ *server.Config, _ *ask.Model, f *fake.Engine) { f.Ends = engine.ErrClosing })
	events := s.Events("/v1/chat/completions", "{"+fake.Hi+`,"stream":true}`)
	if n := len(events); n < 2 || events[n-1] != "[DONE]" ||
		fake.ErrorOf(t, []byte(events[n-2])).Type != "unavailable_error" {
		t.Errorf("the events are %s", events)
	}
	if !strings.Contains(strings.Join(events, ""), "Hello") {
		t.Errorf("the text before the error is lost: %s", events)
	}
}

func TestTimeoutHeader(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", nil)
	for value, want := range map[string]time.Duration{"30": 30 * time.Second, "1.5": 1500 * time.Millisecond,
		"250ms": 250 * time.Millisecond, "x": -1, "-1": -1, "0": -1, "NaN": -1, "1e300": 1e9 * time.Second} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("POST", "/completion", strings.NewReader(`{"prompt":"x","deadline_ms":2000000000}`))
		r.Header.Set("X-Request-Timeout", value)
		s.Server.Handler().ServeHTTP(w, r)
		if want < 0 {
			if w.Code != 400 || !strings.Contains(w.Body.String(), "X-Request-Timeout") {
				t.Errorf("%q: got %d %s", value, w.Code, w.Body)
			}
			continue
		}
		want = min(want, 2e6*time.Second)
		if got := time.Until(s.Last().Deadline); w.Code != 200 || got > want || got < want-5*time.Second {
			t.Errorf("%q: got %d, a deadline in %v, want %v", value, w.Code, got, want)
		}
	}
}
