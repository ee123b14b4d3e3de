package eval

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/quern-llm/quern/go/internal/svg"
)

// The picture of Plot, in pixels.
const (
	plotWidth, plotHeight                           = 760, 440
	plotLeft, plotRight, plotTop, plotBelow         = 70, 20, 40, 60
	plotInnerWidth, plotInnerHeight                 = plotWidth - plotLeft - plotRight, plotHeight - plotTop - plotBelow
	plotLegend, plotPoints                          = 18, 200
	plotLeast                               float64 = 1e-9 // a divergence below this is drawn as this
)

// plotColours can be told apart by the colour-blind.
var plotColours = []string{"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#bbbbbb"}

// Plot draws, for each divergence, which share of the predictions diverges by how much,
// on logarithmic scales whose right end are the worst, as SVG.
func Plot(w io.Writer, title string, names []string, all []*Divergence) (int64, error) {
	least, most := math.Inf(1), math.Inf(-1)
	nines := 1.0 // of the horizontal scale: 1 - 10^-nines
	for _, d := range all {
		slices.Sort(d.klds)
		least = min(least, max(quantile(d.klds, 0.02), plotLeast))
		most = max(most, max(d.klds[len(d.klds)-1], plotLeast))
		nines = max(nines, math.Log10(float64(len(d.klds))))
	}
	low, high := math.Floor(math.Log10(least)), math.Ceil(math.Log10(most))
	high = max(high, low+1)
	x := func(v float64) float64 { return plotLeft + plotInnerWidth*v/nines }
	y := func(kld float64) float64 {
		return plotTop + plotInnerHeight*(high-math.Log10(max(kld, math.Pow(10, low))))/(high-low)
	}
	p := svg.New(plotWidth, plotHeight+plotLegend*len(all))
	p.Text(plotLeft, 22, "start", title)
	for e := low; e <= high; e++ {
		at := y(math.Pow(10, e))
		p.Rule(plotLeft, at, plotLeft+plotInnerWidth, at)
		p.Text(plotLeft-8, at+4, "end", strconv.FormatFloat(math.Pow(10, e), 'f', max(0, -int(e)), 64))
	}
	for _, tick := range []string{"0", "50", "90", "99", "99.9", "99.99", "99.999"} {
		var share float64
		fmt.Sscan(tick, &share)
		if at := -math.Log10(1 - share/100); at <= nines {
			p.Rule(x(at), plotTop, x(at), plotTop+plotInnerHeight)
			p.Text(x(at), plotTop+plotInnerHeight+18, "middle", tick+" %")
		}
	}
	p.Text(plotLeft, plotTop+plotInnerHeight+40, "start", "KL divergence in nats that this share of the predictions does not exceed")
	for i, d := range all {
		colour := plotColours[i%len(plotColours)]
		var places [][2]float64
		for k := range plotPoints + 1 {
			v := nines * float64(k) / plotPoints
			places = append(places, [2]float64{x(v), y(quantile(d.klds, 1-math.Pow(10, -v)))})
		}
		p.Line(places, colour, 1)
		p.Legend(plotLeft, float64(plotHeight+plotLegend*i), colour, fmt.Sprintf("%s: mean %.3g", names[i], d.kld.sum/float64(max(d.kld.n, 1))))
	}
	return p.WriteTo(w)
}
