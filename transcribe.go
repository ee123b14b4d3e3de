package quern

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/media/sound"
	"github.com/quern-llm/quern/go/transcribe"
)

// Speech is sound in which somebody speaks, and how it is written down. Audio or Samples are needed.
type Speech struct {
	Audio   []byte    // a file: WAV, MP3 or FLAC
	Samples []float32 // in place of Audio: of one channel, from -1 to 1
	Rate    int       // of Samples a second; 0: 16000

	Language    string   // that is spoken, its code or its English name, such as de or german; "": the one that is heard
	Translate   bool     // into English
	Prompt      string   // text that may have come before, with names and words that are spelt so
	Words       bool     // segments have the times of their words: of models of speech whose file says what follows them
	Independent bool     // each half minute is heard without what was said before: a text that repeats itself ends sooner
	Temperature *float64 // nil: 0, and higher ones again where a text is unlikely or repeats itself
	Priority    int      // that of a Request
}

// A Segment is what is said between two pauses. A model that chats tells no times: its segments are parts of the sound, of half a
// minute at most.
type Segment struct {
	Start, End time.Duration // from the beginning of the sound
	Text       string        // the texts of all segments one after the other are the whole text
	Language   string        // the code of the one that is spoken, such as de
	Words      []SpokenWord  // if Speech.Words asks for them

	// Of the half minute around it: the mean of the log-probabilities of its tokens, and how likely it is that nobody speaks.
	Logprob, Silence float64
}

// A SpokenWord is a word with its times from the beginning of the sound. Its text has the blank before it and signs beside it.
type SpokenWord struct {
	Start, End time.Duration
	Text       string
}

// A Transcript is what is said in sound, or the part of it that there is.
type Transcript struct {
	Text     string
	Language string // its code
	Duration time.Duration
	Segments []Segment
}

// longestSpeech is the most that is heard of one file. Memory that it takes is counted.
const longestSpeech = 24 * time.Hour

// errLeft ends what the caller does not want more of.
var errLeft = errors.New("the caller has left")

// Transcribe writes down what is said, with a model of speech such as Whisper, or one that chats and hears ([Info.Speech]): each
// segment comes when it is heard. The sequence ends when the loop does; an error is the last value. Other sound may be transcribed at the same time.
func (m *Model) Transcribe(ctx context.Context, s Speech) iter.Seq2[Segment, error] {
	return func(yield func(Segment, error) bool) {
		_, err := m.transcribe(ctx, &s, func(one Segment) bool { return yield(one, nil) })
		if err != nil && !errors.Is(err, errLeft) {
			yield(Segment{}, err)
		}
	}
}

// Transcript is Transcribe for callers that want the whole text. If it fails on the way, the result has what there is.
func (m *Model) Transcript(ctx context.Context, s Speech) (*Transcript, error) {
	var part Transcript
	whole, err := m.transcribe(ctx, &s, func(one Segment) bool {
		part.Segments, part.Language = append(part.Segments, one), one.Language
		part.Text += one.Text
		return true
	})
	if err == nil {
		part.Text, part.Language, part.Duration = whole.Text, whole.Language, inTime(whole.Duration)
	}
	return &part, err
}

