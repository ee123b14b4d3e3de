package batch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/internal/panics"
)

// A Tuner runs the fine-tuning jobs of a Store, one at a time, oldest first.
type Tuner struct {
	Store *Store
	// Do runs a job to its end, and calls its Done, unless ctx ends; then it saves its state, from which it goes on when it is
	// called again. A *TuneFault is for the client.
	Do func(ctx context.Context, w *Work) error
	// Log is called with errors that are not for the client alone.
	Log func(job string, err error)
}

// active is the job that runs.
type active struct {
	id    string
	stop  context.CancelFunc
	moved bool // it was stopped since it is in another state
}

// A Work is a fine-tuning job that runs.
type Work struct {
	Owner  string
	Job    Tuning
	Base   string // the Identity of the model that the job was created for
	Wishes Wishes

	s    *Store
	room int64 // bytes that are reserved for results
	done bool
}

// Run runs jobs until ctx ends.
func (r *Tuner) Run(ctx context.Context) {
	defer r.Store.idle()
	for ctx.Err() == nil {
		w, one := r.Store.nextTuning(ctx)
		if w == nil {
			select {
			case <-ctx.Done():
			case <-r.Store.tuneChanged:
			}
			continue
		}
		err := panics.Catch(func() error { return r.Do(one, w) })
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return // it goes on after the next start
		}
		if err == nil && !w.done {
			err = errors.New("the job has no result")
		}
		r.Store.endTuning(w, err, r.Log)
	}
}

// idle says that no job runs.
func (s *Store) idle() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = active{}
}

// nextTuning makes a job the active one: one that ran when the process ended, else the oldest that waits of the owner who has
// waited longest for a turn; nil: there is none.
func (s *Store) nextTuning(ctx context.Context) (*Work, context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = active{}
	rank := func(o *owned[tuning]) []int64 {
		waits := int64(0)
		if o.Value.Status == TuneQueued {
			waits = 1
		}
		return []int64{waits, s.turns[o.Owner], int64(o.Seq)}
	}
	var first *owned[tuning]
	for _, o := range s.tunings {
		if o.Value.Ended() || o.Value.Status == TunePaused {
			continue
		}
		if first == nil || slices.Compare(rank(o), rank(first)) < 0 {
			first = o
		}
	}
	if first == nil {
		return nil, nil
	}
	s.turn++
	s.turns[first.Owner] = s.turn
	t := first.Value
	if t.Status == TuneQueued {
		_, _ = alter(s, s.tunings, t.ID, func(t *tuning) error { // where it cannot be saved, the job fails soon
			t.Status = TuneChecking
			return nil
		})
	}
	one, stop := context.WithCancel(ctx)
	s.active = active{id: t.ID, stop: stop}
	return &Work{Owner: first.Owner, Job: t.Tuning, Base: t.Base, Wishes: t.Wishes, s: s}, one
}

// endTuning ends a job that is not done, unless it was paused or cancelled.
func (s *Store) endTuning(w *Work, err error, log func(string, error)) {
	id := w.Job.ID
	s.mu.Lock()
	moved := s.active.moved
	s.active.stop()
	s.active = active{}
	failed := err != nil && !moved
	var fault *TuneFault
	if failed {
		if !errors.As(err, &fault) {
			fault = &TuneFault{Code: "server_error", Message: "the job cannot be run: " + toldTuner(err)}
		}
		end := func(t *tuning) error {
			now := time.Now().Unix()
			t.Status, t.Error, t.Finished, t.Estimated = TuneFailed, fault, &now, nil
			return nil
		}
		if _, unsaved := alter(s, s.tunings, id, end); unsaved != nil {
			_ = end(&s.tunings[id].Value) // it is not run again until the next start
		}
	}
	if s.tunings[id].Value.Ended() {
		s.dropState(id)
	}
	s.count(w.Owner, -w.room)
	w.room = 0
	s.mu.Unlock()
	if failed {
		s.event(id, "error", fault.Message, nil)
		log(id, err)
	}
}

// toldTuner is told, of jobs.
func toldTuner(err error) string {
	if text := told(err); !strings.HasPrefix(text, "its files") {
		return text
	}
	return "the log of the server has more"
}

// dropState removes what a job goes on from. s.mu is held.
func (s *Store) dropState(id string) {
	os.Remove(s.state(id)) // if this fails, the next Open removes it
	s.release(id)
}

// Open opens a file that the job learns from, and returns its name.
func (w *Work) Open(id string) (io.ReadCloser, string, error) {
	f, err := w.s.File(w.Owner, id)
	if err != nil {
		return nil, "", err
	}
	in, err := w.s.Content(w.Owner, id)
	return in, f.Filename, err
}

