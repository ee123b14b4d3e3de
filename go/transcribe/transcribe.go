// Package transcribe writes down what is said in sound, with models of speech such as Whisper (Radford et al. 2022):
// in windows of half a minute, each from where the last one's text ends, with times, and again where a text repeats
// itself or is unlikely. What it knows of a model is that it hears a window and says tokens (Model); Engine is the one
// that a loop runs. Models that chat and hear are asked for each part of a sound. A Listener is either.
package transcribe

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/media/prepare"
)

// Rate is the samples a second of sound that is transcribed.
const Rate = prepare.MelRate

const perHundredth = Rate / 100 // samples

// A Model hears a window of sound, and says what it is asked for.
type Model interface {
	// Sizes returns the hundredths of a second that the model hears at a time, and the positions of its texts.
	Sizes() (window, positions int)
	// Hear gives it the samples of a window. Say is about them until the next call.
	Hear(samples []float32)
	// Say returns the tokens that follow the head of a text up to the end token, which is not among them.
	Say(ctx context.Context, a Ask) (Said, error)
}

// An Ask is what a model is asked to say.
type Ask struct {
	Head        []int32 // what its text begins with
	At          int     // which of these tokens is followed by what the model hears: see Said.First
	First       bool    // Said.First is wanted
	Most        int     // tokens that it may say
	Temperature float32
	Rule        func(said []int32, logits []float32)
	End         int32
}

// A Said is what a model said: its tokens, the sum of their log-probabilities with that of the end, and the logits of
// what may follow Ask.At.
type Said struct {
	Tokens  []int32
	Logprob float64
	First   []float32
}

// Options say how sound is transcribed. Zero values are what Whisper's reference implementation does.
type Options struct {
	Language  string // its code; empty: the one that is heard
	Translate bool   // into English
	Prompt    string // text that may have come before, with names and spellings
	Alone     bool   // windows are not told what was said before them
	Words     bool   // segments have words with times, and begin and end with them

	Temperatures []float32 // that are tried one after the other; nil: 0 to 1 in steps of 0.2
	Compression  float64   // a text that compression makes this many times smaller repeats itself; 0: 2.4
	MeanLogprob  float64   // a text with a lower mean is unlikely; 0: -1
	Silence      float64   // nothing is said where this is likelier, and the text is unlikely; 0: 0.6

	Segment  func(s Segment) error     // called with each segment, in order; nil: none is
	Progress func(done, total float64) // called with seconds; nil: it is not
}

func (o *Options) fill() {
	if o.Temperatures == nil {
		o.Temperatures = []float32{0, 0.2, 0.4, 0.6, 0.8, 1}
	}
	for _, d := range []struct {
		to  *float64
		def float64
	}{{&o.Compression, 2.4}, {&o.MeanLogprob, -1}, {&o.Silence, 0.6}} {
		if *d.to == 0 {
			*d.to = d.def
		}
	}
}

// A Result is what was said.
type Result struct {
	Language string  // its code
	Duration float64 // of the sound, in seconds
	Text     string
	Segments []Segment
	Tokens   int  // that the model said, in all tries
	Timeless bool // segments are parts of the sound, and their times are of these
	Worded   bool // words have times
}

// Transcribe writes down what is said in samples, Rate of them a second. What it has when it fails on the way is returned with
// the error.
func Transcribe(ctx context.Context, m Model, v *Vocabulary, samples []float32, o Options) (*Result, error) {
	o.fill()
	t := &task{Options: o, ctx: ctx, m: m, v: v, out: &Result{Duration: float64(len(samples)) / Rate, Worded: o.Words}}
	if o.Prompt != "" {
		t.said = v.tok.EncodePart(" " + strings.TrimSpace(o.Prompt))
	}
	if err := t.settle(); err != nil {
		return nil, err
	}
	length := len(samples) / perHundredth
	most, positions := m.Sizes()
	t.half = positions / 2
	for seek := 0; seek < length; {
		window := samples[seek*perHundredth:]
		t.window = min(length-seek, most)
		window = window[:min(len(window), most*perHundredth)]
		done := t.window
		if !silent(window) {
			m.Hear(window)
			var err error
			if done, err = t.hear(seek); err != nil {
				return t.out, err
			}
		}
		seek += max(done, 1)
		if o.Progress != nil {
			o.Progress(float64(min(seek, length))/100, float64(length)/100)
		}
	}
	var text strings.Builder
	for _, s := range t.out.Segments {
		text.WriteString(s.Text)
	}
	t.out.Text = strings.TrimSpace(text.String())
	if t.out.Language == "" {
		t.out.Language = "en"
	}
	return t.out, nil
}

