package anthropic

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/media/document"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// system is the system prompt: its blocks of text.
type system []string

// attribution begins the block that Claude Code puts first in its system prompt. It has a
// checksum of the request: left there, no prompt would have a prefix in common with an
// earlier one, and each would be evaluated as a whole. It is for the bill, and says
// nothing to the model.
const attribution = "x-anthropic-billing-header:"

func (s *system) Take(r *field.Reader) error {
	blocks, err := readBlocks(r, false)
	for i, b := range blocks {
		if b.Type != "text" {
			return fmt.Errorf("block %d: type: %s, want text", i, field.Quote(b.Type))
		}
		*s = append(*s, *b.Text)
	}
	return err
}

// texts returns the blocks without Claude Code's attribution.
func (s system) texts() []string {
	var out []string
	for _, text := range s {
		if strings.HasPrefix(text, attribution) {
			_, text, _ = strings.Cut(text, "\n")
		}
		if text != "" {
			out = append(out, text)
		}
	}
	return out
}

func (s *system) Value() any { return nil }

func (s *system) Schema() field.Schema {
	return field.Schema{"description": "a string or an array of text blocks",
		"anyOf": []field.Schema{{"type": "string"}, {"type": "array", "items": blockSchema}}}
}

// A block is a block of content, of any type.
type block struct {
	Type      string         `json:"type"`
	Text      *string        `json:"text"`
	Thinking  string         `json:"thinking"`
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Input     jsontext.Value `json:"input"`
	ToolUseID string         `json:"tool_use_id"`
	Content   jsontext.Value `json:"content"`
	Title     string         `json:"title"`
	Context   string         `json:"context"` // of a document: what is said of it
	Citations jsontext.Value `json:"citations"`
	Source    source         `json:"source"`
	Server    string         `json:"server_name"`

	parts   []chat.Part // what the block is in a message
	results []chat.Part // of Content
	pages   agent.Pages // that those are of
}

// A source is where a picture, a video or a document is.
type source struct {
	Type    string         `json:"type"`
	Media   string         `json:"media_type"`
	Data    string         `json:"data"`
	URL     string         `json:"url"`
	FileID  string         `json:"file_id"`
	Content jsontext.Value `json:"content"` // of a document: blocks, or a text
}

// part returns the medium that is there.
func (s *source) part(kind chat.Kind, name string) (p chat.Part, err error) {
	m := &chat.Medium{Kind: kind, Document: kind == 0, Name: name}
	given := ""
	switch s.Type {
	case "base64":
		if m.Source, given = ask.Base64(s.Data), s.Data; kind != chat.Picture && !strings.HasPrefix(s.Data, "data:") {
			m.Source = "data:" + s.Media + ";base64," + s.Data // the type says whether it is a list of frames, or a page
		}
	case "url":
		m.Source, given = s.URL, s.URL
	case "file":
		m.Source, given = ask.Uploaded(s.FileID), s.FileID
	default:
		want := "base64, url or file"
		if kind == 0 {
			want = "base64, text, content, url or file"
		}
		return p, field.Within("source", field.Within("type", reply.Bad("the string %s, want %s", field.Quote(s.Type), want)))
	}
	if given == "" {
		return p, field.Within("source", reply.Bad("of type %s, and empty", s.Type))
	}
	return chat.Part{Medium: m}, nil
}

var blockSchema = field.Schema{"type": "object", "required": []string{"type"},
	"properties": field.Schema{"type": field.Schema{"type": "string"}}}

const wantBlocks = "a string or an array of blocks"

// readBlocks reads content: blocks, or a text, which is one block. It returns those that
// check has passed. A result of a tool has none of another within it.
func readBlocks(r *field.Reader, result bool) ([]block, error) {
	if r.Kind() == '"' {
		s, err := r.Text(wantBlocks)
		return []block{{Type: "text", Text: &s, parts: chat.Texts(s)}}, err
	}
	var blocks []block
	err := r.Elements(wantBlocks, func(i int) error {
		var b block
		err := r.Decode(&b)
		switch {
		case err != nil:
		case result && slices.Contains(resultTypes, b.Type):
			err = reply.Bad("a %s within a result or a document, want blocks such as text", b.Type)
		default:
			err = b.check()
		}
		if err == nil {
			blocks = append(blocks, b)
		}
		return field.Within(fmt.Sprintf("block %d", i), err)
	})
	return blocks, err
}

// check refuses blocks that a model of text cannot be given, and those that lack what
// their type needs.
func (b *block) check() error {
	missing := b.missing
	switch b.Type {
	case "":
		return reply.Bad("type: missing, want one such as text")
	case "text":
		if b.Text == nil {
			return missing("text")
		}
		b.parts = chat.Texts(*b.Text)
	case "document":
		return b.document()
	case "image", "video":
		kind := chat.Picture
		if b.Type == "video" { // as the vendors of models that see videos have it
			kind = chat.Video
		}
		p, err := b.Source.part(kind, "")
		b.parts = []chat.Part{p}
		return err
	case "tool_use", webUse, remoteUse:
		return b.checkUse()
	case searchResult, readResult, remoteResult:
		return b.readResult()
	case "tool_result":
		if b.ToolUseID == "" {
			return missing("tool_use_id")
		}
		if b.Content == nil || b.Content.Kind() == 'n' {
			return nil
		}
		inner, err := readBlocks(field.NewReader(b.Content), true)
		for _, one := range inner {
			b.results = append(b.results, one.parts...)
		}
		return field.Within("content", err)
	}
	return nil
}

