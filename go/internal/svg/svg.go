// Package svg draws pictures of numbers: words, lines, and what the lines are. They are for light pages and for dark ones.
package svg

import (
	"encoding/xml"
	"fmt"
	"io"
	"strings"
)

// A Picture is one that is drawn. Places are in pixels, from its left upper corner.
type Picture struct{ s strings.Builder }

// New begins a picture.
func New(width, height int) *Picture {
	p := &Picture{}
	fmt.Fprintf(&p.s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12" fill="currentColor">`+"\n", width, height)
	p.s.WriteString("<style>svg{color:#222}@media(prefers-color-scheme:dark){svg{color:#ddd}}</style>\n")
	return p
}

// Text writes words at a place, which is their start, middle or end.
func (p *Picture) Text(x, y float64, anchor, words string) {
	fmt.Fprintf(&p.s, `<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
	_ = xml.EscapeText(&p.s, []byte(words)) // a strings.Builder has no errors
	p.s.WriteString("</text>\n")
}

// Rule draws a faint line between two places.
func (p *Picture) Rule(x1, y1, x2, y2 float64) {
	fmt.Fprintf(&p.s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="currentColor" stroke-opacity="0.2"/>`+"\n", x1, y1, x2, y2)
}

// Line draws a line of a colour through places, opaque from 0 to 1.
func (p *Picture) Line(places [][2]float64, colour string, opacity float64) {
	var points strings.Builder
	for _, at := range places {
		fmt.Fprintf(&points, "%.1f,%.1f ", at[0], at[1])
	}
	fmt.Fprintf(&p.s, `<polyline fill="none" stroke="%s" stroke-opacity="%g" stroke-width="2" points="%s"/>`+"\n", colour, opacity, strings.TrimSpace(points.String()))
}

// Dot draws a dot.
func (p *Picture) Dot(x, y float64, colour string) {
	fmt.Fprintf(&p.s, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", x, y, colour)
}

// Legend says what is of a colour.
func (p *Picture) Legend(x, y float64, colour, what string) {
	fmt.Fprintf(&p.s, `<rect x="%.0f" y="%.0f" width="12" height="12" fill="%s"/>`+"\n", x, y, colour)
	p.Text(x+20, y+10, "start", what)
}

// WriteTo ends the picture, and writes it.
func (p *Picture) WriteTo(w io.Writer) (int64, error) {
	n, err := io.WriteString(w, p.s.String()+"</svg>\n")
	return int64(n), err
}
