package platform

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

const huge = 2 << 20

func TestAllocate(t *testing.T) {
	b, err := Allocate(huge+12345, huge)
	if err != nil {
		t.Fatal(err)
	}
	if address(b)%huge != 0 || len(b) != huge+12345 || cap(b) != len(b) {
		t.Fatalf("%d bytes, of %d, at %#x", len(b), cap(b), address(b))
	}
	for i := range b {
		if b[i] != 0 {
			t.Fatalf("byte %d is %d", i, b[i])
		}
		b[i] = 0xa5
	}
	if err := PopulateMemory(b); err != nil || bytes.Count(b, []byte{0xa5}) != len(b) {
		t.Errorf("bytes are others after they were made present, %v", err)
	}
	page := os.Getpagesize()
	if err := Discard(b[page : 3*page]); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(b, []byte{0}); n != 2*page || b[page-1] == 0 || b[3*page] == 0 {
		t.Errorf("%d bytes are zeros of %d that were discarded", n, 2*page)
	}
	b[page] = 1
	HugePages(b[:huge], true)
	HugePages(b[:huge], false)
	if err := Free(b); err != nil {
		t.Error(err)
	}
	if b, err := Allocate(1<<62, huge); err == nil {
		t.Errorf("there is room for %d bytes", len(b))
	}
}

