package bench

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Layout of the picture of curves, in pixels.
const (
	curveHeight = 420 // of the field
	curveTop    = 20
	curveLeft   = 70
	curveRight  = 30
	curveBelow  = 50
	curveLine   = 18 // of the legend
)

type svgLine struct {
	XMLName xml.Name `xml:"polyline"`
	Points  string   `xml:"points,attr"`
	Fill    string   `xml:"fill,attr"`
	Stroke  string   `xml:"stroke,attr"`
	Width   string   `xml:"stroke-width,attr"`
	Dashes  string   `xml:"stroke-dasharray,attr,omitempty"`
}

// curveColours can be told apart by the colour-blind.
var curveColours = []string{svgBusy, "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377"}

// drawCurves draws tokens/s against the tokens of a pass, both logarithmic, for each setup and depth, and its roofline: where
// more tokens are free, a curve rises with the slope of the roofline's part that memory bounds.
func drawCurves(w io.Writer, rows []CurveResult) (int64, error) {
	type series struct {
		name        string
		speed, roof [][2]float64 // tokens of a pass, tokens/s
	}
	var all []series
	least, most := math.Inf(1), 0.0
	last := 1.0
	for i := range rows {
		r := &rows[i]
		if r.Prompt == 1 { // each curve begins with it
			name := fmt.Sprintf("%s, %d threads", r.ModelType, r.Threads)
			if r.Depth > 0 {
				name += fmt.Sprintf(", after %d tokens", r.Depth)
			}
			all = append(all, series{name: name})
		}
		s := &all[len(all)-1]
		n := float64(r.Prompt)
		speed := n / float64(r.MedianNS) * 1e9
		s.speed = append(s.speed, [2]float64{n, speed})
		least, most, last = min(least, speed), max(most, speed), max(last, n)
		if r.RoofTS != nil {
			s.roof = append(s.roof, [2]float64{n, *r.RoofTS})
			most = max(most, *r.RoofTS)
		}
	}
	p := newPicture(curveTop + curveHeight + curveBelow + curveLine*(len(all)+1))
	text := func(x float64, y int, anchor, s string) {
		p.Marks = append(p.Marks, svgText{X: fmt.Sprintf("%.1f", x), Y: y, Anchor: anchor, Text: s})
	}
	field := float64(svgWidth - curveLeft - curveRight)
	x := func(n float64) float64 { return curveLeft + field*math.Log(n)/math.Log(max(last, 2)) }
	low, high := math.Log(least), math.Log(max(most, 1.01*least))
	y := func(v float64) float64 { return curveTop + curveHeight*(high-math.Log(v))/(high-low) }
	line := func(points [][2]float64, colour, width, dashes string) {
		slices.SortFunc(points, func(a, b [2]float64) int { return cmp.Compare(a[0], b[0]) })
		var s strings.Builder
		for _, at := range points {
			fmt.Fprintf(&s, "%.1f,%.1f ", x(at[0]), y(at[1]))
		}
		p.Marks = append(p.Marks, svgLine{Points: strings.TrimSpace(s.String()), Fill: "none", Stroke: colour, Width: width, Dashes: dashes})
	}
	for n := 1.0; n <= last; n *= 2 {
		line([][2]float64{{n, math.Exp(low)}, {n, math.Exp(high)}}, "#88888855", "1", "")
		text(x(n), curveTop+curveHeight+18, "middle", fmt.Sprint(n))
	}
	for e := math.Floor(low / math.Ln10); e <= high/math.Ln10; e++ {
		for _, m := range []float64{1, 2, 5} {
			if v := m * math.Pow(10, e); v >= math.Exp(low) && v <= math.Exp(high) {
				line([][2]float64{{1, v}, {max(last, 2), v}}, "#88888855", "1", "")
				text(curveLeft-8, int(y(v))+4, "end", fmt.Sprintf("%g", v))
			}
		}
	}
	text(curveLeft, curveTop-6, "start", "tokens/s")
	text(curveLeft+field, curveTop+curveHeight+36, "end", "tokens in a pass")
	for i, s := range all {
		colour := curveColours[i%len(curveColours)]
		line(s.speed, colour, "2", "")
		if len(s.roof) > 0 {
			line(s.roof, colour, "1", "6 4")
		}
		at := curveTop + curveHeight + curveBelow + curveLine*i
		p.Marks = append(p.Marks, svgRect{X: fmt.Sprint(curveLeft), Y: at, Width: "12", Height: 12, Fill: colour})
		if len(s.roof) > 0 {
			s.name += "; dashed: its roofline"
		}
		text(curveLeft+20, at+10, "start", s.name)
	}
	return p.write(w)
}
