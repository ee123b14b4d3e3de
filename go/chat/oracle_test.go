package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

var (
	now    = time.Date(2024, 7, 6, 15, 4, 5, 0, time.UTC)
	tokens = SpecialTokens{"<s>", "</s>"}
)

// templates returns the chat templates of the test data by name.
func templates(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := testdata.Path(t, "templates")
	for _, pattern := range []string{"llama.cpp/*.jinja", "ollama/model/renderers/testdata/*.jinja*"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			name, _, _ := strings.Cut(filepath.Base(path), ".jinja")
			all[name] = string(data)
		}
	}
	data, err := os.ReadFile(filepath.Join(root, "ollama/template/testdata/templates.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range bytes.Split(bytes.TrimSpace(data), []byte("\n")) {
		var one map[string]string
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatal(err)
		}
		for name, source := range one {
			all[name+" of line "+string(rune('0'+(i+1)/10))+string(rune('0'+(i+1)%10))] = source
		}
	}
	paths, err := filepath.Glob(filepath.Join(testdata.Dir(), "tokenizers/cases/*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	models, err := filepath.Glob(filepath.Join(testdata.Dir(), "models/*.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, models...) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		if source, err := f.Str("tokenizer.chat_template"); err == nil {
			all[filepath.Base(path)] = source
		}
	}
	if len(all) < 55 {
		t.Fatalf("only %d templates", len(all))
	}
	return all
}

// jinja2 renders with Python's jinja2: for each a text, or an error.
func jinja2(t *testing.T, cases []oracleCase) []oracleResult {
	t.Helper()
	script := "../../scripts/golden_jinja.py"
	if err := exec.Command("/usr/bin/python3", "-c", "import jinja2").Run(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("no jinja2 for /usr/bin/python3 (scripts/setup.sh test)")
		}
		t.Skip("no jinja2 for /usr/bin/python3 (scripts/setup.sh test)")
	}
	in, err := json.Marshal(cases)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(script)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	var results []oracleResult
	if err := json.Unmarshal(out, &results); err != nil || len(results) != len(cases) {
		t.Fatalf("%s: %d results, %v", script, len(results), err)
	}
	return results
}

type oracleCase struct {
	Template string         `json:"template"`
	Vars     map[string]any `json:"vars"`
}

type oracleResult struct{ Want, Error string }

const (
	weather = `{"type":"function","function":{"name":"get_weather","description":"The weather of a \"place\" & <time>",
		"parameters":{"type":"object","properties":{"place":{"type":"string","description":"a city"},
		"unit":{"type":"string","enum":["c","f"],"description":"degrees"},"days":{"type":"integer","description":"how many"}},"required":["place"]},
		"return":{"type":"string","description":"text"}}}`
	clock = `{"type":"function","function":{"name":"get_time","description":"The time","parameters":{"type":"object","properties":{},"required":[]}}}`
	calls = `[{"role":"user","content":"Weather?"},
		{"role":"assistant","content":"","tool_calls":[{"id":"call00001","type":"function","function":{"name":"get_weather","arguments":ARGS}}]},
		{"role":"tool","tool_call_id":"call00001","name":"get_weather","content":"21 °C"},
		{"role":"assistant","content":"It is 21 °C."},{"role":"user","content":"Thanks"}]`
	// A schema with all that templates write as types: lists, objects in objects, unions, constants.
	nested = `{"type":"function","function":{"name":"plan.trip","description":"Plan\na trip","strict":true,"parameters":{"type":"object",
		"$defs":{"stop":{"type":"object","properties":{"at":{"type":"string","format":"date"}}}},
		"properties":{"stops":{"type":"array","minItems":1,"items":{"type":"object","properties":{"town":{"type":"string"},"nights":{"type":["integer","null"]}},"required":["town"]}},
		"budget":{"anyOf":[{"type":"number"},{"type":"string","enum":["low","high"]}],"default":"low"},
		"pets":{"type":"boolean","description":"with a dog?"},"tags":{"type":"array","items":{"type":"string"}},"first":{"$ref":"#/$defs/stop"}},
		"required":["stops","pets"],"additionalProperties":false}}}`
	bothCalls = `[{"role":"user","content":"Weather and time?"},
		{"role":"assistant","content":"I look.","reasoning_content":"Both at once.","tool_calls":[
		{"id":"call00001","type":"function","function":{"name":"get_weather","arguments":ARGS}},
		{"id":"call00002","type":"function","function":{"name":"get_time","arguments":ARGS}}]},
		{"role":"tool","tool_call_id":"call00001","name":"get_weather","content":"{\"degrees\": 21}"},
		{"role":"tool","tool_call_id":"call00002","name":"get_time","content":"12:00"}]`
	awaited = `[{"role":"user","content":"Time?"},
		{"role":"assistant","content":"","tool_calls":[{"id":"call00001","type":"function","function":{"name":"get_time","arguments":ARGS}}]}]`
	args = `{"unit":"c","place":"Zürich \"HB\"","days":2}`
)

// conversations are what each template renders.
var conversations = []struct {
	name, messages string
	kwargs         string
	tools          []string
	prompt         bool
}{
	{"user", `[{"role":"user","content":"Hello"}]`, "", nil, true},
	{"system", `[{"role":"system","content":"Be <kind> & 'brief'."},{"role":"user","content":" Hi, ça va?\n"},
		{"role":"assistant","content":"Yes."},{"role":"user","content":"Bye"}]`, "", nil, true},
	{"turns", `[{"role":"user","content":"One\n\ntwo"},{"role":"assistant","content":"<think>\nhm\n</think>\n\nThree"}]`, "", nil, false},
	{"thinking off", `[{"role":"user","content":"Hello"}]`, `{"enable_thinking":false,"reasoning_effort":"low"}`, nil, true},
	{"reasoning", `[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi","reasoning_content":"A greeting."},
		{"role":"user","content":"And?"}]`, `{"enable_thinking":true}`, nil, true},
	{"tools", `[{"role":"system","content":"Help."},{"role":"user","content":"Weather?"}]`, "", []string{weather, clock}, true},
	{"tool calls", calls, "", []string{weather}, true},
	{"two calls", bothCalls, `{"enable_thinking":true,"reasoning_effort":"high"}`, []string{weather, clock}, true},
	{"a call that awaits its result", awaited, "", []string{clock, nested}, false},
}

// input makes an Input of JSON; kwargs may be empty.
func input(t *testing.T, messages, kwargs string, now time.Time) Input {
	t.Helper()
	in := Input{Now: now}
	if err := json.Unmarshal([]byte(messages), &in.Messages); err != nil {
		t.Fatal(err)
	}
	if kwargs != "" {
		if err := json.Unmarshal([]byte(kwargs), &in.Kwargs); err != nil {
			t.Fatal(err)
		}
	}
	return in
}

// textArguments are the templates that want the arguments of a call as text.
var textArguments = map[string]bool{
	"meetkai-functionary-medium-v3.1": true, "meetkai-functionary-medium-v3.2": true,
}

func TestOracle(t *testing.T) {
	var cases []oracleCase
	var names []string
	var got []string
	var errs []error
	for name, source := range templates(t) {
		tmpl, err := Parse(source, tokens)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, c := range conversations {
			quoted, _ := json.Marshal(args)
			in := input(t, strings.ReplaceAll(c.messages, "ARGS", string(quoted)), c.kwargs, now)
			in.AddGenerationPrompt = c.prompt
			vars := map[string]any{
				"add_generation_prompt": c.prompt, "enable_thinking": true, "now": now.Format("2006-01-02T15:04:05"),
				"bos_token": tokens.BOS, "eos_token": tokens.EOS,
			}
			for k, v := range in.Kwargs {
				vars[k] = v
			}
			plain := args
			if textArguments[name] {
				plain = string(quoted)
			}
			vars["messages"] = json.RawMessage(strings.ReplaceAll(c.messages, "ARGS", plain))
			if c.tools != nil {
				vars["tools"] = json.RawMessage("[" + strings.Join(c.tools, ",") + "]")
				for _, tool := range c.tools {
					in.Tools = append(in.Tools, json.RawMessage(tool))
				}
			}
			text, _, err := tmpl.prompt(in) // without what Render adds for templates that know no tools
			names = append(names, name+"/"+c.name)
			got, errs = append(got, text), append(errs, err)
			cases = append(cases, oracleCase{source, vars})
		}
	}
	failed := map[string]int{}
	for i, want := range jinja2(t, cases) {
		same := got[i] == want.Want && (errs[i] != nil) == (want.Error != "")
		// A template refuses with the error that raise_exception raises.
		var refused *RequestError
		if same && errs[i] != nil {
			same = errors.As(errs[i], &refused) == strings.HasPrefix(want.Error, "TemplateError: ")
		}
		if reason := explained(names[i]); reason != "" {
			failed[reason]++
			if same {
				t.Errorf("%s: the same as jinja2's, though %s", names[i], reason)
			}
			continue
		}
		if !same {
			t.Errorf("%s: %v; jinja2: %s\n got %q\nwant %q", names[i], errs[i], want.Error, got[i], want.Want)
		}
	}
	for reason, n := range failed {
		t.Logf("%d of %d differ: %s", n, len(cases), reason)
	}
}

// differences are the renderings that are not jinja2's, and why.
var differences = []struct {
	why           string
	conversations []string
	templates     []string
}{
	{"the template refuses or ignores system messages, so the text of one is put before the user's",
		[]string{"system", "tools"}, []string{
			"google-gemma-2-2b-it", "gemma-instruct of line 22", "ggml-vocab-phi-3.gguf", "phi-3 of line 28", "phi-3 of line 29",
			"magicoder of line 25", "starcoder2-instruct of line 12", "mistral-instruct of line 11", "mistral-instruct of line 15",
			"zephyr of line 10", "chatqa of line 31",
		}},
	{"the filter map gives a list, which tojson can write; a generator it cannot",
		[]string{"tools", "tool calls", "two calls", "a call that awaits its result"}, []string{"llama-cpp-deepseek-r1"}},
	{"the variable functions is an empty text; transformers' callers have to set it",
		[]string{"user", "system", "turns", "thinking off", "reasoning", "tools", "tool calls", "two calls", "a call that awaits its result"},
		[]string{"fireworks-ai-llama-3-firefunction-v2"}},
	{"jinja2 escapes for HTML what is added to text that went through the filter safe",
		[]string{"tools", "tool calls", "two calls", "a call that awaits its result"}, []string{"meetkai-functionary-medium-v3.1"}},
}

func explained(name string) string {
	template, conversation, _ := strings.Cut(name, "/")
	for _, d := range differences {
		if slices.Contains(d.templates, template) && slices.Contains(d.conversations, conversation) {
			return d.why
		}
	}
	return ""
}
