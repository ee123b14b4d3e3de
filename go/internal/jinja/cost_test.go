package jinja

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/cputime"
)

// often repeats a statement as often as steps allow.
func often(s string) string {
	return strings.Repeat("{% for i in range(99999) %}", 4) + s + strings.Repeat("{% endfor %}", 4)
}

// costly are templates whose single steps cost much: time for nothing that is counted as text, or memory that is kept.
var costly = map[string]string{
	"undefined names":         "{% set ns = namespace(l=[]) %}{% set s = 'x' * 1000000 %}" + often("{% set ns.l = [ns.l, ns[s]] %}"),
	"undefined items":         "{% set ns = namespace(l=[]) %}{% set s = 'x' * 1000000 %}" + often("{% set ns.l = [ns.l, {}[s]] %}"),
	"undefined attributes":    "{% set ns = namespace(l=[]) %}" + often("{% set ns.l = [ns.l, ns."+strings.Repeat("x", 100000)+"] %}"),
	"long keys":               "{% set s = 'x' * 1000000 %}{% set d = {s: 1} %}" + often("{% if d[s] == d.get(s) %}{% endif %}{{ s in d }}"),
	"long names":              often("{{ " + strings.Repeat("x", 500000) + " }}"),
	"far variables":           strings.Repeat("{% with %}", 190) + often("{% if zz %}{% endif %}") + strings.Repeat("{% endwith %}", 190),
	"far variables in macros": "{% macro f(n) %}{% if n %}{% macro g() %}{{ f(n - 1) }}{% endmacro %}{{ g() }}{% else %}" + often("{% if zz %}{% endif %}") + "{% endif %}{% endmacro %}{{ f(300) }}",
	"joins of nothing":        "{% set l = [''] * 99999 %}" + often("{% set x = l|join %}"),
	"sums":                    "{% set l = [0] * 99999 %}" + often("{% set x = l|sum %}"),
	"extremes":                "{% set l = [0.5] * 99999 %}" + often("{% set x = l|max %}"),
	"unique texts":            "{% set l = ['x' * 100000] * 99 %}" + often("{% set x = l|unique(true) %}"),
	"many named arguments":    "{% set d = dict(" + names("a%d=1,", 20000) + ") %}{% macro f() %}{% endmacro %}" + often("{{ f(**d) }}"),
	"many parameters":         "{% macro f(" + strings.TrimSuffix(names("a%d,", 20000), ",") + ") %}{% endmacro %}" + often("{{ f() }}"),
	"parameters by name":      "{% macro f(" + strings.TrimSuffix(names("a%d,", 20000), ",") + ") %}{% endmacro %}{{ f(" + names("b%d=1,", 20000) + ") }}" + often(""),
	"formats":                 "{% set s = '%" + strings.Repeat("0", 500000) + "d' %}" + often("{% set x = s % 1 %}"),
	"formats of nothing":      "{% set s = '%(' * 200000 %}" + often("{% set x = s|format(1) %}"),
	"braces":                  "{% set s = '{a' * 200000 %}" + often("{% set x = s.format(1) %}"),
	"cases":                   "{% set s = '1' * 1000000 %}" + often("{{ s is lower }}{{ s.isupper() }}"),
	"affixes":                 "{% set t = ('x',) * 99999 %}" + often("{{ 'y'.startswith(t) }}"),
	"removals":                "{% set s = 'x' * 1000000 %}" + often("{% set x = s.removeprefix(s) %}"),
	"names of filters":        "{% set s = 'x' * 1000000 %}" + often("{{ s is filter }}{{ s is test }}"),
	"the same":                "{% set s = 'x' * 1000000 %}{% set t = 'x' * 1000000 %}" + often("{{ s is sameas t }}"),
	"numbers of texts":        "{% set s = '1' * 1000000 %}" + often("{% set x = s|float %}{% set y = s|int %}"),
	"numbers of paths":        "{% set s = '1' * 1000000 %}" + often("{% set x = [1]|map(attribute=s) %}"),
	"words":                   "{% set s = 'x ' * 1000000 %}" + often("{% set x = s|wordcount %}"),
	"lines":                   "{% set s = '\\n' * 4000000 %}" + often("{% set x = s.splitlines() %}"),
	"indented lines":          "{% set s = '\\n' * 4000000 %}" + often("{% set x = s|indent(0, true, true) %}"),
	"splits":                  "{% set s = 'x' * 4000000 %}" + often("{% set x = s.split('x') %}"),
	"splits from the right":   "{% set s = 'x' * 4000000 %}" + often("{% set x = s.rsplit('x') %}"),
	"splits at spaces":        "{% set s = 'x ' * 2000000 %}" + often("{% set x = s.split() %}"),
	"escapes":                 "{% set s = '&' * 4000000 %}" + often("{% set s = s|e %}"),
	"quotes":                  "{% set s = '\\x01' * 4000000 %}" + often("{% set x = [s]|string %}"),
	"quotes of JSON":          "{% set s = '\\x01' * 4000000 %}" + often("{% set x = s|tojson %}"),
	"quotes of wide JSON":     "{% set s = 'é' * 2000000 %}" + often("{% set x = s|tojson(ensure_ascii=true) %}"),
	"deep JSON":               "{% set ns = namespace(x=0) %}{% for i in range(900) %}{% set ns.x = [ns.x] %}{% endfor %}{% set s = ns.x %}" + often("{% set x = [s]|tojson(indent='') %}"),
	"groups":                  "{% set l = range(99999) %}" + often("{% set x = l|groupby('x', 1) %}"),
	"dicts of pairs":          "{% set l = [[1, 2]] * 99999 %}" + often("{% set x = dict(l) %}"),
	"copies":                  "{% set l = [0] * 99999 %}" + often("{% set x = l[:] %}{% set y = l|list %}{% set z = l|reverse %}"),
	"messages":                "{% set s = 'x' * 1000000 %}{{ s|format(1) }}{{ 'x'|int(s, s) }}",
	"messages of names":       "{{ x|" + strings.Repeat("y", 500000) + " }}",
	"unclear numbers":         "{{ 1" + strings.Repeat("9", 500000) + " }}",
	"dotted names":            "{{ x|" + strings.Repeat("a.", 400000) + "a }}",
	"adjacent strings":        "{{ " + strings.Repeat("'a'", 330000) + " }}",
	"trims":                   "{% set s = ' ' * 1000000 %}" + often("{% set x = s|trim %}{% set y = s.strip('x ') %}"),
	"replaces":                "{% set s = 'ab' * 500000 %}" + often("{% set x = s.replace('ba', 'ab') %}"),
	"slots":                   "{% set x = 'x' %}" + strings.Repeat("{% raw %}a{% endraw %}{# #}", 30000) + often(""),
	"loops of loops":          "{% set l = [[[]] * 999] * 999 %}" + often("{% for x in l recursive %}{{ loop(x) }}{% endfor %}"),
	"sorts":                   "{% set l = range(9999)|list %}" + often("{% set x = l|sort(reverse=true) %}{% set y = l|sort(attribute='a,b') %}"),
}

func names(format string, n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// What one step may cost is bounded: all of these end soon, with little memory and a short error.
func TestCost(t *testing.T) {
	for name, source := range costly {
		t.Run(name, func(t *testing.T) {
			before := heap()
			var err error
			var most uint64
			end := make(chan struct{})
			watched := make(chan struct{})
			go func() {
				defer close(watched)
				for tick := time.Tick(5 * time.Millisecond); ; {
					select {
					case <-end:
						return
					case <-tick:
						most = max(most, heap())
					}
				}
			}()
			took := cputime.Of(func() { _, err = render(source, nil, Limits{Steps: 2e6, Bytes: 32 << 20}) })
			close(end)
			<-watched
			if took > 3*time.Second {
				t.Errorf("%v", took)
			}
			if grown := int64(most) - int64(before); grown > 300<<20 {
				t.Errorf("%d MB", grown>>20)
			}
			if err != nil && (len(err.Error()) > 400 || strings.Contains(err.Error(), "bug in")) {
				t.Errorf("error of %d bytes: %.200s", len(err.Error()), err)
			}
		})
	}
}

func heap() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
