package server_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// nested are fields that have something within, with all that may be there.
var nested = map[string]map[string]string{
	"/v1/chat/completions": {
		"messages": `[{"role":"system","content":"a","name":"n"},{"role":"user","content":[{"type":"text","text":"b"}]},
			{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]},{"role":"tool","tool_call_id":"c1","content":"d"}]`,
		"tools":                `[{"type":"function","function":{"name":"f","description":"d","strict":true,"parameters":{"type":"object","properties":{"a":{"type":"string","enum":["x"]}},"required":["a"],"additionalProperties":false}}}]`,
		"response_format":      `{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}}}`,
		"stream_options":       `{"include_usage":true}`,
		"chat_template_kwargs": `{"enable_thinking":true,"a":[1,{"b":null}]}`,
		"logit_bias":           `{"5":-1.5}`,
		"stop":                 `["a","b"]`,
		"samplers":             `["top_k","temperature"]`,
	},
	"/v1/completions": {"prompt": `[[1,2],"x",[3,"y"]]`, "stop": `["a"]`, "logit_bias": `[[1,-1],["a",false]]`,
		"structured_outputs": `{"choice":["a","b"]}`},
	"/completion": {"prompt": `{"prompt_string":"x","multimodal_data":[]}`,
		"json_schema":     `{"type":"object","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"type":"null"}}}`,
		"response_fields": `["content","a/b"]`},
	"/infill": {"input_extra": `[{"filename":"a.go","text":"b"}]`},
	"/v1/responses": {
		"input": `[{"type":"message","role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"reasoning","summary":[{"type":"summary_text","text":"s"}]},
			{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":[{"type":"input_text","text":"o"}]},
			{"type":"custom_tool_call","call_id":"d","name":"p","input":"i"},{"type":"custom_tool_call_output","call_id":"d","output":"o"}]`,
		"tools":     `[{"type":"function","name":"f","strict":false,"parameters":{"type":"object"}},{"type":"custom","name":"p","format":{"type":"text"}},{"type":"namespace","name":"n","tools":[{"type":"function","name":"g"}]}]`,
		"text":      `{"format":{"type":"json_schema","name":"n","schema":{"type":"object"}},"verbosity":"low"}`,
		"reasoning": `{"effort":"low","summary":"auto"}`,
		"metadata":  `{"a":"b"}`,
		"include":   `["reasoning.encrypted_content"]`,
	},
	"/v1/messages": {
		"messages": `[{"role":"user","content":[{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}]},{"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},{"type":"tool_use","id":"u","name":"f","input":{"a":1}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"u","content":[{"type":"text","text":"r"}],"is_error":false}]}]`,
		"system":        `[{"type":"text","text":"s"}]`,
		"tools":         `[{"name":"f","description":"d","input_schema":{"type":"object","properties":{"a":{"type":"string"}}}}]`,
		"tool_choice":   `{"type":"auto","disable_parallel_tool_use":true}`,
		"thinking":      `{"type":"enabled","budget_tokens":1024}`,
		"output_config": `{"effort":"low"}`,
	},
	"/v1/embeddings": {"input": `["a",[1,2],{"prompt_string":"b"}]`},
	"/v1/rerank":     {"documents": `["a",{"text":"b"}]`},
	"/v1/decisions":  {"questions": `[{"name":"n","prompt":"p","choices":["a","b"]}]`},
	"/v1/systemone": {
		"questions": `{"a":{"type":"noul","instructions":"i","criteria":{"true":"t"}},"b":{"type":"choice","criteria":{"x":"d","y":null}},"c":{"type":"score","criteria":["l",{"m":1}]}}`,
		"state":     `{"a":["b"]}`,
	},
	"/api/chat": {
		"messages": `[{"role":"user","content":"a"},{"role":"assistant","content":"","thinking":"t","tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]},{"role":"tool","content":"r","tool_name":"f"}]`,
		"tools":    `[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}}]`,
		"options":  `{"temperature":0.5,"stop":["a"],"num_predict":5}`,
		"format":   `{"type":"object","properties":{"a":{"type":"string"}}}`,
	},
	"/detokenize": {"tokens": `[1,2]`},
}

