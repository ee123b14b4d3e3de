package server

import (
	"fmt"
	"math"
)

// A neutral is a field of a feature that is not supported. It accepts the values that
// disable the feature, so that clients that send every field are served.
type neutral struct {
	is   any // the value shown
	ok   func(v any) bool
	want string
}

func (n neutral) take(r *reader) error {
	from := r.offset()
	var v any
	if err := r.decode(&v); err != nil {
		return err
	}
	if !n.ok(v) {
		return fmt.Errorf("%s is not supported yet, want %s", describe(r.since(from)), n.want)
	}
	return nil
}

func (n neutral) value() any { return n.is }

func (n neutral) schema() schema {
	return schema{"description": "Not supported yet: only " + n.want + "."}
}

// An idle is a parameter of a feature that cannot be enabled. It is shown as it was
// sent.
type idle float64

func (i *idle) take(r *reader) error {
	if r.kind() != '0' {
		return r.wrong("a number")
	}
	t, err := r.token()
	if err != nil {
		return err
	}
	f, err := t.Float()
	if err != nil || math.IsInf(f, 0) {
		return fmt.Errorf("%s, want a number", clip(t.String()))
	}
	*i = idle(f)
	return nil
}

func (i *idle) value() any     { return float64(*i) }
func (i *idle) schema() schema { return schema{"type": "number"} }
