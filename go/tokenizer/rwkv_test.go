package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// rwkvFields is a small vocabulary of RWKV World: <s>, the 256 bytes from 1 on, texts from 257 on.
func rwkvFields(texts ...string) fields {
	tokens, types := []string{"<s>"}, []int32{3}
	for b := range 256 {
		text := string(rune(b))
		switch {
		case b == '\\':
			text = `\\`
		case b < ' ' || b > '~':
			text = fmt.Sprintf(`\x%02x`, b)
		}
		tokens, types = append(tokens, text), append(types, 1)
	}
	for _, text := range texts {
		tokens, types = append(tokens, text), append(types, 1)
	}
	return fields{
		prefix + "model": "rwkv", prefix + "tokens": append(tokens, "[PAD]"), prefix + "token_type": append(types, 5),
		prefix + "bos_token_id": uint32(0), prefix + "eos_token_id": uint32(0),
	}
}

func TestRWKV(t *testing.T) {
	f := rwkvFields("th", "then", " the", "  ", `\xe5\xad`, `\xe5\xad\x97`, `\n\n`, `it\'s`, `\t"`)
	tok := mustNew(t, f)
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"the then", "th|e| the|n"}, // the longest from the left, not the fewest
		{"then", "then"},
		{"字\xe5\xad.", "字|\xe5\xad|."}, // bytes, not characters
		{"it's\n\n\n", "it's|\n\n|\n"},
		{"\t\"\t'\\n", "\t\"|\t|'|\\|n"},
		{"<s>[PAD]", "<|s|>|[|P|A|D|]"}, // text is no control token
	} {
		ids := tok.Encode(c.text, Options{})
		var texts []string
		for _, id := range ids {
			texts = append(texts, string(tok.Piece(id, false)))
		}
		if got := strings.Join(texts, "|"); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
		if got := tok.Detokenize(ids, false); got != c.text {
			t.Errorf("%q: detokenized to %q", c.text, got)
		}
	}
	if got := tok.Encode("<s>a", Options{ParseSpecial: true}); !slices.Equal(got, []int32{0, 'a' + 1}) {
		t.Errorf("special: %v", got)
	}
	for _, c := range []struct{ token, want string }{
		{`a\`, `tokens[257]: it ends in \`},
		{`\x4`, "tokens[257]"},
		{`\xzz`, `\xzz is no byte`},
		{`\q`, `\q is no escape`},
		{`\x41`, `tokens has "A" twice, as 66 and 257`},
		{strings.Repeat("a", maxPrefix+1), "1025 bytes"},
	} {
		if _, err := New(rwkvFields(c.token)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%.20s: %v, want %s", c.token, err, c.want)
		}
	}
}
