package answer_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/server"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/host"
	"github.com/quern-llm/quern/go/server/internal/fake"
)

func slowly(_ *server.Config, m *ask.Model, f *fake.Engine) { f.Delay = 5 * time.Millisecond }

const endless = `,"ignore_eos":true`

// A client that goes away ends its request, whether it streams or not.
func TestClientGone(t *testing.T) {
	t.Parallel()
	s := fake.New(t, "Hello", slowly)
	for _, stream := range []string{"false", "true"} {
		ctx, stop := context.WithCancel(context.Background())
		id := make(chan string, 1)
		req, err := http.NewRequestWithContext(ctx, "POST", s.URL+"/v1/chat/completions",
			strings.NewReader("{"+fake.Hi+endless+`,"n":2,"stream":`+stream+"}"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				id <- resp.Header.Get("X-Completion-Id")
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		fake.Eventually(t, "running", func() bool { return s.Active() == 2 })
		running := ""
		if stream == "true" {
			running = <-id
		}
		stop()
		fake.Eventually(t, "ended, stream "+stream, func() bool { return s.Active() == 0 })
		if stream == "true" {
			s.Forgets(running)
		}
	}
}

// A client that does not read loses its request in time, and the engine never
// waits for it.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	s := fake.New(t, strings.Repeat("Hello world, ", 30), nil)
	var served atomic.Int64
	h := s.Server.Handler()
	paced := httptest.NewServer(host.New(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		served.Add(1)
	}), "", 200*time.Millisecond, nil))
	defer paced.Close()
	conn, err := net.Dial("tcp", paced.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
		t.Fatal(err)
	}
	body := `{"prompt":"x","stream":true,"n":20,"n_probs":100}`
	fmt.Fprintf(conn, "POST /completion HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	fake.Eventually(t, "generated", func() bool { return s.Submitted() == 20 && s.Active() == 0 })
	fake.Eventually(t, "given up", func() bool { return served.Load() == 1 })
}
