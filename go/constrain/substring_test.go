package constrain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/grammar/lark"
	"github.com/quern-llm/quern/go/tokenizer"
)

// An answer may be held to what a long text says word for word.
func TestSubstringsOfALongText(t *testing.T) {
	tok, v := load(t, "llama-bpe.gguf.zst")
	var words []string
	for i := range 6000 {
		words = append(words, []string{"the", "house", "of", "light", fmt.Sprint("word", i*i%997), "and", "a"}[i%7])
	}
	whole := strings.Join(words, " ")
	quoted, err := json.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	g, err := lark.Parse(`start: "say: " %regex {"substring_words": `+string(quoted)+`}`, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	begun := cpuTime()
	a := constrain.CompileAnew(t, v, g)
	if took := cpuTime() - begun; took > 10*time.Second {
		t.Errorf("compiled in %v", took)
	}
	next := constrain.NewSet(tok.Len())
	for text, want := range map[string]bool{
		"say: " + strings.Join(words[2000:2040], " "): true,
		"say: the house of darkness":                  false,
	} {
		c := a.New(true)
		ok := true
		for _, id := range tok.Encode(text, tokenizer.Options{NoSpecial: true}) {
			clear(next)
			c.Mask(next)
			if ok = next.Has(id) && c.Accept(id); !ok {
				break
			}
		}
		if ok != want {
			t.Errorf("%q is allowed: %v, want %v; %v", text, ok, want, c.(constrain.Failer).Err())
		}
	}
	t.Logf("%v in all", cpuTime()-begun)
}
