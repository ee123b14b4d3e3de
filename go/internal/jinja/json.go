package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
)

// FromJSON makes a value of JSON, with objects in the order of their keys. Its texts are from outside.
func FromJSON(data []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := fromJSON(d, 0)
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the JSON value")
	}
	return v, nil
}

func fromJSON(d *json.Decoder, depth int) (any, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("JSON is nested more than %d deep", maxNesting)
	}
	t, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case json.Number:
		return jsonNumber(string(t))
	case json.Delim:
		if t == '[' {
			l := &List{}
			for d.More() {
				v, err := fromJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				l.Items = append(l.Items, v)
			}
			_, err := d.Token()
			return l, err
		}
		o := &Dict{}
		for d.More() {
			k, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := fromJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			o.Set(Outside(k.(string)), v)
		}
		_, err := d.Token()
		return o, err
	}
	if s, ok := t.(string); ok {
		return Outside(s), nil
	}
	return t, nil // nil or bool
}

func jsonNumber(s string) (any, error) {
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	if !strings.ContainsAny(s, ".eE") && len(s) < 4300 { // Python's limit
		i, _ := new(big.Int).SetString(s, 10)
		return i, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, fmt.Errorf("number %.40s is out of range", s)
	}
	return f, nil
}

// encoder is Python's json.dumps.
type encoder struct {
	it          *interp
	b           builder
	indent      string
	lines       bool // with indent, each item is on a line of its own
	comma, sep  string
	ascii, sort bool
}

func toJSON(it *interp, v any, a args) any {
	p := a.bind(it, "tojson", "ensure_ascii? indent? separators? sort_keys?")
	e := &encoder{it: it, comma: ", ", sep: ": ", ascii: p.isTrue(0), sort: p.isTrue(3)}
	switch by := plain(p.or(1, nil)).(type) {
	case nil:
	case string:
		e.lines, e.indent = true, by
	default:
		e.lines, e.indent = true, it.repeat(" ", int64(integer(by, "indent"))).(string)
	}
	if e.lines {
		e.comma = ","
	}
	if s := p.or(2, nil); s != nil {
		marks := it.iterate(s)
		if len(marks) != 2 {
			fail("separators of tojson are two texts")
		}
		e.comma, e.sep = it.text(marks[0]), it.text(marks[1])
	}
	e.value(v, 0)
	return e.b.value()
}

func (e *encoder) write(s string) {
	e.it.alloc(len(s))
	e.b.WriteString(s)
}

func (e *encoder) value(v any, depth int) {
	defer e.it.enter()()
	e.it.step(1)
	switch v := v.(type) {
	case nil:
		e.write("null")
	case bool:
		e.write(strconv.FormatBool(v))
	case float64:
		switch {
		case math.IsNaN(v):
			e.write("NaN")
		case math.IsInf(v, 0):
			e.write(strings.Replace(floatText(v), "inf", "Infinity", 1))
		default:
			e.write(floatText(v))
		}
	case int64, *big.Int:
		e.write(e.it.text(v))
	case string:
		e.str(v)
	case *Text:
		at := e.b.Len()
		e.str(v.s)
		e.b.mark(at)
	case *List:
		e.items("[]", len(v.Items), depth, func(i int) { e.value(v.Items[i], depth+1) })
	case *Dict:
		order := e.it.indices(len(v.keys))
		if e.sort {
			order = e.it.sorted(order, v.keys, false)
		}
		order = slices.Clip(order)
		e.items("{}", len(order), depth, func(i int) {
			at := order[i].(int64)
			e.key(v.keys[at])
			e.write(e.sep)
			e.value(v.values[at], depth+1)
		})
	case *undefined:
		fail("tojson of what is not there: %s", v.why)
	default:
		fail("tojson cannot take a value of type %s", typeName(v))
	}
}

func (e *encoder) items(marks string, n, depth int, item func(i int)) {
	e.write(marks[:1])
	newline := func(depth int) {
		if e.lines {
			e.write("\n")
			e.it.step(depth / 8)
			for range depth {
				e.write(e.indent)
			}
		}
	}
	for i := range n {
		if i > 0 {
			e.write(e.comma)
		}
		newline(depth + 1)
		item(i)
	}
	if n > 0 {
		newline(depth)
	}
	e.write(marks[1:])
}

func (e *encoder) key(k any) {
	switch k := k.(type) {
	case string, *Text:
		e.value(k, 0)
	default: // null, true and numbers, in quotes
		e.write(`"`)
		e.value(k, 0)
		e.write(`"`)
	}
}

func (e *encoder) str(s string) {
	e.it.alloc(len(s) + 2)
	e.it.scan(len(s))
	b := &e.b
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case strings.ContainsRune("\n\r\t\b\f", r):
			b.WriteByte('\\')
			b.WriteByte("ntrbf"[strings.IndexRune("\n\t\r\b\f", r)])
		case r < 0x20 || e.ascii && r > 0x7e && r < 0x10000:
			e.it.alloc(32) // and a step
			fmt.Fprintf(b, `\u%04x`, r)
		case e.ascii && r >= 0x10000:
			e.it.alloc(32)
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(b, `\u%04x\u%04x`, hi, lo)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
}
