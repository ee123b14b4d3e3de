package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/eval"
)

const heldOut = "../../demo/testdata/heldout.txt"

// Two settings of a model are compared by the tool: against each other at once, and against saved logits.
func TestCompareSettings(t *testing.T) {
	dir := t.TempDir()
	plot, logits := filepath.Join(dir, "kld.svg"), filepath.Join(dir, "demo.logits")
	text := []string{"-f", heldOut, "-c", "256", "--chunks", "2"}
	var got comparison
	out := succeed(t, append([]string{"compare", demo.Name, demo.Name, "demo --kv-tiers 64:i16,*:q4_0", "demo -ctk q4_0 -ctv q4_0", "--json", "--plot", plot}, text...)...)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Models) != 4 || got.Chunks != 2 || got.Scored != 2*127 || got.Ctx != 256 {
		t.Fatalf("%+v", got)
	}
	base, self, tiers, coarse := got.Models[0], got.Models[1].Divergence, got.Models[2].Divergence, got.Models[3].Divergence
	if base.Divergence != nil || base.FileBytes == 0 || base.Memory == 0 || base.Speed <= 0 || base.Bits < 4 || base.Bits > 32 {
		t.Errorf("the base: %+v", base)
	}
	if self.KLD.Value != 0 || self.SameToken.Value != 1 || self.PPL != base.PPL {
		t.Errorf("a model differs from itself: %+v", self)
	}
	if !(tiers.KLD.Value > 0 && coarse.KLD.Value > tiers.KLD.Value) || coarse.SameToken.Value >= 1 || coarse.SameToken.Value < 0.5 {
		t.Errorf("KLD with old positions in 4 bits %v, with all %v, the same token %v", tiers.KLD, coarse.KLD, coarse.SameToken)
	}
	if svg, err := os.ReadFile(plot); err != nil || strings.Count(string(svg), "<polyline") != 3 {
		t.Errorf("the plot: %v, %s", err, svg)
	}

	said := succeed(t, append([]string{"perplexity", "-m", demo.Name, "--save-all-logits", logits}, text...)...)
	last := regexp.MustCompile(`PPL = (\S+) \+/-`).FindStringSubmatch(said)
	if last == nil || math.Abs(number(t, last[1])-base.PPL.Value) > 1e-4 {
		t.Errorf("perplexity %q, want %v", said, base.PPL)
	}
	said = succeed(t, "perplexity", "-m", demo.Name, "-ctk", "q4_0", "-ctv", "q4_0", "--kl-divergence", "--kl-divergence-base", logits)
	mean := regexp.MustCompile(`Mean    KLD: +(\S+) ± `).FindStringSubmatch(said)
	if mean == nil || number(t, mean[1])/coarse.KLD.Value < 0.98 || number(t, mean[1])/coarse.KLD.Value > 1.02 {
		t.Errorf("from the file %s, want a mean of %v", said, coarse.KLD.Value)
	}
	for _, w := range []string{"chunk             PPL ", "Mean PPL(Q)                   : ", "99.9%   KLD: ", "RMS Δp    : ", "Same top p: "} {
		if !strings.Contains(said, w) {
			t.Errorf("%s\nwant %q in it", said, w)
		}
	}

	quern(t, append([]string{"perplexity", "-m", demo.Name, "--save-all-logits", logits}, text...)...).refused(t, 1, logits, "--force")
	quern(t, "perplexity", "-m", demo.Name, "--kl-divergence", "--kl-divergence-base", heldOut).refused(t, 1, heldOut, "not a file of logits")
	quern(t, "perplexity", "-m", demo.Name, "--kl-divergence", "--kl-divergence-base", logits, "-c", "512").refused(t, 2, "chunks of 256")
	quern(t, "perplexity", "-m", demo.Name, "--kl-divergence", "--kl-divergence-base", logits, "-f", "e2e_test.go").refused(t, 1, "another text")
	quern(t, "perplexity", "-m", demo.Name, "--kl-divergence").refused(t, 2, "--kl-divergence-base")
	quern(t, "perplexity", "-m", demo.Name, "--kl-divergence", "--hellaswag").refused(t, 2, "give one")
	quern(t, "compare", demo.Name, demo.Name).refused(t, 2, "-f FILE")
	quern(t, "compare", demo.Name, "-f", heldOut).refused(t, 2, "wants BASE OTHER")
	quern(t, "compare", "-m", demo.Name, demo.Name, demo.Name, "-f", heldOut).refused(t, 2, "-m")
	quern(t, "compare", demo.Name, "demo -t 2", "-f", heldOut).refused(t, 2, `"demo -t 2"`)
	quern(t, "compare", demo.Name, "demo -ctk q4_0 x", "-f", heldOut).refused(t, 2, `"x" is no flag`)
	quern(t, "compare", demo.Name, "none.gguf -ctk q4_0", "-f", heldOut).refused(t, 1, "none.gguf")
}

func TestCompareModels(t *testing.T) {
	a, b := modelPath(t, "TinyStories-656K-x2-f16.gguf"), modelPath(t, "quant/TinyStories-656K-x2-Q4_K_M.gguf")
	out := succeed(t, "compare", a, b, "-f", heldOut, "-c", "128", "--chunks", "2")
	for _, w := range []string{"2 chunks of 128 tokens, 126 predictions scored", "| model ", "| from the base ", "Q4_K_M.gguf"} {
		if !strings.Contains(out, w) {
			t.Errorf("%s\nwant %q in it", out, w)
		}
	}
	quern(t, "compare", demo.Name, b, "-f", heldOut).refused(t, 1, "another vocabulary")
}

// The demo knows what its stories are about.
func TestChoiceTasks(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	lines := file("h.txt", "Once upon a time, there was a little\n1\nregulation of the annual tax\ngirl who lived in a house.\nquantum of solace\nparliamentary vote\n")
	table := file("w.csv", "0,The _ jumped into the pond and swam away with the other fish.,fish,car,1\n")
	object := file("m.jsonl", `{"question":"Once upon a","choices":["time there was a girl","committee on finance"],"answer":0}`+"\n")
	for _, args := range [][]string{{"-f", lines, "--" + eval.HellaSwag}, {"-f", table, "--" + eval.Winogrande}, {"-f", object, "--" + eval.MultipleChoice, "--multiple-choice-tasks", "5"}} {
		out := succeed(t, append([]string{"perplexity", "-m", demo.Name}, args...)...)
		if !strings.Contains(out, "\n1\t100.0000%\t[") || !strings.Contains(out, "\naccuracy = 100.0000% [") || !strings.Contains(out, ", 1 of 1 tasks; by chance ") {
			t.Errorf("%q: %q", args, out)
		}
	}
	quern(t, "perplexity", "-m", demo.Name, "-f", lines, "--hellaswag", "-c", "8").refused(t, 1, lines, "task 1", "larger -c")
	quern(t, "perplexity", "-m", demo.Name, "-f", heldOut, "--winogrande").refused(t, 1, heldOut)
}
