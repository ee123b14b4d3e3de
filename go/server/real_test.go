package server

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/scripted"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/tokenizer"
)

// realEngine is a loop as the server sees it.
type realEngine struct {
	*engine.Loop
	submitted func(*engine.Request) // may change a request on its way; nil: nothing
}

func (e realEngine) Submit(r *engine.Request) (ask.Ticket, error) {
	if e.submitted != nil {
		e.submitted(r)
	}
	t, err := e.Loop.Submit(r)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// newRealSite serves the demo model with an engine of its own.
func newRealSite(t *testing.T, c Config, lc engine.LoopConfig, submitted func(*engine.Request)) *site {
	t.Helper()
	return newRealSites(t, c, lc, submitted, "demo")
}

// newRealSiteOf serves the demo model as change has it.
func newRealSiteOf(t *testing.T, change func(*ask.Model)) *site {
	t.Helper()
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 2, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	s := New(Config{Build: "test", Ping: -1})
	m := realModel(t, d, engine.LoopConfig{}, nil, "demo")
	change(&m)
	s.with(t, m)
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return &site{nil, s, h.URL, t}
}

// tokens returns the tokens of a text.
func (s *site) tokens(text string) []int32 {
	s.t.Helper()
	return post[struct{ Tokens []int32 }](s, "/tokenize", fmt.Sprintf(`{"content":%q,"add_special":true}`, text)).Tokens
}

// newRealSites serves the demo model under several names, each with an engine of its
// own, on one device.
func newRealSites(t *testing.T, c Config, lc engine.LoopConfig, submitted func(*engine.Request), names ...string) *site {
	t.Helper()
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 2, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	c.Build, c.Ping, c.Device = "test", -1, d
	s := New(c)
	for _, name := range names {
		s.with(t, realModel(t, d, lc, submitted, name))
	}
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return &site{nil, s, h.URL, t}
}

// newScriptedSite serves a model that says known texts.
func newScriptedSite(t *testing.T, says scripted.Model) *site {
	t.Helper()
	data, err := says.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	return newFileSite(t, data)
}

// newFileSite serves the model of a file.
func newFileSite(t *testing.T, data []byte) *site {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scripted.gguf") // C keeps addresses of weights, which may not be in Go's heap
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := model.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 2, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	s := New(Config{Build: "test", Ping: -1})
	s.with(t, modelOf(t, d, engine.LoopConfig{}, nil, "scripted", file))
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return &site{nil, s, h.URL, t}
}

func realModel(t *testing.T, d *engine.Device, lc engine.LoopConfig, submitted func(*engine.Request), name string) ask.Model {
	t.Helper()
	file, err := model.OpenBytes(demo.Name, demo.GGUF())
	if err != nil {
		t.Fatal(err)
	}
	return modelOf(t, d, lc, submitted, name, file)
}

func modelOf(t *testing.T, d *engine.Device, lc engine.LoopConfig, submitted func(*engine.Request), name string, file *model.File) ask.Model {
	t.Helper()
	tok, err := tokenizer.New(file.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	source, err := file.GGUF.Str("tokenizer.chat_template")
	if err != nil {
		t.Fatal(err)
	}
	tmpl, err := chat.Parse(source, chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	meta := file.GGUF
	e, err := engine.New(file, engine.Config{Device: d, Sequences: 6, Shared: true, Ctx: 1024})
	if err != nil {
		t.Fatal(err)
	}
	lc.Queue = 100_000
	l, err := engine.NewLoop(e, lc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); e.Close() })
	return ask.Model{
		Engine: realEngine{l, submitted}, Tokenizer: tok, Template: tmpl, Metadata: meta,
		Name: name, Path: demo.Name, Ctx: e.Ctx(), Sampling: sample.Defaults(),
	}
}

// Several answers to a prompt are those that each seed gives alone, whatever else
// runs. The first prompts are slices with room behind them.
func TestAnswersAreThoseOfTheirSeeds(t *testing.T) {
	const n, tokens = 4, 24
	s := newRealSite(t, Config{}, engine.LoopConfig{}, nil)
	type completion struct{ Choices []struct{ Text string } }
	ask := func(prompt string, n, seed int) []string {
		body := fmt.Sprintf(`{"prompt":%q,"n":%d,"seed":%d,"max_tokens":%d,"temperature":1}`, prompt, n, seed, tokens)
		var texts []string
		for _, c := range post[completion](s, "/v1/completions", body).Choices {
			texts = append(texts, c.Text)
		}
		return texts
	}
	prompts := []string{"Once upon a time, there was a", "There", "The dog and the cat went to", "Lily"}
	const rounds = 3
	want := map[string]string{}
	for _, p := range prompts {
		for seed := range rounds * n {
			want[fmt.Sprint(p, seed)] = ask(p, 1, seed)[0]
		}
	}
	var wg sync.WaitGroup
	for _, p := range prompts {
		wg.Go(func() {
			for round := range rounds {
				for i, got := range ask(p, n, round*n) {
					if alone := want[fmt.Sprint(p, round*n+i)]; got != alone {
						t.Errorf("%q, seed %d: %q among others, %q alone", p, round*n+i, got, alone)
					}
				}
			}
		})
	}
	wg.Wait()
}

// panicky is a sink that fails in one of its methods.
type panicky struct {
	engine.Sink
	in   string
	left int // tokens until then
}

func (p *panicky) Progress(q engine.Progress) {
	if p.in == "progress" {
		panic("no progress")
	}
	p.Sink.Progress(q)
}

func (p *panicky) Token(t engine.Token) bool {
	if p.left--; p.in == "token" && p.left == 0 {
		panic("no token")
	}
	return p.Sink.Token(t)
}

// A request whose answer cannot be made ends with 500, and no other with it. The
// log says why.
func TestPanicEndsOneRequest(t *testing.T) {
	var mu sync.Mutex
	var in string
	var logged []string
	s := newRealSite(t, Config{}, engine.LoopConfig{OnPanic: func(p *engine.PanicError) {
		mu.Lock()
		defer mu.Unlock()
		logged = append(logged, fmt.Sprint(p.Value, "\n", string(p.Stack)))
	}}, func(r *engine.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Sampling.Seed == 666 {
			r.Sink = &panicky{r.Sink, in, 5}
			if in == "done" { // the server's own sink, with nothing to make text of
				r.Sink.(*panicky).Sink.(*answer.Sequence).Write.Text = nil
			}
		}
	})
	body := func(seed int, stream bool) string {
		return fmt.Sprintf(`{"prompt":"Once upon a time","n_predict":40,"seed":%d,"ignore_eos":true,"stream":%v}`, seed, stream)
	}
	type native struct{ Content string }
	want := post[native](s, "/completion", body(1, false)).Content
	for _, in = range []string{"progress", "token", "done"} {
		logged = nil
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if got := post[native](s, "/completion", body(1, false)).Content; got != want {
					t.Errorf("%s: one beside it got %q, want %q", in, got, want)
				}
			})
		}
		status, answer, _ := s.do("POST", "/completion", body(666, false))
		if status != 500 || !strings.Contains(string(answer), "internal error") {
			t.Errorf("%s: %d %s", in, status, answer)
		}
		wg.Wait()
		mu.Lock()
		if len(logged) == 0 || !strings.Contains(logged[0], ".go:") {
			t.Errorf("%s: the log has %q", in, logged)
		}
		mu.Unlock()
		_, answer, _ = s.do("POST", "/completion", body(666, true))
		if !strings.Contains(string(answer), "internal error") {
			t.Errorf("%s: a stream ends with %s", in, answer)
		}
	}
	if got := post[native](s, "/completion", body(1, false)).Content; got != want {
		t.Errorf("afterwards %q, want %q", got, want)
	}
}
