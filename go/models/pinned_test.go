package models

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A pinned model stays loaded, whatever asks for its memory, until it is removed.
func TestPinned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 15}
		a := m.spec("a", 10, 0)
		a.Pinned = true
		s := newSet(t, Config{Memory: m, KeepAlive: time.Minute, Sleep: time.Second}, a, m.spec("b", 10, 0))
		now := time.Duration(0)
		l, err := s.Acquire(t.Context(), "a", Options{KeepAlive: &now})
		if err != nil {
			t.Fatal(err)
		}
		l.Release()
		if st, err := s.Status("a"); err != nil || !st.Pinned || !st.Expires.IsZero() {
			t.Errorf("%+v %v", st, err)
		}
		if err := s.Unload("a"); !errors.Is(err, ErrPinned) {
			t.Errorf("unloaded: %v", err)
		}
		if n := s.Shed(10); n != 0 {
			t.Errorf("%d bytes are shed", n)
		}
		time.Sleep(time.Hour)
		want(t, s, "after an hour", "a loaded, b unloaded")
		s.Remove("a")
		time.Sleep(time.Second)
		if want(t, s, "removed", "b unloaded"); m.used != 0 {
			t.Errorf("%d bytes are left", m.used)
		}
	})
}