// silent reports whether samples are no louder than the last bits of 16: of such windows models say things that nobody
// said.
func silent(samples []float32) bool {
	const loudest = 1.0 / (1 << 13)
	for _, x := range samples {
		if x > loudest || x < -loudest {
			return false
		}
	}
	return true
}

// task is a transcription.
type task struct {
	Options
	ctx      context.Context
	m        Model
	v        *Vocabulary
	out      *Result
	said     []int32 // before the window, with times
	half     int     // tokens that what was said before may have, and what is said
	window   int     // hundredths of a second of the window
	language int32   // its token; 0: it is not known yet
	spoken   float64 // when the last word ended, in seconds
}

// settle checks the language.
func (t *task) settle() error {
	switch {
	case !t.v.Multilingual() && (t.Translate || t.Language != "" && t.Language != "en"):
		return &OptionError{"language", "the model knows English alone; one without .en in its name knows other languages"}
	case !t.v.Multilingual():
		t.out.Language = "en"
	case t.Language != "":
		i := slices.Index(t.v.codes, t.Language)
		if i < 0 {
			return &OptionError{"language", fmt.Sprintf("%q is none that the model knows: %s", t.Language, strings.Join(t.v.codes, " "))}
		}
		t.out.Language, t.language = t.Language, t.v.languages[i]
	}
	return nil
}

// hear transcribes the window at seek, and returns how much of it is done with, in hundredths of a second.
func (t *task) hear(seek int) (done int, err error) {
	if t.v.Multilingual() && t.language == 0 {
		if err := t.detect(); err != nil {
			return 0, err
		}
	}
	best, why, err := t.tries()
	if err != nil {
		return 0, err
	}
	if why.Silence > t.Options.Silence && why.MeanLogprob <= t.MeanLogprob {
		return t.window, nil // nothing is said
	}
	list, done, ended := t.v.segments(best.Tokens, t.window)
	for i := range list {
		s := &list[i]
		s.Seek, s.Text, s.Language = seek, t.v.text(s.Tokens), t.out.Language
		s.Start, s.End = s.Start+float64(seek)/100, s.End+float64(seek)/100
	}
	if t.Words {
		if err := t.words(list); err != nil {
			return 0, err
		}
		if end := int(math.Round(100*lastWord(list))) - seek; !ended && end > 0 {
			done = min(end, t.window)
		}
	}
	for _, s := range list {
		s.ID = len(t.out.Segments)
		s.Temperature, s.MeanLogprob, s.Compression, s.Silence = why.Temperature, why.MeanLogprob, why.Compression, why.Silence
		if s.empty() {
			continue
		}
		t.out.Segments = append(t.out.Segments, s)
		if t.Segment != nil {
			if err := t.Segment(s); err != nil {
				return 0, err
			}
		}
		t.said = append(t.said, s.Tokens...)
	}
	const uncertain = 0.5 // a text that was drawn at a higher temperature misleads
	if t.Alone || why.Temperature > uncertain {
		t.said = nil
	}
	return done, nil
}

// tries has the model say what it hears, at the first temperature at which that is likely and does not repeat itself.
func (t *task) tries() (best Said, why Segment, err error) {
	for i, temperature := range t.Temperatures {
		head, at := t.v.head(t.said, t.half, t.language, t.Translate)
		best, err = t.m.Say(t.ctx, Ask{
			Head: head, At: at, First: i == 0, Most: t.half, Temperature: temperature, Rule: t.v.rule, End: t.v.end,
		})
		if err != nil {
			return best, why, err
		}
		t.out.Tokens += len(best.Tokens)
		why.Temperature, why.MeanLogprob = float64(temperature), best.Logprob/float64(len(best.Tokens)+1)
		why.Compression = compression(strings.TrimSpace(t.v.text(best.Tokens)))
		if i == 0 {
			why.Silence = probability(best.First, t.v.silence)
		}
		silent := why.Silence > t.Silence
		if unlikely := why.MeanLogprob < t.MeanLogprob; unlikely && silent || !unlikely && why.Compression <= t.Compression {
			break
		}
	}
	return best, why, nil
}

// detect finds out which language is spoken.
func (t *task) detect() error {
	said, err := t.m.Say(t.ctx, Ask{Head: []int32{t.v.start}, First: true})
	if err != nil {
		return err
	}
	best := 0
	for i, id := range t.v.languages {
		if said.First[id] > said.First[t.v.languages[best]] {
			best = i
		}
	}
	t.language, t.out.Language = t.v.languages[best], t.v.codes[best]
	return nil
}
