package server

import (
	"net/http"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/reply"
)

// A chatQuery is a request to /v1/chat/completions.
type chatQuery struct {
	options
	conversation
	logprobs    bool
	topLogprobs int
	store       bool
	metadata    kept

	stored *history.Store // nil: nothing is kept
	owner  string         // of what is
}

func newChatQuery(m *Model) *chatQuery {
	return filled(m, &chatQuery{options: newOptions(m), conversation: newConversation()})
}

func (q *chatQuery) Fields() []field.Field {
	return append(append(q.options.Fields(), q.conversation.Fields()...),
		field.Setting("modalities", neutral{[]string{"text"}, func(v any) bool { a, ok := v.([]any); return ok && len(a) == 1 && a[0] == "text" }, `["text"]`}, "What the answer is made of."),
		field.Setting("store", field.Boolean(&q.store), "Keep the answer, so that it can be had again."),
		field.Input("metadata", &q.metadata, "Kept with the answer, where store is true: texts by name."),
		responseFormat(&q.form),
		field.Setting("logprobs", field.Boolean(&q.logprobs), "Send the log-probability of each token."),
		field.Setting("top_logprobs", field.Integer(&q.topLogprobs, 0, maxProbs), "With logprobs: send so many of the likeliest tokens too."),
	)
}

func (q *chatQuery) settle(m *Model, h http.Header) error {
	switch {
	case q.logprobs:
		q.probs = q.topLogprobs
	case q.topLogprobs > 0:
		return reply.Invalid("top_logprobs", "%d without logprobs, want logprobs to be true", q.topLogprobs)
	}
	if !q.store {
		q.sent = nil // and the body with it
	}
	return q.options.settle(m, h)
}

func (q *chatQuery) format(g *generation, e envelope) format {
	e.Object = "chat.completion.chunk"
	f := &chatFormat{g: g, begun: make([]bool, len(g.seqs)), inputs: make([]*block, len(g.seqs)), logprobs: q.logprobs, tools: &q.tools, envelope: e}
	if q.store && q.stored != nil {
		g.keeps = true
		f.keep, f.kept = q, make([]answer, len(g.seqs))
	}
	return f
}

// createChat serves POST /v1/chat/completions.
func (s *Server) createChat(req *Request) error {
	m := req.Model
	q := newChatQuery(m)
	q.stored, q.owner = s.stored, req.Caller.Owner
	if err := req.Read(q); err != nil {
		return err
	}
	return s.generate(req, q, "chatcmpl-")
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
	Role      string         `json:"role"`
	Content   *string        `json:"content"` // null where there are calls alone
	Reasoning string         `json:"reasoning_content,omitempty"`
	Calls     []chatCall     `json:"tool_calls,omitempty"`
	Call      *chat.Function `json:"function_call,omitempty"` // the older form
}

type chatLogprobs struct {
	Content probs `json:"content"`
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
	Content   string          `json:"content,omitempty"`
	Reasoning string          `json:"reasoning_content,omitempty"`
	Calls     []chatCallDelta `json:"tool_calls,omitempty"`
	Call      *callDelta      `json:"function_call,omitempty"`
}

// chatCallDelta is what a chunk adds to a call. The first has all but arguments.
type chatCallDelta struct {
	Index    int         `json:"index"`
	ID       string      `json:"id,omitempty"`
	Type     string      `json:"type,omitempty"`
	Function *callDelta  `json:"function,omitempty"`
	Custom   *customCall `json:"custom,omitempty"`
}

type callDelta struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// delta returns what a part of a reply adds to a message. The older form has only one call.
func (f *chatFormat) delta(d chat.Delta) chatDelta {
	out := chatDelta{Content: d.Content, Reasoning: d.Reasoning}
	if c := d.Call; c != nil {
		call := chatCallDelta{Index: c.Index, ID: c.ID, Function: &callDelta{c.Name, c.Arguments}}
		if c.Name != "" {
			call.Type = "function"
		}
		if !f.tools.old {
			out.Calls = []chatCallDelta{call}
		} else if c.Index == 0 {
			out.Call = call.Function
		}
	}
	return out
}

// custom returns what a part of a reply adds to a call of a custom tool. It reports whether the part is of one.
func (f *chatFormat) custom(i int, d chat.Delta) (out chatDelta, is bool) {
	if d.Call == nil {
		return out, false
	}
	begins := d.Call.Name != "" && f.tools.custom(d.Call.Name)
	if begins {
		f.inputs[i] = newBlock(d)
	}
	b := f.inputs[i]
	if b == nil {
		return out, false
	}
	call := chatCallDelta{Index: b.call, Custom: &customCall{Input: b.input.write(d.Call.Arguments)}}
	if begins {
		call.ID, call.Type, call.Custom.Name = b.id, "custom", b.name
	}
	if begins || call.Custom.Input != "" {
		out.Calls = []chatCallDelta{call}
	}
	return out, true
}

