package telemetry

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/rs/zerolog"
)

func newAudit(t *testing.T) (a *Audit, path string, log *bytes.Buffer) {
	t.Helper()
	path, log = filepath.Join(t.TempDir(), "audit"), &bytes.Buffer{}
	a, err := NewAudit(path, zerolog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a, path, log
}

// requests are those of the lines of a file.
func requests(t *testing.T, path string) (list []string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		list = append(list, e.Request)
	}
	return list
}

func TestAudit(t *testing.T) {
	a, path, log := newAudit(t)
	write := func(id string) {
		a.looked = time.Time{}
		a.Write(Entry{Request: id})
	}
	same := func(path, want string) {
		t.Helper()
		if got := strings.Join(requests(t, path), " "); got != want {
			t.Errorf("%s has %q, want %q", path, got, want)
		}
	}
	write("a")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v %v", info, err)
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write("b")
	same(path+".1", "a")
	same(path, "b")
	if err := os.Rename(path, path+".2"); err != nil {
		t.Fatal(err)
	}
	a.Reopen()
	a.Write(Entry{Request: "c"})
	same(path+".2", "b")
	same(path, "c")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write("d")
	same(path, "d")
	again, err := NewAudit(path, zerolog.Nop())
	if err != nil {
		t.Fatal(err)
	}
	again.Write(Entry{Request: "e"})
	again.Close()
	same(path, "d e")
	if log.Len() > 0 {
		t.Error(log)
	}
	// A folder in the place of the file: the old file goes on, and nothing stops.
	if err := os.Rename(path, path+".3"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	write("f")
	write("g")
	same(path+".3", "d e f g")
	told := func() int { return strings.Count(log.String(), "cannot be opened again") }
	if told() != 1 {
		t.Errorf("told %d times: %s", told(), log)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write("h")
	same(path, "h")
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o700)); err != nil {
		t.Fatal(err)
	}
	write("i")
	if told() != 2 {
		t.Errorf("told %d times: %s", told(), log)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	a.Close()
	write("j")
	if _, err := os.Stat(path); err == nil {
		t.Error("a log that was closed is opened again")
	}
}

// Half a line, which a crash has left, spoils no other line, and a file that ends well gets no empty one.
func TestAuditTorn(t *testing.T) {
	a, path, _ := newAudit(t)
	a.Write(Entry{Request: "a"})
	a.Close()
	if err := os.Truncate(path, 5); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		again, err := NewAudit(path, zerolog.Nop())
		if err != nil {
			t.Fatal(err)
		}
		again.Write(Entry{Request: "b"})
		again.Close()
	}
	b, err := os.ReadFile(path)
	lines := strings.Split(string(b), "\n")
	if err != nil || len(lines) != 4 || len(lines[0]) != 5 || !json.Valid([]byte(lines[1])) || !json.Valid([]byte(lines[2])) || lines[3] != "" {
		t.Errorf("%q %v", lines, err)
	}
}

// A disk that is full is told of once, stops nothing, and leaves no line in halves.
func TestAuditFull(t *testing.T) {
	a, path, log := newAudit(t)
	a.Write(Entry{Request: "a"})
	whole := a.file
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	a.file, a.looked = full, time.Now().Add(time.Hour)
	for range 3 {
		a.Write(Entry{Request: "b"})
	}
	full.Close()
	if n := strings.Count(log.String(), "cannot be written"); n != 1 {
		t.Errorf("told %d times: %s", n, log)
	}
	a.file, a.torn = whole, true
	a.Write(Entry{Request: "c"})
	b, err := os.ReadFile(path)
	if err != nil || strings.Count(string(b), "\n") != 3 || !strings.Contains(log.String(), `"lost_lines":3`) {
		t.Errorf("%q %v, %s", b, err, log)
	}
}

// What could hold up requests is no audit log.
func TestAuditOfPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, t.TempDir(), "/dev/null", "/nonexistent/audit"} {
		if _, err := NewAudit(path, zerolog.Nop()); err == nil {
			t.Errorf("%s is taken", path)
		}
	}
}

// Routes are those of the API, wherever the server has them.
func TestAuditPrefix(t *testing.T) {
	a, path, _ := newAudit(t)
	a.Prefix = "/llm"
	gin.SetMode(gin.ReleaseMode)
	e := gin.New()
	e.Use(a.Requests())
	e.Group("/llm").GET("/v1/models/:id", func(*gin.Context) {})
	e.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/llm/v1/models/x", nil))
	if b, err := os.ReadFile(path); err != nil || !strings.Contains(string(b), `"route":"/v1/models/:id"`) {
		t.Errorf("%s %v", b, err)
	}
}
