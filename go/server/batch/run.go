package batch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/internal/panics"
)

// An Answer is an endpoint's response to a request.
type Answer struct {
	Status int
	Retry  time.Duration // time after which a request that was refused for lack of room may be repeated
	Over   bool          // it was refused since its owner's quota is used up, or its key gone: others may go on meanwhile
	Body   []byte        // JSON
}

// A Runner runs the batches of a Store, oldest first.
type Runner struct {
	Store *Store
	Width int // requests at a time
	// Do sends a request of an owner to its endpoint.
	Do func(ctx context.Context, owner, url string, body []byte) Answer
	// Wait returns how long it takes at least until an owner may send a request; nil: each may at any time.
	Wait func(owner string) time.Duration
	// Log is called with errors of the store and with each panic; a panic of Do is a *PanicError.
	Log func(batch string, err error)

	aside map[string]time.Time // owners whose quotas are used up, and until when
}

// The times for which an owner's batches are set aside. To take one up costs as much as reading all of it, so it is not done for
// the one request that a minute's quota has left; and a quota may become larger.
const (
	asideLeast = 30 * time.Second
	asideMost  = time.Minute
)

// errAside ends the work on a batch for a time.
var errAside = errors.New("the quota of the batch's owner is used up")

// A PanicError is a panic of a request.
type PanicError struct {
	Request string // its custom_id
	*panics.Panic
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("request %.64q panicked: %v", e.Request, e.Value)
}

// Unwrap returns the panic.
func (e *PanicError) Unwrap() error { return e.Panic }

// Run runs batches until ctx ends. Requests that are running then are repeated by the next Run.
func (r *Runner) Run(ctx context.Context) {
	r.aside = map[string]time.Time{}
	for ctx.Err() == nil {
		now := time.Now()
		maps.DeleteFunc(r.aside, func(_ string, until time.Time) bool { return !now.Before(until) })
		o, wait := r.Store.next(r.aside)
		id := o.Value.ID
		if id == "" {
			var again <-chan time.Time
			if wait > 0 {
				again = time.After(wait)
			}
			select {
			case <-ctx.Done():
			case <-r.Store.changed:
			case <-again:
			}
			continue
		}
		if r.Wait != nil && !o.Value.ends(now) {
			if wait := r.Wait(o.Owner); wait > 0 {
				r.aside[o.Owner] = now.Add(asideFor(wait))
				continue
			}
		}
		// A panic ends the batch. Otherwise it would end the process, and again after each restart.
		if err := panics.Catch(func() error { return r.one(ctx, o) }); err != nil && ctx.Err() == nil {
			r.Log(id, err)
			if err := r.Store.fail(id, &Faults{"list", []Fault{{Code: "server_error", Message: "the batch cannot be run: " + told(err)}}}); err != nil {
				r.Log(id, err)
			}
		}
	}
}

// told returns the text of an error without paths of the server.
func told(err error) string {
	if errors.Is(err, ErrFull) || errors.Is(err, ErrDisk) || errors.Is(err, ErrNotFound) {
		return err.Error()
	}
	if p := (*panics.Panic)(nil); errors.As(err, &p) {
		return "internal error, the log has more"
	}
	return "its files cannot be read or written"
}

// asideFor is how long an owner's batches are set aside whose quota has something left after a time.
func asideFor(wait time.Duration) time.Duration { return min(max(wait, asideLeast), asideMost) }

// ends reports whether a batch only has to be ended: it is to be cancelled, or has expired.
func (b *Batch) ends(now time.Time) bool { return b.Cancelling != 0 || now.Unix() >= b.Expires }

// next returns the oldest batch that has not ended and whose owner is not set aside, or one without an ID, and then how long
// the first owner is still set aside; 0: none is. A batch that only has to be ended is not set aside.
func (s *Store) next(aside map[string]time.Time) (found owned[Batch], wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first *owned[Batch]
	now := time.Now()
	for _, o := range s.batches {
		if o.Value.ended() {
			continue
		}
		if left := aside[o.Owner].Sub(now); left > 0 && !o.Value.ends(now) {
			if wait == 0 || left < wait {
				wait = left
			}
			continue
		}
		if first == nil || o.Seq < first.Seq {
			first = o
		}
	}
	if first == nil {
		return found, wait
	}
	return *first, 0
}

