package answer

import (
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
)

// Ids returns the token ids of a piece, if they were requested.
func (g *Generation) Ids(tokens []generate.Token) []int32 {
	out := []int32{}
	if g.Opts.ReturnTokens || g.Opts.Stream {
		for _, t := range tokens {
			out = append(out, t.ID)
		}
	}
	return out
}

// Native is a whole answer, or the last event of a stream, in llama-server's format.
func (g *Generation) Native(
	seq *Sequence, end Ending, u engine.Usage, content string, tokens []generate.Token,
) map[string]any {
	a := map[string]any{
		"index": seq.Index, "content": content, "tokens": g.Ids(tokens), "stop": true,
		"id_slot": u.Slot, "model": g.Model.Name,
		"tokens_predicted": u.Generated, "tokens_evaluated": u.PromptTokens, "tokens_cached": u.CachedTokens,
		"prompt":       g.Model.Spell(g.Prompts[seq.Index/g.Opts.N]),
		"has_new_line": seq.hasLine.Load(), "truncated": end.truncated,
		"stop_type": end.Stop, "stopping_word": end.Word,
		"generation_settings": g.Opts.Settings(), "timings": TimingsOf(u),
	}
	if g.Opts.Probs >= 0 {
		a["completion_probabilities"] = g.Probs(tokens)
	}
	return a
}
