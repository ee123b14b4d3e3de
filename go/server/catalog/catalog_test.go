package catalog_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// newCatalog returns a catalog of two models, each of which has an adapter when it is loaded.
func newCatalog(t *testing.T) *catalog.Catalog {
	t.Helper()
	list := &catalog.Catalog{Set: models.New[ask.Model](models.Config{}), Forget: func(*ask.Model) {}}
	s := fake.New(t, "", nil)
	for _, src := range []catalog.Source{
		{Path: "a.gguf", Ctx: 100, Info: ask.ModelInfo{NCtxTrain: 4000, Arch: "llama"}, Tags: []string{"small"}},
		{Path: "b.gguf", Info: ask.ModelInfo{NCtxTrain: 300}},
	} {
		name := strings.TrimSuffix(src.Path, ".gguf")
		src.Names = []string{name, "also-" + name}
		m := *s.Model()
		src.Adapters = []string{map[string]string{"a": "poet", "b": "pirate"}[name]}
		m.Adapters = []ask.Adapter{{Name: src.Adapters[0], Loaded: &engine.Adapter{}}}
		src.Load = func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
			as := m
			return &fake.Still{Of: &as}, nil
		}
		if err := list.Add(src); err != nil {
			t.Fatal(err)
		}
	}
	return list
}

