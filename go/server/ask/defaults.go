package ask

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/server/field"
)

// Defaults are values for fields that a request leaves out, as a JSON body. Each
// endpoint uses those of the fields that it has.
type Defaults struct{ body []byte }

// ReadDefaults reads a JSON object of fields, and refuses values that none of some requests could
// have.
func ReadDefaults(body []byte, queries ...field.Query) (Defaults, error) {
	var known []string
	for _, q := range queries {
		if err := field.ReadSome(body, q.Fields()); err != nil {
			return Defaults{}, err
		}
		for _, f := range q.Fields() {
			known = append(known, f.Names...)
		}
	}
	r := field.NewReader(body)
	err := r.Members("an object", func(name string) error {
		if !slices.Contains(known, name) {
			return fmt.Errorf("no request has a field %s", field.Quote(name))
		}
		_, err := r.Raw()
		return err
	})
	return Defaults{body}, err
}

// Filled gives q the model's defaults, and above them those of its persona.
func Filled[Q field.Query](m *Model, q Q) Q {
	if m.Defaults.body != nil {
		_ = field.ReadSome(m.Defaults.body, q.Fields()) // validated by ReadDefaults
		if p, ok := any(q).(interface{ Common() *Options }); ok {
			p.Common().Form.usual = true
		}
	}
	if p, ok := any(q).(interface{ Common() *Options }); ok {
		p.Common().TakePersona(m)
	}
	return q
}
