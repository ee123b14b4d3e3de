// Package server is the HTTP API of models: the endpoints of OpenAI, Anthropic, Ollama and
// llama-server, with their fields, defaults and errors.
//
// Text is handled here: templates, tokenization and detokenization, stop words and
// parsing of replies; the layers below see only token ids. The fields of requests are
// defined once, as tables of fields; routes are, in the table of routes. API keys, body
// limits, write timeouts, logs and listeners are left to the caller.
//
// Package field parses the bodies of requests, package reply writes responses, package
// history keeps past answers, and package batch runs files of requests; none of them knows a
// model. The APIs are here, each in files with its name, on what they share: a prompter is a
// request for text, a generation runs its sequences, and a format encodes what they yield.
//
// No client can block the engine: tokens are converted to text as they come and
// buffered until the client reads them, within the memory budget.
package server

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/anthropic"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/guard"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/openai"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/rs/zerolog"
)

// What a program that serves models needs of packages ask and answer.
type (
	Caller    = answer.Caller
	Model     = ask.Model
	ModelInfo = ask.ModelInfo
	Engine    = ask.Engine
	Ticket    = ask.Ticket
	Adapter   = ask.Adapter
	Defaults  = ask.Defaults
)

// Config configures a Server. The zero value is valid.
type Config struct {
	Build    string           // the program's version, which answers carry
	SlotPath string           // the directory of saved slots; empty: there is none
	Batches  *batch.Store     // files and batches; nil: there are none
	Disk     *diskcache.Store // what GET /v1/memory shows of texts on disk; nil: there are none
	Device   *engine.Device   // whose memory GET /v1/memory shows; nil: none
	LoraDir  string           // the directory of adapters that clients may load; empty: they may not
	Ping     time.Duration    // silence after which a stream sends a comment; 0: 30 s, negative: never
	NoSlots  bool             // GET /slots is refused
	Tools    Tools            // what /v1/mcp has; nil: it is refused
	ToolTime time.Duration    // the most that a call of one takes; 0: 2 minutes
	Progress time.Duration    // between lines of the log that say how far a long prompt is; 0: 10 s

	StoreBytes uint64        // memory for stored responses; 0: 64 MiB
	StoreTime  time.Duration // how long they stay unused; 0: a day

	Models models.Config // how models share the machine
	// Rescan brings the models that are listed up to date, for GET /models?reload=1; nil: they are those of the start.
	Rescan func() error
	// Library is the downloaded models, which clients may change; nil: they may not.
	Library Library

	// Caller returns whose request it is, without its Space; nil: one of many flows by the client's address, of one owner,
	// who is an administrator.
	Caller func(*gin.Context) answer.Caller
	// MaxBody returns the most bytes that the body of a request may have; nil: 64 MiB.
	MaxBody func(*gin.Context) int64
	// Known reports whether a request is of an authorized client, where GET /models may be anybody's; nil: all are.
	Known func(*gin.Context) bool
	// Apart: texts are found in the prefix cache by their owner only.
	Apart bool
	// Note is given log fields of a request: of one that generated, and of one that was refused; nil: not called.
	Note func(c *gin.Context, fields map[string]any)
	Log  zerolog.Logger

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
	sources sources
	host    *answer.Host
	openAI  *openai.API
	adapted adapterNames
	pulling downloads
	routes  []answer.Route
	openAPI []byte
}

