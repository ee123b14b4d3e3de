package server

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
)

// repeating are requests whose texts all begin with a long one, of n bytes.
func repeating(n, texts int) map[string]string {
	var list []string
	for i := range texts {
		list = append(list, fmt.Sprintf(`"%d"`, i))
	}
	long, all := strings.Repeat("x", n), strings.Join(list, ",")
	return map[string]string{
		"/v1/rerank":    fmt.Sprintf(`{"query":"%s","documents":[%s]}`, long, all),
		"/v1/decisions": fmt.Sprintf(`{"prompt":"%s","choices":[%s]}`, long, all),
	}
}

// The tokens of such requests are counted against the memory for answers, and released.
func TestRepeatedTokensAreReserved(t *testing.T) {
	s := newSite(t, "", nil)
	budget := remember(s, 384<<10)
	for path, body := range repeating(400, 300) {
		if status, b, _ := s.do("POST", path, body); status != 429 || !strings.Contains(string(b), "the tokens take") {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
	for path, body := range repeating(400, 10) {
		if status, b, _ := s.do("POST", path, body); status != 200 {
			t.Errorf("%s: %d %s", path, status, b)
		}
	}
	eventually(t, "released", func() bool { return budget.Used() == 0 })
}

// A text that is too long is refused before others are evaluated, and nothing is evaluated for
// a client that is gone.
func TestRepeatedTokensStopEarly(t *testing.T) {
	s := newSite(t, "", nil)
	s.refused("/v1/rerank", `{"query":"a","documents":["b","`+strings.Repeat("x", 600)+`"]}`, 400, "")
	s.refused("/v1/decisions", `{"prompt":"a","choices":["b","`+strings.Repeat("x", 600)+`"]}`, 400, "")
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	bodies := repeating(10, 3)
	bodies["/v1/embeddings"], bodies["/api/embed"] = `{"input":["a","b"]}`, `{"input":["a","b"]}`
	for path, body := range bodies {
		r := httptest.NewRequestWithContext(gone, "POST", path, strings.NewReader(body))
		s.server.Handler().ServeHTTP(httptest.NewRecorder(), r)
	}
	if n := len(s.requests); n != 0 {
		t.Errorf("%d texts were evaluated", n)
	}
	m := s.server.models.Loaded()[0]
	for _, long := range []ask.Prompt{{{Text: strings.Repeat("x", 600)}}, {{Ids: make([]int32, m.Ctx+1)}}} {
		held := (&answer.Request{Model: m}).TokenStore()
		if _, err := (answer.Inputs{{{Text: "b"}}, {{Text: "c"}}, long}).Encode(t.Context(), m, "input", held); err == nil || !strings.HasPrefix(err.Error(), "element 2 has") || held.Tokens != 0 {
			t.Errorf("%v, after %d tokens", err, held.Tokens)
		}
	}
	m.Ctx = answer.MaxReadTokens / 4
	held := (&answer.Request{Model: m}).TokenStore()
	for i := range 5 {
		if err := held.Add(make([]int32, m.Ctx)); (err != nil) != (i == 4) {
			t.Errorf("list %d: %v", i, err)
		}
	}
	if err := held.Add(make([]int32, m.Ctx+1)); fmt.Sprintf("%T", err) != fmt.Sprintf("%T", &engine.TooLongError{}) {
		t.Errorf("longer than the context: %v", err)
	}
}
