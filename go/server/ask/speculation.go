package ask

import (
	"fmt"

	"github.com/quern-llm/quern/go/draft"
	"github.com/quern-llm/quern/go/server/field"
)

// Speculation holds the fields about drafts, which change no answer, only the time that it takes.
type Speculation struct{ draft.Options }

func newSpeculation() Speculation { return Speculation{draft.Defaults} }

func (s *Speculation) Fields() []field.Field {
	return []field.Field{
		field.Setting("speculative.types speculative.type", draftSources{&s.Sources},
			"Where drafts come from, to verify several tokens in one pass: auto is all there are, off none; ngram is the text "+
				"itself, recent are recent answers, mtp is a layer of the model that predicts further tokens, head layers "+
				"trained for it in a file of their own, model a draft model; or llama-server's names. Answers are the same in "+
				"any case."),
		field.Setting("speculative.n_max", field.Integer(&s.Max, 0, 1<<16),
			"Draft tokens at a time, at most, and never more than 31; as many are verified as make it faster."),
		field.Setting("speculative.n_min", field.Integer(&s.Min, 0, 1<<16), "Fewer drafts than that are not used."),
		field.Setting("speculative.p_min", field.Float(&s.MinChance, 0, 1),
			"Drafts end before one that is less likely to be right."),
	}
}

// draftSources is a list of sources of drafts.
type draftSources struct{ p *draft.Set }

func (d draftSources) Take(r *field.Reader) error {
	s, err := r.Text("a string")
	if err != nil {
		return err
	}
	t, err := draft.ParseSet(s)
	if err != nil {
		return fmt.Errorf("the string %s, %w", field.Quote(s), err)
	}
	*d.p = t
	return nil
}

// Value is as llama-server shows it where there is none.
func (d draftSources) Value() any {
	if *d.p == 0 {
		return "none"
	}
	return d.p.String()
}

func (d draftSources) Schema() field.Schema { return field.Schema{"type": "string"} }
