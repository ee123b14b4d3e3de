package server

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// An endpoint is a set of request formats.
type endpoint uint16

const (
	onChat endpoint = 1 << iota
	onText
	onNative
	onInfill
	onTokenize
	onDetokenize
	onTemplate
	onSlot

	onGenerate = onChat | onText | onNative | onInfill
)

// A field is what requests may say under a name. The table of all of them is
// what validation, defaults, /props and the OpenAPI document are made of.
type field struct {
	names []string // the first is ours, the others mean the same
	on    endpoint
	to    target
	doc   string
	need  endpoint // where it must be given
	input bool     // the text itself rather than a setting
}

// A target is where a field's value goes: it takes what is right, refuses what
// is not and says what would be.
type target interface {
	take(v jsontext.Value) error
	value() any // what it holds: before anything was taken, the default
	schema() schema
}

// A schema is a JSON schema.
type schema = map[string]any

// read takes the fields of a request. Those of other names are ignored, and
// null is as good as nothing.
func (q *query) read(m members, on endpoint) error { return q.take(m, on, true) }

// take is read, where fields that are needed may be missing unless whole is true.
func (q *query) take(m members, on endpoint, whole bool) error {
	for _, f := range fields(q) {
		if f.on&on == 0 {
			continue
		}
		given := ""
		for _, name := range f.names {
			v, ok := m[name]
			if !ok || v.Kind() == 'n' {
				continue
			}
			if given != "" && string(m[given]) != string(v) {
				return invalid(name, "differs from %s, which means the same; want one of them", given)
			}
			given = name
			if err := f.to.take(v); err != nil {
				return at(name, err)
			}
		}
		if whole && given == "" && f.need&on != 0 {
			return invalid(f.names[0], "missing, want %s", wants(f.to.schema()))
		}
	}
	return nil
}

// at adds the name of the field to an error about its value.
func at(name string, err error) error {
	if api, ok := err.(*apiError); ok { // which has a status of its own
		api.message, api.param = name+": "+api.message, name
		return api
	}
	return invalid(name, "%v", err)
}

// wants is a schema in words.
func wants(s schema) string {
	if text, ok := s["description"].(string); ok {
		return text
	}
	kind, _ := s["type"].(string)
	if kind == "string" {
		return "a string"
	}
	return "an " + kind
}

type number interface {
	~int | ~int32 | ~int64 | ~float32
}

// A numeric is a number in a range.
type numeric[T number] struct {
	p      *T
	lo, hi float64
}

func integer[T ~int | ~int32 | ~int64](p *T, lo, hi float64) target { return numeric[T]{p, lo, hi} }
func float(p *float32, lo, hi float64) target                       { return numeric[float32]{p, lo, hi} }

func (n numeric[T]) whole() bool { _, ok := any(T(0)).(float32); return !ok }

func (n numeric[T]) want() string {
	kind := "a number"
	if n.whole() {
		kind = "an integer"
	}
	return fmt.Sprintf("%s from %s to %s", kind, plain(n.lo), plain(n.hi))
}

func (n numeric[T]) take(v jsontext.Value) error {
	if v.Kind() != '0' {
		return wrong(v, n.want())
	}
	if i, err := strconv.ParseInt(string(v), 10, 64); err == nil && n.whole() {
		if float64(i) < n.lo || float64(i) > n.hi {
			return wrong(v, n.want())
		}
		*n.p = T(i)
		return nil
	}
	f, err := strconv.ParseFloat(string(v), 64)
	// Some languages write 16 as 16.0. Beyond 2^53 such numbers are not whole
	// any more.
	if err != nil || f < n.lo || f > n.hi || n.whole() && (f != math.Trunc(f) || math.Abs(f) > 1<<53) {
		return wrong(v, n.want())
	}
	*n.p = T(f)
	return nil
}

func (n numeric[T]) value() any { return *n.p }

func (n numeric[T]) schema() schema {
	kind := "number"
	if n.whole() {
		kind = "integer"
	}
	return schema{"type": kind, "minimum": n.lo, "maximum": n.hi}
}

// plain is a bound as people write it.
func plain(f float64) string {
	switch f {
	case math.MaxInt32:
		return "2147483647"
	case math.MaxInt64:
		return "9223372036854775807"
	case math.MinInt64:
		return "-9223372036854775808"
	}
	return strconv.FormatFloat(f, 'f', -1, 64)
}

// millis is a time in milliseconds.
type millis struct {
	p  *time.Duration
	lo float64
}

func (m millis) take(v jsontext.Value) error {
	n := int64(*m.p / time.Millisecond)
	if err := integer(&n, m.lo, math.MaxInt32).take(v); err != nil {
		return err
	}
	*m.p = time.Duration(n) * time.Millisecond
	return nil
}

func (m millis) value() any { return int64(*m.p / time.Millisecond) }

func (m millis) schema() schema {
	return schema{"type": "integer", "minimum": m.lo, "maximum": math.MaxInt32}
}

// boolean is true or false.
type boolean struct{ p *bool }

func (b boolean) take(v jsontext.Value) error {
	if k := v.Kind(); k != 't' && k != 'f' {
		return wrong(v, "true or false")
	}
	*b.p = v.Kind() == 't'
	return nil
}

func (b boolean) value() any     { return *b.p }
func (b boolean) schema() schema { return schema{"type": "boolean"} }

// text is a string, one of some where those are given.
type text struct {
	p    *string
	some []string
}

func (t text) take(v jsontext.Value) error {
	want := "a string"
	if t.some != nil {
		want = "one of " + strings.Join(t.some, ", ")
	}
	if v.Kind() != '"' {
		return wrong(v, want)
	}
	s := str(v)
	if t.some != nil && !slices.Contains(t.some, s) {
		return wrong(v, want)
	}
	*t.p = s
	return nil
}

func (t text) value() any { return *t.p }

func (t text) schema() schema {
	if t.some != nil {
		return schema{"type": "string", "enum": t.some}
	}
	return schema{"type": "string"}
}

// A neutral is a field for something that is not built. It takes the values
// that ask for nothing, so that clients which send all they know are served.
type neutral struct {
	is   any // the value that shows
	ok   func(v any) bool
	want string
}

func (n neutral) take(v jsontext.Value) error {
	var x any
	if err := json.Unmarshal(v, &x); err != nil || !n.ok(x) {
		return fmt.Errorf("%s is not supported yet, want %s", describe(v), n.want)
	}
	return nil
}

func (n neutral) value() any { return n.is }

func (n neutral) schema() schema {
	return schema{"description": "Not supported yet: only " + n.want + "."}
}

// always is a neutral that only has one value.
func always(is any) neutral {
	return neutral{is, func(v any) bool {
		if n, ok := is.(int); ok {
			return v == float64(n)
		}
		return v == is
	}, fmt.Sprint(is)}
}

// within is a neutral that takes numbers in a range.
func within(is, lo, hi float64, want string) neutral {
	return neutral{is, func(v any) bool { n, ok := v.(float64); return ok && n >= lo && n <= hi }, want}
}

// idle is a setting of something that other fields cannot turn on: any number
// will do.
func idle(is any) neutral {
	return neutral{is, func(v any) bool { _, ok := v.(float64); return ok }, "a number, without effect"}
}

// empty is a neutral that takes nothing: "", [], {} or false.
func empty(is any) neutral {
	return neutral{is, func(v any) bool {
		switch v := v.(type) {
		case string:
			return v == ""
		case []any:
			return len(v) == 0
		case map[string]any:
			return len(v) == 0 && is == nil
		case bool:
			return !v
		}
		return false
	}, "none"}
}
