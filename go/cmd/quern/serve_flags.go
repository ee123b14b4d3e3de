package main

import (
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
	fs.Lookup("model").Usage = "GGUF `FILE`, or NAME=FILE; of a split model, the first file; or a model to download, such as hf.co/ORG/REPO; demo is the model inside the program; may be given again (default: downloaded models, when a request names them)"
	f.model.hub.fits = f.fits
	f.model.defineContext(fs, 0, 0, "most tokens of a request, prompt and answer; 0 is the model's own, as far as memory goes")
	f.model.defineShift(fs)
	fs.StringSliceVar(&f.hosts, "host", []string{"127.0.0.1"}, "`ADDRESS` to listen at, or a path that ends in .sock; several with commas")
	intVar(fs, &f.port, "port", "", 8080, 0, 65535, "port to listen at")
	fs.StringVar(&f.prefix, "api-prefix", "", "`PATH` before all others, such as /llm")
	switchVar(fs, &f.shared, "reuse-port", false, "let other processes listen at the port too")
	fs.StringSliceVarP(&f.names, "alias", "a", nil, "`NAME` of the first model for clients (default: the file's); several with commas")
	fs.StringSliceVar(&f.tags, "tags", nil, "`TAGS` of the first model for clients to read, with commas")

	fs.StringVar(&f.modelsDir, "models-dir", "", "`FOLDER` of models that are loaded when a request names them")
	fs.StringVar(&f.presets, "models-preset", "", "INI `FILE` of models, and of flags for each, that are loaded when a request names them")
	intVar(fs, &f.most, "models-max", "", 0, 0, 1<<16, "models in memory at a time (default: as many as fit)")
	switchVar(fs, &f.autoload, "models-autoload", true, "load a model when a request names it; --no-models-autoload leaves that to POST /models/load")
	switchVar(fs, &f.pulls, "models-pull", true, "let clients download models to the cache and remove them, where there is no -m; --no-models-pull refuses that")
	durationVar(fs, &f.keepAlive, "keep-alive", 0, "time that a model stays loaded unused, where the request does not say (default: until its memory is needed)")
	intVar(fs, &f.sleep, "sleep-idle-seconds", "", -1, -1, math.MaxInt32, "seconds until an unused model sleeps: its weights leave the memory, and the next request wakes it; -1 is never")

	intVar(fs, &f.parallel, "parallel", "", 32, 1, 1024, "requests that run at a time; they share one memory")
	auto(fs, "parallel", &f.parallel, "-1")
	bytesVar(fs, &f.kvMemory, "kv-memory", "memory for the keys and values of all requests and of texts seen before (default: half of what is free)")
	intVar(fs, &f.queue, "queue", "", 128, 0, 1<<20, "requests that may wait; more are told to come back")
	durationVar(fs, &f.targetITL, "target-itl", 0, "time between two tokens that a prompt may not lengthen, such as 150ms (default: 150ms, or 1.5 times that of one token)")
	durationVar(fs, &f.drain, "drain", 20*time.Second, "time from SIGTERM to the end: requests may finish, and those that do not are told so before it is over")
	intVar(fs, &f.timeout, "timeout", "", 30, 1, 1<<20, "seconds that a client has to take what it is sent")
	intVar(fs, &f.ping, "sse-ping-interval", "", 30, -1, 86400, "seconds of silence after which a stream sends a comment; -1 or 0 is never")
	bytesVar(fs, &f.storeMemory, "response-memory", "memory for the responses of /v1/responses that clients ask to keep (default: 64Mi)")
	durationVar(fs, &f.storeTime, "response-time", 24*time.Hour, "how long they are kept after their last use")
	fs.StringVar(&f.slotPath, "slot-save-path", "", "`FOLDER` for slots that clients save")

	fs.StringVar(&f.diskDir, "cache-disk", "", "`FOLDER` for the keys and values of texts that memory has no room for, found again after a restart too (default: there is none)")
	bytesVar(fs, &f.diskMax, "cache-disk-size", "most bytes of that folder (default: 10Gi)")
	switchVar(fs, &f.cacheApart, "cache-per-key", false, "a text seen before is found again only by the API key that sent it, in memory and on disk; how fast an answer begins then tells nobody what others have asked")

	fs.StringVar(&f.batchDir, "batch-dir", "", "`FOLDER` for files and batches of requests that are run when there is time (default: there are none)")
	bytesVar(fs, &f.batchMax, "batch-space", "most bytes of that folder (default: 10Gi)")
	f.adapters.defineServer(fs)

	fs.StringSliceVar(&f.apiKeys, "api-key", nil, "`KEY` that clients need, or sha256: and its hash; several with commas")
	fs.StringVar(&f.apiKeyFile, "api-key-file", "", "`FILE` with such keys, one a line")
	fs.BoolVar(&f.requireKey, "require-key", false, "refuse to start where others reach the address and there is no key")
	fs.StringSliceVar(&f.origins, "cors-origins", []string{"localhost"}, "`ORIGINS` whose pages may use the API, such as https://example.com; localhost is all of this machine, * all")
	fs.StringSliceVar(&f.allowedHosts, "allowed-hosts", nil, "`NAMES` of this server beside localhost, where it listens at the loopback address; * is all")
	fs.StringVar(&f.certFile, "ssl-cert-file", "", "`FILE` with the TLS certificate")
	fs.StringVar(&f.keyFile, "ssl-key-file", "", "`FILE` with its key")
	switchVar(fs, &f.metrics, "metrics", true, "GET /metrics; --no-metrics leaves it out")
	switchVar(fs, &f.vllmMetrics, "vllm-metrics", false, "have vLLM's gauges in it too, for gateways that read these")
	switchVar(fs, &f.slots, "slots", true, "GET /slots; --no-slots leaves it out")
	switchVar(fs, &f.page, "ui", true, "the page to chat with; --no-ui leaves it out")
	fs.StringVar(&f.path, "path", "", "`FOLDER` of a page that is served in its place, to all, with or without a key")
	fs.StringVar(&f.mcp, "mcp", "", "JSON `FILE` of MCP servers, or the JSON, whose tools the page and other clients may call (default: none); where others reach the address an API key is needed")
	durationVar(fs, &f.mcpTimeout, "mcp-timeout", 2*time.Minute, "the most that a call of a tool may take")
	bytesVar(fs, &f.bodyLimit, "max-body", "most bytes of a request's body (default: 32 for each token of the context, and 1Mi)")

	f.template.define(fs)
	choiceVar(fs, &f.reasoning, "reasoning-format", "auto", []string{"auto", "none", "deepseek", "deepseek-legacy"}, "where thoughts go: none leaves them in the text")
	intVar(fs, &f.predict, "predict", "n", -1, -1, math.MaxInt32, "tokens of an answer where the request does not say; -1 is until it ends")
	f.sampling.define(fs)
	f.draft.define(fs, f.model.hub)
	f.requests.sampling, f.requests.draft = &f.sampling, &f.draft
	f.requests.define(fs)
	switchVar(fs, &f.suffixed, "spm-infill", false, "fill gaps with what comes after them first, for models that were trained so")

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
