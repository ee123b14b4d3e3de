package server

import "fmt"

// Defaults are fields of requests that leave them out: those of a body, in JSON.
// Each endpoint takes the ones that it has.
type Defaults struct{ fields members }

// ReadDefaults reads a JSON object of fields, and refuses what requests could
// not say.
func ReadDefaults(body []byte) (Defaults, error) {
	m, err := parseBody(body)
	if err != nil {
		return Defaults{}, err
	}
	for name := range m {
		if !known(name) {
			return Defaults{}, fmt.Errorf("no request has a field %s", quote(name))
		}
	}
	return Defaults{m}, new(query).take(m, onGenerate|onTemplate, false)
}

// known reports whether requests that generate have a field of that name.
func known(name string) bool {
	for _, f := range fields(new(query)) {
		for _, n := range f.names {
			if n == name && f.on&onGenerate != 0 {
				return true
			}
		}
	}
	return false
}

// fill gives q the defaults.
func (d Defaults) fill(q *query) {
	if d.fields != nil {
		_ = q.take(d.fields, onGenerate|onTemplate, false) // which ReadDefaults has seen
	}
}
