package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/internal/panics"
)

const quota = 1 << 20

// open opens a store with an input of lines, and begins a batch of it.
func open(t *testing.T, quota int64, lines ...string) (*Store, Batch) {
	t.Helper()
	s, err := Open(t.TempDir(), quota, false)
	if err != nil {
		t.Fatal(err)
	}
	return s, begin(t, s, lines...)
}

// nextOf returns the batch that would run now.
func nextOf(s *Store) string {
	o, _ := s.next(nil)
	return o.Value.ID
}

func begin(t *testing.T, s *Store, lines ...string) Batch { return beginOf(t, s, "me", lines...) }

func beginOf(t *testing.T, s *Store, owner string, lines ...string) Batch {
	t.Helper()
	f, err := s.AddFile(owner, "in.jsonl", "batch", strings.NewReader(strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.AddBatch(owner, f.ID, endpoint, "24h", 24*time.Hour, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// run runs all batches of a store, a request at a time.
func run(t *testing.T, s *Store, do func(body []byte) Answer) (logged []error) {
	t.Helper()
	return runWide(t, s, 1, do)
}

// runWide runs all batches of a store, which leaves no file of it open.
func runWide(t *testing.T, s *Store, width int, do func(body []byte) Answer) (logged []error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := Runner{
		Store: s, Width: width,
		Do:  func(_ context.Context, _, _ string, body []byte) Answer { return do(body) },
		Log: func(_ string, err error) { logged = append(logged, err) },
	}
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	for nextOf(s) != "" && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if ctx.Err() != nil {
		t.Fatal("a batch has not ended after a minute")
	}
	cancel()
	<-done
	if list := opened(s.dir); len(list) != 1 || list[0] != s.dir {
		t.Errorf("%v are open, want the folder alone", list)
	}
	return logged
}

// opened returns what this process has open of a folder, and the folder itself.
func opened(dir string) (list []string) {
	for fd := range 256 {
		if path, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", fd)); err == nil && strings.HasPrefix(path, dir) {
			list = append(list, path)
		}
	}
	return list
}

// content returns the lines of a file.
func content(t *testing.T, s *Store, id string) []string {
	t.Helper()
	f, err := s.Content("me", id)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if about, e := s.File("me", id); err != nil || e != nil || about.Bytes != info.Size() || about.Purpose != "batch_output" || info.Mode() != 0o600 {
		t.Errorf("%+v, %v, %v", about, err, e)
	}
	raw, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for l := range bytes.Lines(raw) {
		list = append(list, string(l))
	}
	return list
}

func TestPanic(t *testing.T) {
	s, b := open(t, quota, line("a", `{}`), line("b", `{"panic":1}`), line("c", `{}`))
	logged := run(t, s, func(body []byte) Answer {
		if info, err := os.Stat(s.journal(b.ID)); err != nil || info.Mode() != 0o600 {
			t.Errorf("others can read the answers: %v, %v", info, err)
		}
		if strings.Contains(string(body), "panic") {
			panic("at the disco")
		}
		return Answer{Status: http.StatusOK, Body: []byte(`{}`)}
	})
	b, err := s.Batch("me", b.ID)
	if err != nil || b.Status != "completed" || b.Counts != (Counts{3, 2, 1}) {
		t.Fatalf("%+v, %v", b, err)
	}
	var got struct {
		ID       string `json:"custom_id"`
		Response struct {
			Status int `json:"status_code"`
			Body   struct{ Error struct{ Type string } }
		}
	}
	if err := json.Unmarshal([]byte(content(t, s, b.ErrorFile)[0]), &got); err != nil || got.ID != "b" || got.Response.Status != 500 || got.Response.Body.Error.Type != "server_error" {
		t.Errorf("%+v, %v", got, err)
	}
	var p *PanicError
	if len(logged) != 1 || !errors.As(logged[0], &p) || p.Value != "at the disco" || !strings.Contains(string(p.Stack), "TestPanic") {
		t.Errorf("the log has %v", logged)
	}
}

// A brokenDeadline is a context that panics where the runner asks for its deadline.
type brokenDeadline struct{ context.Context }

func (brokenDeadline) Deadline() (time.Time, bool) { panic("no deadline") }

// A panic outside of Do ends its batch as failed, wherever it is, and other batches run: the process would be ended by
// it, and again after each start.
func TestPanicOfTheRunner(t *testing.T) {
	answers := func(context.Context, string, string, []byte) Answer {
		return Answer{Status: http.StatusOK, Body: []byte(`{}`)}
	}
	for name, c := range map[string]struct {
		want   string // of the panic
		broken func(*Store, Batch, *Runner, *context.Context)
	}{
		"in its goroutine": {"no deadline", func(_ *Store, _ Batch, _ *Runner, ctx *context.Context) { *ctx = brokenDeadline{*ctx} }},
		"in a worker": {"a log", func(_ *Store, _ Batch, r *Runner, _ *context.Context) {
			r.Do = func(context.Context, string, string, []byte) Answer { panic("a request") }
			log := r.Log
			r.Log = func(id string, err error) {
				if p := (*PanicError)(nil); errors.As(err, &p) {
					panic("a log")
				}
				log(id, err)
			}
		}},
		"in what reads the journal": {"nil map", func(s *Store, b Batch, _ *Runner, _ *context.Context) {
			if err := os.WriteFile(s.journal(b.ID), []byte(`{"n":0,"failed":false,"line":{}}`+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			s.files = nil // neither its input is found, nor can its output be kept
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, b := open(t, quota, line("a", `{}`), line("b", `{}`))
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var logged []error
			r := &Runner{Store: s, Width: 1, Do: answers, Log: func(_ string, err error) { logged = append(logged, err) }}
			run := ctx
			c.broken(s, b, r, &run)
			done := make(chan struct{})
			go func() {
				defer close(done)
				r.Run(run)
			}()
			for nextOf(s) != "" && ctx.Err() == nil {
				time.Sleep(time.Millisecond)
			}
			cancel()
			<-done
			b, err := s.Batch("me", b.ID)
			if err != nil || b.Status != "failed" || b.Errors == nil || len(b.Errors.Data) != 1 {
				t.Fatalf("%+v, %v", b, err)
			}
			told, p := b.Errors.Data[0].Message, (*panics.Panic)(nil)
			if !errors.As(errors.Join(logged...), &p) || !strings.Contains(p.Error(), c.want) || len(p.Stack) == 0 {
				t.Errorf("the log has %v", logged)
			}
			if c.want != "nil map" && told != "the batch cannot be run: internal error, the log has more" {
				t.Errorf("the batch says %q", told)
			}
		})
	}
}
