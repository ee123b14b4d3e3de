package anthropic

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/reply"
)

type message struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Role         string          `json:"role"`
	Model        string          `json:"model"`
	Content      []part          `json:"content"`
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	Usage        usage           `json:"usage"`
	Timings      *answer.Timings `json:"timings,omitzero"`
}

// A part is a block of an answer.
type part struct {
	Type      string         `json:"type"`
	Text      *string        `json:"text,omitzero"`
	Thinking  *string        `json:"thinking,omitzero"`
	Signature *string        `json:"signature,omitzero"`
	Citations []cited        `json:"citations,omitzero"`
	ID        string         `json:"id,omitzero"`
	Name      string         `json:"name,omitzero"`
	Server    string         `json:"server_name,omitzero"`
	Input     jsontext.Value `json:"input,omitzero"`
	ToolUseID string         `json:"tool_use_id,omitzero"`
	IsError   *bool          `json:"is_error,omitzero"`
	Content   jsontext.Value `json:"content,omitzero"`
	Caller    *caller        `json:"caller,omitzero"`
}

// usage counts tokens. InputTokens are those that were not in the cache.
type usage struct {
	InputTokens   int         `json:"input_tokens"`
	CacheCreation int         `json:"cache_creation_input_tokens"`
	CacheRead     int         `json:"cache_read_input_tokens"`
	OutputTokens  int         `json:"output_tokens"`
	Server        *serverUses `json:"server_tool_use,omitzero"`
}

// add counts a generation.
func (u *usage) add(prompt, cached, generated int) {
	u.InputTokens += prompt - cached
	u.CacheRead += cached
	u.OutputTokens += generated
}

// An event is an event of a stream. Its type is also its name.
type event struct {
	Type     string                 `json:"type"`
	Message  *message               `json:"message,omitzero"`
	Index    *int                   `json:"index,omitzero"`
	Block    *part                  `json:"content_block,omitzero"`
	Delta    any                    `json:"delta,omitzero"`
	Usage    *usage                 `json:"usage,omitzero"`
	Timings  *answer.Timings        `json:"timings,omitzero"`
	Progress *answer.PromptProgress `json:"prompt_progress,omitzero"`
}

// A delta adds to a block.
type delta struct {
	Type      string  `json:"type"`
	Text      *string `json:"text,omitzero"`
	Thinking  *string `json:"thinking,omitzero"`
	Signature *string `json:"signature,omitzero"`
	JSON      *string `json:"partial_json,omitzero"`
	Citation  *cited  `json:"citation,omitzero"`
}

// stop is the delta of a message's end.
type stop struct {
	Reason   string  `json:"stop_reason"`
	Sequence *string `json:"stop_sequence"`
}

// stopped returns how an answer ended, in which tools were called or not.
func stopOf(e *answer.Ending, called bool) stop {
	switch {
	case e.Stop == answer.StopLimit:
		return stop{Reason: "max_tokens"}
	case e.Stop == answer.StopByWord:
		return stop{"stop_sequence", &e.Word}
	case called:
		return stop{Reason: "tool_use"}
	}
	return stop{Reason: "end_turn"}
}

