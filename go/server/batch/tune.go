package batch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"
)

// The purposes of files that fine-tuning jobs learn from, and that they make.
const (
	PurposeTune   = "fine-tune"
	PurposeResult = "fine-tune-results"
)

// The states of a fine-tuning job.
const (
	TuneChecking  = "validating_files"
	TuneQueued    = "queued"
	TuneRunning   = "running"
	TunePaused    = "paused"
	TuneSucceeded = "succeeded"
	TuneFailed    = "failed"
	TuneCancelled = "cancelled"
)

// Limits of fine-tuning jobs.
const (
	MaxTuneFile = 32 << 20 // bytes of a file of examples
	maxTunings  = 1_000    // jobs of an owner
	maxWaiting  = 20       // of them that have not ended
	maxEvents   = 10_000   // of a job; later ones are not kept
)

// Errors about fine-tuning jobs that a client can resolve.
var (
	ErrTunings  = errors.New("too many fine-tuning jobs; wait for some, cancel them, or delete the files of fine-tuned models")
	ErrPurpose  = errors.New("want a file that was uploaded with purpose=fine-tune")
	ErrTuneFile = fmt.Errorf("want a file of at most %d MiB of examples", MaxTuneFile>>20)
	ErrState    = errors.New("the job is in another state")
	ErrTuned    = errors.New("no such fine-tuned model")
)

// TuneSettings are what a fine-tuning job shows of its settings: numbers, or until the job has begun "auto" for what is chosen.
type TuneSettings struct {
	Batch  any  `json:"batch_size"`
	Rate   any  `json:"learning_rate_multiplier"`
	Epochs any  `json:"n_epochs"`
	Beta   any  `json:"beta,omitempty"` // of DPO
	DoRA   bool `json:"dora,omitzero"`  // Quern's own: the adapter has magnitudes
}

// The methods of fine-tuning.
const (
	Supervised = "supervised"
	DPO        = "dpo" // of pairs of a better and a worse answer
)

// A TuneMethod says how a model is fine-tuned.
type TuneMethod struct {
	Type       string      `json:"type"`
	Supervised *tunedUnder `json:"supervised,omitempty"`
	DPO        *tunedUnder `json:"dpo,omitempty"`
}

type tunedUnder struct {
	Settings TuneSettings `json:"hyperparameters"`
}

// A TuneFault is why a fine-tuning job has failed.
type TuneFault struct {
	Code    string  `json:"code"`
	Message string  `json:"message"`
	Param   *string `json:"param"`
}

func (f *TuneFault) Error() string { return f.Message }

// A Tuning is a fine-tuning job as the API shows it.
type Tuning struct {
	ID           string            `json:"id"`
	Object       string            `json:"object"`
	Model        string            `json:"model"`
	Created      int64             `json:"created_at"`
	Finished     *int64            `json:"finished_at"`
	Estimated    *int64            `json:"estimated_finish"`
	Tuned        *string           `json:"fine_tuned_model"`
	Organization string            `json:"organization_id"`
	Results      []string          `json:"result_files"`
	Status       string            `json:"status"`
	Training     string            `json:"training_file"`
	Validation   *string           `json:"validation_file"`
	Settings     *TuneSettings     `json:"hyperparameters,omitempty"` // of supervised jobs
	Method       TuneMethod        `json:"method"`
	Tokens       *int              `json:"trained_tokens"`
	Error        *TuneFault        `json:"error"`
	Seed         int               `json:"seed"`
	Suffix       *string           `json:"user_provided_suffix"`
	Integrations []string          `json:"integrations"`
	Metadata     map[string]string `json:"metadata"`
}

// Ended reports whether the job is in a final state.
func (t *Tuning) Ended() bool {
	return slices.Contains([]string{TuneSucceeded, TuneFailed, TuneCancelled}, t.Status)
}

// Wishes are what a fine-tuning job is asked for; what is 0 is chosen.
type Wishes struct {
	Method   string // empty: Supervised
	Beta     float64
	DoRA     bool
	Epochs   int
	Examples int     // of a step
	Rate     float64 // in relation to the usual
	Seed     int
	Suffix   string // of the name
}

