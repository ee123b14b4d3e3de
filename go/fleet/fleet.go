// Package fleet serves models over HTTP: those that are loaded at the start, and those of a catalog, which are
// loaded when a request names them. It puts together what the packages below have: models share the machine by
// package models, package server answers, package guard decides who may ask, and package host listens.
//
// A Config is a plain struct: how a program comes by it is its own affair. Errors name a setting by the flag that
// "quern serve" has for it.
package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
	"go.opentelemetry.io/otel"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/internal/usage"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/machine"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/guard"
	"github.com/quern-llm/quern/go/server/host"
	"github.com/quern-llm/quern/go/server/quota"
	"github.com/quern-llm/quern/go/server/telemetry"
)

// Config says which models are served, where, and to whom. Its zero value serves nothing; a Model, or a Catalog,
// is enough.
type Config struct {
	// Server is the API. What the fleet has itself is set by it: Models.Memory and the like, Device, Library,
	// Tools, Caller, Log.
	Server  server.Config
	Version string // of the program
	Log     zerolog.Logger

	Device  launch.DeviceSettings
	Files   *launch.Files // opens models; nil: a new one
	Models  []Model       // that are loaded at the start, the default first
	Catalog Catalog
	// Parallel is how many requests of a model run at a time, where its settings leave it open; 0: 32.
	Parallel int

	Loading launch.Bar // of each model that is loaded; nil: nothing is shown

	Address Address
	Access  Access
	MaxBody int64 // bytes of a request's body; 0: enough for the longest context

	BatchDir   string // of files and batches; empty: there are none
	BatchBytes uint64 // maximum size; 0: 10 GiB
	FineTuning bool   // clients may fine-tune models; needs BatchDir
	KeepFile   string // that prompts and answers are appended to; empty: they are not kept
	KeepBytes  uint64 // maximum size; 0: 1 GiB
	DiskDir    string // extends the prefix cache; empty: memory only
	DiskBytes  uint64 // maximum size; 0: 10 GiB

	MCP string // servers with tools: a JSON file, or the JSON itself; empty: none
	// OwnTools are names of llama-server's tools, which work in the folder ToolsDir, in a sandbox; none: there are none.
	OwnTools []string
	ToolsDir string

	NoMetrics   bool   // GET /metrics is refused
	VLLMMetrics bool   // it has vLLM's gauges as well
	AuditLog    string // file of a line for each request; empty: none
	Traces      string // URL of an OpenTelemetry collector; empty: none
	NoPage      bool   // there is no page to chat with
	PageDir     string // of a page in place of the built-in one

	DrainDelay time.Duration // from the end on in which requests are still taken
	Drain      time.Duration // and then for those that run to finish

	// Ready, unless it is nil, is called with the addresses once the models of the start are loaded, in a goroutine
	// of its own.
	Ready func([]net.Addr)
	// Stopping, unless it is nil, is called when a server that was ready begins to end.
	Stopping func()
}

// ownPage reports whether the built-in chat page is served.
func (c *Config) ownPage() bool { return !c.NoPage && c.PageDir == "" }

// defaultParallel is how many requests of a model run at a time where the settings leave it open.
const defaultParallel = 32

// showsPage reports whether there is a page, the built-in one or another.
func (c *Config) showsPage() bool { return !c.NoPage || c.PageDir != "" }

// A Fleet is the models of a server.
type Fleet struct {
	c       Config
	log     zerolog.Logger
	start   []*member          // the models of the start
	startup []string           // models of the catalog that are loaded then
	shared  []*persona.Persona // of models of the start

	lister  *lister
	device  *engine.Device
	api     *server.Server
	metrics *telemetry.Metrics
	tracing *telemetry.Tracing
	audit   *telemetry.Audit // nil: there is none
	host    *host.Host
	at      []net.Listener

	closers []func() // of what is open, in the order of opening
	loading bool     // files of the start are the loader's
}

// Serve serves models until ctx ends, and then lets requests finish.
func Serve(ctx context.Context, c Config) error {
	f, err := New(ctx, c)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Serve(ctx)
}

