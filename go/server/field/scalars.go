package field

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

type number interface {
	~int | ~int32 | ~int64 | ~float32
}

// A numeric is a number in a range.
type numeric[T number] struct {
	p      *T
	lo, hi float64
}

// Integer returns a target for an integer in a range.
func Integer[T ~int | ~int32 | ~int64](p *T, lo, hi float64) Target { return numeric[T]{p, lo, hi} }

// Float returns a target for a number in a range.
func Float(p *float32, lo, hi float64) Target { return numeric[float32]{p, lo, hi} }

func (n numeric[T]) whole() bool { _, ok := any(T(0)).(float32); return !ok }

func (n numeric[T]) want() string {
	kind := "a number"
	if n.whole() {
		kind = "an integer"
	}
	return fmt.Sprintf("%s from %s to %s", kind, plain(n.lo), plain(n.hi))
}

func (n numeric[T]) Take(r *Reader) error {
	if r.Kind() != '0' {
		return r.Wrong(n.want())
	}
	v, err := r.Raw()
	if err != nil {
		return err
	}
	if i, err := strconv.ParseInt(string(v), 10, 64); err == nil && n.whole() {
		if float64(i) < n.lo || float64(i) > n.hi {
			return Wrong(v, n.want())
		}
		*n.p = T(i)
		return nil
	}
	f, err := strconv.ParseFloat(string(v), 64)
	// Some languages write 16 as 16.0. Beyond 2^53 floats no longer represent all
	// integers.
	if err != nil || f < n.lo || f > n.hi || n.whole() && (f != math.Trunc(f) || math.Abs(f) > 1<<53) {
		return Wrong(v, n.want())
	}
	*n.p = T(f)
	return nil
}

func (n numeric[T]) Value() any { return *n.p }

func (n numeric[T]) Schema() Schema {
	kind := "number"
	if n.whole() {
		kind = "integer"
	}
	return Schema{"type": kind, "minimum": n.lo, "maximum": n.hi}
}

// plain formats a bound.
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

// Millis returns a target for a time in milliseconds, of lo at least.
func Millis(p *time.Duration, lo float64) Target { return millis{p, lo} }

type millis struct {
	p  *time.Duration
	lo float64
}

func (m millis) Take(r *Reader) error {
	var n int64
	err := Integer(&n, m.lo, math.MaxInt32).Take(r)
	*m.p = time.Duration(n) * time.Millisecond
	return err
}

func (m millis) Value() any { return int64(*m.p / time.Millisecond) }

func (m millis) Schema() Schema {
	return Schema{"type": "integer", "minimum": m.lo, "maximum": math.MaxInt32}
}

// Boolean returns a target for true or false.
func Boolean(p *bool) Target { return boolean{p} }

type boolean struct{ p *bool }

func (b boolean) Take(r *Reader) error {
	k := r.Kind()
	if k != 't' && k != 'f' {
		return r.Wrong("true or false")
	}
	*b.p = k == 't'
	_, err := r.Token()
	return err
}

func (b boolean) Value() any     { return *b.p }
func (b boolean) Schema() Schema { return Schema{"type": "boolean"} }

// Text returns a target for a string.
func Text(p *string) Target { return text{p: p} }

// OneOf returns a target for a string that is one of some.
func OneOf(p *string, some ...string) Target { return text{p, some} }

// text is a string, or an enum where its values are given.
type text struct {
	p    *string
	some []string
}

func (t text) Take(r *Reader) error {
	want := "a string"
	if t.some != nil {
		want = "one of " + strings.Join(t.some, ", ")
	}
	s, err := r.Text(want)
	if err != nil {
		return err
	}
	if t.some != nil && !slices.Contains(t.some, s) {
		return fmt.Errorf("the string %s, want %s", Quote(s), want)
	}
	*t.p = s
	return nil
}

func (t text) Value() any { return *t.p }

func (t text) Schema() Schema {
	if t.some != nil {
		return Schema{"type": "string", "enum": t.some}
	}
	return Schema{"type": "string"}
}

// Texts are strings.
type Texts []string

func (l *Texts) Take(r *Reader) error {
	*l = Texts{}
	return r.Elements("an array of strings", func(int) error {
		s, err := r.Text("an array of strings")
		*l = append(*l, s)
		return err
	})
}

func (l *Texts) Value() any { return append([]string{}, *l...) }

func (l *Texts) Schema() Schema {
	return Schema{"type": "array", "items": Schema{"type": "string"}}
}

// Object is a target that takes any object, for its senders' sake.
type Object struct{}

func (Object) Take(r *Reader) error {
	if r.Kind() != '{' {
		return r.Wrong("an object")
	}
	_, err := r.Raw()
	return err
}

func (Object) Value() any     { return nil }
func (Object) Schema() Schema { return Schema{"type": "object"} }
