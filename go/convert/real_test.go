package convert

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

func parseFile(tb testing.TB, name string) *gguf.File {
	tb.Helper()
	b, err := os.ReadFile(testdata.Path(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	f, err := gguf.Parse(b)
	if err != nil {
		tb.Fatal(err)
	}
	return f
}

// TestTinyStories converts a real checkpoint and compares it with files that another converter has made of it: every
// tensor, and every key of the model and its tokenizer.
func TestTinyStories(t *testing.T) {
	dir := testdata.Path(t, "models/src/TinyStories-656K")
	for _, c := range []struct {
		options Options
		file    string
	}{
		{Options{Type: "F32"}, "models/TinyStories-656K-f32.gguf"},
		{Options{}, "models/TinyStories-656K-f32.gguf"},
		{Options{Type: "f16"}, "models/TinyStories-656K-f16.gguf"},
	} {
		got, err := converted(t, dir, c.options)
		if err != nil {
			t.Fatal(err)
		}
		want := parseFile(t, c.file)
		if d := diff(shapes(got), shapes(want)); d != nil {
			t.Errorf("%s: %s", c.file, strings.Join(d, "; "))
		}
		for _, w := range want.Tensors {
			if g, ok := got.Tensor(w.Name); ok && !bytes.Equal(g.Data, w.Data) {
				t.Errorf("%s: %s has other numbers", c.file, w.Name)
			}
		}
		for _, kv := range want.KVs {
			v, ok := got.Value(kv.Key)
			if !strings.HasPrefix(kv.Key, "general.") && (!ok || !reflect.DeepEqual(v, kv.Value)) {
				t.Errorf("%s: %s is %.80s, want %.80s", c.file, kv.Key, fmt.Sprint(v), fmt.Sprint(kv.Value))
			}
		}
	}
}

// TestPieces reads the tokenizer of Llama 2 as SentencePiece wrote it, and compares it with the vocabulary that llama.cpp's
// converter made of it.
func TestPieces(t *testing.T) {
	v := &vocabulary{limit: maxTokens}
	if err := v.readPieces(testdata.Path(t, "tokenizers/llama2.tokenizer.model"), plainPieces); err != nil {
		t.Fatal(err)
	}
	want := parseFile(t, "tokenizers/cases/ggml-vocab-llama-spm.gguf")
	tokens, _ := want.Strs("tokenizer.ggml.tokens")
	scores, _ := want.Floats("tokenizer.ggml.scores")
	types, _ := want.Value("tokenizer.ggml.token_type")
	if !slices.Equal(v.tokens, tokens) || !slices.Equal(v.scores, scores) || !reflect.DeepEqual(any(v.types), types) {
		t.Errorf("%d tokens, want %d, or others", len(v.tokens), len(tokens))
	}
}

// TestWords reads a vocabulary of BERT, made anew from the file that another converter has made of it.
func TestWords(t *testing.T) {
	f := parseFile(t, "tokenizers/cases/ggml-vocab-bert-bge.gguf")
	tokens, _ := f.Strs("tokenizer.ggml.tokens")
	var text strings.Builder
	for _, token := range tokens {
		switch rest, whole := strings.CutPrefix(token, "▁"); {
		case whole:
			text.WriteString(rest)
		case strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]"):
			text.WriteString(token)
		default:
			text.WriteString("##" + token)
		}
		text.WriteByte('\n')
	}
	dir := t.TempDir()
	save(t, dir, "vocab.txt", text.String())
	v := &vocabulary{limit: maxTokens}
	if err := v.readWords(filepath.Join(dir, "vocab.txt")); err != nil {
		t.Fatal(err)
	}
	for i := range tokens {
		if v.tokens[i] != tokens[i] {
			t.Fatalf("token %d is %q, want %q", i, v.tokens[i], tokens[i])
		}
	}
}
