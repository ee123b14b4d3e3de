package vocab

import (
	"math"
	"slices"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quern-llm/quern/go/convert/hf"
)

// piecesOf returns a SentencePiece model of some pieces.
func piecesOf(texts ...string) string {
	var b []byte
	for i, text := range texts {
		p := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), text)
		p = protowire.AppendFixed32(protowire.AppendTag(p, 2, protowire.Fixed32Type), math.Float32bits(-float32(i)))
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), p)
	}
	return string(b)
}

// TestAddedPieces reads tokens behind those of a SentencePiece model from each of the files that may have them; what is
// within the model stays as it is there, and what the model has no embeddings of is left out.
func TestAddedPieces(t *testing.T) {
	for _, c := range []struct {
		file, text string
		want       []string
		types      []int32
	}{
		{"added_tokens.json", `{"<|im_start|>": 4, "<|im_end|>": 3, "b": 0, "far": 9}`,
			[]string{"a", "b", "c", "<|im_end|>", "<|im_start|>", "[PAD5]"}, []int32{normal, normal, normal, Control, Control, unused}},
		{"tokenizer.json", `{"added_tokens": [{"id": 1, "content": "x", "special": true}, {"id": 3, "content": "<end>", "special": true}, {"id": 4, "content": "y"}, {"id": -1, "content": "z"}]}`,
			[]string{"a", "b", "c", "<end>", "y", "[PAD5]"}, []int32{normal, normal, normal, Control, UserDefined, unused}},
		{"tokenizer_config.json", `{"added_tokens_decoder": {"3": {"content": "<end>", "special": true}}}`,
			[]string{"a", "b", "c", "<end>", "[PAD4]", "[PAD5]"}, []int32{normal, normal, normal, Control, unused, unused}},
	} {
		dir := t.TempDir()
		save(t, dir, "tokenizer.model", piecesOf("a", "b", "c"))
		save(t, dir, c.file, c.text)
		v, err := Read(dir, "llama", "", 6, sizeOf(6))
		if err != nil {
			t.Errorf("%s: %v", c.file, err)
		} else if !slices.Equal(v.Tokens, c.want) || !slices.Equal(v.Types, c.types) {
			t.Errorf("%s: got %q of the types %v, want %q and %v", c.file, v.Tokens, v.Types, c.want, c.types)
		} else if v.scores[2] != -2 || v.scores[3] != -1000 {
			t.Errorf("%s: the scores %v, want -2 for a piece and -1000 for an added token", c.file, v.scores)
		}
	}
	dir := t.TempDir()
	save(t, dir, "tokenizer.model", piecesOf("a"))
	save(t, dir, "added_tokens.json", `{"b": "c"}`)
	_, err := Read(dir, "llama", "", 6, sizeOf(0))
	refused(t, "a number of text", err, "added_tokens.json", `"b"`)
}

// sizeOf returns the settings of a model with a vocabulary of n tokens.
func sizeOf(n int) *hf.Config { return new(hf.Config).Part(map[string]any{"vocab_size": float64(n)}) }
