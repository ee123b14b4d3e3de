package main

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// tensorsOf returns the tensors of a file, by name and type.
func tensorsOf(t *testing.T, path string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, x := range f.Tensors {
		all[x.Name+" "+x.Type.String()] = string(x.Data)
	}
	return all
}

// A checkpoint becomes a file that says what the one of another converter says, and its folder says the same without one.
func TestConvert(t *testing.T) {
	src := testdata.Path(t, "models/src/TinyStories-656K")
	dir := t.TempDir()
	out := filepath.Join(dir, "model.gguf")
	say := func(model string, flags ...string) string {
		return succeed(t, append([]string{"run", "-m", model, "-p", "Once upon a time", "-n", "24", "--temp", "0"}, flags...)...)
	}
	want := say(modelPath(t, "TinyStories-656K-f32.gguf"))
	if said := succeed(t, "convert", src, "-o", out); !strings.HasPrefix(said, out+": ") {
		t.Errorf("got %q", said)
	}
	if got := say(out); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := say(src); got != want {
		t.Errorf("the folder: %q, want %q", got, want)
	}
	for _, model := range []string{src, out} {
		if got := succeed(t, "run", model, "Once upon a time", "-n", "24", "--temp", "0"); got != want {
			t.Errorf("run %s: %q, want %q", model, got, want)
		}
	}
	quern(t, "chat", dir).refused(t, 2, dir, "no model")
	quern(t, "run", filepath.Join(dir, "none.gguf"), "x").refused(t, 1, "none.gguf")
	small := filepath.Join(dir, "small.gguf")
	succeed(t, "convert", src, "--outtype", "q8_0", "--outfile", small)
	if got, want := say(src, "--quantize", "q8_0"), say(small); got != want {
		t.Errorf("the folder as q8_0: %q, want %q", got, want)
	}
	mixed, plain, again := filepath.Join(dir, "mixed.gguf"), filepath.Join(dir, "plain.gguf"), filepath.Join(dir, "again.gguf")
	succeed(t, "convert", src, "--outtype", "Q4_K_M", "-o", mixed)
	succeed(t, "convert", src, "--outtype", "f32", "-o", plain)
	succeed(t, "quantize", plain, again, "Q4_K_M")
	if a, b := tensorsOf(t, mixed), tensorsOf(t, again); !maps.Equal(a, b) {
		t.Errorf("converted at once and by way of F32: %d and %d tensors, or others", len(a), len(b))
	}
	if got := succeed(t, "convert", src, "--dry-run"); !strings.Contains(got, "blk.1.ffn_down.weight") {
		t.Errorf("got %q", got)
	}
	quern(t, "convert", src, "-o", out).refused(t, 1, out, "--force")
	succeed(t, "convert", src, "-o", out, "--force")
	quern(t, "convert", src, "--outtype", "q9").refused(t, 2, "q9", "q8_0")
	quern(t, "convert", dir).refused(t, 1, dir, "config.json")
	quern(t, "run", "-m", src, "--quantize", "q9", "-p", "x").refused(t, 2, "q9")
	if files, err := os.ReadDir(dir); err != nil || len(files) != 5 {
		t.Errorf("%v, %v are left", files, err)
	}
}
