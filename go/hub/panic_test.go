package hub

import (
	"errors"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quern-llm/quern/go/internal/panics"
)

// A panic in a goroutine of a pull is its error, of one line, and the next pull goes on.
func TestPullPanics(t *testing.T) {
	b := model(300_000, 1)
	want := func(t *testing.T, err error, what string) {
		t.Helper()
		var p *panics.Panic
		if !errors.As(err, &p) || p.Value != what || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want one line with the panic %q", err, what)
		}
	}
	for name, plain := range map[string]bool{"of a connection": false, "without ranges": true} {
		t.Run(name, func(t *testing.T) {
			s := newBadServer(t)
			s.put("a-Q4_K_M.gguf", b)
			s.plain = plain
			h := s.cache(t.TempDir())
			write := h.writeAt
			var calls atomic.Int64
			h.writeAt = func(f *os.File, b []byte, at int64) (int, error) {
				if calls.Add(1) > 3 {
					panic("a write")
				}
				return write(f, b, at)
			}
			_, err := get(t, h, "hf.co/org/repo")
			want(t, err, "a write")
			h.writeAt = write
			must(t, h, "hf.co/org/repo", b)
		})
	}
	t.Run("of the progress", func(t *testing.T) {
		s := newBadServer(t)
		s.put("a-Q4_K_M.gguf", b)
		var well atomic.Bool
		s.bad = func(_ int64, _ http.ResponseWriter, r *http.Request) bool {
			if well.Load() {
				return false
			}
			<-r.Context().Done() // until the pull is given up
			return true
		}
		h := s.cache(t.TempDir())
		ref, err := ParseRef("hf.co/org/repo")
		if err != nil {
			t.Fatal(err)
		}
		plan, err := h.Resolve(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		reports := 0
		_, err = h.Pull(t.Context(), plan, Options{Progress: func(p Progress) {
			if reports++; reports == 3 { // at a tick: the server answers nothing
				panic("a report")
			}
		}})
		want(t, err, "a report")
		well.Store(true)
		must(t, h, "hf.co/org/repo", b)
	})
}
