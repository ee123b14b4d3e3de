package server

import (
	"net/http"

	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
)

// A route is a method and paths that are handled alike.
type route struct {
	method  string
	paths   []string // the first is canonical, the others are aliases
	handle  func(*Request) error
	within  bool    // its paths are handled by a route with a wildcard
	always  bool    // served even while the model is loading
	asleep  bool    // served without waking a model that sleeps; a GET does not load one either
	admin   bool    // only for keys with the role admin
	dialect Dialect // nil: Plain
	models  bool    // it has Anthropic's form too, for clients who say that they are Anthropic's
	// before is called first, with the body received. It may change the model's name and stay, and says whether it has
	// answered already; nil: not called.
	before  func(*Request) (answered bool, err error)
	summary string

	// For the OpenAPI document.
	body    body
	params  []param
	stream  bool // the response may be a stream of events
	answer  any  // a value of the response's type, or its schema
	example any  // of a request body
}

// speaks returns the dialect of the route.
func (r *route) speaks() Dialect {
	if r.dialect == nil {
		return Plain{}
	}
	return r.dialect
}

// A body describes a request's body. The zero body means none.
type body struct {
	name     string
	defaults func(*ask.Model) field.Query
}

func bodyOf[Q field.Query](name string, defaults func(*ask.Model) Q) body {
	return body{name, func(m *ask.Model) field.Query { return defaults(m) }}
}

// A param is a path or query parameter.
type param struct {
	in, name, doc string
	is            field.Schema // nil: a string
}

var (
	pathID  = []param{{"path", "id", "The id.", nil}}
	ofModel = param{"query", "model", "Which model, where there are several; by default the first.", nil}
	onOff   = field.Schema{"enum": []string{"true", "false", "1", "0"}} // as switchOf has it
)

