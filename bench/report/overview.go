package main

import (
	"cmp"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/quern-llm/quern/bench/internal/page"
)

// peers shows the newest comparison of each model with other programs: a bar for each program and test.
func (r *results) peers() (section, error) { return r.charts("peers", "Beside other programs", false) }

// changes shows comparisons with Quern itself before a change.
func (r *results) changes() (section, error) {
	return r.charts("changes", "Before and after a change", true)
}

func (r *results) charts(anchor, title string, ofChanges bool) (section, error) {
	var body strings.Builder
	for _, s := range r.speeds() {
		if s.ofChange() != ofChanges {
			continue
		}
		svg, err := bars(&s)
		if err != nil {
			return section{}, err
		}
		fmt.Fprintf(&body, "<h3>%s</h3>\n%s<p>%s</p>\n", template.HTMLEscapeString(s.model), svg, linked(s.page))
	}
	return section{anchor, title, template.HTML(body.String())}, nil
}

// bars draws how many times faster than each peer, a group for each test.
func bars(s *speeds) (template.HTML, error) {
	p := page.NewPlot("", "", "speed, as a share of the fastest")
	const width = 22 // room for a number
	n := 1 + len(s.peers)
	best := make([]float64, len(s.tests))
	for i := range s.tests {
		best[i] = s.ours[i]
		for _, theirs := range s.theirs {
			best[i] = max(best[i], theirs[i])
		}
	}
	add := func(k int, name string, speed []float64, c color.Color) error {
		values := make(plotter.Values, len(speed))
		for i, v := range speed {
			values[i] = v / best[i]
		}
		b, err := plotter.NewBarChart(values, width)
		if err != nil {
			return err
		}
		b.Color, b.LineStyle.Width, b.Offset = c, 0, vg.Length(width*(float64(k)-float64(n-1)/2))
		labels, err := speedLabels(values, speed, b.Offset)
		if err != nil {
			return err
		}
		labels.TextStyle = slices.Repeat([]text.Style{page.Small(p)}, len(speed))
		p.Add(b, labels)
		p.Legend.Add(name, b)
		return nil
	}
	if err := add(0, "quern", s.ours, page.Blue); err != nil {
		return "", err
	}
	for k, name := range s.peers {
		if err := add(k+1, name, s.theirs[k], page.Others[k%len(page.Others)]); err != nil {
			return "", err
		}
	}
	p.NominalX(s.tests...)
	p.Y.Min, p.Y.Max = 0, 1.15+0.13*float64(n) // room for the legend above the bars
	svg, err := page.SVG(max(8*vg.Inch, vg.Length(n*len(s.tests)*width+200)), 3*vg.Inch, p)
	if err != nil {
		return "", err
	}
	return inline(svg)
}

// speedLabels are the speeds above bars of a height, which stand beside the middle of their group.
func speedLabels(heights plotter.Values, speeds []float64, offset vg.Length) (*plotter.Labels, error) {
	var at plotter.XYLabels
	for i, v := range speeds {
		at.XYs = append(at.XYs, plotter.XY{X: float64(i), Y: heights[i]})
		at.Labels = append(at.Labels, strconv.FormatFloat(v, 'f', max(0, 1-int(math.Log10(max(v, 1)))), 64))
	}
	labels, err := plotter.NewLabels(at)
	if err == nil {
		labels.Offset = vg.Point{X: offset, Y: 2}
	}
	return labels, err
}

// rooflines shows the newest curve of each model, against the roofline.
func (r *results) rooflines() (section, error) {
	var body strings.Builder
	for _, c := range r.curves() {
		svg, err := r.picture(c.file)
		if err != nil {
			return section{}, err
		}
		fmt.Fprintf(&body, "<h3>%s</h3>\n%s<p>%s</p>\n", template.HTMLEscapeString(c.title), svg, linked(c.page))
	}
	var rows [][]string
	for _, s := range r.speeds() {
		for i, test := range s.tests {
			if s.roof[i] > 0 {
				of := fmt.Sprintf("%.0f %%", 100*s.ours[i]/s.roof[i])
				if s.ours[i] > s.roof[i] {
					of += ", from the caches" // the roofline is that of memory
				}
				rows = append(rows, []string{s.model, test, fmt.Sprintf("%.1f", s.ours[i]), fmt.Sprintf("%.1f", s.roof[i]), of, linked(s.page)})
			}
		}
	}
	if rows != nil {
		body.WriteString(grid([]string{"model", "test", "tokens/s", "roofline", "of it", "page"}, rows))
	}
	return section{"roofline", "Against the roofline", template.HTML(body.String())}, nil
}

// short is a model's name without its folder.
func short(name string) string {
	path, flags, _ := strings.Cut(name, " ")
	return strings.TrimSpace(strings.TrimSuffix(filepath.Base(path), ".gguf") + " " + flags)
}

