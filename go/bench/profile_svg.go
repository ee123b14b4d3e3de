package bench

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// Layout of the picture, in pixels.
const (
	svgWidth  = 900
	svgLeft   = 250 // left end of the bars
	svgRight  = 130 // space after the longest bar, for its numbers
	svgRow    = 20
	svgBar    = 14
	svgTitle  = 34
	svgLegend = 30
)

type svgRect struct {
	XMLName xml.Name `xml:"rect"`
	X       string   `xml:"x,attr"`
	Y       int      `xml:"y,attr"`
	Width   string   `xml:"width,attr"`
	Height  int      `xml:"height,attr"`
	Fill    string   `xml:"fill,attr"`
	Title   string   `xml:"title,omitempty"`
}

type svgText struct {
	XMLName xml.Name `xml:"text"`
	X       string   `xml:"x,attr"`
	Y       int      `xml:"y,attr"`
	Anchor  string   `xml:"text-anchor,attr,omitempty"`
	Weight  string   `xml:"font-weight,attr,omitempty"`
	Text    string   `xml:",chardata"`
}

type svgPicture struct {
	XMLName xml.Name `xml:"svg"`
	NS      string   `xml:"xmlns,attr"`
	Width   int      `xml:"width,attr"`
	Height  int      `xml:"height,attr"`
	Font    string   `xml:"font-family,attr"`
	Size    int      `xml:"font-size,attr"`
	Fill    string   `xml:"fill,attr"` // of texts
	Style   string   `xml:"style"`
	Marks   []any
}

// newPicture returns a picture for a light page or a dark one.
func newPicture(height int) svgPicture {
	return svgPicture{
		NS: "http://www.w3.org/2000/svg", Width: svgWidth, Height: height, Font: "sans-serif", Size: 12, Fill: "currentColor",
		Style: "svg{color:#222}@media(prefers-color-scheme:dark){svg{color:#ddd}}",
	}
}

const (
	svgBusy = "#4477aa" // colour-blind safe
	svgWait = "#ccbb44"
	svgRoof = "#bb2233"
)

// drawProfiles draws a bar for each row: busy time, waiting time, and a line at the
// roofline's bound.
func drawProfiles(w io.Writer, profiles [][]ProfileResult) (int64, error) {
	p := newPicture(0) // the height is set at the end
	rect := func(x float64, y int, width float64, height int, fill, title string) {
		p.Marks = append(p.Marks, svgRect{X: fmt.Sprintf("%.1f", x), Y: y, Width: fmt.Sprintf("%.1f", width), Height: height, Fill: fill, Title: title})
	}
	text := func(x float64, y int, anchor, weight, s string) {
		p.Marks = append(p.Marks, svgText{X: fmt.Sprintf("%.1f", x), Y: y, Anchor: anchor, Weight: weight, Text: s})
	}
	x := float64(svgLeft)
	for _, l := range []struct {
		fill, name string
		width      float64
	}{{svgBusy, "busy", 12}, {svgWait, "waiting for other threads", 12}, {svgRoof, "the least that the machine allows", 2}} {
		rect(x, 9, l.width, svgBar, l.fill, "")
		text(x+18, 20, "", "", l.name)
		x += 40 + 7*float64(len(l.name))
	}
	y := svgLegend
	for _, rows := range profiles {
		if len(rows) == 0 {
			continue
		}
		first := rows[0]
		text(8, y+20, "", "bold", fmt.Sprintf("%s, %s, %d threads", first.ModelType, first.Case(), first.Threads))
		y += svgTitle
		scale := (svgWidth - svgLeft - svgRight) / first.WallNS // rows are sorted, longest first
		for i := range rows {
			r := &rows[i]
			busy := scale * r.WallNS * float64(r.BusyNS) / float64(r.BusyNS+r.WaitNS)
			wait := scale*r.WallNS - busy
			name := r.Tensors // without "Matmul", which most rows are
			if r.Operation != "Matmul" {
				name = strings.TrimSpace(r.Operation + " " + r.Tensors)
			}
			label := fmt.Sprintf("%.1f %%", 100*r.Share)
			rect(svgLeft, y, busy, svgBar, svgBusy, "")
			rect(svgLeft+busy, y, wait, svgBar, svgWait, "")
			if r.RoofFraction != nil {
				rect(svgLeft+min(*r.RoofFraction, 1)*(busy+wait)-1, y-2, 2, svgBar+4, svgRoof, "")
				label += fmt.Sprintf(", %.0f %% of roof", 100**r.RoofFraction)
				if *r.RoofFraction > 1 {
					label += " (in cache)" // the roofline is that of memory
				}
			}
			text(svgLeft-8, y+11, "end", "", name)
			text(svgLeft+busy+wait+8, y+11, "", "", label)
			y += svgRow
		}
	}
	p.Height = y + 10
	return p.write(w)
}

func (p *svgPicture) write(w io.Writer) (int64, error) {
	b, err := xml.MarshalIndent(p, "", " ")
	if err != nil {
		return 0, err
	}
	n, err := w.Write(append(b, '\n'))
	return int64(n), err
}
