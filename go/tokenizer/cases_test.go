package tokenizer_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/text/unicode/norm"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/cputime"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
)

// read returns a file of the test data, decompressed.
func read(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := os.ReadFile(testdata.Path(tb, name))
	if err != nil {
		tb.Fatal(err)
	}
	if strings.HasSuffix(name, ".zst") {
		d, err := zstd.NewReader(nil)
		if err != nil {
			tb.Fatal(err)
		}
		defer d.Close()
		if data, err = d.DecodeAll(data, nil); err != nil {
			tb.Fatal(err)
		}
	}
	return data
}

// load makes the tokenizer of a file of the test data.
func load(tb testing.TB, name string) *tokenizer.Tokenizer {
	tb.Helper()
	f, err := gguf.Parse(read(tb, name))
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	t, err := tokenizer.New(f)
	if err != nil {
		tb.Fatalf("%s: %v", name, err)
	}
	return t
}

const casesDir = "tokenizers/cases/ggml-vocab-"

// vocabularies are those with cases, and the files that hold them.
var vocabularies = map[string]string{
	"llama-spm":        "llama-spm.gguf",
	"phi-3":            "phi-3.gguf",
	"llama-bpe":        "llama-bpe.gguf.zst",
	"qwen2":            "qwen2.gguf.zst",
	"deepseek-r1-qwen": "qwen2.gguf.zst",
	"gpt-2":            "gpt-2.gguf",
	"deepseek-llm":     "deepseek-llm.gguf",
	"deepseek-coder":   "deepseek-coder.gguf",
	"bert-bge":         "bert-bge.gguf",
	"nomic-bert-moe":   "nomic-bert-moe.gguf.zst",
	"gemma-4":          "gemma-4.gguf.zst",
}

// All cases of the test data are taken.
func TestEveryCase(t *testing.T) {
	paths, err := filepath.Glob(testdata.Path(t, "tokenizers/cases") + "/*.inp")
	if err != nil || len(paths) != len(vocabularies) {
		t.Errorf("%d cases, of which %d are taken: %v", len(paths), len(vocabularies), err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "ggml-vocab-"), ".gguf.inp")
		if vocabularies[name] == "" {
			t.Errorf("%s is not taken", name)
		}
	}
}

// texts returns the inputs of a case.
func texts(tb testing.TB, name string) []string {
	tb.Helper()
	const end = "\n__ggml_vocab_test__\n"
	return strings.Split(strings.TrimSuffix(string(read(tb, casesDir+name+".gguf.inp")), end), end)
}

// TestCases compares with the ids that the models' own tokenizers gave.
func TestCases(t *testing.T) {
	dir, err := os.ReadDir(testdata.Path(t, "tokenizers/cases"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range dir {
		name, ok := strings.CutSuffix(strings.TrimPrefix(e.Name(), "ggml-vocab-"), ".gguf.out")
		if !ok {
			continue
		}
		t.Run(name, func(t *testing.T) {
			file, ok := vocabularies[name]
			if !ok {
				t.Fatal("no vocabulary for this case")
			}
			tok := load(t, casesDir+file)
			inputs := texts(t, name)
			outputs := strings.Split(strings.TrimSuffix(string(read(t, casesDir+name+".gguf.out")), "\n"), "\n")
			if n := len(inputs); len(outputs) == n+1 && outputs[n] == "" {
				outputs = outputs[:n] // of the nothing after the last text
			}
			if len(inputs) != len(outputs) || len(inputs) < 40 {
				t.Fatalf("%d texts, %d outputs", len(inputs), len(outputs))
			}
			for i, text := range inputs {
				var want []int32
				for _, field := range strings.Fields(outputs[i]) {
					id, err := strconv.ParseInt(field, 10, 32)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, int32(id))
				}
				got := tok.Encode(text, tokenizer.Options{NoSpecial: true})
				if !slices.Equal(got, want) {
					t.Errorf("%q\n got %v\nwant %v", text, got, want)
				}
			}
		})
	}
}

// TestReferencePrompts compares with ids from an independent tokenizer, and
// the texts of what real models generated.
func TestReferencePrompts(t *testing.T) {
	var models map[string][]struct {
		Prompt    string
		PromptIDs []int32 `json:"prompt_ids"`
		GreedyIDs []int32 `json:"greedy_ids"`
		Text      string
	}
	if err := json.Unmarshal(read(t, "models/reference_numpy.json"), &models); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for name, runs := range models {
		tok := load(t, "models/"+name)
		bos, ok := tok.BOS()
		if !ok || !tok.AddBOS() {
			t.Fatalf("%s: no BOS", name)
		}
		for _, run := range runs {
			want := run.PromptIDs
			if run.Prompt == "" {
				// The reference puts a space before nothing, too. The cases
				// of the real tokenizers do not.
				want = []int32{bos}
			}
			if got := tok.Encode(run.Prompt, tokenizer.Options{}); !slices.Equal(got, want) {
				t.Errorf("%s: %q: got %v, want %v", name, run.Prompt, got, want)
			}
			s := tok.NewStream()
			var streamed strings.Builder
			for _, id := range run.GreedyIDs {
				streamed.WriteString(s.Write(id))
			}
			streamed.WriteString(s.Flush())
			if streamed.String() != run.Text {
				t.Errorf("%s: %q: streamed %q, want %q", name, run.Prompt, streamed.String(), run.Text)
			}
			compared++
		}
	}
	if compared < 10 {
		t.Errorf("only %d runs compared", compared)
	}
}

// normalizing are the vocabularies that change a text before they spell it.
var normalizing = []string{"bert-bge", "nomic-bert-moe"}

// randomTexts are texts of what pre-tokenizers and merges treat apart: runs of spaces, digits, marks, scripts
// without spaces, characters of 1 to 4 bytes, half of one, and characters of any number. (U+2581 is not among
// them: it is how SentencePiece spells a space.)
func randomTexts(n int) []string {
	parts := []string{
		" ", "  ", "\t", "\n", "\r\n", "\u00a0", "\u3000", "a", "Th", "'s", "'LL", "0", "12", "3456", ".", "...", "_", "<", "|>", "[",
		"\u00e9", "e\u0301", "\u0301", "\u00df", "\u0130", "\u043f\u0440", "\u05e9", "\u0639", "\u0939\u093f", "\u0e01\u0e33", "\u4f60\u597d", "\u3053", "\uac00", "\u1100\u1161",
		"\U0001f468\u200d\U0001f469", "\U0001f3fd", "\ufe0f", "\ufffd", "\ufeff", "\x00", "\x7f", "\u0085", "\xc3", "\xf0\x9f",
	}
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, n)
	for i := range texts {
		var b strings.Builder
		for range r.IntN(24) {
			if r.IntN(8) == 0 {
				b.WriteRune(rune(r.IntN(unicode.MaxRune + 1)))
			} else {
				b.WriteString(parts[r.IntN(len(parts))])
			}
		}
		texts[i] = norm.NFC.String(b.String()) // Qwen's composes
	}
	return texts
}

