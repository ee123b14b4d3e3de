package form_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/testdata"
	"github.com/quern-llm/quern/go/tokenizer"
)

// small returns a tokenizer of 512 tokens, whose control token <s> is 1.
func small(tb testing.TB) *tokenizer.Tokenizer {
	tb.Helper()
	data, err := os.ReadFile(testdata.Path(tb, "models/stories260K-f16.gguf"))
	if err != nil {
		tb.Fatal(err)
	}
	f, err := gguf.Parse(data)
	if err != nil {
		tb.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		tb.Fatal(err)
	}
	return tok
}

var silent = regexp.MustCompile(`\{[01]\}`)

// takesAll checks that an automaton takes the texts of yes and refuses those of no. Errors name what it is of.
func takesAll(t *testing.T, tok *tokenizer.Tokenizer, a *constrain.Automaton, what any, yes, no []string) {
	t.Helper()
	for _, text := range yes {
		if !takes(tok, a, text) {
			t.Errorf("%+v: refuses %q", what, text)
		}
	}
	for _, text := range no {
		if takes(tok, a, text) {
			t.Errorf("%+v: takes %q", what, text)
		}
	}
}

// takes tells whether an automaton has a text, in which {0} and {1} are the tokens 0 and 1, which print nothing.
func takes(tok *tokenizer.Tokenizer, a *constrain.Automaton, text string) bool {
	c := a.New(true)
	next := constrain.NewSet(tok.Len())
	for text != "" {
		part := text
		var ids []int32
		if at := silent.FindStringIndex(text); at == nil || at[0] > 0 {
			if at != nil {
				part = text[:at[0]]
			}
			ids = tok.Encode(part, tokenizer.Options{NoSpecial: true, Continues: true})
		} else {
			part = text[:at[1]]
			ids = []int32{int32(part[1] - '0')}
		}
		text = text[len(part):]
		for _, id := range ids {
			clear(next)
			if c.Mask(next); !next.Has(id) || !c.Accept(id) {
				return false
			}
		}
	}
	clear(next)
	c.Mask(next)
	return next.Has(tok.EOG()[0])
}

