package lark

import (
	"fmt"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

func TestParse(t *testing.T) {
	for _, c := range []struct {
		text    string
		yes, no []string
	}{
		{`start: "a" "b"`, []string{"ab"}, []string{"a", "a b"}},
		{"start: a | b // comment\na: \"x\"+\n\n# another\n?b.2: \"y\"~2..3 -> ys\n | \"z\"\n", []string{"x", "xxx", "yy", "yyy", "z"}, []string{"", "y", "yyyy", "xz"}},
		{`start: ("a" | "b"i)* ["c"] "d"?`, []string{"", "aBb", "c", "ad", "cd"}, []string{"A", "cc"}},
		{`start: "a".."f" /[0-9]+/ /x/i`, []string{"a12x", "f0X"}, []string{"g1x", "ax"}},
		{"start: NAME \"=\" NUMBER\n%import common.CNAME -> NAME\n%import common (NUMBER, WS)\n%ignore WS", []string{"a=1", " a = 1.5 \n", "_x9=\t2e3"}, []string{"a a=1", "a=1 1", "1=1"}},
		{"start: expr\nexpr: term ((\"+\"|\"-\") term)*\nterm: NUM | \"(\" expr \")\"\nNUM: /[0-9]+/\n%ignore \" \"", []string{"1", "1 + (2-3)", "((1))"}, []string{"1 2", "1+", "(1"}},
		{"start: WORD\nWORD: /[a-z]+/ & ~(\"if\" | \"else\")", []string{"iff", "x"}, []string{"if", "else", ""}},
		{"start: A{2} B{1,} C{0,1}\nA: \"a\"\nB: \"b\"\nC: \"c\"", []string{"aab", "aabbc"}, []string{"ab", "aa", "aabcc"}},
		{"%llguidance {}\nstart: \"<call>\" %json {\n \"type\": \"object\", \"properties\": {\"a\": {\"type\": \"integer\"}},\n \"required\": [\"a\"]} \"</call>\"", []string{`<call>{"a": 1}</call>`}, []string{`<call>{}</call>`}},
		{"root: \"\\x41\\u0042\\n\\\"\\\\\"", []string{"AB\n\"\\"}, nil},
		{"start: (\"a\"\n  | \"b\"\n  )\n  | \"c\"", []string{"a", "b", "c"}, nil},
		{"start: S\nS: D+ \".\" D+\nD: \"0\"..\"9\"\n%ignore /\\s+/", []string{"1.5", " 12.25 "}, []string{"1 .5"}},
		{"start: ESCAPED_STRING C_COMMENT?\n%import common.ESCAPED_STRING\n%import common.C_COMMENT", []string{`"a\"b"`, `""/* ** */`}, []string{`"a`, `""/* */ */`}},
		{"start: \"a\" start \"b\" |", []string{"", "ab", "aabb"}, []string{"a", "ba"}},
	} {
		g, err := Parse(c.text, nil)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		for _, text := range c.yes {
			if !grammar.Match(g, grammar.Ref(0), text, nil) {
				t.Errorf("%s\nrefuses %q", c.text, text)
			}
		}
		for _, text := range c.no {
			if grammar.Match(g, grammar.Ref(0), text, nil) {
				t.Errorf("%s\naccepts %q", c.text, text)
			}
		}
	}
}

func TestTokens(t *testing.T) {
	token := func(name string) (int32, bool) { return 7, name == "<|end|>" }
	g, err := Parse(`start: "a" <|end|>`, token)
	if err != nil {
		t.Fatal(err)
	}
	seq, ok := g.Rules[1].Expr.(grammar.Seq)
	if tok, is := seq[1].(grammar.Token); !ok || !is || len(tok.IDs) != 1 || tok.IDs[0] != 7 || tok.Not {
		t.Errorf("the rule is %#v", g.Rules[1].Expr)
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		`x: "a"`: "no rule named start", `start: nope`: "nope is not defined, at line 1", "start: A\nA: A \"a\"": "A refers to itself", "start: A\nA: b\nb: \"x\"": "has the rule b",
		`start: "a`: `" is missing`, `start: /a`: "/ is missing", `start: ("a"`: ") is missing", `start: "a")`: ") where a definition begins", `start: "a"~3..1`: "out of order",
		"start: \"a\"\nstart: \"b\"": "defined twice", `start{x}: "a"`: "templates", `%declare A`: "%declare is not supported", `%import python.NAME`: "%import python", `%import common.NOPE`: "common has no NOPE",
		`start: <|x|>`: "no token <|x|>", "start: A\nA: <|x|>": "within a terminal", `start: %json {"type":"kaboom"}`: "#/type", `start: %json {`: "%json: it ends in the middle",
		`start: "b".."a"`: "no range", `start: "a"x`: "flag x", `start: /a/x`: "flag x", `start: /(/`: ") is missing", "start: $": "not part of Lark", `start: %regex {}`: "%regex is not supported",
		`start: "\q"`: "no string", "start[capture]: \"a\"": "attributes", strings.Repeat("(", 10): "where a definition", "start: " + strings.Repeat("(", 1000): "nest", "start: < a": "> is missing",
		"start: " + strings.Repeat("~", 1000): "nest more than 200", `start: "a"` + strings.Repeat("?", 200): "more than 100 quantifiers", chain(5000): "nest more than 10000",
		"start: (a & b)\na: \"a\"\nb: \"b\"": "has the rule a", `%llguidance {"x":1}`: "options",
	} {
		_, err := Parse(text, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: %v, want %s", text, err, want)
		}
	}
}

// chain is n rules of which each names the next.
func chain(n int) string {
	var b strings.Builder
	b.WriteString("start: r0\n")
	for i := range n {
		fmt.Fprintf(&b, "r%d: r%d\n", i, i+1)
	}
	return b.String()
}

func FuzzParse(f *testing.F) {
	f.Add("start: a* (\"x\"i | /y+/)~1..3 [A & ~B]\na: %json {\"enum\":[1]}\nA: \"a\"..\"z\"\nB: \"b\"\n%ignore \" \"\n%import common (WS, INT)")
	f.Add("%llguidance {}\n?start.1: <|x|> -> y\n | \"\\u0041\"{2,}")
	f.Fuzz(func(t *testing.T, text string) { _, _ = Parse(text, nil) })
}
