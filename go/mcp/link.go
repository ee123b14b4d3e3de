package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/quern-llm/quern/go/internal/panics"
)

// connectTimeout bounds how long a server may take to start and to list its tools.
const connectTimeout = 30 * time.Second

func connecting(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("no answer in %v", connectTimeout))
}

// A link is the connection with a server. One that ended, because the server crashed or
// was restarted, is made anew for the next call.
type link struct {
	server        Server
	name, version string

	lock    chan struct{}      // of one place, which who holds it fills; a call waits for it no longer than it lives
	session *sdk.ClientSession // nil: there is none
	said    *tail
	closed  bool
}

var errClosed = errors.New("the connections are closed")

// connected returns the session, and what the server writes to its standard error.
func (l *link) connected(ctx context.Context) (*sdk.ClientSession, *tail, error) {
	select {
	case l.lock <- struct{}{}:
		defer func() { <-l.lock }()
	case <-ctx.Done():
		return nil, nil, context.Cause(ctx)
	}
	ctx, cancel := connecting(ctx)
	defer cancel()
	switch {
	case l.closed:
		return nil, nil, errClosed
	case l.session != nil:
		return l.session, l.said, nil
	}
	transport, said := l.server.transport()
	client := sdk.NewClient(&sdk.Implementation{Name: "quern", Version: l.version}, nil)
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return nil, nil, because(ctx, err, said)
	}
	l.session, l.said = session, said
	go l.watch(session)
	return session, said, nil
}

// watch waits until a session ends, and forgets it. A panic ends it too.
func (l *link) watch(session *sdk.ClientSession) {
	_ = panics.Catch(session.Wait) // the next call says what is wrong
	l.drop(session)
}

// drop forgets a session that has ended.
func (l *link) drop(session *sdk.ClientSession) {
	l.lock <- struct{}{}
	current := l.session == session
	if current {
		l.session = nil
	}
	<-l.lock
	switch {
	case !current:
	case l.server.URL != "": // of a server that may not answer to that either
		go func() { _ = panics.Catch(session.Close) }()
	default:
		_ = panics.Catch(session.Close) // of what has ended; this waits for the process
	}
}

// call calls a tool. A call whose session ends is not made again: the server may have
// done what it was asked for.
func (l *link) call(ctx context.Context, p *sdk.CallToolParams) (*sdk.CallToolResult, error) {
	session, said, err := l.connected(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := answered(ctx)
	defer cancel(nil)
	r, err := session.CallTool(ctx, p)
	if why := context.Cause(ctx); err != nil && errors.Is(why, errLong) {
		l.drop(session)
		return nil, why
	}
	if err == nil || answers(err) || ctx.Err() != nil && l.server.URL == "" {
		return r, err
	}
	l.drop(session) // what is no answer ends it
	return nil, because(ctx, err, said)
}

// answers reports whether an error is a server's answer to a call, after which others may follow.
func answers(err error) bool {
	_, is := errors.AsType[*jsonrpc.Error](err)
	return is && !errors.Is(err, io.EOF) && !errors.Is(err, sdk.ErrConnectionClosed) && !errors.Is(err, sdk.ErrSessionMissing)
}

func (l *link) close() error {
	l.lock <- struct{}{}
	session := l.session
	l.session, l.closed = nil, true
	<-l.lock
	if session == nil {
		return nil
	}
	return session.Close()
}

// because returns why a server cannot be used: what it wrote last says more than that the
// connection ended.
func because(ctx context.Context, err error, said *tail) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if line := said.last(); line != "" {
		return fmt.Errorf("%w; it wrote: %s", err, line)
	}
	return err
}

// transport returns the connection to be made, and what the program writes to its
// standard error, for when that fails.
func (s Server) transport() (sdk.Transport, *tail) {
	if s.URL != "" {
		client := &http.Client{Transport: headers{s.Headers, bounded{http.DefaultTransport}}, CheckRedirect: sameServer}
		return &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, DisableStandaloneSSE: true, MaxEventSize: maxAnswer}, &tail{}
	}
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Dir = s.Dir
	cmd.Env = os.Environ()
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	said := &tail{}
	cmd.Stderr = said
	cmd.WaitDelay = time.Second // for what the program leaves running, which may hold its pipes
	// The SDK bounds the lines that the program writes. A program that is busy
	// does not see that its input ended: it is told by a signal after TerminateDuration, for which the server's end waits.
	return &sdk.CommandTransport{Command: cmd, TerminateDuration: time.Second}, said
}

// sameServer refuses redirects to other servers, which must not get the fields that headers adds.
func sameServer(r *http.Request, via []*http.Request) error {
	if to, from := r.URL, via[0].URL; to.Scheme != from.Scheme || to.Host != from.Host {
		return fmt.Errorf("redirected to another server, %s://%s; give its URL if it is meant", to.Scheme, to.Host)
	}
	if len(via) >= 10 {
		return errors.New("too many redirects")
	}
	return nil
}

// headers adds fields to requests.
type headers struct {
	fields map[string]string
	next   http.RoundTripper
}

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(h.fields) > 0 {
		r = r.Clone(r.Context())
		for name, value := range h.fields {
			r.Header.Set(name, value)
		}
	}
	return h.next.RoundTrip(r)
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const keep = 1 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(len(p)-keep, 0):]...)
	t.text = t.text[max(len(t.text)-keep, 0):]
	return len(p), nil
}

// last returns the last line that is not empty.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.ToValidUTF8(lines[len(lines)-1], "")
}
