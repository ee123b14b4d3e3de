package server

import "net/http"

// A chatQuery is a request to /v1/chat/completions.
type chatQuery struct {
	options
	conversation
	logprobs    bool
	topLogprobs int
}

func newChatQuery(m *Model) *chatQuery {
	return &chatQuery{options: newOptions(m), conversation: newConversation()}
}

func (q *chatQuery) fields() []field {
	return append(append(q.options.fields(), q.conversation.fields()...),
		setting("modalities", neutral{[]string{"text"}, func(v any) bool { a, ok := v.([]any); return ok && len(a) == 1 && a[0] == "text" }, `["text"]`}, "What the answer is made of."),
		setting("reasoning_control", empty(false), "Lets thinking be ended early."),
		setting("reasoning_budget_tokens thinking_budget_tokens", always(-1), "Bounds the thinking."),
		setting("store", empty(false), "Keeps the answer on the server."),
		responseFormat(),
		setting("logprobs", boolean{&q.logprobs}, "Send the log-probability of each token."),
		setting("top_logprobs", integer(&q.topLogprobs, 0, maxProbs), "With logprobs: send so many of the likeliest tokens too."),
	)
}

func (q *chatQuery) settle(m *Model, h http.Header) error {
	switch {
	case q.logprobs:
		q.probs = q.topLogprobs
	case q.topLogprobs > 0:
		return invalid("top_logprobs", "%d without logprobs, want logprobs to be true", q.topLogprobs)
	}
	return q.options.settle(m, h)
}

func (q *chatQuery) source(m *Model) (source, error) {
	text, err := q.render(m)
	if err != nil {
		return source{}, err
	}
	ids, err := m.encodeChat(text)
	return source{prompts: [][]int32{ids}, text: text, chat: true}, err
}

func (q *chatQuery) format(g *generation, e envelope) format {
	e.Object = "chat.completion.chunk"
	return &chatFormat{g: g, begun: make([]bool, len(g.seqs)), logprobs: q.logprobs, envelope: e}
}

type chatAnswer struct {
	envelope
	Choices []chatChoice `json:"choices"`
	tail
}

type chatChoice struct {
	Index    int           `json:"index"`
	Message  chatMessage   `json:"message"`
	Logprobs *chatLogprobs `json:"logprobs,omitempty"`
	Finish   string        `json:"finish_reason"`
}

type chatMessage struct {
	Role     string `json:"role"`
	Content  string `json:"content"`
	Thoughts string `json:"reasoning_content,omitempty"`
}

type chatLogprobs struct {
	Content []tokenProb `json:"content"`
}

type chatChunk struct {
	envelope
	Choices []chatChunkChoice `json:"choices"`
	tail
}

type chatChunkChoice struct {
	Index    int           `json:"index"`
	Delta    any           `json:"delta"`
	Logprobs *chatLogprobs `json:"logprobs,omitempty"`
	Finish   *string       `json:"finish_reason"`
}

// chatDelta is what a chunk adds to a message.
type chatDelta struct {
	Content  string `json:"content,omitempty"`
	Thoughts string `json:"reasoning_content,omitempty"`
}

// chatBegin is the first delta of a message. There is no content yet.
type chatBegin struct {
	Role    string  `json:"role"`
	Content *string `json:"content"`
}

// chatFormat writes the answers of /v1/chat/completions.
type chatFormat struct {
	g        *generation
	envelope envelope
	logprobs bool
	begun    []bool // by sequence
}

func (f *chatFormat) probs(p piece) *chatLogprobs {
	if !f.logprobs || len(p.tokens) == 0 {
		return nil
	}
	return &chatLogprobs{f.g.model.probs(p.tokens)}
}

func (f *chatFormat) whole(answers []answer) any {
	a := chatAnswer{envelope: f.envelope}
	a.Object = "chat.completion"
	for i := range answers {
		got := &answers[i]
		a.Choices = append(a.Choices, chatChoice{
			Index:    i,
			Message:  chatMessage{"assistant", got.content.String(), got.thoughts.String()},
			Logprobs: f.probs(piece{tokens: got.tokens}), Finish: got.finishReason(),
		})
	}
	a.tail = f.g.tail(answers)
	return a
}

func (f *chatFormat) event(s *stream, e event) error {
	i := e.seq.index
	chunk := func(delta any, t tail, finish *string) error {
		return s.event(chatChunk{f.envelope, []chatChunkChoice{{i, delta, f.probs(e.piece), finish}}, t})
	}
	failed := e.end != nil && e.end.err != nil
	switch {
	case e.progress != nil && !f.g.opts.progress, failed && e.piece.empty():
		return nil
	}
	first := !f.begun[i]
	f.begun[i] = true
	if e.progress != nil {
		if first {
			return chunk(chatBegin{Role: "assistant"}, f.g.progress(e), nil)
		}
		return chunk(chatDelta{}, f.g.progress(e), nil)
	}
	if first {
		if err := s.event(chatChunk{f.envelope, []chatChunkChoice{{Index: i, Delta: chatBegin{Role: "assistant"}}}, tail{}}); err != nil {
			return err
		}
	}
	if !e.piece.empty() || len(e.piece.tokens) > 0 {
		var t tail
		if f.g.opts.timings {
			t.Timings = e.timings()
		}
		if err := chunk(chatDelta{e.piece.content, e.piece.thoughts}, t, nil); err != nil {
			return err
		}
	}
	if e.end == nil || failed {
		return nil
	}
	t := f.g.last(e)
	e.piece = piece{}
	reason := e.end.finishReason()
	return chunk(chatDelta{}, t, &reason)
}

func (f *chatFormat) end(s *stream) error {
	if f.g.opts.streamOpts.usage {
		if err := s.event(chatChunk{f.envelope, []chatChunkChoice{}, f.g.total()}); err != nil {
			return err
		}
	}
	s.raw("[DONE]")
	return nil
}
