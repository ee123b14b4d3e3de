package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
)

// onRead is a Reader that runs itself at its end.
type onRead func() error

func (f onRead) Read([]byte) (int, error) {
	if err := f(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// Files that are written at the same time have the space and the places of the store together.
func TestUploadsShare(t *testing.T) {
	s, err := Open(t.TempDir(), 100)
	if err != nil {
		t.Fatal(err)
	}
	add := func(n int, then func() error) error {
		_, err := s.AddFile("me", "x", "batch", io.MultiReader(bytes.NewReader(make([]byte, n)), onRead(then)))
		return err
	}
	nothing := func() error { return nil }
	var second error
	if err := add(60, func() error { second = add(60, nothing); return nil }); err != nil || !errors.Is(second, ErrFull) || s.used != 60 {
		t.Errorf("%v and %v with %d bytes used, want one of two to have no room", err, second, s.used)
	}
	broken := errors.New("broken")
	if err := add(30, func() error { return broken }); !errors.Is(err, broken) || s.used != 60 || s.adding != 0 {
		t.Errorf("%v, %d bytes used after an upload that broke", err, s.used)
	}
	for i := range maxItems - 2 {
		s.files[fmt.Sprint(i)] = &owned[File]{}
	}
	if err := add(1, func() error { second = add(1, nothing); return nil }); err != nil || !errors.Is(second, ErrFull) || len(s.files) != maxItems {
		t.Errorf("%v and %v with %d files, want one of two to have no place", err, second, len(s.files))
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) != 4 {
		t.Errorf("%v, %v, want two files and what is kept of them", left, err)
	}
}
