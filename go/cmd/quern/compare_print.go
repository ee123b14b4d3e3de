package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/eval"
	"github.com/quern-llm/quern/go/mem"
)

// A comparison is the result of "quern compare". Its fields are the JSON output.
type comparison struct {
	Text      string          `json:"text"`
	Ctx       int             `json:"n_ctx"`
	Chunks    int             `json:"chunks"`
	Scored    int             `json:"scored_tokens"`
	Threads   int             `json:"threads"`
	Quantiles []float64       `json:"quantiles"` // of the lists of quantiles below
	Models    []comparedModel `json:"models"`    // the base first
}

type comparedModel struct {
	Name       string        `json:"name"`
	FileBytes  uint64        `json:"file_bytes"`
	Bits       float64       `json:"bits_per_weight"`
	Memory     uint64        `json:"memory"` // reserved for it: weights, keys and values, activations
	Speed      float64       `json:"tokens_per_second"`
	PPL        eval.Mean     `json:"ppl"`
	Divergence *eval.Summary `json:"divergence,omitempty"` // from the base
}

// report gathers what was measured.
func report(text string, threads int, all []*contender, cut eval.Chunks, c *eval.Comparison) *comparison {
	r := &comparison{Text: text, Ctx: cut.Ctx, Chunks: c.Base.Chunks, Scored: c.Base.Tokens, Threads: threads, Quantiles: eval.Quantiles}
	for i, side := range all {
		f := side.eng.Model().GGUF()
		var weights, bytes uint64
		for k := range f.Tensors {
			weights += f.Tensors[k].Elems()
			bytes += uint64(len(f.Tensors[k].Data))
		}
		m := comparedModel{Name: side.name, FileBytes: bytes, Bits: 8 * float64(bytes) / float64(max(weights, 1)), Memory: side.memory,
			Speed: float64(c.Read) / c.Time[i].Seconds(), PPL: eval.Mean{Value: c.Base.PPL, StdErr: c.Base.StdErr}}
		if i > 0 {
			s := c.Others[i-1].Summary()
			m.PPL, m.Divergence = s.PPL, &s
		}
		r.Models = append(r.Models, m)
	}
	return r
}

// print writes the comparison as tables in Markdown.
func (r *comparison) print(w io.Writer) error {
	fmt.Fprintf(w, "%s: %d chunks of %d tokens, %d predictions scored, %d threads\n\n", visible(r.Text), r.Chunks, r.Ctx, r.Scored, r.Threads)
	rows := [][]string{{"model", "weights", "bits each", "memory", "tokens/s", "PPL", "PPL/base"}}
	far := [][]string{{"from the base", "KLD", "median", "90 %", "99 %", "99.9 %", "max", "same token", "RMS Δp"}}
	for _, m := range r.Models {
		row := []string{visible(m.Name), mem.FormatBytes(m.FileBytes), fmt.Sprintf("%.2f", m.Bits), mem.FormatBytes(m.Memory),
			fmt.Sprintf("%.1f", m.Speed), fmt.Sprintf("%.4f ± %.4f", m.PPL.Value, m.PPL.StdErr), ""}
		if s := m.Divergence; s != nil {
			row[len(row)-1] = fmt.Sprintf("%.5f ± %.5f", s.Ratio.Value, s.Ratio.StdErr)
			line := []string{visible(m.Name), fmt.Sprintf("%.3g ± %.2g", s.KLD.Value, s.KLD.StdErr)}
			for _, q := range []float64{0.5, 0.9, 0.99, 0.999, 1} {
				line = append(line, fmt.Sprintf("%.3g", eval.At(s.KLDs, q)))
			}
			far = append(far, append(line, fmt.Sprintf("%.2f %%", 100*s.SameToken.Value), fmt.Sprintf("%.3f %%", 100*s.DiffRMS.Value)))
		}
		rows = append(rows, row)
	}
	_, err := io.WriteString(w, markdownTable(rows)+"\n"+markdownTable(far))
	return err
}

// markdownTable formats rows, the first of which is the head, in columns of equal width.
func markdownTable(rows [][]string) string {
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell), 3)
		}
	}
	var s strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i > 0 { // numbers
				cell, pad = pad+cell, ""
			}
			s.WriteString("| " + cell + pad + " ")
		}
		s.WriteString("|\n")
		if n == 0 {
			for i := range row {
				dashes := strings.Repeat("-", width[i])
				if i > 0 {
					dashes = dashes[1:] + ":"
				}
				s.WriteString("| " + dashes + " ")
			}
			s.WriteString("|\n")
		}
	}
	return s.String()
}
