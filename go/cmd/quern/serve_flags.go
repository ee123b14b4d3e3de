package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/fleet"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/mcp"
	"github.com/quern-llm/quern/go/server/guard"
)

// serveFlags are the flags of "quern serve": those of the whole server, and those of each model.
type serveFlags struct {
	serverFlags
	servedFlags
	hub *hubFlags // which says what the server has downloaded, and which model is one's

	resolved *sync.Map // names of models of presets that are read from their servers, by those that sections give
}

// serverFlags are the flags of the whole server.
type serverFlags struct {
	deviceFlags
	modelsDir   string
	presets     string
	presetsOf   string // the repository that they are of; empty: they are of this machine
	most        int    // models in memory
	autoload    bool
	pulls       bool          // clients may download and remove models
	keepAlive   time.Duration // 0: until the memory is needed
	sleep       int           // seconds; -1: never
	drain       time.Duration
	drainDelay  time.Duration
	slotPath    string
	diskDir     string
	ranks       rankFlags
	diskMax     uint64
	cacheApart  bool
	batchDir    string
	mediaURL    string
	mediaPath   string
	batchMax    uint64
	keepAnswers string
	keepMost    uint64
	fineTuning  bool
	loraDir     string

	hosts             []string
	port              int
	prefix            string
	certFile, keyFile string
	apiKeys           []string
	apiKeyFile        string
	oidc              string
	audit             string
	requireKey        bool
	origins           []string
	allowedHosts      []string
	slots, metrics    bool
	vllmMetrics       bool
	page              bool
	path              string
	shared            bool
	mcp               string
	tools             []string
	toolsDir          string
	mcpProxy          bool
	mcpTimeout        time.Duration
	mcpCalls          int
	mcpResult         uint64
	web               webFlags
	ping              int
	storeMemory       uint64
	storeTime         time.Duration
	bodyLimit         uint64
	timeout           int
	traces            string
	log               logFlags
}

// servedFlags are the flags of each model: which it is, and how it is served.
type servedFlags struct {
	models []namedModel // none: the demo
	names  []string     // of the first model in the API
	tags   []string
	lora   adapterFlags

	openFlags
	parallel  int
	unified   bool
	kvMemory  uint64
	queue     int
	targetITL time.Duration
	template  templateFlags
	reasoning string
	predict   int
	sampling  samplingFlags
	draft     draftFlags
	projector projectorFlags
	requests  requestFlags
	suffixed  bool
	vectors   vectorFlags
}

