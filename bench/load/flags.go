package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/bench/internal/page"
)

// A config is the parsed flags.
type config struct {
	// The server.
	url         string
	api         string // chat or completions
	model       string // empty: the first that the server lists
	keys        apiKeys
	extra       map[string]any // additional fields of every body
	temperature float64
	timeout     time.Duration
	server      string // a command that starts it
	serverLog   string
	wait        time.Duration
	pid         int

	// The arrivals.
	duration time.Duration
	requests int // 0 sets no limit
	rate     float64
	arrivals arrivals
	cap      int
	seed     uint64

	// The requests.
	promptWords, maxTokens dist
	text                   string
	prefixWords            int
	prefixShare            float64
	turns, think           dist // think in milliseconds
	intruder               intruderFlag
	cancelShare            float64
	cancelAfter            dist // milliseconds
	badShare               float64

	// The results.
	verify      int
	maxErrors   int
	allowStatus []int
	json        string
	topic       string
	results     string

	flags *pflag.FlagSet
}

// Sanity bounds of flags.
const (
	maxWords  = 1 << 20
	maxMillis = 24 * 60 * 60 * 1000
	maxArrive = 1e6 // at once, and per second
)

// parseFlags reads args.
func parseFlags(args []string, stderr io.Writer) (*config, error) {
	c := &config{}
	fs := pflag.NewFlagSet("load", pflag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.SortFlags = false
	c.flags = fs
	distVar := func(d *dist, least, most int, name, value, usage string) {
		d.least, d.most = least, most
		if err := d.Set(value); err != nil {
			panic(err) // unreachable: a default value
		}
		fs.Var(d, name, usage)
	}
	fs.StringVar(&c.url, "url", "http://127.0.0.1:8080", "the server: http://HOST:PORT or unix:PATH")
	fs.StringVar(&c.api, "api", "chat", "chat or completions")
	fs.StringVar(&c.model, "model", "", "model of the requests (default: the first that the server names)")
	fs.Var(&c.keys, "api-key", "KEY, NAME=KEY or NAME:SHARE=KEY; again for more: requests are shared out and reported by key")
	extra := fs.String("extra", "", `JSON object that every body has besides, such as {"ignore_eos":true}`)
	fs.Float64Var(&c.temperature, "temperature", 0, "temperature of all requests, each of which has a seed")
	fs.DurationVar(&c.timeout, "timeout", 10*time.Minute, "longest that one request may take")
	fs.StringVar(&c.server, "server", "", "command that starts the server, and is stopped with SIGTERM at the end")
	fs.StringVar(&c.serverLog, "server-log", "", "file for what the server prints (default: only its last lines, when it fails)")
	fs.DurationVar(&c.wait, "wait", 5*time.Minute, "longest to wait until the server is ready")
	fs.IntVar(&c.pid, "pid", 0, "a server that runs already, to watch its memory")

	fs.DurationVar(&c.duration, "duration", 0, "time in which requests arrive (default 30s, without --requests)")
	fs.IntVar(&c.requests, "requests", 0, "arrivals, at most")
	fs.Float64Var(&c.rate, "rate", 1, "arrivals per second, on average")
	fs.Var(&c.arrivals, "arrivals", "poisson, fixed, or burst:N for N at once")
	fs.IntVar(&c.cap, "concurrency-cap", 1000, "most arrivals under way; those beyond wait, which counts, and are reported")
	fs.Uint64Var(&c.seed, "seed", 1, "the same seed and flags make the same requests")

	distVar(&c.promptWords, 1, maxWords, "prompt-words", "lognormal:150,0.8,2000", "words of a prompt: "+distForms)
	distVar(&c.maxTokens, 1, maxWords, "max-tokens", "lognormal:80,0.6,512", "tokens that a request asks for")
	fs.StringVar(&c.text, "text", "", "text file that prompts are cut from (default: words at random)")
	fs.IntVar(&c.prefixWords, "shared-prefix", 0, "words of a prefix that requests share: the system prompt of a chat")
	fs.Float64Var(&c.prefixShare, "prefix-share", 1, "share of the requests that begin with it")
	distVar(&c.turns, 1, 1000, "turns", "1", "turns of a conversation; each has all before it in its prompt")
	distVar(&c.think, 0, maxMillis, "think-ms", "1000", "milliseconds between an answer and the next turn")
	fs.Var(&c.intruder, "intruder", "EVERY:WORDS, such as 10s:4000: a long prompt again and again")
	fs.Float64Var(&c.cancelShare, "cancel-share", 0, "share of the requests that are cancelled")
	distVar(&c.cancelAfter, 1, maxMillis, "cancel-after-ms", "uniform:100-2000", "milliseconds after which they are")
	fs.Float64Var(&c.badShare, "bad-share", 0, "share of requests with a malformed body, which want a status of 4xx")

	fs.IntVar(&c.verify, "verify", 0, "ask N of the requests again, alone, and compare the texts")
	fs.IntVar(&c.maxErrors, "max-errors", 0, "unexpected failures that are forgiven")
	fs.IntSliceVar(&c.allowStatus, "allow-status", nil, "statuses that are no failure, such as 429; they are counted")
	fs.StringVar(&c.json, "json", "", "file for a line of JSON per request and one of the summary; - is standard output, in place of the tables")
	fs.StringVar(&c.topic, "topic", "", "keep the tables and a plot as DATE-TOPIC in --results")
	fs.StringVar(&c.results, "results", "bench/results", "directory for them")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if *extra != "" {
		if err := json.Unmarshal([]byte(*extra), &c.extra); err != nil {
			return nil, fmt.Errorf("--extra %q: want a JSON object: %w", *extra, err)
		}
	}
	if c.duration == 0 && c.requests == 0 {
		c.duration = 30 * time.Second
	}
	return c, c.check()
}

func (c *config) check() error {
	share := func(v float64) bool { return v >= 0 && v <= 1 }
	switch {
	case c.flags.NArg() > 0:
		return fmt.Errorf("%q is not a flag", c.flags.Arg(0))
	case c.api != "chat" && c.api != "completions":
		return fmt.Errorf("--api %q: want chat or completions", c.api)
	case !(c.temperature >= 0 && c.temperature <= 100):
		return fmt.Errorf("--temperature %g: want a number from 0 up", c.temperature)
	case c.timeout <= 0 || c.wait <= 0:
		return errors.New("--timeout and --wait: want a time such as 30s")
	case c.server != "" && c.pid != 0:
		return errors.New("--server starts a server and --pid names one: want one of them")
	case c.server == "" && c.serverLog != "":
		return errors.New("--server-log: there is no --server")
	case c.pid < 0:
		return fmt.Errorf("--pid %d: want the number of a process", c.pid)
	case c.duration < 0 || c.requests < 0:
		return errors.New("--duration and --requests: want no less than 0")
	case !(c.rate > 0 && c.rate <= maxArrive):
		return fmt.Errorf("--rate %g: want arrivals per second, up to %g", c.rate, maxArrive)
	case c.cap < 1:
		return fmt.Errorf("--concurrency-cap %d: want 1 or more", c.cap)
	case c.prefixWords < 0 || c.prefixWords > maxWords:
		return fmt.Errorf("--shared-prefix %d: want words, up to %d", c.prefixWords, maxWords)
	case !share(c.prefixShare) || !share(c.cancelShare) || !share(c.badShare) || !share(c.cancelShare+c.badShare):
		return errors.New("--prefix-share, --cancel-share, --bad-share: want shares from 0 to 1, of the last two no more in sum")
	case c.verify < 0 || c.maxErrors < 0:
		return errors.New("--verify and --max-errors: want no less than 0")
	}
	if c.topic != "" {
		if err := page.CheckTopic(c.topic); err != nil {
			return err
		}
	}
	_, _, err := c.endpoint()
	return err
}

// endpoint returns the base URL, and the socket to dial if it is not the URL's own
// host.
func (c *config) endpoint() (base, socket string, err error) {
	if socket, ok := strings.CutPrefix(c.url, "unix:"); ok {
		if socket = strings.TrimPrefix(socket, "//"); socket == "" {
			return "", "", errors.New("--url unix: wants the path of a socket behind it")
		}
		return "http://localhost", socket, nil
	}
	u, err := url.Parse(c.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return "", "", fmt.Errorf("--url %q: want http://HOST:PORT or unix:PATH", c.url)
	}
	base = strings.TrimSuffix(strings.TrimSuffix(c.url, "/"), "/v1") // base URLs are often given with it
	return strings.TrimSuffix(base, "/"), "", nil
}

// allowed reports whether a status does not count as a failure.
func (c *config) allowed(status int) bool {
	return status == http.StatusOK || slices.Contains(c.allowStatus, status)
}
