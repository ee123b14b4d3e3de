package server

import "github.com/quern-llm/quern/go/engine"

// nativeSource is the prompts of /completion.
func nativeSource(m *Model, q *query) (source, error) {
	var src source
	for _, p := range q.prompt {
		ids, err := p.encode(m)
		if err != nil {
			return src, err
		}
		src.prompts = append(src.prompts, ids)
	}
	return src, nil
}

// nativeFormat writes answers as llama-server's own endpoints do.
type nativeFormat struct{ g *generation }

func (s *Server) nativeFormat(g *generation) format { return &nativeFormat{g} }

func (f *nativeFormat) whole(answers []answer) any {
	all := make([]map[string]any, len(answers))
	for i := range answers {
		a := &answers[i]
		all[i] = f.final(a.seq, a.ending, a.usage, a.content.String(), a.tokens)
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// ids are the tokens of a piece, as far as they are wanted.
func (f *nativeFormat) ids(tokens []engine.Token) []int32 {
	out := []int32{}
	if f.g.query.returnTokens || f.g.query.stream {
		for _, t := range tokens {
			out = append(out, t.ID)
		}
	}
	return out
}

// final is a whole answer, or the end of one that was streamed.
func (f *nativeFormat) final(seq *sequence, end ending, u engine.Usage, content string, tokens []engine.Token) map[string]any {
	q, m := f.g.query, f.g.model
	a := map[string]any{
		"index": seq.index, "content": content, "tokens": f.ids(tokens), "stop": true,
		"id_slot": u.Slot, "model": m.Name,
		"tokens_predicted": u.Generated, "tokens_evaluated": u.PromptTokens, "tokens_cached": u.CachedTokens,
		"prompt":       m.Tokenizer.Detokenize(f.g.prompts[seq.index/q.n], true),
		"has_new_line": seq.write.line, "truncated": end.truncated,
		"stop_type": end.stop, "stopping_word": end.word,
		"generation_settings": q.settings(), "timings": timingsOf(u),
	}
	if q.probs >= 0 {
		a["completion_probabilities"] = m.probs(tokens)
	}
	return q.fields.pick(a)
}

func (f *nativeFormat) event(s *stream, e event) error {
	q := f.g.query
	failed := e.end != nil && e.end.err != nil
	switch {
	case e.progress != nil && !q.progress, failed && e.piece.empty():
		return nil
	case e.end != nil && !failed:
		return s.event(f.final(e.seq, *e.end, e.usage, e.piece.content(), e.piece.tokens))
	}
	a := map[string]any{
		"index": e.seq.index, "content": e.piece.content(), "tokens": f.ids(e.piece.tokens), "stop": false,
		"id_slot": q.slot, "tokens_predicted": e.usage.Generated, "tokens_evaluated": e.usage.PromptTokens,
	}
	if q.probs >= 0 && len(e.piece.tokens) > 0 {
		a["completion_probabilities"] = f.g.model.probs(e.piece.tokens)
	}
	if q.timings && e.progress == nil {
		a["timings"] = timingsOf(e.usage)
	}
	if e.progress != nil {
		a["prompt_progress"] = e.progress.json()
	}
	return s.event(a)
}

func (f *nativeFormat) end(*stream) error { return nil }

func (f *nativeFormat) failed(s *stream, err *apiError) error { return s.fail(err, "") }
