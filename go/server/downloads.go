package server

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
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A Library is downloaded models. Its methods bring the server's list of models up to date.
type Library interface {
	Resolve(ctx context.Context, ref hub.Ref) (*hub.Plan, error)
	Pull(ctx context.Context, plan *hub.Plan, asked string, progress func(hub.Progress)) error
	Remove(ctx context.Context, name string) error
	Copy(ctx context.Context, from, to string) error
	Find(name string) (*hub.Model, error)
}

// downloads are those that run, by the name that the model will have. Requests for one model share its download.
type downloads struct {
	mu     sync.Mutex
	by     map[string]*download
	closed bool // no more begin
}

// A download is a model on its way to the cache.
type download struct {
	name   string // of the model, for clients
	ref    string
	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{} // closed at the end

	mu      sync.Mutex
	last    hub.Progress
	changed chan struct{} // closed at the next progress
	users   int           // requests that wait for it; kept is one
	err     error         // set before done is closed
}

// named returns the download of a model, by the name for clients or the whole one; nil if there is none.
func (d *downloads) named(name string) *download {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, one := range d.by {
		if strings.EqualFold(one.name, name) || strings.EqualFold(one.ref, name) {
			return one
		}
	}
	return nil
}

// all returns the downloads that run, by name.
func (d *downloads) all() []*download {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.SortedFunc(maps.Values(d.by), func(a, b *download) int { return strings.Compare(a.ref, b.ref) })
}

// entry returns a download as /models shows it.
func (d *download) entry() modelEntry {
	p, _ := d.progress()
	m := &ask.Model{Name: d.name, Aliases: []string{d.ref}, LoRA: &ask.Adapters{}}
	e := entryOf(m)
	e.Meta, e.Status = nil, &modelStatus{Value: "downloading", Progress: byURL(p)}
	return e
}

// progress returns how far a download is, and what is closed when that changes.
func (d *download) progress() (hub.Progress, <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.last, d.changed
}

// leave ends a request's interest: a download that nobody waits for is cancelled.
func (d *download) leave() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users == 0 {
		d.cancel()
	}
}

// A fileProgress is how much of a file there is.
type fileProgress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"` // -1: it is not known
}

// byURL is how far the files are, as llama-server tells it.
func byURL(p hub.Progress) map[string]fileProgress {
	files := map[string]fileProgress{}
	for _, f := range p.Files {
		files[f.URL] = fileProgress{f.Done, f.Total}
	}
	return files
}

// errNoLibrary reports that clients may not download models.
var errNoLibrary = reply.Unsupported("this server downloads no models: it was started with -m, or with --no-models-pull")

// reference returns the model that a client names, on the server that names without one mean. Clients cannot have requests
// sent to any other: the server may reach what they may not.
func reference(name, server string) (hub.Ref, error) {
	ref, err := hub.ParseRef(name)
	if errors.Is(err, hub.ErrNoRef) {
		ref, err = hub.ParseRef(server + name)
	}
	if err == nil && ref.Kind != hub.HuggingFace && ref.Kind != hub.Ollama {
		return ref, reply.Invalid("model", "%s, want one of hf.co or ollama.com: others are downloaded on the server's machine, with \"quern pull\"", field.Quote(name))
	}
	if err != nil {
		return ref, reply.Invalid("model", "%v", err)
	}
	return ref, nil
}

// download begins to download a model, or joins the download that runs. The caller leaves it.
func (s *Server) download(ctx context.Context, name, server string) (*download, error) {
	if s.c.Library == nil {
		return nil, errNoLibrary
	}
	ref, err := reference(name, server)
	if err != nil {
		return nil, err
	}
	plan, err := s.c.Library.Resolve(ctx, ref)
	if err != nil {
		return nil, remote(ctx, err)
	}
	s.pulling.mu.Lock()
	defer s.pulling.mu.Unlock()
	if s.pulling.closed {
		return nil, models.ErrClosed
	}
	key := plan.Ref.String()
	if d := s.pulling.by[key]; d != nil {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.users > 0 && d.ctx.Err() == nil { // or it is being cancelled
			d.users++
			return d, nil
		}
	}
	run, cancel := context.WithCancel(context.Background())
	d := &download{name: plan.Ref.Short(), ref: key, ctx: run, cancel: cancel, done: make(chan struct{}), changed: make(chan struct{}), users: 1}
	if s.pulling.by == nil {
		s.pulling.by = map[string]*download{}
	}
	s.pulling.by[key] = d
	s.models.Downloading(d.name, modelEvent{Model: d.name, Event: "model_status", Data: &modelEventData{Status: "downloading"}})
	go s.pull(d, plan, name)
	return d, nil
}

