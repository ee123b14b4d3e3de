package models

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// keep_alive: of the request, or as configured; 0 is at once, and a negative one for good.
func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 100}
		s := newSet(t, Config{Memory: m, KeepAlive: 5 * time.Minute, Sleep: time.Minute}, m.spec("a", 10, 0))
		use := func(keep time.Duration) {
			l, err := s.Acquire(t.Context(), "a", Options{KeepAlive: &keep})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(10 * time.Minute) // leases keep it
			want(t, s, "used", "a loaded 1")
			l.Release()
		}
		use(0)
		want(t, s, "keep_alive 0", "a unloaded")
		use(-1)
		time.Sleep(24 * time.Hour)
		want(t, s, "keep_alive -1", "a sleeping")
		use(30 * time.Second)
		time.Sleep(29 * time.Second)
		want(t, s, "29 s", "a loaded")
		time.Sleep(2 * time.Second)
		want(t, s, "31 s", "a unloaded")
		lease(t, s, "a").Release()
		if st, err := s.Status("a"); err != nil || !st.Expires.Equal(time.Now().Add(5*time.Minute)) {
			t.Errorf("%+v %v", st, err)
		}
		time.Sleep(2 * time.Minute)
		want(t, s, "2 min", "a sleeping")
		time.Sleep(4 * time.Minute)
		want(t, s, "6 min", "a unloaded")
		if m.used != 0 {
			t.Errorf("%d bytes are left", m.used)
		}
	})
}

// What is asked of a model that falls asleep is done when it sleeps, by whatever it was made to.
func TestMoving(t *testing.T) {
	sleeps := map[string]func(*Set[string]){
		"unused": func(*Set[string]) { time.Sleep(time.Minute) },
		"shed":   func(s *Set[string]) { go s.Shed(5) },
		"evict":  func(s *Set[string]) { _ = s.Load("b") },
	}
	for how, sleep := range sleeps {
		synctest.Test(t, func(t *testing.T) {
			m := &machine{limit: 15, rest: time.Second}
			s := newSet(t, Config{Memory: m, Sleep: time.Minute}, m.spec("a", 10, 0), m.spec("b", 10, 0))
			for _, end := range []func(){
				func() {
					if err := s.Unload("a"); err != nil {
						t.Error(err)
					}
				},
				func() { s.Remove("a") },
			} {
				lease(t, s, "a").Release()
				before := m.sleep.Load()
				sleep(s)
				synctest.Wait()
				if m.sleep.Load() == before {
					t.Fatalf("%s: it does not fall asleep", how)
				}
				end()
				time.Sleep(5 * time.Second)
				if st, err := s.Status("a"); err == nil && st.Names[0] == "a" && st.State != Unloaded {
					t.Errorf("%s: the model is %s", how, st.State)
				}
				if st, _ := s.Status("b"); st.State == Loaded {
					if err := s.Unload("b"); err != nil {
						t.Error(err)
					}
					time.Sleep(5 * time.Second)
				}
				if used := m.limit - m.Free(); used != 0 {
					t.Errorf("%s: %d bytes are left", how, used)
				}
			}
		})
	}
}

// The end waits for removed models that are in use, and closes them; one that was being loaded is not loaded; from its beginning no memory is shed.
func TestCloseRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &machine{limit: 30, rest: time.Second}
		s := newSet(t, Config{Memory: m}, m.spec("a", 10, 0), m.spec("b", 10, time.Second), m.spec("c", 10, 0))
		l := lease(t, s, "a")
		s.Remove("a")
		lease(t, s, "c").Release()
		if err := s.Load("b"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.Remove("b")
		var finished []string
		s.Close(t.Context(), func(i Instance[string]) {
			m.mu.Lock()
			finished = append(finished, *i.Model())
			m.mu.Unlock()
			if n := s.Shed(30); n > 0 {
				t.Errorf("%d bytes were freed of models that end", n)
			}
			l.Release()
		})
		if slices.Sort(finished); fmt.Sprint(finished) != "[a c]" || m.used != 0 {
			t.Errorf("%s ended, %d bytes are left", finished, m.used)
		}
	})
}
