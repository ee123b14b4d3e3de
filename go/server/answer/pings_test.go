package answer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

func TestPings(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", func(c *server.Config, _ *ask.Model, f *fake.Engine) {
		c.Ping, f.Delay = 10*time.Millisecond, 60*time.Millisecond
	})
	_, b, _ := s.Do("POST", "/v1/chat/completions", `{`+fake.Hi+`,"stream":true}`)
	if n := strings.Count(string(b), ": ping\n\n"); n < 2 {
		t.Errorf("%d pings in %s", n, b)
	}
	_, b, _ = s.Do("POST", "/v1/chat/completions", `{`+fake.Hi+`,"stream":true,"sse_ping_interval":-1}`)
	if strings.Contains(string(b), ": ping") {
		t.Errorf("pings that were turned off: %s", b)
	}
}

// A long prompt, whose parts say nothing to the client, is silence.
func TestPingsInPrompts(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", func(c *server.Config, _ *ask.Model, f *fake.Engine) {
		c.Ping, f.Delay, f.Parts = 100*time.Millisecond, 10*time.Millisecond, 40
	})
	for path, mark := range map[string]string{"/v1/chat/completions": ": ping\n\n", "/v1/messages": `{"type":"ping"}`,
		"/v1/responses": ": ping\n\n", "/completion": ": ping\n\n"} {
		body := map[string]string{"/v1/responses": `"input":"x"`, "/completion": `"prompt":"x"`,
			"/v1/messages": fake.Hi + `,"max_tokens":100`}[path]
		if body == "" {
			body = fake.Hi
		}
		if _, b, _ := s.Do("POST", path, `{`+body+`,"stream":true}`); strings.Count(string(b), mark) == 0 {
			t.Errorf("%s: no ping in %s", path, b)
		}
	}
}
