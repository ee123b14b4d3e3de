package bench

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/measure"
)

// A CurveResult is a row of a curve: the cost of a pass of several tokens relative to a
// pass of a single token.
type CurveResult struct {
	Result
	MedianNS uint64  `json:"median_ns"` // of a pass
	Cost     float64 `json:"cost"`      // the median of this pass, divided by that of a pass of one token
}

// A curvePrinter prints results as rows of a curve.
type curvePrinter struct {
	printer[CurveResult]
	one   uint64 // nanoseconds of the pass of one token for this setup and depth
	drawn []CurveResult
}

func (p *Plan) curvePrinter(out Output) *curvePrinter {
	t := table[CurveResult]{footer: func(r *CurveResult) string { return r.footer() }}
	add := func(c resultColumn) {
		t.columns = append(t.columns, column[CurveResult]{
			c.name, c.width, c.left, func(r *CurveResult) string { return c.value(&r.Result) },
		})
	}
	columns := p.columns(out)
	at := slices.IndexFunc(columns, func(c resultColumn) bool { return c.name == "t/s" }) + 1
	for _, c := range columns[:at] {
		add(c)
	}
	t.columns = append(t.columns,
		column[CurveResult]{"ms", 9, false, func(r *CurveResult) string { return fmt.Sprintf("%.2f", float64(r.MedianNS)/1e6) }},
		column[CurveResult]{"cost(n)/cost(1)", 15, false, func(r *CurveResult) string { return fmt.Sprintf("%.2f", r.Cost) }},
	)
	for _, c := range columns[at:] {
		add(c)
	}
	return &curvePrinter{printer: newPrinter(out, t)}
}

// row requires the pass of one token first for each setup and depth.
func (p *curvePrinter) row(r *Result) error {
	median := measure.Median(r.SamplesNS)
	if r.Prompt == 1 {
		p.one = median
	}
	p.drawn = append(p.drawn, CurveResult{*r, median, float64(median) / float64(p.one)})
	return p.printer.row(&p.drawn[len(p.drawn)-1])
}
