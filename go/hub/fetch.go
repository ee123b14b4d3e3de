package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/quern-llm/quern/go/internal/panics"
)

// Errors that end a try and not the download.
var (
	errRanges  = errors.New("the server sends no ranges")
	errChanged = errors.New("the file on the server changed while it was downloaded")
)

// saveEvery is the interval between saved records of a download; a kill -9 loses the data since the last.
const saveEvery = 2 * time.Second

// An answer is a server's metadata about a file.
type answer struct {
	whole     bool  // not the range that was asked for
	from, to  int64 // of a range
	total     int64 // -1: it does not say
	validator string
}

// readAnswer parses the header of a response with bytes.
func readAnswer(res *http.Response) (answer, error) {
	a := answer{total: -1, validator: validatorOf(res.Header)}
	if enc := res.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return a, fmt.Errorf("the server sends the file in the form %q, want it as it is", clip(enc, 40))
	}
	if res.StatusCode != http.StatusPartialContent {
		a.whole, a.total = true, res.ContentLength
		return a, nil
	}
	var err error
	a.from, a.to, a.total, err = parseContentRange(res.Header.Get("Content-Range"))
	return a, err
}

// parseContentRange parses bytes FIRST-LAST/TOTAL.
func parseContentRange(s string) (from, to, total int64, err error) {
	bad := fmt.Errorf("the header Content-Range: %q, want bytes FIRST-LAST/TOTAL", clip(s, 60))
	rest, ok := strings.CutPrefix(s, "bytes ")
	span, all, ok2 := strings.Cut(rest, "/")
	first, last, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, 0, 0, bad
	}
	var n [3]uint64
	for i, text := range []string{first, last, all} {
		if n[i], err = strconv.ParseUint(text, 10, 62); err != nil {
			return 0, 0, 0, bad
		}
	}
	if n[0] > n[1] || n[1] >= n[2] {
		return 0, 0, 0, bad
	}
	return int64(n[0]), int64(n[1]) + 1, int64(n[2]), nil
}

// check returns an error unless a response is for the file that is being downloaded.
func (f *File) check(a answer) error {
	known := f.SHA256 != "" // caches of one file may have different validators; the hash decides
	if !known && a.validator != f.Validator || a.total >= 0 && a.total != f.Size {
		if known {
			return fmt.Errorf("the server has %d bytes, want %d", a.total, f.Size)
		}
		return errChanged
	}
	return nil
}

// request asks for a range of bytes. The server may send the whole file instead.
func (p *part) request(ctx context.Context, from, to int64) (*http.Response, answer, error) {
	return p.f.request(ctx, p.f.URL, p.f.from, from, to)
}

// request asks for a range of the file's bytes at an address.
func (f *File) request(ctx context.Context, address string, c doer, from, to int64) (*http.Response, answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, answer{}, err
	}
	if from > 0 || to < f.Size {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-%d", from, to-1))
		if f.SHA256 == "" && f.Validator != "" {
			req.Header.Set("If-Range", f.Validator)
		}
	}
	res, err := send(c, req)
	var status *StatusError
	if errors.As(err, &status) && status.Status == http.StatusRequestedRangeNotSatisfiable {
		return nil, answer{}, fmt.Errorf("%w: it is shorter now", errChanged)
	}
	if err != nil {
		return nil, answer{}, err
	}
	a, err := readAnswer(res)
	if err == nil {
		err = f.check(a)
	}
	if err == nil && !a.whole && a.from != from {
		err = fmt.Errorf("the server sends bytes from %d, want %d", a.from, from)
	}
	if err != nil {
		res.Body.Close()
		return nil, a, err
	}
	return res, a, nil
}

// span downloads the missing bytes of a piece up to a position in it.
func (p *part) span(ctx context.Context, i int, to int64) error {
	for b := (backoff{least: p.h.c.Backoff}); ; {
		had := p.have[i].Load()
		if had >= to {
			return nil
		}
		err := p.try(ctx, i, to)
		if p.have[i].Load() > had {
			b.failed = 0
		}
		if err == nil {
			continue // a server may send less than it was asked for
		}
		if err := b.wait(ctx, err); err != nil {
			return err
		}
	}
}

func (p *part) try(ctx context.Context, i int, to int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	from := p.offset(i) + p.have[i].Load()
	res, a, err := p.request(ctx, from, p.offset(i)+to)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if a.whole {
		if p.ranged.Store(false); from > 0 {
			return errRanges
		}
	}
	return p.copy(ctx, cancel, res.Body, i, to)
}

// errStalled reports a connection that delivers no bytes.
var errStalled = &cutError{errors.New("the server sends nothing")}

