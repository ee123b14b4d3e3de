package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/constrain"
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/internal/llamaflags"
	"github.com/quern-llm/quern/go/mcp"
	"github.com/quern-llm/quern/go/repl"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/tokenizer"
)

// chatFlags are the flags of "quern chat".
type chatFlags struct {
	model     modelFlags
	template  templateFlags
	settings  chatSettings
	draft     draftFlags
	projector projectorFlags
	media     mediaFlags
	adapters  adapterFlags
	system    string
	from      string // the file of the system message
	first     string
	once      bool
	talks     bool // llama-cli's flag for what this command always does
	forget    bool
	stops     []string
	mcp       string
	mcpAllow  []string
	flags     *pflag.FlagSet
}

func newChatCommand() *cobra.Command {
	var f chatFlags
	cmd := &cobra.Command{
		Use:   "chat [MODEL]",
		Short: "Chat with a model",
		Long: `Chat with a model. Only answers go to standard output. If standard input is not a
terminal, each of its lines is a message, and there are no prompts. /help lists the
commands. The input history of terminals is stored in ~/.local/state/quern/history.

With --mcp the model may call the tools of MCP servers, listed in a JSON file in the
format of other clients:

  {"mcpServers": {"files": {"command": "mcp-files", "args": ["/home/me/notes"]},
                  "wiki": {"url": "https://wiki.example.org/mcp"}}}

Each call is shown and needs confirmation. Without a terminal, calls are refused,
except those of --mcp-allow.

` + orDemoHelp + "\n\n" + llamaHelp,
		Example: `  quern chat
  quern chat model.gguf
  quern chat model.gguf --single-turn -p "Name three rivers."
  echo "Name three rivers." | quern chat -m model.gguf -sys "Answer in French."
  quern chat -m model.gguf --mcp ~/.config/mcp.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			rest, err := f.model.hub.takeModel(cmd, args)
			switch {
			case err == nil && len(rest) > 0 && hub.Guess(rest[0]) != "":
				err = notHere(rest[0])
			case err == nil && len(rest) > 0:
				err = fmt.Errorf("%.40q is no model that is here, and messages are typed or come on standard input", rest[0])
			}
			return err
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.define(cmd.Flags())
	return cmd
}

func (f *chatFlags) define(fs *pflag.FlagSet) {
	f.flags = fs
	f.model.define(fs)
	f.model.hub.defineRemote(fs, f.model.files)
	f.model.defineContext(fs, -1, 0, "tokens of context; 0 is the model's own (default: the model's, at most 4096)")
	f.model.defineShift(fs)
	fs.StringVar(&f.system, "system-prompt", "", "`TEXT` of the system message")
	alias(fs, "system-prompt", "sys")
	fs.StringVar(&f.from, "system-prompt-file", "", "`FILE` with the system message")
	alias(fs, "system-prompt-file", "sysf")
	fs.StringVarP(&f.first, "prompt", "p", "", "`TEXT` of the first message")
	fs.BoolVar(&f.once, "single-turn", false, "exit after the first answer")
	alias(fs, "single-turn", "st")
	for name, p := range map[string]*bool{"conversation": &f.talks, "interactive": new(bool), "interactive-first": new(bool)} {
		switchVar(fs, p, name, true, "always on")
		fs.Lookup(name).Hidden = true
	}
	fs.BoolVar(&f.forget, "no-history", false, "do not store the input history")
	fs.StringVar(&f.mcp, "mcp", "", "JSON `FILE` of MCP servers, or the JSON itself, whose tools the model may call; each call needs confirmation")
	fs.StringSliceVar(&f.mcpAllow, "mcp-allow", nil, "`TOOLS` that need no confirmation")
	f.adapters.define(fs)
	f.template.define(fs)
	f.settings.define(fs)
	defineStops(fs, &f.stops)
	f.draft.define(fs, f.model.hub)
	f.projector.define(fs, f.model.hub)
	f.media.define(fs)
	llamaFlags(fs, llamaflags.Common, llamaflags.Sampling, llamaflags.Speculation, llamaflags.CLI)
}

// run implements "quern chat".
func (f *chatFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := f.template.check(); err != nil {
		return err
	}
	if !f.talks {
		return usagef("--no-conversation: \"quern run\" continues a text")
	}
	if f.from != "" {
		if f.system != "" {
			return usagef("--system-prompt and --system-prompt-file: give one")
		}
		text, err := readFile(f.from)
		if err != nil {
			return err
		}
		f.system = strings.TrimSuffix(text, "\n")
	}
	media, err := f.media.read(ctx)
	if err != nil {
		return err
	}
	note := notes(stderr)
	f.model.warn(note)
	f.model.orDemo(f.media.seen(), note)
	in, err := f.model.readWith(&f.draft, &f.adapters, &f.projector)
	if err != nil {
		return err
	}
	defer in.Close()
	tmpl, warning, err := in.Template(f.template.settings())
	if err != nil {
		return err
	}
	if warning != "" {
		note(warning)
	}
	f.usePersona(note)
	f.settings.vocabulary = sample.NewVocabulary(in.Tokenizer)
	f.settings.sampling.params = f.settings.sampling.forModel(in.File.GGUF, note)
	if _, err := f.settings.form.constraint(in.Tokenizer, nil, true); err != nil {
		return err
	}
	f.settings.tok = in.Tokenizer
	box, err := f.tools(ctx)
	if err != nil {
		return err
	}
	defer box.Close()
	m, err := f.model.open(in, stderr)
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
	seq, err := m.NewSequence()
	if err != nil {
		return err
	}
	c := repl.Config{
		Engine: eng, Sequence: seq, Tokenizer: in.Tokenizer, Template: tmpl, Projector: m.Projector, Media: media, Settings: &f.settings, System: f.system, Examples: f.examples(), First: f.first, Once: f.once, Keep: f.model.kept(in.Tokenizer), Draft: f.draft.Options, Stops: f.stops,
		Out: stdout, Notes: stderr, Person: isTerminal(stdin), Screen: isTerminal(stdout), Dim: isTerminal(stderr) && !dumb() && os.Getenv("NO_COLOR") == "",
		OutColumns: columns(stdout), NotesColumns: columns(stderr),
	}
	switch {
	case c.Person && c.Screen && !dumb():
		history := repl.History()
		if f.forget {
			history = ""
		}
		c.Input = repl.NewEditor(history)
	case c.Person:
		c.Input = repl.NewLines(stdin, stderr)
	default:
		c.Input = repl.NewLines(stdin, nil)
	}
	if c.Person {
		fmt.Fprintf(stderr, "%s, %d tokens of context. /help lists what can be typed, Ctrl-D leaves.\n", filepath.Base(f.model.path), eng.Ctx())
	}
	if f.mcp != "" {
		c.Tools = box
	}
	s := repl.New(c)
	s.Allow(f.mcpAllow...)
	return s.Run(ctx)
}

// usePersona takes the system message and the parameters of a persona, where flags do not say otherwise.
func (f *chatFlags) usePersona(note func(string)) {
	p := f.model.hub.persona
	if p != nil && f.system == "" && !f.flags.Changed("system-prompt") && f.from == "" {
		f.system = p.System
	}
	useParameters(f.flags, p, note)
}

// examples returns the example turns of a persona.
func (f *chatFlags) examples() (turns []chat.Message) {
	if p := f.model.hub.persona; p != nil {
		for _, m := range p.Messages {
			turns = append(turns, chat.Message{Role: m.Role, Content: chat.Text(m.Content)})
		}
	}
	return turns
}

// tools opens the servers of --mcp, of which there may be none.
func (f *chatFlags) tools(ctx context.Context) (*mcp.Toolbox, error) {
	if f.mcp == "" {
		if len(f.mcpAllow) > 0 {
			return nil, errors.New("--mcp-allow is given without --mcp, want the servers that have these tools")
		}
		return &mcp.Toolbox{}, nil
	}
	servers, err := mcp.ReadConfig(f.mcp)
	if err != nil {
		return nil, err
	}
	box, err := mcp.Open(ctx, servers, readBuild().Version)
	if err != nil {
		return nil, err
	}
	for _, name := range f.mcpAllow {
		if box.Server(name) == "" {
			box.Close()
			return nil, fmt.Errorf("--mcp-allow names %q, want a tool of the servers: %s", name, strings.Join(box.Names(), " "))
		}
	}
	return box, nil
}

// columns returns how wide the terminal is that w writes to; nil if it is none, or one without cursor control.
func columns(w io.Writer) func() int {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(w) || dumb() {
		return nil
	}
	return func() int {
		n, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0
		}
		return n
	}
}

// dumb tells whether the terminal lacks cursor control.
func dumb() bool {
	kind := os.Getenv("TERM")
	return kind == "" || kind == "dumb"
}

// chatSettings are the flags that can be changed during a chat.
type chatSettings struct {
	sampling   samplingFlags
	vocabulary *sample.Vocabulary
	form       formFlags
	tok        *tokenizer.Tokenizer
	predict    int
	flags      *pflag.FlagSet
}

func (s *chatSettings) define(fs *pflag.FlagSet) {
	s.flags = pflag.NewFlagSet("settings", pflag.ContinueOnError)
	s.flags.SortFlags = false
	intVar(s.flags, &s.predict, "predict", "n", -1, -1, math.MaxInt32, "maximum tokens of an answer; -1 is until it ends")
	s.sampling.define(s.flags)
	s.form.define(s.flags)
	fs.AddFlagSet(s.flags)
}

func (s *chatSettings) Set(name, value string) error { return s.flags.Set(name, value) }

// commonSettings are those that /set shows.
var commonSettings = []string{"predict", "temp", "top-k", "top-p", "min-p", "repeat-penalty", "seed"}

func (s *chatSettings) Each(show func(name, value, usage string, common bool)) {
	s.flags.VisitAll(func(f *pflag.Flag) {
		_, usage := pflag.UnquoteUsage(f)
		value := f.Value.String()
		if strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }) {
			value = strconv.Quote(value)
		}
		show(f.Name, value, usage, f.Changed || slices.Contains(commonSettings, f.Name))
	})
}

func (s *chatSettings) Sampling() sample.Params { return s.sampling.seeded(s.vocabulary) }
func (s *chatSettings) Predict() int            { return s.predict }

func (s *chatSettings) Constraint(p *chat.Prompt) (constrain.Constraint, error) {
	return s.form.constraint(s.tok, p, true)
}