// transcribe tells of each segment. It is outside the model meanwhile, which the caller may close.
func (m *Model) transcribe(ctx context.Context, s *Speech, tell func(Segment) bool) (*transcribe.Result, error) {
	leave, err := m.enter(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { leave() }()
	o, err := s.options()
	if err != nil {
		return nil, err
	}
	l, err := m.listener(ctx, s)
	if err != nil {
		return nil, &failure{ErrUnsupported, err}
	}
	samples, err := m.listen(ctx, s)
	if err != nil {
		return nil, err
	}
	o.Segment = func(one transcribe.Segment) (err error) {
		leave()
		leave = func() {}
		own := Segment{Start: inTime(one.Start), End: inTime(one.End), Text: one.Text, Language: one.Language, Logprob: one.MeanLogprob,
			Silence: one.Silence}
		for _, w := range one.Words {
			own.Words = append(own.Words, SpokenWord{inTime(w.Start), inTime(w.End), w.Text})
		}
		if !tell(own) {
			return errLeft
		}
		again, err := m.enter(ctx)
		if err == nil {
			leave = again
		}
		return err
	}
	r, err := l.Transcribe(ctx, samples, o)
	var wrong *transcribe.OptionError
	switch {
	case err == nil || errors.Is(err, errLeft):
		return r, err
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.As(err, &wrong):
		field := map[string]string{"language": "Speech.Language", "translate": "Speech.Translate", "prompt": "Speech.Prompt"}[wrong.Option]
		return nil, &failure{ErrInvalid, fmt.Errorf("%s: %w", field, err)}
	}
	return nil, classify(err, ErrInternal)
}

// listener returns what transcribes.
func (m *Model) listener(ctx context.Context, s *Speech) (*transcribe.Listener, error) {
	l := &transcribe.Listener{
		Config: m.open.Head.Config, Tokenizer: m.tok, Template: m.template, Projector: m.open.Projector, Ctx: m.open.Engine.Ctx(),
		Budget:  m.open.Device.Budget(),
		Request: engine.Request{Origin: ctx, Priority: s.Priority, Adapters: m.open.Adapters},
		Submit:  func(r *engine.Request) (transcribe.Ticket, error) { return m.loop.Submit(r) },
	}
	var err error
	if l.Can() != nil {
		l.Vocabulary, err = m.speech()
	}
	if err == nil && s.Words {
		err = l.Times()
	}
	return l, err
}

func inTime(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*1e3)) * time.Millisecond
}

// options are those of the transcription.
func (s *Speech) options() (o transcribe.Options, err error) {
	o.Translate, o.Prompt, o.Alone, o.Words = s.Translate, s.Prompt, s.Independent, s.Words
	if s.Language != "" {
		if o.Language, err = transcribe.LanguageCode(s.Language); err != nil {
			return o, &failure{ErrInvalid, fmt.Errorf("Speech.Language: %w", err)}
		}
	}
	if t := s.Temperature; t != nil {
		if !(*t >= 0 && *t <= 1) {
			return o, invalid(fmt.Sprintf("Speech.Temperature %v, want 0 to 1", *t))
		}
		o.Temperatures = []float32{float32(*t)}
	}
	return o, nil
}

// listen returns samples at the rate that models hear.
func (m *Model) listen(ctx context.Context, s *Speech) ([]float32, error) {
	mono := &sound.Mono{Rate: s.Rate, Samples: s.Samples}
	switch {
	case (s.Audio == nil) == (s.Samples == nil):
		return nil, invalid("Speech has Audio and Samples, or neither; want one of them")
	case s.Samples == nil && s.Rate != 0:
		return nil, invalid("Speech.Rate is given with Audio, which says its own")
	case s.Samples == nil:
		l := sound.Limits{Length: longestSpeech, Reserve: func(bytes uint64) (func(), error) {
			r, err := m.open.Device.Budget().Reserve("sound", bytes)
			if err != nil {
				return nil, err
			}
			return r.Release, nil
		}}
		var err error
		if mono, err = sound.Decode(ctx, s.Audio, l); err != nil {
			switch {
			case ctx.Err() != nil:
				return nil, context.Cause(ctx)
			case errors.Is(err, sound.ErrFormat), errors.Is(err, sound.ErrLength):
				return nil, &failure{ErrInvalid, fmt.Errorf("Speech.Audio: %w", err)}
			}
			return nil, classify(err, ErrInternal)
		}
	case s.Rate == 0:
		mono.Rate = transcribe.Rate
	case s.Rate < sound.MinRate || s.Rate > sound.MaxRate:
		return nil, invalid(fmt.Sprintf("Speech.Rate %d, want %d to %d", s.Rate, sound.MinRate, sound.MaxRate))
	}
	for i, x := range s.Samples {
		if !(math.Abs(float64(x)) <= math.MaxFloat32) {
			return nil, invalid(fmt.Sprintf("Speech.Samples: %v at %d is no sample", x, i))
		}
	}
	return mono.At(transcribe.Rate), nil
}
