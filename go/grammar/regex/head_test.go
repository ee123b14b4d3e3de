package regex

import (
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

// What comes before the first group of a match, or before the match.
func TestBefore(t *testing.T) {
	for _, c := range []struct {
		pattern, text    string
		somewhere, whole bool
	}{
		{`a(b)`, "a", true, true}, {`a(b)`, "xa", true, false}, {`a(b)`, "ab", false, false},
		{`ab`, "", true, true}, {`ab`, "x", true, false},
		{`^a(b)`, "xa", false, false}, {`(?:a(b))c`, "a", true, true}, {`(?:a|b)(?<n>c)`, "b", true, true},
		{`[(]\((b)`, "((", true, true}, {`x?(b+)+`, "", false, false},
	} {
		for _, whole := range []bool{false, true} {
			want := c.somewhere && !whole || c.whole && whole
			e, err := Before(c.pattern, whole)
			if c.pattern == `x?(b+)+` {
				if err == nil {
					t.Errorf("%s: no error for a repeated group", c.pattern)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", c.pattern, err)
			} else if got := grammar.Match(nil, e, c.text, nil); got != want {
				t.Errorf("%s, %q, whole %v: %v", c.pattern, c.text, whole, got)
			}
		}
	}
	for _, pattern := range []string{`a|(b)`, `(a)?b`, `(?:(a)|b)c`, `(?=(a))b`, `(`} {
		if _, err := Before(pattern, false); err == nil {
			t.Errorf("%s: no error", pattern)
		}
	}
}
