// Package server is the HTTP API of models: it puts the APIs together, finds the model of each request, and describes
// all endpoints in one OpenAPI document. API keys, body limits, write timeouts, logs and listeners are left to the
// caller.
//
// Each API is a package with its routes, fields, formats and errors: openai, anthropic, ollama, openinference and
// llamaserver, which has what belongs to no other. None imports another. They stand on ask, what a request asks of a model; answer, what
// is between a request and its answer; and catalog, the models of the server. Package field parses bodies, reply writes
// responses, history keeps past answers, and batch runs files of requests; none of these knows a model. A new API is
// one package with a Dialect, a Prompter and a Format for each of its endpoints, and a line in New.
//
// No client can block the engine: tokens are converted to text as they come and
// buffered until the client reads them, within the memory budget.
package server

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/anthropic"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/fetch"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/guard"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/llamaserver"
	"github.com/quern-llm/quern/go/server/ollama"
	"github.com/quern-llm/quern/go/server/openai"
	"github.com/quern-llm/quern/go/server/openinference"
	"github.com/quern-llm/quern/go/server/quota"
	"github.com/quern-llm/quern/go/server/reply"
)

// What a program that serves models needs of the packages below.
type (
	Caller    = answer.Caller
	Model     = ask.Model
	ModelInfo = ask.ModelInfo
	Engine    = ask.Engine
	Ticket    = ask.Ticket
	Adapter   = ask.Adapter
	Defaults  = ask.Defaults
	Source    = catalog.Source
	Library   = catalog.Library
	Persona   = catalog.Persona
	Tools     = llamaserver.Tools
	Instance  = models.Instance[ask.Model]
)

// SetMediaMarker has the marker of media in prompts be one that clients know.
var SetMediaMarker = ask.SetMediaMarker

// Describe returns the description of an open model, without what runs its requests.
var Describe = ask.Describe

// Config configures a Server. The zero value is valid.
type Config struct {
	Build    string            // the program's version, which answers carry
	SlotPath string            // the directory of saved slots; empty: slots are not saved
	Batches  *batch.Store      // files and batches; nil: there are none
	Tune     Tuner             // runs fine-tuning jobs of Batches, which it needs; nil: there are none
	Fetch    *fetch.Fetcher    // of pictures and sounds that requests name by URLs; nil: none is
	Kept     *answer.Kept      // takes prompts and answers; nil: none are kept
	Disk     *diskcache.Store  // what GET /v1/memory shows of texts on disk; nil: there are none
	Device   *engine.Device    // whose memory GET /v1/memory shows; nil: none
	LoraDir  string            // the directory of adapters that clients may load; empty: they may not
	Ping     time.Duration     // silence after which a stream sends a comment; 0: 30 s, negative: never
	NoSlots  bool              // GET /slots is refused
	Tools    llamaserver.Tools // what /v1/mcp has; nil: it is refused
	ToolTime time.Duration     // the most that a call of one takes; 0: 2 minutes
	Own      llamaserver.Own   // the server's own tools, for /tools; nil: there are none
	Proxy    bool              // /cors-proxy sends requests on
	MCP      agent.Servers     // what answers may have called; nil: nothing
	Web      agent.Web         // what answers have of the web
	// ToolCalls is the most calls that an answer may have made, and ToolResult the most bytes of what one answers that a
	// model is shown; 0: 16 and 64 KiB.
	ToolCalls, ToolResult int
	Progress              time.Duration // between lines of the log that say how far a long prompt is; 0: 10 s

	StoreBytes uint64        // memory for stored responses; 0: 64 MiB
	StoreTime  time.Duration // how long they stay unused; 0: a day

	Models models.Config // how models share the machine
	// Rescan brings the models that are listed up to date, for GET /models?reload=1; nil: they are those of the start.
	Rescan func() error
	// Library is the downloaded models, which clients may change; nil: they may not.
	Library catalog.Library

	// Caller returns whose request it is, without its Space; nil: one of many flows by the client's address, of one owner,
	// who is an administrator.
	Caller func(*gin.Context) answer.Caller
	// Account returns what counts the requests of batches of an owner; false: the owner may send none now, as one whose key
	// was removed. Without the function nothing counts them.
	Account func(owner string) (account *quota.Account, ok bool)
	// Keys returns the keys whose requests are counted, for GET /v1/usage; nil: none are.
	Keys func() []quota.Key
	// Batched is called when a request of a batch of an owner has been answered; nil: nothing is.
	Batched func(c *gin.Context, begun time.Time, owner string)
	// MaxBody returns the most bytes that the body of a request may have; nil: 64 MiB.
	MaxBody func(*gin.Context) int64
	// Known reports whether a request is of an authorized client, where GET /models may be anybody's; nil: all are.
	Known func(*gin.Context) bool
	// Apart: texts are found in the prefix cache by their owner only.
	Apart bool
	// Note is given log fields of a request: of one that generated, and of one that was refused; nil: not called.
	Note func(c *gin.Context, fields map[string]any)
	Log  zerolog.Logger
	// Words puts what errors say in the words of whoever runs the server, such as the names of flags; nil: they stay.
	Words func(string) string

	// Besides lists the endpoints that the caller serves at the same address, for the
	// OpenAPI document.
	Besides []Page
}

