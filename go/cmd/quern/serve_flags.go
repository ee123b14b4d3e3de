package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/diskcache"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/server/guard"
)

// serveFlags are the flags of "quern serve".
type serveFlags struct {
	model      modelFlags
	sampling   samplingFlags
	predict    int
	parallel   int
	kvMemory   uint64
	queue      int
	targetITL  time.Duration
	drain      time.Duration
	drainDelay time.Duration
	models     []namedModel // none: the demo
	listed     bool         // the flags are of one of many models, which a request names
	modelsDir  string
	presets    string
	most       int // models in memory
	autoload   bool
	pulls      bool          // clients may download and remove models
	keepAlive  time.Duration // 0: until the memory is needed
	sleep      int           // seconds; -1: never
	names      []string      // names of the first model in the API
	tags       []string
	slotPath   string
	diskDir    string
	diskMax    uint64
	cacheApart bool
	disk       *diskcache.Store // nil: none
	batchDir   string
	batchMax   uint64
	adapters   adapterFlags
	template   templateFlags
	reasoning  string
	requests   requestFlags
	draft      draftFlags
	suffixed   bool
	vectors    vectorFlags

	hosts             []string
	port              int
	prefix            string
	certFile, keyFile string
	apiKeys           []string
	apiKeyFile        string
	requireKey        bool
	origins           []string
	allowedHosts      []string
	slots, metrics    bool
	vllmMetrics       bool
	page              bool
	path              string
	shared            bool
	mcp               string
	mcpTimeout        time.Duration
	ping              int
	storeMemory       uint64
	storeTime         time.Duration
	bodyLimit         uint64
	timeout           int
	traces            string
	log               logFlags
}

