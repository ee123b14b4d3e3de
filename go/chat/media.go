package chat

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Kind is that of a medium.
type Kind int

const (
	Picture Kind = iota + 1
	Sound
	Video // frames
)

func (k Kind) String() string {
	return map[Kind]string{Picture: "picture", Sound: "sound", Video: "video"}[k]
}

// FrameRate is how many frames a second of a video models are shown, if there is a choice.
const FrameRate = 2

// A Medium is a picture, a sound or a video in a message: a file, as it was sent.
type Medium struct {
	Kind    Kind      // 0: not known before there is Data
	Data    []byte    // nil: it is at Source, and has to be fetched before it is rendered, or there are Samples or Frames
	Source  string    // such as a URL
	Samples []float32 // of a sound, as encoders hear it
	Frames  [][]byte  // of a video, a file each, in place of Data
	Rate    float32   // frames a second of these; 0: FrameRate
	Detail  string    // how closely a picture is looked at: low, or anything else for as closely as the model can

	Document bool   // it may also be a document, whose text is a part in its place
	Name     string // of the file of a document
	About    string // what its sender says of a document
}

// A part is a Part in JSON, as OpenAI's API has it.
type part struct {
	Type  string     `json:"type"`
	Text  *string    `json:"text,omitempty"`
	Image *imagePart `json:"image_url,omitempty"`
	Audio *audioPart `json:"input_audio,omitempty"`
	Video *videoPart `json:"video_url,omitempty"`
}

type imagePart struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type audioPart struct {
	Data string `json:"data"`
}

type videoPart struct {
	URL  string  `json:"url"` // of frames with commas between them, or of an animation
	Rate float32 `json:"fps,omitempty"`
}

// maxFrames bounds the frames of a video that is read; models are shown fewer.
const maxFrames = 1 << 10

// framesType is that of URLs that list frames, of whatever format.
const framesType = "data:video/jpeg;base64,"

// anyType is the type of the data URLs that are written: readers go by what the data begins with.
const anyType = "data:application/octet-stream;base64,"

func (p part) read() (Part, error) {
	var text string
	m := &Medium{}
	switch {
	case p.Type == "text" && p.Text != nil:
		return Part{Text: *p.Text}, nil
	case p.Type == "text":
		return Part{}, errors.New("has no text")
	case p.Type == "image_url" && p.Image != nil:
		_, data, ok := strings.Cut(p.Image.URL, ";base64,")
		if !ok || !strings.HasPrefix(p.Image.URL, "data:") {
			return Part{}, errors.New("is no data URL in base64")
		}
		m.Kind, m.Detail, text = Picture, p.Image.Detail, data
	case p.Type == "input_audio" && p.Audio != nil:
		m.Kind, text = Sound, p.Audio.Data
	case p.Type == "video_url" && p.Video != nil:
		return p.Video.read()
	case p.Type == "image_url", p.Type == "input_audio", p.Type == "video_url":
		return Part{}, fmt.Errorf("has no object %s", p.Type)
	default:
		return Part{}, fmt.Errorf("has type %q; only text, image_url, input_audio and video_url can be read", p.Type)
	}
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(data) == 0 {
		return Part{}, errors.New("is not in base64")
	}
	m.Data = data
	return Part{Medium: m}, nil
}

func (p *videoPart) read() (Part, error) {
	head, list, ok := strings.Cut(p.URL, ";base64,")
	switch {
	case !ok || !strings.HasPrefix(head, "data:"):
		return Part{}, errors.New("is no data URL in base64")
	case strings.Count(list, ",") >= maxFrames:
		return Part{}, fmt.Errorf("has more than %d frames", maxFrames)
	case !(p.Rate >= 0):
		return Part{}, errors.New("has no fps above 0")
	}
	m := &Medium{Kind: Video, Rate: p.Rate}
	for text := range strings.SplitSeq(list, ",") {
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil || len(data) == 0 {
			return Part{}, errors.New("is not in base64")
		}
		m.Frames = append(m.Frames, data)
	}
	if head+";base64," != framesType {
		if len(m.Frames) > 1 {
			return Part{}, fmt.Errorf("lists frames; want them as %sFRAME,FRAME", framesType)
		}
		m.Data, m.Frames = m.Frames[0], nil
	}
	return Part{Medium: m}, nil
}

func written(p Part) part {
	m := p.Medium
	switch {
	case m == nil:
		return part{Type: "text", Text: &p.Text}
	case m.Kind == Video && m.Frames != nil:
		var frames []string
		for _, f := range m.Frames {
			frames = append(frames, base64.StdEncoding.EncodeToString(f))
		}
		return part{Type: "video_url", Video: &videoPart{framesType + strings.Join(frames, ","), m.Rate}}
	case m.Kind == Video:
		return part{Type: "video_url", Video: &videoPart{anyType + base64.StdEncoding.EncodeToString(m.Data), m.Rate}}
	case m.Kind == Sound:
		return part{Type: "input_audio", Audio: &audioPart{base64.StdEncoding.EncodeToString(m.Data)}}
	}
	return part{Type: "image_url", Image: &imagePart{anyType + base64.StdEncoding.EncodeToString(m.Data), m.Detail}}
}

