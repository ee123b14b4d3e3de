package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/form"
)

// maxStructures bounds them.
const maxStructures = 1024

// formTags is a field with vLLM's structural tags: an object, or a string of its JSON.
type formTags struct {
	f     *held
	param string
}

// tags are read of it.
type tags form.Tagged

func (t formTags) take(r *reader) error {
	var all tags
	read := func(r *reader) error {
		return r.members("an object with structures and triggers", func(name string) error {
			switch name {
			case "structures", "triggers":
				return wrap(name, all.member(r, name))
			case "format":
				return errors.New("format is not supported, want structures and triggers")
			}
			_, err := r.raw()
			return err
		})
	}
	var err error
	if r.kind() == '"' {
		var text string
		if text, err = r.text("an object"); err == nil {
			inner := newReader([]byte(text))
			if err = read(inner); err == nil {
				err = inner.end()
			}
		}
	} else {
		err = read(r)
	}
	if err == nil {
		err = all.check()
	}
	if err == nil {
		err = t.f.give(t.param, form.Tags, "")
		t.f.Tagged = form.Tagged(all)
	}
	return err
}

func (t formTags) value() any     { return nil }
func (t formTags) schema() schema { return schema{"type": []string{"object", "string"}} }

// member reads one of the two members.
func (t *tags) member(r *reader, name string) error {
	if name == "triggers" {
		return (*texts)(&t.Triggers).take(r)
	}
	return r.elements("an array of structures", func(i int) error {
		var s form.Structure
		err := r.members("an object with begin, schema and end", func(name string) error {
			var err error
			switch name {
			case "begin":
				s.Begin, err = r.text("a string")
			case "end":
				s.End, err = r.text("a string")
			case "schema":
				inner := held{}
				err = formSchema{&inner, "schema", false}.take(r)
				s.Schema = inner.Text
			default:
				_, err = r.raw()
			}
			return wrap(name, err)
		})
		if len(t.Structures) == maxStructures {
			err = fmt.Errorf("more than %d structures", maxStructures)
		}
		t.Structures = append(t.Structures, s)
		return wrap(fmt.Sprintf("element %d", i), err)
	})
}

func (t *tags) check() error {
	if len(t.Triggers) == 0 || len(t.Structures) == 0 {
		return errors.New("without structures or triggers, want both")
	}
	for _, trigger := range t.Triggers {
		if trigger == "" {
			return errors.New("triggers: an empty text")
		}
	}
	for i, s := range t.Structures {
		ok := false
		for _, trigger := range t.Triggers {
			ok = ok || strings.HasPrefix(s.Begin, trigger)
		}
		if !ok {
			return fmt.Errorf("structures: element %d: begins with no trigger", i)
		}
		if s.Schema == "" {
			return fmt.Errorf("structures: element %d: schema: missing, want a JSON schema", i)
		}
	}
	return nil
}