func TestTags(t *testing.T) {
	tok := small(t)
	v := form.Vocabulary(tok)
	const (
		one   = `{"begin":"<a>","content":{"type":"const_string","value":"1"},"end":"</a>"}`
		two   = `{"type":"tag","begin":"<b>","content":{"type":"json_schema","json_schema":{"type":"integer"}},"end":["</b>","."]}`
		pair  = `"tags":[` + one + `,` + two + `]`
		weird = `{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"}},"required":["city"]}`
	)
	for _, tt := range []struct {
		format  string
		yes, no []string
	}{
		{`{"type":"const_string","value":"Hi"}`, []string{"Hi"}, []string{"", "H", "Hi."}},
		{`{"type":"json_schema","json_schema":{"const":3}}`, []string{"3"}, []string{"4", ""}},
		{`{"type":"json_schema","style":"json"}`, []string{`{"a":[]}`}, []string{"x"}},
		{`{"type":"grammar","grammar":"root ::= \"a\" root?"}`, []string{"a", "aaa"}, []string{"", "b"}},
		{`{"type":"regex","pattern":"[ab]+c"}`, []string{"abc"}, []string{"abcd"}},
		{`{"type":"any_text"}`, []string{"", "all\nof it"}, nil},
		{`{"type":"any_text","excludes":["ab"],"max_chars":4}`, []string{"", "ba", "aaaa", "élan"}, []string{"xab", "aaaaa"}},
		{`{"type":"any_text","max_chars":2}`, []string{"", "éé"}, []string{"abc"}},
		{`{"type":"sequence","elements":[{"type":"const_string","value":"a"},{"type":"const_string","value":"b"}]}`, []string{"ab"}, []string{"a", "ba"}},
		{`{"type":"or","elements":[{"type":"const_string","value":"a"},{"type":"const_string","value":"b"}]}`, []string{"a", "b"}, []string{"ab", ""}},
		{`{"type":"optional","content":{"type":"const_string","value":"a"}}`, []string{"", "a"}, []string{"aa"}},
		{`{"type":"plus","content":{"type":"const_string","value":"a"}}`, []string{"a", "aa"}, []string{""}},
		{`{"type":"star","content":{"type":"const_string","value":"a"}}`, []string{"", "aa"}, []string{"b"}},
		{`{"type":"repeat","min":1,"max":2,"content":{"type":"const_string","value":"a"}}`, []string{"a", "aa"}, []string{"", "aaa"}},
		{`{"type":"repeat","min":2,"max":-1,"content":{"type":"const_string","value":"a"}}`, []string{"aa", "aaaa"}, []string{"a"}},
		{`{"type":"tag","begin":"<t>","content":{"type":"any_text"},"end":"</t>"}`, []string{"<t></t>", "<t>x < y</t>"}, []string{"<t>x", "<t>a</t>b</t>", "x"}},
		{`{"type":"tag","begin":"","content":{"type":"any_text","excluded_strs":["!"]},"end":""}`, []string{"", "yes"}, []string{"no!"}},
		{two, []string{"<b>12</b>", "<b>0."}, []string{"<b>x.", "<b>1"}},
		{`{"type":"triggered_tags","triggers":["<"],` + pair + `}`, []string{"", "free", "a <a>1</a> b <b>7.", "<b>7.<a>1</a>"}, []string{"a <c", "<a>2"}},
		{`{"type":"triggered_tags","triggers":["<"],"excludes":["no"],` + pair + `}`, []string{"n", "yes<a>1</a>"}, []string{"no", "<a>1</a>no"}},
		{`{"type":"triggered_tags","triggers":["<a","<b"],"at_least_one":true,` + pair + `}`, []string{"<a>1</a>", "<a>1</a> < <b>2."}, []string{"", "x<a>1</a>"}},
		{`{"type":"triggered_tags","triggers":["<"],"stop_after_first":true,` + pair + `}`, []string{"", "x", "x<a>1</a>"}, []string{"<a>1</a>x", "<a>1</a><a>1</a>"}},
		{`{"type":"triggered_tags","triggers":["<"],"at_least_one":true,"stop_after_first":true,` + pair + `}`, []string{"<a>1</a>"}, []string{"", "x", "<a>1</a>x"}},
		{`{"type":"tags_with_separator","separator":", ",` + pair + `}`, []string{"", "<a>1</a>", "<a>1</a>, <b>2., <a>1</a>"}, []string{"<a>1</a><a>1</a>", "x"}},
		{`{"type":"tags_with_separator","separator":"","at_least_one":true,` + pair + `}`, []string{"<a>1</a><b>2."}, []string{""}},
		{`{"type":"tags_with_separator","separator":",","stop_after_first":true,` + pair + `}`, []string{"", "<a>1</a>"}, []string{"<a>1</a>,<a>1</a>"}},
		{`{"type":"dispatch","rules":[["<f>",{"type":"const_string","value":"1"}]],"excludes":["no"]}`, []string{"", "x<f>1y<f>1"}, []string{"<f>2", "no"}},
		{`{"type":"dispatch","loop":false,"rules":[["<f>",{"type":"const_string","value":"1"}]]}`, []string{"", "x<f>1"}, []string{"<f>1y"}},
		{`{"type":"tag","begin":"[","end":"]","content":{"type":"triggered_tags","triggers":["<"],` + pair + `}}`, []string{"[]", "[x<a>1</a>y]"}, []string{"[x]y]"}},
		{`{"type":"token","token":"<s>"}`, []string{"{1}"}, []string{"<s>", ""}},
		{`{"type":"token","token":1}`, []string{"{1}"}, []string{"a"}},
		{`{"type":"sequence","elements":[{"type":"exclude_token","exclude_tokens":["<s>"]},{"type":"const_string","value":"!"}]}`, []string{"a!"}, []string{"{1}!", "!"}},
		{`{"type":"any_tokens","exclude_tokens":[1]}`, []string{"", "some text"}, []string{"{1}"}},
		{`{"type":"any_tokens","max_tokens":1}`, []string{"", "a"}, []string{"ab ab ab"}},
		{`{"type":"tag","begin":{"type":"token","token":1},"content":{"type":"any_tokens"},"end":{"type":"token","token":1}}`, []string{"{1}a{1}"}, []string{"{1}{1}{1}", "a"}},
		{`{"type":"token_triggered_tags","trigger_tokens":[1],"tags":[{"begin":{"type":"token","token":"<s>"},"content":{"type":"const_string","value":"1"},"end":"."}]}`, []string{"", "x{1}1.y"}, []string{"x{1}2"}},
		{`{"type":"token_dispatch","rules":[["<s>",{"type":"const_string","value":"1"}]]}`, []string{"", "x{1}1y{1}1"}, []string{"{1}2"}},
		{`{"type":"const_string","value":"a<s>b"}`, []string{"a<s>b", "a{1}b"}, []string{"ab"}},
		{`{"type":"qwen_xml_parameter","json_schema":` + weird + `}`, []string{"<parameter=city>\nRome\n</parameter>\n<parameter=days>\n3\n</parameter>", "<parameter=city>Rome</parameter>"}, []string{"<parameter=days>3</parameter>", `{"city":"Rome"}`}},
		{`{"type":"json_schema","style":"glm_xml","json_schema":` + weird + `}`, []string{"<arg_key>city</arg_key>\n<arg_value>Rome</arg_value>"}, []string{"<arg_key>town</arg_key>"}},
		{`{"type":"json_schema","style":"minimax_xml","json_schema":` + weird + `}`, []string{`<parameter name="city">Rome</parameter>`}, nil},
		{`{"type":"json_schema","style":"deepseek_xml","json_schema":` + weird + `}`, []string{`<｜DSML｜parameter name="city" string="true">Rome</｜DSML｜parameter>`}, nil},
	} {
		a, err := (&form.Form{Kind: form.Tags, Text: `{"type":"structural_tag","format":` + tt.format + `}`}).Compile(t.Context(), tok, v, nil, nil)
		if err != nil {
			t.Errorf("%s: %v", tt.format, err)
			continue
		}
		takesAll(t, tok, a, tt.format, tt.yes, tt.no)
	}
}

