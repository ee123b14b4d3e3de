package main

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/server/guard"
)

// serveFlags are the flags of "quern serve".
type serveFlags struct {
	model     modelFlags
	sampling  samplingFlags
	predict   int
	parallel  int
	kvMemory  uint64
	queue     int
	targetITL time.Duration
	drain     time.Duration
	alias     string
	slotPath  string
	template  templateFlags
	reasoning string

	hosts              []string
	port               int
	prefix             string
	certFile, keyFile  string
	apiKeys            []string
	apiKeyFile         string
	requireKey         bool
	origins            []string
	allowedHosts       []string
	slots, noSlots     bool
	metrics, noMetrics bool
	noPage             bool
	bodyLimit          uint64
	timeout            int
	traces             string
	logLevel           string
}

func (f *serveFlags) define(fs *pflag.FlagSet) {
	f.model.define(fs)
	f.model.defineContext(fs, 0, 0, "most tokens of a request, prompt and answer; 0 is the model's own, as far as memory goes")
	fs.StringSliceVar(&f.hosts, "host", []string{"127.0.0.1"}, "`ADDRESS` to listen at, or a path that ends in .sock; several with commas")
	intVar(fs, &f.port, "port", "", 8080, 0, 65535, "port to listen at")
	fs.StringVar(&f.prefix, "api-prefix", "", "`PATH` before all others, such as /llm")
	fs.StringVarP(&f.alias, "alias", "a", "", "`NAME` of the model for clients (default: the file's)")

	intVar(fs, &f.parallel, "parallel", "", 32, 1, 1024, "requests that run at a time; they share one memory")
	alias(fs, "parallel", "np")
	bytesVar(fs, &f.kvMemory, "kv-memory", "memory for the keys and values of all requests and of texts seen before (default: half of what is free)")
	intVar(fs, &f.queue, "queue", "", 128, 0, 1<<20, "requests that may wait; more are told to come back")
	durationVar(fs, &f.targetITL, "target-itl", 0, "time between two tokens that a prompt may not lengthen, such as 150ms (default: 150ms, or 1.5 times that of one token)")
	durationVar(fs, &f.drain, "drain", 20*time.Second, "time from SIGTERM to the end: requests may finish, and those that do not are told so before it is over")
	intVar(fs, &f.timeout, "timeout", "", 30, 1, 1<<20, "seconds that a client has to take what it is sent")
	fs.StringVar(&f.slotPath, "slot-save-path", "", "`FOLDER` for slots that clients save")

	fs.StringSliceVar(&f.apiKeys, "api-key", nil, "`KEY` that clients need, or sha256: and its hash; several with commas")
	fs.StringVar(&f.apiKeyFile, "api-key-file", "", "`FILE` with such keys, one a line")
	fs.BoolVar(&f.requireKey, "require-key", false, "refuse to start where others reach the address and there is no key")
	fs.StringSliceVar(&f.origins, "cors-origins", []string{"localhost"}, "`ORIGINS` whose pages may use the API, such as https://example.com; localhost is all of this machine, * all")
	fs.StringSliceVar(&f.allowedHosts, "allowed-hosts", nil, "`NAMES` of this server beside localhost, where it listens at the loopback address; * is all")
	fs.StringVar(&f.certFile, "ssl-cert-file", "", "`FILE` with the TLS certificate")
	fs.StringVar(&f.keyFile, "ssl-key-file", "", "`FILE` with its key")
	fs.BoolVar(&f.metrics, "metrics", true, "answer GET /metrics")
	fs.BoolVar(&f.noMetrics, "no-metrics", false, "do not")
	fs.BoolVar(&f.slots, "slots", true, "answer GET /slots")
	fs.BoolVar(&f.noSlots, "no-slots", false, "do not")
	fs.BoolVar(&f.noPage, "no-webui", false, "leave out the page to chat with")
	bytesVar(fs, &f.bodyLimit, "max-body", "most bytes of a request's body (default: 32 for each token of the context, and 1Mi)")

	f.template.define(fs)
	choiceVar(fs, &f.reasoning, "reasoning-format", "auto", []string{"auto", "none", "deepseek"}, "where thoughts go: none leaves them in the text")
	intVar(fs, &f.predict, "predict", "n", -1, -1, math.MaxInt32, "tokens of an answer where the request does not say; -1 is until it ends")
	f.sampling.define(fs)

	fs.StringVar(&f.traces, "trace-endpoint", "", "`URL` of an OpenTelemetry collector (OTLP over HTTP), such as http://localhost:4318")
	choiceVar(fs, &f.logLevel, "log-level", "info", []string{"debug", "info", "warn", "error"}, "least important lines of the log")
	f.defineIgnored(fs)
}

// ignored are llama-server's flags that decide nothing here, by what they take.
// A command line that has them should go on to work.
var ignored = struct{ values, switches []string }{
	values: []string{"n-gpu-layers", "gpu-layers", "ubatch-size", "threads-batch", "threads-http", "main-gpu", "split-mode", "poll", "prio", "slot-prompt-similarity", "cache-reuse", "flash-attn"},
	switches: []string{"cont-batching", "jinja", "mlock", "no-mmap", "no-warmup", "kv-unified",
		"log-disable", "no-context-shift"},
}

// defineIgnored adds those flags, out of sight.
func (f *serveFlags) defineIgnored(fs *pflag.FlagSet) {
	for _, name := range ignored.values {
		fs.String(name, "", "decides nothing here")
	}
	for _, name := range ignored.switches {
		fs.Bool(name, false, "decides nothing here")
	}
	for _, name := range slices.Concat(ignored.values, ignored.switches) {
		fs.Lookup(name).Hidden = true
	}
	for name, short := range map[string]string{"n-gpu-layers": "ngl", "ubatch-size": "ub", "threads-batch": "tb", "cont-batching": "cb", "flash-attn": "fa"} {
		alias(fs, name, short)
	}
}

// noteIgnored says which flags were given that decide nothing.
func (f *serveFlags) noteIgnored(logs zerolog.Logger) {
	for _, name := range slices.Concat(ignored.values, ignored.switches) {
		if f.sampling.flags.Changed(name) {
			logs.Warn().Str("flag", "--"+name).Msg("the flag decides nothing here")
		}
	}
}

// check finds what no single flag can.
func (f *serveFlags) check() (zerolog.Level, error) {
	if len(f.hosts) == 0 {
		return 0, usagef("--host is empty, want an address such as 127.0.0.1")
	}
	if err := f.template.check(); err != nil {
		return 0, err
	}
	f.prefix = strings.TrimRight(f.prefix, "/")
	if f.prefix != "" && (f.prefix[0] != '/' || strings.ContainsAny(f.prefix, "?#*: ")) {
		return 0, usagef("--api-prefix %q is no path, want one such as /llm", f.prefix)
	}
	if err := checkFolder(f.slotPath); err != nil {
		return 0, usagef("--slot-save-path: %w", err)
	}
	return zerolog.ParseLevel(f.logLevel)
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
