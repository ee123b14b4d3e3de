package server

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/host"
	"github.com/quern-llm/quern/go/server/openai"
)

func slowly(_ *Config, m *ask.Model, f *fakeEngine) { f.delay = 5 * time.Millisecond }

const endless = `,"ignore_eos":true`

// A client that goes away ends its request, whether it streams or not.
func TestClientGone(t *testing.T) {
	s := newSite(t, "Hello", slowly)
	for _, stream := range []string{"false", "true"} {
		ctx, stop := context.WithCancel(context.Background())
		req, err := http.NewRequestWithContext(ctx, "POST", s.url+"/v1/chat/completions", strings.NewReader("{"+hi+endless+`,"n":2,"stream":`+stream+"}"))
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if resp, err := http.DefaultClient.Do(req); err == nil {
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		}()
		eventually(t, "running", func() bool { return s.active() == 2 })
		stop()
		eventually(t, "ended, stream "+stream, func() bool { return s.active() == 0 })
		eventually(t, "forgotten", func() bool { return s.server.host.Running.Len() == 0 })
	}
}

func TestDelete(t *testing.T) {
	s := newSite(t, "Hello", slowly)
	resp, err := http.Post(s.url+"/v1/chat/completions", "application/json", strings.NewReader("{"+hi+endless+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewScanner(resp.Body)
	lines.Scan()
	id := parse[chunk](t, []byte(strings.TrimPrefix(lines.Text(), "data: "))).ID
	if resp.Header.Get("X-Completion-Id") != id {
		t.Errorf("the header says %q, the stream %q", resp.Header.Get("X-Completion-Id"), id)
	}
	if status, b, _ := s.do("DELETE", "/v1/chat/completions/"+id, ""); status != 200 || !parse[openai.Cancelled](t, b).Cancelled {
		t.Errorf("got %d %s", status, b)
	}
	var last [2]string
	for lines.Scan() {
		if lines.Text() != "" {
			last[0], last[1] = last[1], lines.Text()
		}
	}
	if !strings.Contains(last[0], "cancelled_error") || last[1] != "data: [DONE]" {
		t.Errorf("the last lines are %q", last)
	}
	eventually(t, "ended", func() bool { return s.active() == 0 })
	if status, _, _ := s.do("DELETE", "/v1/chat/completions/"+id, ""); status != 404 {
		t.Errorf("again: status %d", status)
	}
}

// A client that does not read loses its request in time, and the engine never
// waits for it.
func TestSlowReader(t *testing.T) {
	s := newSite(t, strings.Repeat("Hello world, ", 30), nil)
	paced := httptest.NewServer(host.New(s.server.Handler(), "", 200*time.Millisecond, nil))
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
	eventually(t, "generated", func() bool { s.mu.Lock(); defer s.mu.Unlock(); return len(s.requests) == 20 && s.running == 0 })
	eventually(t, "given up", func() bool { return s.server.host.Running.Len() == 0 })
}
