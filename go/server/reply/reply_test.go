package reply

import (
	"context"
	"errors"
	"net/http/httptest"
	"testing"

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
	if err := errors.Join(s.Event(map[string]int{"a": 1}), s.Named("b", "x\xff"), s.Ping()); err != nil || s.Begun() || !s.Unsent() || w.Body.Len() > 0 {
		t.Fatalf("%v: %q is sent before it is flushed", err, w.Body)
	}
	if err := errors.Join(s.Flush(), s.Fail(Invalid("n", "%d, want 1", 2), "[DONE]"), s.Flush()); err != nil || !s.Begun() || s.Unsent() {
		t.Fatal(err)
	}
	const want = "data: {\"a\":1}\n\nevent: b\ndata: \"x\ufffd\"\n\n: ping\n\n" +
		"data: {\"error\":{\"code\":400,\"message\":\"n: 2, want 1\",\"param\":\"n\",\"type\":\"invalid_request_error\"}}\n\ndata: [DONE]\n\n"
	if got := w.Body.String(); got != want || w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Errorf("%d %v %q, want %q", w.Code, w.Header(), got, want)
	}
	c, w = recorded()
	lines := NewLines(c)
	if err := errors.Join(lines.Event("a"), lines.Ping(), lines.Event("b"), lines.Flush()); err != nil || w.Body.String() != "\"a\"\n\"b\"\n" {
		t.Errorf("%v: lines %q", err, w.Body)
	}
}

// Whoever follows a log has its events from where they want, while it grows and after it has ended.
func TestLog(t *testing.T) {
	l := NewLog()
	l.Add("a", []byte("1"))
	read := make(chan string)
	go func() {
		c, w := recorded()
		if err := l.Follow(context.Background(), NewStream(c), 0, 0); err != nil {
			t.Error(err)
		}
		read <- w.Body.String()
	}()
	l.Add("b", []byte("22"))
	l.End()
	if got := <-read; got != "event: a\ndata: 1\n\nevent: b\ndata: 22\n\n" {
		t.Errorf("all are %q", got)
	}
	c, w := recorded()
	if err := l.Follow(context.Background(), NewStream(c), 1, 0); err != nil || w.Body.String() != "event: b\ndata: 22\n\n" {
		t.Errorf("%v: the second is %q", err, w.Body)
	}
	if n := l.Size(); n != 2*eventBytes+3 {
		t.Errorf("%d bytes", n)
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := NewLog().Follow(gone, NewStream(c), 0, 0); !errors.Is(err, ErrGone) {
		t.Errorf("for a client that has gone: %v", err)
	}
}
