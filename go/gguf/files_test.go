package gguf

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/quern-llm/quern/go/internal/testdata"
)

// Real models and vocabularies are read. Those that ggml's own tools laid out
// come back byte for byte when written again.
func TestRealFiles(t *testing.T) {
	n := 0
	for _, dir := range []string{"models", "tokenizers"} {
		err := filepath.WalkDir(testdata.Path(t, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".gguf") {
				return err
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			n++
			f, err := checkParse(t, data)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return nil
			}
			if _, err := f.Str("general.architecture"); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if dir == "models" && filepath.Base(filepath.Dir(path)) != "third-party" && !bytes.Equal(rewrite(t, f), data) {
				t.Errorf("%s: other bytes when written again", path)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if n < 25 {
		t.Errorf("%d files read, want 25 or more", n)
	}
}

// One known model, in figures from its own documentation.
func TestRealModel(t *testing.T) {
	data, err := os.ReadFile(testdata.Path(t, "models/stories260K-f32.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]uint64{
		"llama.embedding_length": 64, "llama.block_count": 5, "llama.attention.head_count": 8, "llama.attention.head_count_kv": 4,
	} {
		if got, err := f.Uint(key); got != want || err != nil {
			t.Errorf("%s = %d, %v; want %d", key, got, err, want)
		}
	}
	if tokens, err := f.Strs("tokenizer.ggml.tokens"); len(tokens) != 512 || err != nil {
		t.Errorf("%d tokens, %v; want 512", len(tokens), err)
	}
	if w, ok := f.Tensor("blk.4.ffn_down.weight"); !ok || w.Type != F32 || w.Elems() != 172*64 || w.Dims[0] != 172 {
		t.Errorf("blk.4.ffn_down.weight is %v %v", w.Type, w.Dims)
	}
}

// Files that a quantizer wrote with rows that are not whole blocks.
func TestBadRows(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(testdata.Path(t, "hostile/ik-quantize-bad-rows"), "*.gguf"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := checkParse(t, data); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "rows of 172 elements") {
			t.Errorf("%s: error %v, want rows of 172 refused", path, err)
		}
	}
}

// Another project's fuzzing corpus and crash reproducers.
func TestFuzzCorpus(t *testing.T) {
	file, err := os.Open(testdata.Path(t, "hostile/bitnet-rs-gguf-fuzz.tar.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	z, err := zstd.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	read, refused := 0, 0
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		read++
		if _, err := checkParse(t, data); err != nil {
			refused++
		}
	}
	t.Logf("%d files, %d refused", read, refused)
	if read < 200 {
		t.Errorf("%d files in the corpus, want 200 or more", read)
	}
}
