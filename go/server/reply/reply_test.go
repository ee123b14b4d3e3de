package reply

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
)

func recorded() (*gin.Context, *httptest.ResponseRecorder) {
	gin.SetMode(gin.ReleaseMode)
	w := httptest.NewRecorder()
	c, _ := gin.CreateTestContext(w)
	c.Request = httptest.NewRequest("GET", "/", nil)
	return c, w
}

// Nothing is sent before the first flush, so that an error can have its status.
func TestStream(t *testing.T) {
	c, w := recorded()
	s := NewStream(c)
	err := errors.Join(s.Event(map[string]int{"a": 1}), s.Named("b", "x\xff"))
	if s.Ping(); err != nil || s.Begun() || !s.Unsent() || w.Body.Len() > 0 {
		t.Fatalf("%v: %q is sent before it is flushed", err, w.Body)
	}
	if err := errors.Join(s.Flush(), s.Fail(Invalid("n", "%d, want 1", 2), "[DONE]"), s.Flush()); err != nil || !s.Begun() || s.Unsent() {
		t.Fatal(err)
	}
	const want = "data: {\"a\":1}\n\nevent: b\ndata: \"x\ufffd\"\n\n: ping\n\n" +
		"data: {\"error\":{\"code\":400,\"message\":\"n: 2, want 1\",\"param\":\"n\",\"type\":\"invalid_request_error\"}}\n\ndata: [DONE]\n\n"
	h := w.Header()
	if got := w.Body.String(); got != want || w.Code != 200 || h.Get("Content-Type") != "text/event-stream" ||
		h.Get("Cache-Control") != "no-store" || h.Get("X-Accel-Buffering") != "no" || !w.Flushed {
		t.Errorf("%d %v %q, want %q", w.Code, h, got, want)
	}
	c, w = recorded()
	lines := NewLines(c)
	if err := lines.Flush(); err != nil || lines.Begun() || len(w.Header()) > 0 {
		t.Errorf("%v: nothing is a stream with the header %v", err, w.Header())
	}
	lines.Ping()
	if err := errors.Join(lines.Event("a"), lines.Event("b"), lines.Flush()); err != nil ||
		w.Body.String() != "\"a\"\n\"b\"\n" || w.Header().Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%v: lines %q, %v", err, w.Body, w.Header())
	}
	c, w = recorded()
	if s := Resume(c); errors.Join(s.Event("a"), s.Flush()) != nil || w.Header().Get("Content-Type") != "" {
		t.Errorf("a stream that goes on has the header %v", w.Header())
	}
}

// An error has what is written for machines beside its message, and what cannot be written leaves nothing of it.
func TestErrors(t *testing.T) {
	c, w := recorded()
	s := NewStream(c)
	none := func() {}
	if s.Event(none) == nil || s.Fail(&Error{Status: 400, Extra: map[string]any{"n_ctx": none}}, "[DONE]") == nil || s.Unsent() {
		t.Error("what cannot be encoded is buffered")
	}
	full := &Error{Status: 400, Message: "too long", Extra: map[string]any{"n_ctx": 512}}
	if err := errors.Join(s.Fail(full, ""), s.Flush()); err != nil ||
		w.Body.String() != "data: {\"error\":{\"code\":400,\"message\":\"too long\",\"n_ctx\":512,\"type\":\"invalid_request_error\"}}\n\n" {
		t.Errorf("%v: %q", err, w.Body)
	}
}

// So much is combined before it is sent, and no more.
func TestFull(t *testing.T) {
	c, _ := recorded()
	s := NewStream(c)
	const around = len("data: ") + len("\n\n")
	s.Raw(strings.Repeat("a", maxUnsent-around))
	if s.Full() {
		t.Errorf("full at %d bytes", maxUnsent)
	}
	s.Raw("")
	if !s.Full() {
		t.Error("not full")
	}
}

// A short answer has its length, a long one comes in pieces, and one that cannot be encoded is an error of the server.
func TestJSON(t *testing.T) {
	for _, tt := range []struct {
		v      any
		status int
		length string
		body   string
	}{
		{map[string]any{"b": 1, "a": "x\xff"}, 201, "18", `{"a":"x` + "\ufffd" + `","b":1}`},
		{strings.Repeat("a", maxUnsent+1), 201, "", `"` + strings.Repeat("a", maxUnsent+1) + `"`},
		{func() {}, 500, "71", `{"error":{"code":500,"message":"internal error","type":"server_error"}}`},
	} {
		c, w := recorded()
		JSON(c, tt.status, tt.v)
		h := w.Header()
		if w.Code != tt.status || h.Get("Content-Length") != tt.length || w.Body.String() != tt.body ||
			h.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%d %v %.100s, want %d %.100s", w.Code, h, w.Body, tt.status, tt.body)
		}
	}
}

