package openai

import (
	"net/http"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/reply"
)

// A chatQuery is a request to /v1/chat/completions.
type chatQuery struct {
	ask.Options
	ask.Conversation
	logprobs    bool
	topLogprobs int
	store       bool
	metadata    kept

	stored *history.Store // nil: nothing is kept
	owner  string         // of what is
}

func NewChatQuery(m *ask.Model) *chatQuery {
	return ask.Filled(m, &chatQuery{Options: ask.NewOptions(m), Conversation: ask.NewConversation()})
}

func (q *chatQuery) Fields() []field.Field {
	return append(append(q.Options.Fields(), q.Conversation.Fields()...),
		field.Input("web_search_options", ask.Neutral{Is: nil, Ok: func(v any) bool { return v == nil },
			Want: "null: a response (/v1/responses) may have the tool web_search"}, "A search of the web."),
		field.Setting("modalities", ask.Neutral{Is: []string{"text"},
			Ok: func(v any) bool { a, ok := v.([]any); return ok && len(a) == 1 && a[0] == "text" }, Want: `["text"]`},
			"What the answer is made of."),
		field.Setting("store", field.Boolean(&q.store), "Keep the answer, so that it can be had again."),
		field.Input("metadata", &q.metadata, "Kept with the answer, where store is true: texts by name."),
		ask.ResponseFormat(&q.Form),
		field.Setting("logprobs", field.Boolean(&q.logprobs), "Send the log-probability of each token."),
		field.Setting("top_logprobs", field.Integer(&q.topLogprobs, 0, ask.MaxProbs),
			"With logprobs: send so many of the likeliest tokens too."),
	)
}

func (q *chatQuery) Settle(m *ask.Model, h http.Header) error {
	switch {
	case q.logprobs:
		q.Probs = q.topLogprobs
	case q.topLogprobs > 0:
		return reply.Invalid("top_logprobs", "%d without logprobs, want logprobs to be true", q.topLogprobs)
	}
	if !q.store {
		q.Sent = nil // and the body with it
	}
	return q.Options.Settle(m, h)
}

func (q *chatQuery) Format(g *answer.Generation) answer.Format {
	e := envelopeOf(g)
	e.Object = "chat.completion.chunk"
	f := &chatFormat{g: g, streams: make([]chatStream, len(g.Seqs)), logprobs: q.logprobs, tools: &q.Tools, envelope: e}
	if q.store && q.stored != nil {
		g.Keeps = true
		f.keep, f.kept = q, make([]answer.Answer, len(g.Seqs))
	}
	return f
}

// createChat serves POST /v1/chat/completions.
func (s *API) createChat(req *answer.Request) error {
	m := req.Model
	q := NewChatQuery(m)
	q.stored, q.owner = s.Stored, req.Caller.Owner
	if err := req.Read(q); err != nil {
		return err
	}
	return req.Generate(q, "chatcmpl-")
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
	Calls     []ask.ChatCall `json:"tool_calls,omitempty"`
	Call      *chat.Function `json:"function_call,omitempty"` // the older form
}

type chatLogprobs struct {
	Content answer.Probs `json:"content"`
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
	Index    int             `json:"index"`
	ID       string          `json:"id,omitempty"`
	Type     string          `json:"type,omitempty"`
	Function *callDelta      `json:"function,omitempty"`
	Custom   *ask.CustomCall `json:"custom,omitempty"`
}

type callDelta struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// A chatStream is how far the message of a sequence is sent.
type chatStream struct {
	begun bool
	cut   answer.Blocks
	fresh bool       // nothing of the open block is sent
	input customText // of the open block, where it is a call of a custom tool
}

// now is the event that is being sent.
type now struct {
	i      int              // of the sequence
	tokens []generate.Token // that no chunk has yet
	tail   tail
}

func (f *chatFormat) Open(*reply.Stream, *answer.Block) error {
	st := &f.streams[f.now.i]
	st.fresh, st.input = true, customText{}
	return nil
}

