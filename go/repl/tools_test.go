package repl

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/scripted"
)

// weather is the tools of the tests. It counts its calls.
type weather struct {
	calls   []string
	err     error
	picture []byte
}

func (w *weather) Specs() []json.RawMessage {
	return []json.RawMessage{json.RawMessage(`{"type": "function", "function": {"name": "get_weather", "description": "The weather\nof a place", "parameters": {"type": "object"}}}`)}
}

func (w *weather) Call(_ context.Context, name, arguments string) (chat.Content, error) {
	w.calls = append(w.calls, name+arguments)
	if w.picture != nil {
		return chat.Content{Parts: []chat.Part{{Text: "21"}, {Medium: &chat.Medium{Kind: chat.Picture, Data: w.picture}}}}, w.err
	}
	return chat.Text("21"), w.err
}

// typed is what is typed when a question is asked.
type typed struct{ lines []string }

func (l *typed) Read() (string, error) {
	if len(l.lines) == 0 {
		return "", io.EOF
	}
	line := l.lines[0]
	l.lines = l.lines[1:]
	return line, nil
}

// untilDone takes the likeliest token until the answer ends.
type untilDone struct{ fixed }

func (untilDone) Predict() int { return -1 }

func (untilDone) Sampling() sample.Params { return sample.Params{RepeatPenalty: 1} }

// hermes is a template of models that write calls as Hermes does. What the last message
// holds decides what the model says.
const hermes = `{% for t in tools or [] %}{{ t|tojson }}<tool_call>{"name": <function-name>}</tool_call>{% endfor %}{% for m in messages %}{{ m.role }}: {{ m.content }}
{% for c in m.tool_calls or [] %}<tool_call>{{ c.function|tojson }}</tool_call>{% endfor %}{% endfor %}`

// calling returns a session with a model that calls a tool, and then says whether it had
// an answer.
func calling(t *testing.T, tools *weather, person bool, answers ...string) *bench {
	t.Helper()
	m := scripted.Model{Template: hermes, Scripts: []scripted.Script{
		{When: "messages[-1].role == 'tool' and '21' in messages[-1].content", Text: "It is 21 °C."},
		{When: "messages[-1].role == 'tool'", Text: "Then I do not know."},
		{When: "'again' in messages[-1].content", Text: "Once more.\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {}}\n</tool_call>"},
		{Text: "<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": \"Rome\"}}\n</tool_call>"},
	}}
	data, err := m.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scripted.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return beginWith(t, path, 8192, func(c *Config) {
		if c.Template, err = chat.Parse(m.Source(), chat.SpecialTokens{}); err != nil {
			t.Fatal(err)
		}
		c.Tools, c.Person, c.Settings, c.Input = tools, person, &untilDone{}, &typed{answers}
	})
}

// A call is shown and asked for, and the model is told what came of it.
func TestTools(t *testing.T) {
	for _, c := range []struct {
		name        string
		person      bool
		answers     []string
		allow       []string
		err         error
		out, notes  string
		calls, left int
	}{
		{"yes", true, []string{"y"}, nil, nil, "It is 21 °C.\n", "get_weather {\"place\": \"Rome\"}\ncall it?", 1, 0},
		{"no", true, []string{"n", "never read"}, nil, nil, "Then I do not know.\n", "call it?", 0, 1},
		{"the end of input", true, nil, nil, nil, "Then I do not know.\n", "call it?", 0, 0},
		{"allowed", false, nil, []string{"get_weather"}, nil, "It is 21 °C.\n", "  21\n", 1, 0},
		{"nobody to ask", false, []string{"never read"}, []string{"other"}, nil, "Then I do not know.\n", "--mcp-allow get_weather", 0, 1},
		{"the server is gone", true, []string{"Yes"}, nil, errors.New("connection lost"), "Then I do not know.\n", "error: connection lost", 1, 0},
	} {
		tools := &weather{err: c.err}
		b := calling(t, tools, c.person, c.answers...)
		b.Allow(c.allow...)
		out, notes := b.talk(t, "How warm is it?")
		if out != c.out || !strings.Contains(notes, c.notes) || len(tools.calls) != c.calls || len(b.Input.(*typed).lines) != c.left {
			t.Errorf("%s: said %q and %q after %q", c.name, out, notes, tools.calls)
		}
		if len(b.messages) != 4 || b.messages[1].ToolCalls[0].ID != b.messages[2].ToolCallID || b.messages[2].Role != "tool" {
			t.Errorf("%s: conversation %+v", c.name, b.messages)
		}
	}
}

// A picture of a tool is one for a model that sees; others are told of it.
func TestPicturesOfTools(t *testing.T) {
	tools := &weather{picture: []byte("PNG")}
	b := calling(t, tools, true, "y", "y")
	if out, notes := b.talk(t, "How warm is it?"); out != "It is 21 °C.\n" || !strings.Contains(notes, "  21\n  (a picture, which this model cannot read)\n") {
		t.Errorf("said %q and %q", out, notes)
	}
	b.Projector = eyes(t)
	m := b.call(t.Context(), chat.ToolCall{Function: chat.Function{Name: "get_weather"}}, true)
	if media := m.Content.Media(); len(media) != 1 || string(media[0].Data) != "PNG" {
		t.Errorf("%+v", m)
	}
}

// "Always" holds for later calls, and a saved conversation has calls and results.
func TestToolsAgain(t *testing.T) {
	tools := &weather{}
	b := calling(t, tools, true, "a")
	name := filepath.Join(t.TempDir(), "talk.json")
	out, notes := b.talk(t, "How warm is it?", "And again?", "/tools", "/save "+name)
	if out != "It is 21 °C.\nOnce more.\nIt is 21 °C.\n" || len(tools.calls) != 2 || strings.Count(notes, "call it?") != 1 {
		t.Errorf("said %q and %q after %q", out, notes, tools.calls)
	}
	if !strings.Contains(notes, "  get_weather            The weather\n") || !strings.Contains(notes, "without a question: get_weather\n") {
		t.Errorf("/tools: %q", notes)
	}
	other := calling(t, tools, true)
	if _, notes = other.talk(t, "/load "+name); len(other.messages) != 8 || other.messages[5].ToolCalls[0].Function.Name != "get_weather" {
		t.Errorf("loaded %+v: %s", other.messages, notes)
	}
}

// A model that calls without end is stopped, and the conversation goes on.
func TestToolsWithoutEnd(t *testing.T) {
	tools := &weather{}
	b := calling(t, tools, true)
	b.Allow("get_weather")
	var err error
	if b.Template, err = chat.Parse(hermes+scripted.Start(3), chat.SpecialTokens{}); err != nil {
		t.Fatal(err)
	}
	out, notes := b.talk(t, "How warm is it?")
	if out != "" || len(tools.calls) != maxRounds || !strings.Contains(notes, "called tools 32 times") || b.failed != 1 {
		t.Errorf("said %q after %d calls: %s", out, len(tools.calls), notes[max(len(notes)-300, 0):])
	}
}
