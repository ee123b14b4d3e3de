package server

import (
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/grammar"
	"github.com/quern-llm/quern/go/grammar/jsonschema"
)

// tags is vLLM's structural tags: free text, but what begins with a trigger is one of some
// structures, each a JSON schema between two texts.
type tags struct {
	triggers   texts
	structures []structure
}

type structure struct{ begin, end, schema string }

// maxStructures bounds them.
const maxStructures = 1024

// formTags is a field with tags: an object, or a string of its JSON.
type formTags struct {
	f     *form
	param string
}

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
		err = t.f.give(t.param, "structural_tag", "")
		t.f.tags = all
	}
	return err
}

func (t formTags) value() any     { return nil }
func (t formTags) schema() schema { return schema{"type": []string{"object", "string"}} }

// member reads one of the two members.
func (t *tags) member(r *reader, name string) error {
	if name == "triggers" {
		return t.triggers.take(r)
	}
	return r.elements("an array of structures", func(i int) error {
		var s structure
		err := r.members("an object with begin, schema and end", func(name string) error {
			var err error
			switch name {
			case "begin":
				s.begin, err = r.text("a string")
			case "end":
				s.end, err = r.text("a string")
			case "schema":
				inner := form{}
				err = formSchema{&inner, "schema", false}.take(r)
				s.schema = inner.text
			default:
				_, err = r.raw()
			}
			return wrap(name, err)
		})
		if len(t.structures) == maxStructures {
			err = fmt.Errorf("more than %d structures", maxStructures)
		}
		t.structures = append(t.structures, s)
		return wrap(fmt.Sprintf("element %d", i), err)
	})
}

func (t *tags) check() error {
	if len(t.triggers) == 0 || len(t.structures) == 0 {
		return errors.New("without structures or triggers, want both")
	}
	for _, trigger := range t.triggers {
		if trigger == "" {
			return errors.New("triggers: an empty text")
		}
	}
	for i, s := range t.structures {
		ok := false
		for _, trigger := range t.triggers {
			ok = ok || strings.HasPrefix(s.begin, trigger)
		}
		if !ok {
			return fmt.Errorf("structures: element %d: begins with no trigger", i)
		}
		if s.schema == "" {
			return fmt.Errorf("structures: element %d: schema: missing, want a JSON schema", i)
		}
	}
	return nil
}

// language returns the texts.
func (t *tags) language(g *grammar.Grammar, opts jsonschema.Options) (grammar.Expr, error) {
	var free grammar.And
	for _, trigger := range t.triggers {
		free = append(free, grammar.Lacks(trigger))
	}
	var alt grammar.Alt
	for _, s := range t.structures {
		e, err := jsonschema.Add(g, []byte(s.schema), opts)
		if err != nil {
			return nil, err
		}
		alt = append(alt, grammar.Seq{grammar.Lit(s.begin), e, grammar.Lit(s.end)})
	}
	return grammar.Seq{free, grammar.Repeat{Expr: grammar.Seq{alt, free}, Min: 0, Max: -1}}, nil
}
