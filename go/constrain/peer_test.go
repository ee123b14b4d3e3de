package constrain_test

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"hash/fnv"
	"os"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/gbnf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// A witness is what llama.cpp allows after a text: how many tokens, and a hash of their ids.
type witness struct {
	Vocab, Grammar, Prefix string
	Count                  int
	Hash                   uint32
	End                    bool
	Rejected               bool // the text itself
}

// On real vocabularies the tokens that grammars allow are those that llama.cpp allows, of
// those that make the text valid UTF-8: of others llama.cpp takes some that no text goes on
// from, such as the byte 0xF5, and refuses some that a text can have, such as the first byte
// of a character where another character with this byte is excluded. It takes no token that
// begins with NUL; and control tokens, which print nothing, by their names.
func TestMasksOfLlamaCPP(t *testing.T) {
	data, err := os.ReadFile("testdata/llamacpp.json")
	if err != nil {
		t.Fatal(err)
	}
	var witnesses []witness
	if err := json.Unmarshal(data, &witnesses); err != nil {
		t.Fatal(err)
	}
	var cases struct {
		Grammar []struct{ Name, Grammar string }
	}
	if data, err = os.ReadFile(testdata.Path(t, "grammar/grammar_integration.llama.cpp.json")); err == nil {
		err = json.Unmarshal(data, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	grammars := map[string]*grammar.Grammar{}
	for _, c := range cases.Grammar {
		g, err := gbnf.Parse(c.Grammar, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		grammars[c.Name] = g
	}
	byVocab := map[string][]witness{}
	for _, w := range witnesses {
		byVocab[w.Vocab] = append(byVocab[w.Vocab], w)
	}
	for _, vocab := range []string{"llama-spm.gguf", "gpt-2.gguf", "llama-bpe.gguf.zst", "qwen2.gguf.zst"} {
		tok, v := load(t, vocab)
		bytes := map[byte]int32{}
		for id := range int32(tok.Len()) {
			if p := tok.Piece(id, false); len(p) == 1 {
				bytes[p[0]] = id
			}
		}
		next := constrain.NewSet(tok.Len())
		for _, w := range byVocab[vocab] {
			if grammars[w.Grammar] == nil {
				grammars[w.Grammar] = gbnfFile(t, w.Grammar)
			}
			a, err := v.Compile(grammars[w.Grammar])
			if err != nil {
				t.Fatal(err)
			}
			c := a.New(true)
			prefix, err := hex.DecodeString(w.Prefix)
			if err != nil {
				t.Fatal(err)
			}
			rejected := false
			for _, b := range prefix {
				if rejected = !c.Accept(bytes[b]); rejected {
					break
				}
			}
			if rejected != w.Rejected {
				t.Errorf("%s, %s: %q is rejected: %v, want %v", w.Vocab, w.Grammar, prefix, rejected, w.Rejected)
			}
			if rejected {
				continue
			}
			clear(next)
			c.Mask(next)
			end := false
			for _, id := range tok.EOG() {
				end = next.Has(id)
			}
			count, hash := 0, fnv.New32a()
			for id := range int32(tok.Len()) {
				piece := tok.Piece(id, false)
				if len(piece) == 0 || piece[0] == 0 || string(piece) == "</s>" || slices.Contains(tok.EOG(), id) || !utf8.Valid(append(prefix[:len(prefix):len(prefix)], piece...)) {
					continue
				}
				if next.Has(id) {
					count++
					hash.Write(binary.LittleEndian.AppendUint32(nil, uint32(id)))
				}
			}
			if count != w.Count || hash.Sum32() != w.Hash || end != w.End {
				t.Errorf("%s, %s, after %q: %d tokens, hash %x, end %v; want %d, %x, %v", w.Vocab, w.Grammar, prefix, count, hash.Sum32(), end, w.Count, w.Hash, w.End)
			}
		}
	}
	if len(witnesses) < 60 {
		t.Errorf("only %d texts", len(witnesses))
	}
}
