package openai_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/openai"
)

// The input of a custom tool is the same however its arguments are cut, and what JSON says where they are JSON.
func TestCustomInputInParts(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		`{"input": "*** Begin\n\ta \"b\" \\ \/ \u00e9\ud83d\ude00\u0000日本"}`: "*** Begin\n\ta \"b\" \\ / é😀\x00日本",
		" {\n\"input\" :\t\"\"}":   "",
		`{"input":"a","more":1}`:   "a",
		`{"more":1,"input":"a\n"}`: "a\n", // read at the end
		`{"input": 5}`:             `{"input": 5}`,
		`{"inputs":"a"}`:           `{"inputs":"a"}`,
		"plain text":               "plain text",
		``:                         "",
		`{"inp`:                    `{"inp`,
		`{"input":"cut`:            "cut",
		`{"input":"cut\u00`:        `cut\u00`,
		`{"input":"cut\n`:          "cut\n",
		`{"input":"\1234 \u00@0 \u00G0 \u00/0 \u00:0 \u00` + "`0" + `\uABcd\u09aF"`: "\\1234 \\u00@0 \\u00G0 \\u00/0 \\u00:0 \\u00`0\uABCD\u09AF",
		`{"input":"\q \ud83d. \ud83dx\ud83d\n"}`:                                    "\\q \uFFFD. \uFFFDx\uFFFD\n",
	} {
		var v struct{ Input *string }
		if json.Unmarshal([]byte(arguments), &v) == nil && v.Input != nil && *v.Input != want {
			t.Errorf("%s is %q in JSON", arguments, *v.Input)
		}
		for n := 1; n <= len(arguments)+1; n++ {
			var c openai.CustomText
			var got strings.Builder
			for rest := arguments; rest != ""; rest = rest[min(n, len(rest)):] {
				got.WriteString(c.Write(rest[:min(n, len(rest))]))
			}
			got.WriteString(c.End())
			if got.String() != want {
				t.Errorf("%s, %d bytes at a time: %q, want %q", arguments, n, got.String(), want)
			}
		}
	}
}

// Parts of an input are sent while the model writes it.
func TestCustomInputsAreStreamed(t *testing.T) {
	t.Parallel()
	const reply = "<tool_call>\n{\"name\": \"patch\", \"arguments\": {\"input\": \"*** Begin Patch\\nnew " +
		"line\\n\"}}\n</tool_call>"
	s := fake.New(t, reply, nil)
	input, parts := "", 0
	for _, e := range s.Events("/v1/chat/completions",
		`{`+fake.Hi+`,"stream":true,"tools":[{"type":"custom","custom":{"name":"patch"}}]}`) {
		if e == "[DONE]" {
			continue
		}
		for _, call := range fake.Parse[toolChunk](t, []byte(e)).Choices[0].Delta.Calls {
			if input += call.Custom.Input; call.Custom.Input != "" {
				parts++
			}
		}
	}
	if input != "*** Begin Patch\nnew line\n" || parts < 3 {
		t.Errorf("%q in %d parts", input, parts)
	}
}
