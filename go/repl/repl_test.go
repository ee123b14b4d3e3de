package repl

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/synth"
	"github.com/quern-llm/quern/go/tokenizer"
)

// tiny is a model with random weights: what it says is noise, always the same.
var tiny string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "quern-repl-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		tiny = filepath.Join(dir, "tiny.gguf")
		shape, err := synth.ParseShape("tiny:Q4_0")
		if err == nil {
			_, err = shape.WriteFile(context.Background(), tiny, false)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return m.Run()
	}())
}

// fixed are settings that take the likeliest token.
type fixed struct{ temp string }

func (f *fixed) Set(name, value string) error {
	if value == "bad" {
		return errors.New("want a number")
	}
	f.temp = value
	return nil
}

func (f *fixed) Each(show func(name, value, usage string, common bool)) {
	show("temp", f.temp, "temperature", true)
	show("predict", "8", "tokens", false)

}

func (f *fixed) Predict() int { return 8 }

func (f *fixed) Constraint(*chat.Prompt) (constrain.Constraint, error) { return nil, nil }

func (f *fixed) Sampling() sample.Params {
	p := sample.Defaults()
	p.Temp, p.RepeatPenalty = 0, 1.3 // which sees what is in the cache too
	return p
}

// A bench is a session and what it writes.
type bench struct {
	*Session
	out, notes bytes.Buffer
}

// begin returns a session over the tiny model, with a context of so many tokens.
func begin(t *testing.T, ctx int, change func(c *Config)) *bench {
	t.Helper()
	return beginWith(t, tiny, ctx, change)
}

// beginWith returns a session over a model.
func beginWith(t *testing.T, path string, ctx int, change func(c *Config)) *bench {
	t.Helper()
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	eng, err := engine.Open(path, engine.Config{Device: d, Ctx: ctx})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { eng.Close() })
	file, err := model.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	tok, err := tokenizer.New(file.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{Engine: eng, Tokenizer: tok, Template: template(t, chat.Default), Settings: &fixed{temp: "0"}, Person: true}
	b := &bench{}
	c.Out, c.Notes = &b.out, &b.notes
	if change != nil {
		change(&c)
	}
	b.Session = New(c)
	return b
}

