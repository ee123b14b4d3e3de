// Package openai serves OpenAI's API: chat completions, completions, responses, embeddings, files and batches, with
// what is stored of them.
package openai

import (
	"net/http"
	"slices"

	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/history"
)

// API serves OpenAI's API.
type API struct {
	Host    *answer.Host
	Stored  *history.Store // responses and chat completions
	Batches *batch.Store   // files and batches; nil: there are none
	// Endpoints returns those that a batch may name.
	Endpoints func() []string
	// Tunable returns a model that may be fine-tuned, by any of its names; nil: there are no fine-tuning jobs.
	Tunable func(req *answer.Request, name string) (batch.Base, error)
	// Tools are called for responses that name their MCP servers; nil: there are none.
	Tools  agent.Servers
	Web    agent.Web // for responses that have web_search
	Limits agent.Limits
}

// Routes are those of the API.
func (s *API) Routes() []answer.Route {
	hello := []any{map[string]any{"role": "user", "content": "Say hello."}}
	return append([]answer.Route{
		{
			Method: http.MethodPost, Paths: []string{"/v1/chat/completions", "/chat/completions"},
			Handle: s.createChat, Summary: "Answer a conversation",
			Dialect: Dialect{}, Body: answer.BodyOf("ChatRequest", NewChatQuery), Stream: true, Answer: chatAnswer{},
			Example: map[string]any{"messages": hello, "max_tokens": 8},
		}, {
			Method: http.MethodDelete, Paths: []string{"/v1/chat/completions/:id", "/chat/completions/:id",
				"/v1/completions/:id", "/completion/:id"},
			Handle: s.endRunning, Always: true, Summary: "Cancel a request that runs, by the id in its answer or in the " +
				"header X-Completion-Id, or delete a stored chat completion",
			Params: answer.PathID, Answer: cancelled{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/chat/completions", "/chat/completions"}, Always: true,
			Dialect: Dialect{},
			Handle:  s.listChats, Summary: "List the stored chat completions",
			Params: itemPages("asc").params(answer.Param{In: "query", Name: "model", Doc: "Only those of a model.", Is: nil},
				answer.Param{In: "query", Name: "metadata[key]", Doc: "Only those whose metadata has this value under the key.",
					Is: nil}),
			Answer: responseItemList{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/chat/completions/:id", "/chat/completions/:id"}, Always: true,
			Dialect: Dialect{},
			Handle:  s.getChat, Summary: "Get a stored chat completion", Params: answer.PathID, Answer: chatAnswer{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/chat/completions/:id", "/chat/completions/:id"}, Always: true,
			Dialect: Dialect{},
			Handle:  s.labelChat, Summary: "Change the metadata of a stored chat completion", Params: answer.PathID,
			Body: answer.BodyOf("ChatLabelRequest", newLabelQuery), Answer: chatAnswer{},
			Example: map[string]any{"metadata": map[string]any{"kind": "greeting"}},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/chat/completions/:id/messages", "/chat/completions/:id/messages"},
			Always: true, Dialect: Dialect{},
			Handle: s.listChatMessages, Summary: "List the messages that a stored chat completion answers",
			Params: itemPages("asc").params(answer.PathID...), Answer: responseItemList{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"},
			Handle: s.countTokens, Summary: "Count the tokens of a conversation",
			Body: answer.BodyOf("ChatRequest", NewChatQuery), Answer: tokenCount{}, Example: map[string]any{"messages": hello},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/completions"},
			Handle: answer.Generates("cmpl-", NewTextQuery), Summary: "Continue a text",
			Dialect: Dialect{}, Body: answer.BodyOf("CompletionRequest", NewTextQuery), Stream: true, Answer: textAnswer{},
			Example: map[string]any{"prompt": "Once upon a time", "max_tokens": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/responses", "/responses"},
			Handle: s.createResponse, Summary: "Answer a conversation, and store the response",
			Dialect: Dialect{}, Body: answer.BodyOf("ResponsesRequest", s.newResponsesQuery), Stream: true, Answer: response{},
			Example: map[string]any{"input": "Say hello.", "max_output_tokens": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/responses/input_tokens", "/responses/input_tokens"},
			Handle: s.countResponse, Summary: "Count the tokens of a response's input",
			Dialect: Dialect{}, Body: answer.BodyOf("ResponsesCountRequest", s.newResponsesCountQuery), Answer: tokenCount{},
			Example: map[string]any{"input": "Say hello."},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/responses/:id", "/responses/:id"}, Always: true, Dialect: Dialect{},
			Handle: s.getResponse, Summary: "Get a stored response", Answer: response{}, Stream: true,
			Params: append(answer.PathID, answer.Param{In: "query", Name: "stream",
				Doc: "true: the events of a response that was asked for with background and stream, from the first on.",
				Is:  answer.OnOff}, answer.Param{In: "query", Name: "starting_after",
				Doc: "With stream: only the events after this sequence_number.",
				Is:  field.Schema{"type": "integer", "minimum": 0}}),
		}, {
			Method: http.MethodDelete, Paths: []string{"/v1/responses/:id", "/responses/:id"}, Always: true, Dialect: Dialect{},
			Handle: s.deleteResponse, Summary: "Delete a stored response", Params: answer.PathID, Answer: responseDeleted{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/responses/:id/cancel", "/responses/:id/cancel"}, Always: true,
			Dialect: Dialect{},
			Handle:  s.cancelResponse, Summary: "Cancel a response that runs", Params: answer.PathID,
			Answer: response{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/responses/:id/input_items", "/responses/:id/input_items"}, Always: true,
			Dialect: Dialect{},
			Handle:  s.listInputItems, Summary: "List the items that a response was given",
			Params: itemPages("desc").params(answer.PathID...),
			Answer: responseItemList{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/embeddings"},
			Handle: s.embeddings, Summary: "Make vectors of texts",
			Dialect: Dialect{}, Body: answer.BodyOf("EmbeddingRequest", newEmbedQuery), Answer: embedAnswer{},
			Example: map[string]any{"input": "Hello"},
		}, {
			Method: http.MethodPost, Paths: SoundPaths[:2], Form: true,
			Handle: s.transcriptions, Summary: "Write down what is said in sound",
			Dialect: Dialect{}, Body: answer.BodyOf("TranscriptionRequest", newTranscriptionQuery), Stream: true,
			Answer: transcriptionAnswer{},
		}, {
			Method: http.MethodPost, Paths: SoundPaths[2:], Form: true,
			Handle: s.translations, Summary: "Write down in English what is said in sound",
			Dialect: Dialect{}, Body: answer.BodyOf("TranslationRequest", newTranslationQuery), Stream: true,
			Answer: transcriptionAnswer{},
		},
	}, slices.Concat(s.batchRoutes(), s.tuneRoutes())...)
}

// batchRoutes are those of files and batches.
func (s *API) batchRoutes() []answer.Route {
	return []answer.Route{
		{
			Method: http.MethodPost, Paths: []string{"/v1/files"}, Always: true, Dialect: Dialect{},
			Handle: s.kept(s.upload), Summary: "Upload a file of requests for a batch, or of examples to fine-tune with, as a form with purpose=batch or fine-tune and file",
			Answer: batch.File{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/files"}, Always: true, Dialect: Dialect{},
			Handle: s.kept(s.listFiles), Summary: "List the files", Answer: page[batch.File]{},
			Params: filePages.params(answer.Param{In: "query", Name: "purpose", Doc: "Such as batch, batch_output or fine-tune.", Is: nil}),
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/files/:id"}, Always: true, Dialect: Dialect{},
			Handle: s.kept(s.getFile), Summary: "Describe a file", Params: answer.PathID, Answer: batch.File{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/files/:id/content"}, Always: true, Dialect: Dialect{},
			Handle: s.kept(s.fileContent), Summary: "Download a file", Params: answer.PathID,
			Answer: field.Schema{"type": "string"},
		}, {
			Method: http.MethodDelete, Paths: []string{"/v1/files/:id"}, Always: true, Dialect: Dialect{},
			Handle: s.kept(s.deleteFile), Summary: "Delete a file", Params: answer.PathID, Answer: deleted{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/batches"}, Always: true, Dialect: Dialect{},
			Handle: s.createBatch, Summary: "Run the requests of a file when there is time", Answer: batch.Batch{},
			Body:    answer.BodyOf("BatchRequest", newBatchQuery),
			Example: map[string]any{"input_file_id": "file-abc", "endpoint": "/v1/chat/completions", "completion_window": "24h"},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/batches"}, Always: true, Dialect: Dialect{},
			Handle: s.kept(s.listBatches), Summary: "List the batches", Params: batchPages.params(), Answer: page[batch.Batch]{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/batches/:id"}, Always: true, Dialect: Dialect{},
			Handle: s.kept(s.getBatch), Summary: "Describe a batch", Params: answer.PathID, Answer: batch.Batch{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/batches/:id/cancel"}, Always: true, Dialect: Dialect{},
			Handle: s.kept(s.cancelBatch), Summary: "Cancel a batch: what was answered stays", Params: answer.PathID,
			Answer: batch.Batch{},
		},
	}
}