// one runs one batch to its end.
func (r *Runner) one(ctx context.Context, o owned[Batch]) error {
	s, id := r.Store, o.Value.ID
	in, err := s.Content(o.Owner, o.Value.Input)
	if err != nil {
		return err
	}
	requests, faults, err := readInput(in, o.Value.Endpoint)
	in.Close()
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return s.finish(id, o.Owner, nil, &Faults{"list", faults})
	}
	done, err := s.readJournal(id)
	if err != nil {
		return err
	}
	_, err = s.change(id, func(b *Batch) {
		b.Counts = Counts{Total: len(requests)}
		for _, m := range done {
			b.Counts.add(m.failed)
		}
		if b.Status == "validating" {
			b.Status, b.InProgress = "in_progress", time.Now().Unix()
		}
	})
	if err != nil {
		return err
	}
	switch err := r.requests(ctx, id, o, requests, done); {
	case errors.Is(err, errAside):
		return nil
	case err != nil || ctx.Err() != nil:
		return err
	}
	return s.finish(id, o.Owner, requests, nil)
}

func (c *Counts) add(failed bool) {
	if failed {
		c.Failed++
	} else {
		c.Completed++
	}
}

// requests runs the requests that are not in the journal, until all are, the batch is cancelled or expires, or ctx
// ends.
func (r *Runner) requests(ctx context.Context, id string, o owned[Batch], list []request, done map[int]mark) error {
	s := r.Store
	ctx, cancel := context.WithDeadlineCause(ctx, time.Unix(o.Value.Expires, 0), errExpired)
	defer cancel()
	watched, stop := context.WithCancel(ctx)
	defer stop()
	go func() { // when the batch is cancelled, its running requests are cancelled too
		for {
			if b, err := s.Batch(o.Owner, id); err != nil || b.Cancelling != 0 {
				stop()
				return
			}
			select {
			case <-watched.Done():
				return
			case <-time.After(100 * time.Millisecond):
			}
		}
	}()
	out, err := os.OpenFile(s.journal(id), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	var mu sync.Mutex
	var failed error
	var until time.Time // the owner is set aside
	over := make(chan struct{})
	setAside := sync.OnceFunc(func() { close(over) })
	work := make(chan int)
	var wg sync.WaitGroup
	for range max(r.Width, 1) {
		wg.Go(func() {
			for n := range work {
				err := panics.Catch(func() error {
					e, ok, retry := r.request(watched, id, o.Owner, n, list[n])
					mu.Lock()
					defer mu.Unlock()
					if retry > 0 {
						until = time.Now().Add(retry)
						setAside()
					}
					if ok && failed == nil { // otherwise the last line may be incomplete
						failed = s.note(out, id, e)
					}
					return failed
				})
				if err != nil {
					mu.Lock()
					failed = cmp.Or(failed, err)
					mu.Unlock()
					stop()
				}
			}
		})
	}
	for n := range list {
		if _, ok := done[n]; ok {
			continue
		}
		select {
		case work <- n:
			continue
		case <-watched.Done():
		case <-over:
		}
		break
	}
	close(work)
	wg.Wait()
	if failed == nil && watched.Err() == nil && !until.IsZero() {
		r.aside[o.Owner] = until
		return errAside
	}
	return failed
}

var errExpired = errors.New("the batch has expired")

// request sends a request, and repeats it as long as there is no room for it. It reports whether it was answered, or for
// how long the owner is to be set aside.
func (r *Runner) request(ctx context.Context, batch, owner string, n int, q request) (e entry, ok bool, aside time.Duration) {
	for {
		a := r.do(ctx, batch, owner, q)
		if ctx.Err() != nil {
			return entry{}, false, 0
		}
		if a.Over {
			return entry{}, false, asideFor(a.Retry)
		}
		if a.Status == http.StatusTooManyRequests || a.Status == http.StatusServiceUnavailable {
			select {
			case <-ctx.Done():
				return entry{}, false, 0
			case <-time.After(min(max(a.Retry, time.Second), time.Minute)):
			}
			continue
		}
		line, err := json.Marshal(map[string]any{
			"id": newID("batch_req_"), "custom_id": q.ID, "error": nil,
			"response": map[string]any{"status_code": a.Status, "request_id": newID("req_"), "body": json.RawMessage(a.Body)},
		})
		failed := a.Status != http.StatusOK
		if err != nil { // the answer is not JSON
			failed = true
			line, _ = json.Marshal(map[string]any{
				"id": newID("batch_req_"), "custom_id": q.ID, "response": nil, "error": map[string]any{"code": "server_error", "message": "the answer is no JSON"},
			})
		}
		return entry{n, failed, line}, true, 0
	}
}

// do sends a request once. A panic becomes an answer. Otherwise it would end the process, and again after each restart.
func (r *Runner) do(ctx context.Context, batch, owner string, q request) (a Answer) {
	err := panics.Catch(func() error {
		a = r.Do(ctx, owner, q.URL, q.Body)
		return nil
	})
	if p := (*panics.Panic)(nil); errors.As(err, &p) {
		r.Log(batch, &PanicError{q.ID, p})
		a = Answer{
			Status: http.StatusInternalServerError,
			Body:   []byte(`{"error":{"message":"internal error, the log has more","type":"server_error","param":null,"code":null}}`),
		}
	}
	return a
}
