// Command compare benchmarks Quern against other engines on the same models and the
// same machine, and writes tables of ratios, the curve of speed by tokens per pass as a
// table and as a plot, and Quern's kernels alone.
//
// All engines are run through llama-bench's command line and JSON. Their runs are
// interleaved, so that other load on the machine affects all of them; a ratio is taken
// within a round, and the median of the rounds is reported. See bench/README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quern-llm/quern/bench/internal/page"
)

// A config is the parsed flags.
type config struct {
	ours      engine
	peers     []engine // programs with llama-bench's flags; empty runs Quern alone
	models    []string
	tests     []test
	curve     []test   // prompts of the curve, starting with one token; empty: no curve
	kernels   bool     // measure Quern's kernels alone
	neighbour bool     // repeat the tests beside a busy thread
	shared    []string // flags of attention and its cache, for all engines
	threads   int      // 0: Quern's default, which the peers then use too
	rounds    int
	reps      int // within a round
	cache     string
	results   string
	topic     string
}

// engines returns all engines, Quern first.
func (c *config) engines() []engine { return append([]engine{c.ours}, c.peers...) }

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
	ours := fs.String("ours", "bin/quern", "the quern to measure")
	fs.Func("peer", "a llama-bench to compare with, as PROGRAM, NAME=PROGRAM or \"NAME=PROGRAM FLAGS\"; again for more; default $LLAMA_BENCH, none measures ours alone",
		func(s string) error { return c.addPeer(s) })
	models := fs.String("models", or("MODELS", "llama-3.2-1b:Q4_K_M,llama-3.1-8b:Q4_K_M"),
		"GGUF files, or SHAPE:MIX for models with random weights; default $MODELS")
	tests := fs.String("tests", "pp512,pp8,pp4,tg128", "ppN a prompt of N tokens, tgN generation of N, either @dM after M others; empty for none")
	curve := fs.String("curve", "1-32,48,64,96,128,256,512", "prompts of the curve, numbers and ranges; empty for none")
	fs.BoolVar(&c.kernels, "kernels", true, "measure our kernels alone, too")
	fs.BoolVar(&c.neighbour, "neighbour", false, "do -tests once more while another thread keeps one of the CPUs busy")
	for _, name := range []string{"ctk", "ctv", "fa"} {
		fs.Func(name, "llama-bench's -"+name+", for all", func(s string) error {
			c.shared = append(c.shared, "-"+name, s)
			return nil
		})
	}
	fs.IntVar(&c.threads, "threads", 0, "threads of all; 0 for what quern takes by itself")
	fs.IntVar(&c.rounds, "rounds", 3, "turns of each")
	fs.IntVar(&c.reps, "repetitions", 3, "repetitions of each test in a turn, of which the median counts")
	fs.StringVar(&c.cache, "cache", defaultCache(), "directory that keeps the models with random weights")
	fs.StringVar(&c.results, "results", "bench/results", "directory for the tables and the plots")
	fs.StringVar(&c.topic, "topic", "peer", "ends the table's file name")
	if err := fs.Parse(args); err != nil {
		return config{}, err
	}
	c.ours = engine{name: "ours", argv: []string{*ours, "bench"}}
	if env := getenv("LLAMA_BENCH"); env != "" && c.peers == nil {
		if err := c.addPeer(env); err != nil {
			return config{}, fmt.Errorf("LLAMA_BENCH: %w", err)
		}
	}
	c.models = strings.FieldsFunc(*models, func(r rune) bool { return r == ',' || r == ' ' })
	var err error
	if c.tests, err = parseTests(*tests); err != nil {
		return config{}, fmt.Errorf("-tests %q: %w", *tests, err)
	}
	if c.curve, err = parseCurve(*curve); err != nil {
		return config{}, fmt.Errorf("-curve %q: %w", *curve, err)
	}
	ofModels := len(c.tests)+len(c.curve) > 0
	switch {
	case fs.NArg() > 0:
		err = fmt.Errorf("%q is not a flag; models are given with -models", fs.Arg(0))
	case !ofModels && !c.kernels:
		err = errors.New("nothing to measure: -tests and -curve are empty, and -kernels is off")
	case ofModels && len(c.models) == 0:
		err = errors.New("-models names none; give GGUF files or shapes such as llama-3.2-1b:Q4_K_M")
	case c.neighbour && len(c.tests) == 0:
		err = errors.New("-neighbour does -tests, and there are none")
	case c.threads < 0:
		err = fmt.Errorf("-threads %d: want 0 or more", c.threads)
	case c.rounds < 1:
		err = fmt.Errorf("-rounds %d: want 1 or more", c.rounds)
	case c.reps < 1:
		err = fmt.Errorf("-repetitions %d: want 1 or more", c.reps)
	default:
		err = page.CheckTopic(c.topic)
	}
	if !ofModels {
		c.models = nil
	}
	return c, err
}

