package ask

import (
	"fmt"
	"math"

	"github.com/quern-llm/quern/go/server/field"
)

// A Neutral is a field of a feature that is not supported. It accepts the values that
// disable the feature, so that clients that send every field are served.
type Neutral struct {
	Is   any // the value shown
	Ok   func(v any) bool
	Want string
}

func (n Neutral) Take(r *field.Reader) error {
	from := r.Offset()
	var v any
	if err := r.Decode(&v); err != nil {
		return err
	}
	if !n.Ok(v) {
		return fmt.Errorf("%s is not supported yet, want %s", field.Describe(r.Since(from)), n.Want)
	}
	return nil
}

func (n Neutral) Value() any { return n.Is }

func (n Neutral) Schema() field.Schema {
	return field.Schema{"description": "Not supported yet: only " + n.Want + "."}
}

// An Idle is a parameter of a feature that cannot be enabled. It is shown as it was
// sent.
type Idle float64

func (i *Idle) Take(r *field.Reader) error {
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
	*i = Idle(f)
	return nil
}

func (i *Idle) Value() any           { return float64(*i) }
func (i *Idle) Schema() field.Schema { return field.Schema{"type": "number"} }
