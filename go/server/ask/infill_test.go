package ask_test

import (
	"testing"

	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

// Keys of the tokens around a gap are found under the names of old files as well, and the new ones count.
func TestFIMKeys(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "", nil)
	old := fileKeys{"tokenizer.ggml.prefix_token_id": uint32(11), "tokenizer.ggml.suffix_token_id": uint32(12),
		"tokenizer.ggml.middle_token_id": uint32(13)}
	if got := ask.FindFIM(s.Tok, old); got.Pre != 11 || got.Suf != 12 || got.Mid != 13 {
		t.Errorf("of old keys: %+v", got)
	}
	old["tokenizer.ggml.fim_pre_token_id"] = uint32(21)
	if got := ask.FindFIM(s.Tok, old); got.Pre != 21 || got.Suf != 12 {
		t.Errorf("of both: %+v", got)
	}
}

// fileKeys are the keys of a file.
type fileKeys map[string]any

func (k fileKeys) Value(key string) (any, bool) { v, ok := k[key]; return v, ok }
