package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"time"
)

// A client sends requests to the server.
type client struct {
	http    *http.Client
	base    string // before the paths
	path    string // of the API
	timeout time.Duration
}

func newClient(c *config) (*client, error) {
	base, socket, err := c.endpoint()
	if err != nil {
		return nil, err
	}
	dial := (&net.Dialer{Timeout: 30 * time.Second}).DialContext
	if socket != "" {
		tcp := dial
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return tcp(ctx, "unix", socket) }
	}
	path := "/v1/chat/completions"
	if c.api == "completions" {
		path = "/v1/completions"
	}
	return &client{
		// One connection per request: requests represent independent clients, and none
		// reuses a connection that the server is about to close.
		http:    &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true}},
		base:    base,
		path:    path,
		timeout: c.timeout,
	}, nil
}

// A failure is why a request has no answer: a kind, for counting, and a sample.
type failure struct{ kind, detail string }

func (f *failure) Error() string { return f.kind + ": " + f.detail }

// Our own causes of a context's cancellation.
var (
	errTimeout   = errors.New("no end within --timeout")
	errCancelled = errors.New("cancelled by the client")
)

// An answer is the outcome of a request.
type answer struct {
	stream
	sent, end time.Time
	status    int // 0 without one
	cancelled bool
	aborted   bool     // because the run ended
	failure   *failure // nil if it succeeded, was cancelled or aborted
}

// ask sends a body and reads the answer. It disconnects after cancelAfter, if that is
// not 0.
func (c *client) ask(ctx context.Context, body []byte, key string, cancelAfter time.Duration) (a answer) {
	ctx, stop := context.WithTimeoutCause(ctx, c.timeout, errTimeout)
	defer stop()
	if cancelAfter > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, cancelAfter, errCancelled)
		defer stop()
	}
	a.sent = time.Now()
	err := c.exchange(ctx, &a, body, key)
	a.end = a.done
	if a.end.IsZero() {
		a.end = time.Now()
	}
	if err == nil {
		return a
	}
	switch cause := context.Cause(ctx); cause {
	case nil:
		if !errors.As(err, &a.failure) {
			a.failure = &failure{"no answer", err.Error()}
		}
	case errCancelled:
		a.cancelled = true
	case errTimeout:
		a.failure = &failure{"timeout", cause.Error()}
	default:
		a.aborted = true
	}
	return a
}

func (c *client) exchange(ctx context.Context, a *answer, body []byte, key string) error {
	req, err := c.request(ctx, http.MethodPost, c.path, key, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	a.status = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		b, err := io.ReadAll(io.LimitReader(resp.Body, maxPlain))
		if err != nil {
			return err
		}
		return &failure{fmt.Sprintf("status %d", resp.StatusCode), serverMessage(b)}
	}
	if got := resp.Header.Get("Content-Type"); mediaType(got) != "text/event-stream" {
		return &failure{"not a stream", fmt.Sprintf("the content type is %q, want text/event-stream", got)}
	}
	return a.read(resp.Body)
}

func (c *client) request(ctx context.Context, method, path, key string, body io.Reader) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err == nil && key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	return req, err
}

func mediaType(header string) string {
	t, _, err := mime.ParseMediaType(header)
	if err != nil {
		return ""
	}
	return t
}

// get returns the status and the body of a path.
func (c *client) get(ctx context.Context, path, key string) (int, []byte, error) {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	req, err := c.request(ctx, http.MethodGet, path, key, nil)
	if err != nil {
		return 0, nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxPlain))
	return resp.StatusCode, b, err
}

// ready waits until the server accepts requests, by /health, or by /v1/models if that
// is not served. It waits for a server that does not answer at all only if it was just
// started.
func (c *client) ready(ctx context.Context, key string, wait time.Duration, started bool) error {
	ctx, stop := context.WithTimeoutCause(ctx, wait, fmt.Errorf("not ready after %v (--wait)", wait))
	defer stop()
	for {
		var status int
		var err error
		for _, path := range []string{"/health", "/v1/models"} {
			status, _, err = c.get(ctx, path, key)
			if err != nil || status == http.StatusOK {
				break
			}
			if path == "/health" && status == http.StatusServiceUnavailable { // it is loading
				break
			}
		}
		switch {
		case err == nil && status == http.StatusOK:
			return nil
		case err == nil && status != http.StatusServiceUnavailable:
			return fmt.Errorf("%s/v1/models: status %d; is this the address of the API, and is --api-key right?", c.base, status)
		case err != nil && !started && ctx.Err() == nil:
			return fmt.Errorf("nothing answers: %w; --server starts one", err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", c.base, context.Cause(ctx))
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// firstModel returns the first model that the server lists.
func (c *client) firstModel(ctx context.Context, key string) (string, error) {
	status, b, err := c.get(ctx, "/v1/models", key)
	if err != nil {
		return "", err
	}
	var models struct{ Data []struct{ ID string } }
	if status != http.StatusOK || json.Unmarshal(b, &models) != nil || len(models.Data) == 0 || models.Data[0].ID == "" {
		return "", fmt.Errorf("%s/v1/models: status %d names no model; give one with --model", c.base, status)
	}
	return models.Data[0].ID, nil
}
