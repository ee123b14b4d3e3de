// Package ollama serves Ollama's API. Its defaults are Ollama's, whatever the model's file or the flags say, and its
// streams are lines of JSON.
package ollama

import (
	"net/http"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/field"
)

// API serves Ollama's API.
type API struct {
	List  *catalog.Catalog
	Build string
}

// Routes are those of the API.
func (s *API) Routes() []answer.Route {
	hello := []any{map[string]any{"role": "user", "content": "Say hello."}}
	return []answer.Route{
		{
			Method: http.MethodPost, Paths: []string{"/api/chat"},
			Handle: ollama("chat-", newChatQuery), Summary: "Answer a conversation, as Ollama does",
			Dialect: Dialect{}, Before: s.before(chatless), Body: answer.BodyOf("OllamaChatRequest", newChatQuery), Stream: true,
			Answer:  answerSchema,
			Example: map[string]any{"messages": hello, "stream": false, "options": map[string]any{"num_predict": 8}},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/generate"},
			Handle: ollama("gen-", newGenerateQuery), Summary: "Answer a prompt, as Ollama does",
			Dialect: Dialect{}, Before: s.before(promptless), Body: answer.BodyOf("OllamaGenerateRequest", newGenerateQuery),
			Stream: true, Answer: answerSchema,
			Example: map[string]any{"prompt": "Say hello.", "stream": false, "options": map[string]any{"num_predict": 8}},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/embed"},
			Handle: s.embed, Summary: "Make vectors of texts, as Ollama does",
			Dialect: Dialect{}, Before: s.before(nil), Body: answer.BodyOf("OllamaEmbedRequest", newEmbedQuery),
			Answer: vectors{}, Example: map[string]any{"input": "Hello"},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/embeddings"},
			Handle: s.oldEmbed, Summary: "Make the vector of a text, as Ollama did at first",
			Dialect: Dialect{}, Before: s.before(nil), Body: answer.BodyOf("OllamaEmbeddingsRequest", newOldEmbedQuery),
			Answer: vector{}, Example: map[string]any{"prompt": "Hello"},
		}, {
			Method: http.MethodGet, Paths: []string{"/api/tags"},
			Handle: s.tags, Always: true, Dialect: Dialect{}, Summary: "List the models, as Ollama does", Answer: modelList{},
		}, {
			Method: http.MethodGet, Paths: []string{"/api/ps"},
			Handle: s.running, Always: true, Dialect: Dialect{}, Summary: "List the models that are loaded, as Ollama does",
			Answer: modelList{},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/show"},
			Handle: s.show, Asleep: true, Dialect: Dialect{}, Before: s.before(nil), Summary: "Describe a model, as Ollama does",
			Body: answer.BodyOf("OllamaShowRequest", newShowQuery), Answer: shown{}, Example: map[string]any{},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/pull"}, Always: true,
			Handle: s.pull, Admin: true, Dialect: Dialect{}, Summary: "Download a model to the cache, as Ollama does",
			Body: answer.BodyOf("OllamaPullRequest", newPullQuery), Stream: true, Answer: pullStatus{},
			Example: map[string]any{"model": "qwen3:0.6b", "stream": false},
		}, {
			Method: http.MethodDelete, Paths: []string{"/api/delete"}, Always: true,
			Handle: s.deleteModel, Admin: true, Dialect: Dialect{}, Summary: "Remove a model from the cache, as Ollama does",
			Body: answer.BodyOf("OllamaDeleteRequest", newDeleteQuery), Answer: field.Schema{"type": "object"},
			Example: map[string]any{"model": "qwen3:0.6b"},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/copy"}, Always: true,
			Handle: s.copyModel, Admin: true, Dialect: Dialect{},
			Summary: "Give a downloaded model another name, as Ollama does",
			Body:    answer.BodyOf("OllamaCopyRequest", newCopyQuery), Answer: field.Schema{"type": "object"},
			Example: map[string]any{"source": "qwen3:0.6b", "destination": "small"},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/create"}, Always: true,
			Handle: s.create, Admin: true, Dialect: Dialect{},
			Summary: "Store a model with a system prompt and parameters under a name, as Ollama does",
			Body:    answer.BodyOf("OllamaCreateRequest", newCreateQuery), Stream: true, Answer: pullStatus{},
			Example: map[string]any{"model": "mario", "from": "qwen3:0.6b", "system": "You are Mario.",
				"parameters": map[string]any{"temperature": 0.5}},
		}, {
			Method: http.MethodGet, Paths: []string{"/api/version"}, Always: true,
			Handle: s.version, Dialect: Dialect{}, Summary: "Say which version of Ollama's interface this is",
			Answer: versionAnswer{},
		},
	}
}
