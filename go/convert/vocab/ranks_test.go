package vocab

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
)

// unpacked returns the content of a file of the test data.
func unpacked(t *testing.T, name string) []byte {
	t.Helper()
	z := must(zstd.NewReader(nil))
	defer z.Close()
	return must(z.DecodeAll(must(os.ReadFile(testdata.Path(t, name))), nil))
}

// A folder's name is no pattern.
func TestRanksInFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[v2]")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	save(t, dir, "qwen.tiktoken", ranksText("th"))
	if got := ranksOf(dir); got != filepath.Join(dir, "qwen.tiktoken") {
		t.Errorf("found %q", got)
	}
}

// TestRanks reads vocabularies of tiktoken's kind, and compares them with what another converter has made of the same model's
// tokenizer.json: the tokens, and for Qwen, whose merges follow from ranks there as well, those.
func TestRanks(t *testing.T) {
	for _, c := range []struct {
		file, as, arch, pre, want string
		normal                    int
		merges                    bool
	}{
		{"qwen.tiktoken.zst", "qwen.tiktoken", "qwen", "qwen2", "ggml-vocab-qwen2.gguf.zst", 151643, true},
		{"llama3.tokenizer.model.zst", "tokenizer.model", "chatglm", "chatglm-bpe", "ggml-vocab-llama-bpe.gguf.zst", 128000, false},
	} {
		dir := t.TempDir()
		save(t, dir, c.as, string(unpacked(t, "tokenizers/"+c.file)))
		path := filepath.Join(dir, c.as)
		if got := ranksOf(dir); got != path {
			t.Errorf("%s: found %q", c.as, got)
		}
		v := &Vocabulary{limit: 152000}
		if err := v.readRanks(path, c.arch, ""); err != nil {
			t.Fatal(err)
		}
		want := must(gguf.Parse(unpacked(t, "tokenizers/cases/"+c.want)))
		tokens, _ := want.Strs("tokenizer.ggml.tokens")
		if v.pre != c.pre || !slices.Equal(v.Tokens[:c.normal], tokens[:c.normal]) {
			t.Errorf("%s: %s and other tokens", c.file, v.pre)
		}
		if merges, _ := want.Strs("tokenizer.ggml.merges"); c.merges && !slices.Equal(v.merges, merges) {
			t.Errorf("%s: %d merges, want %d, or others", c.file, len(v.merges), len(merges))
		}
		if c.arch == "qwen" && (v.Tokens[151645] != "<|im_end|>" || len(v.Tokens) != 151851 || v.Special("eot") != 151645) {
			t.Errorf("%d tokens, %d ends turns", len(v.Tokens), v.Special("eot"))
		}
	}
}

// ranksText returns a file of bytes, and of tokens behind them.
func ranksText(more ...string) string {
	var b strings.Builder
	for i := range 256 {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte{byte(i)}), i)
	}
	for i, s := range more {
		fmt.Fprintf(&b, "%s %d\n", base64.StdEncoding.EncodeToString([]byte(s)), 256+i)
	}
	return b.String()
}