// Whoever follows a log has its events from where they want, while it grows and after it has ended.
func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLog()
		l.Add("a", []byte("1"))
		read := make(chan string, 1)
		c, w := recorded()
		go func() {
			if err := l.Follow(context.Background(), NewStream(c), Place{}, 0); err != nil {
				t.Error(err)
			}
			read <- w.Body.String()
		}()
		time.Sleep(time.Hour) // with nothing said in between, since no period is given
		l.Add("b", []byte("22"))
		synctest.Wait()
		if got := w.Body.String(); got != "event: a\ndata: 1\n\nevent: b\ndata: 22\n\n" {
			t.Errorf("before the end %q are sent", got)
		}
		l.End()
		synctest.Wait()
		select {
		case got := <-read:
			if got != "event: a\ndata: 1\n\nevent: b\ndata: 22\n\n" {
				t.Errorf("all are %q", got)
			}
		default:
			t.Fatal("whoever follows does not know the end")
		}
		c, w = recorded()
		if err := l.Follow(context.Background(), NewStream(c), Place{Part: 1}, 0); err != nil || w.Body.String() != "event: b\ndata: 22\n\n" {
			t.Errorf("%v: the second is %q", err, w.Body)
		}
		if n := l.Size(); n != 2*64+len("event: a\ndata: 1\n\nevent: b\ndata: 22\n\n") {
			t.Errorf("%d bytes", n)
		}
		c, w = recorded()
		if err := l.Follow(context.Background(), NewStream(c), Place{Part: 3}, 0); err != nil || w.Body.Len() > 0 {
			t.Errorf("%v: from beyond the end %q", err, w.Body)
		}
		quiet := NewLog()
		time.AfterFunc(5*time.Second/2, quiet.End)
		c, w = recorded()
		if err := quiet.Follow(context.Background(), NewStream(c), Place{}, time.Second); err != nil || w.Body.String() != ": ping\n\n: ping\n\n" {
			t.Errorf("%v: a silent one has %q", err, w.Body)
		}
	})
}

// sends counts what is sent at once, and fails after some.
type sends struct {
	*httptest.ResponseRecorder
	n, most int
}

var errSends = errors.New("the connection is closed")

func (s *sends) Write(b []byte) (int, error) {
	if s.n++; s.n > s.most {
		return 0, errSends
	}
	return s.ResponseRecorder.Write(b)
}

// The events of a log are sent together, but not more at once than a client that reads slowly may let pile up; one that
// has gone is left.
func TestLogInPieces(t *testing.T) {
	follow := func(ctx context.Context, most int, l *Log) (sent int, _ error) {
		w := &sends{httptest.NewRecorder(), 0, most}
		c, _ := gin.CreateTestContext(w)
		err := l.Follow(ctx, NewStream(c), Place{}, 0)
		return w.n, err
	}
	l := NewLog()
	for range 4 {
		l.Add("x", make([]byte, maxUnsent*5/8))
	}
	l.Add("x", nil)
	l.Add("x", nil)
	l.End()
	for most, want := range []error{ErrGone, ErrGone, ErrGone, nil} {
		if n, err := follow(t.Context(), most, l); err != want || n != min(most+1, 3) {
			t.Errorf("where %d can be sent: %d, %v", most, n, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := follow(gone, 1, NewLog()); !errors.Is(err, ErrGone) {
		t.Errorf("for a client that has gone: %v", err)
	}
}

// Who follows a log that comes to nothing is told why.
func TestLogRefused(t *testing.T) {
	t.Parallel()
	l, why := NewLog(), errors.New("why")
	got := make(chan error, 1)
	c, w := recorded()
	go func() { got <- l.Follow(t.Context(), NewStream(c), Place{}, 0) }()
	l.Refuse(why)
	if err := <-got; err != why || w.Body.Len() != 0 || c.Writer.Written() {
		t.Errorf("%v, %q", err, w.Body)
	}
}

// A log of what is sent finds any byte of it, and one that is bounded keeps the last of it.
func TestLogBounded(t *testing.T) {
	l := NewBoundedLog(2*partBytes + 10)
	rest := func(from int) string {
		at, ok := l.At(from)
		if !ok {
			return "none"
		}
		c, w := recorded()
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // after what there is
		if err := l.Follow(ctx, NewStream(c), at, 0); err != nil && !errors.Is(err, ErrGone) {
			t.Error(err)
		}
		return w.Body.String()
	}
	check := func(sent int, want ...string) {
		t.Helper()
		for from, want := range want {
			if got := rest(from); got != want {
				t.Errorf("from %d of %d: %q, want %q", from, sent, got, want)
			}
		}
		if l.Sent() != sent || l.Size() > 2*partBytes+10 {
			t.Errorf("%d bytes are sent, in %d", l.Sent(), l.Size())
		}
	}
	check(0, "", "none")
	for _, part := range []string{"abc", "de"} {
		if n, err := l.Write([]byte(part)); n != len(part) || err != nil {
			t.Error(n, err)
		}
	}
	check(5, "abcde", "bcde", "cde", "de", "e", "", "none")
	l.Write([]byte("fgh"))
	check(8, "none", "none", "none", "defgh", "efgh", "fgh", "gh", "h", "", "none")
	l.Write(make([]byte, partBytes+200)) // is kept nowhere
	if got := rest(8); got != "none" {
		t.Errorf("what is too large is kept: %q", got)
	}
	// Whoever was behind it is told that the rest is lost.
	c, _ := recorded()
	if err := l.Follow(t.Context(), NewStream(c), Place{Part: 3}, 0); !errors.Is(err, ErrGone) {
		t.Errorf("one who is too slow: %v", err)
	}
}
