package ask

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/media/document"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/server/fetch"
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
	URL      func(ctx context.Context, url string, documents bool) (*fetch.File, error) // of http, https and file
	Uploaded func(id string) (*fetch.File, error)

	texts map[*chat.Medium]readText // of documents, which are kept; nil: none is
}

type mediaKey struct{}

// WithMedia has media of a request be found in a source.
func WithMedia(ctx context.Context, s *MediaSource) context.Context {
	return context.WithValue(ctx, mediaKey{}, s)
}

// mediaOf returns where media of a request are found, nil: nowhere.
func mediaOf(ctx context.Context) *MediaSource {
	s, _ := ctx.Value(mediaKey{}).(*MediaSource)
	return s
}

// find returns the file of a source, which may be a document or may not.
func find(ctx context.Context, source string, documents bool) (*fetch.File, error) {
	s := mediaOf(ctx)
	scheme, rest, ok := strings.Cut(source, ":")
	switch id, isUpload := strings.CutPrefix(source, uploaded); {
	case isUpload && s != nil && s.Uploaded != nil:
		return s.Uploaded(id)
	case isUpload:
		return nil, errors.New("this server keeps no files, want the file itself in base64; start it with --batch-dir")
	case strings.HasPrefix(source, dataURL):
		data, err := reading.DataURL(source)
		kind, _, _ := strings.Cut(rest, ",")
		return &fetch.File{Data: data, Type: strings.TrimSuffix(strings.TrimSpace(kind), ";base64")}, err
	case ok && s != nil && s.URL != nil && slices.Contains([]string{"http", "https", "file"}, strings.ToLower(scheme)):
		return s.URL(ctx, source, documents)
	case ok && strings.HasPrefix(rest, "//"):
		return nil, fmt.Errorf("a URL of %.20q; want data:image/png;base64, and the file so encoded", scheme)
	}
	data, err := reading.DataURL(Base64(source)) // base64 alone, as llama-server takes it
	return &fetch.File{Data: data}, err
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
	ctx, free := holdTexts(ctx)
	defer free()
	messages = slices.Clone(messages)
	at := 0
	for i := range messages {
		c := &messages[i].Content
		if messages[i].Role == "tool" { // what a tool answers is not the client's choice
			*c = c.Taken(func(one *chat.Medium) bool { return one.Document || m.takes(one.Kind) == nil })
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
			err := m.bringPart(ctx, &c.Parts[j])
			if err != nil && messages[i].Role == "tool" && c.Parts[j].Medium.Document && ctx.Err() == nil {
				c.Parts[j] = chat.Part{Text: fmt.Sprintf("(a document, which cannot be read: %v)", err)}
				continue
			}
			if err != nil {
				if ctx.Err() != nil {
					return nil, Ended(ctx)
				}
				if short := (*mem.LimitError)(nil); errors.As(err, &short) {
					return nil, mediaError(ctx, "messages", err)
				}
				if bad := (*reply.Error)(nil); errors.As(err, &bad) {
					bad.Param, bad.Message = "messages", "messages: "+bad.Message
					return nil, err
				}
				return nil, badMedium("%s %d of %d: %v", called(c.Parts[j].Medium), at, n, err)
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
	kept := keptTexts(ctx)
	if text, ok := kept[p.Medium]; ok {
		*p = text.part
		return m.countText(ctx, text.n)
	}
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
	file := &fetch.File{Data: one.Data}
	if one.Data == nil && !listed {
		file, err = find(ctx, one.Source, one.Document)
	}
	if err != nil {
		return err
	}
	one.Source, one.Data = "", file.Data
	if one.Kind == chat.Video {
		if p.Medium = &one; !listed {
			err = reading.CheckVideo(one.Data)
		}
		return err
	}
	sent := one.Kind
	if one.Kind, err = reading.KindOf(one.Data); one.Document && sent == 0 && (err != nil || document.Is(one.Data)) {
		text, err := m.read(ctx, &one, file)
		if err != nil {
			return err
		}
		if kept != nil {
			kept[p.Medium] = text
		}
		*p = text.part
		return nil
	}
	if err == nil {
		p.Medium = &one
		err = m.takes(one.Kind)
	}
	return err
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