// What a name means is a model, one of its personas or adapters, or nothing.
func TestNames(t *testing.T) {
	t.Parallel()
	list := newCatalog(t)
	var forgotten atomic.Int64
	list.Forget = func(m *ask.Model) { forgotten.Add(int64(len(m.Name))) }
	alone := &catalog.Catalog{Set: models.New[ask.Model](models.Config{})}
	if alone.Named() || !list.Named() {
		t.Errorf("names mean something: of none %v, of two %v", alone.Named(), list.Named())
	}
	if alone.LoraDir = "x"; !alone.Named() {
		t.Error("where adapters come and go names mean nothing")
	}
	mario, err := ask.NewPersona(&persona.Persona{Name: "mario", From: "b"})
	if err != nil {
		t.Fatal(err)
	}
	list.SetPersonas([]catalog.Persona{{Persona: mario, Base: "b"}})
	means := func(when string, want map[string]string) {
		t.Helper()
		for name, want := range want {
			got, err := list.Resolve(name)
			text := got.Model
			if got.Persona != nil {
				text += " as " + got.Persona.Name
			}
			if got.Adapter != "" {
				text += " with " + got.Adapter
			}
			if err != nil {
				text = err.Error()
			}
			if text != want {
				t.Errorf("%s: %q means %q, want %q", when, name, text, want)
			}
		}
	}
	// Models are loaded for who asks for one of their adapters; without it, they would answer something else.
	means("at first", map[string]string{"": "", "a": "a", "also-a": "also-a", "mario": "b as mario", "poet": "a with poet", "none": "none"})
	if alone.LoraDir = ""; alone.Adapting() || !list.Adapting() {
		t.Error("there are adapters of no model, or none of two")
	}
	if err := list.Load("a"); err != nil {
		t.Fatal(err)
	}
	means("one is loaded", map[string]string{"poet": "a with poet", "pirate": "b with pirate"})
	if err := list.Load("b"); err != nil {
		t.Fatal(err)
	}
	means("loaded", map[string]string{"poet": "a with poet", "pirate": "b with pirate", "mario": "b as mario", "none": "none"})
	list.LoraDir = t.TempDir()
	if _, err := list.Resolve("none"); err == nil || !strings.HasSuffix(err.Error(), `there is no model "none", want one of a, b, mario, poet, pirate`) {
		t.Errorf("where adapters come and go: %v", err)
	}
	means("where adapters come and go", map[string]string{"": "", "a": "a", "mario": "b as mario", "pirate": "b with pirate"})
	list.LoraDir = ""
	for name, want := range map[string]string{"a:latest": "a", "mario:latest": "mario", "none:latest": "none:latest", "a": "a", "also-b:latest": "also-b"} {
		if got := list.Untagged(name); got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
	if got := strings.Join(list.Names(), " "); got != "a b mario" {
		t.Errorf("names %s", got)
	}
	if of := list.Personas("b"); len(of) != 1 || len(list.Personas("a")) != 0 || !list.Has("mario") || !list.Named() {
		t.Errorf("personas %+v", of)
	}
	if err := errors.Join(list.Set.Unload("a"), list.Set.Unload("b")); err != nil {
		t.Fatal(err)
	}
	fake.Eventually(t, "unloaded", func() bool { return forgotten.Load() == 2 && len(list.Set.Loaded()) == 0 })
	means("unloaded", map[string]string{"poet": "a with poet", "pirate": "b with pirate", "none": "none"})
	if list.Remove("a"); !list.Adapting() {
		t.Error("the adapters of one model went with another")
	}
	means("removed", map[string]string{"poet": "poet", "pirate": "b with pirate"})
	if list.Remove("b"); list.Adapting() {
		t.Error("there are adapters of no model")
	}
}

// A model is described by its source until it is loaded, and then by itself; the longest context is that of any.
func TestDescribe(t *testing.T) {
	t.Parallel()
	list := newCatalog(t)
	describe := func() (*ask.Model, *catalog.Source) {
		st, err := list.Set.Status("a")
		if err != nil {
			t.Fatal(err)
		}
		return list.Describe(st)
	}
	m, src := describe()
	if m.Name != "a" || len(m.Aliases) != 1 || m.Path != "a.gguf" || m.Info.Arch != "llama" || m.Tags[0] != "small" || m.LoRA == nil || src == nil || src.Ctx != 100 {
		t.Errorf("%+v, %+v", m, src)
	}
	if n := list.LongestContext(); n != 300 {
		t.Errorf("the longest context is %d", n)
	}
	if err := list.Load("also-a"); err != nil {
		t.Fatal(err)
	}
	if m, src = describe(); m.Tokenizer == nil || m.Name != "a" || m.Aliases[0] != "also-a" || src == nil {
		t.Errorf("%+v, %+v", m, src)
	}
	if d := catalog.DetailsOf(m); d.Parent != "" || d.Format != "gguf" || d.Family != m.Info.Arch {
		t.Errorf("%+v", d)
	}
	persona, err := ask.NewPersona(&persona.Persona{Name: "mario", From: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if d := catalog.DetailsOf(persona.Of(m)); d.Parent != "a" {
		t.Errorf("of a persona: %+v", d)
	}
	list.Remove("b")
	if n := list.LongestContext(); n != 100 || list.Has("b") {
		t.Errorf("without b the longest context is %d, and it is there: %v", n, list.Has("b"))
	}
	broken := catalog.Source{}
	broken.Names = []string{"broken"}
	broken.Load = func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
		return nil, errors.New("it is broken")
	}
	if err := list.Add(broken); err != nil {
		t.Fatal(err)
	}
	if err := list.Load("broken"); err == nil || !strings.Contains(err.Error(), "it is broken") {
		t.Errorf("%v", err)
	}
	if err := list.Add(broken); err == nil {
		t.Error("a name was given twice")
	}
}

// Errors of other servers are told as such; the log has how downloads ended.
func TestEndsOfDownloads(t *testing.T) {
	t.Parallel()
	var log fake.Log
	lib := &fake.Shelf{}
	s := fake.Demo(t, fake.Setup{Server: server.Config{Library: lib, Log: zerolog.New(&log)}})
	for name, want := range map[string]int{"org/none": 404, "org/unauthorized": 502} {
		if status, b, _ := s.Do("POST", "/models", `{"model":"`+name+`"}`); status != want || fake.ErrorOf(t, b).Param != "model" {
			t.Errorf("%s: %d %s, want %d", name, status, b, want)
		}
	}
	fake.Post[struct{}](s, "/models", `{"model":"org/good"}`)
	fake.Eventually(t, "logged", func() bool { return strings.Contains(log.String(), `"model":"org/good","message":"downloaded"`) })
	lib.Fails = &hub.StatusError{Status: http.StatusBadGateway}
	fake.Post[struct{}](s, "/models", `{"model":"org/bad"}`)
	fake.Eventually(t, "logged", func() bool { return strings.Contains(log.String(), `it was not downloaded`) })
	if strings.Contains(log.String(), `"model":"org/bad","message":"downloaded"`) {
		t.Errorf("%s", log.String())
	}
}

// A persona is of a model that there is, and is kept where something is.
func TestCreate(t *testing.T) {
	t.Parallel()
	list, lib := newCatalog(t), &fake.Shelf{}
	create := func(name, from string) string {
		if err := list.Create(t.Context(), &persona.Persona{Name: name, From: from}); err != nil {
			return err.Error()
		}
		return ""
	}
	if got := create("mario", "a"); !strings.Contains(got, "this server stores nothing with a name") {
		t.Errorf("without a library: %q", got)
	}
	if err := list.Delete(t.Context(), "a"); !errors.Is(err, catalog.ErrNoLibrary) {
		t.Errorf("a model of a server without a library is deleted: %v", err)
	}
	list.Library = lib
	wrong, err := persona.ReadParameters([]byte(`{"top_p":7}`))
	if err != nil {
		t.Fatal(err)
	}
	if err := list.Create(t.Context(), &persona.Persona{Name: "mario", From: "a", Parameters: wrong}); err == nil || !strings.Contains(err.Error(), "parameters: top_p: 7") || len(lib.Created) != 0 {
		t.Errorf("with parameters that no request could have: %v", err)
	}
	list.Library = full{lib}
	if got := create("mario", "a"); got != "model: the disk is full" {
		t.Errorf("where nothing can be kept: %q", got)
	}
	list.Library = lib
	for name, want := range map[string][2]string{"mario": {"none", `there is no model "none"`}, "a": {"b", "not in the cache"}, "b:latest": {"a", "not in the cache"}} {
		if got := create(name, want[0]); !strings.Contains(got, want[1]) {
			t.Errorf("%s of %s: %q", name, want[0], got)
		}
	}
	if got := create("mario", "also-a:latest"); got != "" || len(lib.Created) != 1 || lib.Created[0].From != "also-a" {
		t.Errorf("%q, %+v", got, lib.Created)
	}
}

// full is a library that keeps nothing.
type full struct{ *fake.Shelf }

func (full) Create(context.Context, *persona.Persona) error { return errors.New("the disk is full") }

// A server that ends leaves no download behind, and begins none.
func TestCloseEndsDownloads(t *testing.T) {
	t.Parallel()
	lib := &fake.Shelf{Begun: make(chan struct{}), GoOn: make(chan struct{}), Ended: make(chan error, 1)}
	s := fake.New(t, "", func(c *server.Config, _ *ask.Model, _ *fake.Engine) { c.Library = lib })
	fake.Post[struct{}](s, "/models", `{"model":"org/repo"}`)
	<-lib.Begun
	s.Server.Close(t.Context(), func(models.Instance[ask.Model]) {})
	select {
	case err := <-lib.Ended:
		if !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	default:
		t.Error("the download goes on")
	}
	if status, b, _ := s.Do("POST", "/models", `{"model":"org/other"}`); status != 503 {
		t.Errorf("another: %d %s", status, b)
	}
}
