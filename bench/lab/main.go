// Command lab runs the experiments that decide which ideas the engine has, and keeps the page of them true.
//
//	go run ./bench/lab [-lab NAME,...] [-m model.gguf] [-text file]   runs experiments, writes bench/results/lab/
//	go run ./bench/lab -quick -out FOLDER                             all of them on the demo, little of it
//	go run ./bench/lab -page                                          docs/theories.md and its plots, from the newest results
//
// An experiment is a file: of scripts/lab in Python, where it looks at weights and activations, or of this folder in Go or C,
// where it measures the machine. Its head has the claim, the measure, the data, the threshold and what each outcome
// means. It gives one JSON object, a result, which gets the machine, the commit and the day here.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/quern-llm/quern/bench/internal/page"
)

// A setting is what experiments are run with.
type setting struct {
	python, quern string
	model, text   string // empty for the demo and its stories
	quick         bool
	minutes       time.Duration // of a sustained load
}

// An experiment gives a result, or says in it why it cannot.
type experiment struct {
	name  string
	model bool // looks at a model; others look at the machine
	run   func(context.Context, setting) (*result, error)
}

var experiments = []experiment{
	python("witness"),
	python("spectrum"), python("equal_bytes"), python("whitened"), python("kronecker"), python("layers"), python("sharing"),
	python("entropy"), python("bound"),
	python("reuse"), python("tiers"), python("sparse"), python("old_kv"), python("pages"), python("prompts"),
	python("exits"), python("partial"),
	python("requantize"), python("neurons"), python("activations"), python("planes"), python("loftq"),
	compiled("rans"), compiled("twelve"), compiled("amx"),
	{name: "smt", run: smt}, {name: "sustained", run: sustained}, {name: "energy", run: energy},
}

func main() {
	names := flag.String("lab", "", "experiments, separated by commas (default: all)")
	out := flag.String("out", results, "folder of results")
	writePage := flag.Bool("page", false, "write docs/theories.md and its plots anew from the newest results, and end")
	var s setting
	flag.StringVar(&s.model, "m", "", "GGUF file (default: the demo)")
	flag.StringVar(&s.text, "text", "", "text that models read (default: stories like the demo's)")
	flag.StringVar(&s.python, "python", cmp.Or(os.Getenv("PYTHON"), "python3"), "Python with NumPy")
	flag.StringVar(&s.quern, "quern", "bin/quern", "the program")
	flag.BoolVar(&s.quick, "quick", false, "little of a model and of a text: whether experiments run, and no verdicts")
	flag.DurationVar(&s.minutes, "sustained", 10*time.Minute, "length of the sustained load")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *writePage {
		err = updatePage(".")
	} else {
		err = runAll(ctx, s, *names, *out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lab:", err)
		os.Exit(1)
	}
}

// runAll runs the named experiments, or all, and goes on after one that fails. Those that look at the machine are left out
// where a model was asked for and none was named.
func runAll(ctx context.Context, s setting, names, out string) error {
	if s.quick && filepath.Clean(out) == results {
		return errors.New("-quick decides nothing, and the page is made of what " + results + " has: give another folder with -out")
	}
	var chosen []experiment
	for _, e := range experiments {
		if names == "" && (e.model || s.model == "") || slices.Contains(strings.Split(names, ","), e.name) {
			chosen = append(chosen, e)
		}
	}
	if names != "" && len(chosen) != len(strings.Split(names, ",")) {
		return fmt.Errorf("-lab %s: want names of %s", names, all())
	}
	var failed []string
	for _, e := range chosen {
		fmt.Printf("\n== %s\n", e.name)
		start := time.Now()
		r, err := e.run(ctx, s)
		if err == nil {
			err = r.write(ctx, out)
		}
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			fmt.Fprintln(os.Stderr, "lab:", err)
			failed = append(failed, e.name)
			continue
		}
		r.print(os.Stdout)
		fmt.Printf("%.1f s\n", time.Since(start).Seconds())
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, " "))
	}
	return nil
}

func all() string {
	var names []string
	for _, e := range experiments {
		names = append(names, e.name)
	}
	return strings.Join(names, " ")
}

// write stores the result with the facts of this run, as DATE-LAB-MODEL.json. A result of the same day is replaced.
func (r *result) write(ctx context.Context, dir string) error {
	m, err := page.ReadMachine()
	if err != nil {
		return err
	}
	r.Date, r.Commit, r.Machine, r.Load = time.Now().Format(time.DateOnly), page.Commit(ctx), m.String(), m.Load
	if err := r.check(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, r.file()), append(b, '\n'), 0o644)
}
