package server

import "github.com/quern-llm/quern/go/chat"

// chatSource is the prompt of a chat.
func chatSource(m *Model, q *query) (source, error) {
	prompt, err := q.render(m)
	if err != nil {
		return source{}, err
	}
	ids, err := m.encodeChat(prompt.Text)
	return source{prompts: [][]int32{ids}, chat: &prompt}, err
}

// head is what all chunks and answers of OpenAI's form begin with.
type head struct {
	ID          string `json:"id"`
	Object      string `json:"object"`
	Created     int64  `json:"created"`
	Model       string `json:"model"`
	Fingerprint string `json:"system_fingerprint"`
}

// tail is what they may end with.
type tail struct {
	Usage    *usage          `json:"usage,omitempty"`
	Timings  *timings        `json:"timings,omitempty"`
	Progress *promptProgress `json:"prompt_progress,omitempty"`
}

type chatAnswer struct {
	head
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
	Role      string `json:"role"`
	Content   string `json:"content"`
	Reasoning string `json:"reasoning_content,omitempty"`
}

type chatLogprobs struct {
	Content []tokenProb `json:"content"`
}

type chatChunk struct {
	head
	Choices []chatChunkChoice `json:"choices"`
	tail
}

type chatChunkChoice struct {
	Index    int           `json:"index"`
	Delta    chatDelta     `json:"delta"`
	Logprobs *chatLogprobs `json:"logprobs,omitempty"`
	Finish   *string       `json:"finish_reason"`
}

type chatDelta struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	Reasoning string  `json:"reasoning_content,omitempty"`
}

func chatDeltaOf(d chat.Delta) chatDelta {
	if d.Content == "" {
		return chatDelta{Reasoning: d.Reasoning}
	}
	return chatDelta{Content: &d.Content}
}

// chatFormat writes the answers of /v1/chat/completions.
type chatFormat struct {
	g     *generation
	head  head
	begun []bool // by sequence
}

func (s *Server) chatFormat(g *generation) format {
	return &chatFormat{g: g, begun: make([]bool, len(g.seqs)), head: s.head(g, "chat.completion.chunk")}
}

func (s *Server) head(g *generation, object string) head {
	return head{ID: g.id, Object: object, Created: g.created, Model: g.model.Name, Fingerprint: s.c.Build}
}

func (f *chatFormat) logprobs(p piece) *chatLogprobs {
	if !f.g.query.logprobs || len(p.tokens) == 0 {
		return nil
	}
	return &chatLogprobs{f.g.model.probs(p.tokens)}
}

func (f *chatFormat) whole(answers []answer) any {
	a := chatAnswer{head: f.head}
	a.Object = "chat.completion"
	for i := range answers {
		got := &answers[i]
		a.Choices = append(a.Choices, chatChoice{
			Index:    i,
			Message:  chatMessage{"assistant", got.content.String(), got.reasoning.String()},
			Logprobs: f.logprobs(piece{tokens: got.tokens}), Finish: got.finishReason(),
		})
	}
	a.tail = tail{Usage: &f.g.used, Timings: timingsOf(answers[0].usage)}
	return a
}

func (f *chatFormat) event(s *stream, e event) error {
	i := e.seq.index
	chunk := func(d chatDelta, t tail, finish *string) error {
		return s.event(chatChunk{f.head, []chatChunkChoice{{i, d, f.logprobs(e.piece), finish}}, t})
	}
	if e.progress != nil && !f.g.query.progress {
		return nil
	}
	if e.end != nil && e.end.err != nil && e.piece.empty() {
		return nil
	}
	var t tail
	if e.progress != nil {
		t.Progress = e.progress.json()
	}
	if !f.begun[i] {
		f.begun[i] = true
		empty := ""
		first := s.event(chatChunk{f.head, []chatChunkChoice{{Index: i, Delta: chatDelta{Role: "assistant", Content: &empty}}}, t})
		if first != nil || e.progress != nil {
			return first
		}
	}
	if f.g.query.timings && e.progress == nil {
		t.Timings = timingsOf(e.usage)
	}
	deltas := e.piece.deltas
	if len(deltas) == 0 && (e.progress != nil || len(e.piece.tokens) > 0) {
		deltas = []chat.Delta{{}} // what comes with it has no text
	}
	for _, d := range deltas {
		if err := chunk(chatDeltaOf(d), t, nil); err != nil {
			return err
		}
		e.piece.tokens = nil // they are in the first chunk
	}
	if e.end == nil || e.end.err != nil {
		return nil
	}
	reason := e.end.finishReason()
	return chunk(chatDelta{}, tail{Timings: timingsOf(e.usage)}, &reason)
}

func (f *chatFormat) end(s *stream) error {
	if f.g.query.streamOpts.usage {
		if err := s.event(chatChunk{f.head, []chatChunkChoice{}, tail{Usage: &f.g.used}}); err != nil {
			return err
		}
	}
	s.raw("[DONE]")
	return nil
}

func (f *chatFormat) failed(s *stream, err *apiError) error { return s.fail(err, "[DONE]") }
