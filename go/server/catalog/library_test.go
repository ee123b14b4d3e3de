package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/internal/fake"
	"github.com/quern-llm/quern/go/server/reply"
)

// A told library does what a test tells it, and says what it was asked.
type told struct {
	*fake.Shelf
	resolves, removes error
	finds             error // nil: it has every name
	pulls             chan *pulling
	asked             string // of the last pull
}

// pulling is a download that ends as the test says.
type pulling struct {
	progress func(hub.Progress)
	ctx      context.Context
	end      chan error
}

func (l *told) Resolve(_ context.Context, ref hub.Ref) (*hub.Plan, error) {
	return &hub.Plan{Ref: ref}, l.resolves
}

func (l *told) Pull(ctx context.Context, _ *hub.Plan, asked string, progress func(hub.Progress)) error {
	p := &pulling{progress, ctx, make(chan error)}
	l.asked = asked
	l.pulls <- p
	return <-p.end
}

func (l *told) Remove(context.Context, string) error { return l.removes }
func (l *told) Find(string) (*hub.Model, error)      { return nil, l.finds }
func newTold() *told                                 { return &told{Shelf: &fake.Shelf{}, pulls: make(chan *pulling, 9)} }

// empty is a catalog without models.
func empty(l catalog.Library) *catalog.Catalog {
	return &catalog.Catalog{Set: models.New[ask.Model](models.Config{}), Library: l}
}

// What the library says of other servers is told to clients with a status of its own; who has gone is told nothing.
func TestErrorsOfLibraries(t *testing.T) {
	t.Parallel()
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, c := range []struct {
		err    error
		ctx    context.Context
		status int
		param  string
	}{
		{fmt.Errorf("more: %w", hub.ErrNotFound), t.Context(), 404, "model"}, {&hub.StatusError{Status: 404}, t.Context(), 404, "model"},
		{&hub.StatusError{Status: 403}, t.Context(), 502, "model"}, {errors.New("odd"), t.Context(), 502, "model"},
		{hub.ErrOffline, t.Context(), 400, ""}, {hub.ErrNotFound, gone, 0, ""},
	} {
		l := newTold()
		l.resolves = c.err
		_, err := empty(l).Download(c.ctx, "org/repo", "hf.co/")
		e := (*reply.Error)(nil)
		if c.ctx == gone {
			if err != reply.ErrGone {
				t.Errorf("%v: %v", c.err, err)
			}
		} else if !errors.As(err, &e) || e.Status != c.status || e.Param != c.param || !strings.Contains(e.Message, c.err.Error()) {
			t.Errorf("%v: %+v", c.err, err)
		}
	}
	none := &catalog.Catalog{}
	if _, err := none.Download(t.Context(), "org/repo", "hf.co/"); err != catalog.ErrNoLibrary {
		t.Errorf("without a library: %v", err)
	}
	for _, c := range []struct{ name, server, want string }{
		{"org/repo", "hf.co/", "hf.co/org/repo"}, {"tiny", "ollama.com/", "ollama.com/tiny"}, {"hf.co/a/b", "ollama.com/", "hf.co/a/b"},
		{"oci://10.0.0.1/a", "hf.co/", "one of hf.co or ollama.com"}, {"https://10.0.0.1/a.gguf", "hf.co/", "one of hf.co or ollama.com"}, {"a b", "hf.co/", "model: "},
	} {
		l := newTold()
		d, err := empty(l).Download(t.Context(), c.name, c.server)
		e := (*reply.Error)(nil)
		if err != nil {
			if !errors.As(err, &e) || e.Status != 400 || e.Param != "model" || !strings.Contains(e.Message, c.want) {
				t.Errorf("%s: %v, want %s", c.name, err, c.want)
			}
			continue
		}
		if !strings.HasPrefix(d.Ref, c.want) || (<-l.pulls == nil) || l.asked != c.name {
			t.Errorf("%s: %s asked for %s, want %s", c.name, d.Ref, l.asked, c.want)
		}
		d.Cancel()
	}
}

