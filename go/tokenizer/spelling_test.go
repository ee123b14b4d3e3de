package tokenizer_test

import (
	"os"
	"testing"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
)

// What ids say is what they were read from, at the beginning of a text and where it goes on.
func TestSpelling(t *testing.T) {
	for _, name := range []string{"stories260K", "TinyStories-656K", "BabyLlama105"} {
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
		s := tokenizer.Spelling{Tokenizer: tok}
		for _, text := range []string{"Once upon a time", " and then they went home", "home", ""} {
			for _, begins := range []bool{true, false} {
				ids := s.IDs(nil, []byte(text), begins)
				if got := string(s.Text(nil, ids, begins)); got != text {
					t.Errorf("%s: %q (begins: %v) is %v, which says %q", name, text, begins, ids, got)
				}
				if bos, ok := s.BOS(); ok && s.AddBOS() && (len(ids) > 0 && ids[0] == bos) != begins {
					t.Errorf("%s: %q (begins: %v) is %v", name, text, begins, ids)
				}
			}
		}
	}
}
