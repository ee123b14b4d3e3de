package main

import (
	"image/color"
	"math"
	"strconv"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/quern-llm/quern/bench/internal/page"
)

// bins is the number of time bins of a plot, about one per two points of width.
const bins = 200

// A sample is a duration that was seen at a time of the run.
type sample struct {
	at, took time.Duration
}

// plotRun draws latencies over the time of the run: percentiles hide when it stalled,
// and what arrived at that time. It reports whether there was anything to draw.
func plotRun(path, title string, results []*result) (drawn bool, err error) {
	var itl, ttft, intruders []sample
	end := time.Millisecond
	for _, r := range results {
		end = max(end, r.since(r.end))
		first, ok := r.ttft()
		switch {
		case !ok:
		case r.class == intruder:
			intruders = append(intruders, sample{r.intended, first})
		default:
			ttft = append(ttft, sample{r.intended, first})
			for i, gap := range r.itl() {
				itl = append(itl, sample{r.since(r.pieces[i+1]), gap})
			}
		}
	}
	var panels []*plot.Plot
	for _, p := range []struct {
		y       string
		samples []sample
	}{{"gap between tokens, ms", itl}, {"time to first token, ms", ttft}} {
		if len(p.samples) == 0 {
			continue
		}
		panel, err := plotOver(p.y, p.samples, intruders, end)
		if err != nil {
			return false, err
		}
		panels = append(panels, panel)
	}
	if len(panels) == 0 {
		return false, nil
	}
	panels[0].Title.Text = title
	for _, p := range panels[1:] {
		p.Legend = plot.NewLegend() // one is enough
	}
	return true, page.WriteSVG(path, 9*vg.Inch, vg.Length(3.5*float64(len(panels)))*vg.Inch, panels...)
}

// plotOver draws, for each time bin with samples, a bar from their median to their
// maximum. Times when an intruder waits for its first token are shaded.
func plotOver(y string, samples, intruders []sample, end time.Duration) (*plot.Plot, error) {
	p := page.NewPlot("", "seconds", y)
	p.Y.Scale = plot.LogScale{}
	p.Y.Tick.Marker = plot.TickerFunc(page.OneTwoFive)
	p.X.Tick.Marker = plot.TickerFunc(evenly)
	p.X.Min, p.X.Max = 0, end.Seconds()
	points := bin(samples, end)
	p.Y.Min, p.Y.Max = points.low/1.5, points.high*1.5 // no empty range, whatever was seen
	for i, s := range intruders {
		from, to := s.at.Seconds(), (s.at + s.took).Seconds()
		area, err := plotter.NewPolygon(plotter.XYs{{X: from, Y: p.Y.Min}, {X: to, Y: p.Y.Min}, {X: to, Y: p.Y.Max}, {X: from, Y: p.Y.Max}})
		if err != nil {
			return nil, err
		}
		area.Color, area.LineStyle.Width = color.RGBA{0xfb, 0xe3, 0xd0, 0xff}, 0
		p.Add(area)
		if i == 0 {
			p.Legend.Add("a long prompt until its first token", area)
		}
	}
	bars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return nil, err
	}
	bars.CapWidth, bars.Width, bars.Color = 0, 1.5, page.Blue
	dots, err := plotter.NewScatter(points.XYs)
	if err != nil {
		return nil, err
	}
	dots.Shape, dots.Radius, dots.Color = draw.CircleGlyph{}, 1.5, page.Blue
	p.Add(bars, dots)
	p.Legend.Add("median, with a bar to the maximum", dots)
	return p, nil
}

// evenly returns at most ten ticks, in steps of 1, 2 or 5 times a power of ten.
func evenly(least, most float64) []plot.Tick {
	step := math.Pow10(int(math.Floor(math.Log10(most-least))) - 1)
	for _, times := range []float64{2, 2.5, 2} { // 0.1 to 0.2, 0.5 and 1 of the power
		if (most-least)/step > 10 {
			step *= times
		}
	}
	var ticks []plot.Tick
	for i := math.Ceil(least / step); i*step <= most; i++ {
		ticks = append(ticks, plot.Tick{Value: i * step, Label: strconv.FormatFloat(i*step, 'g', 6, 64)})
	}
	return ticks
}

// binned samples are medians in milliseconds, with the distance to the maximum.
type binned struct {
	plotter.XYs
	plotter.YErrors
	low, high float64 // of all
}

// bin groups samples into equal time bins until end.
func bin(samples []sample, end time.Duration) binned {
	var in [bins][]time.Duration
	for _, s := range samples {
		i := int(int64(bins) * int64(s.at) / max(int64(end), 1))
		in[min(max(i, 0), bins-1)] = append(in[min(max(i, 0), bins-1)], s.took)
	}
	out := binned{low: math.Inf(1)}
	for i, v := range in {
		if len(v) == 0 {
			continue
		}
		const least = 0.1 // ms: pieces that come together have no gap, and no logarithm
		s := spreadOf(v)
		median, most := max(s.P50, least), max(s.Max, least)
		out.XYs = append(out.XYs, plotter.XY{X: (float64(i) + 0.5) / bins * end.Seconds(), Y: median})
		out.YErrors = append(out.YErrors, struct{ Low, High float64 }{0, most - median})
		out.low, out.high = min(out.low, median), max(out.high, most)
	}
	return out
}
