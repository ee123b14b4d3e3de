package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/dlclark/regexp2"

	"github.com/quern-llm/quern/go/internal/cputime"
)

// splitPublished cuts text by the regular expressions themselves.
func splitPublished(tb testing.TB, patterns []string, text string) []string {
	tb.Helper()
	pieces := [][]rune{[]rune(text)}
	for _, pattern := range patterns {
		re := regexp2.MustCompile(pattern, regexp2.None)
		var next [][]rune
		for _, piece := range pieces {
			done := 0
			m, err := re.FindRunesMatch(piece)
			for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
				if done < m.Index {
					next = append(next, piece[done:m.Index])
				}
				done = m.Index + m.Length
				next = append(next, piece[m.Index:done])
			}
			if err != nil {
				tb.Fatal(err)
			}
			if done < len(piece) {
				next = append(next, piece[done:])
			}
		}
		pieces = next
	}
	words := make([]string, len(pieces))
	for i, p := range pieces {
		words[i] = string(p)
	}
	return words
}

func (p *preTokenizer) words(text string) []string {
	words := []string{}
	p.split(text, func(w string) bool { words = append(words, w); return true })
	return words
}

// TestWordsEqualPublished compares every finder with the regular expression
// that it stands for, on texts made of what the expressions tell apart.
func TestWordsEqualPublished(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	alphabet := []string{
		" ", " ", " ", "\n", "\r", "\t", "\u00a0", "\u3000", "\u2028", "\u0085",
		"a", "s", "re", "ll", "T", "VE", "IMG", "A", "sentinel:", "Z", "é", "É", "ß", "ǅ", "ʰ", "ª", "ก", "字", "あ", "가", "Ж", "ж", "Ա", "ա", "ა", "\u1f7d", "\u2126",
		"\u0301", "\u0300", "\u094d", "1", "2", "34", "567", "٣", "½", "Ⅷ",
		"'", "'", "’", ".", ",", "/", "!", "$", "+", "~", "^", "`", "<|", "-", "_", "～", "。", "、", "？", "⺀", "〇", "々", "🦙", "\u200d", "\U0001e900", "\U00010400", "\x00", "\x7f",
	}
	for _, p := range preTokenizers {
		patterns, ok := published[p.name]
		if !ok {
			t.Errorf("%s: no published pattern to compare with", p.name)
			continue
		}
		for range 1500 {
			var b strings.Builder
			for range rng.IntN(12) {
				b.WriteString(alphabet[rng.IntN(len(alphabet))])
			}
			got, want := p.words(b.String()), splitPublished(t, patterns, b.String())
			if !slices.Equal(got, want) {
				t.Fatalf("%s: %q\n got %q\nwant %q", p.name, b.String(), got, want)
			}
		}
	}
}

// TestClasses compares what finders take for a character of their class with the published class, for every character
// of the planes that any reaches.
func TestClasses(t *testing.T) {
	for name, c := range map[string]struct {
		find    func(string, int) int
		pattern string
	}{
		"casedLetters":    {casedLetters, strings.TrimPrefix(published["deepseek-llm"][1], `\s?`)},
		"asciiLike":       {asciiLike, strings.TrimPrefix(published["deepseek-llm"][2], `\s?`)},
		"eastAsian":       {eastAsian, published["deepseek-llm"][4]},
		"chineseJapanese": {chineseJapanese, published["deepseek-v3"][1]},
		"eastAsianRuns":   {eastAsianRuns, published["youtu"][0]},
		"asianRuns":       {asianRuns, published["afmoe"][1]},
		"signs":           {signs, published["default"][0]},
		"signsOrBacktick": {signsOrBacktick, published["falcon"][0]},
		"oneSign":         {oneSign, published["chameleon"][4]},
		"bloomWords":      {bloomWords, published["bloom"][0]},
		"tabOrSpaces":     {tabOrSpaces, published["chameleon"][2]},
		"threeDigits":     {threeDigits, published["falcon"][2]},
	} {
		re := regexp2.MustCompile(c.pattern, regexp2.None)
		for r := rune(0); r < 0x20000; r++ {
			if !utf8.ValidRune(r) {
				continue
			}
			want, err := re.MatchRunes([]rune{r})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.find(string(r), 0) > 0; got != want {
				t.Errorf("%s: %U: got %v, want %v", name, r, got, want)
			}
		}
	}
}

