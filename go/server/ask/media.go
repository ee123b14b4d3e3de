package ask

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/server/reply"
)

// MaxMedia is how many pictures and sounds a request may have.
const MaxMedia = 32

// MinRate and MaxRate are how many frames of a video a second may have.
const (
	MinRate = 0.01
	MaxRate = 1000
)

// Media in requests are named by their sources: URLs (data:, http:, https:, file:), and one of our own for files that were
// uploaded. They are brought once all fields are read and it is known that the model takes them.

const (
	dataURL  = "data:"
	videoURL = "data:video/"
	uploaded = "uploaded:"
)

// Base64 is the source of a file that is there in base64, with or without data: and a type in front.
func Base64(text string) string {
	if strings.HasPrefix(text, dataURL) {
		return text
	}
	return dataURL + ";base64," + text
}

// Uploaded is the source of a file that was uploaded under an id.
func Uploaded(id string) string { return uploaded + id }

// A MediaSource finds files for a request.
type MediaSource struct {
	URL      func(ctx context.Context, url string) ([]byte, error) // of http, https and file
	Uploaded func(id string) ([]byte, error)
}

type mediaKey struct{}

// WithMedia has media of a request be found in a source.
func WithMedia(ctx context.Context, s *MediaSource) context.Context {
	return context.WithValue(ctx, mediaKey{}, s)
}

// fetch returns the file of a source.
func fetch(ctx context.Context, source string) ([]byte, error) {
	s, _ := ctx.Value(mediaKey{}).(*MediaSource)
	scheme, rest, ok := strings.Cut(source, ":")
	switch id, isUpload := strings.CutPrefix(source, uploaded); {
	case isUpload && s != nil && s.Uploaded != nil:
		return s.Uploaded(id)
	case isUpload:
		return nil, errors.New("this server keeps no files, want the file itself in base64; start it with --batch-dir")
	case strings.HasPrefix(source, dataURL):
		return reading.DataURL(source)
	case ok && s != nil && s.URL != nil && slices.Contains([]string{"http", "https", "file"}, strings.ToLower(scheme)):
		return s.URL(ctx, source)
	case ok && strings.HasPrefix(rest, "//"):
		return nil, fmt.Errorf("a URL of %.20q; want data:image/png;base64, and the file so encoded", scheme)
	}
	return reading.DataURL(Base64(source)) // base64 alone, as llama-server takes it
}

// bring returns messages whose media have their data, and whose documents that are texts are texts.
func (m *Model) bring(ctx context.Context, messages []chat.Message) ([]chat.Message, error) {
	n := 0
	for i := range messages {
		n += len(messages[i].Content.Media())
	}
	if n == 0 {
		return messages, nil
	}
	messages = slices.Clone(messages)
	at := 0
	for i := range messages {
		c := &messages[i].Content
		if messages[i].Role == "tool" { // what a tool answers is not the client's choice
			*c = c.Taken(func(k chat.Kind) bool { return m.takes(k) == nil })
		}
		if c.Media() == nil {
			continue
		}
		c.Parts = slices.Clone(c.Parts)
		for j := range c.Parts {
			if c.Parts[j].Medium == nil {
				continue
			}
			if at++; at > MaxMedia {
				return nil, badMedium("%d pictures, sounds and documents, want at most %d", n, MaxMedia)
			}
			if err := m.bringPart(ctx, &c.Parts[j]); err != nil {
				if ctx.Err() != nil {
					return nil, Ended(ctx)
				}
				if bad := (*reply.Error)(nil); errors.As(err, &bad) {
					bad.Param, bad.Message = "messages", "messages: "+bad.Message
					return nil, err
				}
				return nil, badMedium("medium %d of %d: %v", at, n, err)
			}
		}
	}
	return messages, nil
}

func badMedium(format string, args ...any) error {
	return &reply.Error{Status: http.StatusBadRequest, Param: "messages", Message: "messages: " + fmt.Sprintf(format, args...),
		InLog: "a medium that cannot be taken"}
}

// bringPart brings one medium.
func (m *Model) bringPart(ctx context.Context, p *chat.Part) (err error) {
	one := *p.Medium
	if one.Kind == 0 && len(one.Source) >= len(videoURL) && strings.EqualFold(one.Source[:len(videoURL)], videoURL) {
		one.Kind = chat.Video // as animations alone say nothing of it
	}
	if err := m.takes(one.Kind); err != nil && (!one.Document || one.Kind == chat.Video) {
		return err
	}
	listed := false
	if one.Kind == chat.Video {
		one.Frames, listed, err = reading.FramesURL(one.Source)
	}
	if one.Data == nil && !listed {
		one.Data, err = fetch(ctx, one.Source)
	}
	if err != nil {
		return err
	}
	one.Source = ""
	if one.Kind == chat.Video {
		if p.Medium = &one; !listed {
			err = reading.CheckVideo(one.Data)
		}
		return err
	}
	if one.Kind, err = reading.KindOf(one.Data); err == nil {
		p.Medium = &one
		return m.takes(one.Kind)
	}
	if !one.Document || strings.HasPrefix(string(one.Data), "%PDF") || !utf8.Valid(one.Data) {
		return err
	}
	text := string(one.Data)
	if one.Name != "" {
		text = one.Name + "\n" + text
	}
	*p = chat.Part{Text: text}
	return nil
}

// Tokens returns the tokens of the pieces of a prompt for the field of that name; where they are only counted, however many.
func (m *Model) Tokens(ctx context.Context, pieces []chat.Piece, name string, counted bool) (*reading.Prompt, error) {
	window := m.Ctx
	if counted {
		window = 0
	}
	p, err := m.Projector.Tokens(ctx, m.Tokenizer, window, pieces)
	if err != nil {
		return nil, mediaError(ctx, name, err)
	}
	if len(p.IDs) == 0 {
		return nil, reply.Invalid(name, "empty, want some text: this model has no token to begin with")
	}
	return p, nil
}

// mediaError is an error of tokens of the field of that name, as clients are told.
func mediaError(ctx context.Context, name string, err error) error {
	long, short := (*engine.TooLongError)(nil), (*mem.LimitError)(nil)
	switch {
	case ctx.Err() != nil:
		return Ended(ctx)
	case errors.As(err, &long):
		return err
	case errors.As(err, &short):
		return &reply.Error{Status: http.StatusTooManyRequests, Message: err.Error()}
	}
	return &reply.Error{Status: http.StatusBadRequest, Param: name, Message: err.Error(), InLog: "a medium that cannot be taken"}
}

// takes returns an error if the model takes no media of a kind; 0: of any.
func (m *Model) takes(k chat.Kind) error {
	if m.Projector.Takes(k) || k == 0 && (m.Projector.Takes(chat.Picture) || m.Projector.Takes(chat.Sound)) {
		return nil
	}
	what, verb := "a picture or a sound", "sees or hears"
	switch k {
	case chat.Picture, chat.Video:
		what, verb = "a "+k.String(), "sees"
	case chat.Sound:
		what, verb = "a sound", "hears"
	}
	if m.Projector != nil {
		return &reply.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("the projector of the model %s has no encoder for %s: want "+
			"a model that %s", m.Name, what, verb)}
	}
	return &reply.Error{Status: http.StatusBadRequest, Message: fmt.Sprintf("the model %s reads text only, and the request has "+
		"%s: want a model that %s, or this one started with --mmproj FILE, its projector", m.Name, what, verb)}
}