// define adds the flags. Those of the whole server go to one set. Those of each model go to two: which has what says
// which model it is, and each has what may apply to all. A command has them all in one.
func (f *serveFlags) define(whole, which, each *pflag.FlagSet) {
	f.hub, f.resolved = &hubFlags{fits: f.fits}, &sync.Map{}
	which.VarP(&modelsValue{&f.models, f.hub, f.foreign}, "model", "m", "GGUF `FILE` (the first of a split model), NAME=FILE, or model to download, such as hf.co/ORG/REPO; demo is the embedded demo model; repeatable (default: downloaded models, on request)")
	f.hub.defineBeside(whole, which)
	f.hub.defineRemote(whole, newFiles())
	f.openFlags.define(each)
	f.defineLimit(whole)
	f.defineThreads(whole)
	f.defineContext(each, 0, 0, "maximum tokens of a request, prompt and answer; 0 is the model's context, limited by memory")
	f.defineShift(each)
	whole.StringSliceVar(&f.hosts, "host", []string{"127.0.0.1"}, "`ADDRESS` to listen on, or a path that ends in .sock; comma-separated")
	intVar(whole, &f.port, "port", "", 8080, 0, 65535, "port to listen on")
	whole.StringVar(&f.prefix, "api-prefix", "", "`PATH` prefix of all endpoints, such as /llm")
	switchVar(whole, &f.shared, "reuse-port", false, "let other processes listen on the same port")
	which.StringSliceVarP(&f.names, "alias", "a", nil, "`NAME` of the first model for clients (default: the file's); of several, with commas between them, it is the first by the alphabet")
	which.StringSliceVar(&f.tags, "tags", nil, "`TAGS` of the first model, shown to clients; comma-separated")

	whole.StringVar(&f.modelsDir, "models-dir", "", "`FOLDER` of models to load on request")
	whole.StringVar(&f.presets, "models-preset", "", "INI `FILE` of models to load on request, with flags for each")
	intVar(whole, &f.most, "models-max", "", 0, 0, 1<<16, "maximum models in memory (default: as many as fit)")
	switchVar(whole, &f.autoload, "models-autoload", true, "load a model when a request names it; --no-models-autoload requires POST /models/load")
	switchVar(whole, &f.pulls, "models-pull", true, "without -m, let clients download models to the cache and remove them; --no-models-pull forbids that")
	secondsVar(whole, &f.keepAlive, "keep-alive", 0, "time that an idle model stays loaded, unless the request sets it (default: until its memory is needed)")
	intVar(whole, &f.sleep, "sleep-idle-seconds", "", -1, -1, math.MaxInt32, "seconds until an idle model sleeps: its weights are released, and the next request wakes it; -1 is never")

	intVar(each, &f.parallel, "parallel", "", 32, 1, 1024, "maximum running requests; they share one KV pool")
	auto(each, "parallel", &f.parallel, "-1")
	switchVar(each, &f.unified, "kv-unified", true, "--ctx-size is of each request; --no-kv-unified divides it by --parallel, if both are given")
	bytesVar(each, &f.kvMemory, "kv-memory", "memory of the KV cache, for all requests and the prefix cache (default: half of the free memory)")
	intVar(each, &f.queue, "queue", "", 128, 0, 1<<20, "maximum waiting requests; more get 429 with Retry-After")
	durationVar(each, &f.targetITL, "target-itl", 0, "target time between two tokens of a stream while prompts are evaluated, such as 150ms (default: 150ms, or 1.5 times that of one token)")
	secondsVar(whole, &f.drain, "drain", 20*time.Second, "time from SIGTERM to exit: requests may finish; those that do not get an error before")
	secondsVar(whole, &f.drainDelay, "drain-delay", 0, "time from SIGTERM on in which /readyz fails and requests are still taken, before --drain begins: as long as a load balancer needs to notice")
	intVar(whole, &f.timeout, "timeout", "", 30, 1, 1<<20, "seconds that a client may take to read what it is sent")
	intVar(whole, &f.ping, "sse-ping-interval", "", 30, -1, 86400, "seconds without data after which a stream sends a comment; -1 or 0 is never")
	bytesVar(whole, &f.storeMemory, "response-memory", "memory for stored responses of /v1/responses (default: 64Mi)")
	secondsVar(whole, &f.storeTime, "response-time", 24*time.Hour, "how long they are stored after their last use")
	whole.StringVar(&f.slotPath, "slot-save-path", "", "`FOLDER` for saved slots")

	f.ranks.define(whole)
	whole.StringVar(&f.diskDir, "cache-disk", "", "`FOLDER` that extends the prefix cache to disk, also across restarts (default: none)")
	bytesVar(whole, &f.diskMax, "cache-disk-size", "maximum size of that folder (default: 10Gi)")
	switchVar(whole, &f.cacheApart, "cache-per-key", false, "separate the prefix caches of API keys, in memory and on disk, and their compiled grammars, so that response times do not reveal what others have asked")

	whole.StringVar(&f.mediaURL, "media-url", "off", "where pictures, sounds and documents are fetched from that requests name by URLs: off, public (any server with a public address), or `HOSTS` separated by commas")
	whole.StringVar(&f.mediaPath, "media-path", "", "`FOLDER` of files that requests may name by file:// URLs (default: none)")
	whole.StringVar(&f.batchDir, "batch-dir", "", "`FOLDER` for uploaded files and batch jobs, which run in idle time (default: none)")
	bytesVar(whole, &f.batchMax, "batch-space", "maximum size of that folder (default: 10Gi)")
	switchVar(whole, &f.fineTuning, "fine-tuning", false, "clients may fine-tune models by jobs, which run in idle time, with examples that they upload; needs --batch-dir")
	whole.StringVar(&f.keepAnswers, "keep-answers", "", "`FILE` that prompts and answers are appended to, for quern finetune --own-answers: it will hold what users write in clear, but for requests with \"store\": false (default: none)")
	bytesVar(whole, &f.keepMost, "keep-answers-size", "maximum size of that file (default: 1Gi)")
	f.lora.define(which)
	which.BoolVar(&f.lora.idle, "lora-init-without-apply", false, "apply adapters only to requests that ask for them, by adapter name or the field lora")
	whole.StringVar(&f.loraDir, "lora-dir", "", "`FOLDER` of adapters that clients may load at run time")

	whole.StringSliceVar(&f.apiKeys, "api-key", nil, "`KEY` that clients need, or sha256: and its hash; comma-separated")
	whole.StringVar(&f.apiKeyFile, "api-key-file", "", "`FILE` with such keys, one per line, each with a weight, a role (admin or user), a highest priority, a name and quotas if need be; it is followed")
	whole.StringVar(&f.oidc, "oidc-config", "", "JSON `FILE` of OpenID Connect issuers whose tokens clients may give in place of keys (default: none)")
	whole.BoolVar(&f.requireKey, "require-key", false, "refuse to start without a key if the address is reachable from other machines")
	whole.StringSliceVar(&f.origins, "cors-origins", []string{"localhost"}, "`ORIGINS` whose pages may use the API, such as https://example.com; localhost is all of this machine, * is all")
	whole.StringSliceVar(&f.allowedHosts, "allowed-hosts", nil, "`NAMES` of this server besides localhost, when it listens on the loopback address, and besides addresses and private names when it has no API key; * is all")
	whole.StringVar(&f.certFile, "ssl-cert-file", "", "`FILE` with the TLS certificate")
	whole.StringVar(&f.keyFile, "ssl-key-file", "", "`FILE` with its key")
	switchVar(whole, &f.metrics, "metrics", true, "enable GET /metrics")
	switchVar(whole, &f.vllmMetrics, "vllm-metrics", false, "add vLLM's gauges to it, for gateways that read them")
	switchVar(whole, &f.slots, "slots", true, "enable GET /slots")
	switchVar(whole, &f.page, "ui", true, "enable the chat page")
	whole.StringVar(&f.path, "path", "", "`FOLDER` of a page to serve instead, without a key")
	whole.StringVar(&f.mcp, "mcp", "", "JSON `FILE` of MCP servers, or the JSON itself, whose tools the chat page and other clients may call (default: none); needs an API key if the address is reachable from other machines")
	whole.StringSliceVar(&f.tools, "tools", nil, "`TOOLS` for the chat page and other clients: read_file, file_glob_search, grep_search, exec_shell_command, write_file, edit_file and get_info, or all (default: none); they run in a sandbox of Linux 6.12 or later")
	whole.StringVar(&f.toolsDir, "tools-dir", "", "`FOLDER` that --tools work in, the only one that they may touch")
	switchVar(whole, &f.mcpProxy, "ui-mcp-proxy", false, "enable /cors-proxy, by which pages of this server, with the key of an administrator, reach other servers through it, those of its own network too")
	secondsVar(whole, &f.mcpTimeout, "mcp-timeout", 2*time.Minute, "time limit of a tool call")
	intVar(whole, &f.mcpCalls, "mcp-calls", "", 16, 1, 10000, "maximum tool calls that the server makes for one response of /v1/responses")
	bytesVar(whole, &f.mcpResult, "mcp-result-size", "maximum size of a tool's result that the model of a response is shown, 256Ki at most (default: 64Ki)")
	f.web.define(whole)
	bytesVar(whole, &f.bodyLimit, "max-body", fmt.Sprintf("maximum bytes of a request body (default: %d per token of the longest context, as --ctx-size has it, plus 1Mi)", fleet.BodyTokenBytes))

	f.template.define(each)
	choiceVar(each, &f.reasoning, "reasoning-format", "auto", []string{"auto", "none", "deepseek", "deepseek-legacy"}, "where reasoning goes: none leaves it in the text")
	intVar(each, &f.predict, "predict", "n", -1, -1, math.MaxInt32, "maximum tokens of an answer, unless the request sets it; -1 is until it ends")
	f.sampling.define(each)
	f.draft.defineBeside(each, which, f.hub)
	f.projector.defineBeside(each, which, f.hub)
	f.requests.sampling, f.requests.draft = &f.sampling, &f.draft
	f.requests.define(each)
	switchVar(each, &f.suffixed, "spm-infill", false, "infill with the suffix first, for models trained that way")

	f.vectors.define(each)

	whole.StringVar(&f.traces, "trace-endpoint", "", "`URL` of an OpenTelemetry collector (OTLP over HTTP), such as http://localhost:4318")
	whole.StringVar(&f.audit, "audit-log", "", "`FILE` to append a line of JSON to for each request that ended: who asked which model, and how many tokens it took")
	f.log.define(whole)
}