// table returns all routes.
func (s *Server) table() []route {
	hello := []any{map[string]any{"role": "user", "content": "Say hello."}}
	return []route{
		{
			method: http.MethodPost, paths: []string{"/v1/chat/completions", "/chat/completions"},
			handle: s.createChat, summary: "Answer a conversation",
			dialect: openAI{}, body: bodyOf("ChatRequest", newChatQuery), stream: true, answer: chatAnswer{},
			example: map[string]any{"messages": hello, "max_tokens": 8},
		}, {
			method: http.MethodPost, paths: []string{"/v1/chat/completions/control", "/chat/completions/control"},
			handle: s.controlRunning, always: true, summary: "End the reasoning of a request that runs, which asked for reasoning_control",
			body: bodyOf("ControlRequest", newControlQuery), answer: success{},
			example: map[string]any{"id": "chatcmpl-0", "action": "reasoning_end"},
		}, {
			method: http.MethodDelete, paths: []string{"/v1/chat/completions/:id", "/chat/completions/:id", "/v1/completions/:id", "/completion/:id"},
			handle: s.endRunning, always: true, summary: "Cancel a request that runs, by the id in its answer or in the header X-Completion-Id, or delete a stored chat completion",
			params: pathID, answer: cancelled{},
		}, {
			method: http.MethodGet, paths: []string{"/v1/chat/completions", "/chat/completions"}, always: true, dialect: openAI{},
			handle: s.listChats, summary: "List the stored chat completions",
			params: itemPages("asc").params(param{"query", "model", "Only those of a model.", nil}, param{"query", "metadata[key]", "Only those whose metadata has this value under the key.", nil}),
			answer: responseItemList{},
		}, {
			method: http.MethodGet, paths: []string{"/v1/chat/completions/:id", "/chat/completions/:id"}, always: true, dialect: openAI{},
			handle: s.getChat, summary: "Get a stored chat completion", params: pathID, answer: chatAnswer{},
		}, {
			method: http.MethodPost, paths: []string{"/v1/chat/completions/:id", "/chat/completions/:id"}, always: true, dialect: openAI{},
			handle: s.labelChat, summary: "Change the metadata of a stored chat completion", params: pathID,
			body: bodyOf("ChatLabelRequest", newLabelQuery), answer: chatAnswer{}, example: map[string]any{"metadata": map[string]any{"kind": "greeting"}},
		}, {
			method: http.MethodGet, paths: []string{"/v1/chat/completions/:id/messages", "/chat/completions/:id/messages"}, always: true, dialect: openAI{},
			handle: s.listChatMessages, summary: "List the messages that a stored chat completion answers", params: itemPages("asc").params(pathID...), answer: responseItemList{},
		}, {
			method: http.MethodPost, paths: []string{"/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"},
			handle: s.countTokens, summary: "Count the tokens of a conversation",
			body: bodyOf("ChatRequest", newChatQuery), answer: tokenCount{}, example: map[string]any{"messages": hello},
		}, {
			method: http.MethodPost, paths: []string{"/v1/completions"},
			handle: generate(s, "cmpl-", newTextQuery), summary: "Continue a text",
			dialect: openAI{}, body: bodyOf("CompletionRequest", newTextQuery), stream: true, answer: textAnswer{},
			example: map[string]any{"prompt": "Once upon a time", "max_tokens": 8},
		}, {
			method: http.MethodPost, paths: []string{"/v1/responses", "/responses"},
			handle: s.createResponse, summary: "Answer a conversation, and store the response",
			dialect: openAI{}, body: bodyOf("ResponsesRequest", s.newResponsesQuery), stream: true, answer: response{},
			example: map[string]any{"input": "Say hello.", "max_output_tokens": 8},
		}, {
			method: http.MethodPost, paths: []string{"/v1/responses/input_tokens", "/responses/input_tokens"},
			handle: s.countResponse, summary: "Count the tokens of a response's input",
			dialect: openAI{}, body: bodyOf("ResponsesCountRequest", s.newResponsesCountQuery), answer: tokenCount{},
			example: map[string]any{"input": "Say hello."},
		}, {
			method: http.MethodGet, paths: []string{"/v1/responses/:id", "/responses/:id"}, always: true, dialect: openAI{},
			handle: s.getResponse, summary: "Get a stored response", answer: response{}, stream: true,
			params: append(pathID, param{"query", "stream", "true: the events of a response that was asked for with background and stream, from the first on.", onOff}, param{"query", "starting_after", "With stream: only the events after this sequence_number.", field.Schema{"type": "integer", "minimum": 0}}),
		}, {
			method: http.MethodDelete, paths: []string{"/v1/responses/:id", "/responses/:id"}, always: true, dialect: openAI{},
			handle: s.deleteResponse, summary: "Delete a stored response", params: pathID, answer: responseDeleted{},
		}, {
			method: http.MethodPost, paths: []string{"/v1/responses/:id/cancel", "/responses/:id/cancel"}, always: true, dialect: openAI{},
			handle: s.cancelResponse, summary: "Cancel a response that runs in the background", params: pathID, answer: response{},
		}, {
			method: http.MethodGet, paths: []string{"/v1/responses/:id/input_items", "/responses/:id/input_items"}, always: true, dialect: openAI{},
			handle: s.listInputItems, summary: "List the items that a response was given",
			params: itemPages("desc").params(pathID...),
			answer: responseItemList{},
		}, {
			method: http.MethodPost, paths: []string{"/v1/messages"},
			handle: generate(s, "msg_", newAnthropicQuery), summary: "Answer a conversation, as Anthropic does",
			dialect: inAnthropic{}, body: bodyOf("MessagesRequest", newAnthropicQuery), stream: true, answer: anthropicAnswer{},
			example: map[string]any{"messages": hello, "max_tokens": 8},
		}, {
			method: http.MethodPost, paths: []string{"/v1/messages/count_tokens"},
			handle: s.anthropicCountTokens, summary: "Count the tokens of a conversation, as Anthropic does",
			dialect: inAnthropic{}, body: bodyOf("CountTokensRequest", newAnthropicCountQuery), answer: anthropicCount{},
			example: map[string]any{"messages": hello},
		}, {
			method: http.MethodPost, paths: []string{"/completion", "/completions"},
			handle: generate(s, "cmpl-", newNativeQuery), summary: "Continue a text, as llama-server does",
			body: bodyOf("NativeRequest", newNativeQuery), stream: true, answer: nativeSchema,
			example: map[string]any{"prompt": "Once upon a time", "n_predict": 8},
		}, {
			method: http.MethodPost, paths: []string{"/infill"},
			handle: generate(s, "cmpl-", newInfillQuery), summary: "Fill a gap in a text",
			body: bodyOf("InfillRequest", newInfillQuery), stream: true, answer: nativeSchema,
			example: map[string]any{"input_prefix": "def add(a, b):\n    return ", "input_suffix": "\n", "n_predict": 8},
		}, {
			method: http.MethodPost, paths: []string{"/v1/embeddings"},
			handle: s.embeddings, summary: "Make vectors of texts",
			dialect: openAI{}, body: bodyOf("EmbeddingRequest", newEmbedQuery), answer: embedAnswer{}, example: map[string]any{"input": "Hello"},
		}, {
			method: http.MethodPost, paths: []string{"/embedding", "/embeddings"},
			handle: s.nativeEmbeddings, summary: "Make vectors of texts, as llama-server does",
			body: bodyOf("NativeEmbeddingRequest", newNativeEmbedQuery), answer: []nativeEmbedEntry{}, example: map[string]any{"input": "Hello"},
		}, {
			method: http.MethodPost, paths: []string{"/v1/rerank", "/rerank", "/v1/reranking", "/reranking"},
			handle: s.rerank(false), summary: "Order documents by what they have to say on a query",
			body: bodyOf("RerankRequest", newRerankQuery), answer: rerankSchema,
			example: map[string]any{"query": "What is red?", "documents": []any{"The sky.", "A tomato."}},
		}, {
			method: http.MethodPost, paths: []string{"/v2/rerank"},
			handle: s.rerank(true), summary: "Order documents, in the form of Cohere",
			body: bodyOf("RerankRequest", newRerankQuery), answer: rerankAnswer{},
			example: map[string]any{"query": "What is red?", "documents": []any{"The sky.", "A tomato."}},
		}, {
			method: http.MethodPost, paths: []string{"/v1/decisions"},
			handle: s.decide, summary: "Say how probable each of some choices is",
			body: bodyOf("DecisionRequest", newDecisionQuery), answer: decisionAnswer{},
			example: map[string]any{"prompt": "The sky is", "choices": []any{" blue", " green"}},
		}, {
			method: http.MethodPost, paths: []string{"/api/chat"},
			handle: ollama(s, "chat-", newOllamaChatQuery), summary: "Answer a conversation, as Ollama does",
			dialect: inOllama{}, before: s.beforeOllama(chatless), body: bodyOf("OllamaChatRequest", newOllamaChatQuery), stream: true, answer: ollamaSchema,
			example: map[string]any{"messages": hello, "stream": false, "options": map[string]any{"num_predict": 8}},
		}, {
			method: http.MethodPost, paths: []string{"/api/generate"},
			handle: ollama(s, "gen-", newOllamaGenerateQuery), summary: "Answer a prompt, as Ollama does",
			dialect: inOllama{}, before: s.beforeOllama(promptless), body: bodyOf("OllamaGenerateRequest", newOllamaGenerateQuery), stream: true, answer: ollamaSchema,
			example: map[string]any{"prompt": "Say hello.", "stream": false, "options": map[string]any{"num_predict": 8}},
		}, {
			method: http.MethodPost, paths: []string{"/api/embed"},
			handle: s.ollamaEmbed, summary: "Make vectors of texts, as Ollama does",
			dialect: inOllama{}, before: s.beforeOllama(nil), body: bodyOf("OllamaEmbedRequest", newOllamaEmbedQuery), answer: ollamaVectors{}, example: map[string]any{"input": "Hello"},
		}, {
			method: http.MethodPost, paths: []string{"/api/embeddings"},
			handle: s.ollamaOldEmbed, summary: "Make the vector of a text, as Ollama did at first",
			dialect: inOllama{}, before: s.beforeOllama(nil), body: bodyOf("OllamaEmbeddingsRequest", newOllamaOldEmbedQuery), answer: ollamaVector{}, example: map[string]any{"prompt": "Hello"},
		}, {
			method: http.MethodGet, paths: []string{"/api/tags"},
			handle: s.ollamaTags, always: true, dialect: inOllama{}, summary: "List the models, as Ollama does", answer: ollamaModels{},
		}, {
			method: http.MethodGet, paths: []string{"/api/ps"},
			handle: s.ollamaRunning, always: true, dialect: inOllama{}, summary: "List the models that are loaded, as Ollama does", answer: ollamaModels{},
		}, {
			method: http.MethodPost, paths: []string{"/api/show"},
			handle: s.ollamaShow, asleep: true, dialect: inOllama{}, before: s.beforeOllama(nil), summary: "Describe a model, as Ollama does",
			body: bodyOf("OllamaShowRequest", newOllamaShowQuery), answer: ollamaShown{}, example: map[string]any{},
		}, {
			method: http.MethodPost, paths: []string{"/api/pull"}, always: true,
			handle: s.ollamaPull, admin: true, dialect: inOllama{}, summary: "Download a model to the cache, as Ollama does",
			body: bodyOf("OllamaPullRequest", newOllamaPullQuery), stream: true, answer: ollamaPullStatus{}, example: map[string]any{"model": "qwen3:0.6b", "stream": false},
		}, {
			method: http.MethodDelete, paths: []string{"/api/delete"}, always: true,
			handle: s.ollamaDelete, admin: true, dialect: inOllama{}, summary: "Remove a model from the cache, as Ollama does",
			body: bodyOf("OllamaDeleteRequest", newOllamaDeleteQuery), answer: field.Schema{"type": "object"}, example: map[string]any{"model": "qwen3:0.6b"},
		}, {
			method: http.MethodPost, paths: []string{"/api/copy"}, always: true,
			handle: s.ollamaCopy, admin: true, dialect: inOllama{}, summary: "Give a downloaded model another name, as Ollama does",
			body: bodyOf("OllamaCopyRequest", newOllamaCopyQuery), answer: field.Schema{"type": "object"}, example: map[string]any{"source": "qwen3:0.6b", "destination": "small"},
		}, {
			method: http.MethodGet, paths: []string{"/version"}, always: true,
			handle: s.version, summary: "Say which version this is, as vLLM does", answer: versionAnswer{},
		}, {
			method: http.MethodGet, paths: []string{"/api/version"}, always: true,
			handle: s.ollamaVersion, dialect: inOllama{}, summary: "Say which version of Ollama's interface this is", answer: ollamaVersion{},
		}, {
			method: http.MethodGet, paths: []string{"/v1/models", "/models"},
			handle: s.listModels, always: true, dialect: openAI{}, models: true, summary: "List the models, and which are loaded",
			params: []param{{"query", "reload", "1: the folder and the file of models are read again first.", onOff}}, answer: modelList{},
		}, {
			method: http.MethodPost, paths: []string{"/models"}, always: true,
			handle: s.startDownload, admin: true, summary: "Download a model to the cache; GET /models and the events of /models/sse say how far it is",
			body: bodyOf("DownloadRequest", newDownloadQuery), answer: success{}, example: map[string]any{"model": "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M"},
		}, {
			method: http.MethodDelete, paths: []string{"/models"}, always: true,
			handle: s.deleteModel, admin: true, summary: "Remove a model from the cache, or end its download",
			params: []param{{"query", "model", "Which model, by a name that /models has.", nil}}, answer: success{},
		}, {
			method: http.MethodGet, paths: []string{"/models/sse"}, within: true,
			summary: "Stream the changes of models: events model_status, model_remove, models_reload, download_progress, download_finished and download_failed", answer: modelEvent{},
		}, {
			method: http.MethodPost, paths: []string{"/models/load"}, always: true,
			handle: s.placed(placing{with: s.models.Load}), admin: true, summary: "Load a model; GET /models says when it is loaded",
			body: bodyOf("ModelRequest", newModelQuery), answer: success{}, example: map[string]any{"model": "quern-demo"},
		}, {
			method: http.MethodPost, paths: []string{"/models/unload"}, always: true,
			handle: s.placed(placing{with: s.models.Unload, cancels: true}), admin: true, summary: "Unload a model, once the requests that use it have ended, or end its download",
			body: bodyOf("ModelRequest", newModelQuery), answer: success{}, example: map[string]any{"model": "quern-demo"},
		}, {
			method: http.MethodGet, paths: []string{"/v1/models/*id", "/models/*id"},
			handle: s.oneModel, always: true, dialect: openAI{}, models: true, summary: "Describe a model", params: pathID, answer: modelEntry{},
		}, {
			method: http.MethodPost, paths: []string{"/tokenize"},
			handle: s.tokenize, summary: "Make tokens of a text",
			body: bodyOf("TokenizeRequest", newTokenizeQuery), answer: tokens[any]{}, example: map[string]any{"content": "Hello"},
		}, {
			method: http.MethodPost, paths: []string{"/detokenize"},
			handle: s.detokenize, summary: "Make text of tokens",
			body: bodyOf("DetokenizeRequest", newDetokenizeQuery), answer: content{}, example: map[string]any{"tokens": []int{1, 2, 3}},
		}, {
			method: http.MethodGet, paths: []string{"/tokenizer_info"},
			handle: s.tokenizerInfo, asleep: true, summary: "Describe the tokenizer, as vLLM does", params: []param{ofModel}, answer: tokenizerInfo{},
		}, {
			method: http.MethodPost, paths: []string{"/apply-template"},
			handle: s.applyTemplate, summary: "Make a prompt of a conversation",
			body: bodyOf("TemplateRequest", newTemplateQuery), answer: rendered{}, example: map[string]any{"messages": hello},
		}, {
			method: http.MethodGet, paths: []string{"/props"},
			handle: s.anyProps, always: true, summary: "Describe the server: a model, and the defaults of requests", params: []param{ofModel}, answer: props{},
		}, {
			method: http.MethodPost, paths: []string{"/props"},
			handle: s.setProps, admin: true, summary: "Not supported: no property can be changed", answer: field.Schema{"type": "object"},
		}, {
			method: http.MethodGet, paths: []string{"/slots"},
			handle: s.slots, asleep: true, summary: "Describe the sequences that run",
			params: []param{ofModel, {"query", "fail_on_no_slot", "1: the status is 503 where all are busy.", onOff}}, answer: []slotEntry{},
		}, {
			method: http.MethodPost, paths: []string{"/slots/:id"},
			handle: s.slotAction, admin: true, summary: "Save, restore or erase what a slot has in the cache",
			body: bodyOf("SlotRequest", newSlotQuery), params: []param{{"path", "id", "The number of the slot.", field.Schema{"type": "integer", "minimum": 0}}, ofModel, {"query", "action", "What is done; erase needs no body.", field.Schema{"enum": []string{"save", "restore", "erase"}}}},
			answer: field.Schema{"type": "object", "required": []string{"id_slot"}},
		}, {
			method: http.MethodGet, paths: []string{"/v1/memory"}, always: true,
			handle: s.memory, summary: "Say what memory is used for, and what limits it", answer: memoryUse{},
		}, {
			method: http.MethodGet, paths: []string{"/lora-adapters"},
			handle: s.listAdapters, asleep: true, summary: "List LoRA adapters, and the scales that apply to requests which do not say", params: []param{ofModel}, answer: []adapterEntry{},
		}, {
			method: http.MethodPost, paths: []string{"/lora-adapters"},
			handle: s.setAdapters, admin: true, summary: "Set the scales of LoRA adapters for requests which do not say; adapters that are not listed get 0", params: []param{ofModel}, answer: success{},
		}, {
			method: http.MethodPost, paths: []string{"/v1/load_lora_adapter"},
			handle: s.loadAdapter, admin: true, summary: "Load a LoRA adapter; requests may name it as their model",
			body: bodyOf("LoadAdapterRequest", newLoadQuery), answer: adapterEntry{}, example: map[string]any{"lora_name": "poet", "lora_path": "poet.gguf"},
		}, {
			method: http.MethodPost, paths: []string{"/v1/unload_lora_adapter"},
			handle: s.unloadAdapter, admin: true, summary: "Unload a LoRA adapter, once the requests that use it have ended",
			body: bodyOf("UnloadAdapterRequest", newUnloadQuery), answer: success{}, example: map[string]any{"lora_name": "poet"},
		}, {
			method: http.MethodGet, paths: []string{"/health", "/v1/health"},
			handle: s.health, always: true, summary: "Say whether the models of the start are loaded", answer: status{},
		}, {
			method: http.MethodGet, paths: []string{"/openapi.json"}, always: true,
			handle: s.serveDocument, summary: "This document", answer: field.Schema{"type": "object"},
		},
	}
}