func TestTagsRefused(t *testing.T) {
	tok := small(t)
	v := form.Vocabulary(tok)
	const tag = `{"begin":"<a>","content":{"type":"any_text"},"end":"</a>"}`
	for _, tt := range []struct{ text, want string }{
		{`{`, "unexpected end"},
		{`{}`, "without a format"},
		{`{"structures":[],"triggers":["a"]}`, "without a format"},
		{`{"structures":[5],"triggers":["a"]}`, "structures: element 0: a JSON number, want an object"},
		{`{"structures":[{"begin":"b","schema":{},"end":""}],"triggers":["a"]}`, "structures: element 0: begins with no trigger"},
		{`{"structures":[{"begin":"a","end":""}],"triggers":["a"]}`, "structures: element 0: schema: missing"},
		{`{"structures":[{"begin":"a","schema":{"type":"x"},"end":""}],"triggers":["a"]}`, "structures: element 0: schema: #/type"},
		{`{"format":5}`, "format: a JSON number, want an object"},
		{`{"format":{}}`, "format: type: missing"},
		{`{"format":{"type":"xml"}}`, `type: the string "xml" is no format`},
		{`{"format":{"type":"const_string"}}`, "value: missing"},
		{`{"format":{"type":"const_string","value":5}}`, "value: a JSON number is not what it takes"},
		{`{"format":{"type":"json_schema","json_schema":{"type":"x"}}}`, "format: json_schema: #/type"},
		{`{"format":{"type":"json_schema","style":"kimi_k3_xml"}}`, "style: the string"},
		{`{"format":{"type":"json_schema","any_order":true}}`, "any_order: true is not supported"},
		{`{"format":{"type":"grammar"}}`, "grammar: missing"},
		{`{"format":{"type":"grammar","grammar":"root ::= ("}}`, "format: grammar: "},
		{`{"format":{"type":"regex","pattern":"("}}`, "format: pattern: "},
		{`{"format":{"type":"regex"}}`, "pattern: missing"},
		{`{"format":{"type":"any_text","max_tokens":5}}`, "max_tokens: not supported for text"},
		{`{"format":{"type":"any_text","max_chars":-5}}`, "max_chars: -5, want 0 to"},
		{`{"format":{"type":"any_tokens","max_tokens":-5}}`, "max_tokens: -5, want 0 to"},
		{`{"format":{"type":"sequence","elements":[]}}`, "elements: missing or empty"},
		{`{"format":{"type":"or","elements":[{"type":"any_text"},{}]}}`, "format: elements: element 1: type: missing"},
		{`{"format":{"type":"star"}}`, "format: content: missing"},
		{`{"format":{"type":"repeat","min":3,"max":2,"content":{"type":"any_text"}}}`, "want min and max"},
		{`{"format":{"type":"tag","content":{"type":"any_text"},"end":"x"}}`, "begin: missing"},
		{`{"format":{"type":"tag","begin":["a","b"],"content":{"type":"any_text"},"end":"x"}}`, "begin: want a text or a token"},
		{`{"format":{"type":"tag","begin":"a","content":{"type":"any_text"},"end":[]}}`, "end: missing"},
		{`{"format":{"type":"tag","begin":"a","content":{"type":"any_text"},"end":{"type":"any_text"}}}`, `end: type: the string "any_text", want token`},
		{`{"format":{"type":"tag","begin":"a","content":{"type":"any_text"},"end":{"type":"token","token":"nobody"}}}`, `end: token: "nobody" is no token`},
		{`{"format":{"type":"token","token":99999}}`, "token: 99999, want the id or the name of a token of the model's 512"},
		{`{"format":{"type":"triggered_tags","triggers":["<b>"],"tags":[` + tag + `]}}`, "tags: element 0: begins with no trigger"},
		{`{"format":{"type":"triggered_tags","triggers":[""],"tags":[` + tag + `]}}`, "triggers: an empty text"},
		{`{"format":{"type":"triggered_tags","triggers":[],"tags":[` + tag + `]}}`, "triggers: missing or empty"},
		{`{"format":{"type":"triggered_tags","triggers":["<"]}}`, "tags: missing or empty"},
		{`{"format":{"type":"tags_with_separator","tags":[` + tag + `]}}`, "separator: missing"},
		{`{"format":{"type":"tags_with_separator","separator":"","tags":[{"type":"any_text"}]}}`, `tags: element 0: type: the string "any_text", want tag`},
		{`{"format":{"type":"dispatch","rules":[["a"]]}}`, "rules: element 0: want a pattern and a format"},
		{`{"format":{"type":"token_triggered_tags","tags":[` + tag + `]}}`, "trigger_tokens: missing"},
		{`{"format":{"type":"token_triggered_tags","trigger_tokens":[1],"tags":[` + tag + `]}}`, "begins with no trigger"},
		{`{"format":` + strings.Repeat(`{"type":"star","content":`, 100) + `{"type":"any_text"}` + strings.Repeat(`}`, 101), "64 within each other"},
		{fmt.Sprintf(`{"format":{"type":"or","elements":[%s{"type":"any_text"}]}}`, strings.Repeat(`{"type":"any_text"},`, 1<<14)), "more than 16384 formats"},
	} {
		_, err := (&form.Form{Kind: form.Tags, Text: tt.text}).Compile(t.Context(), tok, v, nil, nil)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%.100s: %v, want %q", tt.text, err, tt.want)
		}
	}
}