// A TunePoint is what is known of a step of a fine-tuning job.
type TunePoint struct {
	Step int     `json:"step"`
	Loss float64 `json:"train_loss,omitzero"`
	Held float64 `json:"valid_loss,omitzero"`
	Full float64 `json:"full_valid_loss,omitzero"` // Held, of all examples
}

// A TuneCheckpoint is the numbers that a fine-tuning job ended with, as the API shows it.
type TuneCheckpoint struct {
	ID      string    `json:"id"`
	Object  string    `json:"object"`
	Created int64     `json:"created_at"`
	Name    string    `json:"fine_tuned_model_checkpoint"`
	Job     string    `json:"fine_tuning_job_id"`
	Step    int       `json:"step_number"`
	Metrics TunePoint `json:"metrics"`
}

// A TuneEvent is something that happened to a fine-tuning job.
type TuneEvent struct {
	ID      string     `json:"id"`
	Object  string     `json:"object"`
	Created int64      `json:"created_at"`
	Level   string     `json:"level"`
	Message string     `json:"message"`
	Type    string     `json:"type"`
	Data    *TunePoint `json:"data"`
}

// A Base is the model that a job fine-tunes.
type Base struct {
	Name     string
	Identity string // a hash of its file
}

// tuning is a fine-tuning job as it is stored.
type tuning struct {
	Tuning
	Base    string     `json:"base"` // Base.Identity
	Wishes  Wishes     `json:"wishes"`
	Adapter string     `json:"adapter"` // the file
	Best    *TunePoint `json:"best"`
}

func (s *Store) events(id string) string { return s.path(id + ".events") }
func (s *Store) state(id string) string  { return s.path(id + ".state") }

