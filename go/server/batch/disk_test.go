package batch

import (
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fileLimit bounds the files of this process, which fails as a full disk does.
func fileLimit(t *testing.T, bytes uint64) {
	t.Helper()
	var was unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &was); err != nil {
		t.Fatal(err)
	}
	set := func(l unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: bytes, Max: was.Max})
	t.Cleanup(func() { set(was) })
}

// A disk without room is told in one line; nothing stays of what did not fit.
func TestDiskFull(t *testing.T) {
	const limit = 1 << 20 // much more than the go command has a test write
	lines, _ := answers(10)
	s, b := open(t, 10*limit, lines...)
	before, err := os.ReadDir(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	used := s.used
	unchanged := func(what string) {
		t.Helper()
		if after, err := os.ReadDir(s.dir); err != nil || len(after) != len(before) || s.used != used {
			t.Errorf("%s: %v, %v, %d bytes used, want %v and %d", what, after, err, s.used, before, used)
		}
	}
	fileLimit(t, limit)
	for what, f := range map[string]struct{ name, content string }{
		"an upload": {"x", strings.Repeat("x", limit+1)}, "what describes a file": {strings.Repeat("x", limit), "x"},
	} {
		if _, err := s.AddFile("me", f.name, "batch", strings.NewReader(f.content)); !errors.Is(err, ErrDisk) {
			t.Errorf("%s: %v", what, err)
		}
		unchanged(what)
	}
	// Nor is a batch begun whose description does not fit.
	if _, err := s.AddBatch("me", b.Input, endpoint, "24h", time.Hour, map[string]string{"x": strings.Repeat("x", limit)}); !errors.Is(err, ErrDisk) ||
		len(s.Batches("me")) != 1 {
		t.Errorf("%v, %d batches", err, len(s.Batches("me")))
	}
	unchanged("a batch")
	// The batch ends with what was answered.
	logged := run(t, s, func([]byte) Answer {
		return Answer{Status: http.StatusOK, Body: []byte(`"` + strings.Repeat("x", limit*3/10) + `"`)}
	})
	b, err = s.Batch("me", b.ID)
	if err != nil || b.Status != "failed" || b.Errors == nil || !strings.Contains(b.Errors.Data[0].Message, "has no room") || strings.Contains(b.Errors.Data[0].Message, s.dir) || len(logged) != 1 || !errors.Is(logged[0], ErrDisk) {
		t.Fatalf("%+v, %v, %v", b, err, logged)
	}
	if n := len(content(t, s, b.Output)); n != 3 || n != b.Counts.Completed {
		t.Errorf("%d answers of %+v, want 3", n, b.Counts)
	}
	consistent(t, s)
}

// What a process that was killed left half-written goes, and what is whole stays.
func TestTidy(t *testing.T) {
	s, b := open(t, quota, line("a", `{}`))
	half := []string{".file-a.data.1.tmp", ".batch_a.json.2.tmp", "file-b.data"}
	for _, name := range append(half, "notes.data", ".else.tmp") {
		if err := os.WriteFile(s.path(name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s = reopen(t, s)
	for _, name := range half {
		if _, err := os.Stat(s.path(name)); err == nil {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range []string{"notes.data", ".else.tmp", b.Input + ".data"} {
		if _, err := os.Stat(s.path(name)); err != nil {
			t.Error(err)
		}
	}
}

// What was not answered within the window is told apart from what was, where the time passes
// while the batch runs and where it passes while the server is off.
func TestExpiry(t *testing.T) {
	lines := []string{line("a", `{}`), line("b", `{"slow":1}`), line("c", `{}`)}
	check := func(s *Store, id string, counts Counts) {
		t.Helper()
		b, err := s.Batch("me", id)
		if err != nil || b.Status != "expired" || b.Expired == 0 || b.Counts != counts || (b.Output != "") != (counts.Completed > 0) {
			t.Fatalf("%+v, %v, want %+v", b, err, counts)
		}
		wrong := content(t, s, b.ErrorFile)
		if len(wrong) != counts.Failed || !strings.Contains(wrong[0], `"batch_expired"`) || !strings.Contains(wrong[len(wrong)-1], `"custom_id":"c"`) {
			t.Errorf("%q", wrong)
		}
		consistent(t, s)
	}
	expire := func(s *Store, id string, at time.Time) {
		if _, err := s.change(id, func(b *Batch) { b.Expires = at.Unix() }); err != nil {
			t.Fatal(err)
		}
	}
	s, b := open(t, quota, lines...)
	expire(s, b.ID, time.Now().Add(time.Second))
	ctx, cancel := context.WithCancel(t.Context())
	r := Runner{Store: s, Width: 1, Log: func(_ string, err error) { t.Error(err) }, Do: func(ctx context.Context, _, _ string, body []byte) Answer {
		if strings.Contains(string(body), "slow") {
			<-ctx.Done()
		}
		return Answer{Status: http.StatusOK, Body: []byte(`{}`)}
	}}
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	for nextOf(s) != "" {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-done
	check(s, b.ID, Counts{3, 1, 2})

	s, b = open(t, quota, lines...)
	expire(s, b.ID, time.Now().Add(-time.Hour))
	s = reopen(t, s)
	run(t, s, func([]byte) Answer { t.Error("a request was made"); return Answer{} })
	check(s, b.ID, Counts{3, 0, 3})
}
