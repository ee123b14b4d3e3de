package fake

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/nn"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/scripted"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/tokenizer"
	"github.com/quern-llm/quern/go/transcribe"
)

// A Real is a loop as the server sees it.
type Real struct {
	*engine.Loop
	Submitted func(*engine.Request) // may change a request on its way; nil: nothing
}

func (e Real) Submit(r *engine.Request) (ask.Ticket, error) {
	if e.Submitted != nil {
		e.Submitted(r)
	}
	t, err := e.Loop.Submit(r)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// A Setup says how a server with real engines differs from the usual one.
type Setup struct {
	Server    server.Config
	Loop      engine.LoopConfig
	Submitted func(*engine.Request) // may change a request on its way; nil: nothing
	Model     func(*ask.Model)      // may change a model; nil: nothing
	Names     []string              // of the models, each with an engine of its own; empty: demo
	File      string                // of the models; empty: the demo model
	Projector string                // file of what they see and hear with; empty: nothing
	Ctx       int                   // positions; 0: 1024
}

// Demo serves the demo model, or another file.
func Demo(t testing.TB, setup Setup) *Site {
	t.Helper()
	open := func() (*model.File, error) { return model.OpenBytes(demo.Name, demo.GGUF()) }
	if setup.File != "" {
		open = func() (*model.File, error) { return model.OpenFile(setup.File) }
	}
	return realSite(t, setup, open, "demo")
}

// Embedder serves the demo model with vectors of texts.
func Embedder(t testing.TB, change func(*ask.Model)) *Site {
	t.Helper()
	return Demo(t, Setup{Model: func(m *ask.Model) {
		m.Pooling, m.Normalize, m.Info.NEmbd, m.Info.Arch = nn.PoolLast, engine.Euclidean, 256, "llama"
		if change != nil {
			change(m)
		}
	}})
}

// Scripted serves a model that says known texts.
func Scripted(t testing.TB, says scripted.Model) *Site {
	t.Helper()
	return ofFile(t, ScriptFile(t, says))
}

// ScriptFile writes a model that says known texts to a file, and returns its path.
func ScriptFile(t testing.TB, says scripted.Model) string {
	t.Helper()
	data, err := says.GGUF()
	if err != nil {
		t.Fatal(err)
	}
	return written(t, data)
}

// File serves the model of a file.
func File(t testing.TB, data []byte) *Site {
	t.Helper()
	return ofFile(t, written(t, data))
}

func ofFile(t testing.TB, path string) *Site {
	t.Helper()
	return realSite(t, Setup{}, func() (*model.File, error) { return model.OpenFile(path) }, "scripted")
}

// written writes a model to a file: C keeps addresses of weights, which may not be in Go's heap.
func written(t testing.TB, data []byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "scripted.gguf")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func realSite(t testing.TB, setup Setup, open func() (*model.File, error), name string) *Site {
	t.Helper()
	d, err := engine.NewDevice(engine.DeviceConfig{Threads: 2, Budget: mem.NewBudget(1<<30, "test")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	if setup.Names == nil {
		setup.Names = []string{name}
	}
	var all []ask.Model
	for _, name := range setup.Names {
		file, err := open()
		if err != nil {
			t.Fatal(err)
		}
		m := realModel(t, d, setup, file)
		m.Name = name
		if setup.Model != nil {
			setup.Model(&m)
		}
		all = append(all, m)
	}
	c := setup.Server
	c.Build, c.Device, c.Ping = "test", d, cmp.Or(c.Ping, -1)
	s := &Site{Device: d, t: t}
	s.serve(c, all...)
	return s
}

func realModel(t testing.TB, d *engine.Device, setup Setup, file *model.File) ask.Model {
	t.Helper()
	tok, err := tokenizer.New(file.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	source, err := file.GGUF.Str("tokenizer.chat_template")
	if err != nil {
		source = ChatML
	}
	tmpl, err := chat.Parse(source, chat.SpecialTokens{})
	if err != nil {
		t.Fatal(err)
	}
	meta := file.GGUF
	cfg, err := file.Config()
	if err != nil {
		t.Fatal(err)
	}
	c := engine.Config{Device: d, Sequences: 6, Shared: true, Ctx: cmp.Or(setup.Ctx, 1024)}
	if cfg.NSide > 0 {
		c.Ctx = cfg.NCtx
	}
	var seen *model.File
	if setup.Projector != "" {
		if seen, err = model.OpenFile(setup.Projector); err != nil {
			t.Fatal(err)
		}
		c.Media = &engine.Media{Projector: seen}
	}
	e, err := engine.New(file, c)
	if err != nil {
		t.Fatal(err)
	}
	eyes, err := reading.NewProjector(e, seen, d.Budget(), reading.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	lc := setup.Loop
	lc.Queue = 100_000
	l, err := engine.NewLoop(e, lc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); e.Close() })
	var speech *ask.Speech
	if cfg.Sound.Bands > 0 {
		v, err := transcribe.NewVocabulary(tok)
		if err != nil {
			t.Fatal(err)
		}
		speech = &ask.Speech{Config: cfg, Vocabulary: v}
	}
	return ask.Model{
		Speech: speech, Projector: eyes,
		Engine: Real{l, setup.Submitted}, Tokenizer: tok, Template: tmpl, Metadata: meta,
		Path: demo.Name, Ctx: e.Ctx(), Sampling: sample.Defaults(),
	}
}

// Says serves a model with the template ChatML that says known texts.
func Says(t testing.TB, scripts ...scripted.Script) *Site {
	t.Helper()
	return Scripted(t, scripted.Model{Template: ChatML, Controls: []string{"<|im_start|>", "<|im_end|>"},
		Scripts: scripts})
}