// input returns what the end of a call of a custom tool adds to its input, if a part of a reply comes
// after it; nil: the end of the reply.
func (f *chatFormat) input(i int, d *chat.Delta) (chatDelta, bool) {
	b := f.inputs[i]
	if b == nil || d != nil && b.continues(*d) {
		return chatDelta{}, false
	}
	f.inputs[i] = nil
	rest := b.input.end()
	return chatDelta{Calls: []chatCallDelta{{Index: b.call, Custom: &customCall{Input: rest}}}}, rest != ""
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
	tools    *tools
	begun    []bool   // by sequence
	inputs   []*block // by sequence: the call of a custom tool that goes on

	keep *chatQuery // whose answer is stored; nil: it isn't
	kept []answer   // so far, of a stream
}

func (f *chatFormat) probs(tokens []engine.Token) *chatLogprobs {
	if !f.logprobs || len(tokens) == 0 {
		return nil
	}
	return &chatLogprobs{f.g.probs(tokens)}
}

func (f *chatFormat) whole(answers []answer) any {
	a := f.answer(answers)
	f.store(a)
	return a
}

func (f *chatFormat) answer(answers []answer) chatAnswer {
	a := chatAnswer{envelope: f.envelope}
	a.Object = "chat.completion"
	for i := range answers {
		got := &answers[i]
		a.Choices = append(a.Choices, chatChoice{
			Index: i, Message: f.message(got), Logprobs: f.probs(got.tokens), Finish: f.reason(&got.ending),
		})
	}
	a.tail = f.g.tail(answers)
	return a
}

func (f *chatFormat) message(a *answer) chatMessage {
	m := chatMessage{Role: "assistant", Reasoning: a.blocks.join(thoughtBlock)}
	calls := a.blocks.calls()
	if content := a.blocks.join(textBlock); content != "" || len(calls) == 0 {
		m.Content = &content
	}
	switch {
	case !f.tools.old:
		for _, c := range calls {
			m.Calls = append(m.Calls, f.tools.toClient(c))
		}
	case len(calls) > 0:
		m.Call = &calls[0].Function
	}
	return m
}

// reason is the finish_reason of a message.
func (f *chatFormat) reason(e *ending) string {
	reason := e.finishReason()
	switch {
	case reason != "stop" || !e.calls:
		return reason
	case f.tools.old:
		return "function_call"
	}
	return "tool_calls"
}

func (f *chatFormat) event(s *reply.Stream, e event) error {
	i := e.seq.index
	if f.keep != nil {
		f.kept[i].add(e)
	}
	tokens := e.piece.tokens
	chunk := func(delta any, t tail, finish *string) error {
		c := chatChunk{f.envelope, []chatChunkChoice{{i, delta, f.probs(tokens), finish}}, t}
		tokens = nil // they are in the first chunk
		return s.Event(c)
	}
	failed := e.end != nil && e.end.err != nil
	if e.progress != nil && !f.g.opts.progress || failed && e.piece.empty() {
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
		if err := s.Event(chatChunk{f.envelope, []chatChunkChoice{{Index: i, Delta: chatBegin{Role: "assistant"}}}, tail{}}); err != nil {
			return err
		}
	}
	var t tail
	if f.g.opts.timings {
		t.Timings = e.timings()
	}
	deltas := e.piece.deltas
	if len(deltas) == 0 && len(tokens) > 0 {
		deltas = []chat.Delta{{}} // tokens without text
	}
	for _, d := range deltas {
		if input, ok := f.input(i, &d); ok {
			if err := chunk(input, t, nil); err != nil {
				return err
			}
		}
		out, custom := f.custom(i, d)
		if !custom {
			out = f.delta(d)
		} else if out.Calls == nil && !f.logprobs {
			continue
		}
		if err := chunk(out, t, nil); err != nil {
			return err
		}
	}
	if e.end == nil || failed {
		return nil
	}
	if input, ok := f.input(i, nil); ok {
		if err := chunk(input, t, nil); err != nil {
			return err
		}
	}
	reason := f.reason(e.end)
	return chunk(chatDelta{}, f.g.last(e), &reason)
}

func (f *chatFormat) end(s *reply.Stream) error {
	if f.keep != nil {
		f.store(f.answer(f.kept))
	}
	if f.g.opts.streamOpts.usage {
		if err := s.Event(chatChunk{f.envelope, []chatChunkChoice{}, f.g.total()}); err != nil {
			return err
		}
	}
	s.Raw("[DONE]")
	return nil
}

func (f *chatFormat) failed(s *reply.Stream, err *reply.Error) error { return s.Fail(err, "[DONE]") }
