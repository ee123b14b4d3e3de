package openai_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

func FuzzChat(f *testing.F) {
	fake.FuzzPost(f, "/v1/chat/completions", `{`+fake.Hi+`}`,
		`{`+fake.Hi+`,"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"a":{"enum":[1,"x"]}},"required":["a"]}}},{"type":"custom","custom":{"name":"p","format":{"type":"grammar","grammar":{"syntax":"regex","definition":"a+"}}}}],"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"required","tools":[{"type":"function","function":{"name":"f"}}]}},"parallel_tool_calls":false}`,
		`{`+fake.Hi+`,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":{"$defs":{"n":{"pattern":"^a|\\d$"}},"anyOf":[{"$ref":"#/$defs/n"},{"minItems":1,"items":{"multipleOf":0.5}}]}}}}`,
		`{`+fake.Hi+`,"structured_outputs":{"structural_tag":{"structures":[{"begin":"<a","schema":{},"end":">"}],"triggers":["<"]}},"guided_whitespace_pattern":" ?"}`,
		`{`+fake.Hi+`,"functions":[{"name":"f"}],"function_call":{"name":"f"},"reasoning_budget":3,"reasoning_budget_message":"x"}`,
		`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"logprobs":true,"top_logprobs":3}`,
		`{"messages":[{"role":"assistant","content":null,"tool_calls":[{}]}],"chat_template_kwargs":{"a":[1]},"reasoning_effort":"none"}`)
}

func FuzzResponses(f *testing.F) {
	fake.FuzzPost(f, "/v1/responses", `{"input":"x","stream":true,"store":false,"reasoning":{"effort":"low","summary":"auto"},"text":{"format":{"type":"text"},"verbosity":"low"}}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"x"}]},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"1","output":[{"type":"input_text","text":"y"}]},{"type":"reasoning","summary":[],"encrypted_content":"quern:eA=="}]}`,
		`{"input":"x","tools":[{"type":"custom","name":"p","format":{"type":"grammar","syntax":"lark","definition":"x"}},{"type":"namespace","name":"n","tools":[{"type":"function","name":"f"}]}],"include":["reasoning.encrypted_content"],"metadata":{"a":"b"}}`)
}

func FuzzCompletions(f *testing.F) {
	fake.FuzzPost(f, "/v1/completions", `{"prompt":"x","suffix":"y","echo":true}`, `{"prompt":[1,"x",[2]]}`,
		`{"prompt":[[1,2],[3]],"logprobs":1}`)
}

func FuzzEmbeddings(f *testing.F) {
	fake.FuzzPost(f, "/v1/embeddings", `{"input":["x",[1,2]],"encoding_format":"base64","dimensions":1}`,
		`{"input":[1,2],"embd_normalize":1}`)
}

func FuzzBatches(f *testing.F) {
	fake.FuzzPost(f, "/v1/batches", `{"input_file_id":"file-x","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"a":"b"}}`)
}

// An upload is kept, or refused with what is wrong, and then nothing of it is.
func FuzzUpload(f *testing.F) {
	store, err := batch.Open(f.TempDir(), 1<<20, false)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(store.Close)
	h := server.New(server.Config{Batches: store, Ping: -1}).Handler()
	part := func(name, more, text string) string {
		return "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"" + more + "\r\n\r\n" + text + "\r\n"
	}
	purpose, file := part("purpose", "", "batch"),
		part("file", `; filename="a.jsonl"`+"\r\nContent-Type: application/jsonl", `{"custom_id":"1"}`)
	for _, body := range []string{purpose + file + "--x--\r\n", file + purpose + "--x--", file + file + purpose + "--x--",
		purpose, part("other", "", "y") + "--x--", part("purpose", "", "fine-tune") + file + "--x--", ""} {
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
			id := fake.Parse[struct{ ID string }](t, w.Body.Bytes()).ID
			if status, b := fake.Ask(h, "DELETE", "/v1/files/"+id, ""); status != 200 {
				t.Fatalf("%q: deleting %q: %d %s", body, id, status, b)
			}
		case 400, 413:
			if e := fake.ErrorOf(t, w.Body.Bytes()); e.Message == "" {
				t.Fatalf("%q: the error is %s", body, w.Body)
			}
		default:
			t.Fatalf("%q: status %d: %s", body, w.Code, w.Body)
		}
		if status, b := fake.Ask(h, "GET", "/v1/files", ""); status != 200 ||
			len(fake.Parse[struct{ Data []any }](t, b).Data) > 0 {
			t.Fatalf("%q: left are %s", body, b)
		}
	})
}