// New checks the configuration, reads the heads of the models of the start, and listens. Nothing is loaded yet.
func New(ctx context.Context, c Config) (_ *Fleet, err error) {
	if c.Files == nil {
		c.Files = &launch.Files{}
	}
	if handed := c.Address.Handed; len(handed) > 0 {
		c.Address.Hosts = host.Hosts(handed)
	} else if len(c.Address.Hosts) == 0 {
		c.Address.Hosts = []string{"127.0.0.1"}
	}
	c.Parallel = cmp.Or(c.Parallel, defaultParallel)
	c.Access.everybody = quota.New(quota.Limits{}, nil)
	f := &Fleet{c: c, log: c.Log}
	f.share()
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	for _, open := range []func(context.Context) error{
		f.readModels, f.openIssuers, f.checkAccess, f.openTools, f.openTelemetry, f.openStores, f.openDevice, f.openServer, f.listen,
	} {
		if err = open(ctx); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// Close closes what is open, in the reverse order.
func (f *Fleet) Close() {
	for _, end := range slices.Backward(f.closers) {
		end()
	}
	f.closers = nil
}

// onClose has Close call a function.
func (f *Fleet) onClose(end func()) { f.closers = append(f.closers, end) }

// openTelemetry opens metrics and traces.
func (f *Fleet) openTelemetry(context.Context) (err error) {
	if f.tracing, err = telemetry.NewTracing(f.c.Traces, f.c.Version); err != nil {
		return err
	}
	f.onClose(f.tracing.Close)
	if path := f.c.AuditLog; path != "" {
		if f.audit, err = telemetry.NewAudit(path, f.log); err != nil {
			return usage.Errorf("--audit-log: %w", err)
		}
		f.audit.Prefix = f.c.Address.Prefix
		f.onClose(f.audit.Close)
	}
	push, err := telemetry.NewPush(f.c.Version)
	if err != nil {
		return err
	}
	f.onClose(push.Close)
	if push.Off != "" {
		f.log.Warn().Msg("metrics are not pushed: " + push.Off)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { f.log.Warn().Err(err).Msg("telemetry was not sent") }))
	energy, err := machine.NewEnergyMeter()
	if err != nil {
		f.log.Debug().Msg("energy is not measured: " + err.Error())
	}
	f.metrics = telemetry.NewMetrics(telemetry.MetricsConfig{
		State: func(model string) telemetry.ModelState {
			st, _ := f.api.Models().Status(model) // of one that was removed, nothing
			return telemetry.ModelState{State: st.State.String(), Bytes: st.Bytes, Leases: st.Leases}
		},
		VLLM: f.c.VLLMMetrics, OneModel: len(f.start) == 1 && f.c.Catalog.none(), Meter: push.Meter, Energy: energy,
		Keys: f.c.Access.totals,
	})
	return nil
}

// openStores opens what is kept on disk.
func (f *Fleet) openStores(context.Context) error {
	if f.c.FineTuning && f.c.BatchDir == "" {
		return usage.Errorf("--fine-tuning: examples and models are kept in the folder of --batch-dir; give one")
	}
	if dir := f.c.BatchDir; dir != "" {
		owners := f.c.Access.keys().Several()
		batches, err := batch.Open(dir, int64(min(cmp.Or(f.c.BatchBytes, defaultStore), maxStore)), owners)
		if err != nil {
			return usage.Errorf("--batch-dir: %w", err)
		}
		f.onClose(batches.Close)
		f.c.Server.Batches = batches
		if f.c.FineTuning {
			f.c.Server.Tune = tuner{f}
		}
	}
	if path := f.c.KeepFile; path != "" {
		const most = 1 << 30
		kept, err := answer.OpenKept(path, cmp.Or(f.c.KeepBytes, most), f.log)
		if err != nil {
			return usage.Errorf("--keep-answers: %w", err)
		}
		f.onClose(func() { kept.Close() })
		f.c.Server.Kept = kept
	}
	if disk := f.openDisk(); disk != nil {
		f.onClose(func() { disk.Close() })
		f.c.Server.Disk = disk
	}
	go func() { // beside the loading of models
		if err := form.Prepare(); err != nil {
			f.log.Warn().Err(err).Msg("formats of JSON Schema are made when they are first asked for")
		}
	}()
	return nil
}

// openDevice opens the device. Once models are loaded, Serve closes it when all are unloaded.
func (f *Fleet) openDevice(context.Context) (err error) {
	if f.device, err = f.c.Device.Open(); err != nil {
		return err
	}
	f.onClose(func() {
		if !f.loading {
			f.device.Close()
		}
	})
	return nil
}

// stay is the least time that a model is in memory while others wait for it.
const stay = 2 * time.Second

// A shared is the memory of a device as models share it.
type shared struct{ *engine.Device }

// Free implements models.Memory.
func (s shared) Free() uint64 { return s.Budget().Free() }

// openServer makes the API, with the models of the start and of the catalog.
func (f *Fleet) openServer(context.Context) error {
	catalog := &lister{fleet: f, all: map[string]*listed{}}
	f.lister = catalog
	c := f.c.Server
	c.Build = "quern-" + f.c.Version
	c.Models.Stay, c.Models.Memory, c.Models.OnPanic = stay, shared{f.device}, f.panicked
	c.Rescan = func() error {
		_, err := catalog.scan()
		return err
	}
	if f.c.Catalog.Hub != nil && f.c.Catalog.Pulls {
		c.Library = &library{f.c.Catalog.Hub, f.c.Catalog.Fits, catalog}
	}
	c.Device, c.Log, c.Besides = f.device, f.log, f.pages()
	c.Caller, c.Account, c.Known, c.Note, c.MaxBody = f.c.Access.caller, f.c.Access.account, known, telemetry.Note, mostBody
	c.Keys = f.c.Access.counted
	if f.audit != nil {
		c.Batched = func(c *gin.Context, begun time.Time, owner string) {
			f.audit.Batched(c, begun, f.c.Access.called(owner))
		}
	}
	f.api = server.New(c)
	for _, src := range f.sources() {
		if err := f.api.Add(src); err != nil {
			return usage.Errorf("%w; name them with -m NAME=FILE", err)
		}
	}
	var err error
	if f.startup, err = catalog.scan(); err != nil {
		return err
	}
	f.device.Shed(f.api.Models().Shed)
	return nil
}

// listen opens the listeners.
func (f *Fleet) listen(context.Context) error {
	handler, err := f.handler()
	if err != nil {
		return err
	}
	a := &f.c.Address
	var all http.Handler = handler
	if v := a.Vertex; v != nil {
		if all, err = v.Handler(handler, a.Prefix, f.c.Parallel); err != nil {
			return usage.Errorf("%w", err)
		}
		a.Port = v.Port
	}
	if len(a.Handed) > 0 {
		f.at, err = host.Secure(a.Handed, a.CertFile, a.KeyFile)
	} else {
		f.at, err = host.Listen(a.Hosts, a.Port, a.Shared, a.CertFile, a.KeyFile)
	}
	if err != nil {
		return err
	}
	errors := log.New(f.log.With().Str("from", "net/http").Logger(), "", 0)
	f.host = host.New(guard.Unprefixed(all), a.Prefix, cmp.Or(a.Timeout, 30*time.Second), errors)
	f.host.Alive = f.alive
	f.onClose(func() {
		f.host.Leave()
		f.host.Close()
	})
	return nil
}

// alive returns an error if a model has stopped serving its requests.
func (f *Fleet) alive() error {
	if t := f.device.Stalled(); t > engine.StallTime {
		return fmt.Errorf("stalled: requests wait for a model that has finished no pass for %.0f s", t.Seconds())
	}
	return nil
}

// Serve loads the models of the start and answers requests until ctx ends; then it lets those that run finish.
func (f *Fleet) Serve(ctx context.Context) error {
	served := make(chan error, 1)
	accept := func() { go func() { served <- f.host.Serve(f.at) }() }
	handed := len(f.c.Address.Handed) > 0
	if !handed { // clients and probes are told that models are being loaded
		accept()
	}

	idle, end := context.WithCancel(ctx)
	var background sync.WaitGroup
	background.Go(func() { f.followKeys(idle) })
	background.Go(func() { f.watch(idle) }) // limits may change while models are loaded, which may take minutes
	defer background.Wait()
	defer end()

	f.metrics.Read(f.device, f.c.Server.Disk, f.c.Version)
	loaded := make(chan error, 1)
	f.loading = true // from here on the loader owns the files
	go func() { loaded <- f.load() }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		f.log.Info().Msg("stopped while models were being loaded")
		return nil // as when they are
	case err := <-loaded:
		if err != nil {
			return err
		}
	}
	down := &ending{api: f.api}
	defer func() {
		now, cancel := context.WithCancel(context.Background())
		cancel()
		if down.end(now, now, nil) {
			f.device.Close()
		}
	}()
	f.announce()
	f.tellUnknown()
	f.host.Ready()
	if handed { // until now another server may have taken the connections, or they have waited
		accept()
	}
	if f.c.Ready != nil {
		go f.c.Ready(f.Addresses())
	}
	for _, name := range f.startup {
		if err := f.api.Models().Load(name); err != nil {
			f.log.Warn().Str("model", name).Err(err).Msg("it cannot be loaded")
		}
	}
	background.Go(func() { f.api.RunBatches(idle) })
	background.Go(func() { f.api.RunTuning(idle) })
	defer background.Wait() // before the device is closed
	defer end()

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	f.host.Drain()
	if handed { // whoever has the sockets too takes those that come; a load balancer has nothing to notice
		f.host.Leave()
	}
	if f.c.Stopping != nil {
		f.c.Stopping()
	}
	if f.c.DrainDelay > 0 { // until load balancers have seen that the server is not ready
		f.log.Info().Dur("delay_ms", f.c.DrainDelay).Msg("not ready any more: requests are still taken")
		time.Sleep(f.c.DrainDelay)
	}
	f.log.Info().Dur("drain_ms", f.c.Drain).Msg("shutting down: what runs may finish; a second signal ends it now")
	f.shutDown(down)
	f.log.Info().Msg("stopped")
	return nil
}

