package server

import (
	"fmt"

	"github.com/quern-llm/quern/go/draft"
)

// speculation holds the fields about drafts, which change no answer, only the time that it takes.
type speculation struct{ draft.Options }

func newSpeculation() speculation { return speculation{draft.Defaults} }

func (s *speculation) fields() []field {
	return []field{
		setting("speculative.types speculative.type", draftSources{&s.Sources}, "Where drafts come from, to verify several tokens in one pass: auto is all there are, off none; ngram is the text itself, recent are recent answers, mtp is a layer of the model that predicts further tokens, head layers trained for it in a file of their own, model a draft model; or llama-server's names. Answers are the same in any case."),
		setting("speculative.n_max", integer(&s.Max, 0, 1<<16), "Draft tokens at a time, at most, and never more than 31; as many are verified as make it faster."),
		setting("speculative.n_min", integer(&s.Min, 0, 1<<16), "Fewer drafts than that are not used."),
		setting("speculative.p_min", float(&s.MinChance, 0, 1), "Drafts end before one that is less likely to be right."),
	}
}

// draftSources is a list of sources of drafts.
type draftSources struct{ p *draft.Set }

func (d draftSources) take(r *reader) error {
	s, err := r.text("a string")
	if err != nil {
		return err
	}
	t, err := draft.ParseSet(s)
	if err != nil {
		return fmt.Errorf("the string %s, %w", quote(s), err)
	}
	*d.p = t
	return nil
}

// value is as llama-server shows it where there is none.
func (d draftSources) value() any {
	if *d.p == 0 {
		return "none"
	}
	return d.p.String()
}

func (d draftSources) schema() schema { return schema{"type": "string"} }
