package catalog

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Library is downloaded models. Its methods bring the server's list of models up to date.
type Library interface {
	Resolve(ctx context.Context, ref hub.Ref) (*hub.Plan, error)
	Pull(ctx context.Context, plan *hub.Plan, asked string, progress func(hub.Progress)) error
	Remove(ctx context.Context, name string) error
	Copy(ctx context.Context, from, to string) error
	Create(ctx context.Context, p *persona.Persona) error
	Find(name string) (*hub.Model, error)
}

// downloads are those that run, by the name that the model will have. Requests for one model share its download.
type downloads struct {
	mu     sync.Mutex
	by     map[string]*Download
	closed bool // no more begin
}

// A Download is a model on its way to the cache.
type Download struct {
	Name   string // of the model, for clients
	Ref    string
	ctx    context.Context
	Cancel context.CancelFunc
	Done   chan struct{} // closed at the end

	mu      sync.Mutex
	last    hub.Progress
	changed chan struct{} // closed at the next progress
	users   int           // requests that wait for it; kept is one
	Err     error         // set before done is closed
}

// Named returns the download of a model, by the name for clients or the whole one; nil if there is none.
func (d *downloads) Named(name string) *Download {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.by {
		if strings.EqualFold(one.Name, name) || strings.EqualFold(one.Ref, name) {
			return one
		}
	}
	return nil
}

// All returns the downloads that run, by name.
func (d *downloads) All() []*Download {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.by), func(a, b *Download) int { return strings.Compare(a.Ref, b.Ref) })
}

// Progress returns how far a download is, and what is closed when that changes.
func (d *Download) Progress() (hub.Progress, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, d.changed
}

// Leave ends a request's interest: a download that nobody waits for is cancelled.
func (d *Download) Leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users == 0 {
		d.Cancel()
	}
}

// Event is the event of a download: it begins, it has progressed, or it has ended.
type Event struct {
	Progress *hub.Progress // nil: it begins, or has ended
	Ended    bool
	Err      error // that ended it; nil: the model is there
}

// ErrNoLibrary reports that clients may not download models.
var ErrNoLibrary = reply.Unsupported("this server downloads no models: it was started with -m, or with " +
	"--no-models-pull")

// reference returns the model that a client names, on the server that names without one mean. Clients cannot have
// requests sent to any other: the server may reach what they may not.
func reference(name, server string) (hub.Ref, error) {
	ref, err := hub.ParseRef(name)
	if errors.Is(err, hub.ErrNoRef) {
		ref, err = hub.ParseRef(server + name)
	}
	if err == nil && ref.Kind != hub.HuggingFace && ref.Kind != hub.Ollama {
		return ref, reply.Invalid("model", "%s, want one of hf.co or ollama.com: others are downloaded on the server's "+
			"machine, with \"quern pull\"", field.Quote(name))
	}
	if err != nil {
		return ref, reply.Invalid("model", "%v", err)
	}
	return ref, nil
}

// Download begins to download a model, or joins the download that runs. The caller leaves it.
func (s *Catalog) Download(ctx context.Context, name, server string) (*Download, error) {
	if s.Library == nil {
		return nil, ErrNoLibrary
	}
	ref, err := reference(name, server)
	if err != nil {
		return nil, err
	}
	plan, err := s.Library.Resolve(ctx, ref)
	if err != nil {
		return nil, remote(ctx, err)
	}
	s.Pulling.mu.Lock()
	defer s.Pulling.mu.Unlock()
	if s.Pulling.closed {
		return nil, models.ErrClosed
	}
	key := plan.Ref.String()
	if d := s.Pulling.by[key]; d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.users > 0 && d.ctx.Err() == nil { // or it is being cancelled
			d.users++
			return d, nil
		}
	}
	run, cancel := context.WithCancel(context.Background())
	d := &Download{Name: plan.Ref.Short(), Ref: key, ctx: run, Cancel: cancel, Done: make(chan struct{}),
		changed: make(chan struct{}), users: 1}
	if s.Pulling.by == nil {
		s.Pulling.by = map[string]*Download{}
	}
	s.Pulling.by[key] = d
	s.Set.Downloading(d.Name, Event{})
	go s.pull(d, plan, name)
	return d, nil
}

// pull runs a download.
func (s *Catalog) pull(d *Download, plan *hub.Plan, asked string) {
	defer d.Cancel()
	err := models.Guard(d.Name, s.OnPanic, func() error {
		return s.Library.Pull(d.ctx, plan, asked, func(p hub.Progress) {
			d.mu.Lock()
			d.last = p
			close(d.changed)
			d.changed = make(chan struct{})
			d.mu.Unlock()
			s.Set.Downloading(d.Name, Event{Progress: &p})
		})
	})
	if err != nil {
		if !errors.Is(err, context.Canceled) {
			s.Log.Warn().Str("model", d.Name).Err(err).Msg("it was not downloaded")
		}
	} else {
		s.Log.Info().Str("model", d.Name).Msg("downloaded")
	}
	s.Pulling.mu.Lock()
	if s.Pulling.by[d.Ref] == d {
		delete(s.Pulling.by, d.Ref)
	}
	s.Pulling.mu.Unlock()
	d.Err = err
	close(d.Done)
	s.Set.Downloading(d.Name, Event{Ended: true, Err: err})
}

// endDownloads ends those that run, which a later pull goes on with, and lets no more begin.
func (s *Catalog) endDownloads() {
	s.Pulling.mu.Lock()
	s.Pulling.closed = true
	s.Pulling.mu.Unlock()
	for _, d := range s.Pulling.All() {
		d.Cancel()
		<-d.Done
	}
}

// remote returns what a client is told of an error of the library: what it says of models and of other servers is for
// clients.
func remote(ctx context.Context, err error) error {
	var status *hub.StatusError
	switch {
	case ctx.Err() != nil:
		return reply.ErrGone
	case errors.Is(err, hub.ErrNotFound), errors.As(err, &status) && status.Status == http.StatusNotFound:
		return &reply.Error{Status: http.StatusNotFound, Message: err.Error(), Param: "model"}
	case errors.Is(err, hub.ErrOffline):
		return reply.Bad("%v", err)
	}
	return &reply.Error{Status: http.StatusBadGateway, Message: err.Error(), Param: "model"}
}

// Delete removes a model from the cache, or ends its download.
func (s *Catalog) Delete(ctx context.Context, name string) error {
	if s.Library == nil {
		return ErrNoLibrary
	}
	d := s.Pulling.Named(name)
	if d != nil {
		d.Cancel()
		<-d.Done
	}
	err := s.Library.Remove(ctx, name)
	switch {
	case err == nil, d != nil && errors.Is(err, hub.ErrNotFound):
		return nil
	case errors.Is(err, hub.ErrNotFound) && s.Has(name):
		return reply.Bad("the model %s is not in the cache, and stays where it is", field.Quote(name))
	case errors.Is(err, hub.ErrNotFound):
		return &models.NotFoundError{Name: name, Names: s.Names()}
	case errors.Is(err, hub.ErrUsed):
		return reply.Bad("%v", err)
	}
	return err
}