// TestRoundTrip decodes what it encoded, for each vocabulary that can spell
// every text.
func TestRoundTrip(t *testing.T) {
	wiki := string(read(t, "corpus/wiki.test.raw.zst"))[:100_000]
	for name, file := range vocabularies {
		if slices.Contains(normalizing, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			tok := load(t, casesDir+file)
			inputs := append(texts(t, name), wiki, "\u00e9\u00e8 \u0410\u0411 \U0001f999", "trailing  ", "\t\t", "a\x00b")
			inputs = append(inputs, randomTexts(200)...)
			for _, text := range inputs {
				ids := tok.Encode(text, tokenizer.Options{})
				for _, id := range ids {
					if id < 0 || int(id) >= tok.Len() {
						t.Fatalf("%.40q: id %d", text, id)
					}
				}
				if got := tok.Detokenize(ids, false); got != text {
					t.Errorf("got %.80q, want %.80q", got, text)
				}
				if !utf8.ValidString(text) { // clients get U+FFFD for what is no character
					continue
				}
				s := tok.NewStream()
				var streamed strings.Builder
				for _, id := range ids {
					streamed.WriteString(s.Write(id))
				}
				streamed.WriteString(s.Flush())
				if got := streamed.String(); got != text && got != " "+text {
					t.Errorf("streamed %.80q, want %.80q", got, text)
				}
			}
		})
	}
}

// TestQwenComposes encodes the same text, composed and not, as the models' own tokenizers do, and llama.cpp does not.
func TestQwenComposes(t *testing.T) {
	f, err := gguf.Parse(read(t, casesDir+"qwen2.gguf.zst"))
	if err != nil {
		t.Fatal(err)
	}
	for _, pre := range []string{"qwen2", "qwen35"} {
		if err := f.Set("tokenizer.ggml.pre", pre); err != nil {
			t.Fatal(err)
		}
		tok, err := tokenizer.New(f)
		if err != nil {
			t.Fatal(err)
		}
		for apart, composed := range map[string]string{
			"Vie\u0323\u0302t e\u0301": "Việt é", "\u1112\u1161\u11ab": "한", "3 k\u2126 \u212a": "3 kΩ K", "か\u3099": "が",
			"\u0928\u093c": "\u0929", "हि\u0928\u094d\u0926ी": "हिन्दी", "☺\ufe0f 1\u20e3": "☺️ 1⃣", // the last two have no shorter spelling
		} {
			got, want := tok.Encode(apart, tokenizer.Options{}), tok.Encode(composed, tokenizer.Options{})
			if !slices.Equal(got, want) {
				t.Errorf("%s: %q is %v, and %q %v", pre, apart, got, composed, want)
			}
		}
	}
	tok := load(t, casesDir+"gpt-2.gguf")
	if text := "e\u0301"; tok.Detokenize(tok.Encode(text, tokenizer.Options{}), false) != text {
		t.Error("gpt-2 must not compose")
	}
}