func (f *chatFormat) Add(s *reply.Stream, b *answer.Block, text string, _ []generate.Token) error {
	st := &f.streams[f.now.i]
	fresh := st.fresh
	st.fresh = false
	var out chatDelta
	switch {
	case b.Kind == answer.TextBlock:
		out.Content = text
	case b.Kind == answer.ThoughtBlock:
		out.Reasoning = text
	case f.tools.Custom(b.Name):
		call := chatCallDelta{Index: b.Call, Custom: &ask.CustomCall{Input: st.input.Write(text)}}
		if fresh {
			call.ID, call.Type, call.Custom.Name = b.ID, "custom", b.Name
		}
		if fresh || call.Custom.Input != "" {
			out.Calls = []chatCallDelta{call}
		} else if !f.logprobs {
			return nil
		}
	default:
		out = f.called(b, text, fresh)
	}
	return f.chunk(s, out, f.now.tail, nil)
}

// called returns what is added to a call of a function. The older form has only one call.
func (f *chatFormat) called(b *answer.Block, arguments string, fresh bool) (out chatDelta) {
	call := chatCallDelta{Index: b.Call, Function: &callDelta{Arguments: arguments}}
	if fresh {
		call.ID, call.Type, call.Function.Name = b.ID, "function", b.Name
	}
	if !f.tools.Old {
		out.Calls = []chatCallDelta{call}
	} else if b.Call == 0 {
		out.Call = call.Function
	}
	return out
}

// Close sends what the end of a call of a custom tool adds to its input.
func (f *chatFormat) Close(s *reply.Stream, b *answer.Block, _ *answer.Ending) error {
	if b.Kind != answer.CallBlock || !f.tools.Custom(b.Name) {
		return nil
	}
	rest := f.streams[f.now.i].input.End()
	if rest == "" {
		return nil
	}
	return f.chunk(s, chatDelta{Calls: []chatCallDelta{{Index: b.Call, Custom: &ask.CustomCall{Input: rest}}}}, f.now.tail,
		nil)
}

// chatBegin is the first delta of a message. There is no content yet.
type chatBegin struct {
	Role    string  `json:"role"`
	Content *string `json:"content"`
}

// chatFormat writes the answers of /v1/chat/completions.
type chatFormat struct {
	g        *answer.Generation
	envelope envelope
	logprobs bool
	tools    *ask.Tools
	streams  []chatStream // by sequence
	now      now

	keep *chatQuery      // whose answer is stored; nil: it isn't
	kept []answer.Answer // so far, of a stream
}

func (f *chatFormat) probs(tokens []generate.Token) *chatLogprobs {
	if !f.logprobs || len(tokens) == 0 {
		return nil
	}
	return &chatLogprobs{f.g.Probs(tokens)}
}

func (f *chatFormat) Whole(answers []answer.Answer) any {
	a := f.answer(answers)
	f.store(a)
	return a
}

func (f *chatFormat) answer(answers []answer.Answer) chatAnswer {
	a := chatAnswer{envelope: f.envelope}
	a.Object = "chat.completion"
	for i := range answers {
		got := &answers[i]
		a.Choices = append(a.Choices, chatChoice{
			Index: i, Message: f.message(got), Logprobs: f.probs(got.Tokens), Finish: f.reason(&got.Ending),
		})
	}
	a.tail = tailOf(f.g, answers)
	return a
}

func (f *chatFormat) message(a *answer.Answer) chatMessage {
	m := chatMessage{Role: "assistant", Reasoning: a.Blocks.Join(answer.ThoughtBlock)}
	calls := a.Blocks.Calls()
	if content := a.Blocks.Join(answer.TextBlock); content != "" || len(calls) == 0 {
		m.Content = &content
	}
	switch {
	case !f.tools.Old:
		for _, c := range calls {
			m.Calls = append(m.Calls, toClient(f.tools, c))
		}
	case len(calls) > 0:
		m.Call = &calls[0].Function
	}
	return m
}

