package finetune

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/quern-llm/quern/go/internal/svg"
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
	x := func(v float64) float64 { return left + innerWidth*v/last }
	y := func(v float64) float64 { return top + innerHeight*(high-v)/(high-low) }
	p := svg.New(width, height)
	p.Text(left, 22, "start", title)
	for i := 0; ; i++ {
		v := low + float64(i)*tick
		if v > high+tick/2 {
			break
		}
		p.Rule(left, y(v), left+innerWidth, y(v))
		p.Text(left-8, y(v)+4, "end", strconv.FormatFloat(v, 'g', 4, 64))
	}
	stepTick := max(niceTick(last/6), 1)
	for v := 0.0; v <= last; v += stepTick {
		p.Rule(x(v), top, x(v), top+innerHeight)
		p.Text(x(v), top+innerHeight+18, "middle", strconv.FormatFloat(v, 'f', 0, 64))
	}
	p.Text(left+innerWidth, top+innerHeight+36, "end", "steps")
	line := func(xs, ys []float64, colour string, opacity float64) { // of many values only some: the last of as many at a time
		var places [][2]float64
		each := len(xs)/mostPoints + 1
		for i := range xs {
			if i%each == each-1 || i == len(xs)-1 {
				places = append(places, [2]float64{x(xs[i]), y(ys[i])})
			}
		}
		p.Line(places, colour, opacity)
	}
	line(steps, losses, learntColour, smoothedOpacity)
	line(steps, means, learntColour, 1)
	line(heldSteps, held, heldColour, 1)
	p.Legend(left, height-26, learntColour, "loss of what is learnt, with its running mean")
	if len(held) > 0 {
		p.Legend(left+300, height-26, heldColour, "held-out loss")
		best := 0
		for i, v := range held {
			if v < held[best] {
				best = i
			}
		}
		p.Dot(x(heldSteps[best]), y(held[best]), bestColour)
		p.Legend(left+480, height-26, bestColour, fmt.Sprintf("best: %.4g after %.0f steps", held[best], heldSteps[best]))
	}
	return p.WriteTo(out)
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
