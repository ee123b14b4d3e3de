package openai

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/media/sound"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/transcribe"
)

// SoundPaths are the paths that sound is sent to, and SoundBytes is how many bytes a body may have there.
var SoundPaths = []string{"/v1/audio/transcriptions", "/audio/transcriptions", "/v1/audio/translations",
	"/audio/translations"}

const SoundBytes = 256 << 20

// A transcriptionQuery is a request to write down what is said.
type transcriptionQuery struct {
	answer.Reads
	file        fileField
	language    string
	prompt      string
	format      string
	temperature float32
	stream      bool
	times       field.Texts
	translate   bool
}

func newTranscriptionQuery(m *ask.Model) *transcriptionQuery {
	if m == nil { // of the fields alone
		m = &ask.Model{}
	}
	return &transcriptionQuery{Reads: answer.NewReads(m), format: "json"}
}

func newTranslationQuery(m *ask.Model) *transcriptionQuery {
	q := newTranscriptionQuery(m)
	q.translate = true
	return q
}

func (q *transcriptionQuery) Fields() []field.Field {
	list := append([]field.Field{
		field.Input("file", &q.file, "The sound: WAV, MP3 or FLAC."),
		field.Input("prompt", field.Text(&q.prompt),
			"Text that may have come before, with names and words that are spelt so; what a model that chats is also told."),
		field.Setting("response_format", field.OneOf(&q.format, transcribe.Formats...),
			"srt and vtt are captions, verbose_json has all that is known. Models that chat tell no times."),
		field.Setting("temperature", field.Float(&q.temperature, 0, 1),
			"Draw tokens at this temperature. At 0 the likeliest are taken, and drawn at higher temperatures where a text is "+
				"unlikely or repeats itself."),
		field.Setting("stream", field.Boolean(&q.stream),
			"Send what is said between two pauses as it is heard. For json and text."),
	}, q.Reads.Fields()...)
	if q.translate {
		return list
	}
	return append(list,
		field.Setting("language", field.Text(&q.language), "Its code, such as de; by default the one that is heard."),
		field.Setting("timestamp_granularities[]", &q.times, "segment, word or both, with verbose_json. Words are heard once more, which takes as long as hearing."))
}

// A fileField is a file of a form, which is read apart from the other fields.
type fileField struct{}

func (*fileField) Take(r *field.Reader) error { return r.Wrong("the contents of a file, in a form") }
func (*fileField) Value() any                 { return nil }
func (*fileField) Schema() field.Schema       { return field.Schema{"type": "string", "format": "binary"} }

type (
	transcriptionAnswer struct {
		Text  string        `json:"text"`
		Usage durationUsage `json:"usage"`
	}
	durationUsage struct {
		Type    string  `json:"type"`
		Seconds float64 `json:"seconds"`
	}
	transcriptionDelta struct {
		Type  string `json:"type"`
		Delta string `json:"delta"`
	}
	transcriptionDone struct {
		Type  string        `json:"type"`
		Text  string        `json:"text"`
		Usage durationUsage `json:"usage"`
	}
)

func (s *API) transcriptions(req *answer.Request) error {
	return s.transcribe(req, newTranscriptionQuery(req.Model))
}

func (s *API) translations(req *answer.Request) error {
	return s.transcribe(req, newTranslationQuery(req.Model))
}

