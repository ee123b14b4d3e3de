package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/bench/internal/page"
)

// A turn holds the measurements of a round, by the engine's name.
type turn map[string]map[test]record

// A table holds all measurements of a model.
type table struct {
	model     string
	engines   []engine // Quern first
	leftOut   []string // names of peers that failed
	rounds    []turn
	disturbed []turn // the same rounds beside a busy thread
}

// A report is a whole comparison.
type report struct {
	config  *config
	facts   facts
	tables  []table
	kernels []byte // Quern's output for its kernels
}

// leaveOut takes a peer that failed out of the table, and with it what it did before.
func (t *table) leaveOut(e engine) {
	t.engines = slices.DeleteFunc(t.engines, func(x engine) bool { return x.name == e.name })
	t.leftOut = append(t.leftOut, e.name)
}

// over is the median of f over rounds.
func over(rounds []turn, f func(r turn) float64) float64 {
	return median(each(rounds, f))
}

func each(rounds []turn, f func(r turn) float64) []float64 {
	var v []float64
	for _, r := range rounds {
		v = append(v, f(r))
	}
	return v
}

func (r turn) speed(e engine, t test) float64 { return r[e.name][t].speed() }

// speed is the median of an engine's speeds, in tokens per second.
func (t *table) speed(e engine, x test) float64 {
	return over(t.rounds, func(r turn) float64 { return r.speed(e, x) })
}

// ratios returns Quern's speed relative to e's, for each round.
func (t *table) ratios(e engine, x test) []float64 {
	return each(t.rounds, func(r turn) float64 { return r.speed(t.engines[0], x) / r.speed(e, x) })
}

// roof returns the roofline's bound and the fraction of it that Quern reaches, 0 if
// unknown.
func (t *table) roof(x test) (most, fraction float64) {
	ours := t.engines[0]
	most = over(t.rounds, func(r turn) float64 { return r[ours.name][x].RoofTS })
	if most == 0 {
		return 0, 0
	}
	return most, over(t.rounds, func(r turn) float64 { return r.speed(ours, x) / r[ours.name][x].RoofTS })
}

// cost is the time of a prompt on e, relative to that of one token.
func (t *table) cost(e engine, x test) float64 {
	return over(t.rounds, func(r turn) float64 {
		return float64(x.prompt) * r.speed(e, test{prompt: 1}) / r.speed(e, x)
	})
}

// writeTests prints the table of tests, and the tests on which a peer is faster.
func (t *table) writeTests(w io.Writer, tests []test) {
	g := page.Grid{Head: []string{"test", "ours t/s"}}
	for _, e := range t.engines[1:] {
		g.Head = append(g.Head, e.name+" t/s", "ours / "+e.name, "rounds")
	}
	g.Head = append(g.Head, "roofline t/s", "ours of it")
	slower := map[string][]string{}
	for _, x := range tests {
		row := []string{x.String(), number(t.speed(t.engines[0], x))}
		for _, e := range t.engines[1:] {
			ratios := t.ratios(e, x)
			ratio := median(ratios)
			row = append(row, number(t.speed(e, x)), fmt.Sprintf("**%.2f**", ratio),
				fmt.Sprintf("%.2f to %.2f", slices.Min(ratios), slices.Max(ratios)))
			if ratio < 1 {
				slower[e.name] = append(slower[e.name], fmt.Sprintf("%s (%.2f)", x, ratio))
			}
		}
		g.Add(append(row, t.roofCells(x)...)...)
	}
	g.Write(w)
	t.writeSlower(w, slower)
}

// writeSlower lists the tests on which a peer is faster.
func (t *table) writeSlower(w io.Writer, slower map[string][]string) {
	for _, e := range t.engines[1:] {
		if s := slower[e.name]; s != nil {
			fmt.Fprintf(w, "\nSlower than %s: %s.\n", e.name, strings.Join(s, ", "))
		} else {
			fmt.Fprintf(w, "\nNothing here is slower than %s.\n", e.name)
		}
	}
}

