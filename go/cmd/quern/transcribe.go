package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/media/sound"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/transcribe"
)

// transcribeFlags are the flags of "quern transcribe".
type transcribeFlags struct {
	model     modelFlags
	projector projectorFlags
	options   transcribe.Options
	language  string
	format    string
	once      bool
	speed     bool
}

func newTranscribeCommand() *cobra.Command {
	var f transcribeFlags
	cmd := &cobra.Command{
		Use:   "transcribe -m FILE SOUND...",
		Short: "Write down what is said in sound",
		Long: `Write down what is said in files of sound (WAV, MP3, FLAC), with a model of speech such as
Whisper, or one that chats and hears, such as Qwen3-ASR and Voxtral. A line has what is said
between two pauses; the formats srt and vtt are captions with their times, which models that
chat do not tell; verbose_json has all that is known, as OpenAI's API does.

"quern convert" makes such a model of a checkpoint.`,
		Example: `  quern transcribe -m whisper-small.gguf talk.mp3
  quern transcribe -m whisper-small.gguf talk.mp3 --format srt > talk.srt
  quern transcribe -m whisper-small.gguf interview.wav --language de --translate`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("transcribe wants a file of sound")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	fs := cmd.Flags()
	f.model.define(fs)
	f.projector.define(fs, f.model.hub)
	choiceVar(fs, &f.format, "format", "text", transcribe.Formats, "what is written")
	fs.StringVar(&f.language, "language", "",
		"`LANGUAGE` that is spoken, such as de or german (default: the one that is heard)")
	fs.BoolVar(&f.options.Translate, "translate", false, "write it in English")
	fs.StringVar(&f.options.Prompt, "prompt", "", "`TEXT` that may have come before: names and words that are spelt so")
	fs.BoolVar(&f.options.Alone, "no-context", false, "do not tell the model what was said before: a text that repeats itself ends sooner")
	fs.BoolVar(&f.options.Words, "words", false, "tell the times of words: in verbose_json, and as captions of a word each in srt and vtt")
	fs.BoolVar(&f.once, "no-fallback", false, "do not try again at higher temperatures what is unlikely or repeats itself")
	fs.BoolVar(&f.speed, "verbose", false, "say how long it took, on standard error")
	llamaFlags(fs, llamaflags.Common)
	return cmd
}

func (f *transcribeFlags) run(cmd *cobra.Command, files []string) (err error) {
	if err := f.model.required(); err != nil {
		return err
	}
	f.model.warn(notes(cmd.ErrOrStderr()))
	if f.language != "" {
		if f.options.Language, err = transcribe.LanguageCode(f.language); err != nil {
			return usagef("--language: %v", err)
		}
	}
	if f.options.Words && (f.format == "text" || f.format == "json") {
		return usagef("--words: %s has no times; want --format verbose_json, srt or vtt", f.format)
	}
	if f.once {
		f.options.Temperatures = []float32{0}
	}
	s, err := f.model.settings()
	if err != nil {
		return err
	}
	f.projector.apply(&s)
	head, err := f.model.files.ReadHead(f.model.path, s)
	if err != nil {
		return err
	}
	defer head.Close()
	l := &transcribe.Listener{Config: head.Config, Tokenizer: head.Tokenizer}
	switch {
	case head.Config.Sound.Bands > 0:
		l.Vocabulary, err = transcribe.NewVocabulary(head.Tokenizer)
		head.Settings.Ctx = head.Config.NCtx
	case head.HasProjector():
		l.Template, _, err = head.Template(launch.Template{})
		head.Settings.Ctx = min(head.Config.NCtx, chatContext)
	default:
		err = transcribe.ErrModel
	}
	if err == nil {
		err = l.Writes(f.format)
	}
	if err == nil && f.options.Words {
		err = l.Times()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.model.path, err)
	}
	m, err := f.model.open(head, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	defer m.Close()
	loop, err := engine.NewLoop(m.Engine, engine.LoopConfig{Queue: 1})
	if err != nil {
		return fmt.Errorf("%s: %w", f.model.path, err)
	}
	defer loop.Close()
	l.Projector, l.Ctx, l.Budget = m.Projector, m.Engine.Ctx(), m.Device.Budget()
	l.Request.Adapters = m.Adapters
	l.Submit = func(r *engine.Request) (transcribe.Ticket, error) { return loop.Submit(r) }
	if err := l.Can(); err != nil {
		return fmt.Errorf("%s: %w", f.model.path, err)
	}
	for _, name := range files {
		samples, err := readSound(cmd.Context(), name, m.Device.Budget())
		if err != nil {
			return err
		}
		if err := f.file(cmd, name, samples, l); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// chatContext is how many positions models that chat have here: a part of a sound and what is said in it have fewer.
const chatContext = 4096

// file transcribes a file. Lines and captions are written as they are heard.
func (f *transcribeFlags) file(
	cmd *cobra.Command, name string, samples []float32, l *transcribe.Listener,
) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	o, begun, cues := f.options, time.Now(), 0
	bar := newBar(cmd.ErrOrStderr(), "transcribing")
	defer bar.done()
	o.Progress = func(done, total float64) { bar.update(uint64(done), uint64(total)) }
	write := map[string]func(s *transcribe.Segment) string{
		"text": (*transcribe.Segment).Line,
		"srt":  func(s *transcribe.Segment) string { return s.Cues(f.format, &cues) },
		"vtt":  func(s *transcribe.Segment) string { return s.Cues(f.format, &cues) },
	}[f.format]
	if write != nil {
		if _, err := io.WriteString(out, transcribe.Begin(f.format)); err != nil {
			return err
		}
		o.Segment = func(s transcribe.Segment) error {
			_, err := io.WriteString(out, write(&s))
			return cmp.Or(err, out.Flush())
		}
	}
	r, err := l.Transcribe(cmd.Context(), samples, o)
	if err != nil {
		return err
	}
	if write == nil {
		task := "transcribe"
		if o.Translate {
			task = "translate"
		}
		if err := r.Write(out, f.format, task); err != nil {
			return err
		}
	}
	if f.speed {
		took := time.Since(begun).Seconds()
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %.2f s of sound in %.2f s, %.1f times as fast as it is spoken; language %s\n",
			name, r.Duration, took, r.Duration/took, cmp.Or(r.Language, "not told"))
	}
	return out.Flush()
}

// longest is the sound that the command takes at a time.
const longest = 24 * time.Hour

// readSound reads a file of sound, as samples of one channel at the rate that models hear.
func readSound(ctx context.Context, name string, b *mem.Budget) ([]float32, error) {
	file, err := mem.Map(name)
	if err != nil {
		return nil, err // which names the file
	}
	defer file.Close()
	mono, err := sound.Decode(ctx, file.Bytes(), sound.Limits{Length: longest, Reserve: b.Lender("sound")})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return mono.At(transcribe.Rate), nil
}