// signature is what clients must send back with thoughts, which they drop without it. It
// is a digest; thoughts are taken back with any.
func signature(thoughts string) string {
	sum := sha256.Sum256([]byte(thoughts))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// partOf returns the block as it is in an answer.
func (f *format) partOf(b *answer.Block) part {
	text := b.Text.String()
	switch b.Kind {
	case answer.ThoughtBlock:
		signed := signature(text)
		return part{Type: "thinking", Thinking: &text, Signature: &signed}
	case answer.CallBlock:
		p := part{Type: "tool_use", ID: newID(b.ID), Name: b.Name, Input: inputOf(text)}
		if call, u := f.usedBy(b); call != nil {
			p.Type, p.ID, p.Name, p.Server, p.Caller = webUse, u.id, call.Tool.Name, call.Tool.Server, direct
			if u.remote {
				p.Type, p.Caller = remoteUse, nil
			}
		}
		return p
	}
	p := part{Type: "text", Text: &text}
	if text != "" {
		p.Citations = f.quotes(text)
	}
	return p
}

// format writes the answers of /v1/messages.
type format struct {
	q       *query
	g       *answer.Generation // the first
	loop    agent.Loop
	keeps   bool // the blocks, since further generations go on after them
	begun   bool
	cut     answer.Blocks
	content []part
	index   int  // of the next block
	called  bool // a tool of the client's
	used    usage
	end     answer.Ending // of the last generation
	timings *answer.Timings
	body    *message // of an answer that is sent whole

	uses   map[*agent.Call]use
	placed *part       // what the call that is being made has come to
	made   *serverUses // what the server has done
	found  map[string]bool
	read   map[string]read // pages that may be cited
}

func (q *query) Format(g *answer.Generation) answer.Format {
	f := &format{q: q, g: g, keeps: q.offers.calls(), found: map[string]bool{}}
	f.loop = agent.Loop{Limits: q.limits, Most: q.limits.Calls, Pauses: true, Uses: q.offers.may, Tokens: q.MaxTokens, Log: q.log}
	f.loop.Begin(g, f, f.keeps)
	if f.keeps {
		f.made = &serverUses{}
		for url, p := range q.turns.found() {
			f.loop.Pages.Add(url, p.Title, p.Text)
			f.found[url] = true
		}
	}
	return f
}

func (f *format) message(u usage) *message {
	return &message{
		ID: f.g.ID, Type: "message", Role: "assistant", Model: f.g.Model.Name, Content: []part{}, Usage: u,
	}
}

func (f *format) Whole(answers []answer.Answer) any {
	if f.body == nil {
		f.body = f.message(usage{})
	}
	if len(answers) == 0 { // calls are to be made first
		return f.body
	}
	got := &answers[0]
	for i, b := range got.Blocks {
		p := f.partOf(b)
		f.takesBlock(b, i == len(got.Blocks)-1 && got.Stop == answer.StopLimit)
		f.content = append(f.content, p)
	}
	f.ended(&got.Ending, got.Usage, answer.TimingsOf(got.Usage))
	if !f.loop.GoesOn() {
		_ = f.Complete(nil) // without a stream nothing fails
	}
	return f.body // which further generations add to
}

// takesBlock takes a block that is complete: if it is a call of the server's, that is made. cut: a limit has ended it.
func (f *format) takesBlock(b *answer.Block, cut bool) {
	call, u := f.usedBy(b)
	switch {
	case b.Kind != answer.CallBlock:
	case call == nil:
		f.called, f.loop.HandsOver = true, true
	case !cut:
		f.takes(call, u)
	}
}

// ended counts a generation that has ended.
func (f *format) ended(end *answer.Ending, u engine.Usage, timings *answer.Timings) {
	f.end, f.timings = *end, timings
	f.used.add(u.PromptTokens, u.CachedTokens, u.Generated)
	if f.loop.Ended(end, u.Generated); end.Stop == answer.StopByWord { // which ends the answer
		f.loop.Drop()
	}
}

// ends ends the message.
func (f *format) ends(s *reply.Stream, end stop) error {
	f.used.Server = f.made
	if !f.g.Opts.Timings {
		f.timings = nil
	}
	if s == nil {
		a := f.body
		a.StopReason, a.StopSequence, a.Timings = &end.Reason, end.Sequence, f.timings
		a.Content, a.Usage = append([]part{}, f.content...), f.used
		return nil
	}
	return send(s, event{Type: "message_delta", Delta: end, Usage: &f.used, Timings: f.timings})
}

func send(s *reply.Stream, e event) error { return s.Named(e.Type, e) }

// begin sends the first event.
func (f *format) begin(s *reply.Stream, u usage) error {
	if f.begun || s == nil {
		return nil
	}
	f.begun = true
	return send(s, event{Type: "message_start", Message: f.message(u)})
}

func (f *format) Event(s *reply.Stream, e answer.Event) error {
	var u usage
	u.add(e.Usage.PromptTokens, e.Usage.CachedTokens, 0)
	if err := f.begin(s, u); err != nil {
		return err
	}
	if e.Progress != nil {
		if !f.g.Opts.Progress {
			return nil
		}
		return send(s, event{Type: "ping", Progress: e.Progress.JSON()})
	}
	if err := f.cut.Write(s, &e.Piece, f); err != nil || e.End == nil {
		return err
	}
	if err := f.cut.End(s, e.End, f); err != nil {
		return err
	}
	f.ended(e.End, e.Usage, e.Timings())
	if f.loop.GoesOn() {
		return nil
	}
	return f.Complete(s)
}

func (f *format) Open(s *reply.Stream, b *answer.Block) error {
	part := f.partOf(b)
	if part.Signature != nil {
		part.Signature = new(string)
	}
	return send(s, event{Type: "content_block_start", Index: &f.index, Block: &part})
}

// Add sends text of the open block. Thoughts are kept for their signature, and all that further generations go on after.
func (f *format) Add(s *reply.Stream, b *answer.Block, text string, _ []generate.Token) error {
	if text == "" {
		return nil
	}
	if f.keeps || b.Kind == answer.ThoughtBlock {
		b.Text.WriteString(text)
	}
	d := delta{Type: "text_delta", Text: &text}
	switch b.Kind {
	case answer.ThoughtBlock:
		d = delta{Type: "thinking_delta", Thinking: &text}
	case answer.CallBlock:
		d = delta{Type: "input_json_delta", JSON: &text}
	}
	return f.delta(s, d)
}

func (f *format) delta(s *reply.Stream, d delta) error {
	return send(s, event{Type: "content_block_delta", Index: &f.index, Delta: d})
}

func (f *format) Close(s *reply.Stream, b *answer.Block, end *answer.Ending) error {
	p := f.partOf(b)
	if b.Kind == answer.ThoughtBlock {
		if err := f.delta(s, delta{Type: "signature_delta", Signature: p.Signature}); err != nil {
			return err
		}
	}
	for i := range p.Citations {
		if err := f.delta(s, delta{Type: "citations_delta", Citation: &p.Citations[i]}); err != nil {
			return err
		}
	}
	f.takesBlock(b, end != nil && end.Stop == answer.StopLimit)
	if f.keeps {
		f.content = append(f.content, p)
	}
	index := f.index
	f.index++
	return send(s, event{Type: "content_block_stop", Index: &index})
}

func (f *format) End(s *reply.Stream) error {
	return send(s, event{Type: "message_stop"})
}

// Failed ends the message with an error. Where calls were made what they have come to is not lost: an answer that is sent whole
// is one that the client may send back to go on with.
func (f *format) Failed(s *reply.Stream, err *reply.Error) error {
	_, full := err.Extra["n_ctx"]
	switch {
	case full && f.Acted():
		if err := f.ends(s, stop{Reason: "model_context_window_exceeded"}); err != nil || s == nil {
			return err
		}
		return f.End(s)
	case s == nil:
		return f.ends(s, stop{Reason: "pause_turn"})
	}
	return s.Named("error", Dialect{}.Error(f.g.Request, err))
}