func TestWords(t *testing.T) {
	for _, c := range []struct{ pre, text, want string }{
		{"llama-bpe", "I'LL pay $12345.67!\n\n  ok", "I|'LL| pay| $|123|45|.|67|!\n\n| | ok"},
		{"llama-bpe", "x\n \n  y", "x|\n \n| | y"},
		{"qwen2", "in 2024, it's", "in| |2|0|2|4|,| it|'s"},
		{"qwen35", "हिन्दी 12, e\u0301!\u0301", "हिन्दी| |1|2|,| e\u0301|!\u0301"},
		{"qwen35", "it'S I'LLx 'ſo !'\u0301s", "it|'S| I|'LL|x| '|ſo| !'|\u0301s"},
		{"qwen35", "☺\ufe0f\ufe0f 1\u20e3\u00a0\u0301a\u2028\u3000 ก่า", "☺\ufe0f\ufe0f| |1|\u20e3|\u00a0\u0301a|\u2028\u3000| ก่า"},
		{"gpt-2", "It's 2024,  he'LL", "It|'s| 2024|,| | he|'|LL"},
		{"gpt-2", "tabs\t\tend\n", "tabs|\t|\t|end|\n"},
		// Each digit stands alone, and takes no space with it.
		{"smollm", "x = 3141 apples", "x| =| |3|1|4|1| apples"},
		{"smollm", "10\n\n20", "1|0|\n\n|2|0"},
		// Words end where small letters give way to capitals.
		{"tekken", "camelCase HTTPServer", "camel|Case| HTTPServer"},
		{"tekken", "HTTPServerERROR x", "HTTPServer|ERROR| x"},
		{"tekken", "don't 42", "don|'t| |4|2"},
		{"gpt-4o", "don't I'LL 12345 camelCase", "don't| I'LL| |123|45| camel|Case"},
		{"glm4", "don't 12345", "don|'t| |123|45"},
		{"hunyuan", "don't 123\n\n x", "don|'t| |1|2|3|\n\n| x"},
		{"tekken", "a/b //\n/ c", "a|/b| //\n/| c"},
		{"tekken", "日本語テキスト ÉCOLE école", "日本語テキスト| ÉCOLE| école"},
		// The signs of the third step include ASCII letters, and so cut words.
		{"deepseek-llm", "Grüße, 123 世界\n", "Gr|üß|e|,| |123| |世界|\n"},
		{"deepseek-coder", "f(x) = 12\n", "f|(|x|)| = |1|2|\n"},
		{"default", "a+b 1234", "a|+|b| |123|4"},
		{"deepseek-v3", "f(x) = 1234 世界 don't a_b\n\n x", "f|(x|)| =| |123|4| |世界| don|'t| a|_b|\n\n| x"},
		{"falcon", "`x` = 12345 a+b", "`|x|`| |=| |123|45| a|+|b"},
		{"seed-coder", "f();\n12", "f|();|\n|1|2"},
		{"exaone-moe", "two words, 12\n\nx", "two words|,| |1|2|\n\n|x"},
		{"viking", "Hei, 12 (a)", "Hei|,| |1|2| (|a|)"},
		{"superbpe", "By the way, 1234567 12345x 12½345678 don't", "By the way, |1|234|567| |12|345|x |12½|345|678| don't"},
		{"tiny_aya", "1234567 12345x 12", "1|234|567| |123|45|x| |12"},
		{"youtu", "한국어 12, don't", "한국어| |1|2|,| don't"},
		{"minicpm5", "12345 don't", "123|45| don|'t"},
		{"afmoe", "1234567 12345x 世界a_b\n\n x", "1|234|567| |12|345|x| |世界|a|_b|\n\n| x"},
		{"spark2_5", "f(x) = 1234\n\n x", "f|(x|)| =| |1|2|3|4|\n|\n| x"},
		{"jais-2", "a" + strings.Repeat(" ", 8) + "b  c \n  d" + strings.Repeat(" ", 1200), "a|    |  | | b| | c| \n| | d|" + strings.Repeat(" ", 512) + "|" + strings.Repeat(" ", 512) + "|" + strings.Repeat(" ", 128) + "|" + strings.Repeat(" ", 32) + "|" + strings.Repeat(" ", 16)},
		{"chameleon", "IMGIMGAAIIZIMGIMGZIMGIMGJZ", "IMGIMGAAIIZ|IMGIMGZIMGIMGJZ"},
		{"chameleon", "<sentinel:12>IMGIMGABZ a     b.., 12", "<|sentinel|:|1|2|>|IMGIMGABZ| a|    | b|.|.|,| |1|2"},
		{"kimi-k2", "I'LL说 camelCase,世界 1234 don't", "I'LL|说| camel|Case|,|世界| |123|4| don't"},
	} {
		p := newPreTokenizer(&reader{m: fields{prefix + "pre": c.pre}})
		if got := strings.Join(p.words(c.text), "|"); got != c.want {
			t.Errorf("%s: %q\n got %q\nwant %q", c.pre, c.text, got, c.want)
		}
	}
}

