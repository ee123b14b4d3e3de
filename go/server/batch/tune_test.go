package batch

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// tuneStore is a store with a file of examples.
func tuneStore(t *testing.T, dir string) (*Store, string) {
	t.Helper()
	s, err := Open(dir, 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	f, err := s.AddFile("me", "in.jsonl", PurposeTune, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	return s, f.ID
}

func addTuning(t *testing.T, s *Store, file string) Tuning {
	t.Helper()
	job, err := s.AddTuning("me", "base", file, "", Wishes{Suffix: "x"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// tuneUntil runs jobs until ok.
func tuneUntil(t *testing.T, s *Store, do func(ctx context.Context, w *Work) error, ok func() bool) (logged []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := Tuner{Store: s, Do: do, Log: func(job string, err error) { logged = append(logged, job+": "+err.Error()) }}
		r.Run(ctx)
	}()
	for range 1000 {
		if ok() {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	<-done
	if !ok() {
		t.Fatal("it does not come to what is wanted")
	}
	return logged
}

func (s *Store) tuneStatus(id string) string {
	t, err := s.Tuning("me", id)
	if err != nil {
		return err.Error()
	}
	return t.Status
}

// succeed is what a job does that makes a model.
func succeed(w *Work) error {
	if err := w.Begin(2, 1, 3, time.Now()); err != nil {
		return err
	}
	w.Event("Step 1/1", &TunePoint{Step: 1, Loss: 2})
	name, err := w.Done(func(path string) (int64, error) { return 5, os.WriteFile(path, []byte("model"), 0o600) }, []byte("step\n1\n"), TunePoint{Step: 1, Held: 3}, 7)
	if err == nil && !strings.HasPrefix(name, "ft:base:x:") {
		err = errors.New(name)
	}
	return err
}

func TestTuningIsRun(t *testing.T) {
	dir := t.TempDir()
	s, file := tuneStore(t, dir)
	job := addTuning(t, s, file)
	if job.Status != TuneQueued || job.Settings.Epochs != "auto" {
		t.Errorf("%+v", job)
	}
	if err := s.RemoveFile("me", file); !errors.Is(err, ErrInUse) {
		t.Errorf("the file of a job is removed: %v", err)
	}
	logged := tuneUntil(t, s, func(_ context.Context, w *Work) error {
		in, name, err := w.Open(w.Job.Training)
		if err != nil || name != "in.jsonl" {
			t.Errorf("%s, %v", name, err)
			return err
		}
		defer in.Close()
		if b, err := io.ReadAll(in); err != nil || string(b) != "{}" || w.Owner != "me" || w.Wishes.Suffix != "x" {
			t.Errorf("%q, %v, %+v", b, err, w)
		}
		return succeed(w)
	}, func() bool { return s.tuneStatus(job.ID) == TuneSucceeded })
	if len(logged) > 0 {
		t.Errorf("%q", logged)
	}
	check := func(s *Store) {
		t.Helper()
		job, err := s.Tuning("me", job.ID)
		if err != nil || job.Tuned == nil || len(job.Results) != 2 || *job.Tokens != 7 || job.Finished == nil || job.Error != nil {
			t.Fatalf("%+v, %v", job, err)
		}
		m, ok := s.Tuned("me", *job.Tuned)
		if b, err := os.ReadFile(m.Path); !ok || err != nil || string(b) != "model" || m.Base != "base" {
			t.Errorf("%+v, %v: %q, %v", m, ok, b, err)
		}
		if _, ok := s.Tuned("you", *job.Tuned); ok {
			t.Error("another owner has the model")
		}
		if list, err := s.TuneCheckpoints("me", job.ID); err != nil || len(list) != 1 || list[0].Name != *job.Tuned || list[0].Metrics.Full != 3 {
			t.Errorf("%+v, %v", list, err)
		}
		if list, err := s.TuneEvents("me", job.ID); err != nil || len(list) != 1 || list[0].Type != "metrics" || list[0].Data.Loss != 2 {
			t.Errorf("%+v, %v", list, err)
		}
		if _, err := s.TuneEvents("you", job.ID); !errors.Is(err, ErrNotFound) {
			t.Errorf("another owner's job: %v", err)
		}
	}
	check(s)
	used := s.used
	s.Close()
	again, err := Open(dir, 1<<20, false)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if check(again); again.used != used {
		t.Errorf("%d bytes are used after a start, %d before", again.used, used)
	}
	for _, f := range again.Files("me") {
		if err := again.RemoveFile("me", f.ID); err != nil {
			t.Error(err)
		}
	}
	if list := again.TunedModels("me"); len(list) > 0 || again.used != 0 {
		t.Errorf("models without files: %+v, %d bytes", list, again.used)
	}
}

// Jobs fail with what they say, or what the server says, panics included; the next one is run.
func TestTuningsThatFail(t *testing.T) {
	s, file := tuneStore(t, t.TempDir())
	param := "training_file"
	want := map[string]*TuneFault{}
	do := map[string]func() error{}
	add := func(fault *TuneFault, f func() error) {
		id := addTuning(t, s, file).ID
		want[id], do[id] = fault, f
	}
	add(&TuneFault{"invalid_training_file", "in.jsonl:1: nothing", &param}, func() error { return &TuneFault{"invalid_training_file", "in.jsonl:1: nothing", &param} })
	add(&TuneFault{Code: "server_error", Message: "the job cannot be run: the log of the server has more"}, func() error { return errors.New("/secret/path: no") })
	add(&TuneFault{Code: "server_error", Message: "the job cannot be run: internal error, the log has more"}, func() error { panic("at the disco") })
	add(&TuneFault{Code: "server_error", Message: "the job cannot be run: the log of the server has more"}, func() error { return nil }) // without a result
	last := addTuning(t, s, file).ID
	logged := tuneUntil(t, s, func(_ context.Context, w *Work) error {
		if f := do[w.Job.ID]; f != nil {
			return f()
		}
		return succeed(w)
	}, func() bool { return s.tuneStatus(last) == TuneSucceeded })
	for id, fault := range want {
		job, err := s.Tuning("me", id)
		if err != nil || job.Status != TuneFailed || job.Error == nil || job.Error.Message != fault.Message || job.Error.Code != fault.Code ||
			(job.Error.Param == nil) != (fault.Param == nil) || job.Finished == nil {
			t.Errorf("%+v, %+v, %v, want %+v", job, job.Error, err, fault)
		}
		if list, err := s.TuneEvents("me", id); err != nil || len(list) != 1 || list[0].Level != "error" || list[0].Message != fault.Message {
			t.Errorf("%+v, %v", list, err)
		}
	}
	if len(logged) != len(want) || !slices.ContainsFunc(logged, func(line string) bool { return strings.Contains(line, "/secret/path") }) {
		t.Errorf("%q", logged)
	}
	if err := s.RemoveFile("me", file); err != nil {
		t.Errorf("no job needs the file: %v", err)
	}
}

// A job that is paused leaves its place to the next, and goes on with its state, also after a start; one that is cancelled has
// none.
func TestTuningsArePausedAndCancelled(t *testing.T) {
	dir := t.TempDir()
	s, file := tuneStore(t, dir)
	first, second := addTuning(t, s, file).ID, addTuning(t, s, file).ID
	save := func(ctx context.Context, w *Work) error { // it runs until it is stopped
		if w.Job.ID == second {
			return succeed(w)
		}
		if err := w.Begin(1, 1, 1, time.Now()); err != nil {
			return err
		}
		<-ctx.Done()
		if err := w.Reserve(1000); err != nil {
			return err
		}
		if err := os.WriteFile(w.State(), make([]byte, 1000), 0o600); err != nil {
			return err
		}
		return ctx.Err()
	}
	tuneUntil(t, s, save, func() bool {
		if s.tuneStatus(first) == TuneRunning {
			if job, err := s.PauseTuning("me", first); err != nil || job.Status != TunePaused {
				t.Errorf("%+v, %v", job, err)
			}
		}
		return s.tuneStatus(second) == TuneSucceeded
	})
	if s.tuneStatus(first) != TunePaused || s.journals[first].bytes != 1000 {
		t.Errorf("the paused job is %s, its state has %d bytes", s.tuneStatus(first), s.journals[first].bytes)
	}
	for name, err := range map[string]error{
		"paused again": func() error { _, err := s.PauseTuning("me", first); return err }(),
		"not paused":   func() error { _, err := s.ResumeTuning("me", second); return err }(),
		"ended":        func() error { _, err := s.CancelTuning("me", second); return err }(),
	} {
		if !errors.Is(err, ErrState) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.CancelTuning("you", first); !errors.Is(err, ErrNotFound) {
		t.Errorf("another owner cancels: %v", err)
	}
	used := s.used
	s.Close()
	if s, _ = tuneStore(t, dir); s.used != used+2 || s.journals[first].bytes != 1000 {
		t.Errorf("after a start: %d bytes, %d before, a state of %d", s.used, used, s.journals[first].bytes)
	}
	if _, err := s.ResumeTuning("me", first); err != nil {
		t.Fatal(err)
	}
	tuneUntil(t, s, save, func() bool { return s.tuneStatus(first) == TuneRunning }) // and the server ends
	if s.tuneStatus(first) != TuneRunning {
		t.Errorf("a job that ran when the server ended is %s", s.tuneStatus(first))
	}
	tuneUntil(t, s, save, func() bool {
		if s.tuneStatus(first) == TuneRunning {
			if _, err := s.CancelTuning("me", first); err != nil {
				t.Error(err)
			}
		}
		_, err := os.Stat(filepath.Join(dir, first+".state"))
		return s.tuneStatus(first) == TuneCancelled && errors.Is(err, os.ErrNotExist)
	})
	if s.used != used+2-1000 {
		t.Errorf("%d bytes are used, want %d", s.used, used+2-1000)
	}
}

// What belongs to no job, and lines that were cut short, do no harm.
func TestTuningsAreTidied(t *testing.T) {
	dir := t.TempDir()
	s, file := tuneStore(t, dir)
	job := addTuning(t, s, file).ID
	s.event(job, "info", "one", nil)
	s.Close()
	for name, text := range map[string]string{"ftjob-none.state": "x", "ftjob-none.events": "{}", ".ftjob-x.state.1.tmp": "x", job + ".state": "1234"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, job+".events"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(strings.Repeat("x", 1<<17) + "\n" + `{"id":"x","mess`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	s, _ = tuneStore(t, dir)
	s.event(job, "info", "two", nil)
	var said []string
	list, err := s.TuneEvents("me", job)
	for _, e := range list {
		said = append(said, e.Message)
	}
	if err != nil || !slices.Equal(said, []string{"one", "two"}) {
		t.Errorf("%q, %v", said, err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*none*"))
	if hidden, _ := filepath.Glob(filepath.Join(dir, ".ftjob*")); err != nil || len(left)+len(hidden) > 0 || s.journals[job].bytes != 4 {
		t.Errorf("%v, %v are left, %v; a state of %d bytes", left, hidden, err, s.journals[job].bytes)
	}
	if err := os.WriteFile(filepath.Join(dir, job+".json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := Open(dir, 1<<20, false); err == nil || !strings.Contains(err.Error(), job) {
		t.Errorf("a damaged job: %v", err)
	}
}

func TestLimitsOfTunings(t *testing.T) {
	s, file := tuneStore(t, t.TempDir())
	other, err := s.AddFile("me", "x", "batch", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		training, validation string
		want                 error
	}{
		"purpose": {other.ID, "", ErrPurpose}, "no file": {"file-x", "", ErrNotFound}, "purpose of the other": {file, other.ID, ErrPurpose},
	} {
		if _, err := s.AddTuning("me", "base", c.training, c.validation, Wishes{}, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.AddTuning("you", "base", file, "", Wishes{}, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("another owner's file: %v", err)
	}
	for range maxWaiting {
		addTuning(t, s, file)
	}
	if _, err := s.AddTuning("me", "base", file, "", Wishes{}, nil); !errors.Is(err, ErrTunings) {
		t.Errorf("one more than %d: %v", maxWaiting, err)
	}
	w := &Work{Owner: "me", Job: s.Tunings("me")[0], s: s}
	if err := w.Reserve(2 << 20); !errors.Is(err, ErrFull) {
		t.Errorf("a state that is too large: %v", err)
	}
}

// Many jobs of one owner, with models or without, leave those of others alone; owners take turns.
func TestTuningsOfOwners(t *testing.T) {
	s, file := tuneStore(t, t.TempDir())
	f, err := s.AddFile("you", "in.jsonl", PurposeTune, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := addTuning(t, s, file), addTuning(t, s, file)
	yours, err := s.AddTuning("you", "base", f.ID, "", Wishes{Epochs: 2, Rate: 0.1}, nil)
	if err != nil || yours.Settings != (TuneSettings{"auto", 0.1, 2}) {
		t.Fatalf("%+v, %v", yours.Settings, err)
	}
	var order []string
	tuneUntil(t, s, func(_ context.Context, w *Work) error {
		order = append(order, w.Job.ID)
		return succeed(w)
	}, func() bool { return s.tuneStatus(b.ID) == TuneSucceeded })
	if !slices.Equal(order, []string{a.ID, yours.ID, b.ID}) {
		t.Errorf("%q were run, want %s, %s, %s", order, a.ID, yours.ID, b.ID)
	}
	s.mu.Lock()
	for len(s.tunings) < maxTunings+1 { // all have a model
		id := newID("ftjob-")
		o := *s.tunings[a.ID]
		o.Value.ID = id
		s.tunings[id] = &o
	}
	s.mu.Unlock()
	if _, err := s.AddTuning("me", "base", file, "", Wishes{}, nil); !errors.Is(err, ErrTunings) {
		t.Errorf("one more of mine: %v", err)
	}
	if _, err := s.AddTuning("you", "base", f.ID, "", Wishes{}, nil); err != nil {
		t.Errorf("another of yours: %v", err)
	}
	if _, err := s.Tuning("you", yours.ID); err != nil {
		t.Errorf("yours that has ended: %v", err)
	}
}

// However many steps' numbers are noted, how a job ends is.
func TestLastEventIsKept(t *testing.T) {
	s, file := tuneStore(t, t.TempDir())
	job := addTuning(t, s, file).ID
	s.noted[job] = maxEvents - maxEvents/10
	s.event(job, "info", "a step", &TunePoint{Step: 1})
	s.event(job, "info", "the end", nil)
	if list, err := s.TuneEvents("me", job); err != nil || len(list) != 1 || list[0].Message != "the end" {
		t.Errorf("%+v, %v", list, err)
	}
	s.noted[job] = maxEvents
	s.event(job, "info", "too many", nil)
	if list, err := s.TuneEvents("me", job); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}
