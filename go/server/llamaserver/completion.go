package llamaserver

import (
	"context"
	"strings"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A nativeQuery is a request to /completion.
type nativeQuery struct {
	ask.Options
	prompt ask.Prompts
	wanted field.Texts
}

func NewNativeQuery(m *ask.Model) *nativeQuery {
	return ask.Filled(m, &nativeQuery{Options: ask.NewOptions(m)})
}

func (q *nativeQuery) Fields() []field.Field {
	return append(q.Options.Fields(), ask.PromptField(&q.prompt), ask.NProbs(&q.Options), responseFields(&q.wanted))
}

func responseFields(l *field.Texts) field.Field {
	return field.Input("response_fields", l, "Send only these fields; a/b is b inside of a, and comes under that name.")
}

func (q *nativeQuery) Source(ctx context.Context, m *ask.Model) (ask.Source, error) {
	var src ask.Source
	for _, p := range q.prompt {
		one, err := p.Encode(ctx, m)
		if err != nil {
			return src, err
		}
		src.Add(one)
	}
	return src, nil
}

func (q *nativeQuery) Format(g *answer.Generation) answer.Format { return &nativeFormat{g, q.wanted} }

// nativeFormat encodes answers in the format of llama-server's own endpoints.
type nativeFormat struct {
	g      *answer.Generation
	wanted []string // fields; none: all
}

func (f *nativeFormat) Whole(answers []answer.Answer) any {
	all := make([]map[string]any, len(answers))
	for i := range answers {
		a := &answers[i]
		all[i] = pick(f.wanted, f.g.Native(a.Seq, a.Ending, a.Usage, a.Blocks.Join(answer.TextBlock), a.Tokens))
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

func (f *nativeFormat) Event(s *reply.Stream, e answer.Event) error {
	o := f.g.Opts
	switch {
	case e.Progress != nil && !o.Progress:
		return nil
	case e.End != nil:
		return s.Event(pick(f.wanted, f.g.Native(e.Seq, *e.End, e.Usage, e.Piece.Content(), e.Piece.Tokens)))
	}
	a := map[string]any{
		"index": e.Seq.Index, "content": e.Piece.Content(), "tokens": f.g.Ids(e.Piece.Tokens), "stop": false,
		"id_slot": e.Usage.Slot, "tokens_predicted": e.Usage.Generated, "tokens_evaluated": e.Usage.PromptTokens,
	}
	if o.Probs >= 0 && len(e.Piece.Tokens) > 0 {
		a["completion_probabilities"] = f.g.Probs(e.Piece.Tokens)
	}
	if o.Timings {
		a["timings"] = e.Timings()
	}
	if e.Progress != nil {
		a["prompt_progress"] = e.Progress.JSON()
	}
	return s.Event(a)
}

func (f *nativeFormat) End(*reply.Stream) error { return nil }

func (f *nativeFormat) Failed(s *reply.Stream, err *reply.Error) error { return s.Fail(err, "") }

// pick returns the wanted fields of an answer, all of them if wanted is empty. a/b is
// the member b of a.
func pick(wanted []string, answer map[string]any) map[string]any {
	if len(wanted) == 0 {
		return answer
	}
	out := map[string]any{}
	for _, path := range wanted {
		var v any = answer
		ok := true
		for _, name := range strings.Split(path, "/") {
			inside, _ := v.(map[string]any)
			if v, ok = inside[name]; !ok {
				break
			}
		}
		if ok {
			out[path] = v
		}
	}
	return out
}

// nativeSchema is the response of llama-server's own endpoints. response_fields may
// leave out any of its fields.
var nativeSchema = field.Schema{"type": []string{"object", "array"}, "properties": field.Schema{
	"content":   field.Schema{"type": "string"},
	"tokens":    field.Schema{"type": "array", "items": field.Schema{"type": "integer"}},
	"stop":      field.Schema{"type": "boolean"},
	"stop_type": field.Schema{"enum": []string{answer.StopNone, answer.StopEOS, answer.StopByWord, answer.StopLimit}},
	"timings":   field.SchemaOf(answer.Timings{}),
}}
