package diskcache

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A page that is not a regular file is damaged: opening a FIFO would wait for a writer.
func TestNotRegularFiles(t *testing.T) {
	for kind, make := range map[string]func(path string) error{
		"FIFO":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"link":   func(path string) error { return os.Symlink("/dev/zero", path) },
	} {
		t.Run(kind, func(t *testing.T) {
			s := openStore(t, Config{Dir: t.TempDir(), Limit: 1 << 20}, disk{})
			put(t, s, 1)
			p, empty := pageOf(1)
			path := filepath.Join(s.dir, p.Key.name().file())
			if err := errors.Join(os.Remove(path), make(path)); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			if err := s.Get(ctx, empty); !errors.Is(err, ErrDamaged) || s.Has(p.Key) {
				t.Errorf("%v, and it has the page: %v", err, s.Has(p.Key))
			}
			put(t, s, 1)
			if !has(t, s, 1) {
				t.Error("the page is not written again")
			}
		})
	}
}
