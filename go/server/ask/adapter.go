package ask

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// An Adapter is a LoRA adapter of a model. Requests that name it as their model have it; so have all that do not say
// which they want, where it is applied.
type Adapter struct {
	Name, Path string
	Scale      float32 // of requests that name it
	Applied    float32 // the scale for requests that do not say; 0: not
	Loaded     *engine.Adapter
}

// Adapters is those of a model. Entries are replaced, never changed.
type Adapters struct {
	mu   sync.RWMutex
	list []*Adapter
	busy map[string]bool // names that are being loaded
	held map[*Adapter]int
	gone map[*Adapter]func() // of adapters that were removed and are held: what is called when nobody holds them

	loading sync.Mutex // one adapter of a fine-tuned model is loaded at a time
}

// All returns the adapters, by id.
func (s *Adapters) All() []*Adapter {
	s.mu.RLock()
	defer s.mu.RUnlock()
	list := slices.Clone(s.list)
	slices.SortFunc(list, func(a, b *Adapter) int { return a.Loaded.Number() - b.Loaded.Number() })
	return list
}

func (s *Adapters) Named(name string) *Adapter {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, a := range s.list {
		if a.Name == name {
			return a
		}
	}
	return nil
}

// Hold is Named of an adapter that is now the last one to have been used, and is not dropped until as many calls of Release.
func (s *Adapters) Hold(name string) *Adapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range s.list {
		if a.Name == name {
			s.list = append(slices.Delete(s.list, i, i+1), a)
			if s.held == nil {
				s.held = map[*Adapter]int{}
			}
			s.held[a]++
			return a
		}
	}
	return nil
}

// Again holds an adapter once more that is held already, and returns what ends that. One that nobody holds is not to be.
func (s *Adapters) Again(a *Adapter) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[a] == 0 {
		return func() {}
	}
	s.held[a]++
	return func() { s.Release(a) }
}

// Release ends a Hold.
func (s *Adapters) Release(a *Adapter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[a]--; s.held[a] == 0 {
		delete(s.held, a)
		if then := s.gone[a]; then != nil {
			delete(s.gone, a)
			then()
		}
	}
}

// Retire removes an adapter, which nobody can hold any more, and calls drop once nobody does. drop is not to wait.
func (s *Adapters) Retire(name string, drop func(a *Adapter)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.list, func(a *Adapter) bool { return a.Name == name })
	if i < 0 {
		return
	}
	a := s.list[i]
	s.list = slices.Delete(s.list, i, i+1)
	if s.held[a] == 0 {
		drop(a)
		return
	}
	if s.gone == nil {
		s.gone = map[*Adapter]func(){}
	}
	s.gone[a] = func() { drop(a) }
}

// oldest removes and returns the adapter whose last use is longest ago, of those that nobody holds; nil: there is none.
func (s *Adapters) oldest() *Adapter {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range s.list {
		if s.held[a] == 0 {
			s.list = slices.Delete(s.list, i, i+1)
			return a
		}
	}
	return nil
}

// OpenAdapter loads an adapter. Where there are too many, or too little memory, other models make room, and then the adapters of
// fine-tuned models that no request holds.
func (m *Model) OpenAdapter(ctx context.Context, path string) (*engine.Adapter, error) {
	for spared := false; ; {
		a, err := m.Engine.OpenAdapter(path)
		var full *mem.LimitError
		switch {
		case err == nil:
			return a, nil
		case errors.As(err, &full) && !spared && m.Spare != nil:
			m.Spare(full.Need)
			spared = true
		case full != nil || errors.Is(err, engine.ErrAdapters):
			old := m.Tuned.oldest()
			if old == nil {
				return nil, err
			}
			if err := m.Engine.DropAdapter(ctx, old.Loaded); err != nil {
				return nil, err
			}
		default:
			return nil, err
		}
	}
}

