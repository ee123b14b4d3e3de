package main

import (
	"context"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/fleet"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/platform"
	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/fetch"
	"github.com/quern-llm/quern/go/server/host"
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
SIGTERM ends the process. Sockets that systemd hands over count in place of --host and
--port.

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
	f.defineAll(cmd.Flags())
	return cmd
}

// run implements "quern serve".
func (f *serveFlags) run(ctx context.Context, stderr io.Writer) error {
	if err := f.check(); err != nil {
		return err
	}
	supervisor, err := platform.Supervised() // before anything starts a process, which would inherit them
	if err != nil {
		return usagef("%w", err)
	}
	logs, closeLog, err := f.log.open(stderr)
	if err != nil {
		return err
	}
	defer closeLog()
	f.warn(logs)
	asked, end := context.WithCancel(ctx)
	defer end()
	go func() {
		select {
		case <-supervisor.Asked:
			end()
		case <-asked.Done():
		}
	}()
	ranks, leave, err := f.ranks.join(ctx, f.opener(), f.device(), logs, end)
	if err != nil {
		return err
	}
	if ranks != nil && ranks.Group.Rank() > 0 {
		first, now, stop := signals(ctx)
		defer stop()
		err = follow(first, now, f.opener(), f.device(), *ranks, logs, nil)
	} else {
		err = f.serve(ctx, asked, ranks, supervisor, logs, stderr)
	}
	leave(err) // not where it panics: what leaving waits for may never come
	return err
}

// serve serves models until a signal, or the end of asked, which is as one.
func (f *serveFlags) serve(ctx, asked context.Context, ranks *engine.Ranks, supervisor platform.Supervisor, logs zerolog.Logger, stderr io.Writer) error {
	c, err := f.config(logs, stderr)
	if err != nil {
		return err
	}
	if err := f.supervise(&c, supervisor, logs); err != nil {
		return err
	}
	if ranks != nil {
		c.Models[0].Settings.Launch.Ranks = ranks
	}
	// The first signal drains; the second has its default effect and kills the process.
	stop, cancel := signal.NotifyContext(asked, os.Interrupt, syscall.SIGTERM)
	defer cancel()
	context.AfterFunc(stop, cancel)
	s, err := fleet.New(ctx, c) // which listens: from then on somebody may expect an end in order
	if err != nil {
		return err
	}
	defer s.Close()
	if f.audit != "" { // programs that rotate logs tell so by this signal
		hangups := make(chan os.Signal, 1)
		signal.Notify(hangups, syscall.SIGHUP)
		defer signal.Stop(hangups)
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case <-hangups:
					s.ReopenLogs()
				}
			}
		}()
	}
	if keyInArguments(os.Args[1:]) {
		logs.Warn().Msg("--api-key: everybody on this machine can read the keys in the process's command line; give them with --api-key-file, or as sha256: and the hash")
	}
	whole := f.drainDelay + f.drain + lastTime
	context.AfterFunc(stop, func() { time.AfterFunc(whole, func() { abandon(logs, supervisor, whole) }) })
	return s.Serve(stop)
}

// supervise has c serve the sockets of a supervisor, in place of the addresses of flags, and tell it how the server is.
func (f *serveFlags) supervise(c *fleet.Config, s platform.Supervisor, logs zerolog.Logger) (err error) {
	if c.Address.Handed, err = host.Handed(s.Sockets); err != nil {
		return usagef("%w", err)
	}
	if len(s.Sockets) > 0 {
		for _, name := range []string{"host", "port", "reuse-port"} {
			if f.flags.Changed(name) {
				logs.Warn().Strs("address", host.Hosts(c.Address.Handed)).Msg("--" + name + " does not count: the server was handed the sockets that it serves")
			}
		}
	}
	tell := func(state string) {
		if err := s.Tell(state); err != nil {
			logs.Warn().Err(err).Msg("the supervisor is not told " + state)
		}
	}
	c.Ready = func([]net.Addr) { tell("READY=1") }
	c.Stopping = func() { tell("STOPPING=1") }
	return nil
}

