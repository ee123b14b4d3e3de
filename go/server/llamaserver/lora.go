package llamaserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// An adapterEntry is an adapter as the API shows it.
type adapterEntry struct {
	ID    int     `json:"id"`
	Name  string  `json:"name"`
	Path  string  `json:"path"`
	Scale float32 `json:"scale"`
}

func (s *API) listAdapters(req *answer.Request) error {
	m := req.Model
	list := []adapterEntry{}
	for _, a := range m.LoRA.All() {
		list = append(list, entryOfAdapter(a))
	}
	req.Send(list)
	return nil
}

// setAdapters sets the scales that apply to requests which do not say: 0 of adapters that are not listed.
func (s *API) setAdapters(req *answer.Request) error {
	m := req.Model
	uses := ask.AdapterUses{}
	if err := field.ReadValue(req.Body, &uses); err != nil {
		return err
	}
	n := 0
	for _, u := range uses {
		if _, err := m.LoRA.Find(u.ID); err != nil {
			return reply.Bad("%v", err)
		}
		if u.Scale != 0 {
			n++
		}
	}
	if n > engine.MaxApplied {
		return reply.Bad("%d adapters at once, want at most %d with a scale other than 0", n, engine.MaxApplied)
	}
	m.LoRA.Scale(uses)
	req.Send(success{true})
	return nil
}

// A loadQuery is a request to load an adapter.
type loadQuery struct{ model, name, path string }

func newLoadQuery(*ask.Model) *loadQuery { return &loadQuery{} }

func (q *loadQuery) Fields() []field.Field {
	return []field.Field{
		field.Input("model", field.Text(&q.model),
			"The model that it is for, where there are several; by default the first."),
		field.Required("lora_name", field.Text(&q.name), "The name under which requests may use it, as their model."),
		field.Required("lora_path", field.Text(&q.path), "A GGUF file in the folder that --lora-dir names."),
	}
}

// An unloadQuery is a request to unload one.
type unloadQuery struct{ model, name string }

func newUnloadQuery(*ask.Model) *unloadQuery { return &unloadQuery{} }

func (q *unloadQuery) Fields() []field.Field {
	return []field.Field{
		field.Input("model", field.Text(&q.model), "Its model, where there are several; by default the first."),
		field.Required("lora_name", field.Text(&q.name), "Its name."),
	}
}

var errNoLoraDir = reply.Unsupported("this server loads no adapters while it runs; start it with --lora-dir")

// loadAdapter loads an adapter while requests run.
func (s *API) loadAdapter(req *answer.Request) error {
	m := req.Model
	q := newLoadQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if s.List.LoraDir == "" {
		return errNoLoraDir
	}
	if q.name == "" {
		return reply.Invalid("lora_name", "empty, want a name")
	}
	path, err := inFolder(s.List.LoraDir, q.path)
	if err != nil {
		return reply.Invalid("lora_path", "%v", err)
	}
	if slices.Contains(s.List.Names(), q.name) || slices.Contains(m.Aliases, q.name) || !m.LoRA.Claim(q.name) {
		return reply.Invalid("lora_name", "%s is taken, want another name", field.Quote(q.name))
	}
	loaded, err := m.OpenAdapter(req.Context(), path)
	if err == nil {
		loaded.Name = q.name
	}
	a := &ask.Adapter{Name: q.name, Path: path, Scale: 1, Loaded: loaded}
	m.LoRA.Settle(a, err == nil)
	switch {
	case errors.Is(err, engine.ErrClosing), errors.Is(err, context.Canceled):
		return err
	case err != nil:
		return reply.Invalid("lora_path", "%s", strings.ReplaceAll(err.Error(), path, field.Quote(q.path)))
	}
	req.Send(entryOfAdapter(a))
	return nil
}

// unloadAdapter unloads an adapter: its name is free at once, and the answer comes when no request uses it.
func (s *API) unloadAdapter(req *answer.Request) error {
	m := req.Model
	q := newUnloadQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if s.List.LoraDir == "" {
		return errNoLoraDir
	}
	a := m.LoRA.Remove(q.name)
	if a == nil {
		return &reply.Error{Status: http.StatusNotFound, Message: "there is no adapter " + field.Quote(q.name),
			Param: "lora_name"}
	}
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

func entryOfAdapter(a *ask.Adapter) adapterEntry {
	return adapterEntry{a.Loaded.Number(), a.Name, a.Path, a.Applied}
}
