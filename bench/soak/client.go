package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// patience is how long an answer may take on any machine: what takes longer hangs.
const patience = 4 * time.Minute

// The keys of the server: the second may have no more than its quotas.
const (
	adminKey = "soak-admin-key-0123456789"
	guestKey = "soak-guest-key-0123456789"
)

// A client talks to a server at a socket, each request over a connection of its own.
type client struct {
	socket string
	http   *http.Client
}

func newClient(socket string) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	return &client{socket, &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true, DisableCompression: true}}}
}

// A manner is how a client behaves.
type manner struct {
	key    string
	events int           // of a stream, after which it leaves; 0: it stays
	leaves time.Duration // after which it leaves; 0: it stays
	slow   int           // bytes that it reads, one a second, before it leaves
	stop   time.Duration // it is a process, which is stopped for so long once the answer begins
}

func (m manner) String() string {
	switch {
	case m.events > 0:
		return fmt.Sprintf("leaves after %d events", m.events)
	case m.leaves > 0:
		return fmt.Sprintf("leaves after %v", m.leaves)
	case m.slow > 0:
		return "reads a byte a second"
	case m.stop > 0:
		return fmt.Sprintf("is stopped for %v", m.stop)
	}
	return "stays"
}

// ask sends a request in a manner and reads what comes, through all its steps.
func (c *client) ask(ctx context.Context, r *request, m manner) *answer {
	ctx, stop := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no end after %v", patience))
	defer stop()
	a := c.step(ctx, http.MethodPost, r.path, r.body, m)
	for r.wait && a.err == nil && a.status == 200 && (a.state == "in_progress" || a.state == "queued") {
		select {
		case <-ctx.Done():
			a.err = context.Cause(ctx)
			return a
		case <-time.After(20 * time.Millisecond):
		}
		a = c.step(ctx, http.MethodGet, r.path+"/"+a.id, nil, manner{key: m.key})
	}
	if r.next != nil && a.err == nil && a.status == 200 && !a.left {
		first := a
		a = c.step(ctx, http.MethodPost, r.path, bytes.Replace(r.next, []byte("%s"), []byte(a.id), 1), manner{key: m.key})
		for path, t := range first.fields {
			a.fields["first"+path] = t
		}
	}
	return a
}

var errLeft = errors.New("the client left")

// step sends one HTTP request.
func (c *client) step(ctx context.Context, method, path string, body []byte, m manner) *answer {
	a := &answer{fields: map[string]string{}}
	if m.leaves > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, m.leaves, errLeft)
		defer stop()
	}
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, method, "http://quern"+path, bytes.NewReader(body))
	if err != nil {
		a.err = err
		return a
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+m.key)
	if m.stop > 0 {
		a.err = c.stopped(ctx, a, req, m.stop)
		return a
	}
	resp, err := c.http.Do(req)
	if err == nil {
		defer resp.Body.Close()
		a.status = resp.StatusCode
		if m.slow > 0 {
			sip(ctx, resp.Body, m.slow)
			a.left = true
			return a
		}
		err = a.read(resp.Header.Get("Content-Type"), resp.Body, began, func(n int) bool { return m.events == 0 || n < m.events })
	}
	if err != nil {
		if cause := context.Cause(ctx); cause == errLeft {
			a.left = true
			return a
		} else if cause != nil {
			err = cause
		}
	}
	a.err = err
	return a
}

// sip reads n bytes, one a second.
func sip(ctx context.Context, r io.Reader, n int) {
	var b [1]byte
	for range n {
		if _, err := r.Read(b[:]); err != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}

// clientVariable names the variable that makes this program a client: it has the socket.
const clientVariable = "QUERN_SOAK_CLIENT"

// beClient sends the request on its standard input to a server as it is, and writes what comes.
func beClient(in io.Reader, out io.Writer) int {
	conn, err := net.Dial("unix", os.Getenv(clientVariable))
	if err == nil {
		_, err = io.Copy(conn, in)
	}
	if err == nil {
		_, err = io.Copy(out, conn)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// stopped has a process of its own send the request, stops it when the answer begins, and lets it go on.
func (c *client) stopped(ctx context.Context, a *answer, req *http.Request, pause time.Duration) error {
	cmd := exec.CommandContext(ctx, "/proc/self/exe")
	cmd.Env = append(os.Environ(), clientVariable+"="+c.socket)
	cmd.WaitDelay = time.Second
	var wire bytes.Buffer
	req.Header.Set("Connection", "close")
	if err := req.Write(&wire); err != nil {
		return err
	}
	cmd.Stdin = &wire
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return err
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var first [1]byte
	if _, err := io.ReadFull(out, first[:]); err != nil {
		return fmt.Errorf("no answer: %w", err)
	}
	cmd.Process.Signal(syscall.SIGSTOP)
	wait(ctx, pause)
	cmd.Process.Signal(syscall.SIGCONT)
	resp, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(first[:]), out)), req)
	if err != nil {
		return err
	}
	a.status = resp.StatusCode
	err = a.read(resp.Header.Get("Content-Type"), resp.Body, began, func(int) bool { return true })
	a.gaps, a.first = nil, 0 // are the client's own
	return err
}

// get returns the status and the body of a path; status 0 without an answer.
func (c *client) get(ctx context.Context, method, path string, body []byte) (int, []byte, error) {
	return c.send(ctx, method, path, "application/json", body)
}

func (c *client) send(ctx context.Context, method, path, kind string, body []byte) (int, []byte, error) {
	ctx, stop := context.WithTimeoutCause(ctx, patience, fmt.Errorf("%s: no end after %v", path, patience))
	defer stop()
	req, err := http.NewRequestWithContext(ctx, method, "http://quern"+path, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Authorization", "Bearer "+adminKey)
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	return resp.StatusCode, b, err
}
