package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"oras.land/oras-go/v2/registry/remote/errcode"
)

const (
	maxMeta      = 32 << 20 // bytes of what a server says of a repository
	maxRedirects = 10
	maxWait      = 2 * time.Minute // that a server may ask for between two tries
	tries        = 6               // without a byte gained
)

// A doer sends requests.
type doer interface {
	Do(*http.Request) (*http.Response, error)
}

// newHTTP returns the client for all requests. Proxies come from the environment. It uses only HTTP/1.1,
// because requests over HTTP/2 would share one connection and its congestion window.
func newHTTP(agent string) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Client{
		Transport: &signed{agent, &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			Protocols:             protocols,
			TLSHandshakeTimeout:   30 * time.Second,
			ResponseHeaderTimeout: time.Minute,

			MaxResponseHeaderBytes: 256 << 10,
			MaxIdleConnsPerHost:    16,
			IdleConnTimeout:        time.Minute,
			DisableCompression:     true, // ranges are of the file, not of a compressed form
		}},
		CheckRedirect: redirect,
	}
}

// signed adds the User-Agent to requests.
type signed struct {
	agent string
	next  http.RoundTripper
}

func (s *signed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", s.agent)
	return s.next.RoundTrip(r)
}

// redirect follows redirects. The token is sent only to the host that it is for: not to another port or a
// subdomain.
func redirect(next *http.Request, before []*http.Request) error {
	first, last := before[0].URL, before[len(before)-1].URL
	switch {
	case len(before) >= maxRedirects:
		return fmt.Errorf("%d redirects", len(before))
	case last.Scheme == "https" && next.URL.Scheme != "https":
		return fmt.Errorf("a redirect from https to %s://%s is not followed", next.URL.Scheme, next.URL.Host)
	case next.URL.Scheme != first.Scheme || next.URL.Host != first.Host:
		next.Header.Del("Authorization")
		next.Header.Del("Cookie")
	}
	return nil
}

// A StatusError reports an HTTP status other than success.
type StatusError struct {
	Status  int
	Message string // of the server; may be empty
	After   time.Duration
}

func (e *StatusError) Error() string {
	text := fmt.Sprintf("the server answers %d %s", e.Status, http.StatusText(e.Status))
	if e.Message != "" {
		text += " (" + e.Message + ")"
	}
	return text
}

// temporary reports whether a retry may succeed.
func temporary(err error) bool {
	var status *StatusError
	if errors.As(err, &status) {
		return status.Status == http.StatusTooManyRequests || status.Status == http.StatusRequestTimeout || status.Status >= 500 && status.Status != http.StatusNotImplemented
	}
	var cut *cutError
	return errors.As(err, &cut)
}

// A cutError is a connection that failed.
type cutError struct{ err error }

func (e *cutError) Error() string { return e.err.Error() }
func (e *cutError) Unwrap() error { return e.err }

// connection marks a connection error as temporary, except for invalid certificates and addresses. If the
// context has ended, it returns the context's cause.
func connection(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var at *url.Error
	if errors.As(err, &at) {
		err = at.Err // the address may have a signature
	}
	var dns *net.DNSError
	var op *net.OpError
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return fmt.Errorf("there is no host %s, or no network", dns.Name)
	case errors.As(err, &op), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return &cutError{err}
	}
	var slow interface{ Timeout() bool }
	if errors.As(err, &slow) && slow.Timeout() {
		return &cutError{err}
	}
	if strings.Contains(err.Error(), "server closed idle connection") || strings.Contains(err.Error(), "malformed HTTP") {
		return &cutError{err}
	}
	return err
}

// send sends a request once. A status outside 200 to 299 is a StatusError.
func send(c doer, req *http.Request) (*http.Response, error) {
	res, err := c.Do(req)
	var token *errcode.ErrorResponse
	if errors.As(err, &token) {
		return nil, &StatusError{token.StatusCode, "when asked for a token", 0}
	}
	if err != nil {
		return nil, connection(req.Context(), err)
	}
	if res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	return nil, &StatusError{res.StatusCode, reason(res), retryAfter(res.Header)}
}

// reason returns a server's error message as one line.
func reason(res *http.Response) string {
	text := res.Header.Get("X-Error-Message")
	if text == "" && strings.Contains(res.Header.Get("Content-Type"), "json") {
		body, _ := io.ReadAll(io.LimitReader(res.Body, 4<<10))
		var said struct {
			Error  any `json:"error"`
			Errors []struct {
				Message string `json:"message"`
			} `json:"errors"`
		}
		if json.Unmarshal(body, &said) == nil {
			if text, _ = said.Error.(string); text == "" && len(said.Errors) > 0 {
				text = said.Errors[0].Message
			}
		}
	}
	return clip(text, 200)
}

// clip returns the beginning of a server's text, without control characters, since it is printed to
// terminals.
func clip(s string, n int) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	if r := []rune(s); len(r) > n {
		s = string(r[:n]) + "..."
	}
	return strings.TrimSpace(s)
}

// retryAfter parses Retry-After: seconds or a date.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if n, err := strconv.ParseUint(v, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	if at, err := http.ParseTime(v); err == nil {
		return max(time.Until(at), 0)
	}
	return 0
}

// A backoff computes the waits between tries.
type backoff struct {
	least  time.Duration
	failed int // tries since something was gained
}

// wait waits before the next try, or returns the reason why there is none. The waits double, with a random
// part so that several connections do not retry at once.
func (b *backoff) wait(ctx context.Context, err error) error {
	if b.failed++; !temporary(err) || b.failed >= tries {
		return err
	}
	d := b.least << (b.failed - 1)
	d += rand.N(d/2 + 1)
	var status *StatusError
	if errors.As(err, &status) && status.After > 0 {
		if status.After > maxWait {
			return fmt.Errorf("%w: it asks for a wait of %s", err, status.After.Round(time.Second))
		}
		d = status.After
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// get sends a request for a small response until it succeeds, and returns the body.
func (h *Hub) get(ctx context.Context, c doer, address string, header http.Header, most int64) ([]byte, error) {
	for b := (backoff{least: h.c.Backoff}); ; {
		body, err := once(ctx, c, address, header, most)
		if err == nil {
			return body, nil
		}
		if err := b.wait(ctx, err); err != nil {
			return nil, err
		}
	}
}

func once(ctx context.Context, c doer, address string, header http.Header, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	for key, values := range header {
		req.Header[key] = values
	}
	res, err := send(c, req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	switch {
	case err != nil:
		return nil, connection(ctx, err)
	case int64(len(body)) > most:
		return nil, fmt.Errorf("the answer is longer than %d bytes", most)
	}
	return body, nil
}