// pull runs a download.
func (s *Server) pull(d *download, plan *hub.Plan, asked string) {
	defer d.cancel()
	err := models.Guard(d.name, s.c.Models.OnPanic, func() error {
		return s.c.Library.Pull(d.ctx, plan, asked, func(p hub.Progress) {
			d.mu.Lock()
			d.last = p
			close(d.changed)
			d.changed = make(chan struct{})
			d.mu.Unlock()
			s.models.Downloading(d.name, modelEvent{Model: d.name, Event: "download_progress", Data: byURL(p)})
		})
	})
	event := modelEvent{Model: d.name, Event: "download_finished"}
	if err != nil {
		event.Event, event.Data = "download_failed", &modelEventData{Status: "unloaded", Failed: true, ExitCode: 1, Reason: err.Error()}
		if !errors.Is(err, context.Canceled) {
			s.c.Log.Warn().Str("model", d.name).Err(err).Msg("it was not downloaded")
		}
	} else {
		s.c.Log.Info().Str("model", d.name).Msg("downloaded")
	}
	s.pulling.mu.Lock()
	if s.pulling.by[d.ref] == d {
		delete(s.pulling.by, d.ref)
	}
	s.pulling.mu.Unlock()
	d.err = err
	close(d.done)
	s.models.Downloading(d.name, event)
}

// endDownloads ends those that run, which a later pull goes on with, and lets no more begin.
func (s *Server) endDownloads() {
	s.pulling.mu.Lock()
	s.pulling.closed = true
	s.pulling.mu.Unlock()
	for _, d := range s.pulling.all() {
		d.cancel()
		<-d.done
	}
}

// remote returns what a client is told of an error of the library: what it says of models and of other servers is for clients.
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

// A downloadQuery is a request to POST /models.
type downloadQuery struct{ model string }

func newDownloadQuery(*ask.Model) *downloadQuery { return &downloadQuery{} }

func (q *downloadQuery) Fields() []field.Field {
	return []field.Field{field.Required("model", field.Text(&q.model), "ORG/REPO or ORG/REPO:QUANT on Hugging Face, or a name with its server: hf.co/..., ollama.com/....")}
}

// startDownload begins a download, which goes on when the request has ended.
func (s *Server) startDownload(req *answer.Request) error {
	q := newDownloadQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	if _, err := s.download(req.Context(), q.model, "hf.co/"); err != nil {
		return err
	}
	req.Send(success{true})
	return nil
}

// deleteModel removes a model from the cache.
func (s *Server) deleteModel(req *answer.Request) error {
	name := req.HTTP.Query("model")
	if name == "" {
		return reply.Invalid("model", "missing, want ?model= and a name that /models has")
	}
	if err := s.remove(req.Context(), name); err != nil {
		return err
	}
	req.Send(success{true})
	return nil
}

// remove removes a model from the cache, or ends its download.
func (s *Server) remove(ctx context.Context, name string) error {
	if s.c.Library == nil {
		return errNoLibrary
	}
	d := s.pulling.named(name)
	if d != nil {
		d.cancel()
		<-d.done
	}
	err := s.c.Library.Remove(ctx, name)
	switch {
	case err == nil, d != nil && errors.Is(err, hub.ErrNotFound):
		return nil
	case errors.Is(err, hub.ErrNotFound) && s.models.Has(name):
		return reply.Bad("the model %s is not in the cache, and stays where it is", field.Quote(name))
	case errors.Is(err, hub.ErrNotFound):
		return &models.NotFoundError{Name: name, Names: s.models.Names()}
	}
	return err
}
