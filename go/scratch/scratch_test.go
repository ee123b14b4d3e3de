package scratch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

const tiny = `{"name": "tiny", "architecture": "qwen3", "layers": 2, "width": 64, "heads": 4, "kv_heads": 2, "hidden": 96,
	"context": 128, "vocabulary": 280, "tied": true}`

// A model is the same bytes everywhere, and has what its shape says.
func TestModel(t *testing.T) {
	s, err := Read(strings.NewReader(tiny))
	if err != nil {
		t.Fatal(err)
	}
	w, err := s.Model(slices.Values([]string{strings.Repeat("the cat and the hat and the other cat ", 9)}), 7)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := w.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(b.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	if q, ok := f.Tensor("blk.1.attn_q.weight"); !ok || !slices.Equal(q.Dims, []uint64{64, 64}) {
		t.Errorf("attn_q: %v", q)
	}
	if _, ok := f.Tensor("output.weight"); ok {
		t.Error("an output matrix where embeddings are tied")
	}
	sum := sha256.Sum256(b.Bytes())
	const want = "12748d4dc3590518"
	if got := hex.EncodeToString(sum[:8]); got != want {
		t.Errorf("a file of hash %s, want %s", got, want)
	}
}

// Shapes that cannot be are errors of one line that name a field.
func TestRefusals(t *testing.T) {
	for _, x := range []struct{ was, is, names string }{
		{`"qwen3"`, `"gpt9"`, "architecture"}, {`"layers": 2`, `"layers": 0`, "layers"}, {`"layers": 2`, `"layers": 1e9`, "layers"},
		{`"width": 64`, `"width": -1`, "width"}, {`"heads": 4`, `"heads": 3`, "heads"}, {`"hidden": 96`, `"hidden": 0`, "hidden"},
		{`"context": 128`, `"context": 1`, "context"}, {`"tied": true`, `"tide": true`, "tide"}, {`"vocabulary": 280`, `"vocabulary": 10`, "vocabulary"},
		{`"tied": true`, `"control": ["a", "a"]`, "control"}, {`"tied": true`, `"control": ["a"]`, "control"}, {`"tied": true`, `"words": "none"`, "words"},
		{`"tied": true`, `"rope_base": -1`, "rope_base"}, {`"heads": 4`, `"heads": 64, "head_dim": 9`, "head_dim"}, {"}", "} {}", "more than one"},
		{`"tied": true`, `"template": "{% if %}"`, "template"},
		{`"tied": true`, `"control": ["<s>", "a"]`, "control has \"a\""}, {`"tied": true`, `"control": ["Ġ", "</s>"]`, "control has \"Ġ\""},
	} {
		s, err := Read(strings.NewReader(strings.Replace(tiny, x.was, x.is, 1)))
		if err == nil {
			_, err = s.Model(slices.Values([]string{"a"}), 1)
		}
		if err == nil || !strings.Contains(err.Error(), x.names) || strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "Go ") {
			t.Errorf("%s: error %v", x.is, err)
		}
	}
}