func (f *serveFlags) define(fs *pflag.FlagSet) {
	f.model.define(fs)
	fs.Lookup("model").Value = &modelsValue{&f.models, f.model.hub}
	fs.Lookup("model").Usage = "GGUF `FILE` (the first of a split model), NAME=FILE, or model to download, such as hf.co/ORG/REPO; demo is the embedded demo model; repeatable (default: downloaded models, on request)"
	f.model.hub.fits = f.fits
	f.model.defineContext(fs, 0, 0, "maximum tokens of a request, prompt and answer; 0 is the model's context, limited by memory")
	f.model.defineShift(fs)
	fs.StringSliceVar(&f.hosts, "host", []string{"127.0.0.1"}, "`ADDRESS` to listen on, or a path that ends in .sock; comma-separated")
	intVar(fs, &f.port, "port", "", 8080, 0, 65535, "port to listen on")
	fs.StringVar(&f.prefix, "api-prefix", "", "`PATH` prefix of all endpoints, such as /llm")
	switchVar(fs, &f.shared, "reuse-port", false, "let other processes listen on the same port")
	fs.StringSliceVarP(&f.names, "alias", "a", nil, "`NAME` of the first model for clients (default: the file's); comma-separated")
	fs.StringSliceVar(&f.tags, "tags", nil, "`TAGS` of the first model, shown to clients; comma-separated")

	fs.StringVar(&f.modelsDir, "models-dir", "", "`FOLDER` of models to load on request")
	fs.StringVar(&f.presets, "models-preset", "", "INI `FILE` of models to load on request, with flags for each")
	intVar(fs, &f.most, "models-max", "", 0, 0, 1<<16, "maximum models in memory (default: as many as fit)")
	switchVar(fs, &f.autoload, "models-autoload", true, "load a model when a request names it; --no-models-autoload requires POST /models/load")
	switchVar(fs, &f.pulls, "models-pull", true, "without -m, let clients download models to the cache and remove them; --no-models-pull forbids that")
	secondsVar(fs, &f.keepAlive, "keep-alive", 0, "time that an idle model stays loaded, unless the request sets it (default: until its memory is needed)")
	intVar(fs, &f.sleep, "sleep-idle-seconds", "", -1, -1, math.MaxInt32, "seconds until an idle model sleeps: its weights are released, and the next request wakes it; -1 is never")

	intVar(fs, &f.parallel, "parallel", "", 32, 1, 1024, "maximum running requests; they share one KV pool")
	auto(fs, "parallel", &f.parallel, "-1")
	bytesVar(fs, &f.kvMemory, "kv-memory", "memory of the KV cache, for all requests and the prefix cache (default: half of the free memory)")
	intVar(fs, &f.queue, "queue", "", 128, 0, 1<<20, "maximum waiting requests; more get 429 with Retry-After")
	durationVar(fs, &f.targetITL, "target-itl", 0, "target time between two tokens of a stream while prompts are evaluated, such as 150ms (default: 150ms, or 1.5 times that of one token)")
	secondsVar(fs, &f.drain, "drain", 20*time.Second, "time from SIGTERM to exit: requests may finish; those that do not get an error before")
	secondsVar(fs, &f.drainDelay, "drain-delay", 0, "time from SIGTERM on in which /readyz fails and requests are still taken, before --drain begins: as long as a load balancer needs to notice")
	intVar(fs, &f.timeout, "timeout", "", 30, 1, 1<<20, "seconds that a client may take to read what it is sent")
	intVar(fs, &f.ping, "sse-ping-interval", "", 30, -1, 86400, "seconds without data after which a stream sends a comment; -1 or 0 is never")
	bytesVar(fs, &f.storeMemory, "response-memory", "memory for stored responses of /v1/responses (default: 64Mi)")
	secondsVar(fs, &f.storeTime, "response-time", 24*time.Hour, "how long they are stored after their last use")
	fs.StringVar(&f.slotPath, "slot-save-path", "", "`FOLDER` for saved slots")

	fs.StringVar(&f.diskDir, "cache-disk", "", "`FOLDER` that extends the prefix cache to disk, also across restarts (default: none)")
	bytesVar(fs, &f.diskMax, "cache-disk-size", "maximum size of that folder (default: 10Gi)")
	switchVar(fs, &f.cacheApart, "cache-per-key", false, "separate the prefix caches of API keys, in memory and on disk, and their compiled grammars, so that response times do not reveal what others have asked")

	fs.StringVar(&f.batchDir, "batch-dir", "", "`FOLDER` for uploaded files and batch jobs, which run in idle time (default: none)")
	bytesVar(fs, &f.batchMax, "batch-space", "maximum size of that folder (default: 10Gi)")
	f.adapters.defineServer(fs)

	fs.StringSliceVar(&f.apiKeys, "api-key", nil, "`KEY` that clients need, or sha256: and its hash; comma-separated")
	fs.StringVar(&f.apiKeyFile, "api-key-file", "", "`FILE` with such keys, one per line, each with a weight, a role (admin or user) and a highest priority if need be")
	fs.BoolVar(&f.requireKey, "require-key", false, "refuse to start without a key if the address is reachable from other machines")
	fs.StringSliceVar(&f.origins, "cors-origins", []string{"localhost"}, "`ORIGINS` whose pages may use the API, such as https://example.com; localhost is all of this machine, * is all")
	fs.StringSliceVar(&f.allowedHosts, "allowed-hosts", nil, "`NAMES` of this server besides localhost, when it listens on the loopback address, and besides addresses and private names when it has no API key; * is all")
	fs.StringVar(&f.certFile, "ssl-cert-file", "", "`FILE` with the TLS certificate")
	fs.StringVar(&f.keyFile, "ssl-key-file", "", "`FILE` with its key")
	switchVar(fs, &f.metrics, "metrics", true, "enable GET /metrics")
	switchVar(fs, &f.vllmMetrics, "vllm-metrics", false, "add vLLM's gauges to it, for gateways that read them")
	switchVar(fs, &f.slots, "slots", true, "enable GET /slots")
	switchVar(fs, &f.page, "ui", true, "enable the chat page")
	fs.StringVar(&f.path, "path", "", "`FOLDER` of a page to serve instead, without a key")
	fs.StringVar(&f.mcp, "mcp", "", "JSON `FILE` of MCP servers, or the JSON itself, whose tools the chat page and other clients may call (default: none); needs an API key if the address is reachable from other machines")
	secondsVar(fs, &f.mcpTimeout, "mcp-timeout", 2*time.Minute, "time limit of a tool call")
	bytesVar(fs, &f.bodyLimit, "max-body", fmt.Sprintf("maximum bytes of a request body (default: %d per token of the longest context, as --ctx-size has it, plus 1Mi)", bodyTokenBytes))

	f.template.define(fs)
	choiceVar(fs, &f.reasoning, "reasoning-format", "auto", []string{"auto", "none", "deepseek", "deepseek-legacy"}, "where reasoning goes: none leaves it in the text")
	intVar(fs, &f.predict, "predict", "n", -1, -1, math.MaxInt32, "maximum tokens of an answer, unless the request sets it; -1 is until it ends")
	f.sampling.define(fs)
	f.draft.define(fs, f.model.hub)
	f.requests.sampling, f.requests.draft = &f.sampling, &f.draft
	f.requests.define(fs)
	switchVar(fs, &f.suffixed, "spm-infill", false, "infill with the suffix first, for models trained that way")

	f.vectors.define(fs)

	fs.StringVar(&f.traces, "trace-endpoint", "", "`URL` of an OpenTelemetry collector (OTLP over HTTP), such as http://localhost:4318")
	f.log.define(fs)
	llamaFlags(fs, llamaflags.Common, llamaflags.Sampling, llamaflags.Speculation, llamaflags.Server)
}

