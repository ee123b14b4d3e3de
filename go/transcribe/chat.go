package transcribe

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// Models that chat and hear are asked for what is said as their publishers ask them. They tell no times, so that sound is
// cut where it is quietest, and each part is a prompt of its own.

// Parts of a sound, in seconds: how long they are at most, which is what encoders of most such models were trained on, and how
// far before that they may end.
const (
	partLength = 30
	partSearch = 10
)

// mostSaid is how many tokens a part may have at most: more are a text that repeats itself.
const mostSaid = 1024

// A manner is how a model is asked.
type manner int

const (
	inWords manner = iota // a message has the sound, and what is asked for
	byToken               // a token follows the sound, after its language (Voxtral, Liu et al. 2025; mistral-common)
	byForm                // the answer says which language it is, and then the text (Qwen3-ASR, 2026; qwen_asr)
)

// Tokens of these manners.
const (
	transcribeToken = "[TRANSCRIBE]"
	textToken       = "<asr_text>"
)

// mannerOf finds out by the vocabulary which one it is.
func mannerOf(tok *tokenizer.Tokenizer, o *Options) manner {
	one := func(text string) bool {
		return len(tok.Encode(text, tokenizer.Options{NoSpecial: true, ParseSpecial: true})) == 1
	}
	switch {
	case one(textToken):
		return byForm
	case one(transcribeToken) && !o.Translate:
		return byToken
	}
	return inWords
}

// chatting is a transcription by a model that chats.
type chatting struct {
	*Listener
	Options
	ctx    context.Context
	manner manner
	out    *Result
}

func (l *Listener) chat(ctx context.Context, samples []float32, o Options) (*Result, error) {
	o.fill()
	c := &chatting{l, o, ctx, mannerOf(l.Tokenizer, &o), &Result{Language: o.Language, Duration: float64(len(samples)) / Rate, Timeless: true}}
	switch {
	case c.manner == byForm && o.Translate:
		return nil, &OptionError{"translate", "the model writes down what is said, and does not translate"}
	case c.manner == byToken && o.Prompt != "":
		return nil, &OptionError{"prompt", "the model is asked by a token, and takes no text with it; leave it out"}
	}
	for from := 0; from < len(samples); {
		to := from + partEnd(samples[from:])
		if part := samples[from:to]; !silent(part) {
			if err := c.hear(part, from, to); err != nil {
				return c.out, err
			}
		}
		if from = to; o.Progress != nil {
			o.Progress(float64(to)/Rate, c.out.Duration)
		}
	}
	c.out.Text = strings.TrimSpace(c.out.Text)
	return c.out, nil
}

// partEnd returns how many samples the first part of a sound has: all, or up to the middle of the quietest tenth of a second.
func partEnd(samples []float32) int {
	const most, step, window = partLength * Rate, Rate / 100, Rate / 10
	if len(samples) <= most {
		return len(samples)
	}
	end, least := most, math.Inf(1)
	for from := most - partSearch*Rate; from+window <= most; from += step {
		sum := 0.0
		for _, x := range samples[from : from+window] {
			sum += math.Abs(float64(x))
		}
		if sum < least {
			end, least = from+window/2, sum
		}
	}
	return end
}

// hear adds what is said in a part, which is the samples from one number to another.
func (c *chatting) hear(part []float32, from, to int) error {
	pieces, prompt, err := c.prompt(part)
	if err != nil {
		return err
	}
	tokens, err := c.Projector.Tokens(c.ctx, c.Tokenizer, c.Ctx, pieces)
	if err != nil {
		return err
	}
	s := Segment{ID: len(c.out.Segments), Seek: from / perHundredth, Start: float64(from) / Rate, End: float64(to) / Rate}
	language := c.Language
	for _, temperature := range c.Temperatures {
		said, err := c.say(tokens, temperature)
		if err != nil {
			return err
		}
		c.out.Tokens += len(said.Tokens)
		s.Tokens, s.Temperature, s.MeanLogprob = said.Tokens, float64(temperature), said.Logprob/float64(len(said.Tokens)+1)
		s.Text = c.text(said.Tokens, prompt)
		if c.manner == byForm && c.Language == "" {
			language, s.Text = formed(s.Text)
		}
		s.Text = strings.TrimSpace(s.Text)
		if s.Compression = compression(s.Text); s.Compression <= c.Compression {
			break
		}
	}
	if s.Text == "" {
		return nil
	}
	s.Language, s.Text = language, between(c.out.Text, s.Text)+s.Text
	if c.out.Language == "" {
		c.out.Language = language
	}
	c.out.Text += s.Text
	c.out.Segments = append(c.out.Segments, s)
	if c.Segment != nil {
		return c.Segment(s)
	}
	return nil
}

