package convert

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/rerank"
	"github.com/quern-llm/quern/go/tokenizer"
)

// TestPairs makes the tokens of pairs of texts, and their types, that transformers makes with the same tokenizer.
// scripts/golden_pairs.py writes them.
func TestPairs(t *testing.T) {
	var archive struct {
		Cases []struct {
			Name, Family string
			Files        map[string]string
			Pairs        []struct {
				Texts [2]string
				IDs   []int32
				Types []int
			}
		}
	}
	if err := json.Unmarshal(must(os.ReadFile("testdata/pairs.json")), &archive); err != nil || len(archive.Cases) == 0 {
		t.Fatalf("%d cases, %v", len(archive.Cases), err)
	}
	for _, c := range archive.Cases {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			family, variant, _ := strings.Cut(c.Family, "/")
			checkpoints := readArchive(t, "testdata/transformers/"+family+".json")
			at := slices.IndexFunc(checkpoints, func(c truth) bool { return variant == "" || c.Name == variant })
			checkpoints[at].write(t, dir)
			for name, text := range c.Files {
				save(t, dir, name, text)
			}
			m := must(Open(dir, Options{Type: "f32", Threads: 1}))
			defer m.Close()
			var b bytes.Buffer
			must(m.Write(t.Context(), &b))
			file, cfg := opened(t, b.Bytes())
			tok := must(tokenizer.New(file.GGUF))
			r := rerank.Model{Metadata: file.GGUF, Tokenizer: tok,
				Encode: func(text string, o tokenizer.Options, _ int) ([]int32, error) { return tok.Encode(text, o), nil }}
			for _, p := range c.Pairs {
				got := must(must(r.Pairing(p.Texts[0]))(p.Texts[1]))
				types := make([]int, len(got.IDs))
				for i := range types {
					if got.Second > 0 && i >= got.Second && cfg.NType > 1 {
						types[i] = 1
					}
				}
				if !slices.Equal(got.IDs, p.IDs) || !slices.Equal(types, p.Types) {
					t.Errorf("%q: %v of types %v, want %v of %v", p.Texts, got.IDs, types, p.IDs, p.Types)
				}
			}
		})
	}
}