// A Placed medium stands in a prompt before the byte At of its text.
type Placed struct {
	At int
	*Medium
}

// A Piece of a prompt is a text or a medium.
type Piece struct {
	Text    string
	Literal [][2]int // of Text
	Medium  *Medium
}

// Pieces cuts the prompt at its media. Without any it is one piece; no text is empty beside a medium.
func (p Prompt) Pieces() []Piece {
	if len(p.Media) == 0 {
		return []Piece{{Text: p.Text, Literal: p.Literal}}
	}
	var all []Piece
	at := 0
	text := func(to int) {
		if at < to {
			all = append(all, Piece{Text: p.Text[at:to], Literal: cutRanges(p.Literal, at, to)})
		}
		at = to
	}
	for _, m := range p.Media {
		text(m.At)
		all = append(all, Piece{Medium: m.Medium})
	}
	text(len(p.Text))
	return all
}

// Tail returns the text behind the last medium of the prompt, and the pieces before it; nil: it has no media.
func (p Prompt) Tail() (before []Piece, text Piece) {
	before = p.Pieces()
	if last := len(before) - 1; before[last].Medium == nil {
		before, text = before[:last], before[last]
	}
	if len(before) == 0 {
		before = nil
	}
	return before, text
}

// cutRanges returns what is of ranges between two positions, relative to the first.
func cutRanges(ranges [][2]int, from, to int) (cut [][2]int) {
	for _, r := range ranges {
		if a, b := max(r[0], from), min(r[1], to); a < b {
			cut = append(cut, [2]int{a - from, b - from})
		}
	}
	return cut
}

// marked are the media of a conversation in which texts stand for them that nobody can guess, to find their places in
// what a template makes of it.
type marked struct {
	prefix string
	media  []*Medium
}

// digits is how many follow the prefix of a marker.
const digits = 6

// mark puts markers in the place of media. The messages are copied before.
func (in *Input) mark() *marked {
	k := &marked{}
	in.Messages = slices.Clone(in.Messages)
	for i := range in.Messages {
		c := &in.Messages[i].Content
		if c.Media() == nil {
			continue
		}
		c.Parts = slices.Clone(c.Parts)
		for j := range c.Parts {
			if m := c.Parts[j].Medium; m != nil {
				if k.prefix == "" {
					k.prefix = "medium" + rand.Text()
				}
				c.Parts[j].Text = fmt.Sprintf("%s%0*d", k.prefix, digits, len(k.media))
				k.media = append(k.media, m)
			}
		}
	}
	return k
}

// unmarked returns a text without markers.
func (k *marked) unmarked(s string) string {
	for k.prefix != "" {
		at := strings.Index(s, k.prefix)
		if at < 0 {
			break
		}
		s = s[:at] + s[min(at+len(k.prefix)+digits, len(s)):]
	}
	return s
}

// place cuts the markers out of a prompt, which gets the media in their places: each once.
func (k *marked) place(p *Prompt) error {
	if k.prefix == "" {
		return nil
	}
	var text strings.Builder
	var literal [][2]int
	seen := make([]bool, len(k.media))
	rest, at := p.Text, 0
	for {
		n := strings.Index(rest, k.prefix)
		end := len(rest)
		if n >= 0 {
			end = n
		}
		for _, r := range cutRanges(p.Literal, at, at+end) {
			literal = append(literal, [2]int{text.Len() + r[0], text.Len() + r[1]})
		}
		text.WriteString(rest[:end])
		if n < 0 {
			break
		}
		after := end + len(k.prefix)
		number := rest[after:min(after+digits, len(rest))]
		i, err := strconv.Atoi(number)
		if err != nil || len(number) < digits || i < 0 || i >= len(seen) || seen[i] {
			return badRequest("the model's chat template changes or repeats the place of a medium: it is made for text")
		}
		seen[i] = true
		p.Media = append(p.Media, Placed{text.Len(), k.media[i]})
		rest, at = rest[after+digits:], at+after+digits
	}
	if n := len(k.media) - len(p.Media); n > 0 {
		i := slices.Index(seen, false)
		return badRequest("the model's chat template leaves out %d of %d media, the first of them a %s: want it in a message of "+
			"another role, or a template that shows it", n, len(k.media), cmp.Or(k.media[i].Kind.String(), "file"))
	}
	p.Text, p.Literal = text.String(), joinRanges(literal)
	return nil
}

// joinRanges joins ranges that touch.
func joinRanges(ranges [][2]int) (joined [][2]int) {
	for _, r := range ranges {
		if n := len(joined); n > 0 && joined[n-1][1] == r[0] {
			joined[n-1][1] = r[1]
			continue
		}
		joined = append(joined, r)
	}
	return joined
}
