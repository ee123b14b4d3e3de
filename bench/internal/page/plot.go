package page

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
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Colour-blind safe colours on white: a plot has its own background, so that it is
// readable on a dark page.
var (
	Blue   = color.RGBA{0x00, 0x72, 0xb2, 0xff}
	Others = []color.Color{
		color.RGBA{0xd5, 0x5e, 0x00, 0xff}, color.RGBA{0x00, 0x9e, 0x73, 0xff}, color.RGBA{0xcc, 0x79, 0xa7, 0xff},
		color.RGBA{0xe6, 0x9f, 0x00, 0xff}, color.RGBA{0x56, 0xb4, 0xe9, 0xff},
	}
	Grey = color.Gray{0x70}
)

// NewPlot returns a plot in the common style, with a grid.
func NewPlot(title, x, y string) *plot.Plot {
	sans := func(size font.Length) font.Font {
		return font.Font{Typeface: "Liberation", Variant: "Sans", Size: size}
	}
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text = x
	p.Y.Label.Text = y
	p.Title.TextStyle.Font = sans(13)
	p.Title.Padding = 8
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font = sans(12)
		a.Tick.Label.Font = sans(10)
		a.Padding = 0
	}
	p.Legend.Top, p.Legend.Left = true, true
	p.Legend.XOffs, p.Legend.YOffs = 8, -8
	p.Legend.Padding = 3
	p.Legend.TextStyle.Font = sans(11)
	lines := plotter.NewGrid()
	lines.Horizontal.Color, lines.Vertical.Color = color.Gray{0xe4}, color.Gray{0xe4}
	p.Add(lines)
	return p
}

// WriteSVG writes plots of the same width to a file, stacked vertically.
func WriteSVG(path string, width, height vg.Length, plots ...*plot.Plot) error {
	svg, err := SVG(width, height, plots...)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return os.WriteFile(path, svg, 0o644)
}

// SVG returns plots of the same width, stacked vertically.
func SVG(width, height vg.Length, plots ...*plot.Plot) ([]byte, error) {
	canvas := vgsvg.New(width, height)
	paper := draw.New(canvas)
	paper.SetColor(color.White)
	paper.Fill(paper.Path())
	var column [][]*plot.Plot
	for _, p := range plots {
		column = append(column, []*plot.Plot{p})
	}
	tiles := draw.Tiles{Rows: len(plots), Cols: 1, PadY: 12}
	for i, row := range plot.Align(column, tiles, draw.Crop(paper, 8, -12, 8, -10)) {
		plots[i].Draw(row[0])
	}
	var svg bytes.Buffer
	if _, err := canvas.WriteTo(&svg); err != nil {
		return nil, err
	}
	// The font used for the layout is rarely installed.
	return bytes.ReplaceAll(svg.Bytes(), []byte("font-family:Liberation Sans;"), []byte("font-family:Liberation Sans,Arial,Helvetica,sans-serif;")), nil
}

// OneTwoFive returns ticks at 1, 2, 5, 10, ... between least and most, from 0.01 up.
func OneTwoFive(least, most float64) []plot.Tick {
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

// Decades are ticks at the powers of ten, as decimal numbers.
type Decades struct{}

// Ticks implements plot.Ticker.
func (Decades) Ticks(least, most float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Ceil(math.Log10(least)); e <= math.Floor(math.Log10(most)+1e-9); e++ {
		v := math.Pow(10, e)
		ticks = append(ticks, plot.Tick{Value: v, Label: strconv.FormatFloat(v, 'f', max(0, -int(e)), 64)})
	}
	return ticks
}

// Small is the style of numbers in a plot, which stand centred above a point.
func Small(p *plot.Plot) text.Style {
	style := p.X.Tick.Label
	style.Font.Size, style.XAlign, style.YAlign = 8, text.XCenter, text.YBottom
	return style
}