// State returns the path of the file that the job is saved to, which may exist.
func (w *Work) State() string { return w.s.state(w.Job.ID) }

// Reserve makes room for a state of so many bytes.
func (w *Work) Reserve(n int64) error {
	s, id := w.s, w.Job.ID
	s.mu.Lock()
	had := s.journals[id].bytes
	s.mu.Unlock()
	if n <= had {
		return nil
	}
	if err := s.reserve(w.Owner, int(n-had)); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journals[id] = journal{w.Owner, n}
	return nil
}

// ReserveResults makes room for results of so many bytes, before the job takes its time.
func (w *Work) ReserveResults(n int64) error {
	if err := w.s.reserve(w.Owner, int(n)); err != nil {
		return err
	}
	w.room += n
	return nil
}

// Event notes that something has happened; data: numbers of a step, or nil.
func (w *Work) Event(message string, data *TunePoint) { w.s.event(w.Job.ID, "info", message, data) }

// Warn notes what the client should know.
func (w *Work) Warn(message string) { w.s.event(w.Job.ID, "warn", message, nil) }

// Pause pauses the job, and says why. Its state stays; the job is to return soon.
func (w *Work) Pause(why string) error {
	_, err := w.s.move(w.Owner, w.Job.ID, TunePaused, TuneChecking, TuneQueued, TuneRunning)
	if err == nil {
		w.Warn(why)
	}
	return err
}

// Begin shows what the job has become, and about when it will end.
func (w *Work) Begin(s TuneSettings, end time.Time) error {
	return w.alter(func(t *tuning) error {
		if t.Ended() || t.Status == TunePaused {
			return context.Canceled
		}
		at := end.Unix()
		t.Status, t.Estimated = TuneRunning, &at
		t.show(s)
		return nil
	})
}

// Done ends the job: write makes the adapter's file, curve is a table of its steps in CSV. It returns the name of the model,
// which may be asked for from now on. Files of a job that cannot be ended so are removed.
func (w *Work) Done(write func(path string) (int64, error), curve []byte, best TunePoint, tokens int) (name string, err error) {
	s, id := w.s, w.Job.ID
	bare := strings.TrimPrefix(id, "ftjob-")
	var kept []string
	defer func() {
		if err != nil {
			for _, file := range kept {
				_ = s.RemoveFile(w.Owner, file)
			}
		}
	}()
	adapter, err := w.keep("file-"+bare+"-adapter", id+".gguf", write)
	if err != nil {
		return "", err
	}
	kept = append(kept, adapter)
	metrics, err := w.keep("file-"+bare+"-metrics", id+".csv", func(path string) (int64, error) {
		return newfile.Write(path, true, 0o600, 0, func(to io.Writer) (int64, error) { return io.Copy(to, bytes.NewReader(curve)) })
	})
	if err != nil {
		return "", err
	}
	kept = append(kept, metrics)
	name = fmt.Sprintf("ft:%s:%s:%s", w.Job.Model, w.Wishes.Suffix, bare[:8])
	err = w.alter(func(t *tuning) error {
		if t.Ended() || t.Status == TunePaused {
			return context.Canceled
		}
		now := time.Now().Unix()
		t.Status, t.Finished, t.Estimated, t.Tuned, t.Tokens = TuneSucceeded, &now, nil, &name, &tokens
		t.Results, t.Adapter, t.Best = []string{metrics, adapter}, adapter, &best
		return nil
	})
	w.done = err == nil
	return name, err
}

// alter changes the job, and saves it.
func (w *Work) alter(f func(*tuning) error) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	_, err := alter(w.s, w.s.tunings, w.Job.ID, f)
	return err
}

// keep stores a file that the job has made, in the room that is reserved for it and what else there is.
func (w *Work) keep(id, name string, write func(path string) (int64, error)) (string, error) {
	s, path := w.s, w.s.path(id+".data")
	n, err := write(path)
	if err != nil {
		return "", onDisk(err)
	}
	s.mu.Lock()
	var before int64 // where the process ended before the job named it
	if o := s.files[id]; o != nil {
		before = o.Value.Bytes
	}
	more := n - before
	free := min(w.room, max(more, 0))
	s.count(w.Owner, -free)
	w.room -= free
	if more > 0 {
		err = s.room(w.Owner, more)
	}
	if err == nil {
		err = s.keep(w.Owner, File{
			ID: id, Object: "file", Bytes: n, Created: time.Now().Unix(), Filename: name, Purpose: PurposeResult, Status: "processed",
		})
	}
	if err == nil {
		s.count(w.Owner, more)
	}
	s.mu.Unlock()
	switch {
	case err == nil:
		return id, nil
	case before > 0: // it would be listed without its content
		_ = s.RemoveFile(w.Owner, id)
	default:
		os.Remove(path)
	}
	return "", err
}
