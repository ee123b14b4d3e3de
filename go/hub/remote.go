package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// ErrWhole reports a file that can only be downloaded as a whole.
var ErrWhole = errors.New("it can only be downloaded as a whole (quern pull)")

var errNoParts = fmt.Errorf("the server sends no parts of it: %w", ErrWhole)

// A Remote is a file on a server, of which parts are read where they are needed. It is safe for concurrent use.
type Remote struct {
	h *Hub
	f File

	mu    sync.Mutex
	moved string // where the server says that it is, on another host; empty: nowhere else
}

// Remotes returns the files of a plan, to be read from their servers: nothing is stored. Errors name the model, and wrap
// ErrWhole where that cannot be done.
func (h *Hub) Remotes(ctx context.Context, plan *Plan) ([]*Remote, error) {
	if err := h.askForPart(ctx, plan); err != nil {
		return nil, fmt.Errorf("%s: %w", plan.Ref.Shown(), err)
	}
	all := make([]*Remote, len(plan.Files))
	for i, f := range plan.Files {
		if err := f.readable(); err != nil {
			return nil, fmt.Errorf("%s: %w", plan.Ref.Shown(), err)
		}
		all[i] = &Remote{h: h, f: f}
	}
	return all, nil
}

// askForPart notes whether a server sends parts of files, unless it was asked when the plan was made: see measure.
func (h *Hub) askForPart(ctx context.Context, plan *Plan) error {
	if plan.Ref.Kind == Web || len(plan.Files) == 0 {
		return nil
	}
	asked := plan.Files[0]
	if err := h.measure(ctx, &asked); err != nil {
		return err
	}
	for i := range plan.Files {
		plan.Files[i].whole = asked.whole
	}
	return nil
}

// readable returns an error if parts of the file cannot be read safely.
func (f *File) readable() error {
	switch {
	case f.Size < 0:
		return fmt.Errorf("the server does not say how large it is: %w", ErrWhole)
	case f.whole:
		return errNoParts
	case f.SHA256 == "" && f.Validator == "":
		return fmt.Errorf("the server gives no ETag and no date, by which a change would be noticed: %w, unless #sha256=SUM is given with its address", ErrWhole)
	}
	return nil
}

// Name returns the file's name.
func (r *Remote) Name() string { return r.f.Name() }

// Size returns its size in bytes.
func (r *Remote) Size() int64 { return r.f.Size }

// SHA256 returns the hash of its contents, empty if nobody says it.
func (r *Remote) SHA256() string { return r.f.SHA256 }

// Version returns what differs where the contents do: the hash, or the server's validator of the file with its address.
func (r *Remote) Version() string {
	if r.f.SHA256 != "" {
		return r.f.SHA256
	}
	return r.f.URL + " " + r.f.Validator
}

// dripBytes is how much has to come within the time after which a connection is given up: less is no use.
const dripBytes = 16 << 10

// Fetch fills p with the bytes from offset off on. A connection that is cut, or delivers next to nothing, is replaced by another,
// which goes on where it ended, a few times. A file that has changed since it was resolved is an error.
func (r *Remote) Fetch(ctx context.Context, p []byte, off int64) error {
	if off < 0 || off > r.f.Size || int64(len(p)) > r.f.Size-off {
		return fmt.Errorf("bytes %d to %d of a file of %d", off, off+int64(len(p)), r.f.Size)
	}
	b, gained := backoff{least: r.h.c.Backoff}, 0
	for at := 0; at < len(p); {
		n, err := r.try(ctx, p[at:], off+int64(at))
		at += n
		if gained += n; gained >= dripBytes {
			gained, b.failed = 0, 0
		}
		if at == len(p) {
			break
		}
		if err == nil {
			err = &cutError{errors.New("the server sends less than it was asked for")}
		}
		if err := b.wait(ctx, err); err != nil {
			return r.explain(err)
		}
	}
	return nil
}

// try fills p as far as one request does.
func (r *Remote) try(ctx context.Context, p []byte, off int64) (int, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(r.h.c.Stall, func() { cancel(errStalled) })
	defer stall.Stop()
	res, err := r.ask(ctx, off, off+int64(len(p)))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	stall.Reset(r.h.c.Stall)
	at, due := 0, 0
	for at < len(p) {
		n, err := res.Body.Read(p[at:])
		at += n
		if at >= due+dripBytes {
			due = at
			stall.Reset(r.h.c.Stall)
		}
		if err == io.EOF && at < len(p) {
			return at, nil
		}
		if err != nil && at < len(p) {
			if err = connection(ctx, err); errors.Is(err, errStalled) {
				r.forget(res.Request.URL.String()) // which may have it from a host that is well
			}
			return at, err
		}
	}
	return at, nil
}

// ask asks for bytes from .. to of the file, where it was found last, or else at its address.
func (r *Remote) ask(ctx context.Context, from, to int64) (*http.Response, error) {
	r.mu.Lock()
	moved := r.moved
	r.mu.Unlock()
	if moved == "" {
		return r.askAt(ctx, r.f.URL, r.f.from, from, to)
	}
	res, err := r.askAt(ctx, moved, r.h.http, from, to) // a token is not for that host
	var status *StatusError
	busy := errors.As(err, &status) && status.Status == http.StatusTooManyRequests
	if err == nil || busy || errors.Is(err, errChanged) || errors.Is(err, context.Canceled) {
		return res, err
	}
	r.forget(moved) // its signature may have expired, or that host is gone
	if ctx.Err() != nil {
		return nil, err
	}
	return r.askAt(ctx, r.f.URL, r.f.from, from, to)
}

// forget has the next request go to the file's own address, unless the server has named another place since.
func (r *Remote) forget(moved string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.moved == moved {
		r.moved = ""
	}
}

func (r *Remote) askAt(ctx context.Context, address string, c doer, from, to int64) (*http.Response, error) {
	res, a, err := r.f.request(ctx, address, c, from, to)
	if err != nil {
		return nil, err
	}
	if a.whole && (from > 0 || to < r.f.Size) {
		res.Body.Close()
		return nil, errNoParts
	}
	if first, err := url.Parse(r.f.URL); err == nil && address == r.f.URL && res.Request.URL.Host != first.Host {
		r.mu.Lock()
		r.moved = res.Request.URL.String()
		r.mu.Unlock()
	}
	return res, nil
}

// explain adds what would help to the error of a server.
func (r *Remote) explain(err error) error {
	var status *StatusError
	if errors.Is(err, errChanged) {
		return fmt.Errorf("%w; start the program again", err)
	}
	if !errors.As(err, &status) {
		return err
	}
	switch status.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w: it may not be read without a login, or a signed address has expired", err)
	case http.StatusNotFound, http.StatusGone:
		return fmt.Errorf("%w: the file is not there any more", err)
	}
	return err
}
