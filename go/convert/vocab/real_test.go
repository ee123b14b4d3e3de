package vocab

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// TestPieces reads the tokenizer of Llama 2 as SentencePiece wrote it, and compares it with the vocabulary that llama.cpp's
// converter made of it.
func TestPieces(t *testing.T) {
	v := &Vocabulary{limit: MaxTokens}
	if err := v.readPieces(testdata.Path(t, "tokenizers/llama2.tokenizer.model"), plainPieces); err != nil {
		t.Fatal(err)
	}
	want := parseFile(t, "tokenizers/cases/ggml-vocab-llama-spm.gguf")
	tokens, _ := want.Strs("tokenizer.ggml.tokens")
	scores, _ := want.Floats("tokenizer.ggml.scores")
	types, _ := want.Value("tokenizer.ggml.token_type")
	if !slices.Equal(v.Tokens, tokens) || !slices.Equal(v.scores, scores) || !reflect.DeepEqual(any(v.Types), types) {
		t.Errorf("%d tokens, want %d, or others", len(v.Tokens), len(tokens))
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
	v := &Vocabulary{limit: MaxTokens}
	if err := v.readWords(filepath.Join(dir, "vocab.txt")); err != nil {
		t.Fatal(err)
	}
	for i := range tokens {
		if v.Tokens[i] != tokens[i] {
			t.Fatalf("token %d is %q, want %q", i, v.Tokens[i], tokens[i])
		}
	}
}