// prompt returns what the model is given for a part. It is nil where an answer is nothing but text.
func (c *chatting) prompt(part []float32) (pieces []chat.Piece, prompt *chat.Prompt, err error) {
	heard := chat.Part{Medium: &chat.Medium{Kind: chat.Sound, Samples: part}}
	if c.manner == byToken {
		ask := "[/INST]" + transcribeToken
		if c.Language != "" {
			ask = "[/INST]lang:" + c.Language + transcribeToken
		}
		return []chat.Piece{{Text: "[INST]"}, {Medium: heard.Medium}, {Text: ask}}, nil, nil
	}
	var messages []chat.Message
	user := chat.Content{Parts: []chat.Part{heard}}
	if c.manner == byForm {
		messages = append(messages, chat.Message{Role: "system", Content: chat.Text(c.Prompt)})
	} else {
		ask := c.Projector.Asks()
		if ask.System != "" {
			messages = append(messages, chat.Message{Role: "system", Content: chat.Text(ask.System)})
		}
		if text := c.words(ask.Text); text != "" {
			user.Parts = append(user.Parts, chat.Part{Text: text})
		}
	}
	rendered, err := c.Template.Render(chat.Input{
		Messages: append(messages, chat.Message{Role: "user", Content: user}), AddGenerationPrompt: true,
		Kwargs: map[string]json.RawMessage{"enable_thinking": json.RawMessage("false")}, Until: c.ctx,
	})
	if err != nil {
		return nil, nil, err
	}
	pieces = rendered.Pieces()
	if c.manner == byForm && c.Language != "" {
		name := LanguageName(c.Language)
		pieces = append(pieces, chat.Piece{Text: "language " + strings.ToUpper(name[:1]) + name[1:] + textToken})
	}
	return pieces, &rendered, nil
}

// words returns what is asked for beside a sound; own is how the publisher of the model asks, if that is known.
func (c *chatting) words(own string) string {
	in := ""
	if c.Language != "" {
		name := LanguageName(c.Language)
		in = " in " + strings.ToUpper(name[:1]) + name[1:]
	}
	text := own
	switch {
	case c.Translate:
		text = fmt.Sprintf("Translate the speech%s into English. Write the translation alone.", in)
	case own == "":
		text = fmt.Sprintf("Write down the speech%s. Write nothing but what is said.", in)
	}
	if c.Prompt != "" {
		text += "\n" + c.Prompt
	}
	return text
}

// say has the model say what is in a part.
func (c *chatting) say(prompt *reading.Prompt, temperature float32) (Said, error) {
	r, s := c.Request, &saying{done: make(chan error, 1)}
	r.Sink, r.Media, r.Slot = s, prompt.Media, -1
	r.Params = generate.Params{
		Prompt: prompt.IDs, MaxTokens: mostSaid, Sampling: sample.Defaults(), TopLogprobs: 0, NoShift: true, Stop: c.Tokenizer.IsEOG,
	}
	p := &r.Params.Sampling
	p.TopK, p.TopP, p.MinP, p.Temp = 0, 1, 0, temperature
	return s.wait(c.ctx, c.Submit, &r)
}

// text returns the text of an answer, without what the model thinks before it.
func (c *chatting) text(ids []int32, prompt *chat.Prompt) string {
	var text strings.Builder
	if prompt == nil {
		stream := c.Tokenizer.NewStream()
		for _, id := range ids {
			text.WriteString(stream.Write(id))
		}
		text.WriteString(stream.Flush())
		return text.String()
	}
	reply, stream := prompt.Reply(), c.Tokenizer.NewStream(append(prompt.Marks(), textToken)...)
	write := func(deltas []chat.Delta) {
		for _, d := range deltas {
			text.WriteString(d.Content)
		}
	}
	for _, id := range ids {
		write(reply.Write(stream.Write(id)))
	}
	write(reply.Write(stream.Flush()))
	write(reply.Close())
	return text.String()
}

// formed returns the language that an answer begins with, "language English<asr_text>", and the text behind that.
func formed(answer string) (language, text string) {
	head, text, ok := strings.Cut(answer, textToken)
	if !ok {
		return "", answer
	}
	name := strings.ToLower(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(head), "language")))
	if name == "none" {
		return "", text
	}
	if code, err := LanguageCode(name); err == nil {
		return code, text
	}
	return name, text
}

// between returns what stands between two texts that follow each other: a space, but in writing that has none.
func between(before, after string) string {
	last, _ := utf8.DecodeLastRuneInString(before)
	first, _ := utf8.DecodeRuneInString(after)
	const wide = 0x3000 // punctuation beside such writing
	for _, r := range []rune{last, first} {
		if unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar) ||
			r >= wide && unicode.IsPunct(r) {
			return ""
		}
	}
	if before == "" {
		return ""
	}
	return " "
}
