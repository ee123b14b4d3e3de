package server

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A quietEngine takes everything and generates nothing.
type quietEngine struct{ fakeEngine }

func (q *quietEngine) Submit(r *engine.Request) (ask.Ticket, error) {
	if r.Reader != nil {
		return q.fakeEngine.Submit(r)
	}
	go r.Sink.Done(engine.Result{Finish: engine.MaxedOut, Usage: engine.Usage{PromptTokens: len(r.Prompt)}})
	return &fakeTicket{1, func() {}}, nil
}

// served returns what a server under test has beside its engine: the tokenizer of a vocabulary, and a store of batches.
func served(f *testing.F, meta metadata) (*tokenizer.Tokenizer, *batch.Store) {
	f.Helper()
	tok, err := tokenizer.New(meta)
	if err != nil {
		f.Fatal(err)
	}
	store, err := batch.Open(f.TempDir(), 1<<20, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(store.Close)
	return tok, store
}

// fuzzPost feeds bodies to a path. Whatever they are, the answer is an answer,
// or an error that is the client's and says what is wrong.
func fuzzPost(f *testing.F, path string, seeds ...string) {
	meta := vocabulary(controls)
	tok, store := served(f, meta)
	s := New(Config{SlotPath: f.TempDir(), Batches: store, Ping: -1})
	s.with(f, ask.Model{Engine: &quietEngine{fakeEngine{tok: tok}}, Pooling: arch.PoolLast, Normalize: engine.Euclidean, Info: ask.ModelInfo{NEmbd: 2}, Tokenizer: tok, Template: thinkTemplate(f, false), Metadata: meta, Name: "m", Ctx: 512, Sampling: sample.Defaults()})
	h := s.Handler()
	for _, seed := range append(seeds, ``, `{}`, `[]`, `{"stream":true}`, `{"n":2,"stop":["a",""],"logit_bias":{"5":-1.5},"seed":-1}`, "{\"a\":\"\xff\"}") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		status, b := asks(h, "POST", path, body)
		switch {
		case status == 200:
			if !strings.HasPrefix(string(b), "data: ") && !strings.HasPrefix(string(b), "event: ") {
				for line := range strings.Lines(string(b)) { // more than one of Ollama's streams
					if !json.Valid([]byte(line)) {
						t.Fatalf("%q: the answer is %q", body, b)
					}
				}
			}
		case strings.HasPrefix(path, "/api/") && (status == 400 || status == 404 || status == 501):
			if e := parse[ollamaError](t, b); e.Error == "" {
				t.Fatalf("%q: the error is %s", body, b)
			}
		case status == 400 || status == 501 || status == 404 && (path == "/v1/responses" || path == "/v1/batches"): // an item or a file that is not stored
			if e := parse[errorAnswer](t, b).Error; e.Message == "" || e.Code != nil && fmt.Sprint(e.Code) != fmt.Sprint(status) || strings.ContainsAny(e.Message, "\n\r") && !strings.ContainsAny(body, "\n\r\\") {
				t.Fatalf("%q: the error is %s", body, b)
			}
		default:
			t.Fatalf("%q: status %d: %s", body, status, b)
		}
	})
}

func FuzzChat(f *testing.F) {
	fuzzPost(f, "/v1/chat/completions", `{`+hi+`}`,
		`{`+hi+`,"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"enum":[1,"x"]}},"required":["a"]}}},{"type":"custom","custom":{"name":"p","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"a+"}}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}},"parallel_tool_calls":false}`,
		`{`+hi+`,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"$defs":{"n":{"pattern":"^a|\\d$"}},"anyOf":[{"$ref":"#/$defs/n"},{"minItems":1,"items":{"multipleOf":0.5}}]}}}}`,
		`{`+hi+`,"structured_outputs":{"structural_tag":{"structures":[{"begin":"<a","schema":{},"end":">"}],"triggers":["<"]}},"guided_whitespace_pattern":" ?"}`,
		`{`+hi+`,"functions":[{"name":"f"}],"function_call":{"name":"f"},"reasoning_budget":3,"reasoning_budget_message":"x"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"logprobs":true,"top_logprobs":3}`,
		`{"messages":[{"role":"assistant","content":null,"tool_calls":[{}]}],"chat_template_kwargs":{"a":[1]},"reasoning_effort":"none"}`)
}

