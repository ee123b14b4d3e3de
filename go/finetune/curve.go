package finetune

import (
	"encoding/csv"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// WriteCSV writes what is known of each step as a table: step, loss, held-out loss, rate, norm of the gradient.
func WriteCSV(out io.Writer, points []Point) (int64, error) {
	var s strings.Builder
	w := csv.NewWriter(&s)
	number := func(v float64) string {
		if v == 0 {
			return ""
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	rows := [][]string{{"step", "loss", "held_out_loss", "rate", "gradient_norm"}}
	for _, p := range points {
		rows = append(rows, []string{strconv.Itoa(p.Step), number(p.Loss), number(p.Held), number(p.Rate), number(p.Norm)})
	}
	if err := w.WriteAll(rows); err != nil {
		return 0, err
	}
	n, err := io.WriteString(out, s.String())
	return int64(n), err
}

// The picture of WriteSVG, in pixels.
const (
	width, height                         = 760, 440
	left, right, top, below               = 70, 20, 40, 76
	innerWidth, innerHeight               = width - left - right, height - top - below
	mostPoints                            = 4 * innerWidth // drawn of a line
	learntColour, smoothedOpacity         = "#4477aa", 0.3
	heldColour, bestColour                = "#ee6677", "#228833"
	smoothing                     float64 = 0.9 // of the last mean in the next
)

// WriteSVG draws the loss of the steps, with a running mean of it, and the held-out loss.
func WriteSVG(out io.Writer, title string, points []Point) (int64, error) {
	var steps, losses, means, heldSteps, held []float64
	mean := 0.0
	for _, p := range points {
		if p.Loss > 0 {
			if mean == 0 {
				mean = p.Loss
			}
			mean = smoothing*mean + (1-smoothing)*p.Loss
			steps, losses, means = append(steps, float64(p.Step)), append(losses, p.Loss), append(means, mean)
		}
		if p.Held > 0 {
			heldSteps, held = append(heldSteps, float64(p.Step)), append(held, p.Held)
		}
	}
	low, high, last := math.Inf(1), math.Inf(-1), 1.0
	for _, p := range points {
		for _, v := range []float64{p.Loss, p.Held} {
			if v > 0 {
				low, high = min(low, v), max(high, v)
			}
		}
		last = max(last, float64(p.Step))
	}
	if low > high {
		low, high = 0, 1
	}
	tick := niceTick((high - low) / 5)
	low, high = math.Floor(low/tick)*tick, math.Ceil(high/tick)*tick
	if high <= low {
		high = low + tick
	}
	c := chart{x: func(v float64) float64 { return left + innerWidth*v/last },
		y: func(v float64) float64 { return top + innerHeight*(high-v)/(high-low) }}
	c.begin(title)
	for i := 0; ; i++ {
		v := low + float64(i)*tick
		if v > high+tick/2 {
			break
		}
		c.rule(left, c.y(v), left+innerWidth, c.y(v))
		c.text(left-8, c.y(v)+4, "end", strconv.FormatFloat(v, 'g', 4, 64))
	}
	stepTick := max(niceTick(last/6), 1)
	for v := 0.0; v <= last; v += stepTick {
		c.rule(c.x(v), top, c.x(v), top+innerHeight)
		c.text(c.x(v), top+innerHeight+18, "middle", strconv.FormatFloat(v, 'f', 0, 64))
	}
	c.text(left+innerWidth, top+innerHeight+36, "end", "steps")
	c.line(steps, losses, learntColour, smoothedOpacity)
	c.line(steps, means, learntColour, 1)
	c.line(heldSteps, held, heldColour, 1)
	c.legend(0, learntColour, "loss of what is learnt, with its running mean")
	if len(held) > 0 {
		c.legend(1, heldColour, "held-out loss")
		best := 0
		for i, v := range held {
			if v < held[best] {
				best = i
			}
		}
		fmt.Fprintf(&c.s, `<circle cx="%.1f" cy="%.1f" r="4" fill="%s"/>`+"\n", c.x(heldSteps[best]), c.y(held[best]), bestColour)
		c.legend(2, bestColour, fmt.Sprintf("best: %.4g after %.0f steps", held[best], heldSteps[best]))
	}
	c.s.WriteString("</svg>\n")
	n, err := io.WriteString(out, c.s.String())
	return int64(n), err
}

// niceTick returns 1, 2 or 5 times a power of ten, about v.
func niceTick(v float64) float64 {
	if !(v > 0) || math.IsInf(v, 0) {
		return 1
	}
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, n := range []float64{1, 2, 5} {
		if v <= n*power*1.5 {
			return n * power
		}
	}
	return 10 * power
}

// A chart is a picture that is drawn.
type chart struct {
	s    strings.Builder
	x, y func(float64) float64
}

func (c *chart) begin(title string) {
	fmt.Fprintf(&c.s, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12" fill="currentColor">`+"\n", width, height)
	c.s.WriteString("<style>svg{color:#222}@media(prefers-color-scheme:dark){svg{color:#ddd}}</style>\n")
	c.text(left, 22, "start", title)
}

func (c *chart) text(x, y float64, anchor, t string) {
	fmt.Fprintf(&c.s, `<text x="%.1f" y="%.1f" text-anchor="%s">`, x, y, anchor)
	_ = xml.EscapeText(&c.s, []byte(t)) // a strings.Builder has no errors
	c.s.WriteString("</text>\n")
}

func (c *chart) rule(x1, y1, x2, y2 float64) {
	fmt.Fprintf(&c.s, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="currentColor" stroke-opacity="0.2"/>`+"\n", x1, y1, x2, y2)
}

// line draws values, of many only some: the last of as many at a time.
func (c *chart) line(xs, ys []float64, colour string, opacity float64) {
	var points strings.Builder
	each := len(xs)/mostPoints + 1
	for i := range xs {
		if i%each == each-1 || i == len(xs)-1 {
			fmt.Fprintf(&points, "%.1f,%.1f ", c.x(xs[i]), c.y(ys[i]))
		}
	}
	fmt.Fprintf(&c.s, `<polyline fill="none" stroke="%s" stroke-opacity="%g" stroke-width="2" points="%s"/>`+"\n",
		colour, opacity, strings.TrimSpace(points.String()))
}

func (c *chart) legend(i int, colour, what string) {
	x := float64(left + i*240)
	if i == 1 {
		x += 60
	}
	fmt.Fprintf(&c.s, `<rect x="%.0f" y="%d" width="12" height="12" fill="%s"/>`+"\n", x, height-26, colour)
	c.text(x+20, height-16, "start", what)
}
