package diskcache

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// Removal makes more room than is needed at once, a sixteenth of the limit, so that the
// folder is read once for many pages.
const removedPart = 16

// A file takes whole pages of the disk, and an entry in each process's index: small ones are
// counted as if they were larger.
const (
	diskPage = 4 << 10
	smallest = 16 << 10
)

// charge returns the bytes that a file of a size counts as.
func charge(bytes int64) uint64 {
	return max(uint64(bytes+diskPage-1)/diskPage*diskPage, smallest)
}

// abandoned is the age from which a file that was not renamed is removed: its writer has ended.
const abandoned = 10 * time.Minute

// admit counts a file of a size and creates it, under a name that is not a page's, and removes pages if the limit is
// exceeded. The file has its size from the first on: who counts the folder while it is written counts all of it.
func (s *Store) admit(size int64) (f file, temporary string, err error) {
	bytes := charge(size)
	if bytes > s.cfg.Limit {
		return nil, "", fmt.Errorf("a page of %d bytes is larger than the limit of %d; raise it", bytes, s.cfg.Limit)
	}
	err = s.usage.update(func(c *count) error {
		if c.bytes+bytes > s.cfg.Limit {
			left, err := s.shrink(s.cfg.Limit - min(s.cfg.Limit, s.cfg.Limit/removedPart+bytes))
			if err != nil {
				return err
			}
			c.bytes = left
		}
		if c.bytes+bytes > s.cfg.Limit { // files that could not be removed
			return fmt.Errorf("%d bytes are taken and %d allowed, and files cannot be removed", c.bytes, s.cfg.Limit)
		}
		var err error
		if f, temporary, err = s.files.create(s.dir, size); err != nil {
			return err
		}
		c.bytes += bytes
		c.writes++
		return nil
	})
	if err != nil && f != nil {
		_ = f.Close()
		_ = s.files.remove(temporary)
	}
	return f, temporary, err
}

// keep makes a file that admit created a page, or removes it if writing it failed with err. It is renamed under the
// lock, for a folder that is listed meanwhile may show neither name.
func (s *Store) keep(temporary, path string, size int64, err error) error {
	locked := s.usage.update(func(c *count) error {
		if err == nil {
			err = s.files.rename(temporary, path)
		}
		if err != nil && s.files.remove(temporary) == nil {
			c.bytes -= min(charge(size), c.bytes)
		}
		return nil
	})
	if locked != nil && err == nil {
		_ = s.files.remove(temporary)
	}
	return cmp.Or(err, locked)
}

// recount counts what is there, and removes what is over the limit.
func (s *Store) recount() error {
	return s.usage.update(func(c *count) (err error) {
		c.bytes, err = s.shrink(s.cfg.Limit)
		return err
	})
}

// An entry is a file of the folder.
type entry struct {
	name  string
	bytes uint64
	used  time.Time
}

// shrink removes the files used least recently until `target` bytes are left, and returns how
// many are.
func (s *Store) shrink(target uint64) (bytes uint64, err error) {
	all, err := s.files.list(s.dir)
	if err != nil {
		return 0, err
	}
	var pages []entry
	for _, e := range all {
		_, page := parseName(e.name)
		switch {
		case page:
			pages = append(pages, e)
		case !strings.HasPrefix(e.name, temporaryPrefix):
			continue // not ours
		case time.Since(e.used) > abandoned && s.files.remove(filepath.Join(s.dir, e.name)) == nil:
			continue
		}
		bytes += e.bytes
	}
	slices.SortFunc(pages, func(a, b entry) int { return a.used.Compare(b.used) })
	for _, e := range pages {
		if bytes <= target {
			break
		}
		if s.files.remove(filepath.Join(s.dir, e.name)) != nil {
			continue
		}
		bytes -= e.bytes
		n, _ := parseName(e.name)
		s.mu.Lock()
		delete(s.index, n)
		s.counts.Removed++
		s.mu.Unlock()
	}
	return bytes, nil
}

// lookPart bounds the time that is spent looking for pages of other processes: a fiftieth.
const lookPart = 50

// Look finds the pages that other processes have written since it last did.
func (s *Store) Look(ctx context.Context) {
	_ = s.wait(ctx, func(*call) error {
		c, err := s.usage.read()
		s.mu.Lock()
		again := err == nil && c.writes != s.seen+s.counts.Written && !time.Now().Before(s.next)
		s.mu.Unlock()
		if again {
			s.look()
		}
		return nil
	})
}

func (s *Store) look() {
	start := time.Now()
	c, err := s.usage.read()
	if err != nil {
		return
	}
	list, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.index)
	for _, e := range list {
		if n, ok := parseName(e.Name()); ok {
			s.index[n] = struct{}{}
		}
	}
	s.seen = c.writes - s.counts.Written
	s.next = time.Now().Add(lookPart * time.Since(start))
}

// temporaryPrefix begins the names of files that are being written.
const temporaryPrefix = "new-"

// A system is what the store asks of the operating system's files.
type system interface {
	create(dir string, size int64) (file, string, error)
	open(path string) (file, error)
	rename(from, to string) error
	remove(path string) error
	list(dir string) ([]entry, error)
}

type file interface {
	ReadAt(b []byte, off int64) (int, error)
	Write(b []byte) (int, error)
	Stat() (fs.FileInfo, error)
	Close() error
}

// disk is the operating system.
type disk struct{}

func (disk) create(dir string, size int64) (file, string, error) {
	f, err := os.CreateTemp(dir, temporaryPrefix) // with mode 0600
	if err != nil {
		return nil, "", err
	}
	if err := f.Truncate(size); err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return nil, "", err
	}
	return f, f.Name(), nil
}

// open does not wait for a writer where the file is a FIFO.
func (disk) open(path string) (file, error) {
	f, err := platform.Open(path)
	if err != nil {
		return nil, err
	}
	return f, nil
}

func (disk) rename(from, to string) error { return platform.Replace(from, to) }
func (disk) remove(path string) error     { return os.Remove(path) }

func (disk) list(dir string) (all []entry, err error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range list {
		if info, err := e.Info(); err == nil { // else another process removed it
			all = append(all, entry{e.Name(), charge(info.Size()), info.ModTime()})
		}
	}
	return all, nil
}
