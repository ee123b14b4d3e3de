package jinja

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/cputime"
)

// Each of these must end with one error, soon, and without taking memory.
func TestLimits(t *testing.T) {
	deep := strings.Repeat
	hostile := map[string]string{
		"doubling":          "{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"doubling by set":   deep("{% set s = (s or 'x') + (s or 'x') %}", 99),
		"doubling a list":   "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"repeat":            "{{ 'x' * 1000000000000 }}",
		"repeat nothing":    "{{ '' * 9223372036854775807 }}{{ [[]] * 9223372036854775807 }}",
		"width":             "{{ '%999999999s' % 1 }}",
		"wider":             "{{ '%99999999999999999999s' % 1 }}",
		"center":            "{{ 'x'.center(999999999999) }}",
		"indent":            "{{ 'x\ny'|indent(999999999999) }}",
		"tojson indent":     "{{ [1]|tojson(indent=999999999999) }}",
		"replace":           "{% set s = 'x' * 1000000 %}{{ s.replace('x', s) }}",
		"join":              "{% set s = 'x' * 1000000 %}{{ s|join(s) }}",
		"range":             "{{ range(999999999999) }}",
		"nested loops":      deep("{% for i in range(99999) %}", 9) + "{{ i }}" + deep("{% endfor %}", 9),
		"empty loops":       deep("{% for i in range(99999) %}", 9) + deep("{% endfor %}", 9),
		"macro":             "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
		"two macros":        "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
		"recursive loop":    "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"callers":           "{% macro f() %}{% call f() %}{{ caller() }}{% endcall %}{% endmacro %}{% call f() %}{% endcall %}",
		"parentheses":       "{{ " + deep("(", 100000) + "1" + deep(")", 100000) + " }}",
		"lists":             "{{ " + deep("[", 100000) + deep("]", 100000) + " }}",
		"not":               "{{ " + deep("not ", 100000) + "1 }}",
		"minus":             "{{ " + deep("-", 100000) + "1 }}",
		"if":                deep("{% if 1 %}", 100000),
		"else":              "{{ " + deep("1 if 0 else ", 50000) + "1 }}",
		"sums":              "{{ 1" + deep("+1", 400000) + " }}",
		"attributes":        "{{ x" + deep(".x", 400000) + " }}",
		"filters":           "{{ ''" + deep("|e", 400000) + " }}",
		"targets":           "{% set " + deep("(", 100000) + "a" + deep(")", 100000) + " = 1 %}",
		"nested value":      "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
		"nested json":       "{% set ns = namespace(x=[]) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}",
		"wide value":        "{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
		"wide json":         "{% set ns = namespace(x=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x|tojson }}",
		"wide equality":     "{% set ns = namespace(x=[], y=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
		"wide order":        "{% set ns = namespace(x=[], y=[]) %}{% for i in range(99) %}{% set ns.x = [ns.x, ns.x] %}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x < ns.y }}",
		"value in itself":   "{% set ns = namespace() %}{% set ns.x = [ns] %}{{ ns.x }}{% for i in range(99999) %}{% for i in range(99999) %}{{ ns.x.0.x }}{% endfor %}{% endfor %}",
		"long text, often":  "{% set s = 'x' * 1000000 %}{% for i in range(99999) %}{{ s[0] }}{{ s|length }}{{ 'y' in s }}{{ s.find('y') }}{{ s == s }}{% endfor %}",
		"source":            deep("x", 2<<20),
		"slices of nothing": "{{ []|slice(99999999999)|list }}",
		"batch":             "{{ [1]|batch(99999999999, 1)|list }}",
		"zfill":             "{{ '1'.zfill(9999999999) }}",
		"round":             "{{ 1.5|round(999999999) }}",
		"sort":              "{% for i in range(99999) %}{{ range(99999)|sort }}{% endfor %}",
		"power":             "{{ 9 ** 99999999 }}",
		"negative minimum":  "{{ (-9223372036854775807 - 1) // -1 }}",
		"absolute minimum":  "{{ (-9223372036854775807 - 1)|abs }}",
		"slice with maxima": "{{ 'abc'[::9223372036854775807] }}{{ 'abc'[9223372036854775807:-9223372036854775807:-9223372036854775807] }}",
	}
	fine := map[string]bool{"repeat nothing": true, "slice with maxima": true, "power": true, "negative minimum": true, "absolute minimum": true, "round": true}
	for name, source := range hostile {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var err error
		took := cputime.Of(func() { _, err = render(source, nil, generous) })
		runtime.ReadMemStats(&after)
		if !fine[name] && !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && (strings.Contains(err.Error(), "bug in") || len(err.Error()) > 200) {
			t.Errorf("%s: %v", name, err)
		}
		if made := after.TotalAlloc - before.TotalAlloc; made > 300<<20 || took > 5*time.Second {
			t.Errorf("%s: %d MB, %v", name, made>>20, took)
		}
	}
}

func TestErrors(t *testing.T) {
	for source, want := range map[string]string{
		"a\n{{ b.c }}":                 "template line 2: 'b' is undefined",
		"{% if true %}\n\n{{ 1":        "template line 3: tag without an end",
		"{{ x }}\n{% include y %}":     "template line 2: unknown tag include",
		"{{ 'x'|frob }}":               "template line 1: unknown filter frob",
		"\n{{ raise_exception('x') }}": "template line 2: raised",
		"{% for x in [1] %}":           "template line 1: expected tag endfor, found end of template",
		"\xff":                         "template is not UTF-8",
	} {
		if _, err := render(source, nil, generous); err == nil || err.Error() != want {
			t.Errorf("%q: %v, not %s", source, err, want)
		}
	}
}

func TestFromJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"b":1,"a":[2.50,1e3,null,true,"x"],"c":{"z":1,"y":2}}`: "{'b': 1, 'a': [2.5, 1000.0, None, True, 'x'], 'c': {'z': 1, 'y': 2}}",
		`18446744073709551616`: "18446744073709551616",
	} {
		v, err := FromJSON([]byte(in))
		if err != nil {
			t.Fatal(err)
		}
		if got := (&interp{ctx: t.Context(), limits: &Limits{Steps: 1e6, Bytes: 16 << 20}}).text(v); got != want {
			t.Errorf("%s: %s, not %s", in, got, want)
		}
	}
	for _, in := range []string{"", "{", `{"a":`, "[1,", "1 2", "nope", strings.Repeat("[", 1e6), "1e999"} {
		if v, err := FromJSON([]byte(in)); err == nil {
			t.Errorf("%.20s: %v", in, v)
		}
	}
}
