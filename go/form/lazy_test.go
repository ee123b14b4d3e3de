package form_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A form that begins with a trigger has any text before it, and holds from there on. A trigger is a word, a token by what it
// prints or by its name, or a pattern, of the end of the text or of all of it.
func TestTriggers(t *testing.T) {
	tok := small(t)
	v := form.Vocabulary(tok)
	prints := tok.Encode("b", tokenizer.Options{NoSpecial: true, Continues: true})[0]
	for _, tt := range []struct {
		name, grammar string
		triggers      []form.Trigger
		preserved     []int32
		yes, no       []string
	}{
		{"a word", `root ::= "<n>" [0-9]`, []form.Trigger{{Kind: form.WordTrigger, Text: "<n>"}}, nil,
			[]string{"", "free <n", "x <n>1", "<n>1", "{1}x{1}{1}<n>1", "{1}"}, []string{"<n>", "<n>x", "x<n>1y", "<n>1{1}", "<n>x<n>1"}},
		{"two words", `root ::= ("<n>" | "<m>") [0-9]`, []form.Trigger{{Kind: form.WordTrigger, Text: "<n>"}, {Kind: form.WordTrigger, Text: "<m>"}}, nil,
			[]string{"x <n>1", "<<m>2", ""}, []string{"<m>x<n>1", "<n>"}},
		{"a token that prints", `root ::= "b" [0-9]`, []form.Trigger{{Kind: form.TokenTrigger, Token: prints}}, nil, []string{"a b1", "a", "{1}b1"}, []string{"ab", "b1b"}},
		{"a control token", `root ::= "<s>" [0-9]`, []form.Trigger{{Kind: form.TokenTrigger, Token: 1}}, nil, []string{"", "a", "a{1}1", "{1}2", "<s>x"}, []string{"{1}", "{1}x", "a{1}1b", "{1}1{1}1"}},
		{"its name", `root ::= "<s>" [0-9]`, []form.Trigger{{Kind: form.WordTrigger, Text: "<s>"}}, nil, []string{"a", "a{1}1", "<s>x"}, []string{"{1}", "{1}x", "a{1}1b"}},
		{"a preserved token", `root ::= "<n>" ("<s>" | "x") [0-9]`, []form.Trigger{{Kind: form.WordTrigger, Text: "<n>"}}, []int32{1}, []string{"{1}<n>{1}1", "<n><s>1", "<n>x1"}, []string{"<n>{1}", "<n>1"}},
		{"a token that is not preserved", `root ::= "<n>" ("<s>" | "x") [0-9]`, []form.Trigger{{Kind: form.WordTrigger, Text: "<n>"}}, nil, []string{"<n><s>1"}, []string{"<n>{1}1"}},
		{"preserved in parts", `root ::= "<n>" ("a<s>b<s>"){2} x?` + "\n" + `x ::= "<s>"`, []form.Trigger{{Kind: form.WordTrigger, Text: "<n>"}}, []int32{1}, []string{"<n>a{1}b{1}a<s>b{1}{1}", "<n>a<s>b<s>a{1}b{1}"}, []string{"<n>a{1}b{1}", "<n>ab{1}ab{1}"}},
		{"a pattern", `root ::= "{" [a-z] "}"`, []form.Trigger{{Kind: form.PatternTrigger, Text: "\\{[a-z]"}}, nil, []string{"", "{2 {", "x{a}"}, []string{"{a", "{ab"}},
		{"its group", `root ::= "{" [a-z] "}"`, []form.Trigger{{Kind: form.PatternTrigger, Text: "go (\\{)"}}, nil, []string{"{1", "go {a}"}, []string{"go {", "go {1"}},
		{"all of the text", `root ::= "{" [a-z] "}"`, []form.Trigger{{Kind: form.FullTrigger, Text: "go (\\{)"}}, nil, []string{"x go {1", "go {a}"}, []string{"go {1"}},
		{"in its own case", `root ::= "{" [a-z] "}"`, []form.Trigger{{Kind: form.FullTrigger, Text: "go (\\{)"}}, nil, []string{"GO {1", "go {a}"}, []string{"go {1"}},
		{"what has it within", `root ::= "{x go {"`, []form.Trigger{{Kind: form.PatternTrigger, Text: "go (\\{)"}}, nil, []string{"", "{x go", "go {x go {"}, []string{"go {", "{x go {"}},
		{"all but one that prints nothing", `root ::= "<unk>" [0-9]`, []form.Trigger{{Kind: form.TokenTrigger, Token: 0}}, nil, []string{"", "{1}", "a{1}b{1}", "{0}1", "a{1}{0}1"}, []string{"{0}", "{0}x", "{0}1{1}"}},
		{"all that print nothing", `root ::= ("<unk>" | "<s>") [0-9]`, []form.Trigger{{Kind: form.TokenTrigger, Token: 0}, {Kind: form.TokenTrigger, Token: 1}}, nil, []string{"", "a", "{1}1", "b{0}2"}, []string{"{1}", "{0}x"}},
		{"no token", `root ::= "<n>" [0-9]`, []form.Trigger{{Kind: form.WordTrigger, Text: "<n>"}}, []int32{-1, 512}, []string{"{0}<n>1"}, []string{"<n>{0}1", "<n>{1}1"}},
		{"a token or a word", `root ::= ("<s>" | "<n>") [0-9]`, []form.Trigger{{Kind: form.TokenTrigger, Token: 1}, {Kind: form.WordTrigger, Text: "<n>"}}, nil, []string{"x{1}1", "<n>1", "y"}, []string{"<n>x{1}1", "{1}x<n>1"}},
	} {
		f := &form.Form{Kind: form.Grammar, Text: tt.grammar, Triggers: tt.triggers, Preserved: tt.preserved}
		a, err := f.Compile(t.Context(), tok, v, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		takesAll(t, tok, a, tt.name, tt.yes, tt.no)
	}
}

// A trigger that is none says which it is, and that the form is not to blame.
func TestTriggersRefused(t *testing.T) {
	tok := small(t)
	v := form.Vocabulary(tok)
	n := int32(tok.Len())
	for _, tt := range []struct {
		trigger form.Trigger
		want    string
	}{
		{form.Trigger{Kind: form.TokenTrigger, Token: 0}, ""}, {form.Trigger{Kind: form.TokenTrigger, Token: n - 1}, ""},
		{form.Trigger{Kind: form.TokenTrigger, Token: n}, "element 1: token: 512, want one of the vocabulary of 512"},
		{form.Trigger{Kind: form.TokenTrigger, Token: -1}, "element 1: token: -1, want one of the vocabulary of 512"},
		{form.Trigger{Kind: form.PatternTrigger, Text: "("}, "element 1: "}, {form.Trigger{Kind: form.FullTrigger, Text: "("}, "element 1: "},
		{form.Trigger{Kind: form.PatternTrigger, Text: "(a)*"}, "element 1: the first capturing group"}, {form.Trigger{Kind: form.FullTrigger, Text: "(a)|b"}, "element 1: the first capturing group"},
		{form.Trigger{Kind: form.PatternTrigger, Text: "a"}, ""}, {form.Trigger{Kind: form.WordTrigger, Text: "("}, ""},
	} {
		f := &form.Form{Kind: form.Grammar, Text: `root ::= "a"`, Triggers: []form.Trigger{{Kind: form.WordTrigger, Text: "a"}, tt.trigger}}
		_, err := f.Compile(t.Context(), tok, v, nil, nil)
		var wrong *form.TriggerError
		if (err == nil) != (tt.want == "") || err != nil && (!errors.As(err, &wrong) || !strings.HasPrefix(err.Error(), tt.want)) {
			t.Errorf("%+v: %v, want %q", tt.trigger, err, tt.want)
		}
	}
}

// What a text is held to, in each way to say it, by its first error where that is wrong.
func TestForms(t *testing.T) {
	tok := small(t)
	v := form.Vocabulary(tok)
	for _, tt := range []struct {
		form    form.Form
		yes, no []string
		want    string
	}{
		{form.Form{Kind: form.Choice, Choices: []string{"a", "bc", ""}}, []string{"a", "bc", ""}, []string{"b", "abc", "x"}, ""},
		{form.Form{Kind: form.Regex, Text: "a.b"}, []string{"axb", "a\nb"}, []string{"ab", "axbx"}, ""},
		{form.Form{Kind: form.Regex, Text: "("}, nil, nil, ") is missing"},
		{form.Form{Kind: form.Grammar, Text: "root ::= \"a\""}, []string{"a"}, []string{"b", ""}, ""},
		{form.Form{Kind: form.Grammar, Text: "start: \"a\" B\nB: /[0-9]/"}, []string{"a1"}, []string{"a", "ab"}, ""},
		{form.Form{Kind: form.Grammar, Text: "root ::= <s> \"a\""}, []string{"{1}a"}, []string{"a", "<s>a"}, ""},
		{form.Form{Kind: form.Grammar, Text: "start: ("}, nil, nil, ") is missing"},
		{form.Form{Kind: form.Schema, Text: `{"type":"array","items":{"const":1}}`, Space: "_?"}, []string{"[1,_1]", "[1,1]"}, []string{"[1, 1]", "[1,__1]"}, ""},
		{form.Form{Kind: form.Schema, Text: `{"type":"array","items":{"const":1}}`, Compact: true}, []string{"[1, 1]"}, []string{"[1,\n 1]"}, ""},
		{form.Form{Kind: form.Schema, Text: `{"type":"array","items":{"const":1}}`}, []string{"[1, 1]", "[1,\n 1]"}, []string{"[1 1]"}, ""},
		{form.Form{Kind: form.Schema, Text: `{"type":"array","items":{"const":1}}`, Space: "x?"}, []string{"[1,x1]"}, []string{"[1,X1]"}, ""},
		{form.Form{Kind: form.Schema, Text: `{}`, Space: "("}, nil, nil, "the pattern of white space: "},
		{form.Form{Kind: form.Tags, Text: `{"structures":[{"begin":"<a>","schema":{"const":1},"end":"!"}],"triggers":["<"]}`}, []string{"", "x<a>1!y"}, []string{"<", "<a>2!"}, ""},
	} {
		a, err := tt.form.Compile(t.Context(), tok, v, nil, nil)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.form, err, tt.want)
		}
		if err != nil {
			continue
		}
		takesAll(t, tok, a, tt.form, tt.yes, tt.no)
	}
	for syntax, want := range map[string]string{"lark": "", "regex": "", "gbnf": `the syntax "gbnf", want lark or regex`} {
		g, err := form.Input(t.Context(), syntax, map[string]string{"lark": `start: "a"`, "regex": "a"}[syntax])
		if (err == nil) != (want == "") || err != nil && err.Error() != want || err == nil && !grammar.Match(g, g.Rules[0].Expr, "a", nil) {
			t.Errorf("%s: %v, %v", syntax, g, err)
		}
	}
}

