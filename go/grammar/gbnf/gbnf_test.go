package gbnf

import (
	"reflect"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/grammar"
)

func tokens(name string) (int32, bool) {
	id, ok := map[string]int32{"<think>": 7, "</think>": 8}[name]
	return id, ok
}

func TestParse(t *testing.T) {
	type (
		r   = grammar.Range
		rep = grammar.Repeat
	)
	a, b := grammar.Lit("a"), grammar.Lit("b")
	for _, tt := range []struct {
		text string
		want grammar.Expr
	}{
		{`root ::= "a"`, a},
		{`root ::= "a" "b" # both`, grammar.Seq{a, b}},
		{"\n# first\n root::=\"a\"|\"b\"\n\n", grammar.Alt{a, b}},
		{"root ::= \"a\" |\n  # or\n  \"b\"", grammar.Alt{a, b}},
		{"root ::= \"a\"\n  | \"b\"\r\n", grammar.Alt{a, b}},
		{"root ::= (\n \"a\"\n \"b\" # c\n)", grammar.Seq{a, b}},
		{`root ::= | "a"`, grammar.Alt{grammar.Seq{}, a}},
		{`root ::= ""`, grammar.Lit("")},
		{`root ::= "\x41\u00e9\U0001F600\t\r\n\\\"\[\]é"`, grammar.Lit("Aé😀\t\r\n\\\"[]é")},
		{`root ::= [a-z_] [^"\\] [-+] [a-] []`, grammar.Seq{
			grammar.Class{r{Lo: '_', Hi: '_'}, r{Lo: 'a', Hi: 'z'}}, grammar.Runes("\"\\").Negate(), grammar.Runes("+-"), grammar.Runes("-a"), grammar.Class(nil),
		}},
		{`root ::= .`, grammar.Any},
		{`root ::= "a"* "a"+ "a"? "a"{3} "a"{3,} "a"{3,5} "a" { 0 , 5 }`, grammar.Seq{
			rep{Expr: a, Max: -1}, rep{Expr: a, Min: 1, Max: -1}, rep{Expr: a, Max: 1}, rep{Expr: a, Min: 3, Max: 3}, rep{Expr: a, Min: 3, Max: -1},
			rep{Expr: a, Min: 3, Max: 5}, rep{Expr: a, Max: 5},
		}},
		{`root ::= "a"?+`, rep{Expr: rep{Expr: a, Max: 1}, Min: 1, Max: -1}},
		{`root ::= <think> !</think>* <[12]> !<[13]>`, grammar.Seq{
			grammar.Token{IDs: []int32{7}}, rep{Expr: grammar.Token{IDs: []int32{8}, Not: true}, Max: -1}, grammar.Token{IDs: []int32{12}}, grammar.Token{IDs: []int32{13}, Not: true},
		}},
		{"x ::= \"b\"\nroot ::= a-rule_1 x\na-rule_1 ::= root", grammar.Seq{grammar.Ref(2), grammar.Ref(1)}},
		{"root ::= \"b\"\nroot ::= \"a\"", a},
	} {
		g, err := Parse(tt.text, tokens, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.text, err)
		} else if got := g.Rules[0].Expr; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s:\n got %#v\nwant %#v", tt.text, got, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                                     "line 1, column 1: the grammar has no rule named root",
		"x ::= \"a\"\n":                        "line 2, column 1: the grammar has no rule named root",
		"root ::= \"a\" nö":                    "line 1, column 15: 'ö', want the end of the line",
		"root ::= \"é\" none":                  `line 1, column 14: rule "none" is not defined`,
		"root = x":                             "line 1, column 6: '=', want ::=",
		"root ::= \"a\"\n::= x":                "line 2, column 1: ':', want the name of a rule",
		"root ::= \"a":                         `line 1, column 12: the grammar ends, want a closing "`,
		"root ::= [a":                          "line 1, column 12: the grammar ends, want a closing ]",
		"root ::= [a-":                         "line 1, column 13: the grammar ends, want the end of a range",
		"root ::= [z-a]":                       "line 1, column 11: the range 'z' to 'a' is reversed",
		"root ::= (\"a\"":                      `line 1, column 14: the grammar ends, want ")"`,
		"root ::= \"a\")":                      "line 1, column 13: ')', want the end of the line",
		"root ::= *":                           "line 1, column 10: '*', want the end of the line",
		`root ::= "\q"`:                        "line 1, column 11: an unknown escape",
		`root ::= "\x4"`:                       "line 1, column 11: an escape without its 2 hexadecimal digits",
		`root ::= "\U00110000"`:                "line 1, column 11: U+110000 is no code point",
		`root ::= "\uD800"`:                    "line 1, column 11: U+D800 is no code point",
		"root ::= \"\xff\"":                    "line 1, column 11: the byte 0xFF is not UTF-8",
		`root ::= "a"{3,2}`:                    "line 1, column 17: {3,2} has a bound below the least",
		`root ::= "a"{,2}`:                     "line 1, column 14: ',', want a number",
		`root ::= "a"{2`:                       `line 1, column 15: the grammar ends, want "}"`,
		`root ::= "a"{99999999999999999999}`:   "line 1, column 14: a number beyond 1073741824",
		"root ::= <nope>":                      `line 1, column 10: the model has no token "<nope>"`,
		"root ::= <think":                      "line 1, column 10: a token without a closing >",
		"root ::= <[x]>":                       "line 1, column 12: 'x', want a number",
		"root ::= !x":                          "line 1, column 11: 'x', want a token",
		"root ::= " + strings.Repeat("(", 501): "line 1, column 511: parentheses nest deeper than 500",
		`root ::= "a"` + strings.Repeat("*", 200): "line 1, column 114: more than 100 quantifiers one after another",
		strings.Repeat("#", MaxBytes+1):           "the grammar has 4194305 bytes, want at most 4194304",
	} {
		if _, err := Parse(text, tokens, nil); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.40q: %v, want %s", text, err, want)
		}
	}
}

// A grammar is read or refused with a line; what is read has no rule without an expression.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`root ::= "a"{1,3} | [^a-z]* (x . <think>)` + "\nx ::= !<[3]>", "root ::= (\n\"\\u00e9\" |\n)+ # c", `a ::= "`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		g, err := Parse(text, tokens, nil)
		if err != nil {
			if strings.ContainsAny(err.Error(), "\r\n") {
				t.Errorf("the error has several lines: %q", err)
			}
			return
		}
		for _, r := range g.Rules {
			if r.Expr == nil {
				t.Errorf("rule %q has no expression", r.Name)
			}
		}
	})
}
