package jinja

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// List is a list, or a tuple.
type List struct {
	Items []any
	tuple bool
}

func tuple(items ...any) *List { return &List{items, true} }

// Dict keeps its keys in the order in which they came.
type Dict struct {
	keys, values []any
	index        map[any]int
}

// Set adds or replaces the value of a key, which is nil, a bool, a number or a string.
func (d *Dict) Set(key, value any) {
	if i, ok := d.index[hash(key)]; ok {
		d.values[i] = value
		return
	}
	if d.index == nil {
		d.index = map[any]int{}
	}
	d.index[hash(key)] = len(d.keys)
	d.keys = append(d.keys, key)
	d.values = append(d.values, value)
}

// Get returns the value of a key.
func (d *Dict) Get(key any) (any, bool) {
	if i, ok := d.index[hash(key)]; ok {
		return d.values[i], true
	}
	return nil, false
}

// hash maps keys that are equal in Python, such as 1, 1.0 and true, to one value.
func hash(key any) any {
	switch k := key.(type) {
	case nil, string, int64:
		return k
	case *Text:
		return k.s
	case bool:
		return toInt(k)
	case float64:
		if i := int64(k); float64(i) == k {
			return i
		}
		return k
	case *big.Int:
		return struct{ text string }{k.String()}
	case *undefined:
		k.fail()
	}
	fail("a value of type %s cannot be a key", typeName(key))
	return nil
}

// undefined is the value of a name or an attribute that does not exist.
type undefined struct{ why string }

func missing(format string, args ...any) *undefined {
	return &undefined{fmt.Sprintf(format, clip(args)...)}
}

func (u *undefined) fail() { panic(&Error{Err: errors.New(u.why)}) }

// namespace is the only value whose attributes a template can set.
type namespace struct{ attrs *Dict }

func typeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "none"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string, *Text:
		return "str"
	case *List:
		if v.tuple {
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *undefined:
		return "undefined"
	case *namespace:
		return "namespace"
	case *loop:
		return "loop"
	case *macro:
		return "macro"
	}
	return "function"
}

func isTrue(v any) bool {
	switch v := v.(type) {
	case nil, *undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case *Text:
		return v.s != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return len(v.keys) > 0
	}
	return true
}

func toInt(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// number returns a number as an int64 or a float64, and whether it is one.
func number(v any) (any, bool) {
	switch v := v.(type) {
	case bool:
		return toInt(v), true
	case int64, float64:
		return v, true
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f, true
	case *undefined:
		v.fail()
	}
	return nil, false
}

func toFloat(n any) float64 {
	if i, ok := n.(int64); ok {
		return float64(i)
	}
	return n.(float64)
}

// integer returns an int argument.
func integer(v any, what string) int {
	switch v := v.(type) {
	case bool:
		return int(toInt(v))
	case int64:
		return int(v)
	case *undefined:
		v.fail()
	}
	fail("%s must be an integer, not %s", what, typeName(v))
	return 0
}

// text is Python's str(v): how a value is printed.
func (it *interp) text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case *Text:
		return v.s
	case *undefined:
		return ""
	case int64:
		return strconv.FormatInt(v, 10)
	}
	var b builder
	it.repr(&b, v)
	return b.String()
}

// repr writes Python's repr(v).
func (it *interp) repr(b *builder, v any) {
	defer it.enter()()
	before := b.Len()
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		b.WriteString(map[bool]string{true: "True", false: "False"}[v])
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		it.step(v.BitLen() / 32)
		b.WriteString(v.String())
	case float64:
		b.WriteString(floatText(v))
	case string:
		it.alloc(len(v) + 2)
		it.scan(len(v))
		it.alloc(9 * unprintable(v))
		quote(&b.Builder, v)
	case *Text:
		it.repr(b, v.s)
		b.mark(before)
	case *List:
		mark := "[]"
		if v.tuple {
			mark = "()"
		}
		b.WriteByte(mark[0])
		for i, x := range v.Items {
			if i > 0 {
				b.WriteString(", ")
			}
			it.repr(b, x)
		}
		if v.tuple && len(v.Items) == 1 {
			b.WriteByte(',')
		}
		b.WriteByte(mark[1])
	case *Dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			it.repr(b, k)
			b.WriteString(": ")
			it.repr(b, v.values[i])
		}
		b.WriteByte('}')
	case *undefined:
		b.WriteString("Undefined")
	default:
		b.WriteString("<" + typeName(v) + ">")
	}
	if _, ok := textOf(v); !ok {
		it.alloc(min(b.Len()-before, 64)) // the items were counted already
	}
}