// config returns the flags as the configuration of a fleet.
func (f *serveFlags) config(logs zerolog.Logger, stderr io.Writer) (c fleet.Config, err error) {
	c = fleet.Config{
		Server: server.Config{
			SlotPath: f.slotPath, LoraDir: f.loraDir, Ping: pings(f.ping), NoSlots: !f.slots, ToolTime: f.mcpTimeout,
			ToolCalls: f.mcpCalls, ToolResult: int(f.mcpResult),
			Proxy: f.mcpProxy, StoreBytes: f.storeMemory, StoreTime: f.storeTime, Apart: f.cacheApart,
			Models: models.Config{
				Most: f.most, Manual: !f.autoload, KeepAlive: f.keepAlive, Sleep: time.Duration(max(f.sleep, 0)) * time.Second,
				Queue: f.parallel + f.queue,
			},
		},
		Version: readBuild().Version, Log: logs,
		Device: f.device(), Files: f.hub.files, Loading: barOn(stderr, "loading"), Parallel: f.parallel,
		Address: fleet.Address{
			Hosts: f.hosts, Port: f.port, Prefix: f.prefix, Shared: f.shared, CertFile: f.certFile, KeyFile: f.keyFile,
			Timeout: time.Duration(f.timeout) * time.Second,
		},
		Access:   fleet.Access{OIDC: f.oidc, RequireKey: f.requireKey, Origins: f.origins, AllowedHosts: f.allowedHosts},
		MaxBody:  int64(f.bodyLimit),
		BatchDir: f.batchDir, BatchBytes: f.batchMax, FineTuning: f.fineTuning, KeepFile: f.keepAnswers, KeepBytes: f.keepMost, DiskDir: f.diskDir, DiskBytes: f.diskMax,
		MCP: f.mcp, OwnTools: f.tools, ToolsDir: f.toolsDir, NoMetrics: !f.metrics, VLLMMetrics: f.vllmMetrics, AuditLog: f.audit, Traces: f.traces, NoPage: !f.page, PageDir: f.path,
		DrainDelay: f.drainDelay, Drain: f.drain,
	}
	if marker := os.Getenv("LLAMA_MEDIA_MARKER"); marker != "" {
		if err := server.SetMediaMarker(marker); err != nil {
			return c, usagef("LLAMA_MEDIA_MARKER: %w", err)
		}
	}
	if c.Address.Vertex, err = server.VertexOf(os.Getenv); err != nil {
		return c, usagef("%w", err)
	}
	if c.Access.Keys, err = f.keys(); err != nil {
		return c, err
	}
	if c.Server.Fetch, err = fetch.New(f.mediaURL, f.mediaPath); err != nil {
		return c, usagef("--media-url, --media-path: %w", err)
	}
	if c.Server.Web, err = f.web.open(); err != nil {
		return c, err
	}
	c.Catalog = fleet.Catalog{Dir: f.modelsDir, Presets: f.presets, Configure: f.configure, Pulls: f.pulls, Fits: f.fits}
	if len(f.models) == 0 {
		if c.Catalog.Hub, err = f.hub.open(0); err != nil {
			logs.Warn().Err(err).Msg("downloaded models are not served")
		}
	}
	named := f.models
	if len(named) == 0 && c.Catalog.Empty(logs) {
		named = []namedModel{{path: demo.Name}}
		logs.Info().Msg(demoNote)
	}
	c.Models, err = f.start(named)
	return c, err
}

// start returns the models that are loaded at the start.
func (f *serveFlags) start(named []namedModel) ([]fleet.Model, error) {
	if len(named) == 0 && f.projector.path != "" {
		return nil, usagef("--mmproj is of the model of -m, and there is none; in a file of presets (--models-preset) each model may have an mmproj")
	}
	if len(named) == 0 && f.draft.model != "" {
		return nil, usagef("--model-draft drafts for the model of -m, and there is none; in a file of presets (--models-preset) each model may have a model-draft")
	}
	var all []fleet.Model
	for i, n := range named {
		settings, err := f.servedFlags.settings(i == 0)
		if err != nil {
			return nil, err
		}
		m := fleet.Model{Path: n.path, Persona: n.persona, Settings: settings}
		if n.name != "" {
			m.Names = []string{n.name}
		}
		if i == 0 {
			if m.Tags = f.tags; len(f.names) > 0 {
				m.Names = aliases(f.names)
				m.Aliases = m.Names
			}
		}
		all = append(all, m)
	}
	return all, nil
}

