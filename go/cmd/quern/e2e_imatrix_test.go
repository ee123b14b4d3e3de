package main

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/quant"
)

// The sums of an importance matrix are the squares of the norms that llama.cpp's trace of the same tokens has, experts
// apart; what is written is read again, joined and shown, and used to quantize.
func TestImatrix(t *testing.T) {
	t.Parallel()
	in, dir := modelPath(t, "TinyStories-656K-moe4x2-f16.gguf"), t.TempDir()
	text, out := testdata.Path(t, "corpus/tinystories_197k.txt"), filepath.Join(dir, "one.gguf")
	collect := func(out string, flags ...string) string {
		return succeed(t, append([]string{"imatrix", "-m", in, "-f", text, "-o", out, "-c", "64"}, flags...)...)
	}
	if said := collect(out, "--chunks", "1"); !strings.HasPrefix(said, out+": 16 tensors, 1 chunks") {
		t.Errorf("got %q", said)
	}
	m, err := quant.ReadMatrix(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tensor          string
		norm            float64 // of attn_norm-0, kqv_out-0, ffn_norm-0 and ffn_moe_swiglu-0
		columns, copies int
	}{
		{"attn_q", 17.18605, 128, 1}, {"attn_v", 17.18605, 128, 1}, {"attn_output", 49.2607, 128, 1},
		{"ffn_gate_inp", 14.02425, 128, 1}, {"ffn_up_exps", 14.02425, 4 * 128, 2}, {"ffn_down_exps", 222.4129, 4 * 384, 1},
	} {
		e := m.Entries["blk.0."+tt.tensor+".weight"]
		if e == nil || len(e.Sums) != tt.columns {
			t.Errorf("%s: %+v, want %d columns", tt.tensor, e, tt.columns)
			continue
		}
		sum, rows := 0.0, float32(0)
		for _, s := range e.Sums {
			sum += float64(s)
		}
		for _, n := range e.Counts {
			rows += n
		}
		want := tt.norm * tt.norm * float64(tt.copies) // each token goes to two experts
		if math.Abs(sum-want) > 2e-4*want || rows != 64 && rows != 128 {
			t.Errorf("%s: a sum of %v of %v rows, want %v", tt.tensor, sum, rows, want)
		}
	}
	rest, both, all := filepath.Join(dir, "rest.gguf"), filepath.Join(dir, "both.gguf"), filepath.Join(dir, "all.gguf")
	collect(rest, "--chunks", "2", "--from-chunk", "1")
	succeed(t, "imatrix", "--in-file", out, "--in-file", rest, "-o", both)
	collect(all, "--chunks", "3")
	three, err := quant.ReadMatrix(all)
	if err != nil {
		t.Fatal(err)
	}
	if m, err = quant.ReadMatrix(both); err != nil {
		t.Fatal(err)
	}
	for name, e := range three.Entries {
		for i, s := range e.Sums {
			if got := m.Entries[name].Sums[i]; math.Abs(float64(got-s)) > 1e-5*float64(s)+1e-9 {
				t.Fatalf("%s, column %d: %v of two files, %v of one", name, i, got, s)
			}
		}
	}
	if said := succeed(t, "imatrix", "--in-file", both, "--show-statistics"); !strings.Contains(said, "blk.1.ffn_down_exps.weight") {
		t.Errorf("got %q", said)
	}
	small := filepath.Join(dir, "small.gguf")
	succeed(t, "quantize", "--imatrix", both, "--pure", in, small, "Q4_0")
	if said := succeed(t, "inspect", small); !strings.Contains(said, "quantize.imatrix.entries_count") {
		t.Errorf("got %q", said)
	}
	quern(t, "imatrix", "-m", in, "-f", text, "-o", out, "-c", "64", "--chunks", "1").refused(t, 1, out, "--force")
	// Before the text is read, and the model.
	quern(t, "imatrix", "-m", filepath.Join(dir, "none.gguf"), "-f", text, "-o", out).refused(t, 1, out, "--force")
	quern(t, "imatrix", "-m", in, "-f", text, "-o", filepath.Join(dir, "none", "x.gguf")).refused(t, 1, "none")
	quern(t, "imatrix", "-m", in, "-o", out).refused(t, 2, "no text")
	quern(t, "imatrix", "--show-statistics").refused(t, 2, "--in-file")
	quern(t, "imatrix", "--in-file", in, "--show-statistics").refused(t, 1, "no importance matrix")
	quern(t, "imatrix", "--in-file", text, "--show-statistics").refused(t, 1, "neither a GGUF file")
	quern(t, "quantize", "--imatrix", both, modelPath(t, "stories260K-f16.gguf"), filepath.Join(dir, "no.gguf"), "Q4_0").refused(t, 1, "another model")
}
