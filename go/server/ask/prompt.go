package ask

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// A Prompt is a sequence of texts, token ids and media.
type Prompt []PromptPart

// A PromptPart is text, or ids where those are not nil, or a medium.
type PromptPart struct {
	Text   string
	Ids    []int32
	Medium *chat.Medium
}

// Prompts are separate inputs: each has answers of its own.
type Prompts []Prompt

const wantPrompt = "a string, an array of token ids, both mixed, or an array of these"

func (p *Prompts) Take(r *field.Reader) (err error) {
	*p, err = ReadPrompts(r, MaxSequences)
	return err
}

// ReadPrompts reads one prompt or as many as `most`.
func ReadPrompts(r *field.Reader, most int) (all []Prompt, err error) {
	if r.Kind() != '[' {
		one, err := readPrompt(r)
		return []Prompt{one}, err
	}
	// An array of strings and arrays holds several prompts; a number makes it a single
	// one.
	var joined Prompt
	number, nested := false, false
	err = r.Elements(wantPrompt, func(i int) error {
		var one Prompt
		var err error
		switch r.Kind() {
		case '0':
			number = true
			err = joined.element(r)
		case '"':
			err = joined.element(r)
			one = joined[len(joined)-1:]
		default:
			nested = true
			one, err = readPrompt(r)
		}
		switch {
		case err != nil:
			return field.Within(fmt.Sprintf("element %d", i), err)
		case number && nested:
			return fmt.Errorf("token ids beside prompts, want %s", wantPrompt)
		case !number:
			all = append(all, one)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case number:
		return []Prompt{joined}, nil
	case len(all) == 0:
		return nil, reply.Bad("empty, want %s", wantPrompt)
	case len(all) > most:
		return nil, reply.Bad("%d prompts, want at most %d", len(all), most)
	}
	return all, nil
}

// A OnePrompt is a field of one prompt, in whose array are the parts of it. Its text may be empty.
type OnePrompt struct {
	P     *Prompt
	Given *bool
}

func (p OnePrompt) Take(r *field.Reader) (err error) {
	*p.Given = true
	*p.P, err = readPrompt(r)
	return err
}

func (p OnePrompt) Value() any { return nil }

func (p OnePrompt) Schema() field.Schema {
	return field.Schema{"description": "a string, an array of strings and token ids, or text with media", "anyOf": onePrompt()}
}

// readPrompt reads one element of an array of prompts.
func readPrompt(r *field.Reader) (p Prompt, err error) {
	switch r.Kind() {
	case '"':
		return p, p.element(r)
	case '{':
		return readPromptObject(r)
	}
	err = r.Elements(wantPrompt, func(i int) error {
		return field.Within(fmt.Sprintf("element %d", i), p.element(r))
	})
	if err == nil && p == nil {
		err = fmt.Errorf("empty, want %s", wantPrompt)
	}
	return p, err
}

// element reads a string or a token id.
func (p *Prompt) element(r *field.Reader) error {
	if r.Kind() == '"' {
		s, err := r.Text(wantPrompt)
		if s != "" || len(*p) == 0 { // else it has no tokens
			*p = append(*p, PromptPart{Text: s})
		}
		return err
	}
	if r.Kind() != '0' {
		return r.Wrong("a token id or a string")
	}
	var id int32
	if err := field.Integer(&id, 0, math.MaxInt32).Take(r); err != nil {
		return err
	}
	if len(*p) == 0 || (*p)[len(*p)-1].Ids == nil {
		*p = append(*p, PromptPart{})
	}
	last := &(*p)[len(*p)-1]
	last.Ids = append(last.Ids, id)
	return nil
}

// MediaMarker stands for a medium in the text of a prompt that is an object. It is another one in each process, so that no
// text has it by chance, or by the will of who wrote it.
var MediaMarker = "<__media_" + rand.Text() + "__>"

// SetMediaMarker has the marker be one that clients know, before the first request. Texts that have it by chance are no texts
// then.
func SetMediaMarker(marker string) error {
	if len(marker) < 3 || len(marker) > 100 || !utf8.ValidString(marker) {
		return errors.New("want 3 to 100 bytes of text")
	}
	MediaMarker = marker
	return nil
}

// readPromptObject reads llama-server's format for text with media.
func readPromptObject(r *field.Reader) (p Prompt, err error) {
	const want = `an object with "prompt_string"`
	given, text := false, ""
	var media []string
	err = r.Members(want, func(name string) (err error) {
		switch name {
		case "prompt_string":
			given = true
			text, err = r.Text("a string")
		case "multimodal_data":
			if r.Kind() != 'n' {
				media, err = ReadFiles(r)
				break
			}
			fallthrough
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	if err == nil && !given {
		err = fmt.Errorf("an object without prompt_string, want %s", want)
	}
	if err != nil {
		return nil, err
	}
	texts := []string{text}
	if len(media) > 0 {
		texts = strings.Split(text, MediaMarker)
	}
	if len(texts) != len(media)+1 {
		return nil, reply.Bad("multimodal_data: %d files, and prompt_string has the marker that /props tells as media_marker "+
			"%d times, want as many", len(media), len(texts)-1)
	}
	for i, text := range texts {
		if text != "" || len(texts) == 1 {
			p = append(p, PromptPart{Text: text})
		}
		if i < len(media) {
			p = append(p, PromptPart{Medium: &chat.Medium{Source: media[i]}})
		}
	}
	return p, nil
}

// ReadFiles reads a list of files in base64, and returns their sources.
func ReadFiles(r *field.Reader) (sources []string, err error) {
	err = r.Elements("an array of files in base64", func(i int) error {
		s, err := r.Text("a file in base64")
		if err == nil && s == "" {
			err = reply.Bad("empty, want a file in base64")
		}
		sources = append(sources, Base64(s))
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
	return sources, err
}

func (p *Prompts) Value() any { return nil }

func (p *Prompts) Schema() field.Schema {
	one := onePrompt()
	return field.Schema{"description": wantPrompt, "anyOf": append(one,
		field.Schema{"type": "array", "minItems": 1, "items": field.Schema{"anyOf": one}})}
}

// onePrompt is what a prompt may be.
func onePrompt() []field.Schema {
	s := field.Schema{"type": "string"}
	id := field.Schema{"type": "integer", "minimum": 0}
	object := field.Schema{"type": "object", "required": []string{"prompt_string"},
		"properties": field.Schema{"prompt_string": s, "multimodal_data": field.Schema{"type": "array", "items": s}}}
	mixed := field.Schema{"type": "array", "minItems": 1, "items": field.Schema{"anyOf": []field.Schema{s, id}}}
	return []field.Schema{s, object, mixed}
}

// Encode returns the tokens of a prompt. Only text at the beginning gets BOS; tokens at the beginning stay as they are.
func (p Prompt) Encode(ctx context.Context, m *Model) (*reading.Prompt, error) {
	return p.EncodeAs(ctx, m, "prompt")
}

// EncodeAs is encode for the field of that name.
func (p Prompt) EncodeAs(ctx context.Context, m *Model, name string) (*reading.Prompt, error) {
	if p.HasMedia() {
		ctx, free := holdTexts(ctx)
		defer free()
		pieces, err := p.pieces(ctx, m)
		if err != nil {
			return nil, err
		}
		return m.Tokens(ctx, pieces, name, false)
	}
	ids, err := p.encode(m, name, m.Encode)
	return &reading.Prompt{IDs: ids}, err
}

// EncodeAll returns the tokens of a prompt for the field of that name, with options for its texts, however many, and as they
// are: BOS may stand there twice. Those of media are -1.
func (p Prompt) EncodeAll(ctx context.Context, m *Model, name string, o tokenizer.Options) (ids []int32, err error) {
	if p.HasMedia() {
		ctx, free := holdTexts(ctx)
		defer free()
		pieces, err := p.pieces(ctx, m)
		if err != nil {
			return nil, err
		}
		all, err := m.Projector.TokensAs(ctx, m.Tokenizer, 0, pieces, o)
		if err != nil {
			return nil, mediaError(ctx, name, err)
		}
		return all.IDs, nil
	}
	return p.each(m, name, func(text string, later tokenizer.Options, _ int) ([]int32, error) {
		as := o
		as.NoSpecial = as.NoSpecial || later.NoSpecial
		return m.Tokenizer.Encode(text, as), nil
	})
}

// HasMedia reports whether a part is a picture or a sound.
func (p Prompt) HasMedia() bool {
	return slices.ContainsFunc(p, func(part PromptPart) bool { return part.Medium != nil })
}

// pieces returns the parts of a prompt that has media and no token ids, with their data.
func (p Prompt) pieces(ctx context.Context, m *Model) (pieces []chat.Piece, err error) {
	one := []chat.Message{{}}
	for _, part := range p {
		one[0].Content.Parts = append(one[0].Content.Parts, chat.Part{Text: part.Text, Medium: part.Medium})
	}
	if one, err = m.bring(ctx, one); err != nil {
		return nil, err
	}
	for _, part := range one[0].Content.Parts {
		pieces = append(pieces, chat.Piece{Text: part.Text, Medium: part.Medium})
	}
	return pieces, nil
}

// EncodeCut returns the first n tokens of a prompt for the field of that name. The token that ends a text stays its last.
func (p Prompt) EncodeCut(m *Model, name string, n int) ([]int32, error) {
	ids, err := p.encode(m, name, func(text string, o tokenizer.Options, _ int) ([]int32, error) {
		return m.Tokenizer.Encode(text, o), nil
	})
	if err != nil || len(ids) <= n {
		return ids, err
	}
	last := ids[len(ids)-1]
	ids = ids[:n]
	if eos, ok := m.Tokenizer.EOS(); ok && last == eos && m.Tokenizer.AddEOS() && n > 1 {
		ids[n-1] = eos
	}
	return ids, nil
}

// encode returns the tokens of a prompt, of which those of texts are made by a function like Model.Encode.
func (p Prompt) encode(m *Model, name string,
	text func(text string, o tokenizer.Options, before int) ([]int32, error)) ([]int32, error) {
	ids, err := p.each(m, name, text)
	if err != nil || len(p) > 0 && len(p[0].Ids) > 0 { // the answer counts and shows the client's own
		return ids, err
	}
	return m.begunAs(ids, name)
}

// each returns the tokens of all parts, as they are.
func (p Prompt) each(m *Model, name string,
	text func(text string, o tokenizer.Options, before int) ([]int32, error)) ([]int32, error) {
	ids := []int32{}
	for i, part := range p {
		for at, id := range part.Ids {
			if int(id) >= m.Tokenizer.Len() {
				return nil, reply.Invalid(name, "element %d: token %d is not in the vocabulary, want 0 to %d", at, id,
					m.Tokenizer.Len()-1)
			}
		}
		if part.Ids != nil {
			ids = append(ids, part.Ids...)
			continue
		}
		more, err := text(part.Text, tokenizer.Options{NoSpecial: i > 0, ParseSpecial: true}, len(ids))
		if err != nil {
			return nil, err
		}
		ids = append(ids, more...)
	}
	return ids, nil
}

// begunAs applies Tokenizer.Begin to the ids of the field of that name. It is an error if there are none then: a model needs
// a token to continue.
func (m *Model) begunAs(ids []int32, name string) ([]int32, error) {
	if ids = m.Tokenizer.Begin(ids); len(ids) == 0 {
		return nil, reply.Invalid(name, "empty, want some text: this model has no token to begin with")
	}
	return ids, nil
}

// Size is what a prompt holds: token ids, and the bytes of its texts.
func (p Prompt) Size() (n struct{ Ids, Bytes int }) {
	for _, part := range p {
		n.Ids += len(part.Ids)
		n.Bytes += len(part.Text)
	}
	return n
}

// String is the prompt as an answer echoes it: the client's own text, if it is text.
func (p Prompt) String(m *Model) string {
	out := ""
	for _, part := range p {
		out += part.Text + m.Tokenizer.Detokenize(part.Ids, false)
	}
	return out
}

// Spell returns the text of tokens as llama-server echoes it: including special tokens,
// and the space that a vocabulary prepends.
func (m *Model) Spell(ids []int32) string {
	var b strings.Builder
	for _, id := range ids {
		if id >= 0 { // media have no spelling
			b.Write(m.Tokenizer.Piece(id, true))
		}
	}
	return b.String()
}

// TokenList is the tokens field of /detokenize.
type TokenList []int32

func (l *TokenList) Take(r *field.Reader) error {
	*l = TokenList{}
	return r.Elements("an array of token ids", func(i int) error {
		var id int32
		err := field.Integer(&id, 0, math.MaxInt32).Take(r)
		*l = append(*l, id)
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
}

func (l *TokenList) Value() any { return []int32(*l) }

func (l *TokenList) Schema() field.Schema {
	return field.Schema{"type": "array", "items": field.Schema{"type": "integer", "minimum": 0},
		"description": "an array of token ids"}
}

func PromptField(p *Prompts) field.Field {
	return field.Required("prompt", p, "What to continue: text, token ids, both mixed, or an array of these for "+
		"several answers.")
}

// Encode returns the tokens of a text. before is how many tokens precede it in the prompt. A text that is much too long
// for the context is not encoded: the error says how many tokens it has at least.
func (m *Model) Encode(text string, o tokenizer.Options, before int) ([]int32, error) {
	return reading.Encode(m.Tokenizer, m.Ctx, text, o, before)
}
