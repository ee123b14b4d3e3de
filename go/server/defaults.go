package server

import (
	"fmt"
	"slices"
)

// Defaults are values for fields that a request leaves out, as a JSON body. Each
// endpoint uses those of the fields that it has.
type Defaults struct{ body []byte }

// ReadDefaults reads a JSON object of fields, and refuses values that a request could
// not have.
func ReadDefaults(body []byte) (Defaults, error) {
	m := &Model{}
	var known []string
	for _, q := range []query{newChatQuery(m), newTextQuery(m), newNativeQuery(m), newInfillQuery(m), newTemplateQuery(m)} {
		if err := readSome(body, q.fields()); err != nil {
			return Defaults{}, err
		}
		for _, f := range q.fields() {
			known = append(known, f.names...)
		}
	}
	r := newReader(body)
	err := r.members("an object", func(name string) error {
		if !slices.Contains(known, name) {
			return fmt.Errorf("no request has a field %s", quote(name))
		}
		_, err := r.raw()
		return err
	})
	return Defaults{body}, err
}

// filled gives q the model's defaults.
func filled[Q query](m *Model, q Q) Q {
	if m.Defaults.body != nil {
		_ = readSome(m.Defaults.body, q.fields()) // validated by ReadDefaults
		if p, ok := any(q).(interface{ common() *options }); ok {
			p.common().form.usual = true
		}
	}
	return q
}
