package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"go.opentelemetry.io/contrib/instrumentation/github.com/gin-gonic/gin/otelgin"
	"go.opentelemetry.io/otel"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/guard"
	"github.com/quern-llm/quern/go/server/host"
	"github.com/quern-llm/quern/go/server/page"
	"github.com/quern-llm/quern/go/server/telemetry"
)

func newServeCommand() *cobra.Command {
	var f serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve models over HTTP",
		Long: `Serve models over HTTP: the APIs of OpenAI, Anthropic, Ollama and llama-server,
metrics at /metrics, probes at /livez, /readyz and /startupz, an OpenAPI description
at /openapi.json, and a chat page at /.

Requests share the machine (continuous batching): generating sequences go first, and
prompts get the rest of the time between two tokens. A prefix cache avoids computing
the same text twice. On SIGTERM running requests may finish within --drain; a second
SIGTERM ends the process.

-m is repeatable: requests select a model by name; the default is the first. Models
of --models-dir and --models-preset are loaded when a request names them; when memory
is short, others are unloaded. All share the threads and the memory of the machine.

Without -m the models are those downloaded by "quern pull", besides --models-dir, and
clients may download others. If there is none yet, the embedded demo model is served,
a small one that tells stories; -m demo names it too. Sampling settings come from the
request, the flags, the model's file (general.sampling.*), or the defaults below.

llama-server's other flags and its environment variables are accepted too: they work
as in llama-server, a log line says what applies instead, or an error says what to do
instead. docs/migrating.md lists them all.`,
		Example: `  quern serve
  quern serve -m model.gguf
  quern serve -m small=model-1b.gguf -m large=model-8b.gguf
  quern serve -m hf.co/ggml-org/gemma-3-1b-it-GGUF --yes
  quern serve --models-dir models --sleep-idle-seconds 600
  quern serve -m model.gguf --host 0.0.0.0 --port 80 --api-key-file keys.txt`,
		Args: flagsAlone,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	f.define(cmd.Flags())
	return cmd
}