// within returns a value with each of its parts replaced by a mark, and where that is.
func within(t *testing.T, value, mark string) map[string]string {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(value), &v); err != nil {
		t.Fatalf("%s: %v", value, err)
	}
	all := map[string]string{}
	var walk func(at string, v any, set func(any))
	walk = func(at string, one any, set func(any)) {
		if at != "" {
			set(mark)
			b, err := json.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			all[at] = string(b)
			set(one)
		}
		switch one := one.(type) {
		case []any:
			for i := range one {
				walk(at+"/"+string(rune('0'+i)), one[i], func(v any) { one[i] = v })
			}
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(one)) {
				walk(at+"/"+name, one[name], func(v any) { one[name] = v })
			}
		}
	}
	walk("", v, nil)
	return all
}

// What is within a field is checked as the field is: it is taken, or it is the client's fault and
// the field is named.
func TestHostileWithin(t *testing.T) {
	t.Parallel()
	h := fake.Handler(t, server.Config{}, func(m *ask.Model) { m.Ctx = 2048 })
	base := map[string]string{
		"/v1/chat/completions": fake.Hi + `,"stream":true`, "/v1/completions": `"prompt":"x"`, "/completion": `"prompt":"x"`,
		"/infill":       `"input_prefix":"a","input_suffix":"b"`,
		"/v1/responses": `"input":"x"`, "/v1/messages": fake.Hi + `,"max_tokens":100`, "/v1/embeddings": ``,
		"/v1/rerank": `"query":"q"`, "/v1/decisions": `"prompt":"x"`,
		"/v1/systemone": `"state":"x","questions":{"q":{"type":"noul","instructions":"i"}}`, "/api/chat": fake.Hi, "/detokenize": ``,
	}
	reading := fake.New(t, "", nil).Server.Handler() // whose engine has logits to read
	values := []string{`true`, `-1`, `0.5`, `1e400`, `""`, `"x"`, `"\ud800"`, "\"\xff\"", `[]`, `[null]`, `{}`,
		`{"type":7}`, strings.Repeat("[", 70) + strings.Repeat("]", 70)}
	const mark = "\x01mark"
	sent, refused := 0, 0
	for path, fields := range nested {
		h := h
		if path == "/v1/embeddings" || path == "/v1/rerank" || path == "/v1/decisions" || path == "/v1/systemone" {
			h = reading
		}
		for field, whole := range fields {
			body := func(value string) string {
				var kept map[string]json.RawMessage
				if err := json.Unmarshal([]byte("{"+base[path]+"}"), &kept); err != nil {
					t.Fatal(err)
				}
				return withField(kept, field, value)
			}
			if status, answer := fake.Ask(h, "POST", path, body(whole)); status != 200 && status != 501 {
				t.Errorf("%s %s: %d %s", path, field, status, answer)
			}
			for at, template := range within(t, whole, mark) {
				for _, value := range values {
					sent++
					status, answer := fake.Ask(h, "POST", path, body(strings.ReplaceAll(template, `"\u0001mark"`, value)))
					if status == 400 {
						refused++
					}
					switch {
					case status == 200 || status == http.StatusNotImplemented:
					case status != 400 && status != 404:
						t.Errorf("%s %s%s = %s: %d %.300s", path, field, at, short(value), status, answer)
					case isJSON(value) && !bytes.Contains(answer, []byte(field)):
						t.Errorf("%s %s%s = %s: %d does not name the field: %.300s", path, field, at, short(value), status, answer)
					}
				}
			}
		}
	}
	for at, template := range within(t, `[{"id":0,"scale":1}]`, mark) { // the body is an array
		for _, value := range append(values, `7`) {
			if status, answer := fake.Ask(h, "POST", "/lora-adapters",
				strings.ReplaceAll(template, `"\u0001mark"`, value)); status != 400 || len(answer) == 0 {
				t.Errorf("/lora-adapters%s = %s: %d %s", at, short(value), status, answer)
			}
		}
	}
	t.Logf("%d requests, %d refused", sent, refused)
	if sent < 2000 || refused < sent/4 {
		t.Errorf("%d of %d requests are refused", refused, sent)
	}
}
