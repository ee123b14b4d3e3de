// Package ollama serves Ollama's API. Its defaults are Ollama's, whatever the model's file or the flags say, and its streams
// are lines of JSON.
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
			Handle: ollama("chat-", NewOllamaChatQuery), Summary: "Answer a conversation, as Ollama does",
			Dialect: Dialect{}, Before: s.beforeOllama(chatless), Body: answer.BodyOf("OllamaChatRequest", NewOllamaChatQuery), Stream: true, Answer: ollamaSchema,
			Example: map[string]any{"messages": hello, "stream": false, "options": map[string]any{"num_predict": 8}},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/generate"},
			Handle: ollama("gen-", NewOllamaGenerateQuery), Summary: "Answer a prompt, as Ollama does",
			Dialect: Dialect{}, Before: s.beforeOllama(promptless), Body: answer.BodyOf("OllamaGenerateRequest", NewOllamaGenerateQuery), Stream: true, Answer: ollamaSchema,
			Example: map[string]any{"prompt": "Say hello.", "stream": false, "options": map[string]any{"num_predict": 8}},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/embed"},
			Handle: s.ollamaEmbed, Summary: "Make vectors of texts, as Ollama does",
			Dialect: Dialect{}, Before: s.beforeOllama(nil), Body: answer.BodyOf("OllamaEmbedRequest", newOllamaEmbedQuery), Answer: OllamaVectors{}, Example: map[string]any{"input": "Hello"},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/embeddings"},
			Handle: s.ollamaOldEmbed, Summary: "Make the vector of a text, as Ollama did at first",
			Dialect: Dialect{}, Before: s.beforeOllama(nil), Body: answer.BodyOf("OllamaEmbeddingsRequest", newOllamaOldEmbedQuery), Answer: OllamaVector{}, Example: map[string]any{"prompt": "Hello"},
		}, {
			Method: http.MethodGet, Paths: []string{"/api/tags"},
			Handle: s.ollamaTags, Always: true, Dialect: Dialect{}, Summary: "List the models, as Ollama does", Answer: OllamaModels{},
		}, {
			Method: http.MethodGet, Paths: []string{"/api/ps"},
			Handle: s.ollamaRunning, Always: true, Dialect: Dialect{}, Summary: "List the models that are loaded, as Ollama does", Answer: OllamaModels{},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/show"},
			Handle: s.ollamaShow, Asleep: true, Dialect: Dialect{}, Before: s.beforeOllama(nil), Summary: "Describe a model, as Ollama does",
			Body: answer.BodyOf("OllamaShowRequest", newOllamaShowQuery), Answer: OllamaShown{}, Example: map[string]any{},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/pull"}, Always: true,
			Handle: s.ollamaPull, Admin: true, Dialect: Dialect{}, Summary: "Download a model to the cache, as Ollama does",
			Body: answer.BodyOf("OllamaPullRequest", newOllamaPullQuery), Stream: true, Answer: ollamaPullStatus{}, Example: map[string]any{"model": "qwen3:0.6b", "stream": false},
		}, {
			Method: http.MethodDelete, Paths: []string{"/api/delete"}, Always: true,
			Handle: s.ollamaDelete, Admin: true, Dialect: Dialect{}, Summary: "Remove a model from the cache, as Ollama does",
			Body: answer.BodyOf("OllamaDeleteRequest", newOllamaDeleteQuery), Answer: field.Schema{"type": "object"}, Example: map[string]any{"model": "qwen3:0.6b"},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/copy"}, Always: true,
			Handle: s.ollamaCopy, Admin: true, Dialect: Dialect{}, Summary: "Give a downloaded model another name, as Ollama does",
			Body: answer.BodyOf("OllamaCopyRequest", newOllamaCopyQuery), Answer: field.Schema{"type": "object"}, Example: map[string]any{"source": "qwen3:0.6b", "destination": "small"},
		}, {
			Method: http.MethodGet, Paths: []string{"/api/version"}, Always: true,
			Handle: s.ollamaVersion, Dialect: Dialect{}, Summary: "Say which version of Ollama's interface this is", Answer: OllamaVersion{},
		},
	}
}