// Whatever a structural tag is, it is compiled or refused.
func FuzzTags(f *testing.F) {
	tok := small(f)
	v := form.Vocabulary(tok)
	for _, text := range []string{
		`{"structures":[{"begin":"a","schema":{"const":1},"end":"!"}],"triggers":["a"]}`,
		`{"format":{"type":"triggered_tags","triggers":["<"],"tags":[{"begin":"<a>","content":{"type":"any_text","max_chars":9},"end":["</a>"]}],"at_least_one":true}}`,
		`{"format":{"type":"tag","begin":{"type":"token","token":1},"content":{"type":"any_tokens","max_tokens":4},"end":{"type":"token","token":"<s>"}}}`,
		`{"format":{"type":"sequence","elements":[{"type":"regex","pattern":"a+"},{"type":"grammar","grammar":"root ::= \"a\""},{"type":"repeat","min":1,"max":2,"content":{"type":"const_string","value":"x"}}]}}`,
		`{"format":{"type":"token_dispatch","rules":[[1,{"type":"qwen_xml_parameter","json_schema":{"type":"object"}}]],"loop":false}}`,
		`{"format":{"type":"dispatch","rules":[["a",{"type":"json_schema","json_schema":true}]],"excludes":["b"]}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := (&form.Form{Kind: form.Tags, Text: text}).Compile(t.Context(), tok, v, nil, nil)
		if err != nil {
			return
		}
		next := constrain.NewSet(tok.Len())
		a.New(true).Mask(next)
	})
}

// Tags with separators within others take a grammar in proportion to their depth.
func TestSeparatedDeep(t *testing.T) {
	tok := small(t)
	v := form.Vocabulary(tok)
	format := `{"type":"const_string","value":"x"}`
	text := "x"
	for range 24 {
		format = `{"type":"tags_with_separator","separator":",","at_least_one":true,"tags":[{"begin":"(","content":` + format + `,"end":")"}]}`
		text = "(" + text + ")"
	}
	a, err := (&form.Form{Kind: form.Tags, Text: `{"format":` + format + `}`}).Compile(t.Context(), tok, v, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	takesAll(t, tok, a, "deep tags", []string{text, text + "," + text}, []string{text + ",", "(" + text + ")"})
}

// Free text without a prompt is any text.
func TestFreeAlone(t *testing.T) {
	tok := small(t)
	a, err := (&form.Form{Kind: form.Free}).Compile(t.Context(), tok, form.Vocabulary(tok), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	takesAll(t, tok, a, "free text", []string{"", "one two"}, nil)
}
