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
	"strings"
	"sync/atomic"
	"time"
)

// Limits on what a client can hold on to. Answers as a whole have none: a stream
// may take hours. Their parts have the limit that New is given.
const (
	headerTime  = 10 * time.Second  // to send the head of a request
	bodyTime    = 60 * time.Second  // and its body after that
	idleTime    = 120 * time.Second // between two requests
	headerBytes = 64 << 10
)

// A Host serves a handler, and answers probes by itself.
type Host struct {
	handler  http.Handler
	limit    time.Duration
	loaded   atomic.Bool
	draining atomic.Bool
	prefix   string
	server   *http.Server
}

// New returns a Host that is starting. Probes are found under prefix as well. A
// client has limit to take each part of an answer. What net/http has to say of
// connections goes to errors.
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

// Ready says that requests are served from now on.
func (h *Host) Ready() { h.loaded.Store(true) }

// ServeHTTP answers probes, and hands the rest on.
func (h *Host) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w = pace(w, h.limit)
	switch strings.TrimPrefix(r.URL.Path, h.prefix) {
	case "/livez":
		answer(w, true, "")
		return
	case "/startupz":
		answer(w, h.loaded.Load(), "loading")
		return
	case "/readyz":
		if h.draining.Load() {
			answer(w, false, "shutting down")
		} else {
			answer(w, h.loaded.Load(), "loading")
		}
		return
	}
	if r.ContentLength != 0 {
		// Not of the connection: a stream that follows may take as long as it likes.
		http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTime))
	}
	h.handler.ServeHTTP(w, r)
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

// Close cuts all connections.
func (h *Host) Close() { h.server.Close() }
