package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/generate"
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/repl"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/stream"
	"github.com/quern-llm/quern/go/tokenizer"
)

// runFlags are the flags of "quern run" beyond the model's.
type runFlags struct {
	model     modelFlags
	prompt    textFlag
	sampling  samplingFlags
	adapters  adapterFlags
	form      formFlags
	draft     draftFlags
	projector projectorFlags
	media     mediaFlags
	predict   int
	ignoreEOS bool
	stops     []string
	stats     bool
	flags     *pflag.FlagSet
}

func newRunCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [MODEL] [PROMPT]",
		Short: "Complete a text",
		Long: `Complete a text, given as PROMPT, with -p, -f or on standard input, with the model
MODEL or -m. The first argument is MODEL if it is a GGUF file, a checkpoint folder, a
model in the cache or the name of one on a server, and the text otherwise. Only the
continuation goes to standard output, as it is generated. With --temp 0 decoding is
greedy and deterministic. Ctrl-C ends it. A trailing newline of a prompt from a file
or standard input is removed.

` + orDemoHelp + ` It needs no prompt
to begin a story. Sampling defaults come from the model's file (general.sampling.*),
or else are as below.

` + llamaHelp,
		Example: `  quern run "Once upon a time"
  quern run -m model.gguf -p "Once upon a time" -n 64
  quern run --image picture.png
  quern run hf.co/ggml-org/gemma-3-1b-it-GGUF "Once upon a time"
  quern run -m model.gguf --temp 0 --stats < prompt.txt`,
		Args: func(cmd *cobra.Command, args []string) (err error) {
			if f.prompt.args, err = f.model.hub.takeModel(cmd, args); err != nil {
				return err
			}
			if set := cmd.Flags().Changed; len(args) > 0 && len(f.prompt.args) == len(args) && !set("model") && !set("prompt") && !set("file") && hub.Guess(args[0]) != "" {
				return fmt.Errorf("%w; a text of one word is given with -p", notHere(args[0]))
			}
			return onePrompt(cmd, f.prompt.args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.define(cmd.Flags())
	return cmd
}

// onePrompt accepts at most one prompt; its error suggests why there may be more.
func onePrompt(_ *cobra.Command, args []string) error {
	if len(args) > 1 {
		return fmt.Errorf("the prompt is %d arguments, the second is %.40q; put quotes around all of it", len(args), args[1])
	}
	return nil
}

func (f *runFlags) define(fs *pflag.FlagSet) {
	f.flags = fs
	f.model.define(fs)
	f.model.hub.defineRemote(fs, f.model.files)
	f.model.defineContext(fs, -1, 0, "tokens of context; 0 is the model's own (default: the model's, at most 4096)")
	f.model.defineShift(fs)
	f.prompt.define(fs, "to continue")
	intVar(fs, &f.predict, "predict", "n", -1, -1, math.MaxInt32, "maximum tokens to generate; -1 is until the text ends")
	auto(fs, "predict", &f.predict, "-2") // of llama-completion, until the context is full: nothing goes beyond it here
	switchVar(fs, &f.ignoreEOS, "ignore-eos", false, "continue where the model ends the text")
	defineStops(fs, &f.stops)
	fs.BoolVar(&f.stats, "stats", false, "print timings and memory to standard error")
	f.adapters.define(fs)
	f.sampling.define(fs)
	f.form.define(fs)
	f.draft.define(fs, f.model.hub)
	f.projector.define(fs, f.model.hub)
	f.media.define(fs)
	llamaFlags(fs, llamaflags.Common, llamaflags.Sampling, llamaflags.Speculation, llamaflags.CLI)
}

// run implements "quern run".
func (f *runFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	f.prompt.optional = f.model.path == "" || f.model.path == demo.Name || f.media.seen() || f.media.sounds != nil
	given, err := f.prompt.read(stdin)
	if err != nil {
		return err
	}
	if !f.prompt.typed() {
		given = strings.TrimSuffix(given, "\n") // editors and echo add one
	}
	media, err := f.media.read(ctx)
	if err != nil {
		return err
	}
	note := notes(stderr)
	f.model.warn(note)
	f.model.orDemo(f.media.seen(), note)
	head, err := f.model.readWith(&f.draft, &f.adapters, &f.projector)
	if err != nil {
		return err
	}
	defer head.Close()
	_, err = head.File.GGUF.Str("tokenizer.chat_template")
	if err == nil && media == nil && isTerminal(stdout) && f.model.path != demo.Name {
		note("the text is continued; \"quern chat\" has this model answer it")
	}
	tok := head.Tokenizer
	pieces, err := f.pieces(head, media, given)
	if err != nil {
		return err
	}
	prompt, err := (*reading.Projector)(nil).Tokens(ctx, tok, 0, slices.DeleteFunc(slices.Clone(pieces), isMedium))
	if err != nil {
		return err
	}
	if len(prompt.IDs) == 0 && media == nil {
		return errNoPrompt
	}
	// Before the model is loaded, which may take long.
	if n := head.Settings.Context(head.Config); len(prompt.IDs) > n {
		return fmt.Errorf("the prompt has %d tokens and the context is %d; give a shorter prompt or a larger -c", len(prompt.IDs), n)
	}
	useParameters(f.flags, f.model.hub.persona, note)
	held, err := f.form.constraint(tok, nil, !f.ignoreEOS)
	if err != nil {
		return err
	}
	m, err := f.model.open(head, stderr)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := taken(media, m.Projector, f.model.path); err != nil {
		return err
	}
	eng := m.Engine
	if line := m.Warning(); line != "" {
		note(line)
	}

	// From here on Ctrl-C ends the text, not the program, once. Then the default
	// handler is restored, so that a second Ctrl-C kills the program.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, stop)

	if media != nil {
		if prompt, err = m.Projector.Tokens(ctx, tok, eng.Ctx(), pieces); err != nil {
			return err
		}
	}
	seq, err := m.NewSequence()
	if err != nil {
		return err
	}
	defer seq.Close()
	f.sampling.params = f.sampling.forModel(head.File.GGUF, note)
	screen := isTerminal(stdout)
	out := tokenizer.NewWriter(tok.NewStream(), f.stops, func(text string) error {
		if screen {
			text = repl.Printable(text)
		}
		return write(stdout, text)
	})
	st, err := eng.Generate(ctx, seq, generate.Params{
		Prompt: prompt.IDs, MaxTokens: f.predict, Keep: f.model.kept(tok), Sampling: f.sampling.seeded(sample.NewVocabulary(tok)), Stop: f.ends(tok), TopLogprobs: -1, Constraint: held, Draft: f.draft.Options,
	}, out.Write, prompt.Media...)
	err = out.End(err)
	if isTerminal(stdout) || ctx.Err() != nil || f.stats {
		fmt.Fprintln(stderr) // the text has no final newline
	}
	if st.Finish == generate.CtxFull {
		fmt.Fprintf(stderr, "quern: stopped: the context of %d tokens is full; -c sets its size, --context-shift goes on\n", eng.Ctx())
	}
	if f.stats {
		printStats(stderr, st, m.Took)
		if read, ok := eng.Model().Stream(); ok {
			printStream(stderr, read)
		}
	}
	return err
}

// pieces returns the prompt. One with pictures, sounds or documents is a message, if the model has a template for messages.
func (f *runFlags) pieces(head *launch.Head, media []chat.Part, text string) ([]chat.Piece, error) {
	if media == nil {
		return []chat.Piece{{Text: text}}, nil
	}
	documents := len(f.media.documents)
	if text != "" {
		media = append(media, chat.Part{Text: text})
	}
	if _, err := head.File.GGUF.Str("tokenizer.chat_template"); err != nil {
		var pieces []chat.Piece
		for i, p := range media {
			one := chat.Piece{Text: p.Text, Medium: p.Medium}
			if i < documents { // what looks like a special token there is none
				one.Literal = [][2]int{{0, len(p.Text)}}
			}
			pieces = append(pieces, one)
		}
		return pieces, nil
	}
	t, _, err := head.Template(launch.Template{})
	if err != nil {
		return nil, err
	}
	prompt, err := t.Render(chat.Input{Messages: []chat.Message{{Role: "user", Content: chat.Content{Parts: media}}}, AddGenerationPrompt: true})
	return prompt.Pieces(), err
}

func isMedium(p chat.Piece) bool { return p.Medium != nil }

// ends returns the predicate for tokens that end the text.
func (f *runFlags) ends(tok *tokenizer.Tokenizer) func(id int32) bool {
	if f.ignoreEOS {
		return nil
	}
	return tok.IsEOG
}

// defineStops defines the flag of texts that end an answer.
func defineStops(fs *pflag.FlagSet, stops *[]string) {
	fs.StringArrayVar(stops, "reverse-prompt", nil, "stop `TEXT` that ends the answer and is not part of it; repeatable (-r)")
}

// write writes text unbuffered: the reader sees each token as it comes.
func write(w io.Writer, text string) error {
	if text == "" {
		return nil
	}
	_, err := io.WriteString(w, text)
	return err
}

// encodePrompt returns the ids of the prompt. An empty one is replaced by BOS.
func encodePrompt(tok *tokenizer.Tokenizer, text string) ([]int32, error) {
	ids := tok.Begin(tok.Encode(text, tokenizer.Options{ParseSpecial: true}))
	if len(ids) == 0 {
		return nil, errNoPrompt
	}
	return ids, nil
}

// printStats writes the timings of a run in human-readable form.
func printStats(w io.Writer, st engine.Stats, loaded time.Duration) {
	fmt.Fprintf(w, "load         %9.3f s\n", loaded.Seconds())
	fmt.Fprintf(w, "first token  %9.3f s\n", st.TTFT.Seconds())
	fmt.Fprintf(w, "prefill      %9.1f tokens/s (%d tokens)\n", st.PrefillRate(), st.PromptTokens)
	fmt.Fprintf(w, "decode       %9.1f tokens/s (%d tokens)\n", st.DecodeRate(), max(st.Generated-1, 0))
	if guessed, right := st.Drafted.Total(); guessed > 0 {
		fmt.Fprintf(w, "drafts       %9d tokens, of which %d were right; %d passes\n", guessed, right, st.Passes)
	}
	fmt.Fprintf(w, "peak memory  %9s\n", mem.FormatBytes(mem.PeakRSS()))
}

// printStream writes what streamed weights did in a run.
func printStream(w io.Writer, st stream.Stats) {
	fmt.Fprintf(w, "streamed     %9s read, %.3f s waited\n", mem.FormatBytes(st.Read), st.Waited.Seconds())
	if st.Cache > 0 {
		fmt.Fprintf(w, "experts      %9d needed, of which %.1f %% were there\n", st.Hits+st.Misses, 100*float64(st.Hits)/float64(max(st.Hits+st.Misses, 1)))
	}
	if st.Guessed > 0 {
		fmt.Fprintf(w, "guesses      %9d of experts, of which %.1f %% were right\n", st.Guessed, 100*float64(st.Right)/float64(st.Guessed))
	}
}
