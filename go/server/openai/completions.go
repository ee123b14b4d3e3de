package openai

import (
	"context"
	"net/http"
	"slices"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A textQuery is a request to /v1/completions.
type textQuery struct {
	ask.Options
	prompt ask.Prompts
	suffix string
	echo   bool
	bestOf int
	vllm   int // prompt_logprobs; -1: none
}

func NewTextQuery(m *ask.Model) *textQuery {
	return ask.Filled(m, &textQuery{Options: ask.NewOptions(m), bestOf: 1, vllm: -1})
}

func (q *textQuery) Fields() []field.Field {
	return append(q.Options.Fields(),
		ask.PromptField(&q.prompt),
		field.Input("suffix", field.Text(&q.suffix), "What comes after the answer, where the model can fill in."),
		field.Setting("echo", field.Boolean(&q.echo),
			"Begin the answer with the prompt; with logprobs, its tokens have theirs too."),
		ask.ResponseFormat(&q.Form),
		field.Setting("best_of", field.Integer(&q.bestOf, 1, ask.MaxSequences), "Not supported beyond n."),
		field.Setting("logprobs n_probs", ask.ProbCount{P: &q.Probs, Off: false},
			"Send the log-probability of each token, and of so many of the likeliest."),
		field.Input("prompt_logprobs", ask.ProbCount{P: &q.vllm, Off: false},
			"Send the log-probabilities of the prompt's tokens, and of so many of the likeliest, as vLLM does: by id, "+
				"with ranks."),
	)
}

func (q *textQuery) Settle(m *ask.Model, h http.Header) error {
	switch {
	case q.echo && q.Probs >= 0 && q.PostProbs:
		return reply.Invalid("post_sampling_probs", "not supported together with echo: nothing of a prompt is sampled")
	case q.echo && q.Probs >= 0 && q.suffix != "":
		return reply.Invalid("suffix", "not supported together with echo and logprobs, want two of the three")
	case q.vllm >= 0 && q.Stream:
		return reply.Invalid("prompt_logprobs", "not supported in a stream, want stream to be false")
	case q.bestOf > 1 && q.bestOf != q.N:
		return reply.Invalid("best_of", "%d, want the same as n: choosing among more is not supported", q.bestOf)
	}
	if q.PromptProbs, q.PromptRanks = q.vllm, q.vllm >= 0; q.echo {
		q.PromptProbs = max(q.vllm, q.Probs)
	}
	return q.Options.Settle(m, h)
}

func (q *textQuery) Source(ctx context.Context, m *ask.Model) (ask.Source, error) {
	var src ask.Source
	for _, p := range q.prompt {
		one, err := p.Encode(ctx, m)
		if err == nil && q.suffix != "" {
			one = &reading.Prompt{}
			one.IDs, err = m.FillIn(ask.Infill{Before: p, After: q.suffix})
		}
		if err != nil {
			return src, err
		}
		src.Add(one)
		if q.echo {
			src.Echo = append(src.Echo, p.String(m))
		}
	}
	return src, nil
}

func (q *textQuery) Format(g *answer.Generation) answer.Format {
	e := envelopeOf(g)
	n := len(g.Seqs)
	e.Object = "text_completion"
	return &textFormat{g: g, vllm: q.vllm, begun: make([]bool, n), offsets: make([]int, n), envelope: e}
}

type textAnswer struct {
	envelope
	Choices []textChoice `json:"choices"`
	tail
}

type textChoice struct {
	Text     string     `json:"text"`
	Index    int        `json:"index"`
	Logprobs *textProbs `json:"logprobs"`
	Prompt   *vllmProbs `json:"prompt_logprobs,omitzero"`
	Finish   *string    `json:"finish_reason"`
}

// textFormat writes the answers of /v1/completions, whole and in chunks.
type textFormat struct {
	g        *answer.Generation
	envelope envelope
	vllm     int    // prompt_logprobs; -1: none
	begun    []bool // by sequence: the echo is out
	offsets  []int  // by sequence: characters sent
}

// choice is what a sequence adds to its text. Token offsets count the characters of that.
func (f *textFormat) choice(i int, text string, tokens []generate.Token, finish *string) textChoice {
	c := textChoice{Text: text, Index: i, Finish: finish}
	at, prompt := f.offsets[i], 0
	p := f.g.Seqs[i].PromptProbs
	if !f.begun[i] && f.vllm >= 0 {
		c.Prompt = &vllmProbs{f.g.Model, p.Tokens, p.Ranks, f.vllm}
	}
	if !f.begun[i] && f.g.Echo != nil {
		echo := f.g.Echo[i/f.g.Opts.N]
		c.Text = echo + text
		if p != nil && f.g.Opts.Probs >= 0 {
			at, prompt = promptOffset(f.g.Model, p.Tokens, echo), len(p.Tokens)
			tokens = slices.Concat(p.Tokens, tokens)
			for k := range tokens[:prompt] { // prompt_logprobs may want more
				tokens[k].Top = tokens[k].Top[:min(f.g.Opts.Probs, len(tokens[k].Top))]
			}
		}
	}
	if p != nil {
		p.Tokens = nil
	}
	f.begun[i] = true
	if f.g.Opts.Probs >= 0 && len(tokens) > 0 {
		c.Logprobs = &textProbs{f.g.Probs(tokens), prompt, at}
	}
	f.offsets[i] += utf8.RuneCountInString(c.Text)
	return c
}

func (f *textFormat) Whole(answers []answer.Answer) any {
	a := textAnswer{envelope: f.envelope}
	for i := range answers {
		got := &answers[i]
		reason := finishReason(&got.Ending)
		a.Choices = append(a.Choices, f.choice(i, got.Blocks.Join(answer.TextBlock), got.Tokens, &reason))
	}
	a.tail = tailOf(f.g, answers)
	return a
}

func (f *textFormat) Event(s *reply.Stream, e answer.Event) error {
	switch {
	case e.Progress != nil && !f.g.Opts.Progress:
		return nil
	case e.Progress != nil:
		return s.Event(textAnswer{f.envelope, []textChoice{}, progressOf(f.g, e)})
	}
	var t tail
	var finish *string
	switch {
	case e.End != nil:
		reason := finishReason(e.End)
		finish, t = &reason, lastOf(f.g, e)
	case f.g.Opts.Timings:
		t.Timings = e.Timings()
	}
	return s.Event(textAnswer{f.envelope, []textChoice{f.choice(e.Seq.Index, e.Piece.Content(), e.Piece.Tokens, finish)},
		t})
}

func (f *textFormat) End(s *reply.Stream) error {
	if f.g.Opts.StreamOpts.Usage {
		if err := s.Event(textAnswer{f.envelope, []textChoice{}, totalOf(f.g)}); err != nil {
			return err
		}
	}
	s.Raw("[DONE]")
	return nil
}

func (f *textFormat) Failed(s *reply.Stream, err *reply.Error) error { return s.Fail(err, "[DONE]") }
