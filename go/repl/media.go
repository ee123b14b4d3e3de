package repl

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/reading"
)

// takes returns an error if the model takes no media of a kind.
func (s *Session) takes(k chat.Kind) error {
	if s.Projector.Takes(k) {
		return nil
	}
	return fmt.Errorf("the model takes no %s; one that does comes with its projector, or --mmproj FILE names that", k)
}

// addMedium has the next message begin with the picture or the sound in a file.
func (s *Session) addMedium(args string) error { return s.add(args, reading.ReadFile) }

// addVideo has the next message begin with a video.
func (s *Session) addVideo(args string) error {
	return s.add(args, func(path string) (*chat.Medium, error) { return reading.ReadVideo(context.Background(), path, 0) })
}

// addDocument has it begin with the text of a document.
func (s *Session) addDocument(args string) error {
	name, err := named(args)
	if err != nil {
		return err
	}
	p, err := reading.ReadDocument(context.Background(), name)
	if err != nil {
		return err
	}
	s.Media = append(s.Media, p)
	s.note("the next message has this document")
	return nil
}

// named returns the path that the arguments of a command are.
func named(args string) (string, error) {
	name := strings.TrimSpace(args)
	if w, rest := word(name); rest == "" {
		name = w
	}
	if name == "" {
		return "", fmt.Errorf("want the name of a file")
	}
	return path(name), nil
}

// add has the next message begin with what is read of the file that the arguments of a command name.
func (s *Session) add(args string, read func(path string) (*chat.Medium, error)) error {
	name, err := named(args)
	if err != nil {
		return err
	}
	m, err := read(name)
	if err == nil {
		err = s.takes(m.Kind)
	}
	if err != nil {
		return err
	}
	s.Media = append(s.Media, chat.Part{Medium: m})
	s.note("the next message has this %s", m.Kind)
	return nil
}

// content returns a message as it is typed: files of pictures and sounds whose paths are in it, as a terminal writes those that
// are dropped there, are media in their place.
func (s *Session) content(message string) (chat.Content, error) {
	parts := s.Media
	s.Media = nil
	plain := message
	if s.Projector != nil {
		plain = ""
		for rest := message; rest != ""; {
			space := len(rest) - len(strings.TrimLeft(rest, " \t\n"))
			w, after := word(rest[space:])
			m := dropped(w)
			if m == nil {
				plain += rest[:len(rest)-len(after)]
				rest = after
				continue
			}
			if err := s.takes(m.Kind); err != nil {
				return chat.Content{}, err
			}
			if plain = strings.TrimSpace(plain); plain != "" {
				parts = append(parts, chat.Part{Text: plain})
			}
			parts, plain, rest = append(parts, chat.Part{Medium: m}), "", strings.TrimLeft(after, " \t")
		}
	}
	if len(parts) == 0 {
		return chat.Text(message), nil
	}
	if strings.TrimSpace(plain) != "" {
		parts = append(parts, chat.Part{Text: plain})
	}
	return chat.Content{Parts: parts}, nil
}

// isFile reports whether what was typed begins with the path of a picture or a sound, and is no command.
func (s *Session) isFile(typed string) bool {
	w, _ := word(strings.TrimLeft(typed, " \t"))
	return s.Projector != nil && dropped(w) != nil
}

// dropped returns the picture or the sound at a path that is absolute or begins with a dot or a tilde; nil: there is none.
func dropped(name string) *chat.Medium {
	if u, err := url.Parse(name); err == nil && u.Scheme == "file" && (u.Host == "" || u.Host == "localhost") {
		name = u.Path
	}
	name = path(name)
	if !filepath.IsAbs(name) && !strings.HasPrefix(name, "./") && !strings.HasPrefix(name, "../") {
		return nil
	}
	if info, err := os.Stat(name); err != nil || !info.Mode().IsRegular() {
		return nil
	}
	m, err := reading.ReadFile(name)
	if err != nil {
		return nil
	}
	return m
}

// word returns the first word of a text as a shell reads it, within quotes or with backslashes before blanks, and what follows.
func word(s string) (w, rest string) {
	var b strings.Builder
	quote := byte(0)
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			b.WriteByte(c)
		case (c == '\'' || c == '"') && b.Len() == 0:
			quote = c
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c == ' ' || c == '\t' || c == '\n':
			return b.String(), s[i:]
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), ""
}
