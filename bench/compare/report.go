package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A turn holds what each engine measured in a round, ours first: a record of
// each test. Without a peer the second is nil.
type turn [2][]record

// A table is all that was measured of a model.
type table struct {
	model  string
	rounds []turn
}

// A report is a whole comparison.
type report struct {
	config config
	facts  facts
	tables []table
}

func (r *report) hasPeer() bool { return r.config.peer != "" }

// A row is one test over all rounds. Speeds are medians, in tokens per second.
type row struct {
	ours, peer   float64
	ratio        float64 // the median of the rounds' ratios
	least, most  float64 // of the rounds' ratios
	roof, ofRoof float64 // 0 when ours was not told the roofline
}

// row collects test i.
func (t *table) row(i int, peer bool) row {
	var ours, theirs, ratios, roofs, ofRoofs []float64
	for _, r := range t.rounds {
		ours = append(ours, r[0][i].speed())
		if roof := r[0][i].RoofTS; roof > 0 {
			roofs, ofRoofs = append(roofs, roof), append(ofRoofs, r[0][i].speed()/roof)
		}
		if peer {
			theirs = append(theirs, r[1][i].speed())
			ratios = append(ratios, r[0][i].speed()/r[1][i].speed())
		}
	}
	out := row{ours: median(ours)}
	if len(roofs) > 0 {
		out.roof, out.ofRoof = median(roofs), median(ofRoofs)
	}
	if peer {
		out.peer, out.ratio = median(theirs), median(ratios)
		out.least, out.most = slices.Min(ratios), slices.Max(ratios)
	}
	return out
}

// write prints the table, and below it what the peer does better.
func (t *table) write(w io.Writer, peer bool, tests []test) {
	fmt.Fprintf(w, "\n## %s\n\n", t.model)
	head := []string{"test", "ours t/s"}
	if peer {
		head = append(head, "peer t/s", "ours / peer", "rounds")
	}
	head = append(head, "roofline t/s", "ours of it")
	fmt.Fprintf(w, "| %s |\n| --- |%s\n", strings.Join(head, " | "), strings.Repeat(" ---: |", len(head)-1))
	var slower []string
	for i, test := range tests {
		r := t.row(i, peer)
		cells := []string{test.String(), fmt.Sprintf("%.2f", r.ours)}
		if peer {
			cells = append(cells, fmt.Sprintf("%.2f", r.peer), fmt.Sprintf("**%.2f**", r.ratio),
				fmt.Sprintf("%.2f to %.2f", r.least, r.most))
			if r.ratio < 1 {
				slower = append(slower, fmt.Sprintf("%s (%.2f)", test, r.ratio))
			}
		}
		if r.roof > 0 {
			cells = append(cells, fmt.Sprintf("%.2f", r.roof), fmt.Sprintf("%.0f %%", 100*r.ofRoof))
		} else {
			cells = append(cells, "", "")
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(cells, " | "))
	}
	switch {
	case len(slower) > 0:
		fmt.Fprintf(w, "\nSlower than the peer: %s.\n", strings.Join(slower, ", "))
	case peer:
		fmt.Fprint(w, "\nNothing here is slower than the peer.\n")
	}
}

// write prints the whole report.
func (r *report) write(w io.Writer, now time.Time) {
	c, f := r.config, r.facts
	fmt.Fprintf(w, "# %s, %s\n\n", c.topic, now.Format(time.DateOnly))
	if r.hasPeer() {
		fmt.Fprintf(w, "Quern beside llama-bench, in turns: %d rounds of %d repetitions. ", c.rounds, c.reps)
		fmt.Fprint(w, "A ratio above 1 means that Quern is faster; it is the median of the rounds' ratios.\n\n")
	} else {
		fmt.Fprintf(w, "Quern alone, no peer was given: %d rounds of %d repetitions.\n\n", c.rounds, c.reps)
	}
	fmt.Fprintf(w, "- commit: %s\n", f.commit)
	fmt.Fprintf(w, "- machine: %s, %d cores, %.0f GiB; instruction sets in use: %s\n",
		cmp.Or(f.cpu, "unknown CPU"), f.cores, float64(f.memory)/(1<<30), f.kernels)
	if f.governor != "" {
		fmt.Fprintf(w, "- governor: %s\n", f.governor)
	}
	fmt.Fprintf(w, "- threads: %d of each\n", c.threads)
	fmt.Fprintf(w, "- load average before: %.2f\n", f.load)
	if f.busy() {
		fmt.Fprint(w, "- **other programs were running**: measure again on a quiet machine before you believe any of this\n")
	}
	first := r.tables[0].rounds[0]
	if r.hasPeer() {
		fmt.Fprintf(w, "- peer: %s\n", cmp.Or(first[1][0].BuildCommit, "build unknown"))
	}
	if g := first[0][0]; g.RoofTS > 0 {
		fmt.Fprintf(w, "- measured: %.1f GB/s read, %.0f G int8 multiply-adds/s\n", g.ReadGBps, g.Int8GMACs)
	}
	fmt.Fprintf(w, "- date: %s\n\nTo reproduce:\n\n", now.UTC().Format(time.RFC3339))
	outer, inner := r.commands()
	fmt.Fprintf(w, "    %s\n\nwhich runs, in turns:\n\n    %s\n", outer, strings.Join(inner, "\n    "))
	for _, t := range r.tables {
		t.write(w, r.hasPeer(), c.tests)
	}
}

// commands are what to type for the same measurement, and what that runs.
func (r *report) commands() (outer string, inner []string) {
	c := r.config
	var models, tests []string
	for _, t := range r.tables {
		models = append(models, t.model)
	}
	for _, t := range c.tests {
		tests = append(tests, t.String())
	}
	if r.hasPeer() {
		outer = "LLAMA_BENCH=/path/to/llama-bench "
	}
	outer += fmt.Sprintf("make bench BENCH_ARGS='-models %s -tests %s -threads %d -rounds %d -repetitions %d'",
		strings.Join(models, ","), strings.Join(tests, ","), c.threads, c.rounds, c.reps)
	for _, l := range launches(c.tests) {
		args := strings.Join(l.args("MODEL", c.threads, c.reps), " ")
		inner = append(inner, "bin/quern bench "+args)
		if r.hasPeer() {
			inner = append(inner, "$LLAMA_BENCH "+args)
		}
	}
	return outer, inner
}

// save writes the report to a new file in the results directory and returns
// its path.
func (r *report) save(now time.Time) (string, error) {
	if err := os.MkdirAll(r.config.results, 0o755); err != nil {
		return "", err
	}
	base := filepath.Join(r.config.results, now.Format(time.DateOnly)+"-"+r.config.topic)
	path := base + ".md"
	for n := 2; ; n++ {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) { // an earlier result of the day stays
			path = fmt.Sprintf("%s-%d.md", base, n)
			continue
		}
		if err != nil {
			return "", err
		}
		var text strings.Builder
		r.write(&text, now)
		_, err = f.WriteString(text.String())
		return path, errors.Join(err, f.Close())
	}
}
