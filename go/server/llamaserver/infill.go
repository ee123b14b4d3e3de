package llamaserver

import (
	"context"
	"fmt"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// An infillQuery is a request to /infill.
type infillQuery struct {
	ask.Options
	prefix, suffix, begin string
	extra                 extraFiles
	wanted                field.Texts
}

func NewInfillQuery(m *ask.Model) *infillQuery {
	return ask.Filled(m, &infillQuery{Options: ask.NewOptions(m)})
}

func (q *infillQuery) Fields() []field.Field {
	return append(q.Options.Fields(),
		field.Input("input_prefix", field.Text(&q.prefix), "The text before the cursor."),
		field.Input("input_suffix", field.Text(&q.suffix), "The text after the cursor."),
		field.Input("input_extra", &q.extra, "Other files to know about."),
		field.Input("prompt", field.Text(&q.begin), "How the answer begins, in front of the cursor."),
		ask.NProbs(&q.Options), responseFields(&q.wanted),
	)
}

func (q *infillQuery) Source(ctx context.Context, m *ask.Model) (ask.Source, error) {
	ids, err := m.FillIn(ask.Infill{Files: q.extra, Before: ask.Prompt{{Text: q.prefix}}, After: q.suffix, Begin: q.begin})
	return ask.Source{Prompts: [][]int32{ids}, Media: make([][]engine.Medium, 1)}, err
}

func (q *infillQuery) Format(g *answer.Generation) answer.Format { return &nativeFormat{g, q.wanted} }

// extraFiles is the field input_extra.
type extraFiles []ask.File

const wantExtra = `an array of objects such as {"filename": "a.go", "text": "package a"}`

func (f *extraFiles) Take(r *field.Reader) error {
	*f = nil
	return r.Elements(wantExtra, func(i int) error {
		one := ask.File{Name: "tmp"}
		given := false
		err := r.Members(wantExtra, func(name string) error {
			var err error
			switch name {
			case "filename":
				err = r.Optional(&one.Name)
			case "text":
				given = true
				one.Text, err = r.Text("a string")
			default:
				_, err = r.Raw()
			}
			return field.Within(name, err)
		})
		if err == nil && !given {
			err = reply.Bad("text: missing, want a string")
		}
		*f = append(*f, one)
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
}

func (f *extraFiles) Value() any { return nil }

func (f *extraFiles) Schema() field.Schema {
	s := field.Schema{"type": "string"}
	return field.Schema{"type": "array", "items": field.Schema{
		"type": "object", "required": []string{"text"}, "properties": field.Schema{"filename": s, "text": s},
	}}
}
