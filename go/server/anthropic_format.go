package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/server/reply"
)

type anthropicAnswer struct {
	ID           string          `json:"id"`
	Type         string          `json:"type"`
	Role         string          `json:"role"`
	Model        string          `json:"model"`
	Content      []anthropicPart `json:"content"`
	StopReason   *string         `json:"stop_reason"`
	StopSequence *string         `json:"stop_sequence"`
	Usage        anthropicUsage  `json:"usage"`
	Timings      *timings        `json:"timings,omitzero"`
}

// An anthropicPart is a block of an answer.
type anthropicPart struct {
	Type      string         `json:"type"`
	Text      *string        `json:"text,omitzero"`
	Thinking  *string        `json:"thinking,omitzero"`
	Signature *string        `json:"signature,omitzero"`
	ID        string         `json:"id,omitzero"`
	Name      string         `json:"name,omitzero"`
	Input     jsontext.Value `json:"input,omitzero"`
}

// anthropicUsage counts tokens. InputTokens are those that were not in the cache.
type anthropicUsage struct {
	InputTokens   int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	OutputTokens  int `json:"output_tokens"`
}

func anthropicUsageOf(prompt, cached, generated int) anthropicUsage {
	return anthropicUsage{InputTokens: prompt - cached, CacheRead: cached, OutputTokens: generated}
}

// An anthropicEvent is an event of a stream. Its type is also its name.
type anthropicEvent struct {
	Type     string           `json:"type"`
	Message  *anthropicAnswer `json:"message,omitzero"`
	Index    *int             `json:"index,omitzero"`
	Block    *anthropicPart   `json:"content_block,omitzero"`
	Delta    any              `json:"delta,omitzero"`
	Usage    *anthropicUsage  `json:"usage,omitzero"`
	Timings  *timings         `json:"timings,omitzero"`
	Progress *promptProgress  `json:"prompt_progress,omitzero"`
}

// An anthropicDelta adds to a block.
type anthropicDelta struct {
	Type      string  `json:"type"`
	Text      *string `json:"text,omitzero"`
	Thinking  *string `json:"thinking,omitzero"`
	Signature *string `json:"signature,omitzero"`
	JSON      *string `json:"partial_json,omitzero"`
}

// anthropicStop is the delta of a message's end.
type anthropicStop struct {
	Reason   string  `json:"stop_reason"`
	Sequence *string `json:"stop_sequence"`
}

// stopped returns how an answer ended, in which tools were called or not.
func (e *ending) anthropic(called bool) anthropicStop {
	switch {
	case e.stop == stopLimit:
		return anthropicStop{Reason: "max_tokens"}
	case e.stop == stopByWord:
		return anthropicStop{"stop_sequence", &e.word}
	case called:
		return anthropicStop{Reason: "tool_use"}
	}
	return anthropicStop{Reason: "end_turn"}
}

// signature is what clients must send back with thoughts, which they drop without it. It
// is a digest; thoughts are taken back with any.
func signature(thoughts string) string {
	sum := sha256.Sum256([]byte(thoughts))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// anthropic returns the block as it is in an answer.
func (b *block) anthropic() anthropicPart {
	text := b.text.String()
	switch b.kind {
	case thoughtBlock:
		signed := signature(text)
		return anthropicPart{Type: "thinking", Thinking: &text, Signature: &signed}
	case callBlock:
		input := jsontext.Value(cmp.Or(text, "{}"))
		if !input.IsValid() { // max_tokens has ended it
			input, _ = reply.Encode(map[string]string{"partial_json": text})
		}
		return anthropicPart{Type: "tool_use", ID: anthropicID(b.id), Name: b.name, Input: input}
	}
	return anthropicPart{Type: "text", Text: &text}
}

// anthropicFormat writes the answers of /v1/messages.
type anthropicFormat struct {
	g      *generation
	begun  bool
	cut    blocks
	index  int
	called bool
}

func (q *anthropicQuery) format(g *generation, _ envelope) format { return &anthropicFormat{g: g} }

func (f *anthropicFormat) message(u anthropicUsage) *anthropicAnswer {
	return &anthropicAnswer{
		ID: f.g.id, Type: "message", Role: "assistant", Model: f.g.model.Name, Content: []anthropicPart{}, Usage: u,
	}
}

func (f *anthropicFormat) whole(answers []answer) any {
	got := &answers[0]
	a := f.message(anthropicUsageOf(got.usage.PromptTokens, got.usage.CachedTokens, got.usage.Generated))
	for _, b := range got.blocks {
		a.Content = append(a.Content, b.anthropic())
		f.called = f.called || b.kind == callBlock
	}
	stop := got.anthropic(f.called)
	a.StopReason, a.StopSequence = &stop.Reason, stop.Sequence
	a.Timings = timingsOf(got.usage)
	return a
}

func send(s *reply.Stream, e anthropicEvent) error { return s.Named(e.Type, e) }

func (f *anthropicFormat) event(s *reply.Stream, e event) error {
	if !f.begun {
		f.begun = true
		u := anthropicUsageOf(e.usage.PromptTokens, e.usage.CachedTokens, 0)
		if err := send(s, anthropicEvent{Type: "message_start", Message: f.message(u)}); err != nil {
			return err
		}
	}
	if e.progress != nil {
		if !f.g.opts.Progress {
			return nil
		}
		return send(s, anthropicEvent{Type: "ping", Progress: e.progress.json()})
	}
	if err := f.cut.write(s, &e.piece, f); err != nil || e.end == nil {
		return err
	}
	if err := f.cut.end(s, e.end, f); err != nil {
		return err
	}
	u := anthropicUsageOf(e.usage.PromptTokens, e.usage.CachedTokens, e.usage.Generated)
	return send(s, anthropicEvent{Type: "message_delta", Delta: e.end.anthropic(f.called), Usage: &u, Timings: e.timings()})
}

func (f *anthropicFormat) open(s *reply.Stream, b *block) error {
	f.called = f.called || b.kind == callBlock
	part := b.anthropic()
	if part.Signature != nil {
		part.Signature = new(string)
	}
	return send(s, anthropicEvent{Type: "content_block_start", Index: &f.index, Block: &part})
}

// add sends text of the open block. Only thoughts are kept, for their signature.
func (f *anthropicFormat) add(s *reply.Stream, b *block, text string, _ []engine.Token) error {
	if text == "" {
		return nil
	}
	delta := anthropicDelta{Type: "text_delta", Text: &text}
	switch b.kind {
	case thoughtBlock:
		b.text.WriteString(text)
		delta = anthropicDelta{Type: "thinking_delta", Thinking: &text}
	case callBlock:
		delta = anthropicDelta{Type: "input_json_delta", JSON: &text}
	}
	return f.delta(s, delta)
}

func (f *anthropicFormat) delta(s *reply.Stream, d anthropicDelta) error {
	return send(s, anthropicEvent{Type: "content_block_delta", Index: &f.index, Delta: d})
}

func (f *anthropicFormat) close(s *reply.Stream, b *block, _ *ending) error {
	if b.kind == thoughtBlock {
		signed := signature(b.text.String())
		if err := f.delta(s, anthropicDelta{Type: "signature_delta", Signature: &signed}); err != nil {
			return err
		}
	}
	index := f.index
	f.index++
	return send(s, anthropicEvent{Type: "content_block_stop", Index: &index})
}

func (f *anthropicFormat) end(s *reply.Stream) error {
	return send(s, anthropicEvent{Type: "message_stop"})
}

func (f *anthropicFormat) failed(s *reply.Stream, err *reply.Error) error {
	return s.Named("error", inAnthropic{}.Error(f.g.request, err))
}