// run implements "quern serve".
func (f *serveFlags) run(ctx context.Context, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	logs, closeLog, err := f.log.open(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	// All configuration is validated before a model is loaded.
	fleet, err := f.readModels(logs)
	if err != nil {
		return err
	}
	loading := false
	defer func() {
		if !loading {
			fleet.close()
		}
	}()
	f.warn(logs)
	if _, err := f.requests.defaults(); err != nil {
		return err
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
		if f.mcp != "" {
			return usagef("--mcp: whoever reaches %s could call the tools, since there is no API key; give one with --api-key or --api-key-file, or --host 127.0.0.1", strings.Join(f.hosts, ", "))
		}
		if f.requireKey {
			return usagef("--require-key: %s can be reached by others and there is no API key; give one with --api-key or --api-key-file", strings.Join(f.hosts, ", "))
		}
		logs.Warn().Strs("host", f.hosts).Msg("ANYBODY WHO REACHES THIS ADDRESS CAN USE THE MODEL: there is no API key; give one with --api-key-file, or --host 127.0.0.1")
	}
	if f.mcp != "" && keys.Len() == 0 && slices.Contains(f.allowedHosts, "*") {
		return usagef("--mcp: with --allowed-hosts * and no API key, any page could call the tools under a name of its own; give a key with --api-key or --api-key-file, or name the hosts")
	}
	if weak := keys.Weak(); weak != nil {
		if !host.Local(f.hosts) {
			return usagef("%w, from --api-key or --api-key-file: others reach %s, and can guess it", weak, strings.Join(f.hosts, ", "))
		}
		logs.Warn().Msg(weak.Error() + " before others can reach the server")
	}
	if keyInArguments(os.Args[1:]) {
		logs.Warn().Msg("--api-key: everybody on this machine can read the keys in the process's command line; give them with --api-key-file, or as sha256: and the hash")
	}
	tools, closeTools, err := f.tools(ctx, logs)
	if err != nil {
		return err
	}
	defer closeTools()
	tracing, err := telemetry.NewTracing(f.traces, readBuild().Version)
	if err != nil {
		return err
	}
	defer tracing.Close()
	push, err := telemetry.NewPush(readBuild().Version)
	if err != nil {
		return err
	}
	defer push.Close()
	if push.Off != "" {
		logs.Warn().Msg("metrics are not pushed: " + push.Off)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logs.Warn().Err(err).Msg("telemetry was not sent") }))
	var api *server.Server
	metrics := telemetry.NewMetrics(telemetry.MetricsConfig{
		State: func(model string) telemetry.ModelState {
			st, _ := api.Models().Status(model) // of one that was removed, nothing
			return telemetry.ModelState{State: st.State.String(), Bytes: st.Bytes, Leases: st.Leases}
		},
		VLLM: f.vllmMetrics, OneModel: len(fleet) == 1 && !f.usesCache() && f.modelsDir == "" && f.presets == "", Meter: push.Meter})
	batches, err := f.openBatches(keys.Len() > 1)
	if err != nil {
		return err
	}
	if batches != nil {
		defer batches.Close()
	}
	if f.disk = f.openDisk(logs); f.disk != nil {
		defer f.disk.Close()
	}
	go func() { // beside the loading of models
		if err := form.Prepare(); err != nil {
			logs.Warn().Err(err).Msg("formats of JSON Schema are made when they are first asked for")
		}
	}()
	device, err := f.model.device().Open()
	if err != nil {
		return err
	}
	l := &loader{f, device, metrics, tracing, logs, stderr}
	list := &lister{loader: l, all: map[string]*listed{}}
	var downloads server.Library // a nil *library would be no nil Library
	switch lib, err := f.library(list); {
	case err != nil:
		logs.Warn().Err(err).Msg("clients cannot download models")
	case lib != nil:
		downloads = lib
	}
	list.api = server.New(server.Config{
		Models: models.Config{
			Most: f.most, Manual: !f.autoload, KeepAlive: f.keepAlive, Sleep: time.Duration(max(f.sleep, 0)) * time.Second,
			Stay: stay, Queue: f.parallel + f.queue, Memory: shared{device},
			OnPanic: l.panicked,
		},
		Rescan: func() error {
			_, err := list.scan()
			return err
		},
		Library:  downloads,
		Device:   device,
		Build:    "quern-" + readBuild().Version,
		SlotPath: f.slotPath,
		Batches:  batches,
		Disk:     f.disk,
		LoraDir:  f.adapters.dir,
		Ping:     pings(f.ping),
		NoSlots:  !f.slots,
		Tools:    tools,
		ToolTime: f.mcpTimeout,

		StoreBytes: f.storeMemory,
		StoreTime:  f.storeTime,

		Caller: func(c *gin.Context) server.Caller {
			key := guard.KeyOf(c, keys)
			caller := server.Caller{Flow: key.Name, Weight: key.Weight, Admin: key.Admin, Priority: key.Priority}
			if keys.Len() > 0 {
				caller.Owner = key.Name
			}
			return caller
		},
		MaxBody: func(c *gin.Context) int64 { return c.GetInt64(guard.MostBody) },
		Known:   func(c *gin.Context) bool { return c.GetString(guard.Client) != "" },
		Apart:   f.cacheApart,
		Note:    telemetry.Note,
		Log:     logs,
		Besides: f.pages(),
	})
	api = list.api
	for _, src := range l.sources(fleet) {
		if err := api.Add(src); err != nil {
			return usagef("%w; name them with -m NAME=FILE", err)
		}
	}
	startup, err := list.scan()
	if err != nil {
		return err
	}
	device.Shed(api.Models().Shed)
	var static []gin.HandlerFunc
	if f.path != "" {
		serve, done, err := files(f.path, f.prefix)
		if err != nil {
			return err
		}
		defer done()
		static = append(static, serve)
	}
	handler, err := f.handler(api, f.maxBody(api.LongestContext()), origins, keys, metrics, tracing, logs, static...)
	if err != nil {
		return err
	}
	listeners, err := host.Listen(f.hosts, f.port, f.shared, f.certFile, f.keyFile)
	if err != nil {
		return err
	}
	h := host.New(guard.Unprefixed(handler), f.prefix, time.Duration(f.timeout)*time.Second, log.New(logs.With().Str("from", "net/http").Logger(), "", 0))
	h.Alive = func() error { return alive(device) }
	served := make(chan error, 1)
	go func() { served <- h.Serve(listeners) }()
	defer h.Close()

	// The first signal drains; the second has its default effect and kills the process.
	stop, cancel := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(stop, cancel)
	whole := f.drainDelay + f.drain + lastTime
	context.AfterFunc(stop, func() { time.AfterFunc(whole, func() { abandon(logs, whole) }) })

	idle, end := context.WithCancel(stop)
	var background sync.WaitGroup
	background.Go(func() { f.watch(idle, device, logs) }) // limits may change while models are loaded, which may take minutes
	defer background.Wait()
	defer end()

	metrics.Read(device, f.disk, readBuild().Version)
	loaded := make(chan error, 1)
	loading = true // from here on the loader owns the files
	go func() { loaded <- l.load(fleet, api) }()
	select {
	case err := <-served:
		return err
	case <-stop.Done():
		logs.Info().Msg("stopped while models were being loaded")
		return nil // as when they are
	case err := <-loaded:
		if err != nil {
			return err
		}
	}
	down := &ending{api: api}
	defer func() {
		if down.end(0, nil) {
			device.Close()
		}
	}()
	f.announce(logs, listeners, device, api.Models().Names())
	h.Ready()
	for _, name := range startup {
		if err := api.Models().Load(name); err != nil {
			logs.Warn().Str("model", name).Err(err).Msg("it cannot be loaded")
		}
	}
	background.Go(func() { api.RunBatches(idle) })
	defer background.Wait() // before the device is closed
	defer end()

	select {
	case err := <-served:
		return err
	case <-stop.Done():
	}
	h.Drain()
	if f.drainDelay > 0 { // until load balancers have seen that the server is not ready
		logs.Info().Dur("delay_ms", f.drainDelay).Msg("not ready any more: requests are still taken")
		time.Sleep(f.drainDelay)
	}
	logs.Info().Dur("drain_ms", f.drain).Msg("shutting down: what runs may finish; a second signal ends it now")
	f.shutDown(h, down)
	logs.Info().Msg("stopped")
	return nil
}

