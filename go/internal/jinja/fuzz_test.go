package jinja

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/cputime"
)

const fuzzVars = `{"n":7,"f":2.5,"s":"Hé","t":true,"z":null,"l":[3,1,2],"e":[],
	"d":{"b":1,"a":{"x":[1,"two",null]}},"m":[{"role":"user","content":"hi","n":2}],"big":18446744073709551615}`

// bounded renders a template, and checks that it costs no more than its limits say.
func bounded(t *testing.T, source string) {
	t.Helper()
	limits := Limits{Steps: 20000, Bytes: 1 << 20}
	var before, after runtime.MemStats
	var got string
	var err error
	runtime.ReadMemStats(&before)
	took := cputime.Of(func() { got, err = render(source, json.RawMessage(fuzzVars), limits) })
	runtime.ReadMemStats(&after)
	if err != nil && (strings.Contains(err.Error(), "bug in") || len(err.Error()) > 400) {
		t.Errorf("%.300q: %.400s", source, err)
	}
	if len(got) > limits.Bytes {
		t.Errorf("%.300q: %d bytes of text", source, len(got))
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > 64<<20+uint64(200*len(source)) || took > 2*time.Second {
		t.Errorf("%.300q: %d MB, %v", source, made>>20, took)
	}
}

func FuzzRender(f *testing.F) {
	data, err := os.ReadFile("testdata/cases.json")
	if err != nil {
		f.Fatal(err)
	}
	var cases []struct{ Template string }
	if err := json.Unmarshal(data, &cases); err != nil {
		f.Fatal(err)
	}
	for _, c := range cases {
		f.Add(c.Template)
	}
	for _, source := range costly {
		if len(source) < 4000 {
			f.Add(source)
		}
	}
	f.Fuzz(bounded)
}

// FuzzPrograms renders templates that are made of everything that the language has, by a script.
func FuzzPrograms(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})
	f.Fuzz(func(t *testing.T, script []byte) { bounded(t, program(script)) })
}

// TestPrograms is FuzzPrograms with a fixed number of scripts.
func TestPrograms(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 1500 {
		script := make([]byte, 10+rng.IntN(120))
		for i := range script {
			script[i] = byte(rng.Uint32())
		}
		if bounded(t, program(script)); t.Failed() {
			return
		}
	}
}

// A writer writes a template by a script, whose end is a 0 for ever.
type writer struct {
	strings.Builder
	script []byte
	depth  int
}

func program(script []byte) string {
	w := &writer{script: script}
	w.WriteString("{% set ns = namespace(a='x', l=[]) %}{% macro f(a, b=1) %}{{ a }}{{ caller is defined }}{% endmacro %}")
	for len(w.script) > 0 && w.Len() < 1<<16 {
		w.statement()
	}
	return w.String()
}

func (w *writer) pick(n int) int {
	if len(w.script) == 0 {
		return 0
	}
	c := w.script[0]
	w.script = w.script[1:]
	return int(c) % n
}

func (w *writer) one(of string) {
	list := strings.Fields(of)
	w.WriteString(list[w.pick(len(list))])
}

// write writes text in which @ is an expression, $ a name and # statements.
func (w *writer) write(form string) {
	w.depth++
	defer func() { w.depth-- }()
	for _, c := range form {
		switch c {
		case '@':
			w.expression()
		case '$':
			w.one("s n f t z l e d m big ns x y loop f ns.a ns.l x y")
		case '#':
			for range 1 + w.pick(2) {
				w.statement()
			}
		default:
			w.WriteRune(c)
		}
	}
}

func (w *writer) statement() {
	if w.depth > 6 {
		w.WriteString("{{ x }}")
		return
	}
	w.write([]string{
		"{{ @ }}", "{% set x = @ %}", "{% set ns.a = @ %}", "{% set ns.l = ns.l + [@] %}", "{% for x in @ %}#{% endfor %}",
		"{% for x in @ if @ recursive %}{{ loop(@) }}{% endfor %}", "{% if @ %}#{% else %}#{% endif %}", "{% set x %}#{% endset %}",
		"{% filter upper|e %}#{% endfilter %}", "{% with y = @ %}#{% endwith %}", "{% macro g(a) %}#{{ g(@) }}{% endmacro %}{{ g(@) }}",
		"{% call f(@) %}#{% endcall %}", "{% for i in range(9999) %}#{% endfor %}", "{% set ns.a = ns.a ~ ns.a %}", "{% set ns.l = [ns.l, ns.l] %}",
		"{% for x, y in @ %}#{% endfor %}", "{% set x, y = @, @ %}",
	}[w.pick(17)])
}

func (w *writer) expression() {
	if w.depth > 9 {
		w.WriteString("x")
		return
	}
	switch w.pick(12) {
	case 0, 1:
		w.write("$")
	case 2:
		w.one("0 1 -1 7 99999 9223372036854775807 0.5 1e308 'x' '' '%s' '%9d{0}{a}' ',' '\\x01é' 'a.0.b' none true [] {} ()")
	case 3:
		w.write("(@ ")
		w.one("+ - * / // % ** ~ == < in and or")
		w.write(" @)")
	case 4:
		w.write("'xy\\n ' * ")
		w.one("1 9 999 99999")
	case 5:
		w.write("[@, @] * ")
		w.one("1 9 999 99999")
	case 6:
		w.write("(@)|")
		w.one(strings.Join(sorted(filters), " "))
		w.arguments()
	case 7:
		w.write("(@).")
		w.one(strings.Join(append(append(sorted(stringMethods), sorted(dictMethods)...), sorted(listMethods)...), " "))
		w.arguments()
	case 8:
		w.write("(@) is ")
		w.one("defined none string lower upper mapping sameas(x) in(l) divisibleby(3) filter test eq(x)")
	case 9:
		w.write([]string{"(@)[@:@:@]", "(@)[@]", "(@).x", "{@: @}[@]", "(@ if @ else @)", "(@ if @)", "not @", "-(@)"}[w.pick(8)])
	case 10:
		w.write([]string{"range(@, @)", "dict(@)", "dict(a=@, **@)", "f(@, *@)", "f(**@)", "namespace(a=@)", "loop.cycle(@, @)", "loop.changed(@)", "loop.index"}[w.pick(9)])
	case 11:
		w.write("[@, @, {'a': @}]")
	}
}

func (w *writer) arguments() {
	w.write([]string{"", "()", "(@)", "(@, @)", "(@, @, @)", "(attribute=@)", "('upper')", "(indent=@)"}[w.pick(8)])
}

func sorted(m map[string]builtin) []string { return slices.Sorted(maps.Keys(m)) }
