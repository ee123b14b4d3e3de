package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
)

// Flags that have the server be as llama-server is by default.
func TestServeAsLlamaServer(t *testing.T) {
	t.Setenv("LLAMA_MEDIA_MARKER", "<__media__>")
	s := serve(t, demo.Name, "--host", "127.0.0.1", "--port", "0", "-c", "512", "-np", "2", "--no-kv-unified", "-v", "--cors-origins", "*")
	var props struct {
		Slots    int    `json:"total_slots"`
		Marker   string `json:"media_marker"`
		Defaults struct {
			Ctx int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if s.read("/props", &props); props.Slots != 2 || props.Defaults.Ctx != 256 || props.Marker != "<__media__>" {
		t.Errorf("%+v", props)
	}
	status, v := s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"hello"}],"max_tokens":2}`)
	if verbose, ok := v["__verbose"].(map[string]any); status != 200 || !ok || verbose["prompt"] == nil {
		t.Errorf("%d %v", status, v)
	}
	// What the assistant has begun to say is one text, with an empty line between its parts.
	status, v = s.post("/v1/chat/completions", `{"messages":[{"role":"user","content":"hello"},
		{"role":"assistant","content":[{"type":"text","text":"Once"},{"type":"text","text":"upon"}]}],"max_tokens":2}`)
	if verbose, _ := v["__verbose"].(map[string]any); status != 200 || !strings.HasSuffix(fmt.Sprint(verbose["prompt"]), "Once\n\nupon") {
		t.Errorf("%d %v", status, v)
	}
	// A text ends with the token that fills the context.
	for _, prompt := range []string{"hello", "Once upon a time there was a dog"} {
		status, v = s.post("/completion", fmt.Sprintf(`{"prompt":%q,"n_predict":-1,"ignore_eos":true}`, prompt))
		read, _ := v["tokens_evaluated"].(float64)
		said, _ := v["tokens_predicted"].(float64)
		if status != 200 || read == 0 || read+said != 256 || v["truncated"] != true || v["stop_type"] != "limit" {
			t.Errorf("%q: %d, %v tokens and %v more, %v", prompt, status, read, said, v)
		}
	}
	address := strings.TrimPrefix(s.address(), "http://")
	r, _ := exchange(t, address, "OPTIONS", "/completions", "", "Origin: web.mydomain.fr", "Access-Control-Request-Method: POST")
	if h := r.Header; r.StatusCode != 200 || h.Get("Access-Control-Allow-Origin") != "web.mydomain.fr" ||
		h.Get("Access-Control-Allow-Methods") != "GET, POST, DELETE, OPTIONS" {
		t.Errorf("OPTIONS: %d %v", r.StatusCode, h)
	}
	quern(t, "serve", "-m", demo.Name, "--port", "0", "--cors-origins", "nowhere").refused(t, 2, "--cors-origins")
	t.Setenv("LLAMA_MEDIA_MARKER", "x")
	quern(t, "serve", "-m", demo.Name, "--port", "0").refused(t, 2, "LLAMA_MEDIA_MARKER")
}