// TunedAdapter returns the adapter of a fine-tuned model, which it loads where it is not. The caller releases it.
func (m *Model) TunedAdapter(ctx context.Context, name, path string) (*Adapter, error) {
	if a := m.Tuned.Hold(name); a != nil {
		return a, nil
	}
	m.Tuned.loading.Lock()
	defer m.Tuned.loading.Unlock()
	if a := m.Tuned.Hold(name); a != nil { // another request has loaded it meanwhile
		return a, nil
	}
	loaded, err := m.OpenAdapter(ctx, path)
	if err != nil {
		return nil, err
	}
	loaded.Name = name
	m.Tuned.Settle(&Adapter{Name: name, Scale: 1, Loaded: loaded}, true)
	return m.Tuned.Hold(name), nil
}

// Untune unloads the adapter of a fine-tuned model that was deleted, if it is loaded. Requests that have it go on.
func (m *Model) Untune(name string) {
	m.Tuned.Retire(name, func(a *Adapter) {
		go func() { _ = m.Engine.DropAdapter(context.Background(), a.Loaded) }() // else the model is being unloaded
	})
}

// An adapterUse is an element of the field lora: an adapter by its id, and how it is scaled.
type adapterUse struct {
	ID    int     `json:"id"`
	Scale float32 `json:"scale"`
}

func (u *adapterUse) id() field.Target { return field.Integer(&u.ID, 0, 1<<20) }

func (u *adapterUse) scale() field.Target { return field.Float(&u.Scale, -1e6, 1e6) }

// AdapterUses is the field lora. It is nil where a request does not say.
type AdapterUses []adapterUse

const wantUses = `an array such as [{"id": 0, "scale": 1}]`

func (u *AdapterUses) Take(r *field.Reader) error {
	*u = AdapterUses{}
	used := map[int]bool{}
	return r.Elements(wantUses, func(i int) error {
		if i == engine.MaxAdapters {
			return fmt.Errorf("more than %d adapters, want at most so many", engine.MaxAdapters)
		}
		one, seen := adapterUse{Scale: 1}, false
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

func (u *AdapterUses) Value() any { return *u }

func (u *AdapterUses) Schema() field.Schema {
	var one adapterUse
	return field.Schema{"description": wantUses, "type": "array", "items": field.Schema{
		"type": "object", "required": []string{"id"},
		"properties": field.Schema{"id": one.id().Schema(), "scale": one.scale().Schema()},
	}}
}

// Find returns the adapter with an id.
func (s *Adapters) Find(id int) (*Adapter, error) {
	var ids []string
	for _, a := range s.All() {
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

// Applied returns the adapters of a request: those that it lists, else the usual ones.
func (m *Model) Applied(named *Adapter, uses AdapterUses) ([]engine.ScaledAdapter, error) {
	if uses == nil {
		return m.Usual(named), nil
	}
	var list []engine.ScaledAdapter
	for _, u := range uses {
		a, err := m.LoRA.Find(u.ID)
		if err != nil {
			return nil, reply.Invalid("lora", "%v", err)
		}
		list = append(list, engine.ScaledAdapter{Adapter: a.Loaded, Scale: u.Scale})
	}
	return list, nil
}

// Usual returns the adapters of a request that lists none: the one that it names as its model, else those that are
// applied to all.
func (m *Model) Usual(named *Adapter) []engine.ScaledAdapter {
	if named != nil {
		return []engine.ScaledAdapter{{Adapter: named.Loaded, Scale: named.Scale}}
	}
	var list []engine.ScaledAdapter
	for _, a := range m.LoRA.All() {
		list = append(list, engine.ScaledAdapter{Adapter: a.Loaded, Scale: a.Applied})
	}
	return list
}

// Claim takes a name for an adapter that is being loaded, unless it is taken.
func (s *Adapters) Claim(name string) bool {
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

// Settle releases a claimed name, and adds the adapter if it was loaded.
func (s *Adapters) Settle(a *Adapter, loaded bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, a.Name)
	if loaded {
		s.list = append(s.list, a)
	}
}

func (s *Adapters) Remove(name string) *Adapter {
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

// Scale sets the scales that apply to requests which do not say: 0 of adapters that are not listed.
func (s *Adapters) Scale(uses AdapterUses) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, a := range s.list {
		next := *a
		next.Applied = 0
		for _, u := range uses {
			if u.ID == a.Loaded.Number() {
				next.Applied = u.Scale
			}
		}
		s.list[i] = &next
	}
}