// reason is the finish_reason of a message.
func (f *chatFormat) reason(e *answer.Ending) string {
	reason := finishReason(e)
	switch {
	case reason != "stop" || !e.Calls:
		return reason
	case f.tools.Old:
		return "function_call"
	}
	return "tool_calls"
}

// chunk sends a chunk. The tokens of the event are in its first.
func (f *chatFormat) chunk(s *reply.Stream, delta any, t tail, finish *string) error {
	c := chatChunk{f.envelope, []chatChunkChoice{{f.now.i, delta, f.probs(f.now.tokens), finish}}, t}
	f.now.tokens = nil
	return s.Event(c)
}

func (f *chatFormat) Event(s *reply.Stream, e answer.Event) error {
	if e.Progress != nil && !f.g.Opts.Progress {
		return nil
	}
	f.now = now{i: e.Seq.Index, tokens: e.Piece.Tokens}
	st := &f.streams[f.now.i]
	first := !st.begun
	st.begun = true
	if e.Progress != nil {
		if first {
			return f.chunk(s, chatBegin{Role: "assistant"}, progressOf(f.g, e), nil)
		}
		return f.chunk(s, chatDelta{}, progressOf(f.g, e), nil)
	}
	if f.keep != nil {
		f.kept[f.now.i].Add(e)
	}
	if first {
		if err := s.Event(chatChunk{f.envelope, []chatChunkChoice{{Index: f.now.i, Delta: chatBegin{Role: "assistant"}}},
			tail{}}); err != nil {
			return err
		}
	}
	if f.g.Opts.Timings {
		f.now.tail.Timings = e.Timings()
	}
	if err := st.cut.Write(s, &e.Piece, f); err != nil {
		return err
	}
	if e.Piece.Empty() && len(f.now.tokens) > 0 { // tokens without text
		if err := f.chunk(s, chatDelta{}, f.now.tail, nil); err != nil {
			return err
		}
	}
	if e.End == nil {
		return nil
	}
	if err := st.cut.End(s, e.End, f); err != nil {
		return err
	}
	reason := f.reason(e.End)
	return f.chunk(s, chatDelta{}, lastOf(f.g, e), &reason)
}

func (f *chatFormat) End(s *reply.Stream) error {
	if f.keep != nil {
		f.store(f.answer(f.kept))
	}
	if f.g.Opts.StreamOpts.Usage {
		if err := s.Event(chatChunk{f.envelope, []chatChunkChoice{}, totalOf(f.g)}); err != nil {
			return err
		}
	}
	s.Raw("[DONE]")
	return nil
}

func (f *chatFormat) Failed(s *reply.Stream, err *reply.Error) error { return s.Fail(err, "[DONE]") }

// toClient returns a call as the client has its tool.
func toClient(l *ask.Tools, c chat.ToolCall) ask.ChatCall {
	if l.Custom(c.Function.Name) {
		return ask.ChatCall{ID: c.ID, Type: "custom",
			Custom: &ask.CustomCall{Name: c.Function.Name, Input: customInput(string(c.Function.Arguments))}}
	}
	return ask.ChatCall{ID: c.ID, Type: c.Type, Function: &c.Function}
}

// tokenCount is the answer to a request that counts.
type tokenCount struct {
	Object string `json:"object"`
	Tokens int    `json:"input_tokens"`
}

// countTokens returns the number of tokens of a chat's prompt.
func (s *API) countTokens(req *answer.Request) error {
	m := req.Model
	q := NewChatQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	q.Conversation.Counted = true
	src, err := q.Source(req.Context(), m)
	if err != nil {
		return err
	}
	req.Send(tokenCount{"response.input_tokens", len(src.Prompts[0])})
	return nil
}