// AddTuning creates a fine-tuning job of an owner. It is run when the server is idle.
func (s *Store) AddTuning(owner string, base Base, training, validation string, w Wishes, metadata map[string]string) (Tuning, error) {
	t := tuning{Base: base.Identity, Wishes: w, Tuning: Tuning{
		ID: newID("ftjob-"), Object: "fine_tuning.job", Model: base.Name, Created: time.Now().Unix(), Status: TuneQueued,
		Training: training, Seed: w.Seed, Metadata: metadata, Results: []string{}, Integrations: []string{},
	}}
	t.show(TuneSettings{Batch: orAuto(w.Examples), Rate: orAuto(w.Rate), Epochs: orAuto(w.Epochs), Beta: orAuto(w.Beta), DoRA: w.DoRA})
	if validation != "" {
		t.Validation = &validation
	}
	if w.Suffix != "" {
		t.Suffix = &w.Suffix
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range []string{training, validation} {
		if id == "" {
			continue
		}
		switch f, err := get(s.files, owner, id); {
		case err != nil:
			return t.Tuning, err
		case f.Purpose != PurposeTune:
			return t.Tuning, fmt.Errorf("%.64q: %w", id, ErrPurpose)
		case f.Bytes > MaxTuneFile:
			return t.Tuning, fmt.Errorf("%.64q: %w", id, ErrTuneFile)
		}
	}
	if err := s.full(owner); err != nil {
		return t.Tuning, err
	}
	own := func(o *owned[tuning]) bool { return o.Owner == owner }
	if err := s.forgetTunings(own, maxTunings); err != nil {
		return t.Tuning, err
	}
	if err := s.forgetTunings(func(*owned[tuning]) bool { return true }, maxItems); err != nil {
		return t.Tuning, err
	}
	waiting := 0
	for _, o := range s.tunings {
		if own(o) && !o.Value.Ended() {
			waiting++
		}
	}
	if waiting >= maxWaiting {
		return t.Tuning, ErrTunings
	}
	if err := add(s, s.tunings, owner, t.ID, t); err != nil {
		return t.Tuning, err
	}
	nudge(s.tuneChanged)
	return t.Tuning, nil
}

// orAuto is what the API shows of a wish.
func orAuto[T int | float64](v T) any {
	if v == 0 {
		return "auto"
	}
	return v
}

// show sets the settings that the API shows.
func (t *tuning) show(s TuneSettings) {
	if t.Wishes.Method == DPO {
		t.Method = TuneMethod{Type: DPO, DPO: &tunedUnder{s}}
		return
	}
	s.Beta = nil
	t.Settings, t.Method = &s, TuneMethod{Type: Supervised, Supervised: &tunedUnder{s}}
}

// forgetTunings removes the oldest jobs of a kind that have ended without a model, or whose model was deleted, until there are
// fewer than bound. One that was cancelled and still stops stays. s.mu is held.
func (s *Store) forgetTunings(of func(*owned[tuning]) bool, bound int) error {
	over, ok := surplus(s.tunings, of, bound, func(t *tuning) bool { return t.Ended() && s.files[t.Adapter] == nil && t.ID != s.active.id })
	if !ok {
		return ErrTunings
	}
	for _, t := range over {
		if err := s.remove(t.ID+".json", t.ID+".events"); err != nil {
			return err
		}
		delete(s.tunings, t.ID)
		s.eventsMu.Lock()
		delete(s.noted, t.ID)
		s.eventsMu.Unlock()
	}
	return nil
}

// Tuning returns a fine-tuning job of an owner.
func (s *Store) Tuning(owner, id string) (Tuning, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := get(s.tunings, owner, id)
	return t.Tuning, err
}

// Tunings returns the fine-tuning jobs of an owner, newest first.
func (s *Store) Tunings(owner string) []Tuning {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := []Tuning{}
	for _, t := range sorted(s.tunings, owner) {
		list = append(list, t.Tuning)
	}
	return list
}

// move changes the state of a job of an owner from one of some to another.
func (s *Store) move(owner, id, to string, from ...string) (Tuning, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := get(s.tunings, owner, id); err != nil {
		return Tuning{}, err
	}
	t, err := alter(s, s.tunings, id, func(t *tuning) error {
		if !slices.Contains(from, t.Status) {
			return fmt.Errorf("%w: it is %s", ErrState, t.Status)
		}
		if t.Status = to; to == TuneCancelled {
			now := time.Now().Unix()
			t.Finished, t.Estimated = &now, nil
		}
		return nil
	})
	if err != nil {
		return t.Tuning, err
	}
	if s.active.id == id && to != TuneQueued {
		s.active.moved = true
		s.active.stop()
	} else if to == TuneCancelled {
		s.dropState(id)
	}
	nudge(s.tuneChanged)
	return t.Tuning, nil
}

// CancelTuning ends a fine-tuning job of an owner.
func (s *Store) CancelTuning(owner, id string) (Tuning, error) {
	t, err := s.move(owner, id, TuneCancelled, TuneChecking, TuneQueued, TuneRunning, TunePaused)
	if err == nil {
		s.event(id, "info", "The job was cancelled.", nil)
	}
	return t, err
}

// PauseTuning has a fine-tuning job of an owner wait until it is resumed.
func (s *Store) PauseTuning(owner, id string) (Tuning, error) {
	t, err := s.move(owner, id, TunePaused, TuneChecking, TuneQueued, TuneRunning)
	if err == nil {
		s.event(id, "info", "The job is paused.", nil)
	}
	return t, err
}

// ResumeTuning has a fine-tuning job go on that was paused.
func (s *Store) ResumeTuning(owner, id string) (Tuning, error) {
	t, err := s.move(owner, id, TuneQueued, TunePaused)
	if err == nil {
		s.event(id, "info", "The job goes on.", nil)
	}
	return t, err
}

// TuneCheckpoints returns the numbers that a fine-tuning job of an owner ended with: the best ones, which are the model's.
func (s *Store) TuneCheckpoints(owner, id string) ([]TuneCheckpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := get(s.tunings, owner, id)
	if err != nil || t.Status != TuneSucceeded || t.Best == nil {
		return []TuneCheckpoint{}, err
	}
	metrics := *t.Best
	metrics.Full = metrics.Held
	return []TuneCheckpoint{{
		ID: "ftckpt-" + strings.TrimPrefix(id, "ftjob-"), Object: "fine_tuning.job.checkpoint", Created: *t.Finished, Name: *t.Tuning.Tuned,
		Job: id, Step: metrics.Step, Metrics: metrics,
	}}, nil
}

// A TunedModel is a model that a fine-tuning job has made.
type TunedModel struct {
	Name    string
	Base    Base
	Path    string // of the adapter
	Created int64
}

// Tuned returns a model that a job of an owner has made, by its name, unless its file was deleted.
func (s *Store) Tuned(owner, name string) (TunedModel, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.named(owner, name); t != nil {
		return s.tunedModel(t), true
	}
	return TunedModel{}, false
}

// named returns the job that has made a model of an owner which is not deleted; nil: there is none. s.mu is held.
func (s *Store) named(owner, name string) *tuning {
	for _, o := range s.tunings {
		if t := &o.Value; o.Owner == owner && t.Tuning.Tuned != nil && *t.Tuning.Tuned == name && s.files[t.Adapter] != nil {
			return t
		}
	}
	return nil
}

func (s *Store) tunedModel(t *tuning) TunedModel {
	return TunedModel{*t.Tuning.Tuned, Base{t.Model, t.Base}, s.path(t.Adapter + ".data"), t.Created}
}

// RemoveTuned deletes a model that a job of an owner has made, with the file of its adapter. The job and its other results stay.
func (s *Store) RemoveTuned(owner, name string) error {
	s.mu.Lock()
	t, file := s.named(owner, name), ""
	if t != nil {
		file = t.Adapter
	}
	s.mu.Unlock()
	if t == nil {
		return fmt.Errorf("%w: %.200q", ErrTuned, strings.ToValidUTF8(name, "?"))
	}
	return s.RemoveFile(owner, file)
}

// OnUntuned has f called with the name of each model whose adapter was deleted. It is set before the store is used.
func (s *Store) OnUntuned(f func(name string)) { s.untuned = f }

// madeOf returns the name of the model whose adapter is a file; "": it is none's. s.mu is held.
func (s *Store) madeOf(file string) string {
	for _, o := range s.tunings {
		if t := &o.Value; t.Adapter == file && t.Tuning.Tuned != nil {
			return *t.Tuning.Tuned
		}
	}
	return ""
}

// TunedModels returns the models that jobs of an owner have made, newest first.
func (s *Store) TunedModels(owner string) (list []TunedModel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range sorted(s.tunings, owner) {
		if t.Tuning.Tuned != nil && s.files[t.Adapter] != nil {
			list = append(list, s.tunedModel(&t))
		}
	}
	return list
}

// TuneEvents returns what happened to a fine-tuning job of an owner, oldest first.
func (s *Store) TuneEvents(owner, id string) ([]TuneEvent, error) {
	if _, err := s.Tuning(owner, id); err != nil {
		return nil, err
	}
	return s.readEvents(id)
}

func (s *Store) readEvents(id string) ([]TuneEvent, error) {
	list := []TuneEvent{}
	f, err := os.Open(s.events(id))
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for in := bufio.NewReaderSize(f, 1<<16); ; {
		line, long, err := in.ReadLine()
		for more := long; more && err == nil; {
			_, more, err = in.ReadLine()
		}
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		var e TuneEvent
		if !long && json.Unmarshal(line, &e) == nil { // else the process ended while it was written
			list = append(list, e)
		}
	}
}

// event appends an event. One that cannot be written is lost: it is no part of the job.
func (s *Store) event(id, level, message string, data *TunePoint) {
	e := TuneEvent{newID("ftevent-"), "fine_tuning.job.event", time.Now().Unix(), level, message, "message", data}
	if data != nil {
		e.Type = "metrics"
	}
	line, err := json.Marshal(e)
	if err != nil || len(line) > 1<<15 {
		return
	}
	s.eventsMu.Lock()
	defer s.eventsMu.Unlock()
	if _, counted := s.noted[id]; !counted {
		list, err := s.readEvents(id)
		if err != nil {
			return
		}
		s.noted[id] = len(list)
	}
	most := maxEvents
	if data != nil { // what else happens, as the end, has room behind the numbers of steps
		most -= maxEvents / 10
	}
	if s.noted[id] >= most {
		return
	}
	s.noted[id]++
	f, err := os.OpenFile(s.events(id), os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return
	}
	defer f.Close()
	if n, err := f.Seek(0, io.SeekEnd); err == nil && n > 0 {
		var last [1]byte
		if _, err := f.ReadAt(last[:], n-1); err == nil && last[0] != '\n' { // it was cut short
			line = append([]byte{'\n'}, line...)
		}
	}
	_, _ = f.Write(append(line, '\n'))
}
