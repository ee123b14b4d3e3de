package main

import (
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/quern-llm/quern/bench/internal/page"
)

// plotCurve draws tokens/s against the tokens of a pass, both logarithmic: where
// further tokens are free, the curve has the slope of the roofline's memory-bound part.
func plotCurve(path, title string, t *table, curve []test) error {
	p := page.NewPlot(title, "tokens in a pass (n)", "tokens/s")
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker = plot.TickerFunc(powersOfTwo)
	p.Y.Tick.Marker = plot.TickerFunc(page.OneTwoFive)

	points := func(y func(x test) float64) plotter.XYs {
		var v plotter.XYs
		for _, x := range curve {
			v = append(v, plotter.XY{X: float64(x.prompt), Y: y(x)})
		}
		return v
	}
	if most, _ := t.roof(curve[0]); most > 0 {
		roof, err := plotter.NewLine(points(func(x test) float64 { most, _ := t.roof(x); return most }))
		if err != nil {
			return err
		}
		roof.Width, roof.Color, roof.Dashes = 1.5, page.Grey, []vg.Length{6, 4}
		p.Add(roof)
		p.Legend.Add("roofline", roof)
	}
	for i, e := range t.engines {
		line, dots, err := plotter.NewLinePoints(points(func(x test) float64 { return t.speed(e, x) }))
		if err != nil {
			return err
		}
		name, c := e.name, page.Others[max(i-1, 0)%len(page.Others)]
		if i == 0 {
			name, c = "quern", page.Blue
		}
		line.Width, line.Color = 2, c
		dots.Shape, dots.Radius, dots.Color = draw.CircleGlyph{}, 2, c
		p.Add(line, dots)
		p.Legend.Add(name, line, dots)
	}
	return page.WriteSVG(path, 8*vg.Inch, 5*vg.Inch, p)
}

// powersOfTwo returns ticks at 1, 2, 4, ... between least and most.
func powersOfTwo(least, most float64) []plot.Tick {
	var ticks []plot.Tick
	for v := 1.0; v <= most; v *= 2 {
		if v >= least {
			ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
		}
	}
	return ticks
}