// copy writes a body to a piece, up to a position in it.
func (p *part) copy(ctx context.Context, cancel context.CancelCauseFunc, body io.Reader, i int, to int64) error {
	watch := time.AfterFunc(p.h.c.Stall, func() { cancel(errStalled) })
	defer watch.Stop()
	buffer := make([]byte, 128<<10)
	for at := p.have[i].Load(); at < to; {
		n, err := body.Read(buffer[:min(int64(len(buffer)), to-at)])
		if n > 0 {
			watch.Reset(p.h.c.Stall)
			if _, err := p.h.writeAt(p.file, buffer[:n], p.offset(i)+at); err != nil {
				return diskError(err)
			}
			at += int64(n)
			p.set(i, at)
		}
		if err != nil && at < to {
			return connection(ctx, err)
		}
	}
	return nil
}

// first downloads the first n bytes.
func (p *part) first(ctx context.Context, n int64) error {
	for i := range p.have {
		if p.offset(i) >= n {
			return nil
		}
		if !p.ranged.Load() {
			return p.whole(ctx, n)
		}
		err := p.span(ctx, i, min(p.length(i), n-p.offset(i)))
		if errors.Is(err, errRanges) {
			return p.whole(ctx, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// whole downloads the first n bytes without range requests, in one response from the start of the file.
func (p *part) whole(ctx context.Context, n int64) error {
	for b := (backoff{least: p.h.c.Backoff}); ; {
		had := p.got.Load()
		err := p.stream(ctx, n)
		if err == nil {
			return nil
		}
		if p.got.Load() > had {
			b.failed = 0
		}
		if err := b.wait(ctx, err); err != nil {
			return err
		}
	}
}

// stream reads a file from its start and stores the missing bytes.
func (p *part) stream(ctx context.Context, n int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	res, _, err := p.request(ctx, 0, p.f.Size)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	for i := range p.have {
		if p.offset(i) >= n {
			break
		}
		watch := time.AfterFunc(p.h.c.Stall, func() { cancel(errStalled) })
		_, err := io.CopyN(io.Discard, &watched{res.Body, watch, p.h.c.Stall}, p.have[i].Load())
		watch.Stop()
		if err != nil {
			return connection(ctx, err)
		}
		if err := p.copy(ctx, cancel, res.Body, i, min(p.length(i), n-p.offset(i))); err != nil {
			return err
		}
	}
	return nil
}

// watched resets a timer at each read.
type watched struct {
	io.Reader
	timer *time.Timer
	after time.Duration
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.Reader.Read(b)
	w.timer.Reset(w.after)
	return n, err
}

// download downloads the missing bytes, on several connections if the server supports ranges, and hashes the
// file meanwhile.
func (p *part) download(ctx context.Context) error {
	save := func() { _ = p.save() } // the last save, below, tells of errors
	err := meanwhile(ctx, saveEvery, save, func(ctx context.Context) error {
		group, ctx := errgroup.WithContext(ctx)
		spawn(group, func() (err error) {
			p.sum, err = p.hash(ctx)
			return err
		})
		spawn(group, func() error {
			if p.ranged.Load() {
				err := p.pieces(ctx)
				if !errors.Is(err, errRanges) {
					return err
				}
			}
			return p.whole(ctx, p.f.Size)
		})
		return group.Wait()
	})
	if saved := p.save(); err == nil {
		err = saved
	}
	return err
}

// spawn runs f in a group. A panic is its error, of which the group is not told otherwise.
func spawn(group *errgroup.Group, f func() error) {
	group.Go(func() error { return panics.Catch(f) })
}

// pieces downloads pieces in order, several at a time.
func (p *part) pieces(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range min(p.h.c.Connections, len(p.have)) {
		spawn(group, func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(p.have) {
					return nil
				}
				if err := p.span(ctx, i, p.length(i)); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// finish downloads the rest of a file and verifies its hash.
func (p *part) finish(ctx context.Context) error {
	if p.f.Size < 0 {
		return p.unsized(ctx)
	}
	err := p.download(ctx)
	if err == nil && p.f.SHA256 != "" && p.sum != p.f.SHA256 {
		err = fmt.Errorf("the sha256 of what came is %s, want %s", p.sum, p.f.SHA256)
		if !p.went {
			p.discard()
			return fmt.Errorf("%w; it was removed", err)
		}
		// Data left by an earlier pull may be the cause.
		if reset := p.reset(); reset != nil {
			return reset
		}
		return p.finish(ctx)
	}
	if errors.Is(err, errChanged) {
		p.discard()
		return fmt.Errorf("%w; pull it again", err)
	}
	return err
}
