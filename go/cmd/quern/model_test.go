package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/quern-llm/quern/go/demo"
)

// A model is opened once: where another file takes its name before the weights
// are read, tokenizer and weights are still of the same one.
func TestModelIsOpenedOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := os.WriteFile(path, demo.GGUF(), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := modelFlags{path: path, ctx: 64, batch: 64, threads: 1, typeK: "f16", typeV: "f16", weights: "mapped"}
	head, err := readHead(path, true, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(tinyModel(t), path); err != nil {
		t.Fatal(err)
	}
	eng, err := flags.open(head.file, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	defer eng.Close()
	if eng.Model().GGUF() != head.file.GGUF {
		t.Error("weights of another file than the tokenizer")
	}
	if n := head.tok.Len(); n > eng.Model().Config.NVocab {
		t.Errorf("a tokenizer of %d tokens, %d rows of logits", n, eng.Model().Config.NVocab)
	}
}
