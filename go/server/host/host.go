// Package host serves a handler on addresses and sockets, from the start of loading until the last stream has ended:
// probes are answered throughout, and a shutdown drains the running requests.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Time and size limits against slow clients. A whole response has no time limit, since
// a stream may take hours; each part of one has the limit given to New.
const (
	headerTime  = 10 * time.Second  // to send the head of a request
	bodyTime    = 60 * time.Second  // and its body after that
	idleTime    = 120 * time.Second // between two requests
	headerBytes = 64 << 10
)

// A Host serves a handler, and answers health probes itself.
type Host struct {
	// Alive returns an error if the process should be restarted; nil: it never should. It is set before Serve.
	Alive func() error

	handler  http.Handler
	limit    time.Duration
	loaded   atomic.Bool
	draining atomic.Bool
	left     atomic.Bool // Leave was called
	prefix   string
	server   *http.Server

	serving sync.WaitGroup // accept loops
	mu      sync.Mutex
	at      []net.Listener         // that are served
	fresh   map[net.Conn]time.Time // since when connections are there that have brought no request yet
}

// New returns a Host that is not ready yet. Probes are answered under prefix as well. A
// client has limit to read each part of a response. net/http's errors about connections
// go to errors.
func New(handler http.Handler, prefix string, limit time.Duration, errors *log.Logger) *Host {
	h := &Host{handler: handler, prefix: prefix, limit: limit, fresh: map[net.Conn]time.Time{}}
	h.server = &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          errors,
		BaseContext:       baseContext,
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, c)
		},
		ConnState: func(c net.Conn, state http.ConnState) {
			if state != http.StateActive { // which is before a request is in ServeHTTP
				h.track(c, state)
			}
		},
	}
	return h
}

// Ready starts serving requests.
func (h *Host) Ready() { h.loaded.Store(true) }

// Probes are the paths that a Host answers itself, with its prefix and without.
var Probes = []string{"/livez", "/startupz", "/readyz", "/v2/health/live", "/v2/health/ready"}

// ServeHTTP answers probes, and passes other requests to the handler.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(net.Conn); ok {
		h.track(c, http.StateActive)
	}
	w = pace(w, h.limit)
	if h.draining.Load() {
		w.Header().Set("Connection", "close") // the client's next request goes to another server
	}
	switch strings.TrimPrefix(r.URL.Path, h.prefix) {
	case "/livez":
		answer(w, h.alive())
		return
	case "/startupz":
		answer(w, h.started())
		return
	case "/readyz":
		answer(w, h.ready())
		return
	case "/v2/health/live":
		answerV2(w, "live", h.alive())
		return
	case "/v2/health/ready":
		answerV2(w, "ready", h.ready())
		return
	}
	if r.ContentLength != 0 {
		// This deadline is the request's, not the connection's: the stream that follows
		// has none.
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	}
	h.handler.ServeHTTP(w, r)
}

// alive, started and ready return why a probe fails; empty: it does not.

func (h *Host) alive() string {
	if h.Alive != nil {
		if err := h.Alive(); err != nil {
			return err.Error()
		}
	}
	return ""
}

func (h *Host) started() string {
	if !h.loaded.Load() {
		return "loading"
	}
	return ""
}

func (h *Host) ready() string {
	if h.draining.Load() {
		return "shutting down"
	}
	return h.started()
}

// answer writes the response to a probe, which fails where why is not empty.
func answer(w http.ResponseWriter, why string) {
	begin(w, "text/plain; charset=utf-8", why == "")
	fmt.Fprintln(w, cmp.Or(why, "ok"))
}

// answerV2 is answer as the Open Inference Protocol has it: an object that says whether the server is what was asked.
func answerV2(w http.ResponseWriter, what, why string) {
	begin(w, "application/json", why == "")
	fmt.Fprintf(w, "{%q:%t}\n", what, why == "")
}

// begin writes the head of the response to a probe.
func begin(w http.ResponseWriter, contentType string, ok bool) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "no-store")
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// connKey is the context key of a request's connection.
type connKey struct{}

// track keeps which connections have brought no request yet.
func (h *Host) track(c net.Conn, state http.ConnState) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if state == http.StateNew {
		h.fresh[c] = time.Now()
	} else {
		delete(h.fresh, c)
	}
}

// Serve serves all listeners until Leave or Shutdown, when it returns nil, or until one of them
// fails, when it returns that error.
func (h *Host) Serve(listeners []net.Listener) error {
	h.mu.Lock()
	h.at = listeners
	if h.left.Load() {
		h.mu.Unlock()
		h.Leave()
		return nil
	}
	h.serving.Add(len(listeners))
	h.mu.Unlock()
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() {
			defer h.serving.Done()
			failed <- h.server.Serve(l)
		}()
	}
	for range listeners {
		err := <-failed
		if !errors.Is(err, http.ErrServerClosed) && !(h.left.Load() && errors.Is(err, net.ErrClosed)) {
			h.server.Close()
			return err
		}
	}
	return nil
}

// Drain makes the host not ready, while it serves requests as before. Each answer closes its connection: clients that
// keep connections leave by and by.
func (h *Host) Drain() { h.draining.Store(true) }

// Leave accepts no more connections. Those that there are, are served as before.
func (h *Host) Leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.left.Store(true)
	for _, l := range h.at {
		l.Close()
	}
}

// Shutdown makes the host not ready, accepts no more connections, and waits until the running requests have ended;
// ending them is the caller's task. A connection that was accepted has firstTime to bring its request. When ctx ends,
// remaining connections are closed.
func (h *Host) Shutdown(ctx context.Context) {
	h.Drain()
	h.Leave()
	h.settle(ctx)
	if err := h.server.Shutdown(ctx); err != nil {
		h.server.Close()
	}
}

// firstTime is how long a connection may take to bring its first request while the host shuts down.
const firstTime = 5 * time.Second

// settle waits until all that is accepted has brought its request: from the beginning of its own shutdown on, net/http
// drops requests that it has read and not begun to answer.
func (h *Host) settle(ctx context.Context) {
	over := make(chan struct{})
	go func() { // accepting ends at once, unless somebody else has made the socket blocking
		h.serving.Wait()
		close(over)
	}()
	select {
	case <-over:
	case <-ctx.Done():
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for h.awaits() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// awaits reports whether a connection may bring its first request yet.
func (h *Host) awaits() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, since := range h.fresh {
		if time.Since(since) < firstTime {
			return true
		}
	}
	return false
}

// Close closes all connections at once.
func (h *Host) Close() { h.server.Close() }
