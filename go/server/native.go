package server

import (
	"context"
	"strings"

	"github.com/quern-llm/quern/go/engine"
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

func newNativeQuery(m *ask.Model) *nativeQuery {
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
		ids, err := p.Encode(m)
		if err != nil {
			return src, err
		}
		src.Prompts = append(src.Prompts, ids)
	}
	return src, nil
}

func (q *nativeQuery) format(g *generation, _ envelope) format { return &nativeFormat{g, q.wanted} }

// nativeFormat encodes answers in the format of llama-server's own endpoints.
type nativeFormat struct {
	g      *generation
	wanted []string // fields; none: all
}

func (f *nativeFormat) whole(answers []answer) any {
	all := make([]map[string]any, len(answers))
	for i := range answers {
		a := &answers[i]
		all[i] = pick(f.wanted, f.g.native(a.seq, a.ending, a.usage, a.blocks.join(textBlock), a.tokens))
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// ids returns the token ids of a piece, if they were requested.
func (g *generation) ids(tokens []engine.Token) []int32 {
	out := []int32{}
	if g.opts.ReturnTokens || g.opts.Stream {
		for _, t := range tokens {
			out = append(out, t.ID)
		}
	}
	return out
}

// native is a whole answer, or the last event of a stream, in llama-server's format.
func (g *generation) native(seq *sequence, end ending, u engine.Usage, content string, tokens []engine.Token) map[string]any {
	a := map[string]any{
		"index": seq.index, "content": content, "tokens": g.ids(tokens), "stop": true,
		"id_slot": u.Slot, "model": g.model.Name,
		"tokens_predicted": u.Generated, "tokens_evaluated": u.PromptTokens, "tokens_cached": u.CachedTokens,
		"prompt":       g.model.Spell(g.prompts[seq.index/g.opts.N]),
		"has_new_line": seq.hasLine.Load(), "truncated": end.truncated,
		"stop_type": end.stop, "stopping_word": end.word,
		"generation_settings": g.opts.Settings(), "timings": timingsOf(u),
	}
	if g.opts.Probs >= 0 {
		a["completion_probabilities"] = g.probs(tokens)
	}
	return a
}

func (f *nativeFormat) event(s *reply.Stream, e event) error {
	o := f.g.opts
	switch {
	case e.progress != nil && !o.Progress:
		return nil
	case e.end != nil:
		return s.Event(pick(f.wanted, f.g.native(e.seq, *e.end, e.usage, e.piece.content(), e.piece.tokens)))
	}
	a := map[string]any{
		"index": e.seq.index, "content": e.piece.content(), "tokens": f.g.ids(e.piece.tokens), "stop": false,
		"id_slot": e.usage.Slot, "tokens_predicted": e.usage.Generated, "tokens_evaluated": e.usage.PromptTokens,
	}
	if o.Probs >= 0 && len(e.piece.tokens) > 0 {
		a["completion_probabilities"] = f.g.probs(e.piece.tokens)
	}
	if o.Timings {
		a["timings"] = e.timings()
	}
	if e.progress != nil {
		a["prompt_progress"] = e.progress.json()
	}
	return s.Event(a)
}

func (f *nativeFormat) end(*reply.Stream) error { return nil }

func (f *nativeFormat) failed(s *reply.Stream, err *reply.Error) error { return s.Fail(err, "") }

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
