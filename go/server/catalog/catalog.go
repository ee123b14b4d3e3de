// Package catalog has the models of a server: what is known of each, loaded or not, and those that are being
// downloaded.
package catalog

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server/ask"
)

// A Source is a model that can be loaded, and what is known of it before.
type Source struct {
	models.Spec[ask.Model]
	Aliases  []string // that clients are told of; nil: its names but the first
	Tags     []string
	Path     string
	Settings []string      // that differ from those of other models, as flags
	Info     ask.ModelInfo // as far as it is known
	// positions of a sequence, if they were chosen; 0: as many as the model was trained with, or as fit
	Ctx      int
	Media    bool         // pictures or sounds are sent to it
	Modified time.Time    // of the file
	Persona  *ask.Persona // settings that the model came with; nil: none
	Adapters []string     // names of those that it is loaded with each time
	Covered  bool         // it is not listed: another model is of the same file
}

// aliases returns those that clients are told of.
func (s *Source) aliases() []string {
	if s.Aliases != nil {
		return slices.Clone(s.Aliases)
	}
	return slices.Clone(s.Names[1:])
}

// Listed reports whether the model is one of those that clients are told of; of one without a source it is.
func (s *Source) Listed() bool { return s == nil || !s.Covered }

// A Catalog is the models of a server: what is known of each, loaded or not, and those that are on their way to the
// cache.
type Catalog struct {
	Set     *models.Set[ask.Model]
	Library Library                  // nil: clients may not change it
	LoraDir string                   // the directory of adapters that clients may load; empty: they may not
	OnPanic func(*models.PanicError) // of a download
	Log     zerolog.Logger
	Forget  func(*ask.Model) // is called for a model that is unloaded

	sources  sources
	personas personas
	Pulling  downloads
}

// sources are the models' sources by their own names.
type sources struct {
	mu     sync.Mutex
	byName map[string]*Source
}

func (s *sources) get(name string) *Source {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byName[name]
}

func (s *sources) set(name string, src *Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byName == nil {
		s.byName = map[string]*Source{}
	}
	if s.byName[name] = src; src == nil {
		delete(s.byName, name)
	}
}

// adapted reports whether a model has adapters.
func (s *sources) adapted() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, src := range s.byName {
		if len(src.Adapters) > 0 {
			return true
		}
	}
	return false
}

// withAdapter returns the name of the model that has an adapter, empty if none has; the first by name if several have.
func (s *sources) withAdapter(name string) (of string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, src := range s.byName {
		if slices.Contains(src.Adapters, name) && (of == "" || n < of) {
			of = n
		}
	}
	return of
}

// A resident is a loaded model of a catalog.
type resident struct {
	models.Instance[ask.Model]
	list *Catalog
}

// Close implements models.Instance.
func (r resident) Close() {
	r.list.Forget(r.Model())
	r.Instance.Close()
}

// Add adds a model, which is loaded when it is wanted. A name that another has is an error.
func (s *Catalog) Add(src Source) error {
	load := src.Load
	src.Load = func(ctx context.Context, progress func(float64)) (models.Instance[ask.Model], error) {
		inst, err := load(ctx, progress)
		if err != nil {
			return nil, err
		}
		m := inst.Model()
		m.Name, m.Aliases = src.Names[0], src.aliases()
		m.Persona = src.Persona
		m.Complete()
		return resident{inst, s}, nil
	}
	if err := s.Set.Add(src.Spec); err != nil {
		return err
	}
	s.sources.set(src.Names[0], &src)
	return nil
}

// Remove removes a model: it is unloaded when the requests that use it have ended.
func (s *Catalog) Remove(name string) {
	s.Set.Remove(name)
	s.sources.set(name, nil)
}

// Load loads a model and returns when that is done.
func (s *Catalog) Load(name string) error { return s.Set.Await(name) }

// LongestContext returns the most positions that a sequence of a model may have, loaded or not.
func (s *Catalog) LongestContext() int {
	s.sources.mu.Lock()
	defer s.sources.mu.Unlock()
	n := 0
	for _, src := range s.sources.byName {
		n = max(n, cmp.Or(src.Ctx, src.Info.NCtxTrain))
	}
	return n
}

// Media reports whether pictures or sounds are sent to a model, loaded or not.
func (s *Catalog) Media() bool {
	s.sources.mu.Lock()
	defer s.sources.mu.Unlock()
	for _, src := range s.sources.byName {
		if src.Media {
			return true
		}
	}
	return false
}

// Adapting reports whether names of models may be those of adapters: else no request's body is searched for them.
func (s *Catalog) Adapting() bool { return s.LoraDir != "" || s.sources.adapted() }