func FuzzAnthropic(f *testing.F) {
	fuzzPost(f, "/v1/messages", `{`+ask1+`,"system":[{"type":"text","text":"x-anthropic-billing-header: 1\ny"}],"thinking":{"type":"enabled","budget_tokens":5},"stream":true}`,
		`{"max_tokens":1,"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"1","content":[{"type":"text","text":"x"}]}]},{"role":"assistant","content":[{"type":"tool_use","id":"1","name":"f","input":{}},{"type":"thinking","thinking":"t"}]}]}`,
		`{`+ask1+`,"tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"tool","name":"f"},"output_config":{"effort":"low"}}`)
}

func FuzzResponses(f *testing.F) {
	fuzzPost(f, "/v1/responses", `{"input":"x","stream":true,"store":false,"reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"text"},"verbosity":"low"}}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"y"}]},{"type":"reasoning","summary":[],"encrypted_content":"quern:eA=="}]}`,
		`{"input":"x","tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark","definition":"x"}},{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}],"include":["reasoning.encrypted_content"],"metadata":{"a":"b"}}`)
}

func FuzzCompletions(f *testing.F) {
	fuzzPost(f, "/v1/completions", `{"prompt":"x","suffix":"y","echo":true}`, `{"prompt":[1,"x",[2]]}`, `{"prompt":[[1,2],[3]],"logprobs":1}`)
}

func FuzzNative(f *testing.F) {
	fuzzPost(f, "/completion", `{"prompt":"x","grammar":"root ::= \"<a>\" [0-9]{1,3} | x\nx ::= . <s>","grammar_lazy":true,"grammar_triggers":[{"type":"pattern","value":"(<a>)"},{"type":0,"token":5}],"preserved_tokens":["<s>"]}`,
		`{"prompt":"x","guided_regex":"(?=a)[a-z]+\\p{L}{2,3}"}`, `{"prompt":"x","guided_choice":["a","b"]}`, `{"prompt":"x","guided_grammar":"start: \"a\" B*\nB: /[b-d]/"}`, `{"prompt":"x","guided_json":"{\"type\":\"integer\"}"}`,
		`{"prompt":{"prompt_string":"x"},"samplers":"kpm","response_fields":["a/b","content"]}`, `{"prompt":"x","logit_bias":[[5,-1.5],["a",false],[[1,2],3]]}`, `{"prompt":"x","logit_bias":{"a":1,"5":false},"lora":[{"id":0,"scale":0.5}]}`, `{"prompt":"x","n_probs":1,"stream":true}`)
}

func FuzzOllamaChat(f *testing.F) {
	fuzzPost(f, "/api/chat", `{"model":"m:latest","messages":[{"role":"user","content":"x","images":[]},{"role":"assistant","thinking":"t","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","tool_name":"f","content":"1"}],"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}],"think":"low","keep_alive":"5m","options":{"num_predict":-2,"stop":["a"],"seed":1},"format":{"type":"object"},"logprobs":true,"top_logprobs":2}`,
		`{"messages":[],"keep_alive":0}`)
}

func FuzzOllamaGenerate(f *testing.F) {
	fuzzPost(f, "/api/generate", `{"prompt":"x","system":"s","context":[1,2],"stream":false,"think":true,"format":"json"}`, `{"prompt":"x","suffix":"y","raw":true,"keep_alive":-1.5}`)
}

func FuzzOllamaEmbed(f *testing.F) {
	fuzzPost(f, "/api/embed", `{"input":["x","y"],"truncate":true,"dimensions":1}`, `{"model":"m","input":"x"}`)
}

func FuzzOllamaShow(f *testing.F) {
	fuzzPost(f, "/api/show", `{"model":"m","verbose":true}`, `{"name":"x"}`)
}

func FuzzEmbeddings(f *testing.F) {
	fuzzPost(f, "/v1/embeddings", `{"input":["x",[1,2]],"encoding_format":"base64","dimensions":1}`, `{"input":[1,2],"embd_normalize":1}`)
}

func FuzzRerank(f *testing.F) {
	fuzzPost(f, "/v1/rerank", `{"query":"x","documents":["a",{"text":"b"}],"top_n":1,"return_documents":true}`, `{"query":"x","texts":["a"],"raw_scores":true}`)
}

func FuzzDecisions(f *testing.F) {
	fuzzPost(f, "/v1/decisions", `{"prompt":"x","choices":["a","b"],"prior":"N/A","normalize":"bytes"}`,
		`{"messages":[{"role":"user","content":"x"}],"questions":[{"name":"n","prompt":"p","choices":["yes","no"]}],"ends":false}`)
}

func FuzzBatches(f *testing.F) {
	fuzzPost(f, "/v1/batches", `{"input_file_id":"file-x","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":"b"}}`)
}

