package fleet

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"

	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/guard"
	"github.com/quern-llm/quern/go/server/host"
	"github.com/quern-llm/quern/go/server/openai"
	"github.com/quern-llm/quern/go/server/page"
	"github.com/quern-llm/quern/go/server/telemetry"
)

// An Address is where a server listens.
type Address struct {
	Hosts  []string // addresses, or paths that end in .sock; none: 127.0.0.1
	Port   int      // 0: any that is free
	Prefix string   // of all paths, such as /llm
	Shared bool     // other processes may listen on the same port
	// Handed are listeners that are served in place of Hosts and Port, once models are loaded: until then connections
	// wait, or another process that has the sockets too takes them. The fleet closes them. None: it listens itself.
	Handed            []net.Listener
	CertFile, KeyFile string        // of TLS; empty: none
	Timeout           time.Duration // for a client to read what it is sent; 0: 30 s

	Vertex *server.Vertex // what Vertex AI asks, whose port is used in place of Port; nil: it is not asked by it
}

// handler assembles the middleware and the handlers.
func (f *Fleet) handler() (*gin.Engine, error) {
	prefix := f.c.Address.Prefix
	origins, err := guard.NewOrigins(f.c.Access.Origins)
	if err != nil {
		return nil, usage.Errorf("--cors-origins: %w", err)
	}
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	if err := e.SetTrustedProxies(nil); err != nil {
		return nil, err
	}
	public := []string{"/api/hello", "/health", "/v1/health", "/models", "/v1/models", "/openapi.json", "/docs"}
	if f.c.ownPage() {
		public = append(public, page.Paths()...)
	}
	for i, path := range public {
		public[i] = prefix + path
	}
	e.Use(guard.Identify())
	if f.audit != nil {
		e.Use(f.audit.Requests())
	}
	e.Use(f.metrics.Requests(f.log), guard.Recover(f.log),
		guard.Hosts(slices.Concat(f.c.Access.AllowedHosts, f.c.Address.Hosts), host.Loopback, f.c.Access.open),
		guard.CrossOrigin(origins))
	if dir := f.c.PageDir; dir != "" {
		serve, done, err := folder(dir, prefix)
		if err != nil {
			return nil, err
		}
		f.onClose(done)
		e.Use(serve)
	}
	files := map[string]int64{prefix + "/v1/files": batch.MaxFile + 1<<20}
	for _, path := range openai.SoundPaths {
		files[prefix+path] = max(f.maxBody(), openai.SoundBytes)
	}
	e.Use(guard.Headers(), guard.Auth(f.c.Access.keys(), public), guard.Body(f.maxBody(), files),
		otelgin.Middleware("", otelgin.WithTracerProvider(f.tracing.Provider), otelgin.WithPropagators(f.tracing.Propagator)),
		telemetry.Operations())
	routes := e.Group(prefix)
	f.api.Register(routes)
	shown := gin.WrapH(f.metrics.Handler())
	if f.c.NoMetrics {
		shown = f.api.Missing("this server does not show its metrics; start it with --metrics")
	}
	routes.GET("/metrics", shown)
	routes.HEAD("/metrics", shown)
	if f.c.ownPage() {
		chat := gin.WrapH(http.StripPrefix(prefix, page.Handler()))
		for _, path := range page.Paths() {
			routes.GET(path, chat)
			routes.HEAD(path, chat)
		}
	}
	// Claude Code opens its connection with this, before it has anything to ask.
	routes.HEAD("/api/hello", func(c *gin.Context) { c.Status(http.StatusOK) })
	f.api.Fallback(e)
	return e, nil
}

// A body may have so many bytes by default: BodyTokenBytes for each position of the longest context, and bodyLeast.
const (
	BodyTokenBytes = 64
	bodyLeast      = 1 << 20
	bodyMedia      = 64 << 20 // of pictures and sounds in base64
)

// maxBody returns the maximum size of a request's body: enough for a prompt as long as the context, in a language
// and an encoding that need many bytes, and for pictures and sounds where a model takes them.
func (f *Fleet) maxBody() int64 {
	if f.c.MaxBody > 0 {
		return f.c.MaxBody
	}
	n := bodyLeast + BodyTokenBytes*int64(f.api.LongestContext())
	if f.api.Media() {
		n += bodyMedia
	}
	return n
}

// pages are the endpoints besides the API.
func (f *Fleet) pages() []server.Page {
	var all []server.Page
	add := func(path, summary, kind string) {
		all = append(all, server.Page{Path: path, Summary: summary, ContentType: kind})
	}
	add("/livez", "Whether the process works: it answers, and no model has stopped", "text/plain")
	add("/readyz", "Whether requests are served: the model is loaded, and the server not shutting down", "text/plain")
	add("/startupz", "Whether the model is loaded", "text/plain")
	add("/v2/health/live", "The same as /livez, as the Open Inference Protocol has it", "application/json")
	add("/v2/health/ready", "The same as /readyz, as the Open Inference Protocol has it", "application/json")
	if !f.c.NoMetrics {
		add("/metrics", "Metrics for Prometheus", "text/plain")
	}
	if f.c.ownPage() {
		add("/", "A page to chat with", "text/html")
	}
	return all
}

// announce logs where the server is.
func (f *Fleet) announce() {
	var at []string
	for _, a := range f.Addresses() {
		at = append(at, a.String())
	}
	used := f.device.Budget().Used()
	limit, _ := f.device.Budget().Limit()
	line := f.log.Info().Strs("address", at)
	if f.c.showsPage() {
		if page := f.c.Address.page(f.Addresses()); page != "" {
			line.Str("page", page)
		}
	}
	line.Strs("models", f.api.Models().Names()).Int("parallel", f.c.Parallel).Int("threads", f.device.Threads()).
		Str("cpus", f.device.Placement().String()).
		Uint64("memory_bytes", used).Uint64("limit_bytes", limit).Msg("ready")
	f.warnOfNodes()
}

// warnOfNodes logs that memory cannot be placed on the nodes of the threads.
func (f *Fleet) warnOfNodes() {
	if err := mem.MayPlace(f.device.Placement().Nodes()); err != nil {
		f.log.Warn().Err(err).Msg("memory is on the NUMA nodes of the threads that write it first")
	}
}

// page returns the URL of the page on this machine; empty where the server is not at a port.
func (a *Address) page(at []net.Addr) string {
	for _, one := range at {
		at, ok := one.(*net.TCPAddr)
		if !ok {
			continue
		}
		port := strconv.Itoa(at.Port)
		u := url.URL{Scheme: "http", Host: net.JoinHostPort(at.IP.String(), port), Path: a.Prefix + "/"}
		if at.IP.IsUnspecified() {
			u.Host = net.JoinHostPort("localhost", port)
		}
		if a.CertFile != "" {
			u.Scheme = "https"
		}
		return u.String()
	}
	return ""
}