// Requests for one model wait for one download, which is told about and found by its names until it has ended; one that
// is being cancelled is none to wait for.
func TestOneDownload(t *testing.T) {
	t.Parallel()
	var log fake.Log
	l := newTold()
	list := empty(l)
	list.Log = zerolog.New(&log)
	begin := func(name string) *catalog.Download {
		t.Helper()
		d, err := list.Download(t.Context(), name, "hf.co/")
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	ended := func(d *catalog.Download) bool {
		select {
		case <-d.Done:
			return true
		default:
			return false
		}
	}
	first := begin("org/repo")
	pull := <-l.pulls
	if again := begin("org/repo"); again != first {
		t.Error("two downloads of one model")
	}
	other := begin("org/another")
	<-l.pulls
	all := list.Pulling.All()
	if len(all) != 2 || all[0] != other || all[1] != first || list.Pulling.Named("ORG/Repo") != first || list.Pulling.Named(strings.ToUpper(first.Ref)) != first || list.Pulling.Named("org/none") != nil {
		t.Errorf("%+v", all)
	}
	far, next := first.Progress()
	if len(far.Files) != 0 {
		t.Errorf("at first %+v", far)
	}
	pull.progress(hub.Progress{Files: []hub.FileProgress{{Name: "a", Done: 5, Total: 9}}})
	select {
	case <-next:
	default:
		t.Error("nobody is told of progress")
	}
	if far, _ = first.Progress(); len(far.Files) != 1 || far.Files[0].Done != 5 {
		t.Errorf("%+v", far)
	}
	if first.Leave(); pull.ctx.Err() != nil {
		t.Error("it is cancelled while somebody waits")
	}
	if first.Leave(); pull.ctx.Err() == nil || ended(first) {
		t.Error("it goes on though nobody waits")
	}
	second := begin("org/repo") // while the first is not over
	if second == first || list.Pulling.Named("org/repo") != second {
		t.Error("one waits for a download that was cancelled")
	}
	pull.end <- context.Canceled
	if <-first.Done; !errors.Is(first.Err, context.Canceled) || list.Pulling.Named("org/repo") != second {
		t.Errorf("%v, and the second is not listed", first.Err)
	}
	later := <-l.pulls
	later.end <- nil
	if <-second.Done; second.Err != nil || list.Pulling.Named("org/repo") != nil || later.ctx.Err() == nil {
		t.Errorf("%v", second.Err)
	}
	if text := log.String(); strings.Contains(text, "not downloaded") || strings.Count(text, `"message":"downloaded"`) != 1 {
		t.Errorf("the log: %s", text)
	}
}

// A model is removed from the cache, and its download is ended; what stays says why.
func TestDelete(t *testing.T) {
	t.Parallel()
	odd := errors.New("odd")
	list := newCatalog(t)
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"a", nil, ""}, {"a", hub.ErrNotFound, `the model "a" is not in the cache, and stays where it is`}, {"also-b", hub.ErrNotFound, `the model "also-b" is not in the cache`},
		{"none", hub.ErrNotFound, `there is no model "none"`}, {"a", fmt.Errorf("x: %w", hub.ErrUsed), "remove that first"}, {"a", odd, "odd"},
	} {
		l := newTold()
		l.removes, list.Library = c.err, l
		err := list.Delete(t.Context(), c.name)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v", c, err)
		}
		e := (*reply.Error)(nil)
		if bad := errors.As(err, &e) && e.Status == 400; bad != (strings.Contains(c.want, "stays") || c.name == "also-b" || strings.Contains(c.want, "first")) {
			t.Errorf("%+v: %+v", c, err)
		}
	}
	l := newTold()
	l.removes, list.Library = hub.ErrNotFound, l
	d, err := list.Download(t.Context(), "org/repo", "hf.co/")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		p := <-l.pulls
		<-p.ctx.Done()
		p.end <- p.ctx.Err()
	}()
	if err := list.Delete(t.Context(), "org/repo"); err != nil || !errors.Is(d.Err, context.Canceled) {
		t.Errorf("%v, the download ended with %v", err, d.Err)
	}
}

