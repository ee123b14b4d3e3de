package server

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/server/field"
)

// A neutral is a field of a feature that is not supported. It accepts the values that
// disable the feature, so that clients that send every field are served.
type neutral struct {
	is   any // the value shown
	ok   func(v any) bool
	want string
}

func (n neutral) Take(r *field.Reader) error {
	from := r.Offset()
	var v any
	if err := r.Decode(&v); err != nil {
		return err
	}
	if !n.ok(v) {
		return fmt.Errorf("%s is not supported yet, want %s", field.Describe(r.Since(from)), n.want)
	}
	return nil
}

func (n neutral) Value() any { return n.is }

func (n neutral) Schema() field.Schema {
	return field.Schema{"description": "Not supported yet: only " + n.want + "."}
}

// An idle is a parameter of a feature that cannot be enabled. It is shown as it was
// sent.
type idle float64

func (i *idle) Take(r *field.Reader) error {
	if r.Kind() != '0' {
		return r.Wrong("a number")
	}
	t, err := r.Token()
	if err != nil {
		return err
	}
	f, err := t.Float()
	if err != nil || math.IsInf(f, 0) {
		return fmt.Errorf("%s, want a number", field.Clip(t.String()))
	}
	*i = idle(f)
	return nil
}

func (i *idle) Value() any           { return float64(*i) }
func (i *idle) Schema() field.Schema { return field.Schema{"type": "number"} }