// A Meant is what the name of a model means.
type Meant struct {
	Model   string       // a name of it
	Adapter string       // that was named; empty: none was
	Persona *ask.Persona // the same
}

// Of returns a model that is loaded as it is meant.
func (a *Meant) Of(m *ask.Model) *ask.Model { return a.Persona.Of(m) }

// Adapted returns the adapter that was named, of a model that is loaded; nil: none was. It may be gone meanwhile.
func (a *Meant) Adapted(m *ask.Model) (*ask.Adapter, error) {
	if a.Adapter == "" {
		return nil, nil
	}
	named := m.LoRA.Named(a.Adapter)
	if named == nil {
		return nil, &models.NotFoundError{Name: a.Adapter, Names: []string{m.Name}}
	}
	return named, nil
}

// Resolve returns what the name of a request means. If clients may load adapters, an unknown name does not mean the
// only model: it may be the name of an adapter that was removed, and the model without it would answer something else.
func (s *Catalog) Resolve(name string) (Meant, error) {
	if name == "" || s.Set.Has(name) {
		return Meant{Model: name}, nil
	}
	if p := s.personas.get(name); p != nil {
		return Meant{Model: p.Base, Persona: p.Persona}, nil
	}
	if !s.Adapting() {
		return Meant{Model: name}, nil
	}
	var names []string
	for _, m := range s.Set.Loaded() {
		if a := m.LoRA.Named(name); a != nil {
			return Meant{Model: m.Name, Adapter: a.Name}, nil
		}
		for _, a := range m.LoRA.All() {
			names = append(names, a.Name)
		}
	}
	// A model that is not loaded now is loaded for it, and would answer something else without.
	if of := s.sources.withAdapter(name); of != "" {
		return Meant{Model: of, Adapter: name}, nil
	}
	if s.LoraDir != "" {
		return Meant{Model: name}, &models.NotFoundError{Name: name, Names: append(s.Names(), names...)}
	}
	return Meant{Model: name}, nil
}

// Named reports whether requests may mean something by a name: where there is one model alone, they mean that.
func (s *Catalog) Named() bool { return s.Set.Several() || s.Adapting() || s.personas.any() }

// Has reports whether a model or a persona has the name.
func (s *Catalog) Has(name string) bool { return s.Set.Has(name) || s.personas.get(name) != nil }

// Untagged returns the name without the tag that Ollama's clients add, where a model or a persona has that; a model's
// own name may end so.
func (s *Catalog) Untagged(name string) string {
	if bare := persona.BareName(name); s.Has(bare) {
		return bare
	}
	return name
}

// Names returns the names of the models, and then of the personas.
func (s *Catalog) Names() []string {
	names := s.Set.Names()
	for _, p := range s.personas.list() {
		names = append(names, p.Name)
	}
	return names
}

// Leave ends what would last longer than requests: streams of events, and downloads. Requests are answered as before.
func (s *Catalog) Leave() {
	s.endDownloads()
	s.Set.Unwatch()
}

// Close refuses new requests, calls finish for each loaded model, waits for it, and unloads the models. If ctx ends
// while a model is being loaded, none is unloaded, and Close returns false.
func (s *Catalog) Close(ctx context.Context, finish func(models.Instance[ask.Model])) bool {
	s.endDownloads()
	return s.Set.Close(ctx, finish)
}

// Describe returns a model, or as much of one as its source says, which may be nil.
func (s *Catalog) Describe(st models.Status[ask.Model]) (*ask.Model, *Source) {
	src := s.sources.get(st.Names[0])
	m := st.Model
	if m == nil {
		m = &ask.Model{Name: st.Names[0], Aliases: slices.Clone(st.Names[1:]), LoRA: &ask.Adapters{}}
		if src != nil {
			m.Aliases, m.Tags, m.Path, m.Info, m.Loaded, m.Persona = src.aliases(), src.Tags, src.Path, src.Info, src.Modified, src.Persona
		}
	}
	return m, src
}

// Details describe a model in the form that Ollama's lists and llama-server's have.
type Details struct {
	Parent        string   `json:"parent_model"`
	Format        string   `json:"format"`
	Family        string   `json:"family"`
	Families      []string `json:"families"`
	ParameterSize string   `json:"parameter_size"`
	Quantization  string   `json:"quantization_level"`
}

func DetailsOf(m *ask.Model) Details {
	parent := ""
	if base := m.Base(); base != m {
		parent = base.Name
	}
	return Details{
		Parent: parent, Format: "gguf", Family: m.Info.Arch, Families: []string{m.Info.Arch},
		ParameterSize: gguf.SizeName(m.Info.NParams), Quantization: m.Info.FileType,
	}
}
