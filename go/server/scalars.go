package server

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

// integer returns a target for an integer in a range.
func integer[T ~int | ~int32 | ~int64](p *T, lo, hi float64) target { return numeric[T]{p, lo, hi} }

// float returns a target for a number in a range.
func float(p *float32, lo, hi float64) target { return numeric[float32]{p, lo, hi} }

func (n numeric[T]) whole() bool { _, ok := any(T(0)).(float32); return !ok }

func (n numeric[T]) want() string {
	kind := "a number"
	if n.whole() {
		kind = "an integer"
	}
	return fmt.Sprintf("%s from %s to %s", kind, plain(n.lo), plain(n.hi))
}

func (n numeric[T]) take(r *reader) error {
	if r.kind() != '0' {
		return r.wrong(n.want())
	}
	v, err := r.raw()
	if err != nil {
		return err
	}
	if i, err := strconv.ParseInt(string(v), 10, 64); err == nil && n.whole() {
		if float64(i) < n.lo || float64(i) > n.hi {
			return wrong(v, n.want())
		}
		*n.p = T(i)
		return nil
	}
	f, err := strconv.ParseFloat(string(v), 64)
	// Some languages write 16 as 16.0. Beyond 2^53 floats no longer represent all
	// integers.
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

// newMillis returns a target for a time in milliseconds, of lo at least.
func newMillis(p *time.Duration, lo float64) target { return millis{p, lo} }

type millis struct {
	p  *time.Duration
	lo float64
}

func (m millis) take(r *reader) error {
	var n int64
	err := integer(&n, m.lo, math.MaxInt32).take(r)
	*m.p = time.Duration(n) * time.Millisecond
	return err
}

func (m millis) value() any { return int64(*m.p / time.Millisecond) }

func (m millis) schema() schema {
	return schema{"type": "integer", "minimum": m.lo, "maximum": math.MaxInt32}
}

// newBoolean returns a target for true or false.
func newBoolean(p *bool) target { return boolean{p} }

type boolean struct{ p *bool }

func (b boolean) take(r *reader) error {
	k := r.kind()
	if k != 't' && k != 'f' {
		return r.wrong("true or false")
	}
	*b.p = k == 't'
	_, err := r.token()
	return err
}

func (b boolean) value() any     { return *b.p }
func (b boolean) schema() schema { return schema{"type": "boolean"} }

// newText returns a target for a string.
func newText(p *string) target { return text{p: p} }

// oneOf returns a target for a string that is one of some.
func oneOf(p *string, some ...string) target { return text{p, some} }

// text is a string, or an enum where its values are given.
type text struct {
	p    *string
	some []string
}

func (t text) take(r *reader) error {
	want := "a string"
	if t.some != nil {
		want = "one of " + strings.Join(t.some, ", ")
	}
	s, err := r.text(want)
	if err != nil {
		return err
	}
	if t.some != nil && !slices.Contains(t.some, s) {
		return fmt.Errorf("the string %s, want %s", quote(s), want)
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

// texts are strings.
type texts []string

func (l *texts) take(r *reader) error {
	*l = texts{}
	return r.elements("an array of strings", func(int) error {
		s, err := r.text("an array of strings")
		*l = append(*l, s)
		return err
	})
}

func (l *texts) value() any { return append([]string{}, *l...) }

func (l *texts) schema() schema {
	return schema{"type": "array", "items": schema{"type": "string"}}
}