// An upload is kept, or refused with what is wrong, and then nothing of it is.
func FuzzUpload(f *testing.F) {
	store, err := batch.Open(f.TempDir(), 1<<20, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(store.Close)
	h := New(Config{Batches: store, Ping: -1}).Handler()
	part := func(name, more, text string) string {
		return "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more + "\r\n\r\n" + text + "\r\n"
	}
	purpose, file := part("purpose", "", "batch"), part("file", `; filename="a.jsonl"`+"\r\nContent-Type: application/jsonl", `{"custom_id":"1"}`)
	for _, body := range []string{purpose + file + "--x--\r\n", file + purpose + "--x--", file + file + purpose + "--x--", purpose, part("other", "", "y") + "--x--", part("purpose", "", "fine-tune") + file + "--x--", ""} {
		f.Add(body, "multipart/form-data; boundary=x")
	}
	f.Add(purpose+file+"--x--", "multipart/form-data")
	f.Add("{}", "application/json")
	f.Fuzz(func(t *testing.T, body, kind string) {
		r := httptest.NewRequest("POST", "/v1/files", strings.NewReader(body))
		r.Header.Set("Content-Type", kind)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch w.Code {
		case 200:
			id := parse[struct{ ID string }](t, w.Body.Bytes()).ID
			if status, b := asks(h, "DELETE", "/v1/files/"+id, ""); status != 200 {
				t.Fatalf("%q: deleting %q: %d %s", body, id, status, b)
			}
		case 400, 413:
			if e := parse[errorAnswer](t, w.Body.Bytes()).Error; e.Message == "" {
				t.Fatalf("%q: the error is %s", body, w.Body)
			}
		default:
			t.Fatalf("%q: status %d: %s", body, w.Code, w.Body)
		}
		if status, b := asks(h, "GET", "/v1/files", ""); status != 200 || len(parse[struct{ Data []any }](t, b).Data) > 0 {
			t.Fatalf("%q: left are %s", body, b)
		}
	})
}

func FuzzInfill(f *testing.F) {
	fuzzPost(f, "/infill", `{"input_prefix":"a","input_suffix":"b","input_extra":[{"filename":"x","text":"y"}],"prompt":"p"}`)
}

func FuzzTokenize(f *testing.F) {
	fuzzPost(f, "/tokenize", `{"content":"a<s>\u00e9","with_pieces":true,"add_special":true}`)
}

func FuzzDetokenize(f *testing.F) { fuzzPost(f, "/detokenize", `{"tokens":[1,2,300]}`) }

func FuzzTemplate(f *testing.F) { fuzzPost(f, "/apply-template", `{`+hi+`}`) }

func FuzzSlots(f *testing.F) {
	fuzzPost(f, "/slots/0?action=save", `{"filename":"a"}`, `{"filename":"../a"}`)
}

func FuzzAdapters(f *testing.F) { fuzzPost(f, "/lora-adapters", `[]`, `[{"id":0,"scale":1}]`) }

// A request of any path with any query, header and body is answered, or refused as the client's fault. Those that the other
// targets have no bodies for are among the seeds.
func FuzzRequests(f *testing.F) {
	meta := vocabulary(controls)
	tok, store := served(f, meta)
	s := New(Config{SlotPath: f.TempDir(), LoraDir: f.TempDir(), Batches: store, Tools: weather{}, Library: &shelf{}, Ping: -1})
	s.with(f, ask.Model{Engine: &quietEngine{fakeEngine{tok: tok}}, Tokenizer: tok, Template: thinkTemplate(f, false), Metadata: meta, Name: "m", Ctx: 512, Sampling: sample.Defaults()})
	h := s.Handler()
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
		{"POST", "/v1/responses/input_tokens", "", `{"input":"x","tool_choice":{"type":"function","name":"f","namespace":"n"}}`},
		{"POST", "/api/copy", "", `{"source":"m","destination":"x"}`},
		{"POST", "/completion", "autoload=false", `{"prompt":"x"}`},
		{"DELETE", "/models", "model=m", ""},
		{"OPTIONS", "/props", "", ""},
	} {
		f.Add(seed.method, seed.path, seed.query, "2.5", seed.body)
	}
	f.Fuzz(func(t *testing.T, method, path, query, timeout, body string) {
		if strings.HasPrefix(path, "/models/sse") || strings.HasPrefix(path, "/api/pull") || path == "/models" && method == "POST" || strings.HasSuffix(path, "/unload") {
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
