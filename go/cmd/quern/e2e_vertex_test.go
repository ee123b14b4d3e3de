package main

import (
	"encoding/json"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
)

// A prediction of Vertex AI has the answers of the routes that its requests name, each with the caller's rights.
func TestServeVertex(t *testing.T) {
	t.Parallel()
	path := "/v1/endpoints/1/deployedModels/2:predict"
	s := serveWith(t, []string{"AIP_MODE=PREDICTION", "AIP_PREDICT_ROUTE=" + path, "AIP_HEALTH_ROUTE=v1/endpoints/1/deployedModels/2"},
		demo.Name, "--api-key", "secret", "--api-prefix", "/llm")
	for _, path := range []string{"/llm/livez", "/llm/v1/models"} {
		if code, _ := s.withKey("secret", "GET", path, ""); code != 200 {
			t.Errorf("%s: %d", path, code)
		}
	}
	if code, _ := s.withKey("", "GET", "/v1/endpoints/1/deployedModels/2", ""); code != 200 {
		t.Errorf("health: %d", code)
	}
	const (
		text   = `{"prompt":"Once upon a time","max_tokens":6,"temperature":0}`
		native = `{"prompt":"Once upon a time","n_predict":6,"temperature":0}`
	)
	_, alone := s.withKey("secret", "POST", "/llm/completion", native)
	said := func(code int, body string, status int, words string) {
		t.Helper()
		if code != status || !strings.Contains(body, words) {
			t.Errorf("%d %s, want %d %q", code, body, status, words)
		}
	}
	decode := func(body string, to any) {
		t.Helper()
		if err := json.Unmarshal([]byte(body), to); err != nil {
			t.Fatalf("%v in %s", err, body)
		}
	}
	as := func(format, body string) string { return `{"@requestFormat":"` + format + `",` + body[1:] }
	ask := func(key string, instances ...string) (int, string) {
		return s.withKey(key, "POST", path, `{"instances":[`+strings.Join(instances, ",")+`]}`)
	}
	code, body := ask("secret", as("completion", native), as("/v1/completions", text), as("completions", strings.Replace(text, "{", `{"stream":true,`, 1)),
		`{"@requestFormat":"chatCompletions","messages":[{"role":"user","content":"hi"}],"max_tokens":2}`,
		as("tokenize", `{"content":"cat"}`), as("nowhere", `{"a":1}`), `{"prompt":"x"}`, `7`, as("chatCompletions", `{"messages":7}`),
		as("/api/generate", `{"model":"demo","prompt":"hi","options":{"num_predict":2}}`))
	said(code, body, 200, "")
	var got struct{ Predictions []map[string]any }
	decode(body, &got)
	if len(got.Predictions) != 10 {
		t.Fatalf("%d predictions in %s", len(got.Predictions), body)
	}
	var one map[string]any
	decode(alone, &one)
	if got.Predictions[0]["content"] != one["content"] {
		t.Errorf("%q, and alone %q", got.Predictions[0]["content"], one["content"])
	}
	for i, want := range map[int]string{1: fmt.Sprint(one["content"]), 2: fmt.Sprint(one["content"]), 3: "assistant", 4: "tokens", 5: `no route`, 6: "@requestFormat",
		7: "no object", 8: "messages", 9: "eval_count"} {
		if p := fmt.Sprint(got.Predictions[i]); !strings.Contains(p, want) {
			t.Errorf("prediction %d is %s, want %q", i, p, want)
		}
	}
	code, body = ask("secret", as("completions", `{"prompt":{}}`), `7`)
	said(code, body, 400, "prompt")
	code, body = s.withKey("", "POST", path, strings.Repeat(" ", 3<<20)) // refused before it is read
	said(code, body, 401, "key")
	code, body = s.withKey("secret", "POST", path, strings.Repeat(" ", 3<<20))
	said(code, body, 413, "bytes")
	code, body = ask("", as("completion", native), as("tokenize", `{"content":"cat"}`))
	said(code, body, 401, "")
	code, body = ask("secret")
	said(code, body, 400, "instances: missing or empty")
	code, body = ask("secret", strings.Repeat("7,", 128)+"7")
	said(code, body, 400, "129 requests, want at most 128")
	code, body = s.withKey("secret", "POST", path, "[")
	said(code, body, 400, "no JSON object")
}

// What Vertex AI says is checked before anything is loaded.
func TestVertexIsChecked(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"AIP_HTTP_PORT=0":                        `AIP_HTTP_PORT is "0", want a port from 1 to 65535`,
		"AIP_HTTP_PORT=70000":                    `AIP_HTTP_PORT is "70000", want a port`,
		"AIP_PREDICT_ROUTE=/v1/chat/completions": "AIP_PREDICT_ROUTE is /v1/chat/completions, which is another route",
		"AIP_PREDICT_ROUTE=/readyz":              "AIP_PREDICT_ROUTE is /readyz, which is another route",
		"AIP_HEALTH_ROUTE=/v1/models":            "AIP_HEALTH_ROUTE is /v1/models, which is another route",
		"AIP_HEALTH_ROUTE=/v1/files/x":           "AIP_HEALTH_ROUTE is /v1/files/x, which is another route",
		"AIP_HEALTH_ROUTE=predict":               "AIP_HEALTH_ROUTE is /predict, which is another route",
	} {
		r := invocation{args: []string{"serve", "-m", "demo", "--host", filepath.Join(t.TempDir(), "q.sock")}, env: []string{"AIP_MODE=PREDICTION", setting}}.run(t)
		if r.code != 2 || strings.Count(r.stderr, "\n") > 2 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %d %s", setting, r.code, r.stderr)
		}
	}
}

// The port is the one of Vertex AI.
func TestServeVertexPort(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	l.Close()
	s := serveWith(t, []string{"AIP_MODE=PREDICTION", "AIP_HTTP_PORT=" + port}, demo.Name, "--host", "127.0.0.1", "--port", "0")
	if !s.logged(`"ready"`) {
		t.Fatal("the log does not say where it listens")
	}
	r, body := exchange(t, address, "POST", "/predict", `{"instances":[{"@requestFormat":"tokenize","content":"cat"}]}`)
	wants(t, r, body, 200, nil)
}
