package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/internal/newfile"
)

// A device is one that models share.
type device struct{ *quern.Device }

// A session is a conversation with a model.
type session struct {
	of *model
	*quern.Session
}

// beginSession begins a session of a model, or returns a fork of one.
func (h *handles) beginSession(of int64, text string) (int64, error) {
	m, from, err := h.talker(of)
	if err != nil {
		return 0, err
	}
	var o struct {
		Restore *string `json:"restore"` // the path of a file that quern_save wrote
		request
	}
	if strings.TrimSpace(text) != "" {
		if from != nil {
			return 0, invalid("the options of a fork are those of its session; want none")
		}
		if err := decode("the options", text, &o); err != nil {
			return 0, err
		}
	}
	r, err := o.read()
	if err != nil {
		return 0, err
	}
	s := &session{of: m}
	err = m.do(func(_ context.Context, open *quern.Model) (err error) {
		switch {
		case from != nil:
			s.Session, err = from.Fork()
		case o.Restore != nil:
			s.Session, err = restored(open, *o.Restore, r)
		default:
			s.Session, err = open.NewSession(r)
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	handle := h.add(s)
	if !m.keep(s, handle) { // the model was closed meanwhile
		h.find(handle, true)
		return 0, errClosed
	}
	return handle, nil
}

func restored(open *quern.Model, path string, options quern.Request) (*quern.Session, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, &failure{codeFile, err.Error()}
	}
	defer f.Close()
	s, err := open.RestoreSession(f, options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// save writes a session to a file, in place of one that is there.
func (s *session) save(path string) error {
	return s.of.do(func(context.Context, *quern.Model) error {
		var failed error // of the session; others are the file's
		_, err := newfile.Write(path, true, 0o600, 0, func(w io.Writer) (int64, error) {
			failed = s.Save(w)
			return 0, failed
		})
		if err != nil && (failed == nil || codeOf(failed) == codeInternal) {
			return &failure{codeFile, err.Error()}
		}
		return err
	})
}