// addPeer reads PROGRAM, NAME=PROGRAM or NAME=PROGRAM FLAGS.
func (c *config) addPeer(s string) error {
	e := engine{name: "peer", argv: strings.Fields(s)}
	if name, command, ok := strings.Cut(s, "="); ok && !strings.ContainsAny(name, "/ ") {
		e = engine{name, strings.Fields(command)}
	}
	if e.name == "" || len(e.argv) == 0 {
		return fmt.Errorf("peer %q: want PROGRAM, NAME=PROGRAM or \"NAME=PROGRAM FLAGS\"", s)
	}
	for _, other := range append(c.peers, engine{name: "ours"}) {
		if other.name == e.name {
			return fmt.Errorf("two engines are called %s; name them, as in %s2=%s", e.name, e.name, strings.Join(e.argv, " "))
		}
	}
	c.peers = append(c.peers, e)
	return nil
}

func defaultCache() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "quern", "synth")
}

// compare runs the comparison, prints each table when it is complete, and returns the
// path of the report.
func compare(ctx context.Context, c config, stdout, stderr io.Writer) (string, error) {
	facts, err := collectFacts(ctx, c)
	if err != nil {
		return "", err
	}
	if facts.machine.Busy() {
		fmt.Fprintf(stderr, "compare: load average is %.2f: other programs will disturb the result\n", facts.machine.Load)
	}
	if len(c.peers) == 0 {
		fmt.Fprintln(stderr, "compare: no peer to compare with; set LLAMA_BENCH or -peer to a llama-bench")
	}
	rep := report{config: &c, facts: facts}
	names := modelNames(c.models)
	for i, model := range c.models {
		path, err := modelFile(ctx, model, c.cache, stderr)
		if err != nil {
			return "", err
		}
		t := table{model: names[i], engines: c.engines()}
		if err := c.measure(ctx, &t, path, stderr); err != nil {
			return "", fmt.Errorf("%s: %w", t.model, err)
		}
		rep.tables = append(rep.tables, t)
		rep.show(stdout, &t)
	}
	if c.kernels {
		fmt.Fprintln(stderr, "compare: kernels alone")
		if rep.kernels, err = c.ours.output(ctx, c.kernelArgs(), stderr); err != nil {
			return "", err
		}
		fmt.Fprintf(stdout, "\n%s", rep.kernels)
	}
	return rep.save(time.Now())
}

// measure runs each launch of each round on every engine in turn.
func (c *config) measure(ctx context.Context, t *table, path string, stderr io.Writer) error {
	all := union(c.tests, c.curve)
	for round := range c.rounds {
		fmt.Fprintf(stderr, "compare: %s: round %d of %d\n", t.model, round+1, c.rounds)
		r, err := c.turns(ctx, t, path, all, stderr)
		if err != nil {
			return err
		}
		t.rounds = append(t.rounds, r)
		if !c.neighbour {
			continue
		}
		fmt.Fprintf(stderr, "compare: %s: round %d of %d, beside a busy thread\n", t.model, round+1, c.rounds)
		stop, err := keepBusy(c.threads)
		if err != nil {
			return err
		}
		r, err = c.turns(ctx, t, path, c.tests, stderr)
		stop()
		if err != nil {
			return err
		}
		t.disturbed = append(t.disturbed, r)
	}
	return nil
}

// turns runs each launch on every engine. A peer that fails is not measured on this model: not each reads each type.
func (c *config) turns(ctx context.Context, t *table, path string, tests []test, stderr io.Writer) (turn, error) {
	r := turn{}
	for _, l := range launches(tests) {
		for _, e := range slices.Clone(t.engines) {
			got, err := e.run(ctx, l, path, c, stderr)
			if failed := (*exec.ExitError)(nil); errors.As(err, &failed) && e.name != c.ours.name {
				fmt.Fprintf(stderr, "compare: %s: without %s: %v\n", t.model, e.name, err)
				t.leaveOut(e)
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("%s: %w", e.name, err)
			}
			if r[e.name] == nil {
				r[e.name] = map[test]record{}
			}
			for _, v := range got {
				r[e.name][v.test()] = v
			}
			if c.threads == 0 {
				c.threads = got[0].Threads // the peers use the same number
			}
		}
	}
	return r, nil
}
