package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
)

// wants checks the status and the JSON of an error, by its path in dots.
func wants(t *testing.T, r *http.Response, body string, status int, fields map[string]string) {
	t.Helper()
	var all any
	if err := json.Unmarshal([]byte(body), &all); err != nil || r.StatusCode != status {
		t.Errorf("status %d %s, want %d", r.StatusCode, body, status)
		return
	}
	for path, want := range fields {
		at := all
		for name := range strings.SplitSeq(path, ".") {
			at = at.(map[string]any)[name]
		}
		if got := fmt.Sprint(at); !strings.Contains(got, want) {
			t.Errorf("%s is %q in %s, want %q", path, got, body, want)
		}
	}
}

// Each API refuses a request that is over its key's quota in its own way, before anything is computed; keys without
// quotas notice nothing.
func TestServeQuotas(t *testing.T) {
	t.Parallel()
	path := keyFile(t, `key-of-admin admin
key-of-rpm name=web rpm=2
key-of-rpd rpd=1
key-of-input tpm-in=40
key-of-output tpm-out=5
key-of-models models=other,third
`)
	s, address := loopback(t, "--api-key-file", path)
	ask := func(key, path, body string) (*http.Response, string) {
		t.Helper()
		return exchange(t, address, "POST", path, body, "X-Api-Key: "+key, "Content-Type: application/json")
	}
	header := func(r *http.Response, name, want string) {
		t.Helper()
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	const hi = `{"messages":[{"role":"user","content":"hi"}],"max_tokens":2,"stream":false,"options":{"num_predict":2}}`
	r, body := ask("key-of-admin", "/v1/chat/completions", hi)
	wants(t, r, body, 200, nil)
	header(r, "X-Ratelimit-Limit-Requests", "")

	r, body = ask("key-of-rpm", "/v1/chat/completions", hi)
	wants(t, r, body, 200, nil)
	header(r, "X-Ratelimit-Limit-Requests", "2")
	header(r, "X-Ratelimit-Remaining-Requests", "1")
	if reset, err := time.ParseDuration(r.Header.Get("X-Ratelimit-Reset-Requests")); err != nil || reset > 30*time.Second || reset < time.Second {
		t.Errorf("the reset is %v, %v", reset, err)
	}
	header(r, "X-Ratelimit-Limit-Tokens", "")
	r, body = ask("key-of-rpm", "/v1/messages", hi)
	wants(t, r, body, 200, nil)
	header(r, "Anthropic-Ratelimit-Requests-Remaining", "0")
	header(r, "X-Ratelimit-Limit-Requests", "")
	if at, err := time.Parse(time.RFC3339, r.Header.Get("Anthropic-Ratelimit-Requests-Reset")); err != nil || time.Until(at) > 65*time.Second {
		t.Errorf("the reset is at %v, %v", at, err)
	}
	for _, api := range []struct {
		path   string
		fields map[string]string
	}{
		{"/v1/chat/completions", map[string]string{"error.type": "requests", "error.code": "rate_limit_exceeded", "error.message": "this API key or token may send 2 requests a minute"}},
		{"/v1/responses", map[string]string{"error.type": "requests", "error.code": "rate_limit_exceeded"}},
		{"/v1/messages", map[string]string{"type": "error", "error.type": "rate_limit_error", "error.message": "2 requests a minute"}},
		{"/api/chat", map[string]string{"error": "2 requests a minute"}},
		{"/completion", map[string]string{"error.type": "rate_limit_error", "error.code": "429"}},
	} {
		r, body := ask("key-of-rpm", api.path, strings.Replace(hi, `"messages"`, `"prompt":"Once","input":"hi","messages"`, 1))
		wants(t, r, body, 429, api.fields)
		if after, err := strconv.Atoi(r.Header.Get("Retry-After")); err != nil || after < 1 || after > 30 {
			t.Errorf("%s: retry after %d, %v", api.path, after, err)
		}
	}
	if r, body := exchange(t, address, "GET", "/v1/models", "", "X-Api-Key: key-of-rpm"); r.StatusCode != 200 || r.Header.Get("X-Ratelimit-Remaining-Requests") != "0" {
		t.Errorf("models: %d %s %v", r.StatusCode, body, r.Header)
	}

	r, body = ask("key-of-rpd", "/v1/completions", `{"prompt":"Once","max_tokens":1}`)
	wants(t, r, body, 200, nil)
	r, body = ask("key-of-rpd", "/v1/completions", `{"prompt":"Once","max_tokens":1}`)
	wants(t, r, body, 429, map[string]string{"error.message": "1 requests a day"})

	// Input is refused before the pass, with what is left.
	text := strings.Repeat("Once upon a time. ", 40)
	r, body = ask("key-of-input", "/v1/completions", `{"prompt":"`+text+`","max_tokens":1}`)
	wants(t, r, body, 413, map[string]string{"error.message": "and this API key or token may send 40 a minute: want a shorter one"})
	r, body = ask("key-of-input", "/v1/completions", `{"prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25],"max_tokens":1}`)
	wants(t, r, body, 200, map[string]string{"usage.prompt_tokens": "2"})
	header(r, "X-Ratelimit-Limit-Tokens", "40")
	r, body = ask("key-of-input", "/v1/completions", `{"prompt":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25],"max_tokens":1}`)
	wants(t, r, body, 429, map[string]string{"error.type": "tokens", "error.code": "rate_limit_exceeded", "error.message": "of the 40 a minute"})

	// A stream goes on to its end, and what it took too much has to flow back.
	r, body = ask("key-of-output", "/completion", `{"prompt":"Once","n_predict":20,"ignore_eos":true,"stream":true}`)
	if r.StatusCode != 200 || !strings.Contains(body, `"predicted_n":20`) {
		t.Errorf("%d %s", r.StatusCode, body)
	}
	r, body = ask("key-of-output", "/v1/chat/completions", hi)
	wants(t, r, body, 429, map[string]string{"error.type": "tokens", "error.message": "5 tokens a minute generated, and they are used up"})
	header(r, "X-Ratelimit-Remaining-Tokens", "0")
	if after, _ := strconv.Atoi(r.Header.Get("Retry-After")); after < 100 || after > 200 {
		t.Errorf("retry after %d s", after)
	}

	r, body = ask("key-of-models", "/v1/chat/completions", hi)
	wants(t, r, body, 403, map[string]string{"error.param": "model", "error.code": "model_not_found", "error.message": "want one of these: other, third"})
	r, body = ask("key-of-models", "/v1/chat/completions", strings.Replace(hi, `{`, `{"model":"other",`, 1))
	wants(t, r, body, 403, nil) // where there is one model, any name means it
	if _, body := exchange(t, address, "GET", "/v1/models", "", "X-Api-Key: key-of-models"); strings.Contains(body, `"id":"demo"`) {
		t.Errorf("models: %s", body)
	}

	// A user is told of the own key, an admin of all.
	var usage struct {
		Data []struct {
			ID, Name, Role string
			Refused        int
			Limits         struct{ Minute map[string]int }
			Minute, Day    struct {
				Ends   int64
				Models map[string]map[string]int
			}
			Start map[string]any `json:"since_start"`
		}
	}
	read := func(key string, n int) {
		t.Helper()
		usage.Data = nil
		r, body := exchange(t, address, "GET", "/v1/usage", "", "X-Api-Key: "+key)
		if err := json.Unmarshal([]byte(body), &usage); err != nil || r.StatusCode != 200 || len(usage.Data) != n {
			t.Fatalf("usage for %s: %d %s", key, r.StatusCode, body)
		}
	}
	read("key-of-rpm", 1)
	one := usage.Data[0]
	if one.Name != "web" || one.Role != "user" || one.Refused != 5 || one.Limits.Minute["requests"] != 2 || one.Start["requests"] != 2.0 ||
		one.Start["output_tokens"] != 4.0 || one.Day.Models["demo"]["requests"] != 2 || one.Day.Ends%86400 != 0 {
		t.Errorf("%+v", one)
	}
	read("key-of-admin", 6)
	if _, body := exchange(t, address, "GET", "/metrics", "", "X-Api-Key: key-of-rpm"); !strings.Contains(body, `quern_key_requests_total{key="web"} 2`) ||
		!strings.Contains(body, `quern_key_refused_total{key="web"} 5`) || !strings.Contains(body, `quern_key_generated_tokens_total{key="web"} 4`) ||
		strings.Count(body, "\nquern_key_") != 5 {
		t.Errorf("the metrics of keys are wrong in %s", body)
	}

	// What was counted stays when the file changes.
	writeKeys(t, path, "key-of-admin admin\nkey-of-rpm name=web rpm=1\nkey-of-rpd rpd=1\nkey-of-new rpd=5\n")
	statusSoon(t, address, "key-of-new", 200)
	r, body = ask("key-of-rpd", "/v1/completions", `{"prompt":"Once","max_tokens":1}`)
	wants(t, r, body, 429, nil)
	if !s.logged(`"models":["other","third"]`) {
		t.Error("the log does not tell of models that there are not")
	}
	if !s.logged(`"client":"web"`) {
		t.Error("the log has not the key's name")
	}
}

// At a time there are as many requests of a key as it may have.
func TestServeConcurrentQuota(t *testing.T) {
	t.Parallel()
	_, address := loopback(t, "--api-key-file", keyFile(t, "key-of-two concurrent=2\n"))
	ctx, end := context.WithCancel(t.Context())
	for range 2 {
		r, err := http.NewRequestWithContext(ctx, "POST", "http://"+address+"/completion", strings.NewReader(fmt.Sprintf(slow, 4)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Api-Key", "key-of-two")
		answer, err := http.DefaultClient.Do(r)
		if err != nil || answer.StatusCode != 200 {
			t.Fatalf("%v %v", answer, err)
		}
		defer answer.Body.Close()
	}
	r, body := exchange(t, address, "POST", "/v1/completions", `{"prompt":"Once","max_tokens":1}`, "X-Api-Key: key-of-two")
	wants(t, r, body, 429, map[string]string{"error.type": "requests", "error.message": "2 requests waiting or running at a time"})
	end()
	for stop := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		r, body := exchange(t, address, "POST", "/v1/completions", `{"prompt":"Once","max_tokens":1}`, "X-Api-Key: key-of-two")
		if r.StatusCode == 200 {
			break
		}
		if time.Now().After(stop) {
			t.Fatalf("the places stay taken: %d %s", r.StatusCode, body)
		}
	}
}

// Requests of a batch count for its key. While the quota is used up, batches of others go on, and the larger one of a
// changed file is found.
func TestServeBatchQuota(t *testing.T) {
	t.Parallel()
	path := keyFile(t, "key-of-ann rpd=2\nkey-of-bob\n")
	s, address := loopback(t, "--api-key-file", path, "--batch-dir", t.TempDir())
	ann, bob := s.batches("key-of-ann"), s.batches("key-of-bob")
	first := ann.begin(batchLine("a", "Once", 2), batchLine("b", "Once", 2), batchLine("c", "Once", 2))
	second := bob.begin(batchLine("d", "Once", 2))
	if b := bob.ended(second.ID); b.Status != "completed" || b.RequestCounts.Completed != 1 {
		t.Errorf("the batch of another key: %+v", b)
	}
	ann.until(first.ID, func(b *openai.Batch) bool { return b.RequestCounts.Completed == 2 })
	r, body := exchange(t, address, "POST", "/v1/completions", `{"prompt":"Once","max_tokens":1}`, "X-Api-Key: key-of-ann")
	wants(t, r, body, 429, map[string]string{"error.message": "2 requests a day"})
	writeKeys(t, path, "key-of-ann rpd=3\nkey-of-bob\nkey-of-new\n")
	statusSoon(t, address, "key-of-new", 200)
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(time.Second) {
		b, err := ann.Batches.Get(t.Context(), first.ID)
		if err != nil {
			t.Fatal(err)
		}
		if b.Status == "completed" {
			return
		}
	}
	t.Errorf("the batch is not taken up again: %+v", ann.ended(first.ID))
}
