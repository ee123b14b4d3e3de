package ollama_test

import (
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
)

func FuzzOllamaChat(f *testing.F) {
	fake.FuzzPost(f, "/api/chat", `{"model":"m:latest","messages":[{"role":"user","content":"x","images":[]},{"role":"assistant","thinking":"t","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","tool_name":"f","content":"1"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"think":"low","keep_alive":"5m","options":{"num_predict":-2,"stop":["a"],"seed":1},"format":{"type":"object"},"logprobs":true,"top_logprobs":2}`,
		`{"messages":[],"keep_alive":0}`)
}

func FuzzOllamaGenerate(f *testing.F) {
	fake.FuzzPost(f, "/api/generate", `{"prompt":"x","system":"s","context":[1,2],"stream":false,"think":true,"format":"json"}`, `{"prompt":"x","suffix":"y","raw":true,"keep_alive":-1.5}`)
}

func FuzzOllamaEmbed(f *testing.F) {
	fake.FuzzPost(f, "/api/embed", `{"input":["x","y"],"truncate":true,"dimensions":1}`, `{"model":"m","input":"x"}`)
}

func FuzzOllamaShow(f *testing.F) {
	fake.FuzzPost(f, "/api/show", `{"model":"m","verbose":true}`, `{"name":"x"}`)
}
