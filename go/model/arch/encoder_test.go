package arch

import (
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
)

// TestSparseKeys gives a header of BERT absurd parts of what makes sparse vectors. Each is an error of one line that names
// the key or the tensor.
func TestSparseKeys(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		keys    map[string]any // beside those that are right; nil: it is left out
		tensors map[string][]uint64
		want    string
	}{
		{name: "right"},
		{name: "a sum", keys: map[string]any{"quern.pooling": "splade_sum", "quern.splade.activation": "log1p_relu"}},
		{name: "an own matrix", tensors: map[string][]uint64{"cls.output.weight": {64, 5}}},
		{"another function", map[string]any{"quern.splade.activation": "sine"}, nil, `"sine"`},
		{"another pooling", map[string]any{"quern.pooling": "splade"}, nil, "splade_max"},
		{"no pooling of tokens", map[string]any{"quern.classifier.pooling": "cls"}, nil, "it is not tokens"},
		{"no key", map[string]any{"quern.classifier.pooling": nil}, nil, "quern.classifier.pooling"},
		{"no head", nil, map[string][]uint64{"cls.weight": nil}, "cls.weight"},
		{"few scores", nil, map[string][]uint64{"cls.output.weight": {64, 4}}, "4 rows, want 5"},
	} {
		keys := map[string]any{
			"general.architecture": "bert", "bert.context_length": uint32(512), "bert.embedding_length": uint32(64),
			"bert.block_count": uint32(2), "bert.feed_forward_length": uint32(64), "bert.attention.head_count": uint32(4),
			"bert.attention.layer_norm_epsilon": float32(1e-7), "quern.pooling": "splade_max", "quern.classifier.pooling": "tokens",
		}
		tensors := map[string][]uint64{"token_embd.weight": {64, 5}, "cls.weight": {64, 64}}
		for k, v := range tt.keys {
			keys[k] = v
		}
		for k, v := range tt.tensors {
			tensors[k] = v
		}
		w := gguf.NewWriter()
		for k, v := range keys {
			if v != nil {
				w.Set(k, v)
			}
		}
		for name, dims := range tensors {
			if dims != nil {
				w.AddTensor(name, gguf.F32, dims, gguf.Bytes(make([]byte, 4*dims[0]*dims[1])))
			}
		}
		c, err := ReadConfig(parsed(t, w))
		if (err != nil) != (tt.want != "") || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if err == nil && c.VectorWidth() != 5 {
			t.Errorf("%s: vectors of %d numbers, want 5", tt.name, c.VectorWidth())
		}
	}
}
