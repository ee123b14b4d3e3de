package diskcache

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

const pageBytes = 20 << 10

// pageOf returns the page of a number, and memory to read it into.
func pageOf(n int) (p, empty Page) {
	key := Key(sha256.Sum256(fmt.Append(nil, n)))
	body := bytes.Repeat(key[:], pageBytes/len(key))
	p = Page{Key: key, Depth: n % 100, Units: [][]byte{body[:1000], body[1000:]}}
	return p, Page{Key: key, Depth: p.Depth, Units: [][]byte{make([]byte, 1000), make([]byte, len(body)-1000)}}
}

func same(p, q Page) bool { return slices.EqualFunc(p.Units, q.Units, bytes.Equal) }

type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) log(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, line)
}

func openStore(t *testing.T, c Config, files system) *Store {
	t.Helper()
	s, err := open(c, files)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func put(t *testing.T, s *Store, n int) {
	t.Helper()
	p, _ := pageOf(n)
	if err := s.Put(context.Background(), p); err != nil {
		t.Fatal(err)
	}
}

// has reports whether a page can be read, and fails where it is another.
func has(t *testing.T, s *Store, n int) bool {
	t.Helper()
	want, got := pageOf(n)
	err := s.Get(context.Background(), got)
	if err == nil && !same(got, want) {
		t.Fatalf("page %d is another", n)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("page %d: %v", n, err)
	}
	return err == nil
}

// Pages are there for the next process, for nobody else's eyes, and as they were written.
func TestPagesStay(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "cache")
	s := openStore(t, Config{Dir: dir, Limit: 1 << 20}, disk{})
	for n := range 5 {
		put(t, s, n)
		put(t, s, n)
	}
	if st := s.Status(); st.Written != 5 || st.Pages != 5 || st.Bytes != 5*charge(pageBytes+int64(headBytes)) {
		t.Errorf("%+v", st)
	}
	s.Close()
	s = openStore(t, Config{Dir: dir, Limit: 1 << 20}, disk{})
	for n := range 6 {
		p, _ := pageOf(n)
		if s.Has(p.Key) != (n < 5) || has(t, s, n) != (n < 5) {
			t.Errorf("page %d", n)
		}
	}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && !platform.Guarded(info) {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// The limit is kept, what was used last stays, and of what was used together the beginning.
func TestLimit(t *testing.T) {
	each := charge(pageBytes + int64(headBytes))
	c := Config{Dir: t.TempDir(), Limit: 32 * each}
	s := openStore(t, c, disk{})
	for n := range 30 {
		put(t, s, n)
	}
	old := time.Now().Add(-time.Hour)
	for n := range 30 {
		p, _ := pageOf(n)
		if err := os.Chtimes(filepath.Join(s.dir, p.Key.name().file()), old, old.Add(-time.Duration(n)*time.Microsecond)); err != nil {
			t.Fatal(err)
		}
	}
	if !has(t, s, 29) || !has(t, s, 17) { // are used
		t.Fatal("pages are gone early")
	}
	for n := 30; n < 40; n++ {
		put(t, s, n)
		if st := s.Status(); st.Bytes > c.Limit {
			t.Fatalf("%d bytes of %d", st.Bytes, c.Limit)
		}
	}
	for n, want := range map[int]bool{0: true, 29: true, 17: true, 39: true, 28: false, 27: false} {
		if has(t, s, n) != want {
			t.Errorf("page %d is there, want %v", n, want)
		}
	}
	// A smaller limit holds from the start; a page that is larger than all is refused.
	small := openStore(t, Config{Dir: c.Dir, Limit: 3 * each}, disk{})
	if st := small.Status(); st.Bytes != 3*each || st.Pages != 3 {
		t.Errorf("%+v", st)
	}
	p, _ := pageOf(50)
	if err := openStore(t, Config{Dir: t.TempDir(), Limit: each - 1}, disk{}).Put(context.Background(), p); err == nil {
		t.Error("a page larger than the limit was written")
	}
}

// Two stores of a folder keep its limit, and find what the other wrote.
func TestTwoStores(t *testing.T) {
	each := charge(pageBytes + int64(headBytes))
	c := Config{Dir: t.TempDir(), Limit: 20 * each}
	a, b := openStore(t, c, disk{}), openStore(t, c, disk{})
	var wg sync.WaitGroup
	for k, s := range []*Store{a, b, a, b} {
		wg.Go(func() {
			for n := range 40 {
				p, empty := pageOf(n + k*7)
				if err := s.Put(context.Background(), p); err != nil {
					t.Error(err)
				}
				if err := s.Get(context.Background(), empty); err == nil && !same(p, empty) || err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("page %d: %v", n, err)
				}
				if used := s.Status().Bytes; used > c.Limit {
					t.Errorf("%d bytes of %d", used, c.Limit)
				}
			}
		})
	}
	wg.Wait()
	list, err := disk{}.list(a.dir)
	if err != nil {
		t.Fatal(err)
	}
	total := uint64(0)
	for _, e := range list {
		if _, ok := parseName(e.name); ok {
			total += e.bytes
		}
	}
	if total > c.Limit || total == 0 {
		t.Errorf("%d bytes are there, want at most %d", total, c.Limit)
	}
	put(t, a, 1000)
	p, _ := pageOf(1000)
	for b.Look(context.Background()); !b.Has(p.Key); b.Look(context.Background()) {
		time.Sleep(time.Millisecond)
	}
}

// What is being written counts as the page that it becomes, also for who counts the folder meanwhile.
func TestPagesBeingWrittenCount(t *testing.T) {
	each := charge(pageBytes + int64(headBytes))
	c := Config{Dir: t.TempDir(), Limit: 20 * each}
	h := &hung{op: "write", on: true, gate: make(chan struct{})}
	slow, s := openStore(t, c, h), openStore(t, c, disk{})
	done := make(chan error, 5)
	for n := range cap(done) {
		go func() {
			p, _ := pageOf(1000 + n)
			done <- slow.Put(context.Background(), p)
		}()
	}
	for s.Status().Bytes < 5*each {
		time.Sleep(time.Millisecond)
	}
	n := 0
	for s.Status().Removed == 0 {
		put(t, s, n)
		n++
	}
	for s.Status().Bytes+each <= c.Limit {
		put(t, s, n)
		n++
	}
	close(h.gate)
	for range cap(done) {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	list, err := disk{}.list(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	total := uint64(0)
	for _, e := range list {
		if _, ok := parseName(e.name); ok {
			total += e.bytes
		}
	}
	if total > c.Limit {
		t.Errorf("%d bytes are there, want at most %d", total, c.Limit)
	}
}

// Whatever a page's file is, it is used only if it is the page; else it is removed.
func TestDamaged(t *testing.T) {
	s := openStore(t, Config{Dir: t.TempDir(), Limit: 1 << 20}, disk{})
	other, _ := pageOf(2)
	var wrong bytes.Buffer
	if err := encode(&wrong, other.Key, other.Units); err != nil {
		t.Fatal(err)
	}
	for name, harm := range map[string]func([]byte) []byte{
		"cut":                func(b []byte) []byte { return b[:len(b)/2] },
		"empty":              func([]byte) []byte { return nil },
		"longer":             func(b []byte) []byte { return append(b, 0) },
		"zeros":              func(b []byte) []byte { return make([]byte, len(b)) },
		"zeros from a point": func(b []byte) []byte { clear(b[4096:]); return b },
		"another page":       func([]byte) []byte { return wrong.Bytes() },
		"another version":    func(b []byte) []byte { b[7]++; return b },
		"a bit of the sum":   func(b []byte) []byte { b[headBytes-1] ^= 1; return b },
		"a bit of the end":   func(b []byte) []byte { b[len(b)-1] ^= 128; return b },
	} {
		put(t, s, 1)
		p, empty := pageOf(1)
		path := filepath.Join(s.dir, p.Key.name().file())
		b, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(path, harm(b), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Get(context.Background(), empty); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) || s.Has(p.Key) {
			t.Errorf("%s: it is still there: %v", name, err)
		}
	}
}

// faulty is a disk of which some operations fail.
type faulty struct {
	disk
	fail map[string]error // by operation
}

func (f *faulty) create(dir string, size int64) (file, string, error) {
	if err := f.fail["create"]; err != nil {
		return nil, "", err
	}
	g, name, err := f.disk.create(dir, size)
	return faultyFile{g, f}, name, err
}

func (f *faulty) open(path string) (file, error) {
	if err := f.fail["open"]; err != nil {
		return nil, err
	}
	g, err := f.disk.open(path)
	return faultyFile{g, f}, err
}

func (f *faulty) rename(from, to string) error {
	if err := f.fail["rename"]; err != nil {
		return err
	}
	return f.disk.rename(from, to)
}

func (f *faulty) list(dir string) ([]entry, error) {
	if err := f.fail["list"]; err != nil {
		return nil, err
	}
	return f.disk.list(dir)
}

type faultyFile struct {
	file
	f *faulty
}

func (g faultyFile) Write(b []byte) (int, error) {
	if g.f.fail["panic"] != nil {
		panic("a bug")
	}
	if err := g.f.fail["write"]; err != nil {
		n, _ := g.file.Write(b[:len(b)/2])
		return n, err
	}
	return g.file.Write(b)
}

func (g faultyFile) ReadAt(b []byte, off int64) (int, error) {
	if g.f.fail["panic"] != nil {
		panic("a bug")
	}
	if err := g.f.fail["read"]; err != nil {
		return 0, err
	}
	if g.f.fail["short"] != nil && len(b) > 100 { // as a file system may that is interrupted
		return g.file.ReadAt(b[:100], off)
	}
	return g.file.ReadAt(b, off)
}

func (g faultyFile) Close() error {
	if err := g.file.Close(); err != nil {
		return err
	}
	return g.f.fail["close"]
}

// A full disk and other errors cost the pages that they strike, and one line of the log.
func TestFaults(t *testing.T) {
	for _, op := range []string{"create", "write", "close", "rename"} {
		t.Run(op, func(t *testing.T) {
			var log lines
			f := &faulty{fail: map[string]error{}}
			s := openStore(t, Config{Dir: t.TempDir(), Limit: 1 << 20, Log: log.log}, f)
			put(t, s, 1)
			before := s.Status().Bytes
			f.fail[op] = syscall.ENOSPC
			for range 3 { // after the first it is not tried again for a while
				p, _ := pageOf(2)
				if err := s.Put(context.Background(), p); !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, ErrPaused) {
					t.Errorf("%v", err)
				}
			}
			if !s.Paused() || !has(t, s, 1) || has(t, s, 2) || s.Status().Bytes != before {
				t.Errorf("paused %v, %d bytes, %d before", s.Paused(), s.Status().Bytes, before)
			}
			if all, _ := filepath.Glob(filepath.Join(s.dir, temporaryPrefix+"*")); len(all) > 0 {
				t.Errorf("%v are left", all)
			}
			delete(f.fail, op)
			s.mu.Lock()
			s.paused = time.Time{}
			s.mu.Unlock()
			put(t, s, 2)
			if len(log.all) != 2 || !strings.Contains(log.all[0], "no space left") || !strings.Contains(log.all[1], "again") {
				t.Errorf("the log is %q", log.all)
			}
		})
	}
	t.Run("read", func(t *testing.T) {
		var log lines
		f := &faulty{fail: map[string]error{}}
		s := openStore(t, Config{Dir: t.TempDir(), Limit: 1 << 20, Log: log.log}, f)
		for n := range 4 {
			put(t, s, n)
		}
		f.fail["short"] = syscall.EIO
		if !has(t, s, 0) {
			t.Error("short reads lose a page")
		}
		for n, op := range map[int]string{1: "open", 2: "read"} {
			f.fail[op] = syscall.EIO
			p, empty := pageOf(n)
			if err := s.Get(context.Background(), empty); !errors.Is(err, syscall.EIO) || s.Has(p.Key) {
				t.Errorf("%s: %v", op, err)
			}
			delete(f.fail, op)
		}
		if len(log.all) != 1 || !strings.Contains(log.all[0], "cannot be read") || s.Status().Errors != 2 {
			t.Errorf("the log is %q", log.all)
		}
	})
	t.Run("folder", func(t *testing.T) {
		if _, err := open(Config{Dir: t.TempDir(), Limit: 1}, &faulty{fail: map[string]error{"list": syscall.EIO}}); !errors.Is(err, syscall.EIO) {
			t.Errorf("a folder that cannot be read: %v", err)
		}
		file := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(Config{Dir: file, Limit: 1}); err == nil || strings.Contains(err.Error(), "\n") {
			t.Errorf("a file in place of the folder: %v", err)
		}
	})
}

// A panic while a page is written is an error like any, and one while it is read makes it a damaged one.
func TestPanics(t *testing.T) {
	var log lines
	f := &faulty{fail: map[string]error{}}
	s := openStore(t, Config{Dir: t.TempDir(), Limit: 1 << 20, Log: log.log}, f)
	put(t, s, 1)
	before := s.Status()
	f.fail["panic"] = syscall.EIO
	p, _ := pageOf(2)
	if err := s.Put(context.Background(), p); err == nil || err.Error() != "internal error: a bug" || !s.Paused() || s.Has(p.Key) {
		t.Errorf("written: %v, paused %v, kept %v", err, s.Paused(), s.Has(p.Key))
	}
	if all, _ := filepath.Glob(filepath.Join(s.dir, temporaryPrefix+"*")); len(all) > 0 || s.Status().Bytes != before.Bytes {
		t.Errorf("%v are left, and %d bytes, %d before", all, s.Status().Bytes, before.Bytes)
	}
	s.paused, s.files = time.Time{}, nil // for a panic beside the page
	if err := s.Put(context.Background(), p); err == nil || !strings.Contains(err.Error(), "internal error: ") {
		t.Errorf("without a file system: %v", err)
	}
	s.files = f
	p, empty := pageOf(1)
	if err := s.Get(context.Background(), empty); !errors.Is(err, ErrDamaged) || s.Has(p.Key) {
		t.Errorf("read: %v, kept %v", err, s.Has(p.Key))
	}
	if _, err := os.Stat(filepath.Join(s.dir, p.Key.name().file())); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if got := s.Status(); got.Damaged != before.Damaged+1 || s.Stuck() {
		t.Errorf("%+v, stuck %v", got, s.Stuck())
	}
	if len(log.all) != 2 || !strings.Contains(log.all[0], "cannot be written: internal error: a bug") || !strings.Contains(log.all[1], "internal error: a bug") {
		t.Errorf("the log is %q", log.all)
	}
}

// What a process that was killed has left is removed once nobody can be writing it, and counts until then.
func TestLeftovers(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Config{Dir: dir, Limit: 1 << 20}, disk{})
	fresh, old := filepath.Join(s.dir, temporaryPrefix+"1"), filepath.Join(s.dir, temporaryPrefix+"2")
	for _, path := range []string{fresh, old} {
		if err := os.WriteFile(path, make([]byte, 100<<10), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	then := time.Now().Add(-2 * abandoned)
	if err := os.Chtimes(old, then, then); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "usage"), []byte("not a count, and longer than one"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Config{Dir: dir, Limit: 1 << 20}, disk{})
	if _, err := os.Stat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if st := s.Status(); st.Bytes != charge(100<<10) || st.Pages != 0 {
		t.Errorf("%+v", st)
	}
}

// A reader takes no file for a page that is not one, and does not end the program.
func FuzzDecode(f *testing.F) {
	p, _ := pageOf(1)
	p.Units = [][]byte{[]byte("some"), []byte("units")}
	var good bytes.Buffer
	if err := encode(&good, p.Key, p.Units); err != nil {
		f.Fatal(err)
	}
	f.Add(good.Bytes())
	f.Add(good.Bytes()[:headBytes])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		units := [][]byte{make([]byte, 4), make([]byte, 5)}
		err := decode(bytes.NewReader(b), int64(len(b)), p.Key, units, new(call).copy)
		if (err == nil) != bytes.Equal(b, good.Bytes()) || err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%v", err)
		}
	})
}
