package batch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// onRead is a Reader that runs itself at its end.
type onRead func() error

func (f onRead) Read([]byte) (int, error) {
	if err := f(); err != nil {
		return 0, err
	}
	return 0, io.EOF
}

// A folder is one server's: another would remove what this one is writing.
func TestOneServer(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, 100, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, 100, false); err == nil || !strings.Contains(err.Error(), "in use by another server") {
		t.Errorf("opened twice: %v", err)
	}
	if list := opened(dir); len(list) != 1 {
		t.Errorf("the one that was refused keeps %v open", list)
	}
	s.Close()
	if s, err = Open(dir, 100, false); err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// What is in a folder is found again, whichever name that has.
func TestOpenAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[v2]")
	s, err := Open(dir, 100, false)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.AddFile("me", "x", "batch", strings.NewReader("some"))
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("others can read the folder: %v, %v", info.Mode(), err)
	}
	left := filepath.Join(dir, ".file-x.tmp")
	if err := os.WriteFile(left, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if s, err = Open(dir, 100, false); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.files[f.ID] == nil || s.used != 4 {
		t.Errorf("%d files of %d bytes, want one of 4", len(s.files), s.used)
	}
	if _, err := os.Stat(left); err == nil {
		t.Error("what was being written is still there")
	}
}

// Files that are written at the same time have the space and the places of the store together.
func TestUploadsShare(t *testing.T) {
	s, err := Open(t.TempDir(), 100, false)
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
	s.quota = s.used
	if err := add(0, nothing); !errors.Is(err, ErrFull) {
		t.Errorf("an empty file in a store that is full: %v", err)
	}
	s.quota = 100
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

// In a shared store an owner has as much as is left free at most, in bytes and in files.
func TestOwnersShare(t *testing.T) {
	s, err := Open(t.TempDir(), 1000, true)
	if err != nil {
		t.Fatal(err)
	}
	add := func(owner string, n int) error {
		_, err := s.AddFile(owner, "x", "batch", bytes.NewReader(make([]byte, n)))
		return err
	}
	if err := add("flood", 501); !errors.Is(err, ErrShare) || !errors.Is(err, ErrFull) {
		t.Errorf("more than half: %v", err)
	}
	if err := add("flood", 500); err != nil {
		t.Errorf("half: %v", err)
	}
	if err := add("flood", 1); !errors.Is(err, ErrShare) {
		t.Errorf("and one byte: %v", err)
	}
	if err := add("light", 250); err != nil {
		t.Errorf("half of what is left: %v", err)
	}
	if err := add("third", 100); err != nil {
		t.Errorf("another: %v", err)
	}
	if f := s.Files("flood"); len(f) != 1 || s.RemoveFile("flood", f[0].ID) != nil || add("flood", 300) != nil {
		t.Errorf("it cannot use what it has given back: %v", f)
	}
	if s = reopen(t, s); s.owned["flood"] != 300 || s.owned["light"] != 250 || s.used != 650 {
		t.Errorf("after a restart %v of %d", s.owned, s.used)
	}
	for i := range maxItems / 2 {
		s.files[fmt.Sprint(i)] = &owned[File]{Owner: "many"}
	}
	if err := add("many", 1); !errors.Is(err, ErrShare) {
		t.Errorf("more than half of the files: %v", err)
	}
	if err := add("light", 1); err != nil {
		t.Errorf("beside them: %v", err)
	}
}

// Batches that have ended keep nobody from beginning one, and an owner cannot take the places of all.
func TestManyBatches(t *testing.T) {
	s, err := Open(t.TempDir(), quota, false)
	if err != nil {
		t.Fatal(err)
	}
	input := map[string]string{}
	for _, owner := range []string{"me", "you"} {
		f, err := s.AddFile(owner, "x", "batch", strings.NewReader("x"))
		if err != nil {
			t.Fatal(err)
		}
		input[owner] = f.ID
	}
	add := func(owner string) error {
		_, err := s.AddBatch(owner, input[owner], endpoint, "24h", time.Hour, nil)
		return err
	}
	fill := func(owner, status string, n int) {
		for range n {
			s.seq++
			id := newID("batch_")
			s.batches[id] = &owned[Batch]{owner, s.seq, Batch{ID: id, Status: status}}
		}
	}
	if err := add("me"); err != nil {
		t.Fatal(err)
	}
	first := s.Batches("me")[0]
	if _, err := s.change(first.ID, func(b *Batch) { b.Status = "completed" }); err != nil {
		t.Fatal(err)
	}
	fill("me", "completed", 1) // newer than the first
	fill("me", "in_progress", maxOwned-2)
	for range 2 { // the second has no file of its own, which is no error
		if err := add("me"); err != nil {
			t.Fatalf("beside batches that have ended: %v", err)
		}
		if _, err := os.Stat(s.path(first.ID + ".json")); len(s.batches) != maxOwned || s.batches[first.ID] != nil ||
			!errors.Is(err, os.ErrNotExist) {
			t.Errorf("%d batches, and the oldest that has ended: %v", len(s.batches), err)
		}
	}
	if _, err := s.Content("me", first.Input); err != nil {
		t.Errorf("the input of a batch that was forgotten: %v", err)
	}
	if err := add("me"); !errors.Is(err, ErrMany) {
		t.Errorf("one more than may wait: %v", err)
	}
	if err := add("you"); err != nil {
		t.Errorf("another owner: %v", err)
	}
	fill("others", "completed", maxItems-len(s.batches))
	if err := add("you"); err != nil || len(s.batches) != maxItems {
		t.Errorf("%v, with %d batches", err, len(s.batches))
	}
}
