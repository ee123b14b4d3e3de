// Package llamaserver serves the API of llama-server, and what belongs to no other: completion and infill, tokens,
// slots, properties, adapters, the list of models with their loading and downloads, reranking, decisions, memory, and
// tools of MCP servers.
package llamaserver

import (
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/quota"
)

// API serves llama-server's API.
type API struct {
	Host    *answer.Host
	List    *catalog.Catalog
	Answer  func(*answer.Request) error // answers a request to another route
	HasPage func(path string) bool      // whether the caller serves a page

	Build    string
	SlotPath string                  // the directory of saved slots; empty: slots are not saved
	NoSlots  bool                    // GET /slots is refused
	Tools    Tools                   // what /v1/mcp has; nil: it is refused
	ToolTime time.Duration           // the most that a call of one takes
	Own      Own                     // the server's own, which /tools has besides; nil: none
	Proxy    bool                    // /cors-proxy sends requests on
	Device   *engine.Device          // whose memory GET /v1/memory shows; nil: none
	Keys     func() []quota.Key      // of which GET /v1/usage tells; nil: none is counted
	Disk     *diskcache.Store        // what it shows of texts on disk; nil: there are none
	Most     int                     // models that are loaded at a time; 0: as many as fit
	Manual   bool                    // models are loaded where a request asks for it only
	Rescan   func() error            // brings the models that are listed up to date; nil: they are those of the start
	Known    func(*gin.Context) bool // whether a request is of an authorized client; nil: all are
	// Tuned returns the fine-tuned models of a request's caller; nil: there are none.
	Tuned func(*answer.Request) []batch.TunedModel

	turns turns // of Own
}