// document makes the parts of a document. A title is the name of its file.
func (b *block) document() error {
	var cite struct {
		Enabled bool `json:"enabled"`
	}
	if b.Citations.Kind() == '{' {
		if err := field.Decode(b.Citations, &cite); err != nil {
			return field.Within("citations", err)
		}
	}
	if cite.Enabled {
		return field.Within("citations", reply.Bad("enabled is true, and answers of this server cite nothing; want false, or leave it out"))
	}
	switch b.Source.Type {
	case "text":
		if b.Source.Data == "" {
			return field.Within("source", reply.Bad("of type text, and empty"))
		}
		b.parts = chat.Texts(document.Plain(b.Source.Data).Prompt(b.Title, b.Context))
	case "content":
		inner, err := readBlocks(field.NewReader(b.Source.Content), true)
		if err != nil {
			return field.Within("source", field.Within("content", err))
		}
		head, tail := document.Around(b.Title, b.Context)
		b.parts = chat.Texts(head)
		for _, one := range inner {
			b.parts = append(b.parts, one.parts...)
		}
		b.parts = append(b.parts, chat.Part{Text: tail})
	default:
		p, err := b.Source.part(0, b.Title)
		if p.Medium != nil {
			p.Medium.About = b.Context
		}
		b.parts = []chat.Part{p}
		return err
	}
	return nil
}

// A turn is one of a conversation.
type turn struct {
	role   string
	blocks []block
}

type turns []turn

func (l *turns) Take(r *field.Reader) (err error) {
	*l, err = ask.ReadMessages(r, readTurn)
	return err
}

func readTurn(r *field.Reader) (m turn, err error) {
	given := false
	err = r.Members("an object", func(name string) (err error) {
		switch name {
		case "role":
			err = field.OneOf(&m.role, "user", "assistant", "system").Take(r)
		case "content":
			given = true
			m.blocks, err = readBlocks(r, false)
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	switch {
	case err != nil:
		return m, err
	case m.role == "":
		return m, reply.Bad("role: missing, want user or assistant")
	case !given:
		return m, reply.Bad("content: missing, want %s", wantBlocks)
	}
	return m, nil
}

func (l *turns) Value() any { return nil }

func (l *turns) Schema() field.Schema {
	return field.Schema{
		"type": "array", "minItems": 1, "description": ask.WantMessages,
		"items": field.Schema{"type": "object", "required": []string{"role", "content"}, "properties": field.Schema{
			"role":    field.Schema{"enum": []string{"user", "assistant", "system"}},
			"content": field.Schema{"anyOf": []field.Schema{{"type": "string"}, {"type": "array", "items": blockSchema}}},
		}},
	}
}

// conversation returns the messages as templates have them.
func (l turns) conversation(system system) []chat.Message {
	var t ask.Transcript
	t.Add("system", chat.Texts(system.texts()...)...)
	for i, m := range l {
		if m.role == "assistant" {
			addAnswer(&t, m.blocks, i == len(l)-1)
			continue
		}
		for _, b := range m.blocks {
			switch b.Type {
			case "tool_result":
				t.Result(modelID(b.ToolUseID), b.results...)
			default:
				t.Add(m.role, b.parts...)
			}
		}
	}
	return t.Messages
}

// addAnswer adds what the assistant wrote. Blocks of other types, such as thoughts that
// another model has redacted, say nothing to this one. last: nothing follows it yet.
func addAnswer(t *ask.Transcript, blocks []block, last bool) {
	open, made := unanswered(blocks), map[string]bool{}
	var due []block // calls without a result, which comes before all else
	settle := func() {
		for _, b := range due {
			if last { // what is told then is not known
				t.Result(modelID(b.ID))
			} else {
				t.Result(modelID(b.ID), chat.Part{Text: "error: the call was not made"})
			}
		}
		due = nil
	}
	for _, b := range blocks {
		switch b.Type {
		case "thinking":
			settle()
			t.Think(b.Thinking)
		case "text", "document", "image", "video":
			settle()
			t.Say(b.parts...)
		case "tool_use":
			t.Call(modelID(b.ID), b.Name, string(b.Input))
		case webUse, remoteUse:
			if !b.served() {
				continue
			}
			t.Call(modelID(b.ID), b.flat(), string(b.Input))
			if made[b.ID] = true; open[b.ID] {
				due = append(due, b)
			}
		case searchResult, readResult, remoteResult:
			if made[b.ToolUseID] {
				t.Result(modelID(b.ToolUseID), b.results...)
			}
		}
	}
	settle()
}

// unanswered are the ids of calls of the server's among blocks that have no result there.
func unanswered(blocks []block) map[string]bool {
	open := map[string]bool{}
	for i := range blocks {
		switch b := &blocks[i]; {
		case b.served():
			open[b.ID] = true
		case b.Type == searchResult, b.Type == readResult, b.Type == remoteResult:
			delete(open, b.ToolUseID)
		}
	}
	return open
}
