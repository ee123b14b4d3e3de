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

	mu sync.Mutex
	at []net.Listener // that are served
}

// New returns a Host that is not ready yet. Probes are answered under prefix as well. A
// client has limit to read each part of a response. net/http's errors about connections
// go to errors.
func New(handler http.Handler, prefix string, limit time.Duration, errors *log.Logger) *Host {
	h := &Host{handler: handler, prefix: prefix, limit: limit}
	h.server = &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          errors,
		BaseContext:       baseContext,
	}
	return h
}

// Ready starts serving requests.
func (h *Host) Ready() { h.loaded.Store(true) }

// Probes are the paths that a Host answers itself, with its prefix and without.
var Probes = []string{"/livez", "/startupz", "/readyz", "/v2/health/live", "/v2/health/ready"}

// ServeHTTP answers probes, and passes other requests to the handler.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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

// Serve serves all listeners until Leave or Shutdown, when it returns nil, or until one of them
// fails, when it returns that error.
func (h *Host) Serve(listeners []net.Listener) error {
	h.mu.Lock()
	h.at = listeners
	h.mu.Unlock()
	if h.left.Load() {
		h.Leave() // it came before
	}
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- h.server.Serve(l) }()
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
	h.left.Store(true)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.at {
		l.Close()
	}
}

// Shutdown makes the host not ready, accepts no more connections, and waits until the running requests have ended;
// ending them is the caller's task. When ctx ends, remaining connections are closed.
func (h *Host) Shutdown(ctx context.Context) {
	h.Drain()
	if err := h.server.Shutdown(ctx); err != nil {
		h.server.Close()
	}
}

// Close closes all connections at once.
func (h *Host) Close() { h.server.Close() }