// TestRankedVocabularies reads such vocabularies as checkpoints have them, with the tokens that other files add, and refuses those
// that make no sense.
func TestRankedVocabularies(t *testing.T) {
	tekken := func(specials, vocab string) string {
		return `{"config": {"default_vocab_size": 264, "default_num_special_tokens": 4}, ` + specials + `"vocab": [` + vocab + `]}`
	}
	var entries []string
	for i, line := range strings.Split(strings.TrimSpace(ranksText("th", "the", "zz", "qq", "far")), "\n") {
		text, _, _ := strings.Cut(line, " ")
		entries = append(entries, fmt.Sprintf(`{"rank": %d, "token_bytes": %q, "token_str": null}`, i, text))
	}
	whole := strings.Join(entries, ", ")
	for _, c := range []struct {
		name   string
		files  map[string]string
		tokens map[int]string
		pre    string
		want   string // an error
	}{
		{"kimi", map[string]string{"tiktoken.model": ranksText("th", "the"), "tokenizer_config.json": `{"added_tokens_decoder": {"260": {"content": "<end>", "special": true}}}`},
			map[int]string{'a': "a", 0: "Ā", 257: "the", 258: "[PAD258]", 260: "<end>"}, "kimi-k2", ""},
		{"tekken", map[string]string{"tekken.json": tekken(`"special_tokens": [{"rank": 2, "token_str": "</s>"}, {"rank": 1, "token_str": "<s>"}], `, whole)},
			map[int]string{0: "<SPECIAL_0>", 1: "<s>", 2: "</s>", 4 + 'a': "a", 261: "the", 263: "qq", 264: "[PAD264]"}, "tekken", ""},
		{"an older tekken", map[string]string{"tekken.json": tekken("", whole)}, map[int]string{0: "<unk>", 3: "[INST]", 4: "Ā"}, "tekken", ""},
		{"a rank twice", map[string]string{"x.tiktoken": ranksText("a")}, nil, "", "has two ranks"},
		{"no pre-tokenizer", map[string]string{"x.tiktoken": ranksText("th")}, nil, "llama", "--pre"},
		{"a rank too many", map[string]string{"x.tiktoken": ranksText("th") + "dGhl 300\n"}, nil, "", "has the rank 300, want 257"},
		{"no base64", map[string]string{"x.tiktoken": ranksText("th") + "?? 257\n"}, nil, "", "line 258 is"},
		{"absurd specials", map[string]string{"tekken.json": `{"config": {"default_vocab_size": 10, "default_num_special_tokens": 2000000000}}`}, nil, "", "are special"},
		{"a special too many", map[string]string{"tekken.json": tekken(`"special_tokens": [{"rank": -1, "token_str": "x"}], `, whole)}, nil, "", "has the rank -1"},
		{"half a tekken", map[string]string{"tekken.json": tekken("", entries[5])}, nil, "", "want 0"},
	} {
		dir := t.TempDir()
		for name, text := range c.files {
			save(t, dir, name, text)
		}
		arch := "kimi-linear"
		if c.pre == "llama" {
			arch = "llama"
		}
		v, err := Read(dir, arch, "", 270, sizeOf(270))
		if c.want != "" {
			refused(t, c.name, err, c.want)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for id, want := range c.tokens {
			if v.Tokens[id] != want {
				t.Errorf("%s: token %d is %q, want %q", c.name, id, v.Tokens[id], want)
			}
		}
		if v.pre != c.pre || !slices.Equal(v.merges[:2], []string{"t h", "th e"}) || len(v.Tokens) != 270 {
			t.Errorf("%s: %s, merges %q, %d tokens", c.name, v.pre, v.merges, len(v.Tokens))
		}
		if c.name != "kimi" && (v.Special("bos") != 1 || v.Special("eos") != 2) {
			t.Errorf("%s: %v are special", c.name, v.special)
		}
	}
}

// TestLines reads the vocabularies that RWKV and PLaMo keep in files of their own.
func TestLines(t *testing.T) {
	read := func(arch, name, text string) (*Vocabulary, error) {
		dir := t.TempDir()
		save(t, dir, name, text)
		return Read(dir, arch, "", 8, sizeOf(8))
	}
	v, err := read("rwkv7", worldFile, "1 '\\x00' 1\n2 '\\n\\n' 2\n3 b'\\xff\\'' 2\n4 \"it's\" 4\n5 'é' 2\n6 '\\u2581 x' 5\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"<s>", `\x00`, `\n\n`, `\xff'`, "it's", `\xc3\xa9`, `\xe2\x96\x81 x`, "[PAD7]"}; !slices.Equal(v.Tokens, want) {
		t.Errorf("got %q, want %q", v.Tokens, want)
	}
	if v.Model != "rwkv" {
		t.Errorf("the kind %s", v.Model)
	}
	if v, err = read("plamo2", jsonLines, `["<|plamo:unk|>", 0, "UNKNOWN"]`+"\n"+`["<|plamo:op|>", 0, "NORMAL"]`+"\n\n"+`["x", -1.5, "NORMAL", "", 1]`+"\n"+`["<0x00>", 0, "BYTE"]`+"\n"+`["y", -2]`); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(v.Types[:4], []int32{unknown, Control, normal, byteToken}) || v.scores[2] != -1.5 {
		t.Errorf("types %v, scores %v", v.Types, v.scores)
	}
	for text, want := range map[string]string{"1 'x' 2": "as many bytes", "x": "want a number", "1 x 1": "as many bytes", `1 'x\' 1`: "as many bytes", `9 'x' 1`: "embeddings of 8"} {
		_, err := read("rwkv7", worldFile, text)
		refused(t, text, err, want)
	}
	for _, text := range []string{"{", "[1]", "[1, 2]", `["a", "b"]`} {
		_, err := read("plamo2", jsonLines, text)
		refused(t, text, err, "line 1")
	}
	if v, err = read("t5", "spiece.model", piecesOf("<pad>", "</s>", "▁a")); err != nil || v.Model != "t5" || v.Tokens[2] != "▁a" {
		t.Errorf("%+v, %v", v, err)
	}
}

// FuzzRanks reads vocabularies of tiktoken's kind and of Mistral's and RWKV's that are anything.
func FuzzRanks(f *testing.F) {
	f.Add(ranksText("th", "the"))
	f.Add(`{"config": {"default_vocab_size": 264, "default_num_special_tokens": 4}, "vocab": [{"rank": 0, "token_bytes": "YQ=="}]}`)
	f.Add("1 '\\x00' 1\n2 b'\\xff' 1\n")
	f.Add(`["a", 1, "BYTE"]`)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		save(t, dir, "file", text)
		path := filepath.Join(dir, "file")
		for _, read := range []func(v *Vocabulary) error{
			func(v *Vocabulary) error { return v.readRanks(path, "", "gpt-2") },
			func(v *Vocabulary) error { return v.readTekken(path) },
			func(v *Vocabulary) error { return v.readWorld(path) },
			func(v *Vocabulary) error { return v.readJSONLines(path) },
		} {
			if err := read(&Vocabulary{limit: 300}); err != nil && strings.ContainsAny(err.Error(), "\n\r") {
				t.Errorf("%q is no line", err)
			}
		}
	})
}
