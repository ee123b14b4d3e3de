package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/model"
)

// names lists what is in a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// A model in several files says what it says whole, and joined it is the same bytes again.
func TestSplitAndJoin(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	plan := succeed(t, "split", demo.Name, at("part"), "--split-max-tensors", "20", "--dry-run")
	if len(names(t, dir)) != 0 || !strings.HasPrefix(plan, at("part-00001-of-0000")) {
		t.Errorf("a dry run left %v and said %q", names(t, dir), plan)
	}
	if said := succeed(t, "split", demo.Name, at("part"), "--split-max-tensors", "20"); said != plan || strings.Count(plan, "\n") != len(names(t, dir)) {
		t.Errorf("got %q and %v, planned %q", said, names(t, dir), plan)
	}
	first := at(names(t, dir)[0])
	say := func(model string) string {
		return succeed(t, "run", "-m", model, "-p", "Once upon a time", "-n", "16", "--temp", "0")
	}
	if got, want := say(first), say(demo.Name); got != want {
		t.Errorf("in parts it says %q, want %q", got, want)
	}
	succeed(t, "join", first, at("whole.gguf"))
	whole, err := os.ReadFile(at("whole.gguf"))
	if err != nil || !bytes.Equal(whole, demo.GGUF()) {
		t.Errorf("joined it is %d bytes, want the %d of before; %v", len(whole), len(demo.GGUF()), err)
	}
	// As gguf-split is called.
	succeed(t, "split", "--split", "--split-max-size", "1M", "--no-tensor-first-split", at("whole.gguf"), at("by-size"))
	succeed(t, "split", "--merge", globbed(t, at("by-size-00001-of-*")), at("again.gguf"))
	again, err := os.ReadFile(at("again.gguf"))
	if err != nil || !bytes.Equal(again, whole) {
		t.Errorf("divided by size and joined it is %d bytes, want %d; %v", len(again), len(whole), err)
	}

	before := len(names(t, dir))
	quern(t, "split", demo.Name, at("part"), "--split-max-tensors", "20").refused(t, 1, "part-00001", "--force")
	quern(t, "split", demo.Name, at("x"), "--split-max-size", "1k").refused(t, 1, "takes", "larger limit")
	quern(t, "split", demo.Name, at("x"), "--split-max-size", "1M", "--split-max-tensors", "5").refused(t, 2, "give one")
	quern(t, "split", demo.Name, at("x"), "--split", "--merge").refused(t, 2, "give one")
	quern(t, "join", demo.Name, at("x")).refused(t, 1, "nothing to join")
	quern(t, "join", first, at("whole.gguf")).refused(t, 1, "--force")
	// What is read is never replaced, whichever of the files it is.
	quern(t, "split", first, at("part"), "--split-max-tensors", "20", "--force").refused(t, 1, first, "another name")
	quern(t, "join", first, first, "--force").refused(t, 1, first, "another name")
	quern(t, "quantize", "--keep-split", "--force", first, at("part.gguf"), "COPY").refused(t, 1, first, "another name")
	if err := os.Remove(globbed(t, at("part-00002-*"))); err != nil {
		t.Fatal(err)
	}
	quern(t, "join", first, at("x")).refused(t, 1, "part-00002")
	if after := names(t, dir); len(after) != before-1 {
		t.Errorf("refusals left %v", after)
	}
}

// globbed returns the one path of a pattern.
func globbed(t *testing.T, pattern string) string {
	t.Helper()
	all, err := filepath.Glob(pattern)
	if err != nil || len(all) != 1 {
		t.Fatalf("%s: %v, %v", pattern, all, err)
	}
	return all[0]
}

