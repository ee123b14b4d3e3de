package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/mem"
)

// Files of the methods have the same types, and are nearer to the original from one to the next on a text that neither
// read; with little memory the text is read again for each layer, and the bytes are the same.
func TestQuantizeMethod(t *testing.T) {
	t.Parallel()
	in, dir := modelPath(t, "TinyStories-656K-x2-f16.gguf"), t.TempDir()
	whole, err := os.ReadFile(testdata.Path(t, "corpus/tinystories_197k.txt"))
	if err != nil {
		t.Fatal(err)
	}
	calibration, heldOut := filepath.Join(dir, "calibration"), filepath.Join(dir, "held-out")
	for path, text := range map[string][]byte{calibration: whole[:60e3], heldOut: whole[120e3:]} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := func(name string) string { return filepath.Join(dir, name+".gguf") }
	imatrix := path("imatrix")
	succeed(t, "imatrix", "-m", in, "-f", calibration, "-o", imatrix, "-c", "128", "--chunks", "40")
	gptq := []string{"--method", "gptq", "--calibration", calibration, "-c", "128", "--calibration-chunks", "40"}
	quantize := func(name string, flags ...string) {
		succeed(t, append(append([]string{"quantize", "--imatrix", imatrix}, flags...), in, path(name), "Q3_K_M")...)
	}
	quantize("fast")
	quantize("search", "--method", "search")
	quantize("gptq", gptq...)
	quantize("again", append(gptq, "--calibration-memory", "4M", "-t", "1")...)
	said := succeed(t, "compare", "--json", "-c", "128", "--chunks", "10", "-f", heldOut, in, path("fast"), path("search"), path("gptq"))
	kld := divergences(t, said, 3)
	fast, search, corrected := kld[0], kld[1], kld[2]
	t.Logf("a divergence of %.5f, searched %.5f, corrected %.5f", fast, search, corrected)
	if !(corrected < 0.8*fast && corrected < search) {
		t.Errorf("a divergence of %.5f, searched %.5f, corrected %.5f", fast, search, corrected)
	}
	a, b, c := weightsOf(t, path("fast")), weightsOf(t, path("gptq")), weightsOf(t, path("again"))
	for i := range a {
		if a[i].Name != b[i].Name || a[i].Type != b[i].Type {
			t.Errorf("%s is %v, %s %v", a[i].Name, a[i].Type, b[i].Name, b[i].Type)
		}
		if !bytes.Equal(b[i].Data, c[i].Data) {
			t.Errorf("%s: with less memory and one thread it has other bytes", b[i].Name)
		}
	}
	no := path("no")
	quern(t, "quantize", "--method", "best", in, no, "Q4_0").refused(t, 2, "--method", "fast, search, gptq")
	quern(t, "quantize", "--method", "gptq", in, no, "Q4_0").refused(t, 2, "--calibration FILE")
	quern(t, "quantize", "--calibration", calibration, in, no, "Q4_0").refused(t, 2, "--method gptq")
	quern(t, "quantize", "--method", "search", "-c", "64", in, no, "Q4_0").refused(t, 2, "--ctx-size")
	quern(t, "quantize", "--method", "gptq", "--calibration", filepath.Join(dir, "none"), in, no, "Q4_0").refused(t, 1, "none")
	quern(t, "quantize", "--method", "gptq", "--calibration", calibration, "-c", "100000", in, no, "Q4_0").refused(t, 1, "longer text")
	quern(t, "quantize", "--method", "gptq", "--calibration", calibration, "--calibration-memory", "1k", in, no, "Q4_0").refused(t, 1, "too little")
	if _, err := os.Stat(no); err == nil {
		t.Error("a file is left")
	}
}

// divergences returns those of the models but the first, n of them, of what "quern compare --json" said.
func divergences(t *testing.T, said string, n int) (all []float64) {
	t.Helper()
	var got struct {
		Models []struct {
			Divergence *struct {
				KLD struct {
					Value float64 `json:"value"`
				} `json:"kld"`
			} `json:"divergence"`
		} `json:"models"`
	}
	if err := json.Unmarshal([]byte(said), &got); err != nil || len(got.Models) != n+1 {
		t.Fatalf("%v: %s", err, said)
	}
	for _, m := range got.Models[1:] {
		all = append(all, m.Divergence.KLD.Value)
	}
	return all
}

func weightsOf(t *testing.T, path string) []gguf.Tensor {
	t.Helper()
	region, err := mem.Map(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { region.Close() })
	f, err := gguf.Parse(region.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f.Tensors
}