// defineAll adds the flags and llama-server's to one set.
func (f *serveFlags) defineAll(fs *pflag.FlagSet) {
	f.define(fs, fs, fs)
	llamaFlags(fs, serveGroups...)
}

// serveGroups are llama.cpp's flags that the command takes.
var serveGroups = []llamaflags.Group{llamaflags.Common, llamaflags.Sampling, llamaflags.Speculation, llamaflags.Server}

// check validates combinations of flags.
func (f *serveFlags) check() error {
	if len(f.hosts) == 0 {
		return usagef("--host is empty, want an address such as 127.0.0.1")
	}
	if slices.ContainsFunc(f.names, func(name string) bool { return strings.TrimSpace(name) == "" }) {
		return usagef("--alias has an empty name, want names with commas between them")
	}
	if err := f.template.check(); err != nil {
		return err
	}
	if f.mcpResult > mcp.MaxResult {
		return usagef("--mcp-result-size %d, want at most %dKi", f.mcpResult, mcp.MaxResult>>10)
	}
	f.prefix = strings.TrimRight(f.prefix, "/")
	if f.prefix != "" && (f.prefix[0] != '/' || strings.ContainsAny(f.prefix, "?#*: ")) {
		return usagef("--api-prefix %q is no path, want one such as /llm", f.prefix)
	}
	if len(f.tools) > 0 && f.toolsDir == "" {
		return usagef("--tools: give the folder that they work in with --tools-dir, the only one that they may touch")
	}
	if len(f.tools) == 0 && f.toolsDir != "" {
		return usagef("--tools-dir is given without --tools, want the tools that work there, such as all")
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
	if err := checkFolder(f.loraDir); err != nil {
		return usagef("--lora-dir: %w", err)
	}
	if err := checkFolder(f.path); err != nil {
		return usagef("--path: %w", err)
	}
	return f.checkRanks()
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

// checkFolder returns an error unless path, which may be empty, is a folder.
func checkFolder(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s is not a folder", path)
	}
	return err
}
