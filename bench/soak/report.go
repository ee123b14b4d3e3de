package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/bench/internal/page"
)

// A report is what all parts of a soak have shown.
type report struct {
	state      *state
	config     *config
	machine    page.Machine
	commit     string
	impossible []string
}

// show prints the report, and writes it as a page too if that has a topic.
func (r *report) show(stdout, stderr io.Writer) error {
	var b strings.Builder
	r.write(&b)
	if r.config.topic == "" {
		_, err := io.WriteString(stdout, b.String())
		return err
	}
	if err := page.CheckTopic(r.config.topic); err != nil {
		return err
	}
	f, stem, err := page.Create(r.config.results, r.config.topic, time.Now())
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, b.String())
	if closed := f.Close(); err == nil {
		err = closed
	}
	fmt.Fprintf(stderr, "soak: %s\n", filepath.Join(r.config.results, stem+".md"))
	io.WriteString(stdout, b.String())
	return err
}

func (r *report) write(w io.Writer) {
	s := r.state
	var seconds float64
	var requests, same, parts, refused, faulted, batches, carried, restarts int
	byFault, byKind, problems := map[string][]outcome{}, map[string]int{}, map[string]int{}
	for _, o := range s.Epochs {
		seconds += o.Seconds
		requests, same, parts, refused, faulted = requests+o.Requests, same+o.Same, parts+o.Parts, refused+o.Refused, faulted+o.Faulted
		batches, carried, restarts = batches+o.Batches, carried+o.Carried, restarts+o.Restarts
		for _, f := range o.Faults {
			byFault[f] = append(byFault[f], o)
		}
		if len(o.Faults) == 0 {
			byFault["none"] = append(byFault["none"], o)
		}
		for k, n := range o.Kinds {
			byKind[k] += n
		}
		for _, p := range o.Problems {
			problems[p.Kind]++
		}
	}
	fmt.Fprintf(w, "# soak, %s\n\n", time.Now().Format(time.DateOnly))
	fmt.Fprintf(w, "%d epochs in %d parts, %s of load: %d requests, of which %d finished with the text of a quiet server, %d were left or cut\n",
		len(s.Epochs), s.Parts, (time.Duration(seconds) * time.Second).String(), requests, same, parts)
	fmt.Fprintf(w, "with the beginning of it, %d were refused as they should be, and %d failed in a way that a fault explains; the rest are\n", refused, faulted)
	fmt.Fprintf(w, "operators'. %d batches ended with the texts of a quiet server, %d of them by another process than the one that began them.\n", batches, carried)
	fmt.Fprintf(w, "The server was started again %d times.\n\n", restarts)
	if n := s.problems(); n > 0 {
		fmt.Fprintf(w, "**%d problems**, below.\n\n", n)
	} else {
		fmt.Fprintf(w, "There were no problems.\n\n")
	}
	fmt.Fprintf(w, "- seed: %d\n- machine: %v\n- load average at the end: %.2f\n- commit: %s\n", s.Seed, r.machine, r.machine.Load, r.commit)
	for _, f := range r.impossible {
		fmt.Fprintf(w, "- left out: %s\n", f)
	}
	fmt.Fprintf(w, "\nTimes are milliseconds between two pieces of a stream, of requests that met no fault. The target of the 99th percentile is %v.\n\n", r.config.gap)
	g := page.Grid{Head: []string{"fault", "epochs", "requests", "same", "failed by it", "restored tokens", "most MiB", "gap p99, median", "gap p99, most", "problems"}}
	for _, f := range slices.Sorted(maps.Keys(byFault)) {
		row(&g, f, byFault[f])
	}
	row(&g, "all", s.Epochs)
	g.Write(w)
	fmt.Fprintf(w, "\nAn epoch with several faults counts for each.\n\n")
	g = page.Grid{Head: []string{"kind", "requests"}}
	for _, k := range slices.Sorted(maps.Keys(byKind)) {
		g.Add(k, fmt.Sprint(byKind[k]))
	}
	g.Write(w)
	if len(s.Epochs) > 0 {
		first, last := s.Epochs[0].Floor, s.Epochs[len(s.Epochs)-1].Floor
		fmt.Fprintf(w, "\n| at rest | first epoch | last epoch |\n| --- | ---: | ---: |\n| MiB | %d | %d |\n| goroutines | %d | %d |\n| descriptors | %d | %d |\n",
			first.RSS>>20, last.RSS>>20, first.Goroutines, last.Goroutines, first.FDs, last.FDs)
	}
	shown := 0
	for _, o := range s.Epochs {
		for _, p := range o.Problems {
			if shown++; shown <= 40 {
				fmt.Fprintf(w, "\n    %s\n", strings.ReplaceAll(p.String(), "\n", "\n    "))
			}
		}
	}
}

func row(g *page.Grid, name string, all []outcome) {
	var requests, same, faulted, problems int
	var restored, most float64
	var rss uint64
	var gaps []time.Duration
	for _, o := range all {
		requests, same, faulted, problems = requests+o.Requests, same+o.Same, faulted+o.Faulted, problems+len(o.Problems)
		restored, most, rss = restored+o.Restored, max(most, o.GapP99), max(rss, o.Floor.RSS)
		if o.GapP99 > 0 { // some streams met no fault
			gaps = append(gaps, time.Duration(o.GapP99*float64(time.Millisecond)))
		}
	}
	g.Add(name, fmt.Sprint(len(all)), fmt.Sprint(requests), fmt.Sprint(same), fmt.Sprint(faulted), fmt.Sprintf("%.0f", restored),
		fmt.Sprint(rss>>20), fmt.Sprintf("%.0f", quantile(gaps, 0.5)), fmt.Sprintf("%.0f", most), fmt.Sprint(problems))
}
