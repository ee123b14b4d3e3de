// Command compare measures Quern beside another engine on the same models and
// the same machine, and writes a table of ratios.
//
// Both are run through llama-bench's command line and JSON. They take turns,
// round by round, so that what else the machine does falls on both; a ratio is
// taken within a round, and the median of the rounds is reported. See
// bench/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// A config is what the flags say.
type config struct {
	ours    string // path of quern
	peer    string // path of a llama-bench; empty runs ours alone
	models  []string
	tests   []test
	threads int // 0 leaves it to ours, and gives the peer the same
	rounds  int
	reps    int // within a round
	cache   string
	results string
	topic   string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parseFlags(os.Args[1:], os.Getenv, os.Stderr)
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "compare: %v\n", err)
		os.Exit(2)
	}
	path, err := compare(ctx, c, os.Stdout, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "compare: %v\n", err)
		os.Exit(1)
	}
	fmt.Fprintf(os.Stderr, "compare: written to %s\n", path)
}

// parseFlags reads args, with defaults from the environment.
func parseFlags(args []string, getenv func(string) string, stderr io.Writer) (config, error) {
	var c config
	or := func(name, value string) string {
		if v := getenv(name); v != "" {
			return v
		}
		return value
	}
	fs := flag.NewFlagSet("compare", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&c.ours, "ours", "bin/quern", "the quern to measure")
	fs.StringVar(&c.peer, "peer", getenv("LLAMA_BENCH"), "a llama-bench to compare with; default $LLAMA_BENCH, none measures ours alone")
	models := fs.String("models", or("MODELS", "llama-3.2-1b:Q4_K_M,llama-3.1-8b:Q4_K_M"),
		"GGUF files, or SHAPE:MIX for models with random weights; default $MODELS")
	tests := fs.String("tests", "pp512,pp8,pp4,tg128", "ppN a prompt of N tokens, tgN generation of N, either @dM after M others")
	fs.IntVar(&c.threads, "threads", 0, "threads of both; 0 for what quern takes by itself")
	fs.IntVar(&c.rounds, "rounds", 3, "turns of each")
	fs.IntVar(&c.reps, "repetitions", 3, "repetitions of each test in a turn, of which the median counts")
	fs.StringVar(&c.cache, "cache", defaultCache(), "directory that keeps the models with random weights")
	fs.StringVar(&c.results, "results", "bench/results", "directory for the table")
	fs.StringVar(&c.topic, "topic", "peer", "ends the table's file name")
	if err := fs.Parse(args); err != nil {
		return config{}, err
	}
	c.models = strings.FieldsFunc(*models, func(r rune) bool { return r == ',' || r == ' ' })
	var err error
	if c.tests, err = parseTests(*tests); err != nil {
		return config{}, fmt.Errorf("-tests %q: %w", *tests, err)
	}
	switch {
	case fs.NArg() > 0:
		err = fmt.Errorf("%q is not a flag; models are given with -models", fs.Arg(0))
	case len(c.models) == 0:
		err = errors.New("-models names none; give GGUF files or shapes such as llama-3.2-1b:Q4_K_M")
	case c.threads < 0:
		err = fmt.Errorf("-threads %d: want 0 or more", c.threads)
	case c.rounds < 1:
		err = fmt.Errorf("-rounds %d: want 1 or more", c.rounds)
	case c.reps < 1:
		err = fmt.Errorf("-repetitions %d: want 1 or more", c.reps)
	case c.topic == "" || c.topic != filepath.Base(c.topic):
		err = fmt.Errorf("-topic %q: want a word for a file name", c.topic)
	}
	return c, err
}

func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "quern", "synth")
}

// compare does what c says, shows each table as it is done, and returns the
// path of the file with all of them.
func compare(ctx context.Context, c config, stdout, stderr io.Writer) (string, error) {
	ours := engine{name: "ours", argv: []string{c.ours, "bench"}}
	facts, err := collectFacts(ctx, c)
	if err != nil {
		return "", err
	}
	if facts.busy() {
		fmt.Fprintf(stderr, "compare: load average is %.2f: other programs will disturb the result\n", facts.load)
	}
	engines := []engine{ours}
	if c.peer != "" {
		engines = append(engines, engine{name: "peer", argv: []string{c.peer}})
	} else {
		fmt.Fprintln(stderr, "compare: no peer to compare with; set LLAMA_BENCH or -peer to a llama-bench")
	}
	rep := report{config: c, facts: facts}
	for _, model := range c.models {
		path, err := modelFile(ctx, model, c.cache, stderr)
		if err != nil {
			return "", err
		}
		t := table{model: modelName(model)}
		for round := range c.rounds {
			var r turn
			for i, e := range engines {
				fmt.Fprintf(stderr, "compare: %s: round %d of %d, %s\n", t.model, round+1, c.rounds, e.name)
				got, err := e.run(ctx, path, c, stderr)
				if err != nil {
					return "", fmt.Errorf("%s: %s: %w", t.model, e.name, err)
				}
				r[i] = got
				if c.threads == 0 {
					c.threads = got[0].Threads // the peer gets as many as ours took
				}
			}
			t.rounds = append(t.rounds, r)
		}
		rep.config.threads = c.threads
		rep.tables = append(rep.tables, t)
		t.write(stdout, rep.hasPeer(), c.tests)
	}
	return rep.save(time.Now())
}
