package ask

import (
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// maxStops is the maximum number of stop words of a request.
const maxStops = 64

// stopWords are the strings at which an answer ends.
type stopWords []string

const wantStop = "a string or an array of at most 64"

func (s *stopWords) Take(r *field.Reader) error {
	*s = nil
	add := func() error {
		word, err := r.Text(wantStop)
		if word != "" { // an empty word would match everywhere
			*s = append(*s, word)
		}
		return err
	}
	if r.Kind() != '[' {
		return add()
	}
	err := r.Elements(wantStop, func(int) error { return add() })
	if err == nil && len(*s) > maxStops {
		err = reply.Bad("%d strings, want at most %d", len(*s), maxStops)
	}
	return err
}

func (s *stopWords) Value() any { return append([]string{}, *s...) }

func (s *stopWords) Schema() field.Schema {
	one := field.Schema{"type": "string"}
	return field.Schema{"description": wantStop,
		"anyOf": []field.Schema{one, {"type": "array", "items": one, "maxItems": maxStops}}}
}
