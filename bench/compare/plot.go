package main

import (
	"bytes"
	"fmt"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colours that those who see some colours alike can still tell apart, on white:
// the plot brings its background, so that it reads the same on a dark page.
var (
	oursColor  = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	peerColors = []color.Color{
		color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff},
		color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	}
	roofColor = color.Gray{0x70}
	gridColor = color.Gray{0xe4}
)

// plotCurve draws tokens/s against the tokens of a pass, both logarithmic: what
// costs nothing climbs with the slope of the left part of the roofline.
func plotCurve(path, title string, t *table, curve []test) error {
	const width, height = 8 * vg.Inch, 5 * vg.Inch
	sans := func(size font.Length) font.Font {
		return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	}
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text = "tokens in a pass (n)"
	p.Y.Label.Text = "tokens/s"
	p.Title.TextStyle.Font = sans(13)
	p.Title.Padding = 8
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font = sans(12)
		a.Tick.Label.Font = sans(10)
		a.Scale = plot.LogScale{}
		a.Padding = 0
	}
	p.X.Tick.Marker = plot.TickerFunc(powersOfTwo)
	p.Y.Tick.Marker = plot.TickerFunc(oneTwoFive)
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = 8, -8
	p.Legend.Padding = 3
	p.Legend.TextStyle.Font = sans(11)
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Vertical.Color = gridColor, gridColor
	p.Add(lines)

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
		roof.Width, roof.Color, roof.Dashes = 1.5, roofColor, []vg.Length{6, 4}
		p.Add(roof)
		p.Legend.Add("roofline", roof)
	}
	for i, e := range t.engines {
		line, dots, err := plotter.NewLinePoints(points(func(x test) float64 { return t.speed(e, x) }))
		if err != nil {
			return err
		}
		name, c := e.name, peerColors[max(i-1, 0)%len(peerColors)]
		if i == 0 {
			name, c = "quern", oursColor
		}
		line.Width, line.Color = 2, c
		dots.Shape, dots.Radius, dots.Color = draw.CircleGlyph{}, 2, c
		p.Add(line, dots)
		p.Legend.Add(name, line, dots)
	}

	canvas := vgsvg.New(width, height)
	page := draw.New(canvas)
	page.SetColor(color.White)
	page.Fill(page.Path())
	p.Draw(draw.Crop(page, 8, -12, 8, -10))
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	// Few have the font that the text was laid out with.
	text := bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
	return os.WriteFile(path, text, 0o644)
}

// powersOfTwo marks 1, 2, 4, ... between least and most.
func powersOfTwo(least, most float64) []plot.Tick {
	var ticks []plot.Tick
	for v := 1.0; v <= most; v *= 2 {
		if v >= least {
			ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', -1, 64)})
		}
	}
	return ticks
}

// oneTwoFive marks 1, 2, 5, 10, ... between least and most, from a hundredth up.
func oneTwoFive(least, most float64) []plot.Tick {
	var ticks []plot.Tick
	for e := -2; math.Pow10(e) <= most; e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow10(e); v >= least && v <= most {
				ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'g', 6, 64)})
			}
		}
	}
	return ticks
}
