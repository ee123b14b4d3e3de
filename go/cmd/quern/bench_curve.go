package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/quern-llm/quern/go/measure"
)

// curveTokens are the passes of --curve when -p does not say: every number that
// some kernel has a tile for, then steps.
const curveTokens = "1-32,48,64,96,128,256,512"

// A curveResult is a row of --curve.
type curveResult struct {
	benchResult
	MedianNS uint64  `json:"median_ns"` // of a pass
	Cost     float64 `json:"cost"`      // the medians of this pass and of one of a token, divided
}

// planCurve makes the flags those of single passes, of one token first.
func (f *benchFlags) planCurve() error {
	if f.changed("n-gen") || f.changed("prompt-gen") {
		return usagef("--curve measures passes of -p tokens, not generation; leave -n and -pg out")
	}
	f.gen = []int{0}
	if !f.changed("n-prompt") {
		f.prompt, _ = parseList(curveTokens, 1, maxTokens) // is a list: a test reads it
	}
	most := slices.Max(f.prompt)
	for _, limit := range []struct {
		flag string
		list *[]int
	}{{"batch-size", &f.batch}, {"ubatch-size", &f.ubatch}} {
		switch {
		case !f.changed(limit.flag):
			*limit.list = []int{max(most, (*limit.list)[0])}
		case slices.Min(*limit.list) < most:
			return usagef("--%s %d cuts -p %d into several passes; --curve needs one, leave it out", limit.flag, slices.Min(*limit.list), most)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(f.prompt), func(n int) bool { return n <= 1 })
	f.prompt = append([]int{1}, rest...)
	return nil
}

// A curvePrinter turns results into rows of the curve.
type curvePrinter struct {
	benchPrinter[curveResult]
	one uint64 // nanoseconds of the pass of one token of this setup and depth
}

func (f *benchFlags) curvePrinter(w io.Writer) *curvePrinter {
	table := benchTable[curveResult]{footer: func(r *curveResult) string { return r.footer() }}
	add := func(c resultColumn) {
		table.columns = append(table.columns, benchColumn[curveResult]{
			c.name, c.width, c.left, func(r *curveResult) string { return c.value(&r.benchResult) },
		})
	}
	columns := f.columns()
	at := slices.IndexFunc(columns, func(c resultColumn) bool { return c.name == "t/s" }) + 1
	for _, c := range columns[:at] {
		add(c)
	}
	table.columns = append(table.columns,
		benchColumn[curveResult]{"ms", 9, false, func(r *curveResult) string { return fmt.Sprintf("%.2f", float64(r.MedianNS)/1e6) }},
		benchColumn[curveResult]{"cost(n)/cost(1)", 15, false, func(r *curveResult) string { return fmt.Sprintf("%.2f", r.Cost) }},
	)
	for _, c := range columns[at:] {
		add(c)
	}
	return &curvePrinter{benchPrinter: newBenchPrinter(f.output, w, !f.noRoofline, table)}
}

// row expects the pass of one token before all others of its setup and depth,
// which is how planCurve has it.
func (p *curvePrinter) row(r *benchResult) error {
	median := measure.Median(r.SamplesNS)
	if r.Prompt == 1 {
		p.one = median
	}
	return p.benchPrinter.row(&curveResult{*r, median, float64(median) / float64(p.one)})
}