// TestRealSpecials checks control tokens and the ends of generation of real
// vocabularies.
func TestRealSpecials(t *testing.T) {
	parse := tokenizer.Options{NoSpecial: true, ParseSpecial: true}
	plain := tokenizer.Options{NoSpecial: true}
	for _, c := range []struct {
		file string
		text string
		want []int32 // with ParseSpecial
		eog  []int32
		bos  int32 // or -1 where none is added
	}{
		{"llama-bpe.gguf.zst", "<|eot_id|>a", []int32{128009, 64}, []int32{128001, 128009}, 128000},
		{"qwen2.gguf.zst", "<|im_start|>a<|im_end|>\n", []int32{151644, 64, 151645, 198}, []int32{151643, 151645, 151662, 151663, 151664}, -1},
		{"llama-spm.gguf", "<s>a</s> a", []int32{1, 263, 2, 29871, 263}, []int32{2}, 1},
		// Phi-3's tokens swallow the space after them.
		{"phi-3.gguf", "<|user|>\na<|end|>\n<|assistant|>", []int32{32010, 263, 32007, 32001}, []int32{2, 32000, 32007}, 1},
		// A call of a tool ends where its result begins; "</s>" is text.
		{
			"gemma-4.gguf.zst", "<|turn>user\na</s><turn|>\n<|channel>", []int32{105, 2364, 107, 236746, 954, 236751, 236813, 106, 107, 100},
			[]int32{1, 50, 106}, 2,
		},
		{"gpt-2.gguf", "a<|endoftext|>", []int32{64, 50256}, []int32{50256}, -1},
	} {
		tok := load(t, casesDir+c.file)
		if got := tok.Encode(c.text, parse); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q: got %v, want %v", c.file, c.text, got, c.want)
		}
		for _, id := range tok.Encode(c.text, plain) {
			if tok.TokenType(id) == tokenizer.Control {
				t.Errorf("%s: %q became %d in plain text", c.file, tok.Token(id), id)
			}
		}
		if got := tok.EOG(); !slices.Equal(got, c.eog) {
			t.Errorf("%s: EOG: got %v, want %v", c.file, got, c.eog)
		}
		want := []int32{}
		if c.bos >= 0 {
			want = append(want, c.bos)
		}
		if got := tok.Encode("", tokenizer.Options{}); !slices.Equal(got, want) {
			t.Errorf("%s: empty text: got %v, want %v", c.file, got, want)
		}
	}
}

// TestLoadTime holds New to a bound that a server restart does not feel.
func TestLoadTime(t *testing.T) {
	f, err := gguf.Parse(read(t, casesDir+"llama-bpe.gguf.zst"))
	if err != nil {
		t.Fatal(err)
	}
	best := time.Hour
	for range 3 {
		best = min(best, cputime.Of(func() {
			if _, err := tokenizer.New(f); err != nil {
				t.Fatal(err)
			}
		}))
	}
	t.Logf("128256 tokens, 280147 merges: %v", best)
	// Loose for instrumented builds, such as under the race detector.
	if best > 3*time.Second {
		t.Errorf("took %v", best)
	}
}

// TestEncodeIsNotQuadratic encodes texts that are one long word.
func TestEncodeIsNotQuadratic(t *testing.T) {
	files := []string{
		casesDir + "llama-bpe.gguf.zst", casesDir + "llama-spm.gguf", casesDir + "gemma-4.gguf.zst", casesDir + "bert-bge.gguf",
		casesDir + "nomic-bert-moe.gguf.zst", "models/TinyStories-656K-f32.gguf", "models/BabyLlama105-f32.gguf",
	}
	for _, file := range files {
		tok := load(t, file)
		for _, unit := range []string{"a", " ", "字", "<", "\xff", "\n", "> "} {
			text := strings.Repeat(unit, 300_000/len(unit))
			n := 0
			took := cputime.Of(func() { n = len(tok.Encode(text, tokenizer.Options{ParseSpecial: true})) })
			t.Logf("%s: %q: %d tokens in %v", file, unit, n, took)
			if took > 20*time.Second {
				t.Errorf("%s: %q took %v", file, unit, took)
			}
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	wiki := string(read(b, "corpus/wiki.test.raw.zst"))[:1_000_000]
	for _, file := range []string{"llama-spm.gguf", "llama-bpe.gguf.zst", "qwen2.gguf.zst", "gpt-2.gguf", "deepseek-llm.gguf", "gemma-4.gguf.zst"} {
		tok := load(b, casesDir+file)
		b.Run(strings.Split(file, ".")[0], func(b *testing.B) {
			b.SetBytes(int64(len(wiki)))
			for b.Loop() {
				tok.Encode(wiki, tokenizer.Options{})
			}
		})
	}
	stories := string(read(b, "corpus/tinystories_clean656.txt"))
	tok := load(b, "models/TinyStories-656K-f32.gguf")
	b.Run("tinystories-whole", func(b *testing.B) {
		b.SetBytes(int64(len(stories)))
		for b.Loop() {
			tok.Encode(stories, tokenizer.Options{})
		}
	})
}

func BenchmarkNew(b *testing.B) {
	f, err := gguf.Parse(read(b, casesDir+"llama-bpe.gguf.zst"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := tokenizer.New(f); err != nil {
			b.Fatal(err)
		}
	}
}
