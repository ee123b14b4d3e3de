package server

import (
	"unicode/utf8"

	"github.com/quern-llm/quern/go/engine"
)

// textSource is the prompts of /v1/completions.
func textSource(m *Model, q *query) (source, error) {
	var src source
	if q.echo && q.probs >= 0 {
		return src, invalid("logprobs", "not supported together with echo, want one of them")
	}
	for _, p := range q.prompt {
		ids, err := p.encode(m)
		if err == nil && q.suffix != "" {
			ids, err = m.fillIn(infill{before: p, after: q.suffix})
		}
		if err != nil {
			return src, err
		}
		src.prompts = append(src.prompts, ids)
		if q.echo {
			src.echo = append(src.echo, p.String(m))
		}
	}
	return src, nil
}

type textAnswer struct {
	head
	Choices []textChoice `json:"choices"`
	tail
}

type textChoice struct {
	Text     string        `json:"text"`
	Index    int           `json:"index"`
	Logprobs *textLogprobs `json:"logprobs"`
	Finish   *string       `json:"finish_reason"`
}

// textFormat writes the answers of /v1/completions, whole and in chunks.
type textFormat struct {
	g       *generation
	head    head
	begun   []bool // by sequence: the echo is out
	offsets []int  // by sequence: characters sent
}

func (s *Server) textFormat(g *generation) format {
	n := len(g.seqs)
	return &textFormat{g: g, begun: make([]bool, n), offsets: make([]int, n), head: s.head(g, "text_completion")}
}

// choice is what a sequence adds to its text. Token offsets count its answer's
// characters.
func (f *textFormat) choice(i int, text string, tokens []engine.Token, finish *string) textChoice {
	c := textChoice{Text: text, Index: i, Finish: finish}
	if f.g.query.probs >= 0 && len(tokens) > 0 {
		c.Logprobs = f.g.model.textLogprobs(tokens, f.offsets[i])
	}
	f.offsets[i] += utf8.RuneCountInString(text)
	if !f.begun[i] && f.g.echo != nil {
		c.Text = f.g.echo[i/f.g.query.n] + c.Text
	}
	f.begun[i] = true
	return c
}

func (f *textFormat) whole(answers []answer) any {
	a := textAnswer{head: f.head}
	for i := range answers {
		got := &answers[i]
		reason := got.finishReason()
		a.Choices = append(a.Choices, f.choice(i, got.content.String(), got.tokens, &reason))
	}
	a.tail = tail{Usage: &f.g.used, Timings: timingsOf(answers[0].usage)}
	return a
}

func (f *textFormat) event(s *stream, e event) error {
	failed := e.end != nil && e.end.err != nil
	switch {
	case e.progress != nil && !f.g.query.progress:
		return nil
	case e.progress != nil:
		return s.event(textAnswer{f.head, []textChoice{}, tail{Progress: e.progress.json()}})
	case failed && e.piece.empty():
		return nil
	}
	var t tail
	var finish *string
	if e.end != nil && !failed {
		reason := e.end.finishReason()
		finish = &reason
	}
	if f.g.query.timings || finish != nil {
		t.Timings = timingsOf(e.usage)
	}
	return s.event(textAnswer{f.head, []textChoice{f.choice(e.seq.index, e.piece.content(), e.piece.tokens, finish)}, t})
}

func (f *textFormat) end(s *stream) error {
	if f.g.query.streamOpts.usage {
		if err := s.event(textAnswer{f.head, []textChoice{}, tail{Usage: &f.g.used}}); err != nil {
			return err
		}
	}
	s.raw("[DONE]")
	return nil
}

func (f *textFormat) failed(s *stream, err *apiError) error { return s.fail(err, "[DONE]") }