// Addresses cost nothing; a part of them is memory.
func TestReserve(t *testing.T) {
	b, err := Reserve(1<<40, huge)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	part := b[1<<39:][:4*page]
	for range 2 {
		if err := Commit(part); err != nil {
			t.Fatal(err)
		}
		if part[0] != 0 || part[4*page-1] != 0 {
			t.Error("what was committed is no zeros")
		}
		part[0], part[4*page-1] = 1, 2
		if err := Commit(part[page:]); err != nil || part[4*page-1] != 2 { // what is usable stays
			t.Errorf("%d, %v", part[4*page-1], err)
		}
		if err := Decommit(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := Free(b); err != nil {
		t.Error(err)
	}
}

func file(t *testing.T, n int) (name string, content []byte) {
	t.Helper()
	content = make([]byte, n)
	for i := range content {
		content[i] = byte(i*7 + i>>8)
	}
	// Spaces, letters of others, and more of them than 260.
	dir := filepath.Join(t.TempDir(), "two words, и слова", strings.Repeat("long ", 20)+"end", strings.Repeat("länger ", 20)+"end")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	name = filepath.Join(dir, "file")
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return name, content
}

func TestMapFile(t *testing.T) {
	for _, n := range []int{1, 4095, 4096, 3<<20 + 5} {
		name, want := file(t, n)
		f, err := Open(name)
		if err != nil {
			t.Fatal(err)
		}
		b, err := MapFile(f, uint64(n))
		if err != nil {
			t.Fatal(err)
		}
		for what, advise := range map[string]func([]byte) error{"populate": PopulateFile, "will need": WillNeed, "random": RandomAccess, "drop": Drop} {
			if err := advise(b); err != nil || !bytes.Equal(b, want) {
				t.Errorf("%s of %d bytes: %v", what, n, err)
			}
		}
		Cold(b)
		Present(b)
		if err := errors.Join(Unmap(b), f.Close()); err != nil {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

func TestLock(t *testing.T) {
	name, want := file(t, 100)
	var f [2]*os.File
	for i := range f {
		var err error
		if f[i], err = OpenItself(name, os.O_RDWR, 0); err != nil {
			t.Fatal(err)
		}
		defer f[i].Close()
	}
	for range 2 {
		if ok, err := Lock(f[0]); !ok || err != nil {
			t.Fatalf("the first lock: %v, %v", ok, err)
		}
		if ok, err := Lock(f[1]); ok || err != nil {
			t.Fatalf("a second lock: %v, %v", ok, err)
		}
		if got, err := os.ReadFile(name); !bytes.Equal(got, want) || err != nil { // a lock keeps nobody from the contents
			t.Errorf("%d bytes of a locked file, %v", len(got), err)
		}
		if err := Unlock(f[0]); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	a, err := LockFolder(dir)
	if a == nil || err != nil {
		t.Fatalf("a folder: %v", err)
	}
	if b, err := LockFolder(dir); b != nil || err != nil {
		t.Errorf("a folder that is locked: %v, %v", b, err)
	}
	a.Close()
	if a, err = LockFolder(dir); a == nil || err != nil {
		t.Fatalf("a folder that is locked no more: %v", err)
	}
	a.Close()
}

// What is open may be renamed, replaced and removed, and has its contents.
func TestOpenFiles(t *testing.T) {
	name, want := file(t, 5000)
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Rename(name, name+"2"); err != nil {
		t.Errorf("an open file cannot be renamed: %v", err)
	}
	if err := os.Remove(name + "2"); err != nil {
		t.Errorf("an open file cannot be removed: %v", err)
	}
	got := make([]byte, len(want))
	if n, err := ReadAt(f.Fd(), got, 0); n != len(want) || err != nil || !bytes.Equal(got, want) {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if n, err := ReadAt(f.Fd(), got, 4000); n != 1000 || err != nil || !bytes.Equal(got[:n], want[4000:]) {
		t.Errorf("read %d bytes from the middle, %v", n, err)
	}
	if n, err := ReadAt(f.Fd(), got, 5000); n != 0 || err != nil {
		t.Errorf("read %d bytes from the end, %v", n, err)
	}
}

func TestRenameNew(t *testing.T) {
	name, want := file(t, 10)
	if err := os.WriteFile(name+"2", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := RenameNew(name, name+"2"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a file that is there is replaced: %v", err)
	}
	if err := RenameNew(name, name+"3"); err != nil {
		t.Error(err)
	}
	if got, err := os.ReadFile(name + "3"); !bytes.Equal(got, want) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestLinkFile(t *testing.T) {
	name, want := file(t, 10)
	dir := filepath.Join(filepath.Dir(name), "views")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := LinkFile(filepath.Join("..", "file"), filepath.Join(dir, "view")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, "view")); !bytes.Equal(got, want) || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A file that is open is replaced, and has its contents for who has it open.
func TestReplace(t *testing.T) {
	name, want := file(t, 10)
	if err := os.WriteFile(name+"2", []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Replace(name+"2", name); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 20)
	if n, err := ReadAt(f.Fd(), got, 0); !bytes.Equal(got[:n], want) || err != nil {
		t.Errorf("%q, %v", got[:n], err)
	}
	if now, err := os.ReadFile(name); string(now) != "new" || err != nil {
		t.Errorf("%q, %v", now, err)
	}
}

func TestNameless(t *testing.T) {
	dir := t.TempDir()
	for what, create := range map[string]func() (*os.File, error){
		"nameless": func() (*os.File, error) { return CreateNameless(dir) },
		"memory":   func() (*os.File, error) { return MemoryFile("model") },
	} {
		f, err := create()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("contents"); err != nil {
			t.Error(err)
		}
		again, err := Open(Path(f))
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		got := make([]byte, 10)
		if n, err := ReadAt(again.Fd(), got, 0); string(got[:n]) != "contents" || err != nil {
			t.Errorf("%s: %q, %v", what, got, err)
		}
		again.Close()
		f.Close()
	}
	if left, err := os.ReadDir(dir); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestDisk(t *testing.T) {
	name, want := file(t, 3<<12)
	if n, err := FreeSpace(filepath.Dir(name)); n == 0 || err != nil {
		t.Errorf("%d bytes are free, %v", n, err)
	}
	f, direct, err := OpenDirect(name, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := Allocate(1<<14, 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer Free(b)
	if n, err := ReadAt(f.Fd(), b[:8192], 4096); n != 8192 || err != nil || !bytes.Equal(b[:n], want[4096:]) {
		t.Errorf("direct %v: %d bytes, %v", direct, n, err)
	}
	Forget(f.Fd(), 0, 3<<12)
	if n, err := Taken(f); n < 0 || err != nil {
		t.Errorf("takes %d bytes, %v", n, err)
	}
	if _, err := os.Stat(filepath.Join(name, "below")); err == nil || !NotFolder(err) && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file as a folder: %v", err)
	}
}

func TestThreads(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, x := ThreadTime(), uint64(1)
	for ThreadTime()-before < 20*time.Millisecond {
		x = x*6364136223846793005 + 1
	}
	thread := ThisThread()
	defer thread.KeepOn(nil)
	cpus := Affinity()
	if h, err := Computer(); err != nil {
		t.Error(err)
	} else if h != nil {
		if len(h.CPUs) == 0 || h.Total == 0 || !slices.IsSortedFunc(h.CPUs, func(a, b CPU) int { return a.ID - b.ID }) {
			t.Errorf("%+v", h)
		}
		for _, c := range h.CPUs {
			if c.Allowed && h.Pins {
				cpus = append(cpus, c.ID)
			}
		}
	}
	if len(cpus) == 0 {
		t.Skipf("%s keeps no thread on a CPU", Name)
	}
	thread.KeepOn(cpus[len(cpus)-1:])
	if cpu, err := CurrentCPU(); err != nil || cpu != cpus[len(cpus)-1] {
		t.Errorf("on CPU %d, %v, of %v", cpu, err, cpus)
	}
}

func TestMemory(t *testing.T) {
	if m := Memory(); m.Peak == 0 || Name != "macOS" && (m.All == 0 || m.Peak < m.All/2) {
		t.Errorf("%+v", m)
	}
}

// The clock goes on, in steps that are shorter than a pass of a small model.
func TestClock(t *testing.T) {
	least := time.Hour
	for last, n := Clock(), 0; n < 1000; {
		now := Clock()
		if now < last {
			t.Fatalf("it was %v, and is %v", last, now)
		}
		if now > last {
			least, n = min(least, now-last), n+1
		}
		last = now
	}
	if least > 100*time.Microsecond {
		t.Errorf("its steps are %v", least)
	}
	const tick = 20 * time.Millisecond // of the other clock, on Windows
	began := time.Now()
	before := Clock()
	slept := time.Now()
	time.Sleep(50 * time.Millisecond)
	least = time.Since(slept) - tick
	took := Clock() - before
	if most := time.Since(began) + tick; took < least || took > most {
		t.Errorf("it went on by %v in %v to %v", took, least, most)
	}
}
