package main

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/quern-llm/quern/go/machine"
)

// Every experiment has a file of its own with a head that says what it is, of fewer than 200 lines, or is named in Go.
func TestExperiments(t *testing.T) {
	var files []string
	for _, pattern := range []string{"../../scripts/lab/*.py", "c/*.c"} {
		some, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, some...)
	}
	named := map[string]bool{}
	for _, e := range experiments {
		named[e.name] = true
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		if name == "lab" || name == "model" {
			continue // what the others share
		}
		if !named[name] {
			t.Errorf("%s is no experiment of main.go", path)
		}
		head, _, _ := strings.Cut(string(b), "\nimport ")
		for _, part := range []string{"Claim ", "Measure ", "Data ", "Threshold "} {
			if !strings.Contains(head, part) {
				t.Errorf("%s: its head has no %s", path, part)
			}
		}
		if n := strings.Count(string(b), "\n"); n >= 200 {
			t.Errorf("%s has %d lines: an experiment has fewer than 200", path, n)
		}
	}
	for _, e := range experiments {
		if e.model && !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == e.name+".py" }) {
			t.Errorf("%s has no file", e.name)
		}
	}
}

func TestCheck(t *testing.T) {
	good := func() *result {
		return &result{Lab: "x", Findings: []finding{{"a", "of b", "1 %", "below 2 %", "open"}}, Head: []string{"c"}, Rows: [][]string{{"d"}},
			Plot: &graph{Series: []series{{"e", []float64{1}, []float64{2}}}}}
	}
	if err := good().check(); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*result){
		"no findings":     func(r *result) { r.Findings = nil },
		"no number":       func(r *result) { r.Findings[0].Number = "" },
		"another verdict": func(r *result) { r.Findings[0].Verdict = "maybe" },
		"not a number":    func(r *result) { r.Findings[0].Number = "nan times" },
		"a bar":           func(r *result) { r.Findings[0].Measure = "|dh|" },
		"a bar in a cell": func(r *result) { r.Rows[0][0] = "|" },
		"a short row":     func(r *result) { r.Rows[0] = nil },
		"a series":        func(r *result) { r.Plot.Series[0].Y = nil },
	} {
		r := good()
		spoil(r)
		if r.check() == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

// The newest of each model counts, by its day; the largest model comes first.
func TestNewest(t *testing.T) {
	dir := t.TempDir()
	for _, r := range []result{
		{Date: "2026-01-01", Model: "small", Parameters: 1}, {Date: "2026-01-03", Model: "small", Parameters: 1},
		{Date: "2026-01-02", Model: "large", Parameters: 2},
	} {
		r.Lab, r.Findings = "x", []finding{{"key", "m", r.Date, "t", "refuted"}}
		b := `{"lab":"x","model":"` + r.Model + `","date":"` + r.Date + `","parameters":` + string('0'+rune(r.Parameters)) +
			`,"findings":[{"key":"key","measure":"m","number":"` + r.Date + `","threshold":"t","verdict":"refuted"}]}`
		if err := os.WriteFile(filepath.Join(dir, r.file()), []byte(b), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := newest(dir)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Model != "large" || all[1].Date != "2026-01-03" {
		t.Errorf("%+v", all)
	}
	if r, f, ok := deciding(all, source{"x", "key"}); !ok || r.Model != "large" || f.Number != "2026-01-02" {
		t.Errorf("%v, %v, %v", r, f, ok)
	}
	all[0].Findings[0].Verdict = "open" // then a smaller model that decides does
	if r, _, _ := deciding(all, source{"x", "key"}); r.Model != "small" {
		t.Errorf("%v decides", r)
	}
	if err := os.Rename(filepath.Join(dir, "2026-01-02-x-large.json"), filepath.Join(dir, "2026-01-04-x-large.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := newest(dir); err == nil {
		t.Error("a file under another day was taken")
	}
}

func TestSiblings(t *testing.T) {
	cpus := []machine.CPU{
		{ID: 0, Core: 0, Allowed: true}, {ID: 1, Core: 1, Allowed: true}, {ID: 2, Core: 2, Allowed: false},
		{ID: 3, Core: 0, Allowed: true}, {ID: 4, Core: 1, Allowed: true}, {ID: 5, Core: 2, Allowed: true}, {ID: 6, Core: 0, Allowed: true},
	}
	if got := siblings(cpus); !slices.Equal(got, []string{"0:3", "1:4"}) {
		t.Errorf("%v", got)
	}
	if got := siblings(cpus[:3]); got != nil {
		t.Errorf("one thread a core: %v", got)
	}
}

func TestTemperature(t *testing.T) {
	files := fstest.MapFS{
		"sys/class/thermal/thermal_zone0/temp": {Data: []byte("41000\n")},
		"sys/class/thermal/thermal_zone1/temp": {Data: []byte("63500\n")},
	}
	if d, err := temperature(files); err != nil || d != 63.5 {
		t.Errorf("%v degrees, %v", d, err)
	}
	if _, err := temperature(fstest.MapFS{}); err == nil {
		t.Error("a temperature of nothing")
	}
}

func TestUnknownExperiment(t *testing.T) {
	if err := runAll(context.Background(), setting{}, "spectrum,nothing", t.TempDir()); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("%v", err)
	}
}

// The page and its plots are what the newest results make of them. After new results: make lab, or
// scripts/go.sh run ./bench/lab -page.
func TestPage(t *testing.T) {
	files, err := render("../..")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if filepath.Ext(name) == ".svg" && runtime.GOARCH != "amd64" {
			continue // other compilers fuse multiplications and additions: last digits of coordinates differ
		}
		got, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Error(err)
		} else if string(got) != string(want) {
			t.Errorf("%s is not what the newest results make of it: scripts/go.sh run ./bench/lab -page", name)
		}
	}
	if len(theories) != 26 {
		t.Errorf("%d theories", len(theories))
	}
	for _, th := range slices.Concat(theories, parts) {
		if len(th.sources) == 0 && (th.number == "" || !slices.Contains(verdicts, th.verdict)) || len(th.sources) > 0 && th.verdict+th.number+th.repeat != "" {
			t.Errorf("%s: want findings, or a verdict and a number, and not both", th.name)
		}
	}
}

// A page whose verdict is another than the result's is noticed.
func TestPageFollowsResults(t *testing.T) {
	root := t.TempDir()
	for _, dir := range []string{results, "docs"} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(filepath.Join(root, results), os.DirFS(filepath.Join("../..", results))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join("../..", pageFile))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, pageFile), text, 0o644); err != nil {
		t.Fatal(err)
	}
	all, err := newest(filepath.Join(root, results))
	if err != nil {
		t.Fatal(err)
	}
	r, f, ok := deciding(all, source{"layers", "residue"})
	if !ok || f.Verdict != "refuted" {
		t.Fatalf("%v, %v", r, f)
	}
	b, err := os.ReadFile(filepath.Join(root, results, r.file()))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, results, r.file()), []byte(strings.Replace(string(b), `"refuted"`, `"adopted"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	files, err := render(root)
	if err != nil {
		t.Fatal(err)
	}
	if string(files[pageFile]) == string(text) {
		t.Error("the page is the same with another verdict")
	}
	// One theory without a result fails, whatever comes behind it.
	lost, err := filepath.Glob(filepath.Join(root, results, "*-layers-*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range lost {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := render(root); err == nil || !strings.Contains(err.Error(), "residue") {
		t.Errorf("a page without the results of layers: %v", err)
	}
}
