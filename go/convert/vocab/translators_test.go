package vocab

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/tokenizer"
)

// unigramOf is a SentencePiece model of the kind Unigram. Pieces are the likelier the longer they are.
func unigramOf(pieces ...string) string {
	var all []byte
	for i, p := range pieces {
		one := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), p)
		one = protowire.AppendFixed32(protowire.AppendTag(one, 2, protowire.Fixed32Type), 0xC0000000+uint32(i)) // -2 and less
		all = protowire.AppendBytes(protowire.AppendTag(all, 1, protowire.BytesType), one)
	}
	return string(all)
}

// A keys is the metadata of a tokenizer.
type keys []gguf.KV

func (k keys) Value(key string) (any, bool) {
	i := slices.IndexFunc(k, func(kv gguf.KV) bool { return kv.Key == key })
	if i < 0 {
		return nil, false
	}
	return k[i].Value, true
}

// readOf reads the tokenizer of a folder with these files, of a model with n embeddings.
func readOf(t *testing.T, arch string, n int, files map[string]string) (*Vocabulary, error) {
	t.Helper()
	dir := t.TempDir()
	save(t, dir, "config.json", fmt.Sprintf(`{"vocab_size": %d, "eos_token_id": 0, "pad_token_id": 6}`, n))
	for name, text := range files {
		save(t, dir, name, text)
	}
	return Read(dir, arch, "", n, must(hf.Read(dir)))
}

// A Marian model's texts are split into the pieces of their language, with the numbers of vocab.json, and its answers have
// those of the other.
func TestMarian(t *testing.T) {
	files := map[string]string{
		"source.spm": unigramOf("<unk>", "▁the", "▁", "c", "a", "t", "q"),
		"vocab.json": `{"</s>": 0, "<unk>": 1, "▁the": 2, "▁": 3, "c": 4, "a": 5, "<pad>": 6, "▁chat": 7, "t": 8, "at": 9, ">>fra<<": 10, "é": 11}`,
	}
	v, err := readOf(t, "marian", 12, files)
	if err != nil {
		t.Fatal(err)
	}
	v.SetAdd("eos", true)
	tok := must(tokenizer.New(keys(v.Keys())))
	for text, want := range map[string][]int32{
		"the cat": {2, 3, 4, 5, 8, 0}, "chat": {3, 4, 1, 5, 8, 0}, "q": {3, 1, 0}, "é": {3, 1, 0},
		">>fra<< the": {10, 2, 0},
	} {
		if got := tok.Encode(text, tokenizer.Options{}); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := tok.Detokenize([]int32{7, 9, 11}, false); got != " chataté" {
		t.Errorf("an answer: %q", got)
	}
	for name, text := range map[string]string{"vocab.json": `{"a": "b"}`, "source.spm": "\x0a"} {
		other := map[string]string{"source.spm": files["source.spm"], "vocab.json": files["vocab.json"], name: text}
		_, err := readOf(t, "marian", 12, other)
		refused(t, name, err, name)
	}
}

// Pegasus and mBART have tokens of their own around those of the model.
func TestAroundPieces(t *testing.T) {
	pieces := []string{"<pad>", "</s>", "<unk>", "▁a"}
	v, err := readOf(t, "pegasus", 110, map[string]string{"spiece.model": unigramOf(pieces...)})
	if err != nil || v.Tokens[2] != "<mask_1>" || v.Tokens[104] != "<unk_102>" || v.Tokens[105] != "<unk>" ||
		v.Tokens[106] != "▁a" || v.Model != "t5" {
		t.Errorf("%+v, %v", v, err)
	}
	for n, want := range map[int]string{31: "zh_CN", 58: "sl_SI"} {
		v, err := readOf(t, "mbart", n, map[string]string{"sentencepiece.bpe.model": unigramOf("<unk>", "<s>", "</s>", "▁a")})
		if err != nil || v.Tokens[4] != "▁a" || v.Tokens[n-2] != want || v.Tokens[n-1] != "<mask>" || len(v.Tokens) != n {
			t.Errorf("%d tokens: %v, %v", n, v, err)
		}
	}
	if _, err := readOf(t, "mbart", 20, map[string]string{"sentencepiece.bpe.model": unigramOf(pieces...)}); err == nil ||
		!strings.Contains(err.Error(), "embeddings of 20") {
		t.Errorf("too few embeddings: %v", err)
	}
}