// lastTime is how long the process may take to end after --drain-delay and --drain: cached prefixes are written to disk for up to
// 5 s.
const lastTime = 8 * time.Second

// abandon ends a process that does not end by itself.
func abandon(logs zerolog.Logger, after time.Duration) {
	logs.Error().Dur("after_ms", after).Msg("not everything has stopped: the process ends now")
	os.Exit(1)
}

// alive returns an error if a model has stopped serving its requests.
func alive(device *engine.Device) error {
	if t := device.Stalled(); t > engine.StallTime {
		return fmt.Errorf("stalled: requests wait for a model that has finished no pass for %.0f s", t.Seconds())
	}
	return nil
}

// shutDown lets requests finish within --drain. Those that still run shortly before its
// end are cancelled, early enough to tell their clients.
func (f *serveFlags) shutDown(h *host.Host, down *ending) {
	whole := max(f.drain, time.Second)
	down.end(min(f.drain, whole-min(whole/2, 2*time.Second)), func() {
		last, done := context.WithTimeout(context.Background(), whole)
		defer done()
		h.Shutdown(last)
	})
}

// An ending unloads all models, once.
type ending struct {
	api  *server.Server
	once sync.Once
	all  bool
}

// end lets requests finish within a time while shutdown runs, and then unloads the models. It reports whether all are unloaded:
// one that is being loaded is not waited for.
func (e *ending) end(drain time.Duration, shutdown func()) bool {
	e.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		down := make(chan struct{})
		go func() {
			defer close(down)
			if shutdown != nil {
				shutdown()
			}
		}()
		e.all = e.api.Close(ctx, func(i models.Instance[server.Model]) {
			i.(*resident).loop.Drain(ctx)
			<-down // until then handlers use it
		})
		<-down
	})
	return e.all
}

