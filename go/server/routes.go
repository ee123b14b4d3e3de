package server

import (
	"net/http"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/field"
)

// table returns all routes.
func (s *Server) table() []answer.Route {
	hello := []any{map[string]any{"role": "user", "content": "Say hello."}}
	return []answer.Route{
		{
			Method: http.MethodPost, Paths: []string{"/v1/chat/completions", "/chat/completions"},
			Handle: s.createChat, Summary: "Answer a conversation",
			Dialect: openAI{}, Body: answer.BodyOf("ChatRequest", newChatQuery), Stream: true, Answer: chatAnswer{},
			Example: map[string]any{"messages": hello, "max_tokens": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/chat/completions/control", "/chat/completions/control"},
			Handle: s.controlRunning, Always: true, Summary: "End the reasoning of a request that runs, which asked for reasoning_control",
			Body: answer.BodyOf("ControlRequest", newControlQuery), Answer: success{},
			Example: map[string]any{"id": "chatcmpl-0", "action": "reasoning_end"},
		}, {
			Method: http.MethodDelete, Paths: []string{"/v1/chat/completions/:id", "/chat/completions/:id", "/v1/completions/:id", "/completion/:id"},
			Handle: s.endRunning, Always: true, Summary: "Cancel a request that runs, by the id in its answer or in the header X-Completion-Id, or delete a stored chat completion",
			Params: answer.PathID, Answer: cancelled{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/chat/completions", "/chat/completions"}, Always: true, Dialect: openAI{},
			Handle: s.listChats, Summary: "List the stored chat completions",
			Params: itemPages("asc").params(answer.Param{In: "query", Name: "model", Doc: "Only those of a model.", Is: nil}, answer.Param{In: "query", Name: "metadata[key]", Doc: "Only those whose metadata has this value under the key.", Is: nil}),
			Answer: responseItemList{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/chat/completions/:id", "/chat/completions/:id"}, Always: true, Dialect: openAI{},
			Handle: s.getChat, Summary: "Get a stored chat completion", Params: answer.PathID, Answer: chatAnswer{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/chat/completions/:id", "/chat/completions/:id"}, Always: true, Dialect: openAI{},
			Handle: s.labelChat, Summary: "Change the metadata of a stored chat completion", Params: answer.PathID,
			Body: answer.BodyOf("ChatLabelRequest", newLabelQuery), Answer: chatAnswer{}, Example: map[string]any{"metadata": map[string]any{"kind": "greeting"}},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/chat/completions/:id/messages", "/chat/completions/:id/messages"}, Always: true, Dialect: openAI{},
			Handle: s.listChatMessages, Summary: "List the messages that a stored chat completion answers", Params: itemPages("asc").params(answer.PathID...), Answer: responseItemList{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"},
			Handle: s.countTokens, Summary: "Count the tokens of a conversation",
			Body: answer.BodyOf("ChatRequest", newChatQuery), Answer: tokenCount{}, Example: map[string]any{"messages": hello},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/completions"},
			Handle: answer.Generates("cmpl-", newTextQuery), Summary: "Continue a text",
			Dialect: openAI{}, Body: answer.BodyOf("CompletionRequest", newTextQuery), Stream: true, Answer: textAnswer{},
			Example: map[string]any{"prompt": "Once upon a time", "max_tokens": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/responses", "/responses"},
			Handle: s.createResponse, Summary: "Answer a conversation, and store the response",
			Dialect: openAI{}, Body: answer.BodyOf("ResponsesRequest", s.newResponsesQuery), Stream: true, Answer: response{},
			Example: map[string]any{"input": "Say hello.", "max_output_tokens": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/responses/input_tokens", "/responses/input_tokens"},
			Handle: s.countResponse, Summary: "Count the tokens of a response's input",
			Dialect: openAI{}, Body: answer.BodyOf("ResponsesCountRequest", s.newResponsesCountQuery), Answer: tokenCount{},
			Example: map[string]any{"input": "Say hello."},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/responses/:id", "/responses/:id"}, Always: true, Dialect: openAI{},
			Handle: s.getResponse, Summary: "Get a stored response", Answer: response{}, Stream: true,
			Params: append(answer.PathID, answer.Param{In: "query", Name: "stream", Doc: "true: the events of a response that was asked for with background and stream, from the first on.", Is: answer.OnOff}, answer.Param{In: "query", Name: "starting_after", Doc: "With stream: only the events after this sequence_number.", Is: field.Schema{"type": "integer", "minimum": 0}}),
		}, {
			Method: http.MethodDelete, Paths: []string{"/v1/responses/:id", "/responses/:id"}, Always: true, Dialect: openAI{},
			Handle: s.deleteResponse, Summary: "Delete a stored response", Params: answer.PathID, Answer: responseDeleted{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/responses/:id/cancel", "/responses/:id/cancel"}, Always: true, Dialect: openAI{},
			Handle: s.cancelResponse, Summary: "Cancel a response that runs in the background", Params: answer.PathID, Answer: response{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/responses/:id/input_items", "/responses/:id/input_items"}, Always: true, Dialect: openAI{},
			Handle: s.listInputItems, Summary: "List the items that a response was given",
			Params: itemPages("desc").params(answer.PathID...),
			Answer: responseItemList{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/messages"},
			Handle: answer.Generates("msg_", newAnthropicQuery), Summary: "Answer a conversation, as Anthropic does",
			Dialect: inAnthropic{}, Body: answer.BodyOf("MessagesRequest", newAnthropicQuery), Stream: true, Answer: anthropicAnswer{},
			Example: map[string]any{"messages": hello, "max_tokens": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/messages/count_tokens"},
			Handle: s.anthropicCountTokens, Summary: "Count the tokens of a conversation, as Anthropic does",
			Dialect: inAnthropic{}, Body: answer.BodyOf("CountTokensRequest", newAnthropicCountQuery), Answer: anthropicCount{},
			Example: map[string]any{"messages": hello},
		}, {
			Method: http.MethodPost, Paths: []string{"/completion", "/completions"},
			Handle: answer.Generates("cmpl-", newNativeQuery), Summary: "Continue a text, as llama-server does",
			Body: answer.BodyOf("NativeRequest", newNativeQuery), Stream: true, Answer: nativeSchema,
			Example: map[string]any{"prompt": "Once upon a time", "n_predict": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/infill"},
			Handle: answer.Generates("cmpl-", newInfillQuery), Summary: "Fill a gap in a text",
			Body: answer.BodyOf("InfillRequest", newInfillQuery), Stream: true, Answer: nativeSchema,
			Example: map[string]any{"input_prefix": "def add(a, b):\n    return ", "input_suffix": "\n", "n_predict": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/embeddings"},
			Handle: s.embeddings, Summary: "Make vectors of texts",
			Dialect: openAI{}, Body: answer.BodyOf("EmbeddingRequest", newEmbedQuery), Answer: embedAnswer{}, Example: map[string]any{"input": "Hello"},
		}, {
			Method: http.MethodPost, Paths: []string{"/embedding", "/embeddings"},
			Handle: s.nativeEmbeddings, Summary: "Make vectors of texts, as llama-server does",
			Body: answer.BodyOf("NativeEmbeddingRequest", newNativeEmbedQuery), Answer: []nativeEmbedEntry{}, Example: map[string]any{"input": "Hello"},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/rerank", "/rerank", "/v1/reranking", "/reranking"},
			Handle: s.rerank(false), Summary: "Order documents by what they have to say on a query",
			Body: answer.BodyOf("RerankRequest", newRerankQuery), Answer: rerankSchema,
			Example: map[string]any{"query": "What is red?", "documents": []any{"The sky.", "A tomato."}},
		}, {
			Method: http.MethodPost, Paths: []string{"/v2/rerank"},
			Handle: s.rerank(true), Summary: "Order documents, in the form of Cohere",
			Body: answer.BodyOf("RerankRequest", newRerankQuery), Answer: rerankAnswer{},
			Example: map[string]any{"query": "What is red?", "documents": []any{"The sky.", "A tomato."}},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/decisions"},
			Handle: s.decide, Summary: "Say how probable each of some choices is",
			Body: answer.BodyOf("DecisionRequest", newDecisionQuery), Answer: decisionAnswer{},
			Example: map[string]any{"prompt": "The sky is", "choices": []any{" blue", " green"}},
		}, {
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
			Method: http.MethodGet, Paths: []string{"/version"}, Always: true,
			Handle: s.version, Summary: "Say which version this is, as vLLM does", Answer: versionAnswer{},
		}, {
			Method: http.MethodGet, Paths: []string{"/api/version"}, Always: true,
			Handle: s.ollamaVersion, Dialect: inOllama{}, Summary: "Say which version of Ollama's interface this is", Answer: ollamaVersion{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/models", "/models"},
			Handle: s.listModels, Always: true, Dialect: openAI{}, Models: true, Summary: "List the models, and which are loaded",
			Params: []answer.Param{{In: "query", Name: "reload", Doc: "1: the folder and the file of models are read again first.", Is: answer.OnOff}}, Answer: modelList{},
		}, {
			Method: http.MethodPost, Paths: []string{"/models"}, Always: true,
			Handle: s.startDownload, Admin: true, Summary: "Download a model to the cache; GET /models and the events of /models/sse say how far it is",
			Body: answer.BodyOf("DownloadRequest", newDownloadQuery), Answer: success{}, Example: map[string]any{"model": "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M"},
		}, {
			Method: http.MethodDelete, Paths: []string{"/models"}, Always: true,
			Handle: s.deleteModel, Admin: true, Summary: "Remove a model from the cache, or end its download",
			Params: []answer.Param{{In: "query", Name: "model", Doc: "Which model, by a name that /models has.", Is: nil}}, Answer: success{},
		}, {
			Method: http.MethodGet, Paths: []string{"/models/sse"}, Within: true,
			Summary: "Stream the changes of models: events model_status, model_remove, models_reload, download_progress, download_finished and download_failed", Answer: modelEvent{},
		}, {
			Method: http.MethodPost, Paths: []string{"/models/load"}, Always: true,
			Handle: s.placed(placing{with: s.models.Load}), Admin: true, Summary: "Load a model; GET /models says when it is loaded",
			Body: answer.BodyOf("ModelRequest", newModelQuery), Answer: success{}, Example: map[string]any{"model": "quern-demo"},
		}, {
			Method: http.MethodPost, Paths: []string{"/models/unload"}, Always: true,
			Handle: s.placed(placing{with: s.models.Unload, cancels: true}), Admin: true, Summary: "Unload a model, once the requests that use it have ended, or end its download",
			Body: answer.BodyOf("ModelRequest", newModelQuery), Answer: success{}, Example: map[string]any{"model": "quern-demo"},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/models/*id", "/models/*id"},
			Handle: s.oneModel, Always: true, Dialect: openAI{}, Models: true, Summary: "Describe a model", Params: answer.PathID, Answer: modelEntry{},
		}, {
			Method: http.MethodPost, Paths: []string{"/tokenize"},
			Handle: s.tokenize, Summary: "Make tokens of a text",
			Body: answer.BodyOf("TokenizeRequest", newTokenizeQuery), Answer: tokens[any]{}, Example: map[string]any{"content": "Hello"},
		}, {
			Method: http.MethodPost, Paths: []string{"/detokenize"},
			Handle: s.detokenize, Summary: "Make text of tokens",
			Body: answer.BodyOf("DetokenizeRequest", newDetokenizeQuery), Answer: content{}, Example: map[string]any{"tokens": []int{1, 2, 3}},
		}, {
			Method: http.MethodGet, Paths: []string{"/tokenizer_info"},
			Handle: s.tokenizerInfo, Asleep: true, Summary: "Describe the tokenizer, as vLLM does", Params: []answer.Param{answer.OfModel}, Answer: tokenizerInfo{},
		}, {
			Method: http.MethodPost, Paths: []string{"/apply-template"},
			Handle: s.applyTemplate, Summary: "Make a prompt of a conversation",
			Body: answer.BodyOf("TemplateRequest", newTemplateQuery), Answer: rendered{}, Example: map[string]any{"messages": hello},
		}, {
			Method: http.MethodGet, Paths: []string{"/props"},
			Handle: s.anyProps, Always: true, Summary: "Describe the server: a model, and the defaults of requests", Params: []answer.Param{answer.OfModel}, Answer: props{},
		}, {
			Method: http.MethodPost, Paths: []string{"/props"},
			Handle: s.setProps, Admin: true, Summary: "Not supported: no property can be changed", Answer: field.Schema{"type": "object"},
		}, {
			Method: http.MethodGet, Paths: []string{"/slots"},
			Handle: s.slots, Asleep: true, Summary: "Describe the sequences that run",
			Params: []answer.Param{answer.OfModel, {In: "query", Name: "fail_on_no_slot", Doc: "1: the status is 503 where all are busy.", Is: answer.OnOff}}, Answer: []slotEntry{},
		}, {
			Method: http.MethodPost, Paths: []string{"/slots/:id"},
			Handle: s.slotAction, Admin: true, Summary: "Save, restore or erase what a slot has in the cache",
			Body: answer.BodyOf("SlotRequest", newSlotQuery), Params: []answer.Param{{In: "path", Name: "id", Doc: "The number of the slot.", Is: field.Schema{"type": "integer", "minimum": 0}}, answer.OfModel, {In: "query", Name: "action", Doc: "What is done; erase needs no body.", Is: field.Schema{"enum": []string{"save", "restore", "erase"}}}},
			Answer: field.Schema{"type": "object", "required": []string{"id_slot"}},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/memory"}, Always: true,
			Handle: s.memory, Summary: "Say what memory is used for, and what limits it", Answer: memoryUse{},
		}, {
			Method: http.MethodGet, Paths: []string{"/lora-adapters"},
			Handle: s.listAdapters, Asleep: true, Summary: "List LoRA adapters, and the scales that apply to requests which do not say", Params: []answer.Param{answer.OfModel}, Answer: []adapterEntry{},
		}, {
			Method: http.MethodPost, Paths: []string{"/lora-adapters"},
			Handle: s.setAdapters, Admin: true, Summary: "Set the scales of LoRA adapters for requests which do not say; adapters that are not listed get 0", Params: []answer.Param{answer.OfModel}, Answer: success{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/load_lora_adapter"},
			Handle: s.loadAdapter, Admin: true, Summary: "Load a LoRA adapter; requests may name it as their model",
			Body: answer.BodyOf("LoadAdapterRequest", newLoadQuery), Answer: adapterEntry{}, Example: map[string]any{"lora_name": "poet", "lora_path": "poet.gguf"},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/unload_lora_adapter"},
			Handle: s.unloadAdapter, Admin: true, Summary: "Unload a LoRA adapter, once the requests that use it have ended",
			Body: answer.BodyOf("UnloadAdapterRequest", newUnloadQuery), Answer: success{}, Example: map[string]any{"lora_name": "poet"},
		}, {
			Method: http.MethodGet, Paths: []string{"/health", "/v1/health"},
			Handle: s.health, Always: true, Summary: "Say whether the models of the start are loaded", Answer: status{},
		}, {
			Method: http.MethodGet, Paths: []string{"/openapi.json"}, Always: true,
			Handle: s.serveDocument, Summary: "This document", Answer: field.Schema{"type": "object"},
		},
	}
}
