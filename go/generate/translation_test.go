package generate

import (
	"bytes"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
)

// spelling returns the vocabulary of a model.
func spelling(t *testing.T, name string) tokenizer.Spelling {
	t.Helper()
	raw, err := os.ReadFile(testdata.Path(t, "models/"+name+"-f16.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	return tokenizer.Spelling{Tokenizer: tok}
}

// A growing text is the same in both vocabularies, however it is split; final tokens do not change.
func TestTranslation(t *testing.T) {
	var all []Vocabulary
	for _, name := range []string{"stories260K", "TinyStories-656K", "BabyLlama105"} {
		all = append(all, spelling(t, name))
	}
	text := strings.Repeat("Once upon a time there was a little girl named Lily. She loved to play, and her mom said yes! ", 4) + strings.Repeat("hahahaha", 100)
	for i, mine := range all {
		for k, theirs := range all {
			for _, fixed := range []bool{false, true} {
				rng := rand.New(rand.NewPCG(uint64(i), uint64(k)))
				ids := mine.IDs(nil, []byte(text), true)
				w := NewTranslation(mine, theirs, fixed)
				longest := 0
				for n := 0; n < len(ids); {
					n = min(n+1+rng.IntN(9), len(ids))
					settled := slices.Clone(w.ids[:w.settled])
					w.read(ids[:n])
					if !slices.Equal(w.ids[:len(settled)], settled) {
						t.Fatalf("%d in %d: settled tokens were taken back", i, k)
					}
					if got, want := theirs.Text(nil, w.ids, true), mine.Text(nil, ids[:n], true); !bytes.Equal(got, want) {
						t.Fatalf("%d in %d, fixed: %v: after %d tokens %q, want %q", i, k, fixed, n, got, want)
					}
					longest = max(longest, len(w.tail))
				}
				if longest > 2*longestTail {
					t.Errorf("%d in %d: %d bytes are read again and again", i, k, longest)
				}
				// Drafts of the other model are converted to the model's own vocabulary.
				var found []draft.Guess
				var probs []float32
				for _, id := range theirs.IDs(nil, []byte(" and she was happy"), false) {
					found, probs = append(found, draft.Guess{ID: id}), append(probs, 0.9)
				}
				got, chances := w.write(found, probs)
				if want := mine.IDs(nil, []byte(" and she was happy"), false); !slices.Equal(got, want) || len(chances) != len(got) {
					t.Errorf("%d in %d: guesses %v, want %v", i, k, got, want)
				}
				product := float32(1)
				for _, p := range chances {
					if p <= 0 || p > 1 {
						t.Errorf("%d in %d: a chance of %v", i, k, p)
					}
					product *= p
				}
				if want := lastPart * power(0.9, len(found)); product < want*0.99 || product > want*1.01 {
					t.Errorf("%d in %d: all guesses are right with %v, want %v", i, k, product, want)
				}
				w.read(ids[:3]) // the text was cut, or is another
				if got, want := theirs.Text(nil, w.ids, true), mine.Text(nil, ids[:3], true); !bytes.Equal(got, want) {
					t.Errorf("%d in %d: then %q, want %q", i, k, got, want)
				}
			}
		}
	}
}

func power(p float32, n int) float32 {
	all := float32(1)
	for range n {
		all *= p
	}
	return all
}

// A character of several tokens is converted when it is complete, and drafts continue in the middle of it.
func TestTranslationOfHalfACharacter(t *testing.T) {
	tok := spelling(t, "stories260K")
	ids := tok.IDs(nil, []byte("a \u00e9\u4e16"), true) // bytes, in so small a vocabulary
	w := NewTranslation(tok, tok, false)
	for n := 1; n <= len(ids); n++ {
		w.read(ids[:n])
		says := tok.Text(nil, ids[:n], true)
		if got := tok.Text(nil, w.ids, true); !bytes.Equal(got, says[:len(says)-cutOff(says)]) {
			t.Errorf("after %q it is %q", says, got)
		}
		rest := tok.IDs(nil, w.tail[len(w.tail)-w.unread:], false)
		var found []draft.Guess
		for _, id := range slices.Concat(rest, ids[n:]) {
			found = append(found, draft.Guess{ID: id})
		}
		if got, _ := w.write(found, make([]float32, len(found))); n < len(ids) && !slices.Equal(got, ids[n:]) {
			t.Errorf("after %q come %v, want %v", says, got, ids[n:])
		}
		if w.unread > 0 {
			if got, _ := w.write([]draft.Guess{{ID: ids[1]}}, []float32{1}); len(got) > 0 {
				t.Errorf("after %q comes %v, which is no part of that character", says, got)
			}
		}
	}
}

// What is missing at the end of a text is the longest part of a character that is not all of it, by all characters.
func TestCutOff(t *testing.T) {
	part := map[string]bool{}
	for r := range rune(utf8.MaxRune + 1) {
		if utf8.ValidRune(r) {
			s := string(r)
			for n := 1; n < len(s); n++ {
				part[s[:n]] = true
			}
		}
	}
	bytes := []byte{'a', 0x7f, 0x80, 0xa9, 0xbf, 0xc3, 0xe0, 0xe4, 0xf0, 0xf4, 0xff}
	texts := []string{""}
	for range 4 {
		for _, s := range texts {
			for _, b := range bytes {
				texts = append(texts, s+string([]byte{b}))
			}
		}
		slices.Sort(texts)
		texts = slices.Compact(texts)
	}
	for _, s := range texts {
		want := 0
		for n := 1; n < 4 && n <= len(s); n++ {
			if part[s[len(s)-n:]] {
				want = n
			}
		}
		if got := cutOff([]byte(s)); got != want {
			t.Fatalf("%q: %d bytes are an incomplete character, want %d", s, got, want)
		}
	}
}

// A spoken vocabulary says of some tokens another text than that of which they are: of the letter x only "?", of z much
// more, and of y and of the end nothing. At the beginning of a text, a blank before it is part of its first token, and not said.
type spoken struct{ letters }

const ending = 1000

func (s spoken) Text(dst []byte, ids []int32, begins bool) []byte {
	for i, id := range ids {
		switch {
		case id == 'x'-'a':
			dst = append(dst, '?')
		case id == 'z'-'a':
			dst = append(dst, strings.Repeat("zed", 100)...)
		case id == 'y'-'a', id == ending, begins && i == 0 && id == alphabet-1:
		default:
			dst = s.letters.Text(dst, ids[i:i+1], false)
		}
	}
	return dst
}

func (s spoken) IDs(dst []int32, text []byte, begins bool) []int32 {
	if begins {
		text = slices.Concat([]byte(" "), text)
	}
	return s.letters.IDs(dst, text, false)
}

// Words of a vocabulary that says texts otherwise at their beginning are converted once as well, from the first on, and
// the text is begun once; where its tokens say something else, all of them are final.
func TestSettledWordsOfASpokenVocabulary(t *testing.T) {
	mine := letters{}
	for _, c := range []struct{ parts, tails []string }{
		{[]string{"a", "b", " c", "d ef", " ", "g"}, []string{"a", "ab", " c", " ef", " ", " g"}},
		{[]string{"a b", "c d"}, []string{" b", " d"}},
		{[]string{"ax", "b", " cx"}, []string{"", "b", ""}},
		{[]string{"ab", " z", "c"}, []string{"ab", "", "c"}},
	} {
		w := NewTranslation(mine, spoken{}, false)
		var ids, last []int32
		for i, part := range c.parts {
			ids = mine.IDs(ids, []byte(part), false)
			if w.read(ids); string(w.tail) != c.tails[i] {
				t.Errorf("%q: after %q %q is left, want %q", c.parts, part, w.tail, c.tails[i])
			}
			last = w.ids
		}
		want := spoken{}.IDs(nil, []byte(strings.Join(c.parts, "")), true)
		if !slices.Equal(last, want) {
			t.Errorf("%q: the text is %v, want %v", c.parts, last, want)
		}
	}
}

// Each token that is written has the chance of those guesses that begin before its end and were not in one before, and
// the last is less sure. Guesses end where one says nothing, and the text where its tokens would say another.
func TestChancesOfWrittenTokens(t *testing.T) {
	single, pairs := letters{}, letters{pairs: true}
	for _, c := range []struct {
		mine, theirs Vocabulary
		says         []string // of each guess
		want         string
		chances      []float32
	}{
		{single, pairs, []string{"cd", "ef"}, "cdef", []float32{0.9, 1, 0.8, 1 * lastPart}},
		{single, pairs, []string{"cd", "e", "fg"}, "cdefg", []float32{0.9, 1, 0.8, 0.7, 1 * lastPart}},
		{pairs, single, []string{"c", "d", "e", "f"}, "cdef", []float32{0.9 * 0.8, 0.7 * 0.6 * lastPart}},
		{pairs, single, []string{"c", "d", "e"}, "cde", []float32{0.9 * 0.8, 0.7 * lastPart}},
		{single, single, []string{"c"}, "c", []float32{0.9 * lastPart}},
		{single, spoken{}, []string{"c", "", "d"}, "c", []float32{0.9 * lastPart}},
		{single, single, nil, "", nil},
		{spoken{}, single, []string{"c", "d"}, "cd", []float32{0.9, 0.8 * lastPart}},
		{spoken{}, single, []string{"c", "x", "d"}, "c", []float32{0.9}},
		{spoken{}, single, []string{"c", "d", "z"}, "cd", []float32{0.9, 0.8}},
		{spoken{}, single, []string{"c", "y", "d"}, "c", []float32{0.9}},
		{spoken{}, single, []string{"c", "z", "d", "e", "f", "g"}, "c", []float32{0.9}},
	} {
		var found []draft.Guess
		for _, s := range c.says {
			id := int32(ending)
			if s != "" {
				id = c.theirs.IDs(nil, []byte(s), false)[0]
			}
			found = append(found, draft.Guess{ID: id})
		}
		probs := []float32{0.9, 0.8, 0.7, 0.6, 0.5, 0.4}[:len(found)]
		ids, chances := NewTranslation(c.mine, c.theirs, false).write(found, probs)
		same := len(chances) == len(c.chances) && len(ids) == len(chances)
		for i := range chances {
			same = same && math.Abs(float64(chances[i]-c.chances[i])) < 1e-6
		}
		if got := string(c.mine.Text(nil, ids, false)); got != c.want || !same {
			t.Errorf("%q: %q with %v, want %q with %v", c.says, got, chances, c.want, c.chances)
		}
	}
}

// octets is a vocabulary of bytes.
type octets struct{}

func (octets) Text(dst []byte, ids []int32, _ bool) []byte {
	for _, id := range ids {
		dst = append(dst, byte(id))
	}
	return dst
}

func (octets) IDs(dst []int32, text []byte, _ bool) []int32 {
	for _, b := range text {
		dst = append(dst, int32(b))
	}
	return dst
}

// What guesses have of a character that they do not complete is not written.
func TestHalfACharacterIsNotWritten(t *testing.T) {
	text := []byte("a\u4e16b")
	for n, want := range []int{0, 1, 1, 1, 4, 5} {
		var found []draft.Guess
		for _, b := range text[:n] {
			found = append(found, draft.Guess{ID: int32(b)})
		}
		ids, _ := NewTranslation(octets{}, octets{}, false).write(found, make([]float32, n))
		if len(ids) != want {
			t.Errorf("of %q %d bytes are written, want %d", text[:n], len(ids), want)
		}
	}
}

// runs is a vocabulary of runs of one letter: token k is k of them, up to eight.
type runs struct{}

func (runs) Text(dst []byte, ids []int32, _ bool) []byte {
	for _, id := range ids {
		dst = append(dst, strings.Repeat("a", int(id))...)
	}
	return dst
}

func (runs) IDs(dst []int32, text []byte, _ bool) []int32 {
	for ; len(text) > 0; text = text[min(8, len(text)):] {
		dst = append(dst, int32(min(8, len(text))))
	}
	return dst
}

// A text of fewer tokens than four contexts of the model is converted, and is lost if it is too long then as well; a
// longer one is lost at once.
func TestTextsThatAreTooLong(t *testing.T) {
	const ctx = 64
	for _, c := range []struct {
		theirs Vocabulary
		tokens int
		lost   bool
	}{
		{runs{}, 4*ctx - 1, false}, {runs{}, 4 * ctx, true}, {runs{}, 4*ctx + 1, true},
		{letters{}, ctx - draft.MaxGuesses - 1, false}, {letters{}, ctx - draft.MaxGuesses, true},
	} {
		p := proposing(t, draft.Options{Max: 6})
		p.Gen.ids = make([]int32, c.tokens)
		p.translation = NewTranslation(letters{}, c.theirs, false)
		p.Read(ctx)
		if p.Lost != c.lost || c.lost == (len(p.Known()) > 0) {
			t.Errorf("%d tokens of %T: lost %v, %d tokens are converted", c.tokens, c.theirs, p.Lost, len(p.Known()))
		}
	}
}