// check validates combinations of flags.
func (f *serveFlags) check() error {
	if len(f.hosts) == 0 {
		return usagef("--host is empty, want an address such as 127.0.0.1")
	}
	if slices.Contains(f.names, "") {
		return usagef("--alias has an empty name, want names with commas between them")
	}
	if err := f.template.check(); err != nil {
		return err
	}
	f.prefix = strings.TrimRight(f.prefix, "/")
	if f.prefix != "" && (f.prefix[0] != '/' || strings.ContainsAny(f.prefix, "?#*: ")) {
		return usagef("--api-prefix %q is no path, want one such as /llm", f.prefix)
	}
	if err := checkFolder(f.modelsDir); err != nil {
		return usagef("--models-dir: %w", err)
	}
	if f.sleep == 0 {
		return usagef("--sleep-idle-seconds 0, want -1 for never, or 1 at least")
	}
	if err := checkFolder(f.slotPath); err != nil {
		return usagef("--slot-save-path: %w", err)
	}
	if err := checkFolder(f.adapters.dir); err != nil {
		return usagef("--lora-dir: %w", err)
	}
	if err := checkFolder(f.path); err != nil {
		return usagef("--path: %w", err)
	}
	return nil
}

// keyInArguments tells whether a command line has an API key in plain text.
func keyInArguments(args []string) bool {
	for i, arg := range args {
		name, value, joined := strings.Cut(arg, "=")
		if strings.ReplaceAll(name, "_", "-") != "--api-key" {
			continue
		}
		if !joined && i+1 < len(args) {
			value = args[i+1]
		}
		for key := range strings.SplitSeq(value, ",") {
			if key != "" && !strings.HasPrefix(key, "sha256:") {
				return true
			}
		}
	}
	return false
}

// keys returns the API keys that the flags name.
func (f *serveFlags) keys() (*guard.Keys, error) {
	keys, err := guard.NewKeys(f.apiKeys)
	if err != nil {
		return nil, usagef("--api-key: %w", err)
	}
	if f.apiKeyFile != "" {
		if err := keys.AddFile(f.apiKeyFile); err != nil {
			return nil, err
		}
	}
	return keys, nil
}
