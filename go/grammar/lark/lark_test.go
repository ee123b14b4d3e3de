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
		{"start[capture]: \"a\" b\nb[capture=\"x\"]: \"b\"\n", []string{"ab"}, []string{"a"}},
		{"start: g \"!\"\ng[lazy]: /.*<end>/", []string{"<end>!", "foo<end>!", "<<end>!"}, []string{"foo<end>bar<end>!", "foo!", "foo<end>"}},
		{"start: g \"!\"?\ng[capture, suffix=\"<end>\", stop_capture=\"s\"]: /.*/", []string{"foo<end>", "<end>!"}, []string{"foo", "foo<end>bar<end>"}},
		{"start: g /!*/\ng[suffix=END]: /[a-z]+/\nEND: \".\" | \",\"", []string{"ab.", "ab,!!"}, []string{"ab", ".", "ab.,"}},
		{"start: g \"<end>\" g \"<end>\"\ng[stop=\"<end>\"]: /.*/", []string{"a<end>b<end>", "<end><end>"}, []string{"a<end>", "a<end>b", "a<end>b<end>c<end>"}},
		{"start: g \"aa\" \"!\"\ng[stop=\"aa\", max_tokens=9]: /[xa]*/", []string{"aa!", "xaa!", "xaxaa!"}, []string{"xaaa!", "aaa!", "xaaxaa!"}},
		{"start: g \"b\"\ng[max_tokens=9, suffix=\">\"]: /.*/", []string{"x>b"}, []string{"x>y>b"}},
		{"start: a \"b\"\n | g\na: \"x\"\ng[stop=\"\", capture]: /(?s:.*)/", []string{"xb", "", "any\ntext"}, nil},
		{"start: f*\nf[lazy]: /[0-9]+/", []string{"", "1", "12"}, []string{"a"}},
		{"start: g \"b\"\ng[lazy]: /a+/\n%ignore \" \"", []string{"a b", " a  b "}, []string{"aab", "a a b"}},
		{`start: "<" %regex {"substring_chunks":["abc","de","fg"]} ">"`, []string{"<>", "<abc>", "<de>", "<abcde>", "<defg>", "<abcdefg>"}, []string{"<ab>", "<cde>", "<abcfg>"}},
		{`start: W "!"
W: %regex {"substring_words": "foo bar. baz"}`, []string{"!", "foo!", "bar. !", "foo bar. baz!", ". baz!"}, []string{"oo!", "foobar!", "ba!", "foo baz!"}},
		{`start: %regex {"substring_chars": "banana é"}`, []string{"", "anana", "nan", "na é", "é"}, []string{"bnn", "aa", "ananan"}},
	} {
		g, err := Parse(c.text, nil, nil)
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
	g, err := Parse(`start: "a" <|end|>`, token, nil)
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
		`start: "b".."a"`: "no range", `start: "a"x`: "flag x", `start: /a/x`: "flag x", `start: /(/`: ") is missing", "start: $": "not part of Lark", `start: %regex {}`: "%regex has {}", `start: %regex {"type":"number"}`: "want one of substring_chunks", `start: %regex {"substring_words":[1]}`: "want a string", `start: %regex [`: "%regex: it ends",
		`start: %regex {"substring_chars":"` + strings.Repeat("a", 30_000) + `"}`: "at most 20000",
		`start: "\q"`: "no string", "A[capture]: \"a\"": "the terminal A has attributes", "start[made_up]: \"a\"": "the attribute made_up of start", "start[capture: \"a\"": "] is missing", "start[]: \"a\"": "] where an attribute",
		"start: g \"b\"\ng[max_tokens=0]: /.*/": "0 where the max_tokens of g is an integer", "start[max_tokens=\"x\"]: /.*/": "where the max_tokens of start", "start[temperature=0.7]: /.*/": "temperature of the rule start", "start[suffix=3]: /.*/": "3 where the suffix",
		"start: g \"b\"\ng[stop=\"x\"]: /.*/": `stop of the rule g is not supported where "x" does not follow it`, "start[stop=\"x\"]: /.*/": "or the request's stop", "start: (g | \"x\") \"x\"\ng[stop=/x+/]: /.*/": "where its stop does not",
		"start: g \"b\"\ng[stop=\"\"]: /.*/": "something follows it", "start: a*\na: g\ng[stop=\"\"]: /.*/": "something follows it", "start: g\ng[lazy]: b\nb: \"x\"": "has the rule b", "start@x: \"a\"": "references", strings.Repeat("(", 10): "where a definition", "start: " + strings.Repeat("(", 1000): "nest", "start: < a": "> is missing",
		"start: " + strings.Repeat("~", 1000): "nest more than 200", `start: "a"` + strings.Repeat("?", 200): "more than 100 quantifiers", chain(5000): "nest more than 10000",
		"start: (a & b)\na: \"a\"\nb: \"b\"": "has the rule a", `%llguidance {"x":1}`: "options",
	} {
		_, err := Parse(text, nil, nil)
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
	f.Add("start: g \"x\" h\ng[stop=\"x\", capture]: /.*/\nh[lazy, suffix=/b+/]: A\nA: %regex {\"substring_words\": \"a b a\"}")
	f.Add("%llguidance {}\n?start.1: <|x|> -> y\n | \"\\u0041\"{2,}")
	f.Fuzz(func(t *testing.T, text string) { _, _ = Parse(text, nil, nil) })
}
