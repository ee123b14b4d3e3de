package anthropic

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/generate"

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
	ID        string         `json:"id,omitzero"`
	Name      string         `json:"name,omitzero"`
	Input     jsontext.Value `json:"input,omitzero"`
}

// usage counts tokens. InputTokens are those that were not in the cache.
type usage struct {
	InputTokens   int `json:"input_tokens"`
	CacheCreation int `json:"cache_creation_input_tokens"`
	CacheRead     int `json:"cache_read_input_tokens"`
	OutputTokens  int `json:"output_tokens"`
}

func usageOf(prompt, cached, generated int) usage {
	return usage{InputTokens: prompt - cached, CacheRead: cached, OutputTokens: generated}
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
func partOf(b *answer.Block) part {
	text := b.Text.String()
	switch b.Kind {
	case answer.ThoughtBlock:
		signed := signature(text)
		return part{Type: "thinking", Thinking: &text, Signature: &signed}
	case answer.CallBlock:
		input := jsontext.Value(cmp.Or(text, "{}"))
		if !input.IsValid() { // max_tokens has ended it
			input, _ = reply.Encode(map[string]string{"partial_json": text})
		}
		return part{Type: "tool_use", ID: newID(b.ID), Name: b.Name, Input: input}
	}
	return part{Type: "text", Text: &text}
}

// format writes the answers of /v1/messages.
type format struct {
	g      *answer.Generation
	begun  bool
	cut    answer.Blocks
	index  int
	called bool
}

func (q *query) Format(g *answer.Generation) answer.Format { return &format{g: g} }

func (f *format) message(u usage) *message {
	return &message{
		ID: f.g.ID, Type: "message", Role: "assistant", Model: f.g.Model.Name, Content: []part{}, Usage: u,
	}
}

func (f *format) Whole(answers []answer.Answer) any {
	got := &answers[0]
	a := f.message(usageOf(got.Usage.PromptTokens, got.Usage.CachedTokens, got.Usage.Generated))
	for _, b := range got.Blocks {
		a.Content = append(a.Content, partOf(b))
		f.called = f.called || b.Kind == answer.CallBlock
	}
	stop := stopOf(&got.Ending, f.called)
	a.StopReason, a.StopSequence = &stop.Reason, stop.Sequence
	if f.g.Opts.Timings {
		a.Timings = answer.TimingsOf(got.Usage)
	}
	return a
}

func send(s *reply.Stream, e event) error { return s.Named(e.Type, e) }

func (f *format) Event(s *reply.Stream, e answer.Event) error {
	if !f.begun {
		f.begun = true
		u := usageOf(e.Usage.PromptTokens, e.Usage.CachedTokens, 0)
		if err := send(s, event{Type: "message_start", Message: f.message(u)}); err != nil {
			return err
		}
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
	u := usageOf(e.Usage.PromptTokens, e.Usage.CachedTokens, e.Usage.Generated)
	last := event{Type: "message_delta", Delta: stopOf(e.End, f.called), Usage: &u}
	if f.g.Opts.Timings {
		last.Timings = e.Timings()
	}
	return send(s, last)
}

func (f *format) Open(s *reply.Stream, b *answer.Block) error {
	f.called = f.called || b.Kind == answer.CallBlock
	part := partOf(b)
	if part.Signature != nil {
		part.Signature = new(string)
	}
	return send(s, event{Type: "content_block_start", Index: &f.index, Block: &part})
}

// Add sends text of the open block. Only thoughts are kept, for their signature.
func (f *format) Add(s *reply.Stream, b *answer.Block, text string, _ []generate.Token) error {
	if text == "" {
		return nil
	}
	d := delta{Type: "text_delta", Text: &text}
	switch b.Kind {
	case answer.ThoughtBlock:
		b.Text.WriteString(text)
		d = delta{Type: "thinking_delta", Thinking: &text}
	case answer.CallBlock:
		d = delta{Type: "input_json_delta", JSON: &text}
	}
	return f.delta(s, d)
}

func (f *format) delta(s *reply.Stream, d delta) error {
	return send(s, event{Type: "content_block_delta", Index: &f.index, Delta: d})
}

func (f *format) Close(s *reply.Stream, b *answer.Block, _ *answer.Ending) error {
	if b.Kind == answer.ThoughtBlock {
		signed := signature(b.Text.String())
		if err := f.delta(s, delta{Type: "signature_delta", Signature: &signed}); err != nil {
			return err
		}
	}
	index := f.index
	f.index++
	return send(s, event{Type: "content_block_stop", Index: &index})
}

func (f *format) End(s *reply.Stream) error {
	return send(s, event{Type: "message_stop"})
}

func (f *format) Failed(s *reply.Stream, err *reply.Error) error {
	return s.Named("error", Dialect{}.Error(f.g.Request, err))
}
