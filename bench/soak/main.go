// Command soak keeps a server of this program busy for hours, with everything at once and with faults, and looks
// after each epoch whether all is as it was.
//
// An epoch is a number of requests, drawn from the seed, with faults that begin and end at some of them. Its order is
// that of counts, not of a clock, so a slow machine meets the same. Texts are those that the same requests got from a
// quiet server; what a request may be refused with is decided by the faults that it met. See bench/README.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/bench/internal/page"
)

func main() {
	if os.Getenv(clientVariable) != "" {
		os.Exit(beClient(os.Stdin, os.Stdout))
	}
	c, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "soak: %v\n", err)
		os.Exit(2)
	}
	if code, ok := enter(); ok { // the run was inside
		os.Exit(code)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := soak(ctx, c, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "soak: %v\n", err)
		os.Exit(1)
	}
}

// soak runs epochs until the time is over, and shows what all parts so far have found.
func soak(ctx context.Context, c *config, stdout, stderr io.Writer) (err error) {
	st, err := openState(c)
	if err != nil {
		return err
	}
	defer st.close()
	fmt.Fprintf(stderr, "soak: --seed %d, from epoch %d on, in %s\n", st.Seed, st.Next, c.state)
	w, err := newWorld(ctx, c, st)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	for _, f := range w.faults {
		if why := f.impossible; why != "" {
			fmt.Fprintf(stderr, "soak: no fault %s: %s\n", f.name, why)
		}
	}
	end := time.Now().Add(time.Duration(c.hours * float64(time.Hour)))
	failed := 0
	for n := 0; ; n++ {
		if c.epochs > 0 && n == c.epochs || c.epochs == 0 && n > 0 && time.Now().After(end) || ctx.Err() != nil {
			break
		}
		e, err := w.epoch(ctx, st.Next)
		if err != nil {
			return err
		}
		if ctx.Err() != nil && len(e.Problems) == 0 {
			break // cut short: it is run again by the next part
		}
		failed += len(e.Problems)
		if err := st.add(e); err != nil {
			return err
		}
		fmt.Fprintln(stderr, "soak:", e.line())
		for _, p := range e.Problems {
			fmt.Fprintln(stderr, "soak: ", p)
		}
	}
	m, err := page.ReadMachine()
	if err != nil {
		return err
	}
	r := report{state: st, config: c, machine: m, commit: page.Commit(context.WithoutCancel(ctx)), impossible: w.impossible()}
	if err := r.show(stdout, stderr); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d problems in this part, %d in all", failed, st.problems())
	}
	return nil
}