// writeCurve prints the speed and the cost of more tokens per pass.
func (t *table) writeCurve(w io.Writer, curve []test) {
	g := page.Grid{Head: []string{"n", "ours t/s", "cost(n)/cost(1)"}}
	for _, e := range t.engines[1:] {
		g.Head = append(g.Head, e.name+" t/s", "its cost(n)/cost(1)", "ours / "+e.name)
	}
	g.Head = append(g.Head, "roofline t/s", "ours of it")
	slower := map[string][]string{}
	for _, x := range curve {
		row := []string{fmt.Sprint(x.prompt)}
		for i, e := range t.engines {
			row = append(row, number(t.speed(e, x)), fmt.Sprintf("%.2f", t.cost(e, x)))
			if i == 0 {
				continue
			}
			ratio := median(t.ratios(e, x))
			row = append(row, fmt.Sprintf("**%.2f**", ratio))
			if ratio < 1 {
				slower[e.name] = append(slower[e.name], fmt.Sprintf("%s (%.2f)", x, ratio))
			}
		}
		g.Add(append(row, t.roofCells(x)...)...)
	}
	g.Write(w)
	t.writeSlower(w, slower)
}

// writeDisturbed prints the fraction of each engine's speed that remains beside a busy
// thread.
func (t *table) writeDisturbed(w io.Writer, tests []test) {
	g := page.Grid{Head: []string{"test"}}
	for _, e := range t.engines {
		g.Head = append(g.Head, e.name+" alone", "disturbed", "left")
	}
	for _, x := range tests {
		row := []string{x.String()}
		for _, e := range t.engines {
			alone := t.speed(e, x)
			disturbed := over(t.disturbed, func(r turn) float64 { return r.speed(e, x) })
			row = append(row, number(alone), number(disturbed), fmt.Sprintf("%.0f %%", 100*disturbed/alone))
		}
		g.Add(row...)
	}
	g.Write(w)
}

func number(v float64) string { return fmt.Sprintf("%.2f", v) }

func (t *table) roofCells(x test) []string {
	most, fraction := t.roof(x)
	if most == 0 {
		return []string{"", ""}
	}
	return []string{number(most), fmt.Sprintf("%.0f %%", 100*fraction)}
}

// show prints the results of a model.
func (r *report) show(w io.Writer, t *table) { r.writeModel(w, t, "") }

// writeModel prints the results of a model, with its plot if there is a file of it.
func (r *report) writeModel(w io.Writer, t *table, plot string) {
	fmt.Fprintf(w, "\n## %s\n\n", t.model)
	c := r.config
	if len(t.leftOut) > 0 {
		fmt.Fprintf(w, "Without %s, which failed on this model.\n\n", strings.Join(t.leftOut, ", "))
	}
	if len(c.tests) > 0 {
		t.writeTests(w, c.tests)
	}
	if len(t.disturbed) > 0 {
		fmt.Fprint(w, "\n### Beside a busy thread\n\nTokens/s while another thread keeps one of the CPUs busy.\n\n")
		t.writeDisturbed(w, c.tests)
	}
	if len(c.curve) > 0 {
		fmt.Fprint(w, "\n### n tokens in a pass\n\n")
		if plot != "" {
			fmt.Fprintf(w, "![tokens/s against n, of %s](%s)\n\n", t.model, plot)
		}
		t.writeCurve(w, c.curve)
	}
}

// effort describes how often each test was run.
func (c *config) effort() string {
	return counted(c.rounds, "round") + " of " + counted(c.reps, "repetition")
}

func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// plotName is the file name of a model's plot in the report called stem.
func plotName(stem string, t *table) string {
	return stem + "-" + fileName(strings.TrimSuffix(t.model, ".gguf")) + ".svg"
}

// write prints the whole report, whose file is called stem.
func (r *report) write(w io.Writer, now time.Time, stem string) {
	c, f := r.config, r.facts
	fmt.Fprintf(w, "# %s, %s\n\n", c.topic, now.Format(time.DateOnly))
	switch {
	case len(r.tables) == 0:
		fmt.Fprintf(w, "Quern's kernels alone: medians of %d.\n\n", c.reps)
	case len(c.peers) > 0:
		fmt.Fprintf(w, "Quern beside other programs, in turns: %s. ", c.effort())
		fmt.Fprint(w, "A ratio above 1 means that Quern is faster; it is the median of the rounds' ratios.\n\n")
	default:
		fmt.Fprintf(w, "Quern alone, no peer was given: %s.\n\n", c.effort())
	}
	fmt.Fprintf(w, "- commit: %s\n", f.commit)
	fmt.Fprintf(w, "- machine: %s; instruction sets in use: %s\n", f.machine, f.kernels)
	if f.machine.Governor != "" {
		fmt.Fprintf(w, "- governor: %s\n", f.machine.Governor)
	}
	if c.threads > 0 {
		fmt.Fprintf(w, "- threads: %d of each\n", c.threads)
	}
	fmt.Fprintf(w, "- load average before: %.2f\n", f.machine.Load)
	if f.machine.Busy() {
		fmt.Fprint(w, "- **other programs were running**: measure again on a quiet machine before you believe any of this\n")
	}
	if len(r.tables) > 0 {
		r.writeMeasured(w)
	}
	fmt.Fprintf(w, "- date: %s\n\nTo reproduce:\n\n", now.UTC().Format(time.RFC3339))
	outer, inner := r.commands()
	fmt.Fprintf(w, "    %s\n\nwhich runs, in turns:\n\n    %s\n", outer, strings.Join(inner, "\n    "))
	for i := range r.tables {
		plot := ""
		if len(c.curve) > 0 {
			plot = plotName(stem, &r.tables[i])
		}
		r.writeModel(w, &r.tables[i], plot)
	}
	if r.kernels != nil {
		fmt.Fprintf(w, "\n## Kernels alone\n\n%s", r.kernels)
	}
}

