package constrain

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// vocabulary has the given tokens after an end, one that prints nothing and, if
// wanted, all bytes.
func vocabulary(bytes bool, words ...string) (*Vocabulary, []string) {
	pieces := []string{"", ""}
	if bytes {
		for b := range 256 {
			pieces = append(pieces, string([]byte{byte(b)}))
		}
	}
	pieces = append(pieces, words...)
	return NewVocabulary(len(pieces), func(id int32) []byte { return []byte(pieces[id]) }, []int32{0}), pieces
}

// next returns what may come next, as texts; the end is "$".
func next(c Constraint, pieces []string) []string {
	s := NewSet(len(pieces))
	c.Mask(s)
	out := []string{}
	for id, p := range pieces {
		if s.Has(int32(id)) {
			if id == 0 {
				p = "$"
			}
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

func id(pieces []string, text string) int32 {
	if text == "$" {
		return 0
	}
	return int32(slices.Index(pieces, text))
}

// choice holds a text to one of several.
func choice(v *Vocabulary, texts []string, ends bool) (Constraint, error) {
	var alt grammar.Alt
	for _, text := range texts {
		alt = append(alt, grammar.Lit(text))
	}
	a, err := v.Compile(&grammar.Grammar{Rules: []grammar.Rule{{Name: "root", Expr: alt}}})
	if err != nil {
		return nil, err
	}
	return a.New(ends), nil
}

func TestChoice(t *testing.T) {
	v, pieces := vocabulary(true, "ye", "yes", "no", "not", " yes", "es", "yesterday", "a", "a")
	c, err := choice(v, []string{"yes", "no", "no", "nothing"}, true)
	if err != nil {
		t.Fatal(err)
	}
	step := func(token string, want ...string) {
		t.Helper()
		if !c.Accept(id(pieces, token)) {
			t.Fatalf("%q is refused", token)
		}
		if got := next(c, pieces); !slices.Equal(got, want) {
			t.Errorf("after %q may come %q, want %q", token, got, want)
		}
	}
	if got, want := next(c, pieces), []string{"n", "no", "not", "y", "ye", "yes"}; !slices.Equal(got, want) {
		t.Errorf("first may come %q, want %q", got, want)
	}
	for _, bad := range []string{"$", "x", " yes", "yesterday"} {
		if c.Accept(id(pieces, bad)) {
			t.Errorf("%q is taken", bad)
		}
	}
	if c.Accept(1) {
		t.Error("a token that prints nothing is taken")
	}
	step("n", "o")
	fork := c.Fork()
	step("o", "$", "t")
	step("t", "h")
	c.Rollback(2)
	step("o", "$", "t")
	step("$")
	c.Rollback(3)
	step("ye", "s")
	step("s", "$")
	if got := next(fork, pieces); !slices.Equal(got, []string{"o"}) {
		t.Errorf("the fork goes on with %q", got)
	}
	fork.Rollback(1)
	if !fork.Accept(id(pieces, "yes")) {
		t.Error("the fork has not what came before")
	}

	// Two tokens that print the same are two ways; without ends it is complete.
	c, err = choice(v, []string{"a"}, false)
	if err != nil {
		t.Fatal(err)
	}
	if got := next(c, pieces); len(got) != 3 {
		t.Errorf("%d tokens for a", len(got))
	}
	step("a")
}

// However tokens are chosen among those that may come, the text is a choice; what
// may come is what is taken; and what is rolled back never was.
func TestChoiceProperty(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	word := func() string {
		b := make([]byte, 1+rng.IntN(6))
		for i := range b {
			b[i] = "ab\xc3\xa9"[rng.IntN(4)]
		}
		return string(b)
	}
	walks := 0
	for range 300 {
		var words, texts []string
		for range 1 + rng.IntN(12) {
			words = append(words, word())
		}
		for range 1 + rng.IntN(8) {
			texts = append(texts, word()+word())
		}
		v, pieces := vocabulary(rng.IntN(2) == 0, words...)
		whole, err := choice(v, texts, true)
		if err != nil {
			continue
		}
		for range 20 {
			c, text := whole.Fork(), ""
			for {
				may := NewSet(len(pieces))
				c.Mask(may)
				var ids []int32
				for i := range int32(len(pieces)) {
					if may.Has(i) {
						ids = append(ids, i)
					}
					took := c.Accept(i)
					if took != may.Has(i) {
						t.Fatalf("%q after %q: may come is %v, is taken is %v", pieces[i], text, may.Has(i), took)
					}
					if took {
						c.Rollback(1)
					}
				}
				if len(ids) == 0 {
					t.Fatalf("nothing may come after %q, choices %q", text, texts)
				}
				one := ids[rng.IntN(len(ids))]
				c.Accept(one)
				if one == 0 {
					break
				}
				text += pieces[one]
			}
			if !slices.Contains(texts, text) {
				t.Fatalf("%q is none of %q", text, texts)
			}
			walks++
		}
	}
	if walks < 1000 {
		t.Errorf("only %d texts", walks)
	}
}

func TestSet(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 200} {
		s, logits := NewSet(n), make([]float32, n)
		if !s.Empty() {
			t.Error("a new set has ids")
		}
		for i := range n {
			if i%3 == 0 {
				s.Add(int32(i))
			}
		}
		s.Ban(logits, -1)
		for i, l := range logits {
			if (l == 0) != (i%3 == 0) || s.Has(int32(i)) != (i%3 == 0) {
				t.Error(fmt.Sprint(n, i, l))
			}
		}
	}
}
