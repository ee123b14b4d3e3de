package synth

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

func write(t *testing.T, m Model) []byte {
	t.Helper()
	var buf bytes.Buffer
	n, err := m.Write(context.Background(), &buf)
	if err != nil {
		t.Fatal(err)
	}
	if n != int64(buf.Len()) {
		t.Errorf("%s: says %d bytes, wrote %d", m, n, buf.Len())
	}
	return buf.Bytes()
}

// The tiny shape, in every mix, can be read back.
func TestRoundTrip(t *testing.T) {
	for _, mix := range Mixes() {
		m, err := ParseShape("tiny:" + mix)
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Parse(write(t, m))
		if err != nil {
			t.Errorf("%s: %v", m, err)
			continue
		}
		if got, want := len(f.Tensors), len(m.tensors()); got != want {
			t.Errorf("%s: %d tensors, want %d", m, got, want)
		}
		if v, _ := f.Value("llama.embedding_length"); v != uint32(256) {
			t.Errorf("%s: llama.embedding_length = %v, want 256", m, v)
		}
		if v, _ := f.Value("general.file_type"); v != m.Mix.Kind {
			t.Errorf("%s: general.file_type = %v, want %d", m, v, m.Mix.Kind)
		}
	}
}

// The same model is the same bytes, and another seed changes weights only.
func TestSeed(t *testing.T) {
	m, err := ParseShape("tiny:Q4_K_M")
	if err != nil {
		t.Fatal(err)
	}
	a := write(t, m)
	if !bytes.Equal(a, write(t, m)) {
		t.Error("two writes differ")
	}
	m.Seed++
	b := write(t, m)
	f, err := gguf.Parse(a)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a[:f.DataOffset], b[:f.DataOffset]) {
		t.Error("the metadata depends on the seed")
	}
	if bytes.Equal(a, b) {
		t.Error("the weights do not depend on the seed")
	}
}

// Vocabularies have the size and the special tokens that the metadata says,
// no token twice, and merges that make tokens out of tokens.
func TestVocabularies(t *testing.T) {
	for _, tt := range []struct {
		shape, bos, eos string
	}{
		{"llama-3.2-1b", "<|begin_of_text|>", "<|end_of_text|>"},
		{"qwen3-0.6b", "<|endoftext|>", "<|im_end|>"},
		{"mixtral-8x7b", "<s>", "</s>"},
		{"gpt-oss-20b", "<|startoftext|>", "<|return|>"},
		{"qwen3.8-27b", "<|endoftext|>", "<|im_end|>"},
		{"gemma-4-e4b", "<bos>", "<eos>"},
		{"gemma-3n-e4b", "<bos>", "<eos>"},
		{"glm-4.7-flash", "[gMASK]", "<|endoftext|>"},
		{"tiny", "<|begin_of_text|>", "<|end_of_text|>"},
	} {
		kv := map[string]any{}
		s := findShape(tt.shape)
		s.tokenizer(func(key string, v any) { kv[strings.TrimPrefix(key, "tokenizer.ggml.")] = v })
		tokens := kv["tokens"].([]string)
		types := kv["token_type"].([]int32)
		if len(tokens) != s.NVocab || len(types) != s.NVocab {
			t.Fatalf("%s: %d tokens and %d types, want %d", tt.shape, len(tokens), len(types), s.NVocab)
		}
		if got := tokens[kv["bos_token_id"].(uint32)]; got != tt.bos {
			t.Errorf("%s: BOS is %q, want %q", tt.shape, got, tt.bos)
		}
		if got := tokens[kv["eos_token_id"].(uint32)]; got != tt.eos {
			t.Errorf("%s: EOS is %q, want %q", tt.shape, got, tt.eos)
		}
		known := map[string]bool{}
		for _, tok := range tokens {
			if known[tok] {
				t.Errorf("%s: token %q comes twice", tt.shape, tok)
			}
			known[tok] = true
		}
		merges, _ := kv["merges"].([]string)
		for _, m := range merges {
			a, b, _ := strings.Cut(m, " ")
			if !known[a] || !known[b] || !known[a+b] {
				t.Fatalf("%s: merge %q is not of tokens into a token", tt.shape, m)
			}
		}
		if scores, ok := kv["scores"].([]float32); ok == (merges != nil) || ok && len(scores) != s.NVocab {
			t.Errorf("%s: %d scores and %d merges", tt.shape, len(scores), len(merges))
		}
	}
}

// Llama 3.1's divisors: 1 for the fast rotations, 8 for the slow.
func TestRopeFreqs(t *testing.T) {
	f := findShape("llama-3.1-8b").ropeFreqs()
	if len(f) != 64 || f[0] != 1 || f[28] != 1 || f[35] != 8 || f[63] != 8 {
		t.Errorf("divisors %v", f)
	}
	for i := 1; i < len(f); i++ {
		if f[i] < f[i-1] {
			t.Errorf("divisor %d is %g, below the one before, %g", i, f[i], f[i-1])
		}
	}
	// 8192 positions turn rotation 30 by 2.776 times 2 pi.
	if math.Abs(float64(f[30])-1.5546) > 0.01 {
		t.Errorf("divisor 30 = %g, want 1.5546", f[30])
	}
}

func TestWriteFile(t *testing.T) {
	m, err := ParseShape("tiny:Q8_0")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	ctx, cancel := context.WithCancel(context.Background())
	n, err := m.WriteFile(ctx, path, false)
	if err != nil {
		t.Fatal(err)
	}
	if fi, err := os.Stat(path); err != nil || fi.Size() != n {
		t.Errorf("%d bytes written, file: %v, %v", n, fi, err)
	}
	if _, err := m.WriteFile(ctx, path, false); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over a file: %v, want %v", err, fs.ErrExist)
	}
	if _, err := m.WriteFile(ctx, path, true); err != nil {
		t.Errorf("replacing: %v", err)
	}
	cancel()
	if _, err := m.WriteFile(ctx, path+"2", false); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func BenchmarkWrite(b *testing.B) {
	m, err := ParseShape("tiny:Q4_K_M")
	if err != nil {
		b.Fatal(err)
	}
	n, err := m.DataBytes()
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(n))
	for b.Loop() {
		if _, err := m.Write(context.Background(), new(bytes.Buffer)); err != nil {
			b.Fatal(err)
		}
	}
}
