package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/demo"
)

// Typed questions have the same answers alone, beside others, beside streams and beside clients that go away.
func TestServeSystemOne(t *testing.T) {
	t.Parallel()
	s := serve(t, demo.Name, "--parallel", "4")
	body := func(i int) string {
		return fmt.Sprintf(`{"state":"Tom has %d red balls and a dog. %s","questions":{
			"many":{"type":"noul","instructions":"Are there many balls?"},
			"has":{"type":"choice","instructions":"What has he?","criteria":{"balls":"to play with","a dog":null,"a dog house":null}},
			"red":{"type":"score","instructions":"How red are they?","criteria":["not","a little","very"]}}}`, i, strings.Repeat("He plays all day. ", 10))
	}
	ask := func(ctx context.Context, i int) (string, error) {
		r, err := http.NewRequestWithContext(ctx, "POST", "http://quern/v1/systemone", strings.NewReader(body(i)))
		if err != nil {
			return "", err
		}
		a, err := s.client.Do(r)
		if err != nil {
			return "", err
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err == nil && a.StatusCode != 200 {
			err = fmt.Errorf("%d %s", a.StatusCode, b)
		}
		return string(b), err
	}
	const states = 3
	var alone [states]string
	for i := range states {
		var err error
		if alone[i], err = ask(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	stream, _ := s.stream(fmt.Sprintf(slow, 4))
	defer stream.Body.Close()
	var wg sync.WaitGroup
	for k := range 4 * states {
		wg.Go(func() {
			if got, err := ask(t.Context(), k%states); err != nil || got != alone[k%states] {
				t.Errorf("beside others %s %v, alone %s", got, err, alone[k%states])
			}
		})
		wg.Go(func() { // new texts, whose client goes away at some time
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan struct{})
			go func() { defer close(gone); _, _ = ask(ctx, 100+k) }()
			cancel()
			<-gone
		})
	}
	wg.Wait()
	stream.Body.Close()
	if !s.eventually(func() bool { return s.metric("llamacpp:requests_processing") == 0 }) {
		t.Errorf("%g requests still run", s.metric("llamacpp:requests_processing"))
	}
	for bad, want := range map[string]string{
		`{"state":"s"}`: "questions: missing", `{"state":"s","questions":{"q":{"type":"choice","criteria":{"a":null}}}}`: `questions: "q": criteria: 1`,
		`{"state":"s","questions":`: "the body ends",
	} {
		if status, a := s.post("/v1/systemone", bad); status != 400 || !strings.Contains(fmt.Sprint(a), want) {
			t.Errorf("%s: %d %v, want %s", bad, status, a, want)
		}
	}
	if status, a := s.post("/v1/decisions", `{"input":"It rains.","questions":[{"type":"predicate","instructions":"Is it wet?"}]}`); status != 200 ||
		!strings.Contains(fmt.Sprint(a), "type:predicate") {
		t.Errorf("%d %v", status, a)
	}
}
