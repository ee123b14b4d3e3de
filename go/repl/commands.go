package repl

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/mem"
)

// A command is an input line that is not a message.
type command struct {
	name, args string
	usage      string
	run        func(s *Session, args string) error
}

// commands returns all commands. One without usage is a variant of the one before
// it, which /help does not list.
func commands() []command {
	return []command{
		{"/help", "", "show this; so does /?", (*Session).help},
		{"/?", "", "", (*Session).help},
		{"/system", "[TEXT]", "set the system message, or show it; - removes it", (*Session).setSystem},
		{"/clear", "", "forget the conversation", (*Session).clear},
		{"/image", "FILE", "put a picture or a sound into the next message; a path in a message does too", (*Session).addMedium},
		{"/audio", "", "", (*Session).addMedium},
		{"/video", "FILE", "put a video into it: a GIF, a folder with a picture for each frame, or a film that ffmpeg reads", (*Session).addVideo},
		{"/document", "FILE", "put the text of a document into it: PDF, DOCX, HTML or text", (*Session).addDocument},
		{"/save", "[FILE]", "write the conversation to a file; /save! replaces one that is there", func(s *Session, args string) error { return s.saveTo(args, false) }},
		{"/save!", "", "", func(s *Session, args string) error { return s.saveTo(args, true) }},
		{"/load", "FILE", "go on with a conversation from a file", (*Session).loadFrom},
		{"/set", "[NAME [VALUE]]", "change a sampling setting, or show the usual ones; /set all shows all", (*Session).set},
		{"/show", "", "", (*Session).show},
		{"/tools", "", "show the tools that the model may call", (*Session).listTools},
		{"/stats", "", "show the context in use, speed and memory", (*Session).stats},
		{"/quit", "", "leave; so do /exit, /bye and Ctrl-D", func(*Session, string) error { return errQuit }},
		{"/bye", "", "", func(*Session, string) error { return errQuit }},
		{"/exit", "", "", func(*Session, string) error { return errQuit }},
	}
}

func commandNames() []string {
	var names []string
	for _, c := range commands() {
		if c.usage != "" {
			names = append(names, c.name)
		}
	}
	return names
}

// do carries out a command. It returns an error that ends the session.
func (s *Session) do(name, args string) error {
	for _, c := range commands() {
		if c.name != name {
			continue
		}
		err := c.run(s, args)
		if err != nil && !errors.Is(err, errQuit) {
			s.fail(fmt.Errorf("%s: %w", name, err))
			err = nil
		}
		return err
	}
	s.fail(fmt.Errorf("there is no %s, only %s; a message that begins with a slash is typed with two",
		name, strings.Join(commandNames(), " ")))
	return nil
}

func (s *Session) help(string) error {
	for _, c := range commands() {
		if c.usage != "" {
			s.noteIndented(25, "  %-22s %s", c.name+" "+c.args, c.usage)
		}
	}
	s.note(`
A line that ends with \ goes on in the next, and so does all between """ and """.
What is pasted is one message. A message that begins with a slash is typed with
two. The arrow up and Ctrl-R call back what was typed.

Ctrl-C stops an answer, and what was said of it stays in the conversation. When
less than a quarter of the context is left, the model is not shown the older half
of the messages any more.`)
	return nil
}

func (s *Session) setSystem(args string) error {
	switch strings.TrimSpace(args) {
	case "":
		s.note("%s", cmp.Or(s.system, "there is no system message"))
		return nil
	case "-":
		args = ""
	}
	s.system = args
	if len(s.messages) > 0 {
		s.note("the next message evaluates the conversation again from its beginning, with this")
	}
	return nil
}

func (s *Session) clear(string) error {
	s.begin(conversation{system: s.system})
	s.file = "" // /save without a name must not replace the previous conversation
	return nil
}

// begin replaces the conversation.
func (s *Session) begin(c conversation) {
	s.conversation, s.leftOut, s.used = c, 0, 0
}

func (s *Session) saveTo(args string, over bool) error {
	name := path(args)
	if name == "" {
		name = s.file
	}
	switch {
	case name == "":
		return errors.New("want the name of a file")
	case len(s.messages) == 0:
		return errors.New("there is nothing to save yet")
	}
	if err := s.save(name, over || name == s.file); err != nil {
		return err
	}
	s.file = name
	s.note("saved %s to %s", count(len(s.messages), "message"), name)
	return nil
}

func (s *Session) loadFrom(args string) error {
	name := path(args)
	if name == "" {
		return errors.New("want the name of a file")
	}
	c, whole, err := load(name)
	if err != nil {
		return err
	}
	s.begin(c)
	if s.file = ""; whole {
		s.file = name
	}
	s.note("loaded %s from %s", count(len(c.messages), "message"), name)
	return nil
}

// path returns the path that was typed, with ~ expanded to the home directory.
func path(typed string) string {
	typed = strings.TrimSpace(typed)
	if rest, ok := strings.CutPrefix(typed, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return typed
}

func (s *Session) set(args string) error {
	name, value, _ := strings.Cut(strings.TrimSpace(args), " ")
	value = strings.TrimSpace(value)
	if name == "system" { // as in Ollama
		return s.setSystem(value)
	}
	var names []string
	s.Settings.Each(func(each, now, usage string, common bool) {
		names = append(names, each)
		if value == "" && (name == each || name == "all" || name == "" && common) {
			s.noteIndented(30, "  %-18s %-8s %s", each, now, usage)
		}
	})
	switch {
	case name != "" && name != "all" && !slices.Contains(names, name):
		return fmt.Errorf("there is no %q, only %s", name, strings.Join(names, " "))
	case value != "" && name != "all":
		return s.Settings.Set(name, value)
	}
	return nil
}

// show is Ollama's command.
func (s *Session) show(args string) error {
	if strings.TrimSpace(args) == "system" {
		return s.setSystem("")
	}
	return s.set("")
}

func (s *Session) stats(string) error {
	s.note("context      %d of %d tokens, %s", s.used, s.Engine.Ctx(), count(len(s.messages), "message"))
	if s.leftOut > 0 {
		s.note("left out     %s, the oldest", count(s.leftOut, "message"))
	}
	st := s.last
	if st.PromptTokens > 0 {
		s.note("first token  %.3f s", st.TTFT.Seconds())
		s.note("prefill      %.1f tokens/s (%s, and %d were there already)", st.PrefillRate(), count(st.PromptTokens-st.CachedTokens, "token"), st.CachedTokens)
		s.note("decode       %.1f tokens/s (%s)", st.DecodeRate(), count(max(st.Generated-1, 0), "token"))
	}
	s.note("peak memory  %s", mem.FormatBytes(mem.PeakRSS()))
	return nil
}

// count returns n with a noun, in the plural where n is not 1.
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