// A merged model says what the base says with its adapters.
func TestMergeLora(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	base := testdata.Path(t, "models/TinyStories-656K-f32.gguf")
	adapter := testdata.Path(t, "models/TinyStories-656K-lora-r32-f16.gguf")
	say := func(model string, flags ...string) string {
		return succeed(t, append([]string{"run", "-m", model, "-p", "Once upon a time", "-n", "60", "--temp", "0", "--ignore-eos"}, flags...)...)
	}
	for _, tt := range []struct{ name, arg, flag, value string }{
		{"one.gguf", adapter, "--lora", adapter},
		{"scaled.gguf", adapter + ":2.5", "--lora-scaled", adapter + ":2.5"},
	} {
		out := filepath.Join(dir, tt.name)
		succeed(t, "merge-lora", base, tt.arg, "-o", out)
		if got, want := say(out), say(base, tt.flag, tt.value); got != want || got == say(base) {
			t.Errorf("%s says %q, want %q", tt.name, got, want)
		}
	}
	// Against the same tool's measure: merged once in halves and once whole they hardly differ.
	halves, whole := filepath.Join(dir, "halves.gguf"), filepath.Join(dir, "one.gguf")
	succeed(t, "merge-lora", base, adapter+":0.5", adapter+":0.5", "-o", halves)
	if out := succeed(t, "compare", whole, halves, "-f", heldOut, "-c", "64", "--chunks", "2"); !strings.Contains(out, "100.00 %") {
		t.Errorf("in halves it is another model: %s", out)
	}
	// Floats of half the size.
	small := filepath.Join(dir, "small.gguf")
	succeed(t, "merge-lora", base, adapter, "-o", small, "--type", "f16")
	a, b := bytesOf(t, whole), bytesOf(t, small)
	if b >= a {
		t.Errorf("F16 takes %d bytes, F32 %d", b, a)
	}
	if out := succeed(t, "merge-lora", base, adapter, "-o", filepath.Join(dir, "dry.gguf"), "--dry-run"); !strings.Contains(out, "dry.gguf: ") {
		t.Errorf("got %q", out)
	}

	// A file is of the type of most of its numbers, or what its base was.
	kindOf := func(path string) uint64 {
		file, err := model.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		n, err := file.GGUF.Uint("general.file_type")
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	same := filepath.Join(dir, "same.gguf")
	q8 := testdata.Path(t, "models/quant/TinyStories-656K-Q8_0.gguf")
	succeed(t, "merge-lora", q8, adapter, "-o", same, "--type", "same")
	if a, b := bytesOf(t, q8), bytesOf(t, same); b > a+100 || say(same) == say(q8) {
		t.Errorf("of the same types it takes %d bytes, %d before", b, a)
	}

	if got := []uint64{kindOf(whole), kindOf(small), kindOf(same)}; got[0] != kindOf(base) || got[2] != kindOf(q8) {
		t.Errorf("types of the files: %d; want those of the bases, %d and %d, for the first and the last", got, kindOf(base), kindOf(q8))
	}
	before := names(t, dir)
	x := filepath.Join(dir, "x.gguf")
	quern(t, "merge-lora", base, adapter).refused(t, 2, "-o OUT")
	quern(t, "merge-lora", base, adapter+":much", "-o", x).refused(t, 2, `"much" is no scale`)
	quern(t, "merge-lora", base, adapter, "-o", x, "--type", "iq1_s").refused(t, 2, "importance")
	quern(t, "merge-lora", base, adapter, "-o", x, "--type", "q9").refused(t, 2, "q9")
	quern(t, "merge-lora", base, base, "-o", x).refused(t, 1, "not an adapter")
	quern(t, "merge-lora", demo.Name, adapter, "-o", x).refused(t, 1, "lora")
	quern(t, "merge-lora", base, adapter, "-o", whole).refused(t, 1, "--force")
	quern(t, "merge-lora", whole, adapter, "-o", whole, "--force").refused(t, 1, "another name")
	quern(t, "merge-lora", base, adapter+":1e30", "-o", x, "--type", "f16").refused(t, 1, "tensor", "more than F16 holds")
	if after := names(t, dir); len(after) != len(before) {
		t.Errorf("refusals left %v", after)
	}
}

func bytesOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}