// writeMeasured names the peers, and the machine's roofline as Quern measured it.
func (r *report) writeMeasured(w io.Writer) {
	any := union(r.config.tests, r.config.curve)[0]
	for _, e := range r.config.peers {
		build := ""
		for _, t := range r.tables {
			build = cmp.Or(build, t.rounds[0][e.name][any].BuildCommit)
		}
		fmt.Fprintf(w, "- %s: %s\n", e.name, cmp.Or(build, "build unknown"))
	}
	if g := r.tables[0].rounds[0][r.config.ours.name][any]; g.RoofTS > 0 {
		fmt.Fprintf(w, "- measured: %.1f GB/s read, %.0f G int8 multiply-adds/s\n", g.ReadGBps, g.Int8GMACs)
	}
}

// commands returns the command that reproduces the measurement, and the commands that
// it runs.
func (r *report) commands() (outer string, inner []string) {
	c := r.config
	args := []string{}
	add := func(words ...string) { args = append(args, words...) }
	if len(r.tables) > 0 {
		var models []string
		for _, t := range r.tables {
			models = append(models, t.model)
		}
		add("-models", strings.Join(models, ","))
	}
	for _, e := range c.peers {
		add("-peer", `"`+strings.Join(append([]string{e.name + "=/path/to/" + filepath.Base(e.argv[0])}, e.argv[1:]...), " ")+`"`)
	}
	add("-tests", cmp.Or(testList(c.tests), `""`), "-curve", cmp.Or(promptList(c.curve), `""`))
	if !c.kernels {
		add("-kernels=false")
	}
	if c.neighbour {
		add("-neighbour")
	}
	add(c.shared...)
	add("-threads", fmt.Sprint(c.threads), "-rounds", fmt.Sprint(c.rounds), "-repetitions", fmt.Sprint(c.reps))
	outer = fmt.Sprintf("make bench BENCH_ARGS='%s'", strings.Join(args, " "))
	if len(r.tables) > 0 {
		for _, l := range launches(union(c.tests, c.curve)) {
			flags := strings.Join(l.args("MODEL", c), " ")
			inner = append(inner, "bin/quern bench "+flags)
			for _, e := range c.peers {
				inner = append(inner, strings.Join(append([]string{filepath.Base(e.argv[0])}, append(slices.Clone(e.argv[1:]), flags)...), " "))
			}
		}
	}
	if c.kernels {
		inner = append(inner, "bin/quern bench "+strings.Join(c.kernelArgs(), " "))
	}
	return outer, inner
}

// save writes the report to a new file in the results directory, the plots
// beside it, and returns the report's path.
func (r *report) save(now time.Time) (string, error) {
	dir := r.config.results
	f, stem, err := page.Create(dir, r.config.topic, now)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	r.write(&text, now, stem)
	_, err = f.WriteString(text.String())
	return f.Name(), errors.Join(err, f.Close(), r.plots(dir, stem))
}

// plots draws the curve of each model.
func (r *report) plots(dir, stem string) error {
	if len(r.config.curve) == 0 {
		return nil
	}
	for i := range r.tables {
		t := &r.tables[i]
		title := fmt.Sprintf("%s, %d threads, %s", t.model, r.config.threads, r.facts.machine.CPU)
		if err := plotCurve(filepath.Join(dir, plotName(stem, t)), title, t, r.config.curve); err != nil {
			return err
		}
	}
	return nil
}