// floatText is the shortest text that reads back as f, in Python's form.
func floatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 0):
		return strings.TrimPrefix(strings.ToLower(strconv.FormatFloat(f, 'g', -1, 64)), "+")
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	if exp, _ := strconv.Atoi(s[strings.IndexByte(s, 'e')+1:]); exp < -4 || exp >= 16 {
		return s
	}
	if s = strconv.FormatFloat(f, 'f', -1, 64); !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// unprintable returns how many characters quote writes as an escape, of 10 bytes at most.
func unprintable(s string) (n int) {
	for _, r := range s {
		if r != ' ' && !unicode.IsPrint(r) || r == '\'' || r == '\\' {
			n++
		}
	}
	return n
}

// quote writes a string as Python does: in single quotes unless it has one
// and no double one.
func quote(b *strings.Builder, s string) {
	q := '\''
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		q = '"'
	}
	b.WriteRune(q)
	for _, r := range s {
		switch {
		case r == q || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == ' ' || unicode.IsPrint(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(b, `\u%04x`, r)
		default:
			fmt.Fprintf(b, `\U%08x`, r)
		}
	}
	b.WriteRune(q)
}

// equal is Python's ==.
func (it *interp) equal(x, y any) bool {
	defer it.enter()()
	it.step(1)
	x, y = plain(x), plain(y)
	switch x := x.(type) {
	case nil:
		return y == nil
	case string:
		y, ok := y.(string)
		it.read(min(len(x), len(y)))
		return ok && x == y
	case *undefined:
		_, ok := y.(*undefined)
		return ok
	case *List:
		y, ok := y.(*List)
		if !ok || x.tuple != y.tuple || len(x.Items) != len(y.Items) {
			return false
		}
		for i := range x.Items {
			if !it.equal(x.Items[i], y.Items[i]) {
				return false
			}
		}
		return true
	case *Dict:
		y, ok := y.(*Dict)
		if !ok || len(x.keys) != len(y.keys) {
			return false
		}
		for i, k := range x.keys {
			if v, ok := it.get(y, k); !ok || !it.equal(x.values[i], v) {
				return false
			}
		}
		return true
	case *big.Int:
		y, ok := y.(*big.Int)
		return ok && x.Cmp(y) == 0
	case bool, int64, float64:
		switch y.(type) {
		case bool, int64, float64:
			a, _ := number(x)
			b, _ := number(y)
			if i, ok := a.(int64); ok {
				if j, ok := b.(int64); ok {
					return i == j
				}
			}
			return toFloat(a) == toFloat(b)
		}
		return false
	case *namespace, *loop, *macro:
		return x == y
	}
	return false
}

// compare is negative, 0 or positive, as x is less than, equal to or greater than y.
func (it *interp) compare(op string, x, y any) int {
	defer it.enter()()
	it.step(1)
	x, y = plain(x), plain(y)
	for _, v := range []any{x, y} {
		if u, ok := v.(*undefined); ok {
			u.fail()
		}
	}
	switch a := x.(type) {
	case string:
		if b, ok := y.(string); ok {
			it.read(min(len(a), len(b)))
			return strings.Compare(a, b)
		}
	case *List:
		if b, ok := y.(*List); ok && a.tuple == b.tuple {
			for i := range min(len(a.Items), len(b.Items)) {
				if !it.equal(a.Items[i], b.Items[i]) {
					return it.compare(op, a.Items[i], b.Items[i])
				}
			}
			return len(a.Items) - len(b.Items)
		}
	default:
		a, ok := number(x)
		b, ok2 := number(y)
		if !ok || !ok2 {
			break
		}
		i, ok := a.(int64)
		j, ok2 := b.(int64)
		switch {
		case ok && ok2 && i < j, toFloat(a) < toFloat(b):
			return -1
		case ok && ok2 && i == j, !(ok && ok2) && toFloat(a) == toFloat(b):
			return 0
		}
		return 1
	}
	fail("'%s' not supported between %s and %s", op, typeName(x), typeName(y))
	return 0
}

// iterate returns the items of a loop over v.
func (it *interp) iterate(v any) []any {
	switch v := v.(type) {
	case *List:
		return v.Items
	case *Dict:
		return v.keys
	case *Text:
		it.alloc(2 * len(v.s) * listItem)
		return v.characters()
	case string:
		it.alloc(len(v) * listItem)
		items := make([]any, 0, utf8.RuneCountInString(v))
		for _, r := range v {
			items = append(items, string(r))
		}
		return items
	case *undefined:
		return nil
	}
	fail("cannot go through a value of type %s", typeName(v))
	return nil
}

// length is Python's len.
func (it *interp) length(v any) int {
	switch v := v.(type) {
	case *Text:
		return it.length(v.s)
	case string:
		it.read(len(v))
		return utf8.RuneCountInString(v)
	case *List:
		return len(v.Items)
	case *Dict:
		return len(v.keys)
	case *undefined:
		return 0
	}
	fail("a value of type %s has no length", typeName(v))
	return 0
}