// Where the cache has a model of a name, it is for the cache to say whether a persona may have it.
func TestCreateInPlace(t *testing.T) {
	t.Parallel()
	l, list := newTold(), newCatalog(t)
	list.Library = l
	if err := list.Create(t.Context(), &persona.Persona{Name: "a", From: "b"}); err != nil || len(l.Created) != 1 {
		t.Errorf("%v", err)
	}
	l.finds = errors.New("odd")
	if err := list.Create(t.Context(), &persona.Persona{Name: "a", From: "b"}); err != nil || len(l.Created) != 2 {
		t.Errorf("%v", err)
	}
}

// One model alone is what any name means, unless it has a persona or an adapter.
func TestNamesOfOne(t *testing.T) {
	t.Parallel()
	model := *fake.New(t, "", nil).Model()
	open := func(adapters ...ask.Adapter) *catalog.Catalog {
		list := &catalog.Catalog{Set: models.New[ask.Model](models.Config{}), Forget: func(*ask.Model) {}}
		src := catalog.Source{Persona: &ask.Persona{}, Modified: time.Unix(7, 0)}
		src.Names = []string{"a"}
		for _, a := range adapters {
			src.Adapters = append(src.Adapters, a.Name)
		}
		src.Load = func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
			m := model
			m.Adapters = adapters
			return &fake.Still{Of: &m}, nil
		}
		if err := list.Add(src); err != nil {
			t.Fatal(err)
		}
		st, err := list.Set.Status("a")
		if err != nil {
			t.Fatal(err)
		}
		if m, _ := list.Describe(st); m.Persona != src.Persona || !m.Loaded.Equal(src.Modified) {
			t.Errorf("before it is loaded: %+v", m)
		}
		if err := list.Load("a"); err != nil {
			t.Fatal(err)
		}
		if m := list.Set.Loaded()[0]; m.Persona != src.Persona || m.Name != "a" || len(m.Aliases) != 0 {
			t.Errorf("%+v", m)
		}
		return list
	}
	list := open()
	if list.Named() || list.Adapting() {
		t.Error("names mean something")
	}
	if list.SetPersonas([]catalog.Persona{{Persona: &ask.Persona{Persona: &persona.Persona{Name: "p"}}, Base: "a"}}); !list.Named() {
		t.Error("a persona's name means nothing")
	}
	if list = open(ask.Adapter{Name: "poet", Loaded: &engine.Adapter{}}); !list.Named() || !list.Adapting() {
		t.Error("an adapter's name means nothing")
	}
	if got, err := list.Resolve("none"); err != nil || got.Model != "none" || got.Adapter != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Details of a model are those of its file; a model of no source is described by its names.
func TestDetails(t *testing.T) {
	t.Parallel()
	m := &ask.Model{Info: ask.ModelInfo{Arch: "llama", FileType: "Q4_K - Medium", NParams: 1_500_000_000}}
	got := catalog.DetailsOf(m)
	if got.Family != "llama" || len(got.Families) != 1 || got.Families[0] != "llama" || got.Quantization != "Q4_K - Medium" || got.ParameterSize != "1.5B" || got.Parent != "" {
		t.Errorf("%+v", got)
	}
	list := newCatalog(t)
	spec := models.Spec[ask.Model]{Names: []string{"x", "y"}, Load: func(context.Context, func(float64)) (models.Instance[ask.Model], error) {
		return nil, errors.New("none")
	}}
	if err := list.Set.Add(spec); err != nil {
		t.Fatal(err)
	}
	st, err := list.Set.Status("x")
	if err != nil {
		t.Fatal(err)
	}
	if m, src := list.Describe(st); src != nil || m.Name != "x" || len(m.Aliases) != 1 || m.Aliases[0] != "y" || m.LoRA == nil {
		t.Errorf("%+v, %+v", m, src)
	}
}
