package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/quern-llm/quern/bench/internal/page"
)

const (
	pageFile = "docs/theories.md"
	results  = "bench/results/lab"
)

// updatePage writes the page and its plots of the repository in root.
func updatePage(root string) error {
	files, err := render(root)
	if err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(root, name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// Parts of the page between these marks are written here, and what is around them by people.
var marked = regexp.MustCompile(`(?s)(<!-- lab: (\w+) -->\n).*?(<!-- lab end -->)`)

// render returns the page as the newest results would have it, and its plots, by their names in the repository.
func render(root string) (map[string][]byte, error) {
	all, err := newest(filepath.Join(root, results))
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(root, pageFile))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for _, e := range experiments {
		if svg, err := drawn(of(all, e.name)); err != nil {
			return nil, fmt.Errorf("%s: %w", e.name, err)
		} else if svg != nil {
			files[svgFile(e.name)] = svg
		}
	}
	var failed error
	files[pageFile] = marked.ReplaceAllFunc(text, func(old []byte) []byte {
		m := marked.FindSubmatch(old)
		var b bytes.Buffer
		switch name := string(m[2]); name {
		case "theories":
			failed = errors.Join(failed, writeTheories(&b, theories, all))
			b.WriteString(counted(b.String()))
		case "parts":
			failed = errors.Join(failed, writeTheories(&b, parts, all))
		case "models":
			writeModels(&b, all, files)
		default:
			failed = errors.Join(failed, fmt.Errorf("%s has a part %q", pageFile, name))
		}
		return slices.Concat(m[1], b.Bytes(), m[3])
	})
	return files, failed
}

func svgFile(lab string) string { return "docs/theories-" + lab + ".svg" }

// of returns the results of an experiment, the largest models first.
func of(all []*result, lab string) []*result {
	var some []*result
	for _, r := range all {
		if r.Lab == lab {
			some = append(some, r)
		}
	}
	return some
}

// deciding returns the finding of the largest model that decides, or of the largest where none does.
func deciding(all []*result, s source) (*result, finding, bool) {
	var first *result
	var open finding
	for _, r := range of(all, s.lab) {
		f, ok := r.finding(s.key)
		if !ok {
			continue
		}
		if f.Verdict != "open" {
			return r, f, true
		}
		if first == nil {
			first, open = r, f
		}
	}
	return first, open, first != nil
}

func writeTheories(b *bytes.Buffer, rows []theory, all []*result) error {
	b.WriteString("| | theory | the claim | verdict | the number that decides | to repeat it |\n| ---: | --- | --- | --- | --- | --- |\n")
	for i, t := range rows {
		verdict, number, repeat := t.verdict, t.number, t.repeat
		for k, s := range t.sources {
			r, f, ok := deciding(all, s)
			if !ok {
				return fmt.Errorf("%s: no result of %s has the finding %q", t.name, s.lab, s.key)
			}
			if k == 0 {
				verdict, repeat = f.Verdict, fmt.Sprintf("`make lab LAB=%s`", s.lab)
			} else {
				number += "; "
				if !strings.Contains(repeat, s.lab) {
					repeat += fmt.Sprintf(", `LAB=%s`", s.lab)
				}
			}
			if verdict == "adopted" && !t.built {
				verdict = "option"
			}
			number += fmt.Sprintf("%s: %s ([%s](../%s/%s))", f.Measure, f.Number, subject(r), results, r.file())
		}
		if t.note != "" {
			number += ". *" + t.note + "*"
		}
		fmt.Fprintf(b, "| %d | %s | %s | **%s** | %s | %s |\n", i+1, t.name, t.claim, verdict, number, repeat)
	}
	return nil
}

// counted says how many rows of a table have each verdict.
func counted(table string) string {
	var each []string
	for _, v := range verdicts {
		each = append(each, fmt.Sprintf("%d %s", strings.Count(table, "| **"+v+"** |"), v))
	}
	return "\nOf these are " + strings.Join(each, ", ") + ".\n"
}

func subject(r *result) string {
	if r.Model == "" {
		return r.Machine
	}
	return r.Model
}

// writeModels writes what each experiment found with each model, and its plot.
func writeModels(b *bytes.Buffer, all []*result, files map[string][]byte) {
	for _, e := range experiments {
		some := of(all, e.name)
		if len(some) == 0 {
			continue
		}
		fmt.Fprintf(b, "### %s\n\n| finding | | verdict | number |\n| --- | --- | --- | --- |\n", e.name)
		for _, f := range some[0].Findings {
			for _, r := range some {
				if g, ok := r.finding(f.Key); ok {
					fmt.Fprintf(b, "| %s | [%s](../%s/%s) | %s | %s |\n", g.Measure, subject(r), results, r.file(), g.Verdict, g.Number)
				}
			}
		}
		b.WriteString("\n")
		if svg := svgFile(e.name); files[svg] != nil {
			fmt.Fprintf(b, "![%s](%s)\n\n", e.name, filepath.Base(svg))
		}
	}
}

// drawn returns the plot of an experiment: all models in one where each has a single line, else that of the largest.
func drawn(some []*result) ([]byte, error) {
	some = slices.DeleteFunc(slices.Clone(some), func(r *result) bool { return r.Plot == nil })
	if len(some) == 0 {
		return nil, nil
	}
	// A quantized file is on a grid, which some experiments see.
	if i := slices.IndexFunc(some, func(r *result) bool { return r.Weights == "float" }); i > 0 && len(some[0].Plot.Series) > 1 {
		some = some[i:]
	}
	g, title := some[0].Plot, some[0].Lab+", "+some[0].Model
	lines := g.Series
	if len(g.Series) == 1 {
		title, lines = some[0].Lab+": "+g.Series[0].Name, nil
		for _, r := range some {
			lines = append(lines, series{r.Model, r.Plot.Series[0].X, r.Plot.Series[0].Y})
		}
	}
	p := page.NewPlot(title, g.X, g.Y)
	// Where lines do not go: under those that bend down, above those that bend up, right of those that fall.
	y := g.Series[0].Y
	first, middle, last := y[0], y[len(y)/2], y[len(y)-1]
	if last < first || middle > (first+last)/2 {
		p.Legend.XOffs = 3.4 * vg.Inch
		if last >= first {
			p.Legend.Top, p.Legend.YOffs = false, 8
		}
	}
	for i, s := range lines {
		xy := make(plotter.XYs, len(s.X))
		for k := range s.X {
			xy[k].X, xy[k].Y = s.X[k], s.Y[k]
		}
		line, err := plotter.NewLine(xy)
		if err != nil {
			return nil, err
		}
		line.Width, line.Color = 2, page.Blue
		if i > 0 {
			line.Color = page.Others[(i-1)%len(page.Others)]
			line.Dashes = []vg.Length{vg.Length(2 + 2*i), 3}
		}
		p.Add(line)
		p.Legend.Add(s.Name, line)
	}
	return page.SVG(7*vg.Inch, 4*vg.Inch, p)
}