// New returns a Server without models.
func New(c Config) *Server {
	if c.Ping == 0 {
		c.Ping = 30 * time.Second
	}
	c.StoreBytes = cmp.Or(c.StoreBytes, 64<<20)
	c.StoreTime = cmp.Or(c.StoreTime, 24*time.Hour)
	c.ToolTime = cmp.Or(c.ToolTime, 2*time.Minute)
	c.Progress = cmp.Or(c.Progress, 10*time.Second)
	if c.Caller == nil {
		c.Caller = func(c *gin.Context) answer.Caller {
			return answer.Caller{Flow: c.ClientIP(), Admin: true, Priority: ask.MaxPriority}
		}
	}
	if c.Note == nil {
		c.Note = func(*gin.Context, map[string]any) {}
	}
	s := &Server{c: c, models: models.New[ask.Model](c.Models), host: &answer.Host{Running: answer.NewRunning(), Ping: c.Ping, Note: c.Note, Log: c.Log, Gates: answer.NewGates(c.Device), Progress: c.Progress}}
	stored := history.New(c.StoreBytes, c.StoreTime)
	if c.Device != nil {
		c.Device.Count("stored responses", stored.Size)
		c.Device.Count("grammars", s.grammarBytes)
	}
	s.openAI = &openai.API{Host: s.host, Stored: stored, Batches: c.Batches, Endpoints: s.batchEndpoints}
	s.routes = slices.Concat(s.openAI.Routes(), anthropic.Routes(), s.ollamaRoutes(), s.llamaRoutes(), s.mcpRoutes())
	s.openAPI = document(s.routes, c.Besides, c.Build)
	return s
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
	return ask.ReadDefaults(body, openai.NewChatQuery(m), openai.NewTextQuery(m), newNativeQuery(m), newInfillQuery(m), newTemplateQuery(m))
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
		s.request(c, noRoute(c)).Fail(&reply.Error{Status: http.StatusNotFound, Message: "there is no " + field.Quote(c.Request.URL.Path) + "; /openapi.json says what there is"})
	})
	e.NoMethod(func(c *gin.Context) {
		s.request(c, noRoute(c)).Fail(&reply.Error{
			Status:  http.StatusMethodNotAllowed,
			Message: c.Request.Method + " is not for " + field.Quote(c.Request.URL.Path) + ", want " + c.Writer.Header().Get("Allow"),
		})
	})
}

// noRoute is the route of a request that none is for: its path tells whose clients read the error.
func noRoute(c *gin.Context) *answer.Route {
	switch path := c.Request.URL.Path; {
	case guard.Ollama(c.Request):
		return &answer.Route{Dialect: inOllama{}}
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
	if owner, ok := c.Request.Context().Value(batchOwner{}).(string); ok {
		caller = answer.Caller{Flow: "batch " + owner, Background: true, Owner: owner}
	} else {
		caller = s.c.Caller(c)
	}
	if s.c.Apart {
		caller.Space = caller.Owner
	}
	mostBody := int64(answer.BodyBytes)
	if s.c.MaxBody != nil {
		mostBody = s.c.MaxBody(c)
	}
	return answer.NewRequest(s.host, c, r, caller, mostBody)
}

// serve returns the handler of a route.
func (s *Server) serve(r answer.Route) gin.HandlerFunc {
	return func(c *gin.Context) {
		r := r
		req := s.request(c, &r)
		if r.Models && wantsAnthropic(req) {
			r.Dialect = anthropic.Dialect{}
		}
		r.Speaks().Begin(req)
		defer req.Made()
		if err := s.answer(req); err != nil {
			req.Fail(err)
		}
	}
}

func (s *Server) answer(req *answer.Request) error {
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
		if s.models.Several() || s.adapting() {
			req.Name = cmp.Or(field.TextOf(req.Peek("model")), req.Name)
		}
	}
	if r.Before != nil {
		if answered, err := r.Before(req); answered || err != nil {
			return err
		}
	}
	name, adapter, err := s.resolve(req.Name)
	if err != nil {
		return err
	}
	req.Adapter = adapter
	if req.Stay.Load, err = req.Switch("autoload"); err != nil {
		return err
	}
	if r.Asleep {
		if r.Method == http.MethodGet { // reading changes nothing
			req.Stay.Load = new(bool)
		}
		if st, err := s.models.Status(name); err == nil && st.Model != nil {
			req.Model = st.Model
			return r.Handle(req)
		}
	}
	if req.Lease, err = s.lease(req, name); err != nil {
		return err
	}
	defer req.Lease.Release()
	req.Model = req.Lease.Model
	if r.Method == http.MethodPost {
		if err := req.Admit(len(req.Body)); err != nil {
			return err
		}
	}
	return r.Handle(req)
}
