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
	job, err := s.AddTuning("me", Base{"base", "1234"}, file, "", Wishes{Suffix: "x"}, nil)
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
	if err := w.Begin(TuneSettings{Batch: 2, Rate: 1, Epochs: 3}, time.Now()); err != nil {
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
		if b, err := os.ReadFile(m.Path); !ok || err != nil || string(b) != "model" || m.Base != (Base{"base", "1234"}) {
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
		if err := w.Begin(TuneSettings{Batch: 1, Rate: 1, Epochs: 1}, time.Now()); err != nil {
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
		if _, err := s.AddTuning("me", Base{"base", "1234"}, c.training, c.validation, Wishes{}, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := s.AddTuning("you", Base{"base", "1234"}, file, "", Wishes{}, nil); !errors.Is(err, ErrNotFound) {
		t.Errorf("another owner's file: %v", err)
	}
	for range maxWaiting {
		addTuning(t, s, file)
	}
	if _, err := s.AddTuning("me", Base{"base", "1234"}, file, "", Wishes{}, nil); !errors.Is(err, ErrTunings) {
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
	yours, err := s.AddTuning("you", Base{"base", "1234"}, f.ID, "", Wishes{Epochs: 2, Rate: 0.1}, nil)
	if err != nil || *yours.Settings != (TuneSettings{Batch: "auto", Rate: 0.1, Epochs: 2}) {
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
	if _, err := s.AddTuning("me", Base{"base", "1234"}, file, "", Wishes{}, nil); !errors.Is(err, ErrTunings) {
		t.Errorf("one more of mine: %v", err)
	}
	if _, err := s.AddTuning("you", Base{"base", "1234"}, f.ID, "", Wishes{}, nil); err != nil {
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

// Deleting a model or its file leaves the job, and says which model is gone.
func TestTunedModelsAreDeleted(t *testing.T) {
	s, file := tuneStore(t, t.TempDir())
	var gone []string
	s.OnUntuned(func(name string) { gone = append(gone, name) })
	a, b := addTuning(t, s, file).ID, addTuning(t, s, file).ID
	tuneUntil(t, s, func(_ context.Context, w *Work) error { return succeed(w) }, func() bool { return s.tuneStatus(b) == TuneSucceeded })
	models := s.TunedModels("me")
	first, second := models[1].Name, models[0].Name
	for _, c := range [][2]string{{"you", first}, {"me", "ft:base:x:none"}, {"me", "base"}, {"me", ""}} {
		if err := s.RemoveTuned(c[0], c[1]); !errors.Is(err, ErrTuned) {
			t.Errorf("%q: %v", c, err)
		}
	}
	if err := s.RemoveTuned("me", first); err != nil {
		t.Fatal(err)
	}
	if err := s.RemoveTuned("me", first); !errors.Is(err, ErrTuned) {
		t.Errorf("again: %v", err)
	}
	if _, err := os.Stat(models[1].Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of the adapter: %v", err)
	}
	job, err := s.Tuning("me", b)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range append(job.Results, file) {
		if err := s.RemoveFile("me", id); err != nil {
			t.Error(err)
		}
	}
	if !slices.Equal(gone, []string{first, second}) {
		t.Errorf("%q are gone, want %q and %q", gone, first, second)
	}
	if job, err := s.Tuning("me", a); err != nil || job.Status != TuneSucceeded || *job.Tuned != first || len(s.TunedModels("me")) != 0 {
		t.Errorf("%+v, %v", job, err)
	}
}

// Results have the room that was reserved for them, and no more than there is; nothing is left of what has none.
func TestRoomOfResults(t *testing.T) {
	s, file := tuneStore(t, t.TempDir())
	const quota = 1 << 20
	write := func(n int) func(string) (int64, error) {
		return func(path string) (int64, error) { return int64(n), os.WriteFile(path, make([]byte, n), 0o600) }
	}
	for _, c := range []struct {
		name                  string
		reserved, other, made int
		want                  error
	}{
		{"as reserved", 1000, 0, 900, nil},
		{"as reserved, and all else is used", 1000, quota - 1002, 900, nil},
		{"not reserved, and there is none", 0, quota - 500, 900, ErrFull},
		{"more than was reserved", 100, quota - 500, 900, ErrFull},
		{"too much to reserve", quota, 0, 900, ErrFull},
	} {
		id := addTuning(t, s, file).ID
		var used int64
		tuneUntil(t, s, func(_ context.Context, w *Work) error {
			s.mu.Lock()
			used = s.used
			s.mu.Unlock()
			if err := w.ReserveResults(int64(c.reserved)); err != nil {
				return err
			}
			if err := s.reserve("you", c.other); err != nil {
				return err
			}
			defer func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.count("you", -int64(c.other))
			}()
			_, err := w.Done(write(c.made), []byte("step\n"), TunePoint{}, 1)
			return err
		}, func() bool { job, err := s.Tuning("me", id); return err != nil || job.Ended() })
		job, err := s.Tuning("me", id)
		if err != nil {
			t.Fatal(err)
		}
		if c.want == nil {
			used += int64(c.made) + 5
		}
		if (job.Status == TuneSucceeded) != (c.want == nil) || c.want != nil && !strings.HasSuffix(job.Error.Message, c.want.Error()) || s.used != used {
			t.Errorf("%s: %s, %+v; %d bytes are used, want %d", c.name, job.Status, job.Error, s.used, used)
		}
		for _, id := range job.Results {
			if err := s.RemoveFile("me", id); err != nil {
				t.Error(err)
			}
		}
		if list := s.Files("me"); len(list) != 1 {
			t.Errorf("%s: %d files are left", c.name, len(list))
		}
	}
}

// A job that pauses itself, as where there is no room for its results any more, keeps its state and goes on when it is resumed.
func TestTuningPausesItself(t *testing.T) {
	s, file := tuneStore(t, t.TempDir())
	id, again := addTuning(t, s, file).ID, false
	do := func(ctx context.Context, w *Work) error {
		if again {
			return succeed(w)
		}
		again = true
		if err := errors.Join(w.Reserve(10), os.WriteFile(w.State(), make([]byte, 10), 0o600), w.Pause("There is no room.")); err != nil {
			return err
		}
		if ctx.Err() == nil {
			t.Error("the job is not told to stop")
		}
		return context.Canceled
	}
	logged := tuneUntil(t, s, do, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.tunings[id].Value.Status == TunePaused && s.active.id == ""
	})
	if _, err := os.Stat(s.state(id)); err != nil || len(logged) > 0 || s.journals[id].bytes != 10 {
		t.Errorf("%v, %v, %+v", err, logged, s.journals[id])
	}
	if _, err := s.ResumeTuning("me", id); err != nil {
		t.Fatal(err)
	}
	tuneUntil(t, s, do, func() bool { return s.tuneStatus(id) == TuneSucceeded })
}

// A job that was cancelled and still stops is not forgotten, however many others there are.
func TestStoppingTuningStays(t *testing.T) {
	s, file := tuneStore(t, t.TempDir())
	id := addTuning(t, s, file).ID
	all := func(*owned[tuning]) bool { return true }
	do := func(ctx context.Context, w *Work) error {
		if _, err := s.CancelTuning("me", id); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if err := s.forgetTunings(all, 1); err == nil || s.tunings[id] == nil {
			t.Errorf("the job is forgotten while it runs: %v", err)
		}
		return context.Canceled
	}
	tuneUntil(t, s, do, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.tunings[id].Value.Ended() && s.active.id == ""
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.forgetTunings(all, 1); err != nil || s.tunings[id] != nil {
		t.Errorf("the job stays: %v", err)
	}
}

// Files that a process has left which ended before its job named them are gone where the job finds no room for them.
func TestResultsWithoutRoom(t *testing.T) {
	s, file := tuneStore(t, t.TempDir())
	id := addTuning(t, s, file).ID
	var used int64
	tuneUntil(t, s, func(_ context.Context, w *Work) error {
		write := func(n int64) func(string) (int64, error) {
			return func(path string) (int64, error) { return n, os.WriteFile(path, make([]byte, n), 0o600) }
		}
		s.mu.Lock()
		used = s.used
		s.mu.Unlock()
		if _, err := w.keep("file-left", "left", write(5)); err != nil {
			t.Error(err)
		}
		_, err := w.keep("file-left", "left", write(2<<20))
		return err
	}, func() bool { return s.tuneStatus(id) == TuneFailed })
	if list := s.Files("me"); len(list) != 1 || s.used != used {
		t.Errorf("%+v, %d bytes, want %d", list, s.used, used)
	}
}

// Who learns from pairs has what DPO is set to, and no settings of answers.
func TestTuneMethods(t *testing.T) {
	s, file := tuneStore(t, t.TempDir())
	job, err := s.AddTuning("me", Base{"base", "1234"}, file, "", Wishes{Method: DPO, Beta: 0.3, Epochs: 2}, nil)
	if err != nil || job.Settings != nil || job.Method.Type != DPO || job.Method.Supervised != nil || job.Method.DPO.Settings != (TuneSettings{Batch: "auto", Rate: "auto", Epochs: 2, Beta: 0.3}) {
		t.Errorf("%+v, %v", job, err)
	}
	job, err = s.AddTuning("me", Base{"base", "1234"}, file, "", Wishes{Method: Supervised}, nil)
	if auto := (TuneSettings{Batch: "auto", Rate: "auto", Epochs: "auto", Beta: nil}); err != nil || *job.Settings != auto || job.Method.DPO != nil || job.Method.Supervised.Settings != auto {
		t.Errorf("%+v, %v", job, err)
	}
}
