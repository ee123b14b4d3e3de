package jinja

import (
	"math/big"
	"strings"
	"unicode"
)

// tests are what may follow "is". Their results are bools.
var tests = map[string]builtin{}

func init() {
	of := func(f func(v any) bool) builtin {
		return func(it *interp, v any, a args) any {
			a.bind(it, "the test", "")
			return f(v)
		}
	}
	kinds := func(names string) builtin {
		return of(func(v any) bool {
			t := typeName(v)
			for name := range strings.FieldsSeq(names) {
				if t == name {
					return true
				}
			}
			return false
		})
	}
	tests["undefined"] = kinds("undefined")
	tests["defined"] = of(func(v any) bool { _, ok := v.(*undefined); return !ok })
	tests["none"] = kinds("none")
	tests["boolean"] = kinds("bool")
	tests["integer"] = kinds("int")
	tests["float"] = kinds("float")
	tests["number"] = kinds("int float bool")
	tests["string"] = kinds("str")
	tests["mapping"] = kinds("dict")
	tests["sequence"] = kinds("str list tuple dict undefined")
	tests["iterable"] = kinds("str list tuple dict undefined")
	tests["callable"] = kinds("function macro loop")
	tests["true"] = of(func(v any) bool { return v == true })
	tests["false"] = of(func(v any) bool { return v == false })
	tests["odd"] = of(func(v any) bool { return integer(v, "what is odd")&1 == 1 })
	tests["even"] = of(func(v any) bool { return integer(v, "what is even")&1 == 0 })
	tests["divisibleby"] = func(it *interp, v any, a args) any {
		p := a.bind(it, "divisibleby", "num")
		return it.equal(it.binary("%", v, p.values[0]), int64(0))
	}
	tests["lower"] = func(it *interp, v any, a args) any { return it.isCase(v, unicode.IsUpper, unicode.IsLower) }
	tests["upper"] = func(it *interp, v any, a args) any { return it.isCase(v, unicode.IsLower, unicode.IsUpper) }
	tests["sameas"] = func(it *interp, v any, a args) any {
		p := a.bind(it, "sameas", "other")
		switch v.(type) {
		case *big.Int, *undefined, native, Func:
			return false
		case string:
			return it.equal(v, p.values[0])
		}
		return typeName(v) == typeName(p.values[0]) && v == p.values[0]
	}
	for names, op := range map[string]string{
		"== eq equalto": "==", "!= ne": "!=", "< lt lessthan": "<", "<= le": "<=",
		"> gt greaterthan": ">", ">= ge": ">=", "in": "in",
	} {
		for name := range strings.FieldsSeq(names) {
			tests[name] = func(it *interp, v any, a args) any {
				p := a.bind(it, name, "other")
				return it.holds(op, v, p.values[0])
			}
		}
	}
	named := func(list map[string]builtin) builtin {
		return func(it *interp, v any, a args) any {
			s := it.text(v)
			it.read(len(s))
			return list[s] != nil
		}
	}
	tests["filter"], tests["test"] = named(filters), named(tests)
}

// isCase tells whether text has letters of the one case and none of the other.
func (it *interp) isCase(v any, not, want func(rune) bool) bool {
	s := it.text(v)
	it.scan(2 * len(s))
	return strings.IndexFunc(s, not) < 0 && strings.IndexFunc(s, want) >= 0
}
