package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/guard"
	"github.com/quern-llm/quern/go/server/host"
	"github.com/quern-llm/quern/go/server/page"
	"github.com/quern-llm/quern/go/server/telemetry"
)

func newServeCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve a model over HTTP",
		Long: `Serve a model over HTTP: the endpoints of OpenAI and of llama-server, metrics at
/metrics, probes at /livez, /readyz and /startupz, all of it described at
/openapi.json, and a page to chat with at /.

Requests share the machine: those that generate go first, and prompts take what
is left of the time between two tokens. A text that was seen before is not
computed again. SIGTERM lets what runs finish for --drain; a second one does not.

` + orDemoHelp + ` Sampling is as the
request says, or the flags, or the model's file (general.sampling.*), or as below.

llama-server's other flags and its environment variables are taken too: they do what
they do there, or a line in the log says what decides instead, or what to do
instead is said at once. docs/migrating.md has all of them.`,
		Example: `  quern serve
  quern serve -m model.gguf
  quern serve -m model.gguf --host 0.0.0.0 --port 80 --api-key-file keys.txt`,
		Args:    cobra.NoArgs,
		Version: readBuild().Version,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	f.define(cmd.Flags())
	return cmd
}

// run is "quern serve".
func (f *serveFlags) run(ctx context.Context, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	logs, closeLog, err := f.log.open(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	f.model.orDemo(func(line string) { logs.Info().Msg(line) })
	// Everything that can be wrong is found before the model is loaded.
	in, err := readHead(f.model.path, true)
	if err != nil {
		return err
	}
	loading := false
	defer func() {
		if !loading {
			in.file.Close()
		}
	}()
	f.warn(logs)
	defaults, err := f.requests.defaults()
	if err != nil {
		return err
	}
	if err := f.requests.checkIDs(in.tok.Len()); err != nil {
		return err
	}
	tmpl, warning, err := f.template.read(in)
	if err != nil {
		return err
	}
	if warning != "" {
		logs.Warn().Msg(warning)
	}
	keys, err := f.keys()
	if err != nil {
		return err
	}
	origins, err := guard.NewOrigins(f.origins)
	if err != nil {
		return usagef("--cors-origins: %w", err)
	}
	if keys.Len() == 0 && !host.Local(f.hosts) {
		if f.requireKey {
			return usagef("--require-key: %s can be reached by others and there is no API key; give one with --api-key or --api-key-file", strings.Join(f.hosts, ", "))
		}
		logs.Warn().Strs("host", f.hosts).Msg("ANYBODY WHO REACHES THIS ADDRESS CAN USE THE MODEL: there is no API key; give one with --api-key-file, or --host 127.0.0.1")
	}
	if weak := keys.Weak(); weak != nil {
		if !host.Local(f.hosts) {
			return usagef("%w, from --api-key or --api-key-file: others reach %s, and can guess it", weak, strings.Join(f.hosts, ", "))
		}
		logs.Warn().Msg(weak.Error() + " before others can reach the server")
	}
	tracing, err := telemetry.NewTracing(f.traces, readBuild().Version)
	if err != nil {
		return err
	}
	defer tracing.Close()
	metrics := telemetry.NewMetrics()
	api := server.New(server.Config{
		Build:    "quern-" + readBuild().Version,
		SlotPath: f.slotPath,
		Ping:     pings(f.ping),
		NoSlots:  !f.slots,
		Flow:     func(c *gin.Context) (string, float64) { return c.GetString(guard.Client), c.GetFloat64(guard.Weight) },
		Note:     func(c *gin.Context, fields map[string]any) { c.Set(telemetry.Fields, fields) },
		Log:      logs,
		Besides:  f.pages(),
	})
	var static []gin.HandlerFunc
	if f.path != "" {
		serve, done, err := files(f.path, f.prefix)
		if err != nil {
			return err
		}
		defer done()
		static = append(static, serve)
	}
	handler, err := f.handler(api, f.maxBody(in.cfg.NCtx), origins, keys, metrics, tracing, logs, static...)
	if err != nil {
		return err
	}
	listeners, err := host.Listen(f.hosts, f.port, f.shared, f.certFile, f.keyFile)
	if err != nil {
		return err
	}
	h := host.New(handler, f.prefix, time.Duration(f.timeout)*time.Second, log.New(logs.With().Str("from", "net/http").Logger(), "", 0))
	served := make(chan error, 1)
	go func() { served <- h.Serve(listeners) }()
	defer h.Close()

	// The first signal drains, the second is the system's again: it ends now.
	stop, cancel := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(stop, cancel)

	start := time.Now()
	loading = true // from here on the file is the engine's
	loaded := make(chan loadResult, 1)
	go func() { loaded <- f.load(in, metrics, logs, stderr) }()
	var l loadResult
	select {
	case err := <-served:
		return err
	case <-stop.Done():
		return context.Canceled
	case l = <-loaded:
	}
	if l.err != nil {
		return l.err
	}
	defer l.close()
	metrics.Read(telemetry.Source{Status: l.loop.Status, Budget: l.budget, Version: readBuild().Version})
	api.SetModel(f.serverModel(in, tmpl, warning, defaults, observed{l.loop, telemetry.NewObserver(metrics, tracing.Tracer())}, l.eng.Ctx(), logs))
	f.announce(logs, listeners, l, time.Since(start))
	h.Ready()

	select {
	case err := <-served:
		return err
	case <-stop.Done():
	}
	logs.Info().Dur("drain", f.drain).Msg("shutting down: what runs may finish; a second signal ends it now")
	f.shutDown(h, l.loop)
	logs.Info().Msg("stopped")
	return nil
}

// shutDown lets requests finish for as long as --drain says. Those that run even
// then are ended a little before, so that their clients are told in time.
func (f *serveFlags) shutDown(h *host.Host, loop *engine.Loop) {
	whole := max(f.drain, time.Second)
	ctx, cancel := context.WithTimeout(context.Background(), min(f.drain, whole-min(whole/2, 2*time.Second)))
	defer cancel()
	drained := make(chan struct{})
	go func() { loop.Drain(ctx); close(drained) }()
	last, done := context.WithTimeout(context.Background(), whole)
	defer done()
	h.Shutdown(last)
	<-drained
}

// handler puts everything together that answers.
func (f *serveFlags) handler(api *server.Server, maxBody int64, origins *guard.Origins, keys *guard.Keys, metrics *telemetry.Metrics, tracing *telemetry.Tracing, logs zerolog.Logger, static ...gin.HandlerFunc) (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	if err := e.SetTrustedProxies(nil); err != nil {
		return nil, err
	}
	public := []string{"/health", "/v1/health", "/models", "/v1/models", "/openapi.json"}
	if f.ownPage() {
		public = append(public, page.Paths()...)
	}
	for i, path := range public {
		public[i] = f.prefix + path
	}
	e.Use(guard.Identify(), metrics.Requests(logs), guard.Recover(logs),
		guard.Hosts(slices.Concat(f.allowedHosts, f.hosts), host.Loopback), guard.CrossOrigin(origins))
	e.Use(static...)
	e.Use(guard.Auth(keys, public), guard.Body(maxBody),
		otelgin.Middleware("quern", otelgin.WithTracerProvider(tracing.Provider), otelgin.WithPropagators(tracing.Propagator)))
	routes := e.Group(f.prefix)
	api.Register(routes)
	if f.metrics {
		routes.GET("/metrics", gin.WrapH(metrics.Handler()))
	} else {
		routes.GET("/metrics", api.Missing("this server does not show its metrics; start it with --metrics"))
	}
	if f.ownPage() {
		chat := gin.WrapH(http.StripPrefix(f.prefix, page.Handler()))
		for _, path := range page.Paths() {
			routes.GET(path, chat)
			routes.HEAD(path, chat)
		}
	}
	api.Fallback(e)
	return e, nil
}

// ownPage tells whether the page to chat with is served.
func (f *serveFlags) ownPage() bool { return f.page && f.path == "" }

// pings is the silence after which a stream sends a comment.
func pings(seconds int) time.Duration {
	if seconds <= 0 {
		return -1 // never
	}
	return time.Duration(seconds) * time.Second
}

// warn tells of flags that do something else than llama-server's users expect.
func (f *serveFlags) warn(logs zerolog.Logger) {
	f.model.warn(func(line string) { logs.Warn().Msg(line) })
	if fs := f.model.flags; fs.Changed("parallel") && fs.Changed("ctx-size") {
		logs.Info().Int("ctx_size", f.model.ctx).Int("parallel", f.parallel).Msg("--ctx-size is the context of each request: --parallel does not divide it, and requests share one memory")
	}
}

// pages are what is answered beside the API.
func (f *serveFlags) pages() []server.Page {
	pages := []server.Page{
		{Path: "/livez", Summary: "Whether the process answers", ContentType: "text/plain"},
		{Path: "/readyz", Summary: "Whether requests are served: the model is loaded, and the server not shutting down", ContentType: "text/plain"},
		{Path: "/startupz", Summary: "Whether the model is loaded", ContentType: "text/plain"},
	}
	if f.metrics {
		pages = append(pages, server.Page{Path: "/metrics", Summary: "Metrics for Prometheus", ContentType: "text/plain"})
	}
	if f.ownPage() {
		pages = append(pages, server.Page{Path: "/", Summary: "A page to chat with", ContentType: "text/html"})
	}
	return pages
}

// announce says where the server is to be found.
func (f *serveFlags) announce(logs zerolog.Logger, listeners []net.Listener, l loadResult, took time.Duration) {
	var at []string
	for _, n := range listeners {
		at = append(at, n.Addr().String())
	}
	used := l.budget.Used()
	limit, _ := l.budget.Limit()
	cost := l.loop.Status().Cost
	logs.Info().Strs("address", at).Str("model", filepath.Base(f.model.path)).Dur("load", took).Int("context", l.eng.Ctx()).
		Int("parallel", f.parallel).Int("threads", l.eng.Threads()).Str("memory", mem.FormatBytes(used)+" of "+mem.FormatBytes(limit)).
		Dur("first_token_ms", cost.First).Dur("prompt_token_ms", cost.Each).Msg("ready")
}

// observed is an engine whose requests are measured.
type observed struct {
	*engine.Loop
	observer *telemetry.Observer
}

func (o observed) Submit(r *engine.Request) (server.Ticket, error) {
	o.observer.Watch(r)
	t, err := o.Loop.Submit(r)
	if err != nil {
		o.observer.Refused(err)
		return nil, err // not a Ticket that is nil inside
	}
	return t, nil
}

// loadResult is a model that is loaded, or why not.
type loadResult struct {
	eng    *engine.Engine
	loop   *engine.Loop
	budget *mem.Budget
	err    error
}

func (l loadResult) close() {
	l.loop.Close()
	l.eng.Close()
}

// load loads the model and starts its loop.
func (f *serveFlags) load(in *head, metrics *telemetry.Metrics, logs zerolog.Logger, stderr io.Writer) (l loadResult) {
	cfg, err := f.model.config(in.cfg.NCtx)
	if err != nil {
		in.file.Close()
		return loadResult{err: err}
	}
	cfg.Ctx = max(f.model.ctx, 0)
	cfg.Batch = f.model.pass()
	cfg.Shared, cfg.Sequences, cfg.KVBytes = true, f.parallel, f.kvMemory
	bar := newLoadBar(stderr)
	cfg.Progress = bar.update
	l.budget = cfg.Budget
	l.eng, l.err = engine.New(in.file, cfg)
	bar.done()
	if l.err != nil {
		return l
	}
	l.loop, l.err = engine.NewLoop(l.eng, engine.LoopConfig{
		Queue: f.queue, TargetITL: f.targetITL, OnPass: metrics.Pass,
		OnPanic: func(p *engine.PanicError) {
			logs.Error().Uint64("sequence", p.Request).Interface("panic", p.Value).Bytes("stack", p.Stack).Msg("a request panicked; it was ended")
		},
	})
	if l.err != nil {
		l.eng.Close()
	}
	return l
}
