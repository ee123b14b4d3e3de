package quern_test

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/gif"
	"io/fs"
	"iter"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/querntest"
	"github.com/quern-llm/quern/go/scripted"
)

//go:embed go/demo/quern-demo.gguf
var files embed.FS

const demoFile = "go/demo/quern-demo.gguf"

func open(t testing.TB, name string, options ...quern.Option) *quern.Model {
	t.Helper()
	return openWith(t, name, append([]quern.Option{quern.WithThreads(1)}, options...)...)
}

func openWith(t testing.TB, name string, options ...quern.Option) *quern.Model {
	t.Helper()
	m, err := quern.Open(t.Context(), name, append([]quern.Option{quern.WithContextLength(256), quern.WithKVMemory(32 << 20)}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// story is a request whose answer is known.
func story(tokens int) quern.Request {
	return quern.Request{Prompt: "Once upon a time", MaxTokens: tokens, Temperature: new(0.0)}
}

const goesOn = ", there was a little girl named Lily. Lily lived by"

func complete(t testing.TB, m *quern.Model, r quern.Request) *quern.Result {
	t.Helper()
	result, err := m.Complete(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestComplete(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	r := complete(t, m, story(12))
	if r.Text() != goesOn || r.Finish != quern.FinishLength || r.Usage.AnswerTokens != 12 || r.Usage.PromptTokens == 0 {
		t.Errorf("%q, %+v", r.Text(), r)
	}
	stopped := story(100)
	stopped.Stop = []string{"zebra", " girl"}
	if r := complete(t, m, stopped); r.Text() != ", there was a little" || r.Finish != quern.FinishStop || r.Stop != " girl" {
		t.Errorf("%q, %+v", r.Text(), r)
	}
	if i := m.Info(); i.Architecture != "llama" || i.ContextLength != 256 || i.Vocabulary == 0 || i.Parameters == 0 || i.VectorSize == 0 {
		t.Errorf("%+v", i)
	}
}

// Events put together are the result, and reading comes first.
func TestEvents(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	r := story(12)
	r.TopLogprobs = new(2)
	text, tokens, reading, results := "", 0, 0, 0
	var last *quern.Result
	for e, err := range m.Chat(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Reading != nil && text == "" {
			reading = e.Reading.Done
		}
		if e.Result != nil {
			last = e.Result
			results++
		}
		text += e.Text
		tokens += len(e.Tokens)
	}
	if text != goesOn || last.Text() != goesOn || results != 1 || tokens > 12 || len(last.Tokens) != 12 || reading != last.Usage.PromptTokens {
		t.Errorf("%q and %q, %d results, %d and %d tokens, read %d", text, last.Text(), results, tokens, len(last.Tokens), reading)
	}
	spelled := ""
	for _, one := range last.Tokens {
		spelled += one.Text
		if len(one.Top) != 2 || one.Top[0].ID != one.ID || one.Top[0].Logprob != one.Logprob || one.Top[1].Logprob > one.Logprob || one.Logprob > 0 {
			t.Errorf("%+v", one)
		}
	}
	if spelled != goesOn {
		t.Errorf("tokens spell %q", spelled)
	}
}

// The same text comes from a file, a file system and a reader, alone and in company.
func TestSources(t *testing.T) {
	t.Parallel()
	raw, err := files.ReadFile(demoFile)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range map[string]*quern.Model{
		"a path":      open(t, demoFile),
		"embedded":    open(t, demoFile, quern.WithFS(files)),
		"os.DirFS":    open(t, demoFile, quern.WithFS(os.DirFS("."))),
		"io.ReaderAt": open(t, "a reader", quern.WithReaderAt(bytes.NewReader(raw), int64(len(raw)))),
	} {
		if got := complete(t, m, story(12)).Text(); got != goesOn {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// Many goroutines share a model, and each has the text that it has alone.
func TestCompany(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo, quern.WithParallel(8))
	prompts := []string{"Once upon a time", "The dog", "One day, a boy", "There was a big tree"}
	want := map[string]string{}
	for _, p := range prompts {
		want[p] = complete(t, m, quern.Request{Prompt: p, MaxTokens: 20, Seed: new(uint64(7))}).Text()
	}
	var wg sync.WaitGroup
	for i := range 100 {
		wg.Go(func() {
			p := prompts[i%len(prompts)]
			if i%10 == 9 { // some leave
				for range m.Chat(t.Context(), quern.Request{Prompt: p, MaxTokens: 20}) {
					break
				}
				return
			}
			r, err := m.Complete(t.Context(), quern.Request{Prompt: p, MaxTokens: 20, Seed: new(uint64(7))})
			if err != nil || r.Text() != want[p] {
				t.Errorf("%q: %q, %v; want %q", p, r.Text(), err, want[p])
			}
		})
	}
	wg.Wait()
}

func TestFormat(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	for _, c := range []struct {
		format *quern.Format
		want   func(string) bool
	}{
		{quern.Choice(" cat", " dog"), func(s string) bool { return s == " cat" || s == " dog" }},
		{quern.Regex("[0-9]{3}"), func(s string) bool { return len(s) == 3 && strings.Trim(s, "0123456789") == "" }},
		{quern.Grammar(`root ::= "yes" | "no"`), func(s string) bool { return s == "yes" || s == "no" }},
		{quern.JSONSchema([]byte(`{"enum": [1, 2]}`)), func(s string) bool { return s == "1" || s == "2" }},
	} {
		r := story(50)
		r.Format = c.format
		if got := complete(t, m, r); !c.want(got.Text()) || got.Finish != quern.FinishStop {
			t.Errorf("%q, %s", got.Text(), got.Finish)
		}
	}
}

type animal struct {
	Name string `json:"name" jsonschema:"what it is called"`
	Legs int    `json:"legs"`
}

func TestInto(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	got, result, err := quern.Into[[]bool](t.Context(), m, quern.Request{Prompt: "[", MaxTokens: 100, Seed: new(uint64(1)), Temperature: new(0.0)})
	if err != nil && !errors.Is(err, quern.ErrContextFull) {
		t.Errorf("%v, %v, %v", got, result, err)
	}
	type tree struct{ Children []*tree }
	if _, _, err := quern.Into[tree](t.Context(), m, story(10)); !errors.Is(err, quern.ErrInvalid) {
		t.Errorf("a recursive type: %v", err)
	}
	if _, _, err := quern.Into[animal](t.Context(), m, story(2)); !errors.Is(err, quern.ErrContextFull) {
		t.Errorf("two tokens: %v", err)
	}
	r := story(10)
	r.Format = quern.JSON()
	if _, _, err := quern.Into[animal](t.Context(), m, r); !errors.Is(err, quern.ErrInvalid) {
		t.Errorf("two formats: %v", err)
	}
}

func TestTask(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	task, err := quern.NewTask(t.Context(), m, quern.Request{
		Messages: []quern.Message{quern.System("Tell of an animal.")}, MaxTokens: 12, Temperature: new(0.0),
	}, quern.Example[string]{Input: "a cat", Answer: "The cat sat on the mat and was happy all day long."})
	if err != nil {
		t.Fatal(err)
	}
	text, err := task.Do(t.Context(), "a dog")
	if err != nil || text == "" {
		t.Errorf("%q, %v", text, err)
	}
	if again, err := task.Do(t.Context(), "a dog"); again != text {
		t.Errorf("%q, %v; want %q again", again, err, text)
	}
	pick, err := quern.NewTask[bool](t.Context(), m, quern.Request{MaxTokens: 12, Temperature: new(0.0)}, quern.Example[bool]{Input: "a cat", Answer: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pick.Do(t.Context(), "a dog"); err != nil {
		t.Error(err)
	}
}

// A session goes on from what is evaluated, also when it was saved, and forks do not disturb each other.
func TestSession(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	options := quern.Request{MaxTokens: 12, Temperature: new(0.0), Messages: []quern.Message{quern.System("Tell stories.")}}
	s, err := m.NewSession(options)
	if err != nil {
		t.Fatal(err)
	}
	say := func(s *quern.Session, text string) *quern.Result {
		t.Helper()
		r, err := s.Complete(t.Context(), quern.User(text))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	say(s, "A story of a cat, please, and of the dog that lived next door.")
	if n := len(s.Messages()); n != 3 {
		t.Fatalf("%d messages", n)
	}
	fork, err := s.Fork()
	if err != nil {
		t.Fatal(err)
	}
	var saved bytes.Buffer
	if err := s.Save(&saved); err != nil {
		t.Fatal(err)
	}
	second := say(s, "And then?")
	if second.Usage.CachedTokens < second.Usage.PromptTokens/2 {
		t.Errorf("of %d tokens %d are in the cache", second.Usage.PromptTokens, second.Usage.CachedTokens)
	}
	if got := say(fork, "And then?"); got.Text() != second.Text() || len(fork.Messages()) != 5 || len(s.Messages()) != 5 {
		t.Errorf("the fork: %q, want %q", got.Text(), second.Text())
	}
	other := open(t, quern.Demo)
	restored, err := other.RestoreSession(bytes.NewReader(saved.Bytes()), quern.Request{MaxTokens: 12, Temperature: new(0.0)})
	if err != nil {
		t.Fatal(err)
	}
	if got := say(restored, "And then?"); got.Text() != second.Text() || got.Usage.CachedTokens < got.Usage.PromptTokens/2 {
		t.Errorf("restored: %q with %+v, want %q", got.Text(), got.Usage, second.Text())
	}
	for n := range saved.Len() {
		if n > 200 && n%97 != 0 {
			continue
		}
		cut := saved.Bytes()[:n]
		if _, err := other.RestoreSession(bytes.NewReader(cut), quern.Request{}); err == nil {
			head, _, _ := bytes.Cut(cut, []byte("quernKV"))
			if len(head) != n { // a session without state may end there
				t.Fatalf("%d bytes of %d were restored", n, saved.Len())
			}
		} else if !errors.Is(err, quern.ErrFile) {
			t.Fatalf("%d bytes: %v", n, err)
		}
	}
	otherModel := open(t, quern.Demo, quern.WithKVTypes("f16", "f16"))
	if r, err := otherModel.RestoreSession(bytes.NewReader(saved.Bytes()), quern.Request{MaxTokens: 4}); err != nil || len(r.Messages()) != 3 {
		t.Errorf("with other types of keys and values: %v", err)
	}
}

// A turn that is left is no part of the session; one whose result came is.
func TestTurnsThatEndEarly(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	s, err := m.NewSession(quern.Request{MaxTokens: 30})
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range s.Chat(t.Context(), quern.User("hello")) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Text != "" {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := s.Complete(ctx, quern.User("hello")); !errors.Is(err, context.Canceled) {
				t.Errorf("a turn that waits for this one: %v", err)
			}
			break
		}
	}
	if n := len(s.Messages()); n != 0 {
		t.Errorf("%d messages of a turn that was left", n)
	}
	for e, err := range s.Chat(t.Context(), quern.User("hello")) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Result != nil {
			break
		}
	}
	if n := len(s.Messages()); n != 2 {
		t.Errorf("%d messages of a turn with its result", n)
	}
	s.Close()
	if _, err := s.Complete(t.Context(), quern.User("hello")); !errors.Is(err, quern.ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Fork(); !errors.Is(err, quern.ErrClosed) {
		t.Error(err)
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	ids, err := m.Tokenize("Once upon a time")
	if err != nil || len(ids) == 0 {
		t.Fatal(ids, err)
	}
	if text, err := m.Detokenize(ids); strings.TrimSpace(text) != "Once upon a time" {
		t.Errorf("%q, %v", text, err)
	}
	if _, err := m.Detokenize([]int32{1 << 30}); !errors.Is(err, quern.ErrInvalid) {
		t.Error(err)
	}
	texts := []string{"a cat", "a dog", "a cat", "the sun is warm"}
	vectors, err := m.Embed(t.Context(), texts...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range vectors {
		sum := 0.0
		for _, x := range v {
			sum += float64(x) * float64(x)
		}
		if math.Abs(sum-1) > 1e-5 || len(v) != m.Info().VectorSize {
			t.Errorf("%q: %d numbers, of length %g", texts[i], len(v), math.Sqrt(sum))
		}
	}
	if !slices.Equal(vectors[0], vectors[2]) || slices.Equal(vectors[0], vectors[1]) {
		t.Error("vectors of equal texts differ, or those of others do not")
	}
	ranked, err := m.Rerank(t.Context(), "a cat", texts[1:]...)
	if err != nil || ranked[0].Index != 1 || len(ranked) != 3 || math.Abs(ranked[0].Score-1) > 1e-5 {
		t.Errorf("%+v, %v", ranked, err)
	}
	if none, err := m.Embed(t.Context()); err != nil || len(none) != 0 {
		t.Errorf("%v, %v", none, err)
	}
	if _, err := m.Embed(t.Context(), strings.Repeat("word ", 1000)); !errors.Is(err, quern.ErrContextFull) {
		t.Error(err)
	}
}

// What is wrong is one line of a kind.
func TestErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cut := filepath.Join(dir, "cut.gguf")
	raw, err := files.ReadFile(demoFile)
	if err == nil {
		err = os.WriteFile(cut, raw[:len(raw)/2], 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	device, err := quern.NewDevice(quern.DeviceConfig{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	device.Close()
	for name, c := range map[string]struct {
		ctx     context.Context
		model   string
		options []quern.Option
		kind    error
	}{
		"no such file":         {t.Context(), filepath.Join(dir, "none.gguf"), nil, quern.ErrFile},
		"a cut file":           {t.Context(), cut, nil, quern.ErrFile},
		"a folder":             {t.Context(), dir, nil, quern.ErrFile},
		"no name":              {t.Context(), "", nil, quern.ErrInvalid},
		"a nil context":        {nil, quern.Demo, nil, quern.ErrInvalid},
		"a canceled context":   {canceled, quern.Demo, nil, context.Canceled},
		"a context of 0":       {t.Context(), quern.Demo, []quern.Option{quern.WithContextLength(0)}, quern.ErrInvalid},
		"a huge context":       {t.Context(), quern.Demo, []quern.Option{quern.WithContextLength(1 << 30)}, quern.ErrInvalid},
		"a strange type":       {t.Context(), quern.Demo, []quern.Option{quern.WithKVTypes("q3", "f16")}, quern.ErrInvalid},
		"no memory":            {t.Context(), quern.Demo, []quern.Option{quern.WithMemory(1 << 20)}, quern.ErrMemory},
		"a long context":       {t.Context(), quern.Demo, []quern.Option{quern.WithMemory(64 << 20), quern.WithContextLength(1 << 26)}, quern.ErrMemory},
		"a folder of no model": {t.Context(), "go", nil, quern.ErrFile},
		"a template's name":    {t.Context(), quern.Demo, []quern.Option{quern.WithChatTemplate("none")}, quern.ErrInvalid},
		"a model as adapter":   {t.Context(), quern.Demo, []quern.Option{quern.WithAdapter("go/demo/quern-demo.gguf", 1)}, quern.ErrFile},
		"no adapter":           {t.Context(), quern.Demo, []quern.Option{quern.WithAdapter(filepath.Join(dir, "none"), 1)}, quern.ErrFile},
		"threads below 0":      {t.Context(), quern.Demo, []quern.Option{quern.WithThreads(-1)}, quern.ErrInvalid},
		"a closed device":      {t.Context(), quern.Demo, []quern.Option{quern.WithDevice(device)}, quern.ErrClosed},
		"a device and threads": {t.Context(), quern.Demo, []quern.Option{quern.WithDevice(device), quern.WithThreads(1)}, quern.ErrInvalid},
		"a nil option":         {t.Context(), quern.Demo, []quern.Option{nil}, quern.ErrInvalid},
		"a nil device":         {t.Context(), quern.Demo, []quern.Option{quern.WithDevice(nil)}, quern.ErrInvalid},
		"a bad template":       {t.Context(), quern.Demo, []quern.Option{quern.WithChatTemplate("{% if %}")}, quern.ErrInvalid},
		"not in the cache":     {t.Context(), "hf.co/a/b", []quern.Option{quern.WithCache(dir), quern.WithoutDownloads()}, quern.ErrFile},
		"not in a file system": {t.Context(), "none", []quern.Option{quern.WithFS(files)}, fs.ErrNotExist},
	} {
		m, err := quern.Open(c.ctx, c.model, c.options...)
		if !errors.Is(err, c.kind) || err == nil || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "--") {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
		if m != nil {
			t.Errorf("%s: there is a model", name)
		}
	}

	m := open(t, quern.Demo)
	png := quern.Message{Role: quern.RoleUser, Parts: []quern.Part{{Image: []byte("\x89PNG\r\n\x1a\n")}}}
	hi := []quern.Message{quern.User("hi")}
	for name, c := range map[string]struct {
		r    quern.Request
		kind error
	}{
		"nothing":              {quern.Request{}, quern.ErrInvalid},
		"both":                 {quern.Request{Prompt: "a", Messages: hi}, quern.ErrInvalid},
		"a long prompt":        {quern.Request{Prompt: strings.Repeat("word ", 300)}, quern.ErrContextFull},
		"a very long prompt":   {quern.Request{Prompt: strings.Repeat("word ", 1<<20)}, quern.ErrContextFull},
		"an image":             {quern.Request{Messages: []quern.Message{png}}, quern.ErrUnsupported},
		"a role":               {quern.Request{Messages: []quern.Message{{Role: "king"}}}, quern.ErrInvalid},
		"a part of two":        {quern.Request{Messages: []quern.Message{{Role: quern.RoleAssistant, Parts: []quern.Part{{Text: "a", Reasoning: "b"}}}}}, quern.ErrInvalid},
		"a temperature":        {quern.Request{Prompt: "a", Temperature: new(1e9)}, quern.ErrInvalid},
		"not a number":         {quern.Request{Prompt: "a", TopP: new(math.NaN())}, quern.ErrInvalid},
		"MaxTokens":            {quern.Request{Prompt: "a", MaxTokens: -1}, quern.ErrInvalid},
		"TopLogprobs":          {quern.Request{Prompt: "a", TopLogprobs: new(1000)}, quern.ErrInvalid},
		"a schema":             {quern.Request{Prompt: "a", Format: quern.JSONSchema([]byte("{"))}, quern.ErrInvalid},
		"a regular expression": {quern.Request{Prompt: "a", Format: quern.Regex("(")}, quern.ErrInvalid},
		"a tool's name":        {quern.Request{Messages: hi, Tools: []quern.Tool{{Name: "a b"}}}, quern.ErrInvalid},
		"two tools":            {quern.Request{Messages: hi, Tools: []quern.Tool{{Name: "a"}, {Name: "a"}}}, quern.ErrInvalid},
		"parameters":           {quern.Request{Messages: hi, Tools: []quern.Tool{{Name: "a", Parameters: []byte("{")}}}, quern.ErrInvalid},
		"no such tool":         {quern.Request{Messages: hi, ToolChoice: quern.CallOf("x")}, quern.ErrInvalid},
		"no tools":             {quern.Request{Messages: hi, ToolChoice: quern.CallOf()}, quern.ErrInvalid},
		"template values":      {quern.Request{Messages: hi, TemplateValues: map[string]any{"f": func() {}}}, quern.ErrInvalid},
	} {
		if _, err := m.Complete(t.Context(), c.r); !errors.Is(err, c.kind) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %v", name, err, c.kind)
		}
	}
	var none context.Context
	if _, err := m.Complete(none, story(1)); !errors.Is(err, quern.ErrInvalid) {
		t.Error(err)
	}
	if _, err := m.Complete(canceled, story(1)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Closing ends what is being said, in the middle of it, also from within; later calls say that it is closed.
func TestClose(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	var last error
	for e, err := range m.Chat(t.Context(), quern.Request{Prompt: "Once upon a time", IgnoreEnd: true}) {
		if last = err; e.Text != "" {
			m.Close()
		}
		if e.Result != nil {
			t.Errorf("the answer was whole: %+v", e.Result)
		}
	}
	if !errors.Is(last, quern.ErrClosed) {
		t.Errorf("%v, want ErrClosed", last)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	_, err := m.Complete(t.Context(), story(1))
	_, embedded := m.Embed(t.Context(), "a")
	_, tokenized := m.Tokenize("a")
	for _, err := range []error{err, embedded, tokenized} {
		if !errors.Is(err, quern.ErrClosed) {
			t.Errorf("%v, want ErrClosed", err)
		}
	}
	if m.Info() != (quern.Info{}) {
		t.Error("a closed model has information")
	}
}

// Closing ends texts that are read, however many there are.
func TestCloseEndsReading(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo, quern.WithParallel(4))
	texts := slices.Repeat([]string{strings.Repeat("a cat and a dog ", 15)}, 1<<16)
	begun, ended := make(chan struct{}), make(chan error)
	go func() {
		close(begun)
		_, err := m.Embed(t.Context(), texts...)
		ended <- err
	}()
	<-begun
	if _, err := m.Embed(t.Context(), "a"); err != nil { // the others have had a turn
		t.Error(err)
	}
	m.Close()
	if err := <-ended; !errors.Is(err, quern.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// Canceling ends an answer, and its tokens so far are there.
func TestCancel(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	mine := errors.New("mine")
	var failed error
	for e, err := range m.Chat(ctx, quern.Request{Prompt: "Once upon a time", IgnoreEnd: true}) {
		if failed = err; e.Text != "" {
			cancel(mine)
		}
	}
	if !errors.Is(failed, mine) {
		t.Error(failed)
	}
	late, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	part, err := m.Complete(late, quern.Request{Prompt: "Once upon a time", IgnoreEnd: true, MaxTokens: 1 << 20})
	if err != nil && !errors.Is(err, context.DeadlineExceeded) || part == nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(part, err)
	}
}

// Several models share a device, and its memory is free when they are closed.
func TestDevice(t *testing.T) {
	t.Parallel()
	d, err := quern.NewDevice(quern.DeviceConfig{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before := d.Status().Used
	a, b := openWith(t, quern.Demo, quern.WithDevice(d)), openWith(t, demoFile, quern.WithDevice(d))
	var wg sync.WaitGroup
	for _, m := range []*quern.Model{a, b} {
		wg.Go(func() {
			if got := complete(t, m, story(12)).Text(); got != goesOn {
				t.Errorf("%q", got)
			}
		})
	}
	wg.Wait()
	if st := d.Status(); st.Models != 2 || st.Threads != 2 || st.Used <= before || st.Limit < st.Used {
		t.Errorf("%+v", st)
	}
	a.Close()
	if st := d.Status(); st.Models != 1 {
		t.Errorf("%+v", st)
	}
	b.Close()
	if st := d.Status(); st.Used != before {
		t.Errorf("%d bytes are used, before %d: %v", st.Used, before, st.Parts)
	}
	c := openWith(t, quern.Demo, quern.WithDevice(d))
	d.Close()
	if _, err := c.Complete(t.Context(), story(1)); !errors.Is(err, quern.ErrClosed) {
		t.Error(err)
	}
}

// A device is spread over NUMA nodes as it is told, with the same text, and refuses other words.
func TestDeviceOnNodes(t *testing.T) {
	t.Parallel()
	for _, numa := range []string{"", "auto", "off", "distribute", "isolate", "numactl"} {
		d, err := quern.NewDevice(quern.DeviceConfig{Threads: 2, NUMA: numa})
		if err != nil {
			t.Fatalf("%s: %v", numa, err)
		}
		if got := complete(t, openWith(t, quern.Demo, quern.WithDevice(d)), story(12)).Text(); got != goesOn {
			t.Errorf("%s: %q", numa, got)
		}
		d.Close()
	}
	_, err := quern.NewDevice(quern.DeviceConfig{NUMA: "mirror"})
	if !errors.Is(err, quern.ErrInvalid) || !strings.Contains(err.Error(), `DeviceConfig.NUMA is "mirror"`) || !strings.Contains(err.Error(), "distribute") {
		t.Errorf("mirror: %v", err)
	}
}

// Nothing is left of models that are opened and closed many times.
func TestNothingIsLeft(t *testing.T) {
	times := 1000
	if testing.Short() {
		times = 50
	}
	d, err := quern.NewDevice(quern.DeviceConfig{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	tiny, err := (&scripted.Model{Template: "{{ messages }}", Scripts: []scripted.Script{{Text: "Yes, and so on."}}}).GGUF()
	small := filepath.Join(t.TempDir(), "small.gguf")
	if err == nil {
		err = os.WriteFile(small, tiny, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	once := func(name string) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m, err := quern.Open(ctx, name, quern.WithDevice(d), quern.WithContextLength(64), quern.WithKVMemory(4<<20), quern.WithParallel(2))
		if err != nil {
			t.Fatal(err)
		}
		for range m.Chat(ctx, story(2)) {
			break
		}
		m.Close()
	}
	once(quern.Demo)
	used, goroutines := d.Status().Used, runtime.NumGoroutine()
	for i := range times {
		if i%20 == 0 {
			once(quern.Demo)
		} else { // what remains of one does not depend on its size
			once(small)
		}
	}
	for wait := time.Now(); runtime.NumGoroutine() > goroutines && time.Since(wait) < 10*time.Second; {
		time.Sleep(time.Millisecond) // one that has told of its end may not have ended
	}
	if n := runtime.NumGoroutine(); n > goroutines || d.Status().Used != used {
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines and %d bytes, before %d and %d\n%s", n, d.Status().Used, goroutines, used, stacks[:runtime.Stack(stacks, true)])
	}
}

func Example() {
	ctx := context.Background()
	m, err := quern.Open(ctx, quern.Demo)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer m.Close()
	r := quern.Request{Prompt: "Once upon a time", MaxTokens: 12, Temperature: new(0.0)}
	for ev, err := range m.Chat(ctx, r) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Print(ev.Text)
	}
	// Output: , there was a little girl named Lily. Lily lived by
}

// Answers are as likely as their tokens are; a whole answer counts its end, and the answers stand in the order of their
// likelihood.
func TestDecide(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	first := story(1)
	first.Prompt, first.TopLogprobs = "Once upon a", new(5)
	top := complete(t, m, first).Tokens[0].Top
	var answers []string
	for _, token := range slices.Backward(top) {
		answers = append(answers, token.Text)
	}
	all, err := m.Decide(t.Context(), quern.Request{Prompt: first.Prompt}, answers...)
	if err != nil || len(all) != len(top) {
		t.Fatalf("%+v, %v", all, err)
	}
	sum := 0.0
	for i, one := range all {
		if one.Answer != top[i].Text || one.Index != len(top)-1-i || math.Abs(one.Logprob-top[i].Logprob) > 1e-5 {
			t.Errorf("%d: %+v, want %+v", i, one, top[i])
		}
		sum += one.Probability
	}
	if math.Abs(sum-1) > 1e-9 || all[0].Probability <= all[1].Probability {
		t.Errorf("%+v have %v together", all, sum)
	}
	hi := quern.Request{Messages: []quern.Message{quern.User("Was it a cat?")}}
	whole, err := m.Decide(t.Context(), hi, "Yes", "Yes, it was")
	if err != nil || whole[0].Logprob >= 0 {
		t.Errorf("%+v, %v", whole, err)
	}
	for name, c := range map[string]struct {
		r       quern.Request
		answers []string
		kind    error
	}{
		"one":         {hi, []string{"a"}, quern.ErrInvalid},
		"too many":    {hi, make([]string, quern.MaxAnswers+1), quern.ErrInvalid},
		"empty":       {hi, []string{"a", ""}, quern.ErrInvalid},
		"twice":       {hi, []string{"a", "a"}, quern.ErrInvalid},
		"no text":     {quern.Request{}, []string{"a", "b"}, quern.ErrInvalid},
		"a long text": {quern.Request{Prompt: strings.Repeat("word ", 300)}, []string{"a", "b"}, quern.ErrContextFull},
		"a role":      {quern.Request{Messages: []quern.Message{{Role: "king"}}}, []string{"a", "b"}, quern.ErrInvalid},
	} {
		if got, err := m.Decide(t.Context(), c.r, c.answers...); !errors.Is(err, c.kind) || got != nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v, want %v", name, got, err, c.kind)
		}
	}
	m.Close()
	if _, err := m.Decide(t.Context(), hi, "a", "b"); !errors.Is(err, quern.ErrClosed) {
		t.Errorf("%v, want ErrClosed", err)
	}
}

// A file that vanishes while its model is open is still there; one that vanishes before is an error. Two models may be
// opened of one file.
func TestFileVanishes(t *testing.T) {
	t.Parallel()
	raw, err := files.ReadFile(demoFile)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	a, b := open(t, path), open(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	for _, m := range []*quern.Model{a, b} {
		if got := complete(t, m, story(12)).Text(); got != goesOn {
			t.Errorf("%q", got)
		}
		m.Close()
	}
	if _, err := quern.Open(t.Context(), path); !errors.Is(err, quern.ErrFile) {
		t.Errorf("%v, want ErrFile", err)
	}
}

// Opening ends with its context, in the middle of it, and leaves nothing.
func TestOpenIsCanceled(t *testing.T) {
	t.Parallel()
	d, err := quern.NewDevice(quern.DeviceConfig{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before := d.Status()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	mine := errors.New("mine")
	loading := quern.WithProgress(func(quern.Progress) { cancel(mine) })
	m, err := quern.Open(ctx, quern.Demo, quern.WithDevice(d), loading)
	if err == nil { // it was loaded at its first word of progress
		m.Close()
	} else if !errors.Is(err, mine) {
		t.Errorf("%v, want the cause", err)
	}
	if st := d.Status(); st.Models != 0 || st.Used != before.Used {
		t.Errorf("%+v, before %+v", st, before)
	}
}

// What has no context, or is closed, says so in every method.
func TestNilAndClosed(t *testing.T) {
	t.Parallel()
	m := open(t, quern.Demo)
	s, err := m.NewSession(quern.Request{MaxTokens: 2})
	if err != nil {
		t.Fatal(err)
	}
	saved := new(bytes.Buffer)
	if err := s.Save(saved); err != nil {
		t.Fatal(err)
	}
	hi := quern.Request{Messages: []quern.Message{quern.User("hi")}, MaxTokens: 1}
	calls := map[string]func(context.Context) error{
		"Complete": func(ctx context.Context) error { _, err := m.Complete(ctx, hi); return err },
		"Embed":    func(ctx context.Context) error { _, err := m.Embed(ctx, "a"); return err },
		"Rerank":   func(ctx context.Context) error { _, err := m.Rerank(ctx, "a", "b", "c"); return err },
		"Decide":   func(ctx context.Context) error { _, err := m.Decide(ctx, hi, "a", "b"); return err },
		"Into":     func(ctx context.Context) error { _, _, err := quern.Into[struct{ A int }](ctx, m, hi); return err },
		"NewTask":  func(ctx context.Context) error { _, err := quern.NewTask[string](ctx, m, hi); return err },
		"Run":      func(ctx context.Context) (last error) { return ended(m.Run(ctx, hi)) },
		"Session":  func(ctx context.Context) error { _, err := s.Complete(ctx, quern.User("hi")); return err },
	}
	var none context.Context
	for name, call := range calls {
		if err := call(none); !errors.Is(err, quern.ErrInvalid) {
			t.Errorf("%s without a context: %v", name, err)
		}
	}
	m.Close()
	calls["Save"] = func(context.Context) error { return s.Save(new(bytes.Buffer)) }
	calls["Tokenize"] = func(context.Context) error { _, err := m.Tokenize("a"); return err }
	calls["Detokenize"] = func(context.Context) error { _, err := m.Detokenize([]int32{1}); return err }
	calls["RestoreSession"] = func(context.Context) error { _, err := m.RestoreSession(saved, quern.Request{}); return err }
	calls["RunningOf"] = func(context.Context) error { _, _, err := launch.RunningOf(m); return err }
	for name, call := range calls {
		if err := call(t.Context()); !errors.Is(err, quern.ErrClosed) {
			t.Errorf("%s of a closed model: %v", name, err)
		}
	}
	s.Close()
	if _, err := s.Fork(); !errors.Is(err, quern.ErrClosed) {
		t.Errorf("Fork of a closed session: %v", err)
	}
}

// ended returns the error of an answer.
func ended(events iter.Seq2[quern.Event, error]) (last error) {
	for _, err := range events {
		last = err
	}
	return last
}

// panicking is a log, and a file system, of the caller's.
type panicking struct{ slog.Handler }

func (panicking) Enabled(context.Context, slog.Level) bool  { return true }
func (panicking) Handle(context.Context, slog.Record) error { panic("mine") }
func (panicking) Open(string) (fs.File, error)              { panic("mine") }

// A panic of what the caller has called is the caller's: opening and answering leave nothing behind.
func TestPanics(t *testing.T) {
	t.Parallel()
	d, err := quern.NewDevice(quern.DeviceConfig{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before := d.Status()
	panics := func(f func()) {
		t.Helper()
		defer func() {
			if got := recover(); got != "mine" {
				t.Errorf("recovered %v", got)
			}
		}()
		f()
	}
	panics(func() {
		_, err := quern.Open(t.Context(), quern.Demo, quern.WithDevice(d), quern.WithProgress(func(quern.Progress) { panic("mine") }))
		t.Errorf("%v, want a panic", err)
	})
	panics(func() {
		_, err := quern.Open(t.Context(), quern.Demo, quern.WithDevice(d), quern.WithContextLength(1<<14),
			quern.WithLogger(slog.New(panicking{})))
		t.Errorf("%v, want a panic", err)
	})
	panics(func() {
		_, err := quern.Open(t.Context(), "a.gguf", quern.WithDevice(d), quern.WithFS(panicking{}))
		t.Errorf("%v, want a panic", err)
	})
	if st := d.Status(); st.Models != 0 || st.Used != before.Used {
		t.Errorf("%+v, before %+v", st, before)
	}
	m := openWith(t, quern.Demo, quern.WithDevice(d))
	panics(func() {
		for range m.Chat(t.Context(), story(100)) {
			panic("mine")
		}
	})
	if got := complete(t, m, story(12)).Text(); got != goesOn {
		t.Errorf("%q", got)
	}
}

// A model that sees is shown the pictures that tools answer with; others are told that there is one.
func TestPicturesOfTools(t *testing.T) {
	red := querntest.RedSquare(t)
	camera, err := quern.NewTool("look", "What the camera sees.", func(context.Context, struct{}) ([]quern.Part, error) {
		return []quern.Part{{Image: red}, {Text: "What colour is it?"}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := camera.Call(t.Context(), []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	call := quern.ToolCall{ID: "1", Name: "look", Arguments: "{}"}
	r := quern.Request{Messages: []quern.Message{
		quern.User("What is this?"), {Role: quern.RoleAssistant, Parts: []quern.Part{{Call: &call}}}, quern.ResultOf(call, "", answer...),
	}, MaxTokens: 8, Temperature: new(0.0)}
	ask := func(m *quern.Model) *quern.Result {
		t.Helper()
		result, err := m.Complete(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return result
	}
	if seen := ask(querntest.Viewer(t)); strings.TrimSpace(seen.Text()) != "Red." {
		t.Errorf("%q", seen.Text())
	}
	if blind := ask(open(t, quern.Demo)); blind.Usage.PromptTokens < 20 {
		t.Errorf("a prompt of %d tokens", blind.Usage.PromptTokens)
	}
	r.Messages[2].Parts[0].Result.Parts[1] = quern.Part{Reasoning: "Red."}
	if _, err := open(t, quern.Demo).Complete(t.Context(), r); !errors.Is(err, quern.ErrInvalid) || strings.Contains(err.Error(), "\n") {
		t.Error(err)
	}
}

// A video is shown frame by frame, and an animation is one too.
func TestVideo(t *testing.T) {
	m, red := querntest.Viewer(t), querntest.RedSquare(t)
	ask := func(p quern.Part) (*quern.Result, error) {
		return m.Complete(t.Context(), quern.Request{Messages: []quern.Message{{Role: quern.RoleUser, Parts: []quern.Part{p, {Text: "What colour is it?"}}}},
			MaxTokens: 8, Temperature: new(0.0)})
	}
	still, err := ask(quern.Part{Image: red})
	if err != nil {
		t.Fatal(err)
	}
	moving, err := ask(quern.Part{Video: &quern.Video{Frames: [][]byte{red, red, red}, Rate: 1}})
	if err != nil || moving.Usage.PromptTokens <= 2*still.Usage.PromptTokens || !strings.Contains(moving.Text(), "ed") {
		t.Errorf("%+v, %v; of a picture %+v", moving, err, still)
	}
	seen, err := ask(quern.Part{Video: &quern.Video{Frames: [][]byte{animation(t)}}})
	if err != nil || seen.Usage.PromptTokens <= still.Usage.PromptTokens {
		t.Errorf("%+v, %v; of a picture %+v", seen, err, still)
	}
	for want, v := range map[string]*quern.Video{
		"without frames": {}, "129 frames": {Frames: slices.Repeat([][]byte{red}, 129)}, "frame 1": {Frames: [][]byte{red, []byte("words")}},
	} {
		if _, err := ask(quern.Part{Video: v}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
	if _, err := open(t, quern.Demo).Complete(t.Context(), quern.Request{Messages: []quern.Message{
		{Role: quern.RoleUser, Parts: []quern.Part{{Video: &quern.Video{Frames: [][]byte{red}}}}}}}); !errors.Is(err, quern.ErrUnsupported) {
		t.Errorf("a model without eyes: %v", err)
	}
}

// animation is a GIF that is red, and then blue.
func animation(t *testing.T) []byte {
	t.Helper()
	all := &gif.GIF{}
	for _, c := range []color.Color{color.RGBA{220, 30, 30, 255}, color.RGBA{30, 30, 220, 255}} {
		all.Image = append(all.Image, image.NewPaletted(image.Rect(0, 0, 64, 64), color.Palette{c}))
		all.Delay = append(all.Delay, 100)
	}
	var b bytes.Buffer
	if err := gif.EncodeAll(&b, all); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Answers to a picture are compared without any being said.
func TestDecideOnPictures(t *testing.T) {
	m := querntest.Viewer(t)
	r := quern.Request{Messages: []quern.Message{{Role: quern.RoleUser, Parts: []quern.Part{{Image: querntest.RedSquare(t)}, {Text: "What colour is it?"}}}}}
	all, err := m.Decide(t.Context(), r, "Green.", "Red.", "Blue.")
	if err != nil || all[0].Answer != "Red." || all[0].Probability < 0.9 {
		t.Errorf("%+v, %v", all, err)
	}
}
