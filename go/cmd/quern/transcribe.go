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
	"github.com/quern-llm/quern/go/media/sound"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/transcribe"
)

// transcribeFlags are the flags of "quern transcribe".
type transcribeFlags struct {
	model    modelFlags
	options  transcribe.Options
	language string
	format   string
	once     bool
	speed    bool
}

func newTranscribeCommand() *cobra.Command {
	var f transcribeFlags
	cmd := &cobra.Command{
		Use:   "transcribe -m FILE SOUND...",
		Short: "Write down what is said in sound",
		Long: `Write down what is said in files of sound (WAV, MP3, FLAC), with a model of speech such as
Whisper. A line has what is said between two pauses; the formats srt and vtt are captions
with their times, verbose_json has all that is known, as OpenAI's API does.

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
	choiceVar(fs, &f.format, "format", "text", transcribe.Formats, "what is written")
	fs.StringVar(&f.language, "language", "",
		"`LANGUAGE` that is spoken, such as de or german (default: the one that is heard)")
	fs.BoolVar(&f.options.Translate, "translate", false, "write it in English")
	fs.StringVar(&f.options.Prompt, "prompt", "", "`TEXT` that may have come before: names and words that are spelt so")
	fs.BoolVar(&f.options.Alone, "no-context", false, "do not tell the model what was said before: a text that repeats itself ends sooner")
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
	if f.once {
		f.options.Temperatures = []float32{0}
	}
	head, err := f.model.readHead()
	if err != nil {
		return err
	}
	defer head.Close()
	v, err := transcribe.NewVocabulary(head.Tokenizer)
	if err == nil && head.Config.Sound.Bands == 0 {
		err = transcribe.ErrModel
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.model.path, err)
	}
	head.Settings.Ctx = head.Config.NCtx
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
	hears, err := transcribe.NewEngine(head.Config, m.Device.Budget(), func(r *engine.Request) (transcribe.Ticket, error) {
		return loop.Submit(r)
	})
	if err != nil {
		return fmt.Errorf("%s: %w", f.model.path, err)
	}
	defer hears.Close()
	for _, name := range files {
		samples, err := readSound(cmd.Context(), name, m.Device.Budget())
		if err != nil {
			return err
		}
		if err := f.file(cmd, name, samples, hears, v); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// file transcribes a file. Lines and captions are written as they are heard.
func (f *transcribeFlags) file(
	cmd *cobra.Command, name string, samples []float32, hears *transcribe.Engine, v *transcribe.Vocabulary,
) error {
	out := bufio.NewWriter(cmd.OutOrStdout())
	o, begun, cues := f.options, time.Now(), 0
	bar := newBar(cmd.ErrOrStderr(), "transcribing")
	defer bar.done()
	o.Progress = func(done, total float64) { bar.update(uint64(done), uint64(total)) }
	write := map[string]func(s *transcribe.Segment) string{
		"text": (*transcribe.Segment).Line,
		"srt":  func(s *transcribe.Segment) string { return s.Cue(f.format, cues) },
		"vtt":  func(s *transcribe.Segment) string { return s.Cue(f.format, cues) },
	}[f.format]
	if write != nil {
		if _, err := io.WriteString(out, transcribe.Begin(f.format)); err != nil {
			return err
		}
		o.Segment = func(s transcribe.Segment) error {
			cues++
			_, err := io.WriteString(out, write(&s))
			return cmp.Or(err, out.Flush())
		}
	}
	r, err := transcribe.Transcribe(cmd.Context(), hears, v, samples, o)
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
			name, r.Duration, took, r.Duration/took, r.Language)
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
	mono, err := sound.Decode(ctx, file.Bytes(), sound.Limits{Length: longest, Reserve: func(n uint64) (func(), error) {
		r, err := b.Reserve("sound", n)
		if err != nil {
			return nil, err
		}
		return r.Release, nil
	}})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return mono.At(transcribe.Rate), nil
}
