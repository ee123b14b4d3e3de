package ask

import (
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/server/field"
)

// formTags is a field with a structural tag: an object, or a string of its JSON.
type formTags struct {
	f     *Held
	param string
}

func (t formTags) Take(r *field.Reader) error {
	text := ""
	switch r.Kind() {
	case '"':
		var err error
		if text, err = r.Text("a structural tag"); err != nil {
			return err
		}
	case '{':
		v, err := r.Raw()
		if err != nil {
			return err
		}
		text = string(v)
	default:
		return r.Wrong("a structural tag")
	}
	return t.f.Give(t.param, form.Tags, text)
}

func (t formTags) Value() any           { return nil }
func (t formTags) Schema() field.Schema { return field.Schema{"type": []string{"object", "string"}} }