// TestSplitIsLinear cuts long texts that make regular expressions backtrack.
// The limit is far above what linear work takes and far below quadratic work.
func TestSplitIsLinear(t *testing.T) {
	const n = 50_000
	for _, p := range preTokenizers {
		for _, unit := range []string{" ", "a", "A", "Aª", "\u0301", "A\u0301", "\n ", "\r\n", "1", "'", "字", " 字", "\t", "$", "/", "\xff", "\u3000"} {
			for _, tail := range []string{"", "x", "字", "\n", "1"} {
				text := strings.Repeat(unit, n) + tail
				size := 0
				if took := cputime.Of(func() { p.split(text, func(w string) bool { size += len(w); return true }) }); took > 5*time.Second {
					t.Errorf("%s: %d times %q and %q took %v", p.name, n, unit, tail, took)
				}
				if size != len(text) {
					t.Fatalf("%s: %q: words have %d of %d bytes", p.name, unit, size, len(text))
				}
			}
		}
	}
}

func TestPreTokenizerNames(t *testing.T) {
	for name, want := range map[string]string{
		"": "default", "llama-v3": "llama-bpe", "deepseek-r1-qwen": "qwen2", "phi-2": "gpt-2",
	} {
		m := fields{}
		if name != "" {
			m[prefix+"pre"] = name
		}
		r := &reader{m: m}
		if p := newPreTokenizer(r); r.err != nil || p.name != want {
			t.Errorf("%q: got %q, %v; want %q", name, p.name, r.err, want)
		}
	}
	seen := map[string]bool{}
	for _, p := range preTokenizers {
		for _, name := range append([]string{p.name}, p.aliases...) {
			if seen[name] {
				t.Errorf("%q is listed twice", name)
			}
			seen[name] = true
		}
	}
	r := &reader{m: fields{prefix + "pre": "klingon"}}
	newPreTokenizer(r)
	for _, word := range append(names(), "klingon", prefix+"pre") {
		if !strings.Contains(fmt.Sprint(r.err), word) {
			t.Errorf("error %q does not name %q", r.err, word)
		}
	}
}

func names() (names []string) {
	for _, p := range preTokenizers {
		names = append(names, p.name)
	}
	return names
}

// fields is metadata made by a test.
type fields map[string]any

func (f fields) Value(key string) (any, bool) { v, ok := f[key]; return v, ok }

// Expressions that tokenizer.json spells otherwise are found: of GPT-4, whose tokenizers are many, and of nanochat.
func TestSpellings(t *testing.T) {
	t.Parallel()
	for digits, want := range map[string]string{"1,2": "nanochat", "1,3": "llama-bpe"} {
		pattern := `'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{` + digits +
			`}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`
		if name, ok := PreTokenizerOf([]string{pattern}, true, false); !ok || name != want {
			t.Errorf("numbers of %s digits: %q, want %q", digits, name, want)
		}
	}
}
