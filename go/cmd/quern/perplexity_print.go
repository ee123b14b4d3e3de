package main

import (
	"fmt"
	"io"

	"github.com/quern-llm/quern/go/eval"
)

// The tables of divergences have llama-perplexity's rows and columns, for those who read
// them with programs.

const divergenceHead = "chunk             PPL               ln(PPL(Q)/PPL(base))          KL Divergence              Δp RMS            Same top p"

// printChunk prints what the chunks so far come to.
func printChunk(w io.Writer, chunk int, s eval.Summary) error {
	_, err := fmt.Fprintf(w, "%4d    %9.4f ± %9.4f    %10.5f ± %10.5f    %10.5f ± %10.5f    %6.3f ± %6.3f %%    %6.3f ± %6.3f %%\n", chunk,
		s.PPL.Value, s.PPL.StdErr, s.LogRatio.Value, s.LogRatio.StdErr, s.KLD.Value, s.KLD.StdErr,
		100*s.DiffRMS.Value, 100*s.DiffRMS.StdErr, 100*s.SameToken.Value, 100*s.SameToken.StdErr)
	return err
}

// printDivergence prints the statistics of all chunks.
func printDivergence(w io.Writer, s eval.Summary) error {
	mean := func(name string, m eval.Mean) { fmt.Fprintf(w, "%-30s: %10.6f ± %10.6f\n", name, m.Value, m.StdErr) }
	fmt.Fprintln(w, "\n====== Perplexity statistics ======")
	mean("Mean PPL(Q)", s.PPL)
	mean("Mean PPL(base)", s.BasePPL)
	fmt.Fprintf(w, "Cor(ln(PPL(Q)), ln(PPL(base))): %6.2f%%\n", 100*s.Corr)
	mean("Mean ln(PPL(Q)/PPL(base))", s.LogRatio)
	mean("Mean PPL(Q)/PPL(base)", s.Ratio)
	mean("Mean PPL(Q)-PPL(base)", s.PPLDiff)

	fmt.Fprintln(w, "\n====== KL divergence statistics ======")
	fmt.Fprintf(w, "Mean    KLD: %10.6f ± %10.6f\n", s.KLD.Value, s.KLD.StdErr)
	for i := len(eval.Quantiles) - 1; i >= 0; i-- {
		fmt.Fprintf(w, "%s KLD: %10.6f\n", quantileName(eval.Quantiles[i]), s.KLDs[i])
	}

	fmt.Fprintln(w, "\n====== Token probability statistics ======")
	fmt.Fprintf(w, "Mean    Δp: %6.3f ± %5.3f %%\n", 100*s.Diff.Value, 100*s.Diff.StdErr)
	for i := len(eval.Quantiles) - 1; i >= 0; i-- {
		fmt.Fprintf(w, "%s Δp: %6.3f%%\n", quantileName(eval.Quantiles[i]), 100*s.Diffs[i])
	}
	fmt.Fprintf(w, "RMS Δp    : %6.3f ± %5.3f %%\n", 100*s.DiffRMS.Value, 100*s.DiffRMS.StdErr)
	_, err := fmt.Fprintf(w, "Same top p: %6.3f ± %5.3f %%\n", 100*s.SameToken.Value, 100*s.SameToken.StdErr)
	return err
}

// quantileName is seven characters wide.
func quantileName(q float64) string {
	switch q {
	case 0:
		return "Minimum"
	case 0.5:
		return "Median "
	case 1:
		return "Maximum"
	}
	return fmt.Sprintf("%4.1f%%  ", 100*q)
}