// A Page is a GET endpoint besides the API.
type Page struct{ Path, Summary, ContentType string }

// A Server answers requests. While models are loading it answers 503.
type Server struct {
	c       Config
	models  *models.Set[ask.Model]
	list    *catalog.Catalog
	host    *answer.Host
	openAI  *openai.API
	routes  []answer.Route
	openAPI []byte
	counted []func() // end the counts of the device

	reference []byte // the same as a page
}

// New returns a Server without models.
func New(c Config) *Server {
	if c.Ping == 0 {
		c.Ping = 30 * time.Second
	}
	c.StoreBytes = cmp.Or(c.StoreBytes, 64<<20)
	c.StoreTime = cmp.Or(c.StoreTime, 24*time.Hour)
	c.ToolTime = cmp.Or(c.ToolTime, 2*time.Minute)
	c.ToolCalls, c.ToolResult = cmp.Or(c.ToolCalls, 16), cmp.Or(c.ToolResult, 64<<10)
	c.Progress = cmp.Or(c.Progress, 10*time.Second)
	if c.Caller == nil {
		c.Caller = func(c *gin.Context) answer.Caller {
			return answer.Caller{Flow: c.ClientIP(), Admin: true, Priority: ask.MaxPriority}
		}
	}
	if c.Note == nil {
		c.Note = func(*gin.Context, map[string]any) {}
	}
	s := &Server{c: c, models: models.New[ask.Model](c.Models),
		host: &answer.Host{Running: answer.NewRunning(), Ping: c.Ping, Note: c.Note, Log: c.Log,
			Gates: answer.NewGates(c.Device), Progress: c.Progress, Words: c.Words, Kept: c.Kept,
			Streams: answer.NewStreams(c.StoreBytes)}}
	stored := history.New(c.StoreBytes, c.StoreTime)
	if c.Device != nil {
		s.counted = []func(){c.Device.Count("stored responses", stored.Size), c.Device.Count("streams", s.host.Streams.Size),
			c.Device.Count("grammars", s.grammarBytes)}
	}
	limits := agent.Limits{Calls: c.ToolCalls, Time: c.ToolTime, Result: c.ToolResult}
	s.openAI = &openai.API{Host: s.host, Stored: stored, Batches: c.Batches, Endpoints: s.batchEndpoints,
		Tools: c.MCP, Web: c.Web, Limits: limits}
	messages := &anthropic.API{Host: s.host, Servers: c.MCP, Web: c.Web, Limits: limits}
	if c.Tune != nil {
		s.openAI.Tunable = s.tunable
		c.Batches.OnUntuned(s.untuned)
	}
	s.list = &catalog.Catalog{Set: s.models, Library: c.Library, LoraDir: c.LoraDir, OnPanic: c.Models.OnPanic, Log: c.Log,
		Forget: s.host.Running.Forget}
	ollama := &ollama.API{List: s.list, Build: c.Build}
	llama := &llamaserver.API{
		Host: s.host, List: s.list, Answer: s.answer, HasPage: s.hasPage,
		Build: c.Build, SlotPath: c.SlotPath, NoSlots: c.NoSlots, Tools: c.Tools, ToolTime: c.ToolTime, Own: c.Own, Proxy: c.Proxy,
		Device: c.Device,
		Disk:   c.Disk, Keys: c.Keys,
		Tuned: s.tunedModels, Most: c.Models.Most, Manual: c.Models.Manual, Rescan: c.Rescan, Known: c.Known,
	}
	inference := &openinference.API{List: s.list, Build: c.Build, Manual: c.Models.Manual}
	s.routes = slices.Concat(s.openAI.Routes(), messages.Routes(), ollama.Routes(), inference.Routes(), llama.Routes(), []answer.Route{{
		Method: http.MethodGet, Paths: []string{"/openapi.json"}, Always: true,
		Handle: s.serveDocument, Summary: "This document", Answer: field.Schema{"type": "object"},
	}})
	pages := append(slices.Clone(c.Besides), referencePage)
	s.openAPI, s.reference = document(s.routes, pages, c.Build), reference(s.routes, pages, c.Build)
	return s
}

// Add adds a model, which is loaded when it is wanted. A name that another has is an error.
func (s *Server) Add(src catalog.Source) error { return s.list.Add(src) }