// handler assembles the middleware and the handlers.
func (f *serveFlags) handler(api *server.Server, maxBody int64, origins *guard.Origins, keys *guard.Keys, metrics *telemetry.Metrics, tracing *telemetry.Tracing, logs zerolog.Logger, static ...gin.HandlerFunc) (*gin.Engine, error) {
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	if err := e.SetTrustedProxies(nil); err != nil {
		return nil, err
	}
	public := []string{"/api/hello", "/health", "/v1/health", "/models", "/v1/models", "/openapi.json"}
	if f.ownPage() {
		public = append(public, page.Paths()...)
	}
	for i, path := range public {
		public[i] = f.prefix + path
	}
	e.Use(guard.Identify(), metrics.Requests(logs), guard.Recover(logs),
		guard.Hosts(slices.Concat(f.allowedHosts, f.hosts), host.Loopback, func(r *http.Request) bool { return keys.Len() == 0 && host.Network(r) }),
		guard.CrossOrigin(origins))
	e.Use(static...)
	e.Use(guard.Headers(), guard.Auth(keys, public), guard.Body(maxBody, map[string]int64{f.prefix + "/v1/files": batch.MaxFile + 1<<20}),
		otelgin.Middleware("", otelgin.WithTracerProvider(tracing.Provider), otelgin.WithPropagators(tracing.Propagator)), telemetry.Operations())
	routes := e.Group(f.prefix)
	api.Register(routes)
	shown := gin.WrapH(metrics.Handler())
	if !f.metrics {
		shown = api.Missing("this server does not show its metrics; start it with --metrics")
	}
	routes.GET("/metrics", shown)
	routes.HEAD("/metrics", shown)
	if f.ownPage() {
		chat := gin.WrapH(http.StripPrefix(f.prefix, page.Handler()))
		for _, path := range page.Paths() {
			routes.GET(path, chat)
			routes.HEAD(path, chat)
		}
	}
	// Claude Code opens its connection with this, before it has anything to ask.
	routes.HEAD("/api/hello", func(c *gin.Context) { c.Status(http.StatusOK) })
	api.Fallback(e)
	return e, nil
}

// ownPage tells whether the built-in chat page is served.
func (f *serveFlags) ownPage() bool { return f.page && f.path == "" }

// pings is the silence after which a stream sends a comment.
func pings(seconds int) time.Duration {
	if seconds <= 0 {
		return -1 // never
	}
	return time.Duration(seconds) * time.Second
}

// warn logs flags that do not do what llama-server's users expect.
func (f *serveFlags) warn(logs zerolog.Logger) {
	f.model.warn(func(line string) { logs.Warn().Msg(line) })
	if fs := f.model.flags; fs.Changed("parallel") && fs.Changed("ctx-size") {
		logs.Info().Int("ctx_size", f.model.ctx).Int("parallel", f.parallel).Msg("--ctx-size is the context of each request: --parallel does not divide it, and requests share one memory")
	}
}

// pages are the endpoints besides the API.
func (f *serveFlags) pages() []server.Page {
	pages := []server.Page{
		{Path: "/livez", Summary: "Whether the process works: it answers, and no model has stopped", ContentType: "text/plain"},
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

// announce logs the addresses of the server.
func (f *serveFlags) announce(logs zerolog.Logger, listeners []net.Listener, device *engine.Device, names []string) {
	var at []string
	for _, n := range listeners {
		at = append(at, n.Addr().String())
	}
	used := device.Budget().Used()
	limit, _ := device.Budget().Limit()
	line := logs.Info().Strs("address", at)
	if page := f.pageAt(listeners); page != "" {
		line.Str("page", page)
	}
	line.Strs("models", names).Int("parallel", f.parallel).Int("threads", device.Threads()).
		Str("cpus", placed(device.Placement())).
		Uint64("memory_bytes", used).Uint64("limit_bytes", limit).Msg("ready")
}

// pageAt returns the URL of the page on this machine; empty where none is served, or not at a port.
func (f *serveFlags) pageAt(listeners []net.Listener) string {
	if !f.page && f.path == "" {
		return ""
	}
	for _, l := range listeners {
		at, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			continue
		}
		u := url.URL{Scheme: "http", Host: net.JoinHostPort(at.IP.String(), strconv.Itoa(at.Port)), Path: f.prefix + "/"}
		if at.IP.IsUnspecified() {
			u.Host = net.JoinHostPort("localhost", strconv.Itoa(at.Port))
		}
		if f.certFile != "" {
			u.Scheme = "https"
		}
		return u.String()
	}
	return ""
}