// The bounds of structural tags are the last that is taken.
func TestBoundsOfTags(t *testing.T) {
	tok := small(t)
	v := form.Vocabulary(tok)
	const any = `{"type":"any_text"}`
	stars := func(n int) string {
		return strings.Repeat(`{"type":"star","content":`, n) + any + strings.Repeat("}", n)
	}
	sequences := func(n int) string {
		return strings.Repeat(`{"type":"sequence","elements":[`, n) + any + strings.Repeat("]}", n)
	}
	nested := func(n int) string { // a list of tags is a level, and a tag another
		return strings.Repeat(`{"type":"tags_with_separator","separator":",","stop_after_first":true,"at_least_one":true,"tags":[{"begin":"a","end":"b","content":`, n) + any + strings.Repeat("}]}", n)
	}
	dispatched := func(n int) string {
		return strings.Repeat(`{"type":"dispatch","loop":false,"rules":[["a",`, n) + any + strings.Repeat("]]}", n)
	}
	alternatives := func(n int) string {
		return `{"type":"or","elements":[` + strings.Repeat(`{"type":"const_string","value":"a"},`, n-1) + any + `]}`
	}
	for _, tt := range []struct{ format, want string }{
		{stars(64), ""}, {stars(65), "64 within each other"}, {sequences(64), ""}, {sequences(65), "64 within each other"}, {dispatched(64), ""}, {dispatched(65), "64 within each other"}, {nested(32), ""}, {nested(33), "64 within each other"}, {alternatives(1<<14 - 1), ""}, {alternatives(1 << 14), "more than 16384 formats"},
		{`{"type":"any_text","max_chars":0}`, ""}, {`{"type":"any_text","max_chars":65536}`, ""}, {`{"type":"any_text","max_chars":65537}`, "max_chars: 65537, want 0 to 65536"},
		{`{"type":"any_text","max_chars":-1}`, "max_chars: -1, want"},
		{`{"type":"any_tokens","max_tokens":0}`, ""}, {`{"type":"any_tokens","max_tokens":65536}`, ""}, {`{"type":"any_tokens","max_tokens":65537}`, "max_tokens: 65537, want 0 to 65536"},
		{`{"type":"any_tokens","max_tokens":-1}`, "max_tokens: -1, want"},
		{`{"type":"repeat","min":0,"max":0,"content":` + any + `}`, ""}, {`{"type":"repeat","min":65536,"max":65536,"content":{"type":"const_string","value":"a"}}`, ""},
		{`{"type":"repeat","min":0,"max":65537,"content":` + any + `}`, "want min and max"}, {`{"type":"repeat","min":65537,"max":-1,"content":` + any + `}`, "want min and max"},
		{`{"type":"repeat","min":-1,"max":1,"content":` + any + `}`, "want min and max"}, {`{"type":"repeat","min":1,"max":-2,"content":` + any + `}`, "want min and max"},
		{`{"type":"repeat","max":1,"content":` + any + `}`, "want min and max"}, {`{"type":"repeat","min":1,"content":` + any + `}`, "want min and max"},
		{`{"type":"repeat","min":2,"max":2,"content":` + any + `}`, ""}, {`{"type":"repeat","min":2,"max":1,"content":` + any + `}`, "want min and max"},
		{`{"type":"token","token":0}`, ""}, {`{"type":"token","token":511}`, ""}, {`{"type":"token","token":512}`, "token: 512"}, {`{"type":"token","token":-1}`, "token: -1"},
		{`{"type":"token"}`, "token: missing"}, {`{"type":"token","token":null}`, "token: missing"}, {`{"type":"token","token":1.5}`, "token: 1.5"},
		{`{"type":"exclude_token","exclude_tokens":[1,512]}`, "exclude_tokens: element 1: 512"}, {`{"type":"any_tokens","exclude_tokens":["x y"]}`, `exclude_tokens: element 0: "x y" is no token`},
		{`{"type":"tag","begin":["a"],"content":` + any + `,"end":["x","y"]}`, ""}, {`{"type":"tag","begin":[],"content":` + any + `,"end":"x"}`, "begin: missing"},
		{`{"type":"tag","begin":[1],"content":` + any + `,"end":"x"}`, "begin: a JSON number"}, {`{"type":"tag","begin":5,"content":` + any + `,"end":"x"}`, "begin: a JSON number"},
		{`{"type":"tag","begin":"a","content":` + any + `,"end":null}`, "end: missing"}, {`{"type":"tag","begin":"a","end":"x"}`, "content: missing"},
		{`{"type":"dispatch","rules":[]}`, "rules: missing or empty"}, {`{"type":"dispatch","rules":[["",` + any + `]]}`, "rules: element 0: the pattern is no text, or empty"},
		{`{"type":"dispatch","rules":[["a",` + any + `],["b",{}]]}`, "rules: element 1: type: missing"}, {`{"type":"dispatch","rules":[["a",` + any + `,` + any + `]]}`, "rules: element 0: want a pattern and a format"},
		{`{"type":"token_dispatch","rules":[]}`, "rules: missing or empty"}, {`{"type":"token_dispatch","rules":[[512,` + any + `]]}`, "rules: element 0: 512"},
		{`{"type":"token_dispatch","exclude_tokens":[512],"rules":[[1,` + any + `]]}`, "exclude_tokens: element 0: 512"},
		{`{"type":"token_triggered_tags","trigger_tokens":[1,512],"tags":[]}`, "trigger_tokens: element 1: 512"}, {`{"type":"token_triggered_tags","trigger_tokens":[1],"tags":[{"begin":{"type":"token","token":2},"content":` + any + `,"end":"x"}]}`, "tags: element 0: begins with no trigger"},
		{`{"type":"token_triggered_tags","trigger_tokens":[0],"tags":[{"begin":"a","content":` + any + `,"end":"x"}]}`, "tags: element 0: begins with no trigger"},
		{`{"type":"token_triggered_tags","trigger_tokens":[2,1],"tags":[{"begin":{"type":"token","token":1},"content":` + any + `,"end":"x"}]}`, ""}, {`{"type":"token_triggered_tags","trigger_tokens":[1],"tags":[]}`, "tags: missing or empty"},
	} {
		_, err := (&form.Form{Kind: form.Tags, Text: `{"format":` + tt.format + `}`}).Compile(t.Context(), tok, v, nil, nil)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.100s: %v, want %q", tt.format, err, tt.want)
		}
	}
}
