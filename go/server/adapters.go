package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// An Adapter is a LoRA adapter of a model. Requests that name it as their model have it; so have all that do not say which
// they want, where it is applied.
type Adapter struct {
	Name, Path string
	Scale      float32 // of requests that name it
	Applied    float32 // the scale for requests that do not say; 0: not
	Loaded     *engine.Adapter
}

// adapters is those of a model. Entries are replaced, never changed.
type adapters struct {
	mu   sync.RWMutex
	list []*Adapter
	busy map[string]bool // names that are being loaded
}

// An adapterEntry is an adapter as the API shows it.
type adapterEntry struct {
	ID    int     `json:"id"`
	Name  string  `json:"name"`
	Path  string  `json:"path"`
	Scale float32 `json:"scale"`
}

func (a *Adapter) entry() adapterEntry {
	return adapterEntry{a.Loaded.Number(), a.Name, a.Path, a.Applied}
}

// all returns the adapters, by id.
func (s *adapters) all() []*Adapter {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := slices.Clone(s.list)
	slices.SortFunc(list, func(a, b *Adapter) int { return a.Loaded.Number() - b.Loaded.Number() })
	return list
}

func (s *adapters) named(name string) *Adapter {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, a := range s.list {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// An adapterUse is an element of the field lora: an adapter by its id, and how it is scaled.
type adapterUse struct {
	ID    int     `json:"id"`
	Scale float32 `json:"scale"`
}

func (u *adapterUse) id() field.Target    { return field.Integer(&u.ID, 0, 1<<20) }
func (u *adapterUse) scale() field.Target { return field.Float(&u.Scale, -1e6, 1e6) }

// adapterUses is the field lora. It is nil where a request does not say.
type adapterUses []adapterUse

const wantUses = `an array such as [{"id": 0, "scale": 1}]`

func (u *adapterUses) Take(r *field.Reader) error {
	*u = adapterUses{}
	used := map[int]bool{}
	return r.Elements(wantUses, func(i int) error {
		if i == engine.MaxAdapters {
			return fmt.Errorf("more than %d adapters, want at most so many", engine.MaxAdapters)
		}
		one, seen := adapterUse{ID: -1, Scale: 1}, false
		err := r.Members(wantUses, func(name string) error {
			switch name {
			case "id":
				seen = true
				return atMember(name, one.id().Take(r))
			case "scale":
				return atMember(name, one.scale().Take(r))
			}
			_, err := r.Raw()
			return err
		})
		switch {
		case err != nil:
			return err
		case !seen:
			return fmt.Errorf("an object without id, want %s", wantUses)
		case used[one.ID]:
			return fmt.Errorf("id %d twice, want each adapter once", one.ID)
		}
		used[one.ID] = true
		*u = append(*u, one)
		return nil
	})
}

func atMember(name string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (u *adapterUses) Value() any {
	if *u == nil {
		return adapterUses{}
	}
	return *u
}

func (u *adapterUses) Schema() field.Schema {
	var one adapterUse
	return field.Schema{"description": wantUses, "type": "array", "items": field.Schema{
		"type": "object", "required": []string{"id"}, "properties": field.Schema{"id": one.id().Schema(), "scale": one.scale().Schema()},
	}}
}

// find returns the adapter with an id.
func (s *adapters) find(id int) (*Adapter, error) {
	var ids []string
	for _, a := range s.all() {
		if a.Loaded.Number() == id {
			return a, nil
		}
		ids = append(ids, fmt.Sprint(a.Loaded.Number()))
	}
	if len(ids) == 0 {
		return nil, fmt.Errorf("no adapter %d: the model has none", id)
	}
	return nil, fmt.Errorf("no adapter %d, want one of %s", id, strings.Join(ids, ", "))
}

// applied returns the adapters of a request: those that it lists, else the one that it names as its model, else those
// that are applied to all.
func (m *Model) applied(named *Adapter, uses adapterUses) ([]engine.ScaledAdapter, error) {
	var list []engine.ScaledAdapter
	switch {
	case uses != nil:
		for _, u := range uses {
			a, err := m.adapters.find(u.ID)
			if err != nil {
				return nil, reply.Invalid("lora", "%v", err)
			}
			list = append(list, engine.ScaledAdapter{Adapter: a.Loaded, Scale: u.Scale})
		}
	case named != nil:
		list = append(list, engine.ScaledAdapter{Adapter: named.Loaded, Scale: named.Scale})
	default:
		for _, a := range m.adapters.all() {
			list = append(list, engine.ScaledAdapter{Adapter: a.Loaded, Scale: a.Applied})
		}
	}
	return list, nil
}

// adapterNames counts the adapters of all models: where there are none, no request's body is searched for their names.
type adapterNames struct{ n atomic.Int64 }

// adapting reports whether names of models may be those of adapters.
func (s *Server) adapting() bool { return s.adapted.n.Load() > 0 || s.c.LoraDir != "" }

// resolve returns the name of the model that a request is for, and the adapter that it names. Where adapters come and go, a
// name that is neither is not the only model's: it may be that of an adapter which is gone, and an answer without it would be
// another.
func (s *Server) resolve(name string) (model string, a *Adapter, err error) {
	if name == "" || !s.adapting() || s.models.Has(name) {
		return name, nil, nil
	}
	var names []string
	for _, m := range s.models.Loaded() {
		if a := m.adapters.named(name); a != nil {
			return m.Name, a, nil
		}
		for _, a := range m.adapters.all() {
			names = append(names, a.Name)
		}
	}
	if s.c.LoraDir != "" {
		err = &models.NotFoundError{Name: name, Names: append(s.models.Names(), names...)}
	}
	return name, nil, err
}

func (s *Server) listAdapters(req *Request) error {
	m := req.Model
	list := []adapterEntry{}
	for _, a := range m.adapters.all() {
		list = append(list, a.entry())
	}
	req.Send(list)
	return nil
}

// setAdapters sets the scales that apply to requests which do not say: 0 of adapters that are not listed.
func (s *Server) setAdapters(req *Request) error {
	m := req.Model
	uses := adapterUses{}
	if err := field.ReadValue(req.body, &uses); err != nil {
		return err
	}
	n := 0
	for _, u := range uses {
		if _, err := m.adapters.find(u.ID); err != nil {
			return reply.Bad("%v", err)
		}
		if u.Scale != 0 {
			n++
		}
	}
	if n > engine.MaxApplied {
		return reply.Bad("%d adapters at once, want at most %d with a scale other than 0", n, engine.MaxApplied)
	}
	m.adapters.mu.Lock()
	defer m.adapters.mu.Unlock()
	for i, a := range m.adapters.list {
		next := *a
		next.Applied = 0
		for _, u := range uses {
			if u.ID == a.Loaded.Number() {
				next.Applied = u.Scale
			}
		}
		m.adapters.list[i] = &next
	}
	req.Send(success{true})
	return nil
}

// A loadQuery is a request to load an adapter.
type loadQuery struct{ model, name, path string }

func newLoadQuery(*Model) *loadQuery { return &loadQuery{} }

func (q *loadQuery) Fields() []field.Field {
	return []field.Field{
		field.Input("model", field.Text(&q.model), "The model that it is for, where there are several; by default the first."),
		field.Required("lora_name", field.Text(&q.name), "The name under which requests may use it, as their model."),
		field.Required("lora_path", field.Text(&q.path), "A GGUF file in the folder that --lora-dir names."),
	}
}

// An unloadQuery is a request to unload one.
type unloadQuery struct{ model, name string }

func newUnloadQuery(*Model) *unloadQuery { return &unloadQuery{} }

func (q *unloadQuery) Fields() []field.Field {
	return []field.Field{
		field.Input("model", field.Text(&q.model), "Its model, where there are several; by default the first."),
		field.Required("lora_name", field.Text(&q.name), "Its name."),
	}
}

var errNoLoraDir = reply.Unsupported("this server loads no adapters while it runs; start it with --lora-dir")

// loadAdapter loads an adapter while requests run.
func (s *Server) loadAdapter(req *Request) error {
	m := req.Model
	q := newLoadQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if s.c.LoraDir == "" {
		return errNoLoraDir
	}
	if q.name == "" {
		return reply.Invalid("lora_name", "empty, want a name")
	}
	path, err := inFolder(s.c.LoraDir, q.path)
	if err != nil {
		return reply.Invalid("lora_path", "%v", err)
	}
	if slices.Contains(s.models.Names(), q.name) || slices.Contains(m.Aliases, q.name) || !m.adapters.claim(q.name) {
		return reply.Invalid("lora_name", "%s is taken, want another name", field.Quote(q.name))
	}
	loaded, err := m.Engine.OpenAdapter(path)
	if err == nil {
		loaded.Name = q.name
	}
	a := &Adapter{Name: q.name, Path: path, Scale: 1, Loaded: loaded}
	m.adapters.settle(a, err == nil)
	switch {
	case errors.Is(err, engine.ErrClosing):
		return err
	case err != nil:
		return reply.Invalid("lora_path", "%s", strings.ReplaceAll(err.Error(), path, field.Quote(q.path)))
	}
	s.adapted.n.Add(1)
	req.Send(a.entry())
	return nil
}

// unloadAdapter unloads an adapter: its name is free at once, and the answer comes when no request uses it.
func (s *Server) unloadAdapter(req *Request) error {
	m := req.Model
	q := newUnloadQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if s.c.LoraDir == "" {
		return errNoLoraDir
	}
	a := m.adapters.remove(q.name)
	if a == nil {
		return &reply.Error{Status: http.StatusNotFound, Message: "there is no adapter " + field.Quote(q.name), Param: "lora_name"}
	}
	s.adapted.n.Add(-1)
	if err := m.Engine.DropAdapter(req.Context(), a.Loaded); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	req.Send(success{true})
	return nil
}

// inFolder returns the path of a file in a folder, which links do not lead out of.
func inFolder(folder, name string) (string, error) {
	folder, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return "", err
	}
	if folder, err = filepath.Abs(folder); err != nil {
		return "", err
	}
	path := name
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	outside := fmt.Errorf("%s is not in the folder of --lora-dir, want a file there", field.Quote(name))
	real, err := filepath.EvalSymlinks(path)
	if err != nil { // whatever is elsewhere is none of the client's business
		if rel, e := filepath.Rel(folder, filepath.Clean(path)); e == nil && filepath.IsLocal(rel) {
			return "", fmt.Errorf("there is no file %s in the folder of --lora-dir", field.Quote(name))
		}
		return "", outside
	}
	if rel, err := filepath.Rel(folder, real); err != nil || !filepath.IsLocal(rel) {
		return "", outside
	}
	return real, nil
}

// claim takes a name for an adapter that is being loaded, unless it is taken.
func (s *adapters) claim(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[name] || slices.ContainsFunc(s.list, func(a *Adapter) bool { return a.Name == name }) {
		return false
	}
	if s.busy == nil {
		s.busy = map[string]bool{}
	}
	s.busy[name] = true
	return true
}

// settle releases a claimed name, and adds the adapter if it was loaded.
func (s *adapters) settle(a *Adapter, loaded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, a.Name)
	if loaded {
		s.list = append(s.list, a)
	}
}

func (s *adapters) remove(name string) *Adapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range s.list {
		if a.Name == name {
			s.list = slices.Delete(s.list, i, i+1)
			return a
		}
	}
	return nil
}
