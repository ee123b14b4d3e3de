package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// Tests of times run in a bubble of testing/synctest: its clock moves only when
// all wait, so what a fake server takes is what is measured, to the nanosecond.
// Its connections are pipes, since those of the system would keep the clock still.

// A pipes is a network with one server.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { close(p.closed); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// drives runs the flags against a handler, within a bubble.
func drives(t *testing.T, ctx context.Context, handler http.HandlerFunc, args ...string) *drive {
	t.Helper()
	c, err := parseFlags(append([]string{"--model", "m"}, args...), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	client, err := newClient(c)
	if err != nil {
		t.Fatal(err)
	}
	p := &pipes{make(chan net.Conn), make(chan struct{})}
	client.http.Transport.(*http.Transport).DialContext = p.dial
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/health" {
			return
		}
		b, _ := io.ReadAll(r.Body) // a handler sees its client go only when it has read all
		r.Body = io.NopCloser(bytes.NewReader(b))
		handler(w, r)
	})}
	go srv.Serve(p)
	defer srv.Close()
	w, err := readWords("")
	if err != nil {
		t.Fatal(err)
	}
	d := &drive{c: c, client: client, words: w, lines: &lines{w: noClose{io.Discard}}, stderr: io.Discard}
	if err := d.run(ctx); err != nil {
		t.Fatal(err)
	}
	synctest.Wait() // until the handlers have seen all that was done
	return d
}

// A request is what the fake servers read of a body.
type request struct {
	Model         string
	Messages      []message
	Prompt        string
	Seed          int
	MaxTokens     int `json:"max_tokens"`
	Temperature   *float64
	Stream        bool
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Extra string
}

// reads refuses what is no request, as a server should.
func reads(w http.ResponseWriter, r *http.Request) (request, bool) {
	var req request
	b, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(b, &req)
	}
	if err != nil {
		http.Error(w, `{"error": {"message": "malformed"}}`, http.StatusBadRequest)
		return request{}, false
	}
	return req, true
}

func sends(w http.ResponseWriter, format string, args ...any) {
	fmt.Fprintf(w, format+"\n\n", args...)
	w.(http.Flusher).Flush()
}

// piece sends text of a chat.
func piece(w http.ResponseWriter, text string) {
	sends(w, `data: {"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]}`, text)
}

func begins(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	sends(w, ": a ping")
	sends(w, `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":null},"finish_reason":null}]}`)
}

func ends(w http.ResponseWriter, finish string, prompt, output, cached int) {
	sends(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":%q}]}`, finish)
	sends(w, `data: {"choices":[],"usage":{"prompt_tokens":%d,"completion_tokens":%d,"prompt_tokens_details":{"cached_tokens":%d}}}`, prompt, output, cached)
	sends(w, "data: [DONE]")
}

// says answers with pieces, each after its time.
func says(w http.ResponseWriter, gaps ...time.Duration) {
	begins(w)
	for i, gap := range gaps {
		time.Sleep(gap)
		piece(w, fmt.Sprintf(" word%d", i))
	}
	ends(w, "stop", 20, len(gaps), 8)
}
