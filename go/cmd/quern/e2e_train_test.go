package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
)

const tinyShape = `{"name": "tiny", "architecture": "llama", "layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "hidden": 96,
	"context": 128, "vocabulary": 384, "tied": true}`

// storiesFile is a file of texts, and dir where it is.
func storiesFile(t *testing.T) (dir, path string) {
	t.Helper()
	var in strings.Builder
	for i := range 40 {
		in.WriteString(`{"text": "` + sentences[i%10] + " " + sentences[i*7%10] + `"}` + "\n")
	}
	dir = t.TempDir()
	return dir, writeFile(t, dir, "stories.jsonl", in.String())
}

// lossesOf returns the held-out loss before and after a run.
func lossesOf(t *testing.T, said string) (before, after float64) {
	t.Helper()
	m := regexp.MustCompile(`held-out loss: ([\d.]+) before, ([\d.]+) after`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("got %q", said)
	}
	before, _ = strconv.ParseFloat(m[1], 64)
	after, _ = strconv.ParseFloat(m[2], 64)
	return before, after
}

// A model from nothing learns sentences by heart, and is the same file for any number of threads and on other instruction sets.
func TestTrain(t *testing.T) {
	t.Parallel()
	dir, stories := storiesFile(t)
	shape := writeFile(t, dir, "shape.json", tinyShape)
	var want []byte
	for i, run := range []struct {
		isa     string
		threads string
	}{{"", "1"}, {"", "3"}, {"avx2", "2"}} {
		out := filepath.Join(dir, "out"+strconv.Itoa(i)+".gguf")
		in := invocation{args: []string{"train", "--config", shape, "--data", stories, "--val-data", stories, "-b", "512", "--steps", "60", "--muon", "0.03", "--rounded", "BF16", "-t", run.threads, "-o", out}}
		if run.isa != "" {
			in.env = []string{"QUERN_ISA=" + run.isa}
		}
		r := in.run(t)
		if r.code != 0 || r.stderr != "" {
			t.Fatalf("exit code %d, stderr %q", r.code, r.stderr)
		}
		if before, after := lossesOf(t, r.stdout); before < 5 || after > 1 {
			t.Errorf("a held-out loss of %v, then %v", before, after)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = b
			succeed(t, "run", "-m", out, "-n", "8", "-p", sentences[0][:9])
		}
		if !bytes.Equal(b, want) {
			t.Errorf("another file with %s threads, %s", run.threads, run.isa)
		}
	}
	if left := names(t, dir); len(left) != 5 {
		t.Errorf("there are %v", left)
	}
}

// A run that is interrupted goes on, whatever is only looked at meanwhile, and not with another shape.
func TestTrainGoesOn(t *testing.T) {
	t.Parallel()
	dir, stories := storiesFile(t)
	shape := writeFile(t, dir, "shape.json", tinyShape)
	args := func(out string, more ...string) []string {
		return append([]string{"train", "--config", shape, "--data", stories, "-b", "256", "--steps", "20", "-o", filepath.Join(dir, out)}, more...)
	}
	succeed(t, args("whole.gguf")...)
	interrupt(t, args("out.gguf")...)
	succeed(t, args("out.gguf", "--dry-run")...)
	other := writeFile(t, dir, "other.json", strings.Replace(tinyShape, `"hidden": 96`, `"hidden": 64`, 1))
	quern(t, args("out.gguf", "--resume", "--config", other)...).refused(t, 1, "another model")
	succeed(t, args("out.gguf", "--resume")...)
	a, errA := os.ReadFile(filepath.Join(dir, "whole.gguf"))
	b, errB := os.ReadFile(filepath.Join(dir, "out.gguf"))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("an interrupted run makes another model: %v, %v", errA, errB)
	}
	if left := names(t, dir); len(left) != 5 {
		t.Errorf("there are %v", left)
	}
}

// All weights of the demo model learn ten sentences, and are written rounded as they were in passes.
func TestFinetuneFull(t *testing.T) {
	t.Parallel()
	dir, chats := chatsFile(t)
	out := filepath.Join(dir, "out.gguf")
	said := succeed(t, "finetune", "-m", demo.Name, "--full", "Q4_K_M", "--lr", "1e-3", "--data", chats, "--val-data", chats, "-b", "256",
		"--steps", "16", "--eval-every", "8", "-o", out)
	if before, after := lossesOf(t, said); before < 2 || after > before-0.5 {
		t.Errorf("a held-out loss of %v, then %v", before, after)
	}
	if got := succeed(t, "inspect", out); !strings.Contains(got, "Q4_K") {
		t.Errorf("got %q", got)
	}
	succeed(t, "run", "-m", out, "-n", "8", "-p", "Once")
}

// What cannot be trained is an error of one line that says what would work.
func TestTrainRefuses(t *testing.T) {
	t.Parallel()
	dir, stories := storiesFile(t)
	shape := writeFile(t, dir, "shape.json", tinyShape)
	wide := writeFile(t, dir, "wide.json", strings.Replace(tinyShape, "64", "-64", 1))
	pairs := writeFile(t, dir, "pairs.jsonl", `{"prompt":"p","chosen":"a","rejected":"b"}`)
	out := filepath.Join(dir, "out.gguf")
	for _, x := range []struct {
		args []string
		want string
	}{
		{[]string{"train", "--data", stories, "-o", out}, "--config"},
		{[]string{"train", "--config", shape, "-o", out}, "--data"},
		{[]string{"train", "--config", shape, "--data", stories}, "-o"},
		{[]string{"train", "--config", shape, "--data", stories, "-o", out, "--rounded", "Q9"}, "Q9"},
		{[]string{"train", "--config", wide, "--data", stories, "-o", out}, "width"},
		{[]string{"train", "--config", filepath.Join(dir, "none"), "--data", stories, "-o", out}, "none"},
		{[]string{"train", "--config", shape, "--data", stories, "-o", out, "--resume"}, "resume"},
		{[]string{"train", "--config", shape, "--data", pairs, "-o", out}, "pairs"},
		{[]string{"train", "--config", writeFile(t, dir, "chats.json", strings.Replace(tinyShape, `"tied"`, `"template": "{% if %}", "tied"`, 1)), "--data", stories, "-o", out}, "template"},
		{[]string{"finetune", "-m", demo.Name, "--data", stories, "-o", out, "--muon", "0.1"}, "--full"},
		{[]string{"finetune", "-m", demo.Name, "--data", stories, "-o", filepath.Join(dir, "folder"), "--full", "BF16"}, ".gguf"},
	} {
		r := quern(t, x.args...)
		if r.code == 0 || !strings.Contains(r.stderr, x.want) || strings.Count(strings.TrimSpace(r.stderr), "\n") > 0 {
			t.Errorf("%q: exit code %d, stderr %q, want %q in it", x.args, r.code, r.stderr, x.want)
		}
	}
}
