package newfile

import (
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write := func(text string, replace bool, more error) error {
		n, err := Write(path, replace, 0o640, uint64(len(text)), func(w io.Writer) (int64, error) {
			n, err := io.WriteString(w, text)
			return int64(n), errors.Join(err, more)
		})
		if err == nil && n != int64(len(text)) {
			t.Errorf("%q: %d bytes", text, n)
		}
		return err
	}
	broken := errors.New("broken")
	for _, tt := range []struct {
		text    string
		replace bool
		more    error
		err     error
		left    string // in the file
	}{
		{"half", false, broken, broken, ""},
		{"first", false, nil, nil, "first"},
		{"second", false, nil, fs.ErrExist, "first"},
		{"half", true, broken, broken, "first"},
		{"third", true, nil, nil, "third"},
	} {
		if err := write(tt.text, tt.replace, tt.more); !errors.Is(err, tt.err) {
			t.Errorf("%+v: %v", tt, err)
		}
		got, err := os.ReadFile(path)
		if string(got) != tt.left || tt.left != "" && err != nil {
			t.Errorf("%+v: the file has %q, %v", tt, got, err)
		}
		if info, err := os.Stat(path); err == nil && info.Mode() != 0o640 {
			t.Errorf("%+v: the file is %v", tt, info.Mode())
		}
		names, err := os.ReadDir(dir)
		if err != nil || len(names) > 1 {
			t.Errorf("%+v left %v, %v", tt, names, err)
		}
	}
	if err := os.Symlink("/dev/null", filepath.Join(dir, "null")); err != nil {
		t.Fatal(err)
	}
	for _, path = range []string{dir, "/dev/null", filepath.Join(dir, "null")} {
		if err := write("x", true, nil); err == nil || err.Error() != path+" is no file" {
			t.Errorf("%s is replaced: %v", path, err)
		}
	}
	path = filepath.Join(dir, "none", "file")
	if err := write("x", false, nil); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "\n") {
		t.Errorf("in a folder that is not there: %v", err)
	}
}

// A file that comes while another is written in its place stays, unless it may be replaced.
func TestWriteMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for replace, want := range map[bool]string{false: "other", true: "own"} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Fatal(err)
		}
		_, err := Write(path, replace, 0o644, 0, func(w io.Writer) (int64, error) {
			if err := os.WriteFile(path, []byte("other"), 0o644); err != nil {
				return 0, err
			}
			n, err := io.WriteString(w, "own")
			return int64(n), err
		})
		if replace != (err == nil) || !replace && (!errors.Is(err, fs.ErrExist) || err.Error() != path+": file already exists") {
			t.Errorf("replace %v: %v", replace, err)
		}
		if got, err := os.ReadFile(path); string(got) != want {
			t.Errorf("replace %v: the file has %q, %v", replace, got, err)
		}
		if names, err := os.ReadDir(filepath.Dir(path)); len(names) != 1 {
			t.Errorf("replace %v left %v, %v", replace, names, err)
		}
	}
}

func TestCheckSpace(t *testing.T) {
	dir := t.TempDir()
	if err := CheckSpace(dir, 1); err != nil {
		t.Error(err)
	}
	if err := CheckSpace(dir, math.MaxUint64); err == nil || !strings.Contains(err.Error(), "MB free") {
		t.Errorf("got %v", err)
	}
}

// What another program has closed a moment ago and is about to rename stays, as does what is no copy of the file.
func TestLeftovers(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	for name, age := range map[string]time.Duration{
		".file.1.tmp": abandoned + time.Minute, ".file.2.tmp": abandoned - time.Minute, ".file.3.tmp": 0, ".file.4.tmp": -time.Hour,
		".file.5.tmp.gguf": time.Hour, ".other.6.tmp": time.Hour, "file": time.Hour, ".file.7.tmp": 30 * 24 * time.Hour,
	} {
		at := filepath.Join(dir, name)
		if err := os.WriteFile(at, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(at, now, now.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	folder := filepath.Join(dir, ".file.8.tmp")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(folder, now, now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	want := []string{filepath.Join(dir, ".file.1.tmp"), filepath.Join(dir, ".file.7.tmp")}
	if got := leftovers(dir, "file", now.Add(-abandoned)); !slices.Equal(got, want) {
		t.Errorf("%q are left, want %q", got, want)
	}
	if got := leftovers(filepath.Join(dir, "none"), "file", now); len(got) != 0 {
		t.Errorf("%q are left in a folder that is not there", got)
	}
}

// A program that is killed while it writes leaves nothing: the file has no name until it is whole.
func TestKilledWhileWriting(t *testing.T) {
	const env = "QUERN_TEST_WRITES_TO"
	if path := os.Getenv(env); path != "" {
		_, err := Write(path, false, 0o600, 0, func(w io.Writer) (int64, error) {
			if _, err := io.WriteString(w, "half"); err != nil {
				return 0, err
			}
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return 0, err
			}
			return 0, self.Kill()
		})
		t.Fatalf("it goes on: %v", err)
	}
	dir := t.TempDir()
	probe, named, err := temporary(dir, "probe")
	if err != nil {
		t.Fatal(err)
	}
	probe.Close()
	if named {
		t.Skip("the file system of temporary files has none without a name")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilledWhileWriting$")
	cmd.Env = append(os.Environ(), env+"="+filepath.Join(dir, "file"))
	if out, err := cmd.CombinedOutput(); err == nil || len(out) > 0 {
		t.Fatalf("it ended with %v, %s", err, out)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("it left %v, %v", left, err)
	}
}
