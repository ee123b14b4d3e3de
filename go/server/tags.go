package server

import "github.com/quern-llm/quern/go/form"

// formTags is a field with a structural tag: an object, or a string of its JSON.
type formTags struct {
	f     *held
	param string
}

func (t formTags) take(r *reader) error {
	text := ""
	switch r.kind() {
	case '"':
		var err error
		if text, err = r.text("a structural tag"); err != nil {
			return err
		}
	case '{':
		v, err := r.raw()
		if err != nil {
			return err
		}
		text = string(v)
	default:
		return r.wrong("a structural tag")
	}
	return t.f.give(t.param, form.Tags, text)
}

func (t formTags) value() any     { return nil }
func (t formTags) schema() schema { return schema{"type": []string{"object", "string"}} }
