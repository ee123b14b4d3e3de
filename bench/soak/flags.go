package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// A config is what the flags say.
type config struct {
	hours     float64
	epochs    int
	only      int
	state     string
	log       string
	program   string
	seed      uint64
	requests  int
	workers   int
	faults    []string
	gap       time.Duration
	assertGap bool
	topic     string
	results   string
	keep      bool
}

// parseFlags reads the command line. --help prints the usage to stderr and returns pflag.ErrHelp.
func parseFlags(args []string, stderr io.Writer) (*config, error) {
	c := &config{}
	fs := pflag.NewFlagSet("soak", pflag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.SortFlags = false
	fs.Float64Var(&c.hours, "hours", 0.5, "time after which no other epoch begins")
	fs.IntVar(&c.epochs, "epochs", 0, "run this many epochs, whatever time it takes (default: as --hours says)")
	fs.IntVar(&c.only, "only", -1, "repeat this epoch, and no other, without counting it")
	fs.StringVar(&c.state, "state", "", "`FOLDER` of what the parts of one soak share: a part goes on where the last one ended (required)")
	fs.StringVar(&c.log, "log", "", "`FILE` to append a line of JSON to for each epoch (default: epochs.jsonl in that folder)")
	fs.StringVar(&c.program, "quern", "bin/quern", "`PROGRAM` to run")
	fs.Uint64Var(&c.seed, "seed", 0, "seed of all that is drawn, of a new soak (default: from the clock)")
	fs.IntVar(&c.requests, "requests", 600, "requests of an epoch")
	fs.IntVar(&c.workers, "workers", 16, "clients at one time")
	fs.StringSliceVar(&c.faults, "faults", faultNames(), "faults to draw from, comma-separated; none is none")
	fs.DurationVar(&c.gap, "gap", 150*time.Millisecond, "target of the 99th percentile of the times between two pieces of a stream, without faults")
	fs.BoolVar(&c.assertGap, "assert-gap", false, "an epoch that misses that target has failed: for a quiet machine")
	fs.StringVar(&c.topic, "topic", "", "word for the name of a page in --results (default: no page)")
	fs.StringVar(&c.results, "results", "bench/results", "`FOLDER` of pages")
	fs.BoolVar(&c.keep, "keep-logs", false, "keep the logs of servers of epochs without a problem")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("%q: want flags only", fs.Arg(0))
	}
	return c, c.check()
}

func (c *config) check() (err error) {
	switch {
	case c.state == "":
		return fmt.Errorf("--state is missing: want a folder for what is kept")
	case c.hours <= 0 || c.hours > 10000:
		return fmt.Errorf("--hours %g: want more than 0", c.hours)
	case c.requests < 1 || c.requests > 1e6:
		return fmt.Errorf("--requests %d: want 1 to a million", c.requests)
	case c.workers < 1 || c.workers > 1000:
		return fmt.Errorf("--workers %d: want 1 to 1000", c.workers)
	case c.epochs < 0:
		return fmt.Errorf("--epochs %d: want 1 at least", c.epochs)
	}
	if len(c.faults) == 1 && c.faults[0] == "none" {
		c.faults = nil
	}
	for _, name := range c.faults {
		if !slices.Contains(faultNames(), name) {
			return fmt.Errorf("--faults %s: want some of %s, or none", name, strings.Join(faultNames(), ", "))
		}
	}
	if c.only >= 0 {
		c.epochs = 1
	}
	if c.state, err = filepath.Abs(c.state); err != nil {
		return err
	}
	if c.program, err = filepath.Abs(c.program); err != nil {
		return err
	}
	if _, err := os.Stat(c.program); err != nil {
		return fmt.Errorf("--quern: %w; make builds it", err)
	}
	if c.log == "" {
		c.log = filepath.Join(c.state, "epochs.jsonl")
	}
	return nil
}
