package data_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/train/data"
)

// describe is an example on one line: roles, what is learnt in brackets.
func describe(x data.Example) string {
	if x.Turns == nil {
		s := fmt.Sprintf("%q[%q]", x.Prompt, x.Text)
		if x.Plain {
			s += " plain"
		}
		return s
	}
	var all []string
	for _, t := range x.Turns {
		s := t.Role + ":" + t.Content.String()
		for _, c := range t.ToolCalls {
			s += fmt.Sprintf("%s(%s)", c.Function.Name, c.Function.Arguments)
		}
		if t.Learn {
			s = "[" + s + "]"
		}
		all = append(all, s)
	}
	if len(x.Tools) > 0 {
		all = append(all, fmt.Sprintf("%d tools", len(x.Tools)))
	}
	return strings.Join(all, " ")
}

func TestFormats(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"chat", `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}`,
			"system:s user:q [assistant:a]"},
		{"weights", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","weight":0},{"role":"user","content":"r"},
			{"role":"assistant","content":"b","weight":1}]}`, "user:q assistant:a user:r [assistant:b]"},
		{"parts", `{"messages":[{"role":"user","content":[{"type":"text","text":"q"}]},{"role":"assistant","content":"a"}]}`, "user:q [assistant:a]"},
		{"tools", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","tool_calls":[{"id":"1","type":"function","function":
			{"name":"f","arguments":"{\"x\":1}"}}]},{"role":"tool","tool_call_id":"1","content":"2"},{"role":"assistant","content":"two"}],
			"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"parallel_tool_calls":false}`,
			`user:q [assistant:f({"x":1})] tool:2 [assistant:two] 1 tools`},
		{"functions", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},
			{"role":"function","name":"f","content":"2"}],"functions":[{"name":"f"}]}`, "user:q [assistant:f({})] function:2 1 tools"},
		{"sharegpt", `{"system":"s","conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]}`, "system:s user:q [assistant:a]"},
		{"alpaca", `{"instruction":"do","input":"it","output":"done"}`, "user:do\n\nit [assistant:done]"},
		{"completion", `{"prompt":"p","completion":"c"}`, `"p"["c"]`},
		{"completion of messages", `{"prompt":[{"role":"user","content":"q"}],"completion":[{"role":"assistant","content":"a"}]}`, "user:q [assistant:a]"},
		{"text", `{"text":"t","more":{"x":[1]}}`, `""["t"]`},
		{"lines", "\ufeff\n" + `{"text":"a"}` + "\n\n" + `{"text":"b"}`, `""["a"]` + "\n" + `""["b"]`},
		{"a list", "[\n" + `{"text":"a"},` + "\n" + `{"text":"b"}]` + "\n", `""["a"]` + "\n" + `""["b"]`},
		{"plain", "Once upon a time\n", `""["Once upon a time\n"] plain`},
		{"plain with a bracket", "[Once] upon a time\n", `""["[Once] upon a time\n"] plain`},
	} {
		set, err := data.ReadFrom(strings.NewReader(tt.in), "f", data.Auto)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var got []string
		for _, x := range set.Examples {
			got = append(got, describe(x))
		}
		if s := strings.Join(got, "\n"); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, s, tt.want)
		}
	}
}

func TestPairs(t *testing.T) {
	for _, tt := range []struct{ name, in, chosen, rejected string }{
		{"preference", `{"input":{"messages":[{"role":"user","content":"q"}],"tools":[],"parallel_tool_calls":true},
			"preferred_output":[{"role":"assistant","content":"a"}],"non_preferred_output":[{"role":"assistant","content":"b"}]}`,
			"user:q [assistant:a]", "user:q [assistant:b]"},
		{"earlier answers", `{"input":{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"c"},{"role":"user","content":"r"}]},
			"preferred_output":[{"role":"assistant","content":"a"}],"non_preferred_output":[{"role":"assistant","content":"b"}]}`,
			"user:q assistant:c user:r [assistant:a]", "user:q assistant:c user:r [assistant:b]"},
		{"texts", `{"prompt":"p","chosen":"a","rejected":"b"}`, `"p"["a"]`, `"p"["b"]`},
		{"messages", `{"prompt":[{"role":"user","content":"q"}],"chosen":{"role":"assistant","content":"a"},"rejected":[{"role":"assistant","content":"b"}]}`,
			"user:q [assistant:a]", "user:q [assistant:b]"},
		{"whole", `{"chosen":[{"role":"user","content":"q"},{"role":"assistant","content":"c"},{"role":"user","content":"r"},{"role":"assistant","content":"a"}],
			"rejected":[{"role":"user","content":"q"},{"role":"assistant","content":"c"},{"role":"user","content":"r"},{"role":"assistant","content":"b"}]}`,
			"user:q assistant:c user:r [assistant:a]", "user:q assistant:c user:r [assistant:b]"},
	} {
		set, err := data.ReadFrom(strings.NewReader(tt.in), "f", data.Auto)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if len(set.Pairs) != 1 || describe(set.Pairs[0].Chosen) != tt.chosen || describe(set.Pairs[0].Rejected) != tt.rejected {
			t.Errorf("%s: %+v", tt.name, set.Pairs)
		}
	}
}