// Remove removes a model: it is unloaded when the requests that use it have ended.
func (s *Server) Remove(name string) { s.list.Remove(name) }

// SetPersonas replaces the personas of the models.
func (s *Server) SetPersonas(all []catalog.Persona) { s.list.SetPersonas(all) }

// Load loads a model and returns when that is done.
func (s *Server) Load(name string) error { return s.list.Load(name) }

// LongestContext returns the most positions that a sequence of a model may have, loaded or not.
func (s *Server) LongestContext() int { return s.list.LongestContext() }

// Media reports whether pictures or sounds are sent to a model.
func (s *Server) Media() bool { return s.list.Media() }

// Models returns the models.
func (s *Server) Models() *models.Set[ask.Model] { return s.models }

// Leave ends streams of events and downloads, which would last longer than requests. Those are answered as before.
func (s *Server) Leave() { s.list.Leave() }

// Close refuses new requests, calls finish for each loaded model, waits for it, and unloads the models. If ctx ends
// while a model is being loaded, none is unloaded, and Close returns false.
func (s *Server) Close(ctx context.Context, finish func(models.Instance[ask.Model])) bool {
	for _, stop := range s.counted {
		stop()
	}
	s.counted = nil
	return s.list.Close(ctx, finish)
}

// hasPage tells whether the caller serves a page at a path.
func (s *Server) hasPage(path string) bool {
	return slices.ContainsFunc(s.c.Besides, func(p Page) bool { return p.Path == path })
}

// grammarBytes returns what automata of grammars take.
func (s *Server) grammarBytes() (bytes uint64) {
	for _, m := range s.models.Loaded() {
		bytes += m.Grammars()
	}
	return bytes
}

// ReadDefaults reads a JSON object of fields, and refuses values that a request could
// not have.
func ReadDefaults(body []byte) (ask.Defaults, error) {
	m := &ask.Model{}
	return ask.ReadDefaults(body, openai.NewChatQuery(m), openai.NewTextQuery(m), llamaserver.NewNativeQuery(m),
		llamaserver.NewInfillQuery(m), llamaserver.NewTemplateQuery(m))
}

// Register adds the routes to r, which may be a group with a prefix.
func (s *Server) Register(r gin.IRoutes) {
	for _, route := range s.routes {
		if route.Within {
			continue
		}
		for _, path := range route.Paths {
			handle(r, route.Method, path, s.serve(route))
		}
	}
	handle(r, http.MethodGet, referencePage.Path, s.serveReference)
	s.registerAbsent(r)
}

// handle adds a route. HEAD, which watchers ask for, and load balancers, is answered where GET is.
func handle(r gin.IRoutes, method, path string, h gin.HandlerFunc) {
	r.Handle(method, path, h)
	if method == http.MethodGet {
		r.HEAD(path, h)
	}
}

// Handler returns a handler of the routes alone.
func (s *Server) Handler() http.Handler {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	s.Register(e)
	s.Fallback(e)
	return e
}

// Fallback makes e answer unknown paths and methods with the API's error object.
func (s *Server) Fallback(e *gin.Engine) {
	e.HandleMethodNotAllowed = true
	e.NoRoute(func(c *gin.Context) {
		s.request(c, noRoute(c)).Fail(&reply.Error{Status: http.StatusNotFound,
			Message: "there is no " + field.Quote(c.Request.URL.Path) + "; /openapi.json says what there is"})
	})
	e.NoMethod(func(c *gin.Context) {
		s.request(c, noRoute(c)).Fail(&reply.Error{
			Status: http.StatusMethodNotAllowed,
			Message: c.Request.Method + " is not for " + field.Quote(c.Request.URL.Path) +
				", want " + c.Writer.Header().Get("Allow"),
		})
	})
}

// noRoute is the route of a request that none is for: its path tells whose clients read the error.
func noRoute(c *gin.Context) *answer.Route {
	switch path := c.Request.URL.Path; {
	case guard.Ollama(c.Request):
		return &answer.Route{Dialect: ollama.Dialect{}}
	case strings.Contains(path, "/v1/messages"):
		return &answer.Route{Dialect: anthropic.Dialect{}}
	}
	return &answer.Route{}
}

// Missing returns a handler for features that are disabled by configuration.
func (s *Server) Missing(message string) gin.HandlerFunc {
	return func(c *gin.Context) { s.request(c, noRoute(c)).Fail(reply.Unsupported("%s", message)) }
}

