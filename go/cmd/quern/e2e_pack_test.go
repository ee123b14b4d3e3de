package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/stream"
)

// A packed file says what the file that it was made of says, wherever its weights are, and its adapters' users too; what
// is no such file, or is one already, is refused.
func TestPack(t *testing.T) {
	t.Parallel()
	in, out := modelPath(t, "TinyStories-656K-x2-f16.gguf"), filepath.Join(t.TempDir(), "packed.gguf")
	if said := succeed(t, "pack", in, out); !strings.HasPrefix(said, out+": ") {
		t.Errorf("got %q", said)
	}
	say := func(model string, flags ...string) string {
		return succeed(t, append([]string{"run", "-m", model, "-p", "Once upon a time", "-n", "24", "--temp", "0"}, flags...)...)
	}
	want := say(in)
	for _, flags := range [][]string{nil, {"--weights", "packed"}, {"--weights", "mapped"}, {"--weights", "streamed"}} {
		if got := say(out, flags...); got != want {
			t.Errorf("%q: %q, want %q", flags, got, want)
		}
	}
	if got := say(in, "--weights", "streamed"); got != want {
		t.Errorf("streamed rows: %q, want %q", got, want)
	}
	if said := succeed(t, "pack", "--check", out); said != out+": all checksums match\n" {
		t.Errorf("got %q", said)
	}
	succeed(t, "inspect", out)
	quern(t, "pack", in, out).refused(t, 1, out, "--force")
	quern(t, "pack", "--force", out, out).refused(t, 1, out+" is read and cannot be written at the same time")
	quern(t, "pack", out, filepath.Join(t.TempDir(), "again.gguf")).refused(t, 1, "packed already")
	quern(t, "pack", "--check", in).refused(t, 1, "not a packed file")
	quern(t, "pack", in).refused(t, 2, "no file to write")
	quern(t, "run", "-m", "demo", "--weights", "streamed", "-p", "x").refused(t, 1, "always in memory")
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(out, b, 0o600); err != nil {
		t.Fatal(err)
	}
	quern(t, "pack", "--check", out).refused(t, 1, "a checksum does not match")
}

// Doctor plans streamed weights, and says how fast a model's file is read and what to expect of it; a server says what its
// streamed weights take.
func TestStreamedIsShown(t *testing.T) {
	const name = "TinyStories-656K-x2-f16.gguf"
	in := modelPath(t, name)
	if m := planOf(t, "-m", in, "--weights", "streamed"); !m.Fits || m.Residency != "streamed" || m.Streams != 0 {
		t.Errorf("doctor: %+v", m)
	}
	if d, err := measureDisk(in); err != nil || d.Read <= 0 || d.How == "" || d.Slow != (d.Read < stream.Slow) {
		t.Errorf("the disk: %+v, %v", d, err)
	}
	slow := diskFacts{Read: 100e6, How: "threads", Slow: true}
	const want = "100.0 MB/s in order (threads); a pass takes 2.00 s or more, so a text alone has 0.50 tokens/s at most; SLOW: "
	if got := slow.words(200e6); !strings.HasPrefix(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for file, want := range map[string]string{name: " read, ", "TinyStories-656K-moe4x2-f16.gguf": " needed, of which "} {
		r := quern(t, "run", "-m", modelPath(t, file), "--weights", "streamed", "--stats", "-p", "Once", "-n", "2")
		if r.code != 0 || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit %d, %q, want %q in it", file, r.code, r.stderr, want)
		}
	}
	s := serve(t, name, "--weights", "streamed")
	text := succeed(t, "ps", "--host", s.socket)
	for _, w := range []string{"streamed weights", "of weights are streamed (", " stay", "0 errors"} {
		if !strings.Contains(text, w) {
			t.Errorf("got %q, want %q in it", text, w)
		}
	}
	if _, metrics := s.get("/metrics"); !strings.Contains(metrics, "quern_stream_read_bytes_total{") {
		t.Errorf("metrics without the stream: %s", metrics)
	}
}
