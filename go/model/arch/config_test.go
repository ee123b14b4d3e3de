package arch

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// Files of every architecture without layers, or with next to no keys, are refused by a line.
func TestFewKeys(t *testing.T) {
	sizes := map[string]any{"context_length": uint32(512), "embedding_length": uint32(64), "block_count": uint32(2)}
	names := Names()
	for _, k := range headKinds {
		names = append(names, k.name)
	}
	for _, name := range names {
		for _, without := range []string{"context_length", "embedding_length", "block_count", "the rest"} {
			for _, value := range []any{nil, uint32(0), []int32{}, "x"} {
				w := gguf.NewWriter()
				w.Set("general.architecture", name)
				for key, v := range sizes {
					if key == without {
						v = value
					}
					if v != nil {
						w.Set(name+"."+key, v)
					}
				}
				w.AddTensor("token_embd.weight", gguf.F32, []uint64{64, 1}, gguf.Bytes(make([]byte, 256)))
				f := parsed(t, w)
				var err error
				if IsHead(name) {
					_, err = ReadHead(f)
				} else {
					_, err = ReadConfig(f)
				}
				if err == nil || !strings.Contains(err.Error(), name+".") || strings.Contains(err.Error(), "\n") {
					t.Errorf("%s with %s of %v: error %v, want one line that names a key", name, without, value, err)
				}
			}
		}
	}
}

// parsed returns the file that a writer makes.
func parsed(t *testing.T, w *gguf.Writer) *gguf.File {
	t.Helper()
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return f
}
