// Package host runs a handler on addresses and sockets, from the moment that the
// process begins to load until the last stream has ended: probes answer all the
// while, and a shutdown lets what runs finish.
package host

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Limits on what a client can hold on to. Answers have none: a stream may take
// hours, and each write has a deadline of its own.
const (
	headerTime  = 10 * time.Second  // to send the head of a request
	bodyTime    = 60 * time.Second  // and its body after that
	idleTime    = 120 * time.Second // between two requests
	headerBytes = 64 << 10
)

// A Host serves one handler, which may come later. Until then, and on the paths
// of probes, it answers by itself.
type Host struct {
	handler  atomic.Pointer[http.Handler]
	draining atomic.Bool
	prefix   string
	log      *log.Logger
	server   *http.Server
}

// New returns a Host that is starting. Probes are found under prefix as well.
// What net/http has to say of connections goes to errors.
func New(prefix string, errors *log.Logger) *Host {
	h := &Host{prefix: prefix, log: errors}
	h.server = &http.Server{
		Handler:           h,
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       idleTime,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          errors,
	}
	return h
}

// Ready sets the handler: requests are served from now on.
func (h *Host) Ready(handler http.Handler) { h.handler.Store(&handler) }

// ServeHTTP answers probes, and refuses what comes before there is a handler.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	handler := h.handler.Load()
	path := r.URL.Path
	if h.prefix != "" && len(path) > len(h.prefix) && path[:len(h.prefix)] == h.prefix {
		path = path[len(h.prefix):]
	}
	switch path {
	case "/livez":
		answer(w, true, "")
		return
	case "/startupz":
		answer(w, handler != nil, "loading")
		return
	case "/readyz":
		switch {
		case h.draining.Load():
			answer(w, false, "shutting down")
		default:
			answer(w, handler != nil, "loading")
		}
		return
	}
	if handler == nil {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		w.Header().Set("Retry-After", "5")
		w.WriteHeader(http.StatusServiceUnavailable)
		fmt.Fprintln(w, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`)
		return
	}
	if r.ContentLength != 0 {
		// Not of the connection: a stream that follows may take as long as it likes.
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	}
	(*handler).ServeHTTP(w, r)
}

// answer is what probes get: a word, and the status that is read.
func answer(w http.ResponseWriter, ok bool, why string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	if ok {
		fmt.Fprintln(w, "ok")
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintln(w, why)
}

// Serve serves all listeners, and returns the first error of one of them, or nil
// after Shutdown.
func (h *Host) Serve(listeners []net.Listener) error {
	failed := make(chan error, len(listeners))
	for _, l := range listeners {
		go func() { failed <- h.server.Serve(l) }()
	}
	for range listeners {
		if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
			h.server.Close()
			return err
		}
	}
	return nil
}

// Shutdown makes the host not ready, takes no more connections, and waits until
// the requests that run have ended. It is for the caller to have them end: when
// ctx does, connections are cut.
func (h *Host) Shutdown(ctx context.Context) {
	h.draining.Store(true)
	if err := h.server.Shutdown(ctx); err != nil {
		h.server.Close()
	}
}
