// Command load sends requests to a server with OpenAI's API, as many clients would, and
// reports their latencies.
//
// It is an open-loop load generator: requests are sent at times drawn in advance,
// regardless of the progress of others, and latency is counted from those times. See
// bench/README.md.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/bench/internal/page"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := parseFlags(os.Args[1:], os.Stderr)
	if errors.Is(err, pflag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "load: %v\n", err)
		os.Exit(2)
	}
	if err := load(ctx, c, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "load: %v\n", err)
		os.Exit(1)
	}
}

// load runs the load that c describes. Results are reported even if the run was
// interrupted or failed; then it returns an error, too.
func load(ctx context.Context, c *config, stdout, stderr io.Writer) (err error) {
	w, err := readWords(c.text)
	if err != nil {
		return fmt.Errorf("--text: %w", err)
	}
	client, err := newClient(c)
	if err != nil {
		return err
	}
	m, err := page.ReadMachine()
	if err != nil {
		return err
	}
	lines, err := openLines(c.json, stdout)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lines.close()) }()
	if c.json == "-" {
		stdout = io.Discard
	}

	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	d := drive{c: c, client: client, words: w, lines: lines, stderr: stderr, pid: c.pid}
	var srv *server
	if c.server != "" {
		if srv, err = startServer(c.server, c.serverLog); err != nil {
			return fmt.Errorf("--server: %w", err)
		}
		d.pid = srv.cmd.Process.Pid
		go func() {
			<-srv.done
			abort(srv.died())
		}()
	}
	err = d.run(ctx)
	cut := context.Cause(ctx) // before the server is stopped
	if srv != nil {
		took, stopErr := srv.stop()
		d.summary.StopSeconds = took.Seconds()
		err = errors.Join(err, stopErr)
	}
	if len(d.results) == 0 {
		return cmp.Or(err, cut, errors.New("no request arrived in that time; want a longer --duration"))
	}
	rep := report{drive: &d, machine: m, commit: page.Commit(context.WithoutCancel(ctx))}
	lines.write(d.summary)
	return errors.Join(err, rep.show(stdout, stderr), d.verdict(cut))
}

// A drive is one run against a running server, and its results.
type drive struct {
	c      *config
	client *client
	words  words
	lines  *lines
	stderr io.Writer
	pid    int // of the server, 0 when unknown

	model   string
	results []*result
	summary summary
}

// run waits for the server, sends all requests, and verifies some of them.
func (d *drive) run(ctx context.Context) error {
	c := d.c
	key := ""
	if len(c.keys) > 0 {
		key = c.keys[0].key
	}
	err := d.client.ready(ctx, key, c.wait, c.server != "")
	if err != nil {
		return err
	}
	if d.model = c.model; d.model == "" {
		if d.model, err = d.client.firstModel(ctx, key); err != nil {
			return err
		}
	}
	peak := func() uint64 { return 0 }
	if d.pid != 0 {
		if peak, err = watchMemory(d.pid); err != nil {
			return err
		}
	}
	v := newVerifier(c.verify, c.seed)
	r := runner{c: c, client: d.client, model: d.model, words: d.words, took: func(r *result) {
		d.lines.write(r)
		v.see(r)
		r.body, r.text, r.reasoning = nil, "", "" // to bound the memory of a long run
		d.results = append(d.results, r)
	}}
	r.run(ctx)
	d.summary = summarize(d.results)
	if c.verify > 0 {
		d.summary.Verify = v.ask(ctx, d.client, d.stderr)
	}
	d.summary.PeakRSS = peak()
	return nil
}

// verdict is the error of a run that was interrupted or failed.
func (d *drive) verdict(cut error) error {
	var errs []error
	if cut != nil {
		errs = append(errs, fmt.Errorf("cut short: %w", cut))
	}
	if n := d.summary.Errors; n > d.c.maxErrors {
		errs = append(errs, fmt.Errorf("%d of %d requests failed, --max-errors is %d", n, len(d.results), d.c.maxErrors))
	}
	if v := d.summary.Verify; v != nil && v.Differ+v.Failed > 0 {
		errs = append(errs, fmt.Errorf("of %d requests asked again alone, %d gave another text and %d failed", v.Asked, v.Differ, v.Failed))
	}
	return errors.Join(errs...)
}

// lines is the output of --json. close returns the first write error.
type lines struct {
	w   io.WriteCloser
	err error
}

type noClose struct{ io.Writer }

func (noClose) Close() error { return nil }

func openLines(path string, stdout io.Writer) (*lines, error) {
	switch path {
	case "":
		return &lines{w: noClose{io.Discard}}, nil
	case "-":
		return &lines{w: noClose{stdout}}, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("--json: %w", err)
	}
	return &lines{w: f}, nil
}

func (l *lines) write(v any) {
	if l.err == nil {
		l.err = json.NewEncoder(l.w).Encode(v)
	}
}

func (l *lines) close() error { return errors.Join(l.err, l.w.Close()) }
