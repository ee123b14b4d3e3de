package server

import (
	"net/http/httptest"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// realEngine is a loop as the server sees it.
type realEngine struct {
	*engine.Loop
	submitted func(*engine.Request) // may change a request on its way; nil: nothing
}

func (e realEngine) Submit(r *engine.Request) (Ticket, error) {
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
	file, err := model.OpenBytes(demo.Name, demo.GGUF())
	if err != nil {
		t.Fatal(err)
	}
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
	e, err := engine.New(file, engine.Config{Threads: 2, Sequences: 6, Shared: true, Ctx: 1024, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		t.Fatal(err)
	}
	lc.Queue = 1000
	l, err := engine.NewLoop(e, lc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); e.Close() })
	c.Build, c.Ping = "test", -1
	s := New(c)
	s.SetModel(Model{
		Engine: realEngine{l, submitted}, Tokenizer: tok, Template: tmpl, Metadata: meta,
		Name: "demo", Path: demo.Name, Ctx: e.Ctx(), Sampling: sample.Defaults(),
	})
	h := httptest.NewServer(s.Handler())
	t.Cleanup(h.Close)
	return &site{nil, s, h.URL, t}
}
