package models

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func acquire(t *testing.T, s *Set[string], name string) string {
	t.Helper()
	l, err := s.Acquire(t.Context(), name)
	if err != nil {
		t.Fatalf("%q: %v", name, err)
	}
	defer l.Release()
	return *l.Model
}

func TestSet(t *testing.T) {
	s := &Set[string]{}
	if _, err := s.Acquire(t.Context(), ""); err != ErrLoading || s.Ready() {
		t.Errorf("of an empty set: %v", err)
	}
	first, err := s.Add("a", "alias")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Acquire(t.Context(), "anything"); err != ErrLoading || s.Ready() {
		t.Errorf("while it is loading: %v", err)
	}
	one := "one"
	first.Loaded(&one)
	for _, name := range []string{"", "a", "gpt-4"} {
		if got := acquire(t, s, name); got != "one" {
			t.Errorf("%q: %s", name, got)
		}
	}
	if !s.Ready() || s.Several() {
		t.Error("one model is all")
	}

	second, err := s.Add("b")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Add("c", "alias"); err == nil || !strings.Contains(err.Error(), `"alias"`) {
		t.Errorf("a name twice: %v", err)
	}
	if _, err := s.Acquire(t.Context(), "b"); err != ErrLoading || s.Ready() {
		t.Errorf("while the second is loading: %v", err)
	}
	if len(s.Loaded()) != 1 {
		t.Errorf("%d are loaded", len(s.Loaded()))
	}
	two := "two"
	second.Loaded(&two)
	for name, want := range map[string]string{"": "one", "a": "one", "alias": "one", "b": "two"} {
		if got := acquire(t, s, name); got != want {
			t.Errorf("%q: %s, want %s", name, got, want)
		}
	}
	var missing *NotFoundError
	if _, err := s.Acquire(t.Context(), "gpt-4"); !errors.As(err, &missing) || missing.Name != "gpt-4" || !slices.Equal(missing.Names, []string{"a", "b"}) {
		t.Errorf("an unknown name: %v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Acquire(gone, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("for one who has gone: %v", err)
	}

	l, err := s.Acquire(t.Context(), "b")
	if err != nil || second.Leases() != 1 || first.Leases() != 0 {
		t.Errorf("%v, %d leases of the second and %d of the first", err, second.Leases(), first.Leases())
	}
	if l.Release(); second.Leases() != 0 {
		t.Errorf("%d leases are left", second.Leases())
	}
}