// Each error is one line that names the file, the line and the field.
func TestErrorsNameThePlace(t *testing.T) {
	user := `{"role":"user","content":"q"}`
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{``, []string{"f", "empty"}},
		{" \n ", []string{"f", "empty"}},
		{"{}", []string{"f:1:", `"messages"`}},
		{"\n\n" + `{"messages":[` + user + `]}`, []string{"f:3:", "messages:", "no message of the assistant"}},
		{`{"text":"a"}` + "\n" + `{"text":1}`, []string{"f:2:", "text", "a number", "want a text"}},
		{`{"text":"a"}` + "\n" + `{"text":""}`, []string{"f:2:", "text: missing or empty"}},
		{`{"text":"a"}` + "\n" + `{"text":"b"`, []string{"f:2:", "no JSON"}},
		{`{"text":"a"}` + "\nnonsense", []string{"f:2:", "no JSON"}},
		{"[" + `{"text":"a"}`, []string{"f:1:", "no JSON"}},
		{"[" + `{"text":"a"}` + "] {}", []string{"f:1:", "end of the list"}},
		{"[" + `{"text":"a"}` + "] more", []string{"f:1:", "no JSON"}},
		{`{"messages":[{"role":"robot","content":"x"}]}`, []string{"f:1:", "messages.0.role", "robot", "assistant"}},
		{`{"messages":[` + user + `,{"role":"assistant"}]}`, []string{"f:1:", "messages.1.content: missing"}},
		{`{"messages":[` + user + `,{"role":"assistant","content":7}]}`, []string{"f:1:", "messages.1.content"}},
		{`{"messages":[` + user + `,{"role":"assistant","content":"a","weight":0.5}]}`, []string{"messages.1.weight", "0 or 1"}},
		{`{"messages":[{"role":"user","content":"q","weight":1}]}`, []string{"messages.0.weight"}},
		{`{"messages":[` + user + `,{"role":"assistant","content":"a","weight":0}]}`, []string{"no message of the assistant"}},
		{`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,AAAA"}}]}]}`, []string{"messages.0.content", "pictures"}},
		{`{"messages":[` + user + `,{"role":"assistant","tool_calls":[{"type":"function","function":{"name":"f","arguments":"[]"}}]}]}`, []string{"messages.1.tool_calls.0.function.arguments"}},
		{`{"messages":[` + user + `,{"role":"assistant","content":"a"}],"tools":[{}]}`, []string{"tools.0"}},
		{`{"conversations":[{"from":"dog","value":"x"}]}`, []string{"conversations.0.from", "dog"}},
		{`{"prompt":"p","chosen":"a","rejected":"a"}`, []string{"chosen and rejected", "same"}},
		{`{"chosen":"a","rejected":"b"}`, []string{"prompt: missing"}},
		{`{"prompt":"p","chosen":"a","rejected":[` + user + `]}`, []string{"rejected"}},
		{`{"text":"a"}` + "\n" + `{"text":"b","text":"c"}`, []string{"f:2:", "no JSON", "duplicate"}},
		{"binary\x00", []string{"f is no text"}},
	} {
		_, err := data.ReadFrom(strings.NewReader(tt.in), "f", data.Auto)
		if err == nil {
			t.Errorf("%q is read", tt.in)
			continue
		}
		for _, want := range tt.want {
			if !strings.Contains(err.Error(), want) || strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q: %v, want one line with %q", tt.in, err, want)
			}
		}
	}
}

// A record without an end is refused before it is in memory as a whole.
func TestGiantRecord(t *testing.T) {
	giant := io.MultiReader(strings.NewReader(`{"text":"a"}`+"\n"+`{"text":"`), io.LimitReader(endless{}, 1<<40))
	if _, err := data.ReadFrom(giant, "f", data.Auto); err == nil || !strings.Contains(err.Error(), "f:2: a record of more than") {
		t.Error(err)
	}
	if _, err := data.ReadFrom(io.LimitReader(endless{}, 1<<40), "f", data.Auto); err == nil || !strings.Contains(err.Error(), "f: a text of more than") {
		t.Error(err)
	}
	program := io.MultiReader(strings.NewReader("GGUF\x00"), io.LimitReader(endless{}, 1<<40))
	if _, err := data.ReadFrom(program, "f", data.Auto); err == nil || !strings.Contains(err.Error(), "f is no text") {
		t.Error(err)
	}
}

