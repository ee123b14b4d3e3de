package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// Files of the trellis types have them where rows fit, whatever the method, the same bytes from any number of threads, and
// are nearer to the original with each bit; a search and an importance matrix make them nearer.
func TestQuantizeTrellis(t *testing.T) {
	t.Parallel()
	in, dir := modelPath(t, "TinyStories-656K-x2-f16.gguf"), t.TempDir()
	text, err := os.ReadFile(testdata.Path(t, "corpus/tinystories_197k.txt"))
	if err != nil {
		t.Fatal(err)
	}
	calibration, heldOut := filepath.Join(dir, "calibration"), filepath.Join(dir, "held-out")
	for path, text := range map[string][]byte{calibration: text[:40e3], heldOut: text[120e3:]} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := func(name string) string { return filepath.Join(dir, name+".gguf") }
	succeed(t, "imatrix", "-m", in, "-f", calibration, "-o", path("imatrix"), "-c", "128", "--chunks", "20")
	names := []string{"IQ1_KT", "IQ2_KT", "IQ3_KT", "IQ4_KT"}
	files := []string{in}
	for _, name := range names {
		succeed(t, "quantize", "--pure", "--method", "search", "--imatrix", path("imatrix"), in, path(name), name)
		files = append(files, path(name))
		kinds := 0
		for _, x := range weightsOf(t, path(name)) {
			if x.Type.String() == name {
				kinds++
			}
		}
		if kinds < 5 {
			t.Errorf("%d tensors are %s", kinds, name)
		}
	}
	for name, flags := range map[string][]string{"plain": {"-t", "1"}, "again": {"-t", "3"}, "search": {"--method", "search"}, "gptq": {"--method", "gptq", "--calibration", calibration, "-c", "128", "--calibration-chunks", "4"}} {
		succeed(t, append(append([]string{"quantize", "--pure"}, flags...), in, path(name), "iq2_kt")...)
	}
	for a, b := range map[string]string{"plain": "again", "search": "gptq"} { // gptq has nothing to make good here
		x, y := weightsOf(t, path(a)), weightsOf(t, path(b))
		for i := range x {
			if !bytes.Equal(x[i].Data, y[i].Data) {
				t.Errorf("%s has other bytes in %s than in %s", x[i].Name, b, a)
			}
		}
	}
	files = append(files, path("plain"))
	said := succeed(t, append([]string{"compare", "--json", "-c", "128", "--chunks", "10", "-f", heldOut}, files...)...)
	kld := divergences(t, said, 5)
	t.Logf("%v without importance and search: %.5f, %.5f", names, kld[:4], kld[4])
	if !(kld[0] > kld[1] && kld[1] > kld[2] && kld[2] > kld[3] && kld[4] > kld[1]) {
		t.Errorf("divergences %.5f of %v, %.5f of IQ2_KT without importance", kld[:4], names, kld[4])
	}
}