// qualities shows, for each comparison of models, the divergence against the size.
func (r *results) qualities() (section, error) {
	var body strings.Builder
	for _, q := range r.quality {
		var points plotter.XYLabels
		var rows [][]string
		for _, m := range q.Models {
			row := []string{short(m.Name), fmt.Sprintf("%.2f", m.Bits), fmt.Sprintf("%.4f", m.PPL.Value), "", "", "", linked(q.name)}
			if d := m.Divergence; d != nil {
				row[3], row[4], row[5] = fmt.Sprintf("%.4f", d.PPLRatio.Value), fmt.Sprintf("%.2e", d.KLD.Value), fmt.Sprintf("%.2f %%", 100*d.SameTop.Value)
				if d.KLD.Value > 0 {
					points.XYs = append(points.XYs, plotter.XY{X: m.Bits, Y: d.KLD.Value})
					points.Labels = append(points.Labels, short(m.Name))
				}
			}
			rows = append(rows, row)
		}
		rows[0][len(rows[0])-1] = template.HTMLEscapeString(q.name + ".json")
		for i := range rows[1:] {
			rows[i+1][len(rows[i+1])-1] = ""
		}
		fmt.Fprintf(&body, "<h3>from %s, %d predictions of %s</h3>\n", template.HTMLEscapeString(short(q.Models[0].Name)), q.Scored, template.HTMLEscapeString(filepath.Base(q.Text)))
		if len(points.XYs) > 0 && spread(points.XYs) {
			svg, err := scatter(points)
			if err != nil {
				return section{}, err
			}
			body.WriteString(string(svg))
		}
		body.WriteString(grid([]string{"model", "bits per weight", "PPL", "PPL / base", "KL divergence", "same token", ""}, rows))
	}
	return section{"quality", "Quality against size", template.HTML(body.String())}, nil
}

// spread reports whether sizes differ: settings of one model are no curve.
func spread(p plotter.XYs) bool {
	return slices.ContainsFunc(p, func(q plotter.XY) bool { return math.Abs(q.X-p[0].X) > 0.01 })
}

// scatter draws divergences against bits per weight.
func scatter(points plotter.XYLabels) (template.HTML, error) {
	p := page.NewPlot("", "bits per weight", "KL divergence, nats")
	p.Y.Scale, p.Y.Tick.Marker = plot.LogScale{}, page.Decades{}
	dots, err := plotter.NewScatter(points)
	if err != nil {
		return "", err
	}
	dots.Shape, dots.Radius, dots.Color = draw.CircleGlyph{}, 3, page.Blue
	labels, err := plotter.NewLabels(points)
	if err != nil {
		return "", err
	}
	labels.Offset.X, labels.Offset.Y = 5, -3
	for i := range labels.TextStyle {
		labels.TextStyle[i].Font = p.X.Tick.Label.Font
	}
	p.Add(dots, labels)
	least := slices.MinFunc(points.XYs, func(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) }).Y
	most := slices.MaxFunc(points.XYs, func(a, b plotter.XY) int { return cmp.Compare(a.Y, b.Y) }).Y
	p.Y.Min, p.Y.Max = math.Pow(10, math.Floor(math.Log10(least))), math.Pow(10, math.Ceil(math.Log10(most*1.01)))
	p.X.Max += 1.5 // room for the labels
	svg, err := page.SVG(8*vg.Inch, 4.5*vg.Inch, p)
	if err != nil {
		return "", err
	}
	return inline(svg)
}

// realSize is the bytes of weights from which on a model's memory says something: below, that of the program is most of it.
const realSize = 100e6

// memory shows what models take: those that were compared, and the tables of pages about memory.
func (r *results) memory() (section, error) {
	var body strings.Builder
	var rows [][]string
	for _, q := range r.quality {
		for _, m := range q.Models {
			if taken := cmp.Or(m.Memory, m.RSS); m.FileBytes >= realSize {
				rows = append(rows, []string{short(m.Name), fmt.Sprintf("%.1f", m.FileBytes/1e6), fmt.Sprintf("%.1f", taken/1e6),
					fmt.Sprintf("%.2f", taken/m.FileBytes), template.HTMLEscapeString(q.name + ".json")})
			}
		}
	}
	if rows != nil {
		body.WriteString(grid([]string{"model", "weights, MB", "memory, MB", "ratio", "results"}, rows))
	}
	for _, p := range r.pages {
		cells := table(p.text)
		if !strings.Contains(p.name, "memory") || cells == nil {
			continue
		}
		for i, row := range cells {
			for k := range row {
				cells[i][k] = strings.ReplaceAll(row[k], "`", "")
			}
			cells[i] = append(cells[i], "")
		}
		cells[1][len(cells[1])-1] = linked(p.name)
		fmt.Fprintf(&body, "<h3>%s</h3>\n%s", template.HTMLEscapeString(p.title), grid(cells[0], cells[1:]))
	}
	return section{"memory", "Memory", template.HTML(body.String())}, nil
}
