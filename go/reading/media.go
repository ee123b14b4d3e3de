package reading

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/media/picture"
	"github.com/quern-llm/quern/go/media/sound"
)

// KindOf tells by its first bytes whether a file is a picture or a sound.
func KindOf(data []byte) (chat.Kind, error) {
	format, known := picture.Format(data)
	if known {
		return chat.Picture, nil
	}
	if heard, known := sound.Format(data); known {
		return chat.Sound, nil
	} else if format == "" {
		format = heard
	}
	const can = picture.Formats + ", or sound as " + sound.Formats
	switch {
	case len(data) == 0:
		return 0, errors.New("an empty file; want a picture as " + can)
	case format == "PDF":
		return 0, errors.New("a PDF is neither a picture nor a sound; give it as a document, or send its pages as images")
	case format != "":
		return 0, fmt.Errorf("%s is not read; want a picture as %s", format, can)
	}
	return 0, errors.New("neither a picture nor a sound that is known; want a picture as " + can)
}

// KindAs is KindOf of a medium, which may be a video: then it is an error if it could be none.
func KindAs(m *chat.Medium) (chat.Kind, error) {
	if m.Kind != chat.Video {
		return KindOf(m.Data)
	}
	if m.Frames == nil {
		return chat.Video, CheckVideo(m.Data)
	}
	return chat.Video, checkFrames(len(m.Frames))
}

// DataURL returns the file in a data: URL, in base64 of either alphabet, with or without padding. What it says of the type
// is passed by.
func DataURL(url string) ([]byte, error) {
	const want = "want data:image/png;base64, and the file so encoded"
	rest, ok := strings.CutPrefix(url, "data:")
	if !ok {
		return nil, errors.New("not a data: URL; " + want)
	}
	head, text, ok := strings.Cut(rest, ",")
	if !ok || len(head) > 1000 {
		return nil, errors.New("a data: URL without a comma; " + want)
	}
	if !strings.HasSuffix(strings.ToLower(strings.TrimSpace(head)), ";base64") {
		return nil, errors.New("a data: URL that is not in base64; " + want)
	}
	text = strings.TrimRight(text, "=\r\n ")
	code := base64.RawStdEncoding
	if strings.ContainsAny(text, "-_") {
		code = base64.RawURLEncoding
	}
	data, err := code.DecodeString(text) // which skips line breaks
	if err != nil {
		return nil, fmt.Errorf("base64 that is damaged: %v", err)
	}
	return data, nil
}