// ReopenLogs opens the audit log again, which may have been renamed.
func (f *Fleet) ReopenLogs() { f.audit.Reopen() }

// Addresses returns where the server listens.
func (f *Fleet) Addresses() (all []net.Addr) {
	for _, l := range f.at {
		all = append(all, l.Addr())
	}
	return all
}

// shutDown accepts no more connections, and lets the requests of those that there are finish within the time for
// that. Those that still run shortly before its end are cancelled, early enough to tell their clients.
func (f *Fleet) shutDown(down *ending) {
	whole := max(f.c.Drain, time.Second)
	last, done := context.WithTimeout(context.Background(), whole)
	defer done()
	ctx, cancel := context.WithTimeout(last, min(f.c.Drain, whole-min(whole/2, 2*time.Second)))
	defer cancel()
	down.end(ctx, last, func() { f.host.Shutdown(last) })
}

// An ending unloads all models, once.
type ending struct {
	api  *server.Server
	once sync.Once
	all  bool
}

// end waits for shutdown, unless it is nil, within ctx: until then requests come from connections that were accepted
// before. Then it refuses requests, lets those that run finish within ctx, and unloads the models. It reports whether all
// are unloaded: one that is being loaded is waited for until last ends.
func (e *ending) end(ctx, last context.Context, shutdown func()) bool {
	e.once.Do(func() {
		down := make(chan struct{})
		go func() {
			defer close(down)
			if shutdown != nil {
				shutdown()
			}
		}()
		if shutdown != nil {
			e.api.Leave()
		}
		select {
		case <-down:
		case <-ctx.Done():
		}
		e.all = e.api.Close(last, func(i models.Instance[ask.Model]) {
			i.Drain(ctx)
			<-down // until then handlers use it
		})
		<-down
	})
	return e.all
}

// load loads the models of the start in order.
func (f *Fleet) load() error {
	aside, err := f.setAside()
	if err != nil {
		return err
	}
	for i, m := range f.start {
		if i < len(aside) {
			aside[i].Release()
		}
		if err := f.api.Load(m.Names[0]); err != nil {
			var why *models.LoadError
			if errors.As(err, &why) {
				err = why.Err // which names the file
			}
			return err
		}
	}
	return nil
}

// watchEvery is the time between two readings of the machine's limits.
const watchEvery = 2 * time.Second

// watch makes the device follow the machine's limits, which may change: a container may be resized.
func (f *Fleet) watch(ctx context.Context) {
	m, err := f.c.Device.Machine()
	if err != nil {
		f.log.Warn().Err(err).Msg("limits that change will not be followed")
		return
	}
	f.device.Watch(ctx, engine.WatchConfig{
		Machine: m, Memory: f.c.Device.Memory, Threads: f.c.Device.Threads == 0, Every: watchEvery,
		Log: func(line string) { f.log.Warn().Msg(line) },
	})
}
