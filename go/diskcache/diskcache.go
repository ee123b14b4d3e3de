// Package diskcache keeps pages of memory in a folder, under a limit of bytes, for this
// process, for those that run beside it, and for the next.
//
// A page is a file named by its key and replaced as a whole, so readers need no lock. It is
// checked when it is read: what a crash, a full disk or another program has left of it is
// removed, never used. A file system that does not answer costs its callers the time that they
// allow, and no more. Processes that write count the folder's bytes together, under a lock
// that is held for a count; the least recently used files are removed first.
//
// What a folder's files are is private: they have mode 0600, the folder 0700.
package diskcache

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/internal/panics"
)

// A Key names a page: a hash of all that determines its contents.
type Key [32]byte

// A Page is memory and its name.
type Page struct {
	Key   Key
	Depth int // of pages used at the same time, the deepest are removed first
	Units [][]byte
}

// Config configures a Store.
type Config struct {
	Dir   string
	Limit uint64            // of bytes on disk, by all processes
	Log   func(line string) // told of the first of errors of a kind; nil: nobody
}

// ErrPaused reports that nothing is written for a while, since writing failed.
var ErrPaused = errors.New("the disk cache is not written for now")

// pause is how long nothing is written after an error.
const pause = 30 * time.Second

// version is the folder below Config.Dir: other versions of the format have others.
const version = "pages-1"

// A Store is safe for concurrent use.
type Store struct {
	cfg   Config
	dir   string
	files system
	usage *usage

	mu     sync.Mutex
	index  map[name]struct{} // pages that were there when last looked
	seen   uint64            // writes by all processes when the index was made
	next   time.Time         // when the index may be made again
	paused time.Time
	stuck  int                        // calls of the file system that nobody waits for any more
	quiet  struct{ read, write bool } // an error was logged, and none of the kind has succeeded since
	counts Status
}

// name is the part of a key that is its file's name.
type name [16]byte

const suffix = ".page"

func (k Key) name() name { return name(k[:len(name{})]) }

func (n name) file() string { return hex.EncodeToString(n[:]) + suffix }

func parseName(file string) (n name, ok bool) {
	if len(file) != 2*len(n)+len(suffix) || file[2*len(n):] != suffix {
		return n, false
	}
	_, err := hex.Decode(n[:], []byte(file[:2*len(n)]))
	return n, err == nil
}

// Status is the use of a Store.
type Status struct {
	Bytes   uint64 // on disk, by all processes
	Limit   uint64
	Pages   int    // known to be there
	Read    uint64 // pages, since it was opened
	Written uint64
	Damaged uint64 // pages found damaged, and removed
	Removed uint64 // pages removed because of the limit
	Errors  uint64 // of the file system
}

// Open opens the store in a folder, which it creates if it is missing.
func Open(c Config) (*Store, error) { return open(c, disk{}) }

func open(c Config, files system) (*Store, error) {
	s := &Store{cfg: c, dir: filepath.Join(c.Dir, version), files: files, index: map[name]struct{}{}}
	if s.cfg.Log == nil {
		s.cfg.Log = func(string) {}
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("disk cache: %w", err)
	}
	if err := os.Chmod(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("disk cache: %w", err)
	}
	var err error
	if s.usage, err = openUsage(filepath.Join(s.dir, "usage")); err != nil {
		return nil, fmt.Errorf("disk cache: %w", err)
	}
	if err := s.recount(); err != nil {
		s.usage.close()
		return nil, fmt.Errorf("disk cache: %w", err)
	}
	s.look()
	return s, nil
}

// Close closes the store. Pages stay.
func (s *Store) Close() error { return s.usage.close() }

// Has reports whether a page was there when last looked.
func (s *Store) Has(k Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.index[k.name()]
	return ok && s.stuck == 0
}

// Put writes a page, unless it is there already. Errors are logged. Where ctx ends first, the error wraps
// ErrStuck, and the page's memory is read until the store is no longer stuck.
func (s *Store) Put(ctx context.Context, p Page) error {
	if s.Paused() {
		return ErrPaused
	}
	path := filepath.Join(s.dir, p.Key.name().file())
	written := false
	err := s.wait(ctx, func(*call) error {
		if _, err := os.Lstat(path); err == nil {
			return nil
		}
		written = true
		return s.write(path, p)
	})
	if err != nil {
		s.failed(err)
		return err
	}
	s.add(p.Key, written)
	return nil
}

