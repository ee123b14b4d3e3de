package jinja

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// marked renders with the variables of a JSON object, whose texts are from outside, and puts marks around what of the
// result is.
func marked(t *testing.T, source, vars string) string {
	t.Helper()
	tmpl, err := Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	v, err := FromJSON([]byte(vars))
	if err != nil {
		t.Fatal(err)
	}
	m := map[string]any{"shout": Func(func(args []any) (any, error) { return args[0].(string) + "!", nil })}
	for i, k := range v.(*Dict).keys {
		m[plain(k).(string)] = v.(*Dict).values[i]
	}
	limits := generous
	text, outside, err := tmpl.Render(context.Background(), m, &limits)
	if err != nil {
		t.Fatalf("%s: %v", source, err)
	}
	var b strings.Builder
	at := 0
	for _, r := range outside {
		if r[0] < at || r[1] <= r[0] || r[1] > len(text) {
			t.Fatalf("%s: ranges %v of %d bytes", source, outside, len(text))
		}
		b.WriteString(text[at:r[0]] + "‹" + text[r[0]:r[1]] + "›")
		at = r[1]
	}
	return b.String() + text[at:]
}

// Whatever a template does to a text of a conversation, it is told from the template's own.
func TestOutside(t *testing.T) {
	const vars = `{"s":" <|a|> é ","m":{"role":"user","content":"<|x|>"},"l":["p","q"],"d":{"k":"v"},"n":7,"t":true}`
	for source, want := range map[string]string{
		`<|own|>{{ s }}<|own|>`:                                                                        "<|own|>‹ <|a|> é ›<|own|>",
		`{{ '<|own|>' + s + '<|own|>' }}`:                                                              "<|own|>‹ <|a|> é ›<|own|>",
		`{{ '<|own|>' ~ m.content ~ n ~ t }}`:                                                          "<|own|>‹<|x|>›7True",
		`{{ ('<|own|>' ~ s)|trim }}`:                                                                   "<|own|>‹ <|a|> é›",
		`{{ s.strip() }}{{ s.lstrip() }}`:                                                              "‹<|a|> é<|a|> é ›",
		`{{ s[1:4] }}{{ s[7] }}{{ ('ab' ~ s)[1:4] }}`:                                                  "‹<|aé›b‹ <›",
		`{{ ('é' ~ m.content ~ 'é')[0:3] }}`:                                                           "é‹<|›",
		`{{ m.content[::-1] }}`:                                                                        "‹>|x|<›",
		`{{ s|upper }}{{ 'own'|upper }}`:                                                               "‹ <|A|> É ›OWN",
		`{{ ('own' ~ m.content).upper() }}`:                                                            "‹OWN<|X|>›", // which part is which is not known
		`{{ s.replace(' ', '_') }}`:                                                                    "_‹<|a|>›_‹é›_",
		`{{ '<|own|>{}'.replace('{}', m.content) }}`:                                                   "<|own|>‹<|x|>›",
		`{{ m.content.replace('', '-') }}`:                                                             "‹-<-|-x-|->-›",
		`{{ (m.content ~ '</t>own').split('</t>') | join('+') }}`:                                      "‹<|x|>›+own",
		`{{ s.split() | join(',') }}{{ 'a b'.split() | join }}`:                                        "‹<|a|>›,‹é›ab",
		`{{ s.rsplit(' ', 1) | last }}{{ m.content.partition('x') | first }}`:                          "‹<|›",
		`{{ l | join(', ') }}{{ ', '.join(l) }}{{ l | join(m.content) }}`:                              "‹p›, ‹qp›, ‹qp<|x|>q›",
		`{{ l }}{{ d }}{{ d | tojson }}`:                                                               `[‹'p'›, ‹'q'›]{‹'k'›: ‹'v'›}{‹"k"›: ‹"v"›}`,
		`{{ [m.content, 'own'] | tojson }}{{ s | tojson }}`:                                            `[‹"<|x|>"›, "own"]‹" <|a|> é "›`,
		`{% for k, v in d.items() %}<{{ k }}={{ v }}>{% endfor %}`:                                     "<‹k›=‹v›>",
		`{% for c in m.content %}{{ c }}.{% endfor %}`:                                                 "‹<›.‹|›.‹x›.‹|›.‹>›.",
		`{% for c in ('o' ~ m.role) %}{{ c }}.{% endfor %}`:                                            "o.‹u›.‹s›.‹e›.‹r›.",
		`{{ '%s<|own|>%d' % (m.content, n) }}{{ '<|own|>%s' | format('own') }}`:                        "‹<|x|>›<|own|>7<|own|>own",
		`{{ '<|own|>{}{a}{{'.format(m.content, a='own') }}`:                                            "<|own|>‹<|x|>›own{",
		`{{ m.content % () }}{{ m.content.format() }}`:                                                 "‹<|x|><|x|>›",
		`{% macro f(x) %}<|own|>{{ x }}{% endmacro %}{{ f(m.content) | trim }}`:                        "<|own|>‹<|x|>›",
		`{% set b %}<|own|>{{ m.content }}{% endset %}{{ b }}{{ b | length }}`:                         "<|own|>‹<|x|>›12",
		`{% set b | trim %} <|own|>{{ m.content }} {% endset %}{{ b }}`:                                "<|own|>‹<|x|>›",
		`{% filter trim %} <|own|>{{ s }}{% endfilter %}`:                                              "<|own|>‹ <|a|> é›",
		`{% macro g() %}<|own|>{{ caller() }}{% endmacro %}{% call g() %}{{ m.content }}{% endcall %}`: "<|own|>‹<|x|>›",
		`{% set ns = namespace(a='') %}{% set ns.a = ns.a ~ m.content ~ '.' %}{{ ns.a }}`:              "‹<|x|>›.",
		`{{ m.content if '<|x|>' in m.content }}{{ m.content == '<|x|>' }}`:                            "‹<|x|>›True",
		`{{ m.content.startswith('<|') }}{{ m['role'] in ['user'] }}{{ {'user': '<|own|>'}[m.role] }}`: "TrueTrue<|own|>",
		`{{ (l | sort(reverse=true))[0] }}{{ l | map('upper') | join }}{{ l | first }}`:                "‹qPQp›",
		`{{ [m] | selectattr('role', 'equalto', 'user') | map(attribute='content') | join }}`:          "‹<|x|>›",
		`{{ shout(m.content) }}{{ shout('own') }}`:                                                     "‹<|x|>!›own!",
		`{{ x | default(m.content) }}{{ x | default('own') }}{{ m.content | default('own') }}`:         "‹<|x|>›own‹<|x|>›",
		`{{ m.content * 2 }}{{ 'ab' * 2 }}{{ m.content | string }}{{ l | string }}`:                    "‹<|x|><|x|>›abab‹<|x|>›[‹'p'›, ‹'q'›]",
		`{{ s | trim | indent(2) }}{{ m.content is string }}{{ m.content is iterable }}`:               "‹<|a|> é›TrueTrue",
		`{{ m.get('content') }}{{ m.get('none', 'own') }}{{ d.keys() | list }}`:                        "‹<|x|>›own[‹'k'›]",
	} {
		if got := marked(t, source, vars); got != want {
			t.Errorf("%s gives\n%s, not\n%s", source, got, want)
		}
	}
}