func (s *API) transcribe(req *answer.Request, q *transcriptionQuery) error {
	m := req.Model
	if err := req.Read(q); err != nil {
		return err
	}
	l := m.Listener()
	if err := l.Can(); err != nil {
		return reply.Unsupported("this model: %v", err)
	}
	o, err := q.options()
	if err != nil {
		return err
	}
	if err := l.Writes(q.format); err != nil {
		return reply.Invalid("response_format", "%v", err)
	}
	if l.Vocabulary == nil && len(q.times) > 0 {
		return reply.Invalid("timestamp_granularities[]", "this model tells no times; leave it out")
	}
	if o.Words {
		if err := l.Times(); err != nil {
			return reply.Invalid("timestamp_granularities[]", "%v", err)
		}
	}
	asked, err := req.Asked(&q.Reads)
	if err != nil {
		return err
	}
	samples, err := listen(req.Context(), req.File, m.Memory)
	if err != nil {
		return err
	}
	if err := req.Input(0, true); err != nil { // what is heard has no tokens before it is computed
		return err
	}
	req.File = nil
	req.Made()
	l.Request = asked
	ctx := req.Context()
	var events *reply.Stream
	if q.stream {
		events = reply.NewStream(req.HTTP)
		o.Segment = func(s transcribe.Segment) error {
			return send(events, transcriptionDelta{"transcript.text.delta", s.Text})
		}
	}
	r, err := l.Transcribe(ctx, samples, o)
	if r != nil {
		req.Run.Output(r.Tokens)
		req.Note(map[string]any{"model": m.Name, "completion_tokens": r.Tokens})
	}
	var wrong *transcribe.OptionError
	switch {
	case errors.As(err, &wrong):
		err = reply.Invalid(wrong.Option, "%v", err)
	case ctx.Err() != nil && err != nil:
		err = reply.ErrGone
	}
	if err != nil && events != nil && events.Begun() {
		if err := events.Fail(req.Refusal(err), ""); err != nil {
			return nil // nobody reads it
		}
		_ = events.Flush()
		return nil
	}
	if err != nil {
		return err
	}
	used := durationUsage{"duration", r.Duration}
	switch {
	case events != nil:
		_ = send(events, transcriptionDone{"transcript.text.done", r.Text, used})
	case q.format == "json":
		req.Send(transcriptionAnswer{r.Text, used})
	default:
		var b bytes.Buffer
		task, kind := "transcribe", "text/plain; charset=utf-8"
		if q.translate {
			task = "translate"
		}
		if err := r.Write(&b, q.format, task); err != nil {
			return err
		}
		if q.format == "verbose_json" {
			kind = reply.ContentType
		}
		req.HTTP.Data(http.StatusOK, kind, b.Bytes())
	}
	return nil
}

// send sends an event at once.
func send(events *reply.Stream, v any) error {
	if err := events.Event(v); err != nil {
		return err
	}
	return events.Flush()
}

// options are those of the transcription.
func (q *transcriptionQuery) options() (o transcribe.Options, err error) {
	if q.stream && q.format != "json" && q.format != "text" {
		return o, reply.Invalid("stream", "true, want response_format json or text with it, not %s", q.format)
	}
	if slices.ContainsFunc(q.times, func(s string) bool { return s != "segment" && s != "word" }) {
		return o, reply.Invalid("timestamp_granularities[]", "%s, want segment or word", field.Quote(strings.Join(q.times, " ")))
	}
	o.Words = slices.Contains(q.times, "word")
	if o.Words && q.format != "verbose_json" && q.format != "srt" && q.format != "vtt" {
		return o, reply.Invalid("timestamp_granularities[]", "word, want response_format verbose_json, srt or vtt with it, not %s", q.format)
	}
	o.Prompt, o.Translate = q.prompt, q.translate
	if q.temperature > 0 {
		o.Temperatures = []float32{q.temperature}
	}
	if q.language != "" {
		if o.Language, err = transcribe.LanguageCode(q.language); err != nil {
			return o, reply.Invalid("language", "%v", err)
		}
	}
	return o, nil
}

// listen decodes sound. Its memory is counted while it is decoded.
func listen(ctx context.Context, file []byte, b *mem.Budget) ([]float32, error) {
	mono, err := sound.Decode(ctx, file, sound.Limits{Reserve: b.Lender("sound")})
	switch {
	case ctx.Err() != nil:
		return nil, reply.ErrGone
	case errors.Is(err, sound.ErrFormat), errors.Is(err, sound.ErrLength):
		return nil, reply.Invalid("file", "%v", err)
	case err != nil:
		return nil, err
	}
	return mono.At(transcribe.Rate), nil
}
