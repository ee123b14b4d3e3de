package server_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// A request of any path with any query, header and body is answered, or refused as the client's fault. Those that the
// other targets have no bodies for are among the seeds.
func FuzzRequests(f *testing.F) {
	h := fake.Handler(f, server.Config{SlotPath: f.TempDir(), LoraDir: f.TempDir(), Batches: fake.Batches(f), Tune: noTuning{},
		Tools: fake.Weather{}, Library: &fake.Shelf{}}, nil)
	for _, seed := range []struct{ method, path, query, body string }{
		{"GET", "/v1/chat/completions", "limit=5&order=asc&after=x&metadata[a]=b", ""},
		{"GET", "/v1/responses/resp_x", "stream=true&starting_after=7", ""},
		{"GET", "/v1/responses/resp_x/input_items", "limit=1", ""},
		{"GET", "/v1/files", "purpose=batch&limit=2", ""},
		{"GET", "/slots", "fail_on_no_slot=1&model=m", ""},
		{"POST", "/slots/0", "action=erase", ""},
		{"GET", "/v1/models", "reload=1", ""},
		{"GET", "/v1/models/org/name:Q4_K_M", "", ""},
		{"POST", "/v1/chat/completions/control", "", `{"id":"chatcmpl-x","action":"reasoning_end"}`},
		{"POST", "/v1/chat/completions/chatcmpl-x", "", `{"metadata":{"a":"b"}}`},
		{"POST", "/v1/load_lora_adapter", "", `{"lora_name":"a","lora_path":"a.gguf"}`},
		{"POST", "/v1/unload_lora_adapter", "", `{"lora_name":"a"}`},
		{"POST", "/v1/mcp/call", "", `{"name":"get_weather","arguments":"{\"place\":\"x\"}"}`},
		{"POST", "/models/load", "", `{"model":"m"}`},
		{"POST", "/v1/messages/count_tokens", "", `{"messages":[{"role":"user","content":"x"}]}`},
		{"POST", "/v1/responses/input_tokens", "",
			`{"input":"x","tool_choice":{"type":"function","name":"f","namespace":"n"}}`},
		{"POST", "/api/copy", "", `{"source":"m","destination":"x"}`},
		{"POST", "/completion", "autoload=false", `{"prompt":"x"}`},
		{"DELETE", "/models", "model=m", ""},
		{"OPTIONS", "/props", "", ""},
	} {
		f.Add(seed.method, seed.path, seed.query, "2.5", seed.body)
	}
	f.Fuzz(func(t *testing.T, method, path, query, timeout, body string) {
		if strings.HasPrefix(path, "/models/sse") || strings.HasPrefix(path, "/api/pull") ||
			path == "/models" && method == "POST" || strings.HasSuffix(path, "/unload") {
			return // streams without an end; names of models that a server would be asked for; the model goes
		}
		r := httptest.NewRequest("POST", "/", strings.NewReader(body))
		r.Method, r.URL.Path, r.URL.RawQuery = method, "/"+strings.TrimPrefix(path, "/"), query
		r.Header["X-Request-Timeout"], r.Header["Content-Type"] = []string{timeout}, []string{"application/json"}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code >= 500 && w.Code != 501 && w.Code != 504 && !strings.HasPrefix(r.URL.Path, "/v1/mcp") {
			t.Fatalf("%s %s?%s: status %d: %s", method, path, query, w.Code, w.Body)
		}
	})
}