// aliases returns the names of --alias as llama-server has them: in the order of the alphabet, of which the first is the model's,
// and an alias too.
func aliases(names []string) []string {
	names = slices.Clone(names)
	for i := range names {
		names[i] = strings.TrimSpace(names[i])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// divides reports whether requests have equal parts of the context, as llama-server's have where it is told how many they are.
func (f *servedFlags) divides() bool {
	n := f.flags.Lookup("parallel")
	auto, ok := n.Value.(*autoValue)
	return !f.unified && n.Changed && !(ok && auto.auto)
}

// settings returns the flags as settings of a model. What they say of one model only is of the first of those that
// they name.
func (f *servedFlags) settings(first bool) (s fleet.Settings, err error) {
	if s.Launch, err = f.openFlags.settings(); err != nil {
		return s, err
	}
	if s.Launch.Ctx > 0 && f.divides() {
		s.Launch.Ctx = max(s.Launch.Ctx/f.parallel, 1)
	}
	s.Launch.Sequences, s.Launch.KVBytes, s.Launch.Draft = f.parallel, f.kvMemory, f.draft.settings()
	f.projector.apply(&s.Launch)
	if !first {
		s.Launch.Draft.Path, s.Launch.Projector = "", ""
	} else if s.Launch.Adapters, err = f.lora.list(); err != nil {
		return s, err
	}
	if s.Defaults, err = f.requests.defaults(); err != nil {
		return s, err
	}
	if s.Vectors, err = f.vectors.settings(); err != nil {
		return s, err
	}
	s.Queue, s.TargetITL, s.Template, s.AdaptersIdle = f.queue, f.targetITL, f.template.settings(), f.lora.idle
	s.ReasoningFormat, s.SuffixFirst, s.MaxTokens, s.Keep = f.reasoning, f.suffixed, max(f.predict, 0), f.keep
	s.Sampling, s.Check = f.sampling.over, f.requests.checkTokens
	if f.sampling.seed >= 0 {
		seed := uint32(f.sampling.seed)
		s.Seed = &seed
	}
	return s, nil
}

// fits returns why a downloaded model cannot be run with these flags. The context is as long as the memory allows.
func (f *serveFlags) fits(path string) error {
	s, err := f.openFlags.settings()
	if err != nil {
		return err
	}
	if s.Ctx == 0 {
		s.Ctx = -1
	}
	return newFiles().Fits(path, s, f.device())
}

// lastTime is how long the process may take to end after --drain-delay and --drain: cached prefixes are written to
// disk for up to 5 s.
const lastTime = 8 * time.Second

// checkRanks refuses what is not served by ranks: they have one model, as it is in its file.
func (f *serveFlags) checkRanks() error {
	if err := f.ranks.check(); err != nil || f.ranks.where == "" {
		return err
	}
	switch {
	case len(f.models) != 1 || f.modelsDir != "" || f.presets != "":
		return usagef("--ranks divides one model; name it with -m, without --models-dir and --models-preset")
	case len(f.overrides) > 0 || f.quantize != "":
		return usagef("--ranks: every rank reads the file as it is, without --override-kv and --quantize")
	case f.fineTuning:
		return usagef("--ranks: models that are divided are not fine-tuned here; quern finetune --ranks does that")
	}
	return nil
}

// opener returns how ranks that follow open the model of -m that is named first.
func (f *serveFlags) opener() engine.Opener {
	if len(f.models) == 0 {
		return nil
	}
	return newFiles().Opener(f.models[0].path, f.draft.settings())
}

// abandon ends a process that does not end by itself.
func abandon(logs zerolog.Logger, supervisor platform.Supervisor, after time.Duration) {
	logs.Error().Dur("after_ms", after).Msg("not everything has stopped: the process ends now")
	supervisor.Exit(exitFailure)
}

// pings is the silence after which a stream sends a comment.
func pings(seconds int) time.Duration {
	if seconds <= 0 {
		return -1 // never
	}
	return time.Duration(seconds) * time.Second
}

// warn logs flags that do not do what llama-server's users expect.
func (f *serveFlags) warn(logs zerolog.Logger) {
	for _, line := range llamaflags.Warnings(f.flags) {
		logs.Warn().Msg(line)
	}
	if fs := f.flags; fs.Changed("parallel") && fs.Changed("ctx-size") && f.unified {
		logs.Info().Int("ctx_size", f.ctx).Int("parallel", f.parallel).Msg("--ctx-size is the context of each request: --parallel does not divide it, and requests share one memory; --no-kv-unified divides it")
	}
}
