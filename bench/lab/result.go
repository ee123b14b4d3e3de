package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-llm/quern/bench/internal/page"
)

// A result is what one experiment found, with one model or about the machine.
type result struct {
	Lab        string     `json:"lab"`
	Model      string     `json:"model,omitempty"` // the file's name without .gguf
	Weights    string     `json:"weights,omitempty"`
	Parameters float64    `json:"parameters,omitempty"`
	Text       string     `json:"text,omitempty"`
	Findings   []finding  `json:"findings"`
	Head       []string   `json:"head,omitempty"`
	Rows       [][]string `json:"rows,omitempty"`
	Plot       *graph     `json:"plot,omitempty"`

	Date    string  `json:"date"`
	Commit  string  `json:"commit"`
	Machine string  `json:"machine"`
	Load    float64 `json:"load"` // before it began to be written
}

// A finding is a number that decides, beside what it was held to.
type finding struct {
	Key       string `json:"key"`
	Measure   string `json:"measure"`
	Number    string `json:"number"` // with its unit, as the page has it
	Threshold string `json:"threshold"`
	Verdict   string `json:"verdict"`
}

type graph struct {
	X      string   `json:"x"`
	Y      string   `json:"y"`
	Series []series `json:"series"`
}

type series struct {
	Name string    `json:"name"`
	X    []float64 `json:"x"`
	Y    []float64 `json:"y"`
}

var verdicts = []string{"adopted", "option", "refuted", "open"}

// check holds what a program printed to the form that the page needs.
func (r *result) check() error {
	if len(r.Findings) == 0 {
		return fmt.Errorf("%s: no findings", r.Lab)
	}
	for _, f := range r.Findings {
		if f.Key == "" || f.Number == "" || f.Measure == "" || f.Threshold == "" || !slices.Contains(verdicts, f.Verdict) {
			return fmt.Errorf("%s: finding %+v lacks something, or has another verdict than %s", r.Lab, f, strings.Join(verdicts, ", "))
		}
		if strings.Contains(f.Number+f.Measure, "nan") || strings.Contains(f.Number+f.Measure, "|") {
			return fmt.Errorf("%s: finding %s: %q", r.Lab, f.Key, f.Number)
		}
	}
	for _, row := range r.Rows {
		if len(row) != len(r.Head) {
			return fmt.Errorf("%s: a row of %d cells under a head of %d", r.Lab, len(row), len(r.Head))
		}
		if slices.ContainsFunc(row, func(cell string) bool { return strings.Contains(cell, "|") }) {
			return fmt.Errorf("%s: a cell with a bar: %q", r.Lab, row)
		}
	}
	if r.Plot != nil {
		for _, s := range r.Plot.Series {
			if len(s.X) != len(s.Y) || len(s.X) == 0 {
				return fmt.Errorf("%s: series %s: %d and %d numbers", r.Lab, s.Name, len(s.X), len(s.Y))
			}
		}
	}
	return nil
}

func (r *result) file() string {
	name := r.Date + "-" + r.Lab
	if r.Model != "" {
		name += "-" + r.Model
	}
	return name + ".json"
}

// print writes the table and the findings.
func (r *result) print(w io.Writer) {
	if len(r.Head) > 0 {
		g := page.Grid{Head: r.Head, Rows: r.Rows}
		g.Write(w)
	}
	for _, f := range r.Findings {
		fmt.Fprintf(w, "%s: %s (%s; %s)\n", f.Verdict, f.Number, f.Measure, f.Threshold)
	}
}

func (r *result) finding(key string) (finding, bool) {
	i := slices.IndexFunc(r.Findings, func(f finding) bool { return f.Key == key })
	if i < 0 {
		return finding{}, false
	}
	return r.Findings[i], true
}

// newest reads a folder of results: of each experiment and model the last, the largest models first.
func newest(dir string) ([]*result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	slices.Sort(files) // by day
	last := map[[2]string]*result{}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		r := new(result)
		if err := json.Unmarshal(b, r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := r.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if r.file() != filepath.Base(path) {
			return nil, fmt.Errorf("%s: its day, experiment and model are those of %s", path, r.file())
		}
		last[[2]string{r.Lab, r.Model}] = r
	}
	var all []*result
	for _, r := range last {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b *result) int {
		return cmp.Or(cmp.Compare(a.Lab, b.Lab), cmp.Compare(b.Parameters, a.Parameters), cmp.Compare(a.Model, b.Model))
	})
	return all, nil
}