// request returns the request of an HTTP request to a route, and whose it is.
func (s *Server) request(c *gin.Context, r *answer.Route) *answer.Request {
	var caller answer.Caller
	if b := batchOf(c.Request.Context()); b != nil {
		caller = answer.Caller{Flow: "batch " + b.owner, Background: true, Owner: b.owner}
		if s.c.Account != nil {
			var known bool
			caller.Account, known = s.c.Account(b.owner)
			caller.Models, b.barred = caller.Account.Limits().Models, !known
		}
	} else {
		caller = s.c.Caller(c)
	}
	if s.c.Apart {
		caller.Space = caller.Owner
	}
	media := &ask.MediaSource{}
	if s.c.Fetch != nil {
		media.URL = s.c.Fetch.Fetch
	}
	if s.c.Batches != nil {
		media.Uploaded = func(id string) (*fetch.File, error) { return uploaded(s.c.Batches, caller.Owner, id) }
	}
	c.Request = c.Request.WithContext(ask.WithMedia(c.Request.Context(), media))
	mostBody := int64(answer.BodyBytes)
	if s.c.MaxBody != nil {
		mostBody = s.c.MaxBody(c)
	}
	return answer.NewRequest(s.host, c, r, caller, mostBody)
}

// uploaded returns a file that was uploaded, as a medium.
func uploaded(store *batch.Store, owner, id string) (*fetch.File, error) {
	about, err := store.File(owner, id)
	switch {
	case err != nil:
		return nil, err
	case about.Bytes > fetch.MaxBytes:
		return nil, fmt.Errorf("the file %s has more than %d MiB", about.ID, fetch.MaxBytes>>20)
	}
	f, err := store.Content(owner, about.ID)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	return &fetch.File{Data: data, Name: about.Filename}, err
}

// serve returns the handler of a route.
func (s *Server) serve(r answer.Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		r := r
		req := s.request(c, &r)
		if r.Models {
			r.Dialect = openai.Dialect{}
			if llamaserver.WantsAnthropic(req) {
				r.Dialect = anthropic.Dialect{}
			}
		}
		r.Speaks().Begin(req)
		req.TellQuota()
		defer req.Made()
		defer req.Finished()
		b := batchOf(c.Request.Context())
		if b != nil && b.barred {
			b.over = true
			req.Fail(&reply.Error{Status: http.StatusUnauthorized, Message: "the API key of this batch was removed"})
			return
		}
		if err := s.answer(req); err != nil {
			if b != nil {
				b.over = overQuota(err)
			}
			req.Fail(err)
		}
	}
}

func (s *Server) answer(req *answer.Request) (failed error) {
	r := req.Route
	if r.Admin && !req.Caller.Admin {
		return answer.ErrUser
	}
	if r.Always {
		return r.Handle(req)
	}
	req.Name = req.HTTP.Query("model")
	if r.Method == http.MethodPost {
		if err := req.Receive(); err != nil {
			return err
		}
		if r.Form {
			if err := req.ReceiveForm(); err != nil {
				return err
			}
		}
		if err := req.Detach(); err != nil {
			return err
		}
		if s.list.Named() || s.c.Tune != nil {
			req.Name = cmp.Or(field.TextOf(req.Peek("model")), req.Name)
		}
	}
	if r.Before != nil {
		if answered, err := r.Before(req); answered || err != nil {
			return err
		}
	}
	tuned, named, err := s.tuned(req)
	if err != nil {
		return err
	}
	meant, err := s.list.Resolve(named)
	if err != nil {
		return err
	}
	if err := s.allowed(req, meant, tuned); err != nil {
		return err
	}
	if req.Stay.Load, err = req.Switch("autoload"); err != nil {
		return err
	}
	if r.Asleep {
		if r.Method == http.MethodGet { // reading changes nothing
			req.Stay.Load = new(bool)
		}
		if st, err := s.models.Status(meant.Model); err == nil && st.Model != nil {
			if req.Adapter, err = meant.Adapted(st.Model); err != nil {
				return err
			}
			req.Model = meant.Of(st.Model)
			return r.Handle(req)
		}
	}
	if r.Method == http.MethodPost && !r.Asleep { // what tells of a model asks it for nothing, whether it is loaded or not
		if err := s.begin(req, meant); err != nil {
			return err
		}
		defer func() { req.Run.End(answer.NoRoom(failed)) }()
	}
	if req.Lease, err = s.lease(req, meant.Model); err != nil {
		return err
	}
	defer req.Lease.Release()
	req.Ready()
	if req.Adapter, err = meant.Adapted(req.Lease.Model); err != nil { // of the model that is there now
		return err
	}
	req.Model = meant.Of(req.Lease.Model)
	if r.Method == http.MethodPost {
		if err := req.Admit(len(req.Body)); err != nil {
			return err
		}
	}
	if tuned != nil {
		if req.Adapter, err = s.tunedAdapter(req, tuned); err != nil {
			return err
		}
		defer req.Model.Tuned.Release(req.Adapter)
	}
	return r.Handle(req)
}