// endless is a text without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestFilesAndFolders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("b.txt", "second")
	write("a.txt", "first")
	write(".hidden", "not this")
	write("in/c.jsonl", `{"text":"third"}`)
	pairs := write("../pairs.jsonl", `{"prompt":"p","chosen":"a","rejected":"b"}`)
	set, err := data.Read([]string{dir}, data.Auto)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range set.Examples {
		got = append(got, x.Text)
	}
	if !slices.Equal(got, []string{"first", "second", "third"}) {
		t.Errorf("%v", got)
	}
	if _, err := data.Read([]string{dir, pairs}, data.Auto); err == nil || !strings.Contains(err.Error(), "pairs") {
		t.Errorf("pairs beside texts: %v", err)
	}
	if _, err := data.Read([]string{filepath.Join(dir, "none")}, data.Auto); err == nil {
		t.Error("a file that is not there")
	}
	if _, err := data.Read([]string{t.TempDir()}, data.Auto); err == nil || !strings.Contains(err.Error(), "no examples") {
		t.Errorf("an empty folder: %v", err)
	}
}

// An example stays on its side whatever else there is.
func TestSplitStays(t *testing.T) {
	var all []data.Example
	for i := range 1000 {
		all = append(all, data.Example{Text: fmt.Sprint("text ", i)})
	}
	learnt, held := data.Split(all, 0.1)
	if len(learnt)+len(held) != 1000 || len(held) < 60 || len(held) > 140 {
		t.Errorf("%d and %d", len(learnt), len(held))
	}
	some, other := data.Split(append([]data.Example{{Text: "one more"}}, all[300:]...), 0.1)
	if len(some)+len(other) != 701 {
		t.Error(len(some), len(other))
	}
	for _, x := range other {
		if x.Text != "one more" && !slices.ContainsFunc(held, func(y data.Example) bool { return y.Text == x.Text }) {
			t.Errorf("%q has moved", x.Text)
		}
	}
	for n := range 40 {
		learnt, held := data.Split(all[n:][:n], 0.05)
		if want := max(min(1, n/20), len(held)*min(1, n/20)); len(held) != want || len(learnt) != n-want {
			t.Errorf("of %d, %d are learnt and %d held out", n, len(learnt), len(held))
		}
	}
}

// Whatever a file holds, it is read, or there is an error of one line.
func FuzzRead(f *testing.F) {
	f.Add(`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","weight":1}],"tools":[]}`)
	f.Add(`[{"conversations":[{"from":"human","value":"q"},{"from":"gpt","value":"a"}]}]`)
	f.Add(`{"input":{"messages":[{"role":"user","content":"q"}]},"preferred_output":[{"role":"assistant","content":"a"}],"non_preferred_output":[]}`)
	f.Add(`{"prompt":"p","chosen":"a","rejected":"b"}`)
	f.Add(`{"prompt":[{"role":"user","content":"q"}],"completion":{"role":"assistant","content":"a"}}`)
	f.Add("{\"text\":\"a\"}\n{\"text\":\"b\"")
	f.Add(`{"query":"q","pos":["a"],"neg":["b"],"margin":1}`)
	f.Add(`{"sentence1":"a","sentence2":"b","score":0.5}`)
	f.Add(`{"text":"a","label":["b",1]}`)
	f.Add("plain")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := data.ReadFrom(strings.NewReader(text), "f", data.Auto)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\n\r") || !strings.HasPrefix(err.Error(), "f") {
				t.Fatalf("%q", err)
			}
			return
		}
		for _, x := range set.Examples {
			if x.Turns == nil && x.Text == "" || x.Turns != nil && !slices.ContainsFunc(x.Turns, func(t data.Turn) bool { return t.Learn }) {
				t.Fatalf("nothing to learn: %s", describe(x))
			}
		}
		for _, p := range set.Pairs {
			if describe(p.Chosen) == describe(p.Rejected) {
				t.Fatalf("a pair of the same: %s", describe(p.Chosen))
			}
		}
		data.Split(set.Examples, 0.5)
	})
}

// All pairs of a prompt are on one side.
func TestSplitPairsByPrompt(t *testing.T) {
	var in strings.Builder
	for i := range 200 {
		fmt.Fprintf(&in, `{"prompt":[{"role":"user","content":"q%d"}],"chosen":[{"role":"assistant","content":"a%d"}],"rejected":[{"role":"assistant","content":"b"}]}`+"\n", i/4, i)
	}
	set, err := data.ReadFrom(strings.NewReader(in.String()), "f", data.Auto)
	if err != nil {
		t.Fatal(err)
	}
	learnt, held := data.SplitPairs(set.Pairs, 0.2)
	prompt := func(p data.Pair) string { return p.Chosen.Turns[0].Content.String() }
	for _, p := range held {
		if slices.ContainsFunc(learnt, func(o data.Pair) bool { return prompt(o) == prompt(p) }) {
			t.Errorf("%s is on both sides", prompt(p))
		}
	}
	if len(held) < 8 || len(held)+len(learnt) != 200 {
		t.Errorf("%d held out, %d learnt", len(held), len(learnt))
	}
}