// template returns the builtin of that name, or the one that it is.
func template(t *testing.T, name string) *chat.Template {
	t.Helper()
	source, err := chat.Builtin(name)
	if err != nil {
		source = name
	}
	tmpl, err := chat.Parse(source, chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	return tmpl
}

// talk takes what is typed, and returns what it leads to.
func (b *bench) talk(t *testing.T, typed ...string) (out, notes string) {
	t.Helper()
	b.out.Reset()
	b.notes.Reset()
	for _, line := range typed {
		if err := b.take(t.Context(), line); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return b.out.String(), b.notes.String()
}

func TestATurnEvaluatesOnlyWhatIsNew(t *testing.T) {
	b, anew := begin(t, 512, nil), begin(t, 512, nil)
	for i, typed := range []string{"Good morning to all of you.", "And what is that?", "/clear", "Good morning to all of you, again."} {
		before := b.used
		got, _ := b.talk(t, typed)
		anew.seq.Truncate(0)
		if want, _ := anew.talk(t, typed); got != want {
			t.Errorf("%q: got %q, and %q with nothing kept", typed, got, want)
		}
		if i == 1 && b.last.CachedTokens < before-8 { // some of the answer may be other tokens when it is read
			t.Errorf("%q: %d tokens were there already, want nearly all of the %d before", typed, b.last.CachedTokens, before)
		}
		if i == 3 && b.last.CachedTokens < 5 {
			t.Errorf("%q: only %d tokens were there already", typed, b.last.CachedTokens)
		}
	}
}

func TestAFullContextLeavesOutTheOldest(t *testing.T) {
	b := begin(t, 768, func(c *Config) { c.System = "Be brief." })
	said := 0
	for i := range 20 {
		out, notes := b.talk(t, fmt.Sprintf("This is message number %d of them.", i))
		if out == "" {
			t.Fatalf("message %d has no answer: %s", i, notes)
		}
		if strings.Contains(notes, "does not see the oldest") {
			said++
		}
	}
	if said < 2 || said > 6 {
		t.Errorf("it was said %d times that something is left out", said)
	}
	if len(b.messages) != 40 || b.leftOut == 0 {
		t.Errorf("there are %d messages, %d of them left out", len(b.messages), b.leftOut)
	}
	prompt, _, err := b.prompt(t.Context())
	if shown := prompt.Text; err != nil || !strings.Contains(shown, "Be brief.") || !strings.Contains(shown, "number 19") || strings.Contains(shown, "number 0 ") {
		t.Errorf("the model is shown %q, %v", shown, err)
	}
	if _, notes := b.talk(t, "/stats"); !strings.Contains(notes, "40 messages") || !strings.Contains(notes, "left out") {
		t.Errorf("got %s", notes)
	}
}

func TestAMessageThatCannotBeAnsweredIsTakenBack(t *testing.T) {
	b := begin(t, 128, nil)
	out, notes := b.talk(t, strings.Repeat("far too long ", 200))
	if out != "" || strings.Count(notes, "\n") != 1 || !strings.Contains(notes, "the context has 128") {
		t.Errorf("got %q and %q, want one line", out, notes)
	}
	if len(b.messages) != 0 {
		t.Errorf("it is kept: %v", b.messages)
	}
	if out, _ := b.talk(t, "hi"); out == "" {
		t.Error("the next has no answer")
	}
}

func TestATemplateMayRefuse(t *testing.T) {
	b := begin(t, 256, func(c *Config) {
		c.System = "Be brief."
		c.Template = template(t, "{% if messages[0].content == 'Be brief.' %}{{ raise_exception('I take no system message') }}{% endif %}"+
			"{% for m in messages %}{{ m.role }} {{ m.content }}{% endfor %}")
	})
	out, notes := b.talk(t, "hi")
	if out != "" || !strings.Contains(notes, "I take no system message") || strings.Count(notes, "\n") != 1 {
		t.Errorf("got %q and %q", out, notes)
	}
	if out, notes := b.talk(t, "/system -", "hi"); out == "" || notes != "" {
		t.Errorf("without the system message: got %q and %q", out, notes)
	}
}

func TestAnAnswerStopsWhereTheContextEnds(t *testing.T) {
	b := begin(t, 40, nil)
	_, notes := b.talk(t, "hi")
	if !strings.Contains(notes, "the context of 40 tokens is full") {
		t.Errorf("got %q", notes)
	}
}

func TestReasoningIsNoPartOfTheAnswer(t *testing.T) {
	b := begin(t, 64, func(c *Config) {
		c.Template = template(t, "{{ '<think>' if false }}{{ messages[0].content }}")
		c.Screen = true
	})
	prompt, err := b.Template.Render(chat.Input{Messages: []chat.Message{{Role: "user"}}})
	if err != nil {
		t.Fatal(err)
	}
	w := b.writer(prompt)
	for _, id := range b.Tokenizer.Encode("<think>\nh\x1bm</think>\n\nso\x1b[2J it is", tokenizer.Options{NoSpecial: true}) {
		if err := w.text.Write(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(nil); err != nil {
		t.Fatal(err)
	}
	if got := b.out.String(); got != "so[2J it is\n" {
		t.Errorf("got the answer %q", got)
	}
	if got := b.notes.String(); got != "hm\n\n" {
		t.Errorf("got the notes %q", got)
	}
	if w.content.String() != "so\x1b[2J it is" || w.reasoning.String() != "h\x1bm" {
		t.Errorf("kept %q and %q", w.content.String(), w.reasoning.String())
	}
}

func TestCommands(t *testing.T) {
	b := begin(t, 256, nil)
	for _, c := range []struct{ typed, want string }{ // want: what is noted, a part
		{"/help", "/system [TEXT]"},
		{"/frobnicate now", "there is no /frobnicate, only /help /system /clear /image /video /document /save /load /set /tools /stats /quit"},
		{"/system", "there is no system message"},
		{"/system Be kind.", ""},
		{"/system", "Be kind."},
		{"/save x", "nothing to save"},
		{"/load", "want the name of a file"},
		{"/load /nowhere/at/all", "/load: /nowhere/at/all: no such file"},
		{"/set", "temperature"},
		{"/set all", "predict"},
		{"/set predict", "tokens"},
		{"/set system be brief", ""},
		{"/show system", "be brief"},
		{"/show", "temperature"},
		{"/?", "show this; so does /?"},
		{"/set temp", "temperature"},
		{"/set temp 0.5", ""},
		{"/set temp bad", "/set: want a number"},
		{"/set heat 1", `there is no "heat", only temp predict`},
		{"/stats", "context      0 of 256 tokens, 0 messages"},
		{"   ", ""},
	} {
		out, notes := b.talk(t, c.typed)
		if out != "" || !strings.Contains(notes, c.want) || c.want == "" && notes != "" {
			t.Errorf("%s: got %q and %q, want %q", c.typed, out, notes, c.want)
		}
	}
	if got := b.Settings.(*fixed).temp; got != "0.5" {
		t.Errorf("temp is %s", got)
	}
	for _, name := range []string{"/quit", "/exit"} {
		if err := b.take(t.Context(), name); !errors.Is(err, errQuit) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	name := filepath.Join(t.TempDir(), "talk.json")
	b := begin(t, 256, nil)
	_, notes := b.talk(t, "/system Be kind.", "Good morning.", "/save "+name, "How are you?", "/save") // its own file is replaced
	if strings.Contains(notes, "quern:") || !strings.Contains(notes, "saved 4 messages to "+name) {
		t.Fatalf("got %q", notes)
	}
	want, _ := b.talk(t, "And now?")

	other := begin(t, 256, nil)
	_, notes = other.talk(t, "Hello.", "/save "+name)
	if !strings.Contains(notes, "there already; /save! ") {
		t.Errorf("got %q, want a refusal", notes)
	}
	_, notes = other.talk(t, "/load "+name, "/system")
	if notes != "loaded 4 messages from "+name+"\nBe kind.\n" {
		t.Errorf("got %q", notes)
	}
	if got, _ := other.talk(t, "And now?"); got != want {
		t.Errorf("got %q, want what the conversation went on with before, %q", got, want)
	}
	if _, notes = other.talk(t, "/save"); strings.Contains(notes, "quern:") {
		t.Errorf("got %q", notes)
	}
	if _, notes = other.talk(t, "/clear", "Hello again.", "/save"); !strings.Contains(notes, "want the name of a file") {
		t.Errorf("got %q, want another conversation not to replace the first", notes)
	}
	if _, notes = b.talk(t, "/save! "+name); strings.Contains(notes, "quern:") {
		t.Errorf("got %q", notes)
	}
}

// typing is an Input that is fixed.
type typing []any

func (in *typing) Read() (string, error) {
	if len(*in) == 0 {
		return "", io.EOF
	}
	next := (*in)[0]
	*in = (*in)[1:]
	if err, ok := next.(error); ok {
		return "", err
	}
	return next.(string), nil
}

func TestRun(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		what   string
		in     typing
		person bool
		err    string
		left   int // that was not read
	}{
		{"the end", typing{"hi"}, true, "", 0},
		{"quit", typing{"hi", "/quit", "more"}, true, "", 1},
		{"Ctrl-C twice", typing{ErrInterrupted, ErrInterrupted, "more"}, true, "", 1},
		{"Ctrl-C twice, not in a row", typing{ErrInterrupted, "hi", ErrInterrupted, "more"}, true, "", 0},
		{"broken input", typing{"hi", broken, "more"}, true, "broken", 1},
		{"a mistake, and nobody there", typing{"/nothing", "hi"}, false, "1 of what", 0},
		{"a mistake, and somebody there", typing{"/nothing", "hi"}, true, "", 0},
	} {
		b := begin(t, 128, func(cfg *Config) { cfg.Input, cfg.Person = &c.in, c.person })
		err := b.Run(t.Context())
		if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
			t.Errorf("%s: got %v, want %q", c.what, err, c.err)
		}
		if len(c.in) != c.left {
			t.Errorf("%s: %d were not read, want %d", c.what, len(c.in), c.left)
		}
	}
}

// deaf takes no output.
type deaf struct{}

func (deaf) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestOutputThatGoesNowhereEndsTheSession(t *testing.T) {
	b := begin(t, 128, func(c *Config) { c.Out, c.First, c.Input = deaf{}, "hi", &typing{} })
	if err := b.Run(t.Context()); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("got %v", err)
	}
}
