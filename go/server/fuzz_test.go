package server

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A quietEngine takes everything and generates nothing.
type quietEngine struct{ fakeEngine }

func (*quietEngine) Submit(r *engine.Request) (Ticket, error) {
	go r.Sink.Done(engine.Result{Finish: engine.MaxedOut, Usage: engine.Usage{PromptTokens: len(r.Prompt)}})
	return &fakeTicket{1, func() {}}, nil
}

// fuzzPost feeds bodies to a path. Whatever they are, the answer is an answer,
// or an error that is the client's and says what is wrong.
func fuzzPost(f *testing.F, path string, seeds ...string) {
	meta := vocabulary(controls)
	tok, err := tokenizer.New(meta)
	if err != nil {
		f.Fatal(err)
	}
	s := New(Config{SlotPath: f.TempDir(), Ping: -1})
	s.with(f, Model{Engine: &quietEngine{}, Tokenizer: tok, Template: thinkTemplate(f, false), Metadata: meta, Name: "m", Ctx: 512, Sampling: sample.Defaults()})
	h := s.Handler()
	for _, seed := range append(seeds, ``, `{}`, `[]`, `{"stream":true}`, `{"n":2,"stop":["a",""],"logit_bias":{"5":-1.5},"seed":-1}`, "{\"a\":\"\xff\"}") {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		status, b := ask(h, "POST", path, body)
		switch {
		case status == 200:
			if !json.Valid(b) && !strings.HasPrefix(string(b), "data: ") && !strings.HasPrefix(string(b), "event: ") {
				t.Fatalf("%q: the answer is %q", body, b)
			}
		case status == 400 || status == 501 || status == 404 && path == "/v1/responses": // an item that is not stored
			if e := parse[errorAnswer](t, b).Error; e.Message == "" || e.Code != nil && fmt.Sprint(e.Code) != fmt.Sprint(status) || strings.ContainsAny(e.Message, "\n\r") && !strings.ContainsAny(body, "\n\r\\") {
				t.Fatalf("%q: the error is %s", body, b)
			}
		default:
			t.Fatalf("%q: status %d: %s", body, status, b)
		}
	})
}

func FuzzChat(f *testing.F) {
	fuzzPost(f, "/v1/chat/completions", `{`+hi+`}`, `{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"logprobs":true,"top_logprobs":3}`,
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
	fuzzPost(f, "/completion", `{"prompt":{"prompt_string":"x"},"samplers":"kpm","response_fields":["a/b","content"]}`, `{"prompt":"x","n_probs":1,"stream":true}`)
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

// The walk of a body finds the names and values that a JSON decoder finds, or
// refuses it: whatever is no object, is no JSON, nests too deep, or has a name twice.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":[{"c":"d"}],"e":null}`, `{ "a" : [ 1 , -2.5e3 ] , "\u0061" : true }`, `{"a":{"a":{}}}x`, `[1]`, `{"a":1,"a":2}`, strings.Repeat("[", 70)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, body string) {
		r := newReader([]byte(body))
		got := map[string]string{}
		err := r.members("an object", func(name string) error {
			v, err := r.raw()
			got[name] = string(v)
			return err
		})
		if err == nil {
			err = r.end()
		}
		var want map[string]json.RawMessage
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n") && !strings.ContainsAny(body, "\n\\") {
				t.Fatalf("%q: the error %q", body, err)
			}
			return
		}
		if err := json.Unmarshal([]byte(body), &want); err != nil || len(want) != len(got) {
			t.Fatalf("%q: got %v, %v, want %v", body, got, err, want)
		}
		for name, v := range want {
			if got[name] != string(v) {
				t.Fatalf("%q: %q is %q, want %q", body, name, got[name], v)
			}
		}
	})
}

// The text that comes out does not depend on where tokens cut it: what a stop
// word ends is what a search of the whole finds.
func FuzzStops(f *testing.F) {
	f.Add("abcabd", "abd", 2)
	f.Add("aaaa", "aab", 1)
	f.Fuzz(func(t *testing.T, text, word string, step int) {
		if word == "" || step < 1 {
			return
		}
		s := newStopper([]string{word})
		out, found := "", ""
		for rest := text; rest != "" && found == ""; {
			n := min(step, len(rest))
			var sure string
			sure, found = s.write(rest[:n])
			out, rest = out+sure, rest[n:]
		}
		if found == "" {
			out += s.flush()
		}
		want, _, cut := strings.Cut(text, word)
		if out != want || cut != (found != "") {
			t.Fatalf("%q until %q: got %q, want %q", text, word, out, want)
		}
	})
}
