package server

import (
	"net/http"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/field"
)

// ollamaRoutes are those of the API.
func (s *Server) ollamaRoutes() []answer.Route {
	hello := []any{map[string]any{"role": "user", "content": "Say hello."}}
	return []answer.Route{
		{
			Method: http.MethodPost, Paths: []string{"/api/chat"},
			Handle: ollama("chat-", newOllamaChatQuery), Summary: "Answer a conversation, as Ollama does",
			Dialect: inOllama{}, Before: s.beforeOllama(chatless), Body: answer.BodyOf("OllamaChatRequest", newOllamaChatQuery), Stream: true, Answer: ollamaSchema,
			Example: map[string]any{"messages": hello, "stream": false, "options": map[string]any{"num_predict": 8}},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/generate"},
			Handle: ollama("gen-", newOllamaGenerateQuery), Summary: "Answer a prompt, as Ollama does",
			Dialect: inOllama{}, Before: s.beforeOllama(promptless), Body: answer.BodyOf("OllamaGenerateRequest", newOllamaGenerateQuery), Stream: true, Answer: ollamaSchema,
			Example: map[string]any{"prompt": "Say hello.", "stream": false, "options": map[string]any{"num_predict": 8}},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/embed"},
			Handle: s.ollamaEmbed, Summary: "Make vectors of texts, as Ollama does",
			Dialect: inOllama{}, Before: s.beforeOllama(nil), Body: answer.BodyOf("OllamaEmbedRequest", newOllamaEmbedQuery), Answer: ollamaVectors{}, Example: map[string]any{"input": "Hello"},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/embeddings"},
			Handle: s.ollamaOldEmbed, Summary: "Make the vector of a text, as Ollama did at first",
			Dialect: inOllama{}, Before: s.beforeOllama(nil), Body: answer.BodyOf("OllamaEmbeddingsRequest", newOllamaOldEmbedQuery), Answer: ollamaVector{}, Example: map[string]any{"prompt": "Hello"},
		}, {
			Method: http.MethodGet, Paths: []string{"/api/tags"},
			Handle: s.ollamaTags, Always: true, Dialect: inOllama{}, Summary: "List the models, as Ollama does", Answer: ollamaModels{},
		}, {
			Method: http.MethodGet, Paths: []string{"/api/ps"},
			Handle: s.ollamaRunning, Always: true, Dialect: inOllama{}, Summary: "List the models that are loaded, as Ollama does", Answer: ollamaModels{},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/show"},
			Handle: s.ollamaShow, Asleep: true, Dialect: inOllama{}, Before: s.beforeOllama(nil), Summary: "Describe a model, as Ollama does",
			Body: answer.BodyOf("OllamaShowRequest", newOllamaShowQuery), Answer: ollamaShown{}, Example: map[string]any{},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/pull"}, Always: true,
			Handle: s.ollamaPull, Admin: true, Dialect: inOllama{}, Summary: "Download a model to the cache, as Ollama does",
			Body: answer.BodyOf("OllamaPullRequest", newOllamaPullQuery), Stream: true, Answer: ollamaPullStatus{}, Example: map[string]any{"model": "qwen3:0.6b", "stream": false},
		}, {
			Method: http.MethodDelete, Paths: []string{"/api/delete"}, Always: true,
			Handle: s.ollamaDelete, Admin: true, Dialect: inOllama{}, Summary: "Remove a model from the cache, as Ollama does",
			Body: answer.BodyOf("OllamaDeleteRequest", newOllamaDeleteQuery), Answer: field.Schema{"type": "object"}, Example: map[string]any{"model": "qwen3:0.6b"},
		}, {
			Method: http.MethodPost, Paths: []string{"/api/copy"}, Always: true,
			Handle: s.ollamaCopy, Admin: true, Dialect: inOllama{}, Summary: "Give a downloaded model another name, as Ollama does",
			Body: answer.BodyOf("OllamaCopyRequest", newOllamaCopyQuery), Answer: field.Schema{"type": "object"}, Example: map[string]any{"source": "qwen3:0.6b", "destination": "small"},
		}, {
			Method: http.MethodGet, Paths: []string{"/api/version"}, Always: true,
			Handle: s.ollamaVersion, Dialect: inOllama{}, Summary: "Say which version of Ollama's interface this is", Answer: ollamaVersion{},
		},
	}
}
