// Package httpapi puts models that a program has opened behind HTTP, inside the program's own server: with OpenAI's,
// Anthropic's, Ollama's and llama-server's routes, under a path of its choice, behind its own authentication.
//
//	m, err := quern.Open(ctx, "model.gguf")
//	if err != nil { ... }
//	api, err := httpapi.New(httpapi.Config{Models: []httpapi.Model{{Name: "mine", Model: m}}})
//	if err != nil { ... }
//	mux.Handle("/llm/", http.StripPrefix("/llm", authenticated(api)))
//
// Requests share passes over the weights with what the program itself has the model generate. A [Handler] listens
// nowhere, asks for no key and writes nothing; origins, hosts, TLS and timeouts are those of the program's server.
//
// What ends first is closed first: the http.Server (Shutdown), then the Handler, then the models. Another order is safe:
// closing a model ends what it generates for clients and waits for these requests to return, so that a client which does
// not read can delay it as long as the server's WriteTimeout lets it.
package httpapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/guard"
	"github.com/quern-llm/quern/go/verify"
)

// A Config says which models a Handler serves, and to whom.
type Config struct {
	// Models are served in this order; the first is meant by requests that name none. Where there is only one, any name
	// means it.
	Models []Model
	// Caller returns whose a request is, as the program's authentication has found. By default each client address is a
	// caller of its own, without further rights.
	Caller func(*http.Request) Caller
	// Isolated has the texts of each Caller found in the cache by that caller alone: else the time that a prompt takes tells
	// whether somebody else has sent one that begins in the same way.
	Isolated bool
	// MaxBody is the most bytes of a request's body; 0: 64 MiB.
	MaxBody int64
	// Logger is told of requests that failed by a fault of the server; nil: nothing is said.
	Logger *slog.Logger
}

// A Model is an open model under a name. It stays the program's, which closes it.
type Model struct {
	Name    string
	Aliases []string // further names
	Model   *quern.Model
}

// A Caller is whose a request is.
type Caller struct {
	// Name: callers of different names share the machine fairly, whatever the number of their requests, and stored answers
	// are found by the caller that they were made for.
	Name string
	// Weight is how much of the machine the caller has where others want it too, 1 for the usual; 0: 1.
	Weight float64
	// Priority is the highest that a request may ask for, up to 1000.
	Priority int
	// Admin: may see and end requests of others, and change what models are loaded with.
	Admin bool
}

// A Handler answers HTTP requests. It is safe for concurrent use.
type Handler struct {
	engine *gin.Engine
	api    *server.Server

	open context.Context // until Close
	end  context.CancelFunc
	wait sync.WaitGroup // goroutines that watch models

	mu      sync.Mutex
	closed  bool
	inside  sync.WaitGroup // requests
	closing sync.Once
}

// maxPriority is the highest that a request may have.
const maxPriority = 1000

// building is held while routes are added: gin has one mode in a program.
var building sync.Mutex

// New returns a Handler. The error is [quern.ErrInvalid], or [quern.ErrClosed] for a model that is closed.
func New(c Config) (*Handler, error) {
	if len(c.Models) == 0 {
		return nil, invalid("httpapi: Config.Models is empty; give a model, which quern.Open returns")
	}
	if c.MaxBody < 0 {
		return nil, invalid("httpapi: Config.MaxBody is below 0; give 0 for 64 MiB")
	}
	h := &Handler{}
	device, err := deviceOf(c.Models)
	if err != nil {
		return nil, err
	}
	log := logTo(c.Logger)
	h.api = server.New(server.Config{
		Build: "quern", Device: device, Caller: h.callers(c.Caller), Apart: c.Isolated, Log: log, Words: inOptions.Replace,
		MaxBody: func(g *gin.Context) int64 { return g.GetInt64(guard.MostBody) },
	})
	h.open, h.end = context.WithCancel(context.Background())
	for _, m := range c.Models {
		if err := h.add(m); err != nil {
			h.Close()
			return nil, err
		}
	}
	if c.MaxBody == 0 {
		c.MaxBody = 64 << 20
	}
	building.Lock()
	defer building.Unlock()
	mode := gin.Mode()
	gin.SetMode(gin.ReleaseMode) // in another one, routes are printed as they are added
	defer gin.SetMode(mode)
	h.engine = gin.New()
	h.engine.RedirectTrailingSlash = false // a prefix that was stripped would be lost
	h.engine.Use(guard.Identify(), guard.Recover(log), guard.Body(c.MaxBody, nil))
	h.api.Register(h.engine)
	h.api.Fallback(h.engine)
	return h, nil
}

func invalid(text string) error { return fmt.Errorf("%w: %s", quern.ErrInvalid, text) }

// deviceOf returns the device of the first model: its memory is that of requests which are read.
func deviceOf(all []Model) (*engine.Device, error) {
	for _, m := range all {
		if m.Model == nil {
			return nil, invalid(fmt.Sprintf("httpapi: the model %q is nil; give one that quern.Open returned", m.Name))
		}
	}
	running, leave, err := launch.RunningOf(all[0].Model)
	if err != nil {
		return nil, err
	}
	defer leave()
	return running.Device, nil
}

// add adds a model, and unloads it when its owner closes it.
func (h *Handler) add(m Model) error {
	running, leave, err := launch.RunningOf(m.Model)
	if err != nil {
		return err
	}
	defer leave()
	if err := h.api.Add(source(m, h.open)); err != nil {
		return invalid("httpapi: " + err.Error())
	}
	if err := h.api.Load(m.Name); err != nil {
		return err
	}
	h.wait.Go(func() {
		select {
		case <-running.Closing:
			// One that is not loaded is left already, and one that is being loaded is so in no time.
			for errors.Is(h.api.Models().Unload(m.Name), models.ErrLoading) {
				time.Sleep(time.Millisecond)
			}
		case <-h.open.Done():
		}
	})
	return nil
}

// callers returns what tells the server whose a request is.
func (h *Handler) callers(of func(*http.Request) Caller) func(*gin.Context) server.Caller {
	return func(g *gin.Context) server.Caller {
		if of == nil {
			host, _, err := net.SplitHostPort(g.Request.RemoteAddr)
			if err != nil {
				host = g.Request.RemoteAddr
			}
			return server.Caller{Flow: host}
		}
		c := of(g.Request)
		if !(c.Weight > 0) || math.IsInf(c.Weight, 0) {
			c.Weight = 1
		}
		return server.Caller{
			Flow: c.Name, Owner: c.Name, Weight: c.Weight, Priority: min(c.Priority, maxPriority), Admin: c.Admin,
		}
	}
}

// ServeHTTP implements [http.Handler]. After Close it answers with 503.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		http.Error(w, "the server is shutting down", http.StatusServiceUnavailable)
		return
	}
	h.inside.Add(1)
	h.mu.Unlock()
	defer h.inside.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.open, cancel)()
	h.engine.ServeHTTP(w, r.WithContext(ctx))
}

// Close ends the requests that are being answered, waits for them, and lets go of the models, which stay open. A server's
// Shutdown before it lets them finish. Closing again does nothing.
func (h *Handler) Close() error {
	h.closing.Do(func() {
		h.mu.Lock()
		h.closed = true
		h.mu.Unlock()
		h.end()
		h.inside.Wait()
		h.wait.Wait()
		h.api.Close(context.Background(), func(server.Instance) {})
	})
	return nil
}

var errShared = errors.New("the model is the program's own")

// fingerprint identifies what a text of a seed depends on besides the model and the request.
func fingerprint(e *engine.Engine) string { return verify.Profile() + "-" + e.Arithmetic() }