// Routes are those of llama-server.
func (s *API) Routes() []answer.Route {
	hello := []any{map[string]any{"role": "user", "content": "Say hello."}}
	return append([]answer.Route{
		{
			Method: http.MethodPost, Paths: []string{"/completion", "/completions"},
			Handle: answer.Generates("cmpl-", NewNativeQuery), Summary: "Continue a text, as llama-server does",
			Body: answer.BodyOf("NativeRequest", NewNativeQuery), Stream: true, Answer: nativeSchema,
			Example: map[string]any{"prompt": "Once upon a time", "n_predict": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/infill"},
			Handle: answer.Generates("cmpl-", NewInfillQuery), Summary: "Fill a gap in a text",
			Body: answer.BodyOf("InfillRequest", NewInfillQuery), Stream: true, Answer: nativeSchema,
			Example: map[string]any{"input_prefix": "def add(a, b):\n    return ", "input_suffix": "\n", "n_predict": 8},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/chat/completions/control", "/chat/completions/control"},
			Handle: s.control, Always: true, Summary: "End the reasoning of a request that runs, which asked for " +
				"reasoning_control",
			Body: answer.BodyOf("ControlRequest", newControlQuery), Answer: success{},
			Example: map[string]any{"id": "chatcmpl-0", "action": "reasoning_end"},
		}, {
			Method: http.MethodPost, Paths: []string{"/embedding", "/embeddings"},
			Handle: s.embeddings, Summary: "Make vectors of texts, as llama-server does",
			Body: answer.BodyOf("NativeEmbeddingRequest", newEmbedQuery), Answer: []embedEntry{},
			Example: map[string]any{"input": "Hello"},
		}, {
			Method: http.MethodPost, Paths: []string{"/embed_sparse"},
			Handle: s.sparse, Summary: "Make sparse vectors of texts, as TEI does",
			Body: answer.BodyOf("SparseRequest", newSparseQuery), Answer: [][]engine.Term{},
			Example: map[string]any{"inputs": "Hello"},
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
			Method: http.MethodPost, Paths: []string{"/v1/score", "/score"},
			Handle: s.score, Summary: "Say how much texts have to do with each other, as vLLM does",
			Body: answer.BodyOf("ScoreRequest", newScoreQuery), Answer: vllmList[scoreEntry]{},
			Example: map[string]any{"text_1": "What is red?", "text_2": []any{"The sky.", "A tomato."}},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/classify", "/classify"},
			Handle: s.classify, Summary: "Say which class texts are of, as vLLM does",
			Body: answer.BodyOf("ClassifyRequest", newClassifyQuery), Answer: vllmList[classEntry]{},
			Example: map[string]any{"input": "I like it."},
		}, {
			Method: http.MethodPost, Paths: []string{"/pooling"},
			Handle: s.pooling, Summary: "Make vectors or classes of texts or of their tokens, as vLLM does",
			Body: answer.BodyOf("PoolingRequest", newPoolingQuery), Answer: vllmList[poolingEntry]{},
			Example: map[string]any{"input": "Hello"},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/decisions"},
			Handle: s.decide, Summary: "Say how probable each of some choices is",
			Body: answer.BodyOf("DecisionRequest", newDecisionQuery), Answer: decisionSchema,
			Example: map[string]any{"prompt": "The sky is", "choices": []any{" blue", " green"}},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/systemone", "/systemone"},
			Handle: s.systemOne, Summary: "Answer questions with types about a state, by probabilities",
			Body: answer.BodyOf("SystemOneRequest", newSystemOneQuery), Answer: namedAnswers{},
			Example: map[string]any{"state": "The parcel came late.", "questions": map[string]any{
				"angry": map[string]any{"type": "noul", "instructions": "Is the customer angry?"}}},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/decisions/calibrate"},
			Handle: s.calibrate, Summary: "Fit the probabilities of choices to examples whose choice is known",
			Body: answer.BodyOf("CalibrateRequest", newCalibrateQuery), Answer: calibrateAnswer{},
			Example: map[string]any{"choices": []any{" blue", " green"}, "examples": []any{
				map[string]any{"prompt": "The sky is", "label": " blue"}, map[string]any{"prompt": "Grass is", "label": " green"}}},
		}, {
			Method: http.MethodGet, Paths: []string{"/version"}, Always: true,
			Handle: s.version, Summary: "Say which version this is, as vLLM does", Answer: versionAnswer{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/models", "/models"},
			Handle: s.listModels, Always: true, Models: true, Summary: "List the models, and which are loaded",
			Params: []answer.Param{{In: "query", Name: "reload",
				Doc: "1: the folder and the file of models are read again first.", Is: answer.OnOff}}, Answer: modelList{},
		}, {
			Method: http.MethodPost, Paths: []string{"/models"}, Always: true,
			Handle: s.startDownload, Admin: true,
			Summary: "Download a model to the cache; GET /models and the events of /models/sse say how far it is",
			Body:    answer.BodyOf("DownloadRequest", newDownloadQuery), Answer: success{},
			Example: map[string]any{"model": "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M"},
		}, {
			Method: http.MethodDelete, Paths: []string{"/models"}, Always: true,
			Handle: s.deleteModel, Admin: true, Summary: "Remove a model from the cache, or end its download",
			Params: []answer.Param{{In: "query", Name: "model", Doc: "Which model, by a name that /models has.", Is: nil}},
			Answer: success{},
		}, {
			Method: http.MethodGet, Paths: []string{"/models/sse"}, Within: true,
			Summary: "Stream the changes of models: events model_status, model_remove, models_reload, download_progress, " +
				"download_finished and download_failed", Answer: modelEvent{},
		}, {
			Method: http.MethodPost, Paths: []string{"/models/load"}, Always: true,
			Handle: s.placed(placing{with: s.List.Set.Load}), Admin: true,
			Summary: "Load a model; GET /models says when it is loaded",
			Body:    answer.BodyOf("ModelRequest", newModelQuery), Answer: success{}, Example: map[string]any{"model": "demo"},
		}, {
			Method: http.MethodPost, Paths: []string{"/models/unload"}, Always: true,
			Handle: s.placed(placing{with: s.List.Set.Unload, cancels: true}), Admin: true,
			Summary: "Unload a model, once the requests that use it have ended, or end its download",
			Body:    answer.BodyOf("ModelRequest", newModelQuery), Answer: success{}, Example: map[string]any{"model": "demo"},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/models/*id", "/models/*id"},
			Handle: s.oneModel, Always: true, Models: true, Summary: "Describe a model", Params: answer.PathID,
			Answer: modelEntry{},
		}, {
			Method: http.MethodPost, Paths: []string{"/tokenize"},
			Handle: s.tokenize, Summary: "Make tokens of a text",
			Body: answer.BodyOf("TokenizeRequest", newTokenizeQuery), Answer: tokens[any]{},
			Example: map[string]any{"content": "Hello"},
		}, {
			Method: http.MethodPost, Paths: []string{"/detokenize"},
			Handle: s.detokenize, Summary: "Make text of tokens",
			Body: answer.BodyOf("DetokenizeRequest", newDetokenizeQuery), Answer: content{},
			Example: map[string]any{"tokens": []int{1, 2, 3}},
		}, {
			Method: http.MethodGet, Paths: []string{"/tokenizer_info"},
			Handle: s.tokenizerInfo, Asleep: true, Summary: "Describe the tokenizer, as vLLM does",
			Params: []answer.Param{answer.OfModel}, Answer: tokenizerInfo{},
		}, {
			Method: http.MethodPost, Paths: []string{"/apply-template"},
			Handle: s.applyTemplate, Summary: "Make a prompt of a conversation",
			Body: answer.BodyOf("TemplateRequest", NewTemplateQuery), Answer: rendered{},
			Example: map[string]any{"messages": hello},
		}, {
			Method: http.MethodGet, Paths: []string{"/props"},
			Handle: s.anyProps, Always: true, Summary: "Describe the server: a model, and the defaults of requests",
			Params: []answer.Param{answer.OfModel}, Answer: props{},
		}, {
			Method: http.MethodPost, Paths: []string{"/props"},
			Handle: s.setProps, Admin: true, Summary: "Not supported: no property can be changed",
			Answer: field.Schema{"type": "object"},
		}, {
			Method: http.MethodGet, Paths: []string{"/slots"},
			Handle: s.slots, Asleep: true, Summary: "Describe the sequences that run",
			Params: []answer.Param{answer.OfModel,
				{In: "query", Name: "fail_on_no_slot", Doc: "1: the status is 503 where all are busy.", Is: answer.OnOff}},
			Answer: []slotEntry{},
		}, {
			Method: http.MethodPost, Paths: []string{"/slots/:id"},
			Handle: s.slotAction, Admin: true, Summary: "Save, restore or erase what a slot has in the cache",
			Body: answer.BodyOf("SlotRequest", newSlotQuery),
			Params: []answer.Param{{In: "path", Name: "id", Doc: "The number of the slot.",
				Is: field.Schema{"type": "integer", "minimum": 0}}, answer.OfModel,
				{In: "query", Name: "action", Doc: "What is done; erase needs no body.",
					Is: field.Schema{"enum": []string{"save", "restore", "erase"}}}},
			Answer: field.Schema{"type": "object", "required": []string{"id_slot"}},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/usage"}, Always: true, Handle: s.usage,
			Summary: "Say what an API key has asked for and may ask for; an administrator is told of all keys", Answer: usageList{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v1/memory"}, Always: true,
			Handle: s.memory, Summary: "Say what memory is used for, and what limits it", Answer: memoryUse{},
		}, {
			Method: http.MethodGet, Paths: []string{"/lora-adapters"},
			Handle: s.listAdapters, Asleep: true,
			Summary: "List LoRA adapters, and the scales that apply to requests which do not say",
			Params:  []answer.Param{answer.OfModel}, Answer: []adapterEntry{},
		}, {
			Method: http.MethodPost, Paths: []string{"/lora-adapters"},
			Handle: s.setAdapters, Admin: true, Summary: "Set the scales of LoRA adapters for requests which do not say; " +
				"adapters that are not listed get 0", Params: []answer.Param{answer.OfModel}, Answer: success{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/load_lora_adapter"},
			Handle: s.loadAdapter, Admin: true, Summary: "Load a LoRA adapter; requests may name it as their model",
			Body: answer.BodyOf("LoadAdapterRequest", newLoadQuery), Answer: adapterEntry{},
			Example: map[string]any{"lora_name": "poet", "lora_path": "poet.gguf"},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/unload_lora_adapter"},
			Handle: s.unloadAdapter, Admin: true, Summary: "Unload a LoRA adapter, once the requests that use it have ended",
			Body: answer.BodyOf("UnloadAdapterRequest", newUnloadQuery), Answer: success{},
			Example: map[string]any{"lora_name": "poet"},
		}, {
			Method: http.MethodGet, Paths: []string{"/health", "/v1/health"},
			Handle: s.health, Always: true, Summary: "Say whether the models of the start are loaded", Answer: status{},
		},
	}, slices.Concat(s.streamRoutes(), s.mcpRoutes(), s.ownRoutes(), s.proxyRoutes())...)
}