// A template does the same to a text from outside as to one of its own.
func TestOutsideIsText(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Template string
		Vars     json.RawMessage
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Vars == nil {
			continue
		}
		v, err := FromJSON(c.Vars)
		if err != nil {
			t.Fatal(err)
		}
		d := inside(v).(*Dict)
		tmpl, err := Parse(c.Template)
		if err != nil {
			continue
		}
		m := map[string]any{}
		for i, k := range d.keys {
			m[k.(string)] = d.values[i]
		}
		limits := generous
		want, outside, wantErr := tmpl.Render(context.Background(), m, &limits)
		if len(outside) > 0 {
			t.Errorf("%q: %v is from outside, and nothing was", c.Template, outside)
		}
		got, err := render(c.Template, c.Vars, generous)
		if got != want || (err == nil) != (wantErr == nil) {
			t.Errorf("%q gives %q, %v, and of the template's own texts %q, %v", c.Template, got, err, want, wantErr)
		}
	}
}

// inside returns a value with all its texts as the template's own.
func inside(v any) any {
	switch v := v.(type) {
	case *Text:
		return v.s
	case *List:
		l := &List{tuple: v.tuple}
		for _, x := range v.Items {
			l.Items = append(l.Items, inside(x))
		}
		return l
	case *Dict:
		d := &Dict{}
		for i, k := range v.keys {
			d.Set(inside(k), inside(v.values[i]))
		}
		return d
	}
	return v
}
