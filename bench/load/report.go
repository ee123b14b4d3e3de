package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/bench/internal/page"
)

// A report is a page about a run.
type report struct {
	*drive
	machine page.Machine
	commit  string
}

// show prints the report, and with --topic saves it, with its plot.
func (r *report) show(stdout, stderr io.Writer) error {
	now := time.Now()
	if r.c.topic == "" {
		r.write(stdout, now, "")
		return nil
	}
	f, stem, err := page.Create(r.c.results, r.c.topic, now)
	if err != nil {
		return err
	}
	svg := stem + ".svg"
	drawn, err := plotRun(filepath.Join(r.c.results, svg), r.c.topic+", "+r.machine.CPU, r.results)
	if !drawn {
		svg = ""
	}
	var text strings.Builder
	r.write(&text, now, svg)
	_, writeErr := io.WriteString(io.MultiWriter(f, stdout), text.String())
	fmt.Fprintf(stderr, "load: written to %s\n", f.Name())
	return errors.Join(err, writeErr, f.Close())
}

// write prints the page, with the plot if there is one.
func (r *report) write(w io.Writer, now time.Time, svg string) {
	c := r.c
	fmt.Fprintf(w, "# %s, %s\n\n", cmp.Or(c.topic, "load"), now.Format(time.DateOnly))
	fmt.Fprintf(w, "Requests arrive at %g/s on average (%s)", c.rate, &c.arrivals)
	if c.intruder.every > 0 {
		fmt.Fprintf(w, ", and a prompt of %d words every %v", c.intruder.words, c.intruder.every)
	}
	fmt.Fprint(w, ", whatever became of those before. Times count from when a request was meant to arrive.\n\n")
	fmt.Fprintf(w, "- model: %s\n", filepath.Base(r.model))
	if r.commit != "" {
		fmt.Fprintf(w, "- commit of the client: %s\n", r.commit)
	}
	fmt.Fprintf(w, "- machine: %s\n", r.machine)
	if r.machine.Governor != "" {
		fmt.Fprintf(w, "- governor: %s\n", r.machine.Governor)
	}
	fmt.Fprintf(w, "- load average before: %.2f\n", r.machine.Load)
	if r.machine.Busy() {
		fmt.Fprint(w, "- **other programs were running**: measure again on a quiet machine before you believe any of this\n")
	}
	fmt.Fprintf(w, "- date: %s\n\nTo reproduce:\n\n    %s\n", now.UTC().Format(time.RFC3339), r.command())
	if svg != "" {
		fmt.Fprintf(w, "\n![gaps between tokens and times to the first, over time](%s)\n", svg)
	}
	s := &r.summary
	fmt.Fprint(w, "\n## Waiting\n\nMilliseconds. TTFT is to the first text, ITL between two pieces of text, e2e to the end.\n\n")
	s.writeWaiting(w)
	fmt.Fprint(w, "\n## Throughput\n\n")
	s.writeThroughput(w)
	fmt.Fprint(w, "\n## Requests\n\n")
	s.writeOutcomes(w)
}

func (s *summary) writeWaiting(w io.Writer) {
	g := page.Grid{Head: []string{"", "n", "p50", "p90", "p99", "max"}}
	for _, of := range s.Groups {
		for _, m := range []struct {
			name string
			spread
		}{{"TTFT", of.TTFT}, {"ITL", of.ITL}, {"e2e", of.E2E}} {
			if m.N > 0 {
				g.Add(of.Name+": "+m.name, fmt.Sprint(m.N), number(m.P50), number(m.P90), number(m.P99), number(m.Max))
			}
		}
	}
	g.Write(w)
}

func (s *summary) writeThroughput(w io.Writer) {
	g := page.Grid{Head: []string{"", "seconds", "requests/s", "prompt tokens/s", "of them cached", "output tokens/s"}}
	add := func(name string, f flow) {
		g.Add(name, number(f.Seconds), fmt.Sprintf("%.2f", f.Requests), number(f.Prompt), number(f.Cached), number(f.Output))
	}
	add("whole run", s.Whole)
	add("while busy", s.Busy)
	g.Write(w)
	if s.Uncounted > 0 {
		fmt.Fprintf(w, "\nOf %d requests the server did not say how many tokens they had, as of those cancelled: of them pieces of text count, and no prompt.\n", s.Uncounted)
	}
}

func (s *summary) writeOutcomes(w io.Writer) {
	g := page.Grid{Head: []string{"outcome", "requests"}}
	for _, t := range s.Outcomes {
		name := t.Outcome
		if t.Error {
			name = "**" + name + "**"
		}
		g.Add(name, fmt.Sprint(t.N))
	}
	g.Write(w)
	fmt.Fprintln(w)
	for _, t := range s.Outcomes {
		if t.Sample != "" {
			fmt.Fprintf(w, "- %s, for one: `%s`\n", t.Outcome, strings.Map(oneLine, t.Sample))
		}
	}
	if s.Held > 0 {
		fmt.Fprintf(w, "- **%d requests were held back by --concurrency-cap**: their waiting counts, but fewer were under way than should have been\n", s.Held)
	}
	fmt.Fprintf(w, "- sent late by the client itself: %s ms at most\n", number(s.LateMax))
	if s.PeakRSS > 0 {
		fmt.Fprintf(w, "- peak RSS of the server: %.2f GB\n", float64(s.PeakRSS)/1e9)
	}
	if s.StopSeconds > 0 {
		fmt.Fprintf(w, "- ended %.1f s after SIGTERM\n", s.StopSeconds)
	}
	if v := s.Verify; v != nil {
		fmt.Fprintf(w, "- asked again alone: %d, of which %d gave another text and %d failed\n", v.Asked, v.Differ, v.Failed)
		for _, e := range v.Examples {
			fmt.Fprintf(w, "  - %s\n", strings.Map(oneLine, e))
		}
	}
}

// oneLine keeps server messages from breaking the page's layout.
func oneLine(r rune) rune {
	if r < ' ' || r == '`' {
		return ' '
	}
	return r
}

// number formats a value, without decimals if it is large.
func number(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.1f", v)
}

// directories matches the directories of absolute paths, which mean nothing on other
// machines.
var directories = regexp.MustCompile(`(^|[\s="'])/[^\s"']*/`)

// command is the command that reproduces the requests.
func (r *report) command() string {
	words := []string{"go run ./bench/load"}
	r.c.flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "json", "topic", "results", "server-log", "pid":
			return
		}
		value := f.Value.String()
		if f.Value.Type() == "intSlice" {
			value = strings.Trim(value, "[]")
		}
		if f.Name != "url" {
			value = directories.ReplaceAllString(value, "$1")
		}
		words = append(words, "--"+f.Name+"="+quote(value))
	})
	return strings.Join(words, " ")
}

// quote quotes s for the shell.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
