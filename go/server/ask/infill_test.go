package ask_test

import (
	"slices"
	"strings"
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
	// A key says the last token, but none beyond.
	spelled, last := ask.FindFIM(s.Tok, fileKeys{}).Pre, s.Tok.Len()-1
	for id, want := range map[uint32]int32{uint32(last): int32(last), uint32(last + 1): spelled, 1<<32 - 1: spelled} {
		if got := ask.FindFIM(s.Tok, fileKeys{"tokenizer.ggml.fim_pre_token_id": id}); got.Pre != want {
			t.Errorf("the key %d: %+v, want %d", id, got, want)
		}
	}
}

// Token 0 is one of a repository and of files as any other; a word that is spelled as a mark is none, unless a user
// defined it.
func TestMarksOfFiles(t *testing.T) {
	t.Parallel()
	tok := fake.New(t, "", nil).Tok
	files := ask.Infill{Files: []ask.File{{Name: "a", Text: "b"}}}
	for _, name := range []string{"", "rep", "sep"} {
		keys := fileKeys{}
		if name != "" {
			keys["tokenizer.ggml.fim_"+name+"_token_id"] = uint32(0)
		}
		m := ask.Model{Tokenizer: tok, Metadata: keys, Ctx: 512, VectorsOnly: "nothing is generated"}
		m.Complete()
		ids, err := m.FillIn(files)
		if got := tok.Detokenize(ids, true); err != nil || !strings.Contains(got, "myproject") {
			t.Errorf("%s is token 0: %q, %v", name, got, err)
		}
		if ids, err = m.FillIn(ask.Infill{}); err != nil || slices.Contains(ids, 0) || strings.Contains(tok.Detokenize(ids, true), "myproject") {
			t.Errorf("%s is token 0, and there are no files: %v, %v", name, ids, err)
		}
	}
	for typ, found := range map[int32]bool{1: false, 3: true, 4: true} {
		meta := fake.Vocabulary(nil)
		meta["tokenizer.ggml.tokens"] = append(meta["tokenizer.ggml.tokens"].([]string), "<PRE>")
		meta["tokenizer.ggml.token_type"] = append(meta["tokenizer.ggml.token_type"].([]int32), typ)
		meta["tokenizer.ggml.scores"] = append(meta["tokenizer.ggml.scores"].([]float32), -1000)
		tok := fake.Tokenizer(t, meta)
		if got := ask.FindFIM(tok, fileKeys{}); (got.Pre == int32(tok.Len()-1)) != found || got.Suf != -1 {
			t.Errorf("<PRE> of type %d: %+v", typ, got)
		}
	}
}

// fileKeys are the keys of a file.
type fileKeys map[string]any

func (k fileKeys) Value(key string) (any, bool) { v, ok := k[key]; return v, ok }