// Paused reports whether nothing is written for now, since writing failed.
func (s *Store) Paused() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Now().Before(s.paused)
}

// write writes a page under another name, and renames it.
func (s *Store) write(path string, p Page) error {
	size := int64(headBytes) + length(p.Units)
	f, temporary, err := s.admit(size)
	if err != nil {
		return err
	}
	err = panics.Catch(func() error { return encode(f, p.Key, p.Units) })
	if end := f.Close(); err == nil {
		err = end
	}
	if err = s.keep(temporary, path, size, err); err != nil {
		return err
	}
	s.touch(path, p.Depth)
	return nil
}

// touch makes a page one that was used now. An error costs its place in the order only.
func (s *Store) touch(path string, depth int) {
	_ = os.Chtimes(path, time.Time{}, time.Now().Add(-time.Duration(depth)*time.Microsecond))
}

func (s *Store) add(k Key, written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index[k.name()] = struct{}{}
	if !written {
		return
	}
	s.counts.Written++
	if s.quiet.write {
		s.quiet.write = false
		s.cfg.Log("the disk cache at " + s.cfg.Dir + " is written again")
	}
}

// failed records that a page could not be written.
func (s *Store) failed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counts.Errors++
	s.paused = time.Now().Add(pause)
	if !s.quiet.write {
		s.quiet.write = true
		s.cfg.Log(fmt.Sprintf("the disk cache at %s cannot be written: %v; texts are kept in memory only, until it can", s.cfg.Dir, err))
	}
}

// Get reads a page into units of the size that it has. Where it is not there any more the
// error wraps fs.ErrNotExist, where it is damaged ErrDamaged, and it is removed. Where ctx ends
// first the error wraps ErrStuck. Nothing is written to the units after Get has returned.
func (s *Store) Get(ctx context.Context, p Page) error {
	path := filepath.Join(s.dir, p.Key.name().file())
	err := s.wait(ctx, func(c *call) error {
		err := panics.Catch(func() error { return s.read(path, p, c) })
		if bug := (*panics.Panic)(nil); errors.As(err, &bug) {
			s.cfg.Log(fmt.Sprintf("the disk cache at %s: reading %s: %v; what it has of texts is computed again", s.cfg.Dir, filepath.Base(path), bug))
			err = fmt.Errorf("%w: %w", ErrDamaged, bug)
		}
		if errors.Is(err, ErrDamaged) {
			_ = s.files.remove(path) // it is refused the next time as well
		}
		return err
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.counts.Read++
		s.quiet.read = false
		return nil
	}
	if !errors.Is(err, ErrStuck) {
		delete(s.index, p.Key.name()) // it is not asked for again soon
	}
	switch {
	case errors.Is(err, fs.ErrNotExist): // another process removed it
	case errors.Is(err, ErrDamaged):
		s.counts.Damaged++
	default:
		s.counts.Errors++
		if !s.quiet.read {
			s.quiet.read = true
			s.cfg.Log(fmt.Sprintf("the disk cache at %s cannot be read: %v; what it has of texts is computed again", s.cfg.Dir, err))
		}
	}
	return err
}

func (s *Store) read(path string, p Page, c *call) error {
	f, err := s.files.open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%w: it is not a regular file", ErrDamaged)
	}
	if err := decode(f, info.Size(), p.Key, p.Units, c.copy); err != nil {
		return err
	}
	s.touch(path, p.Depth)
	return nil
}

// Status returns the use of the store. Where the disk does not respond, the bytes are those last read.
func (s *Store) Status() Status {
	ctx, cancel := context.WithTimeout(context.Background(), statusTime)
	defer cancel()
	_ = s.wait(ctx, func(*call) error {
		c, _ := s.usage.read() // 0 where it cannot be read, which writing will say
		s.mu.Lock()
		defer s.mu.Unlock()
		s.counts.Bytes = c.bytes
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.counts
	st.Limit, st.Pages = s.cfg.Limit, len(s.index)
	return st
}

// statusTime is how long Status waits for the disk.
const statusTime = time.Second
