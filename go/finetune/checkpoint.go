package finetune

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/safetensors"
	"github.com/quern-llm/quern/go/train"
)

// The names in a checkpoint: a text of the header, and tensors.
const (
	headKey                           = "quern.finetune"
	numbersName, firstName, otherName = "numbers", "first_moment", "second_moment"
	bestName                          = "best"
	beginningName                     = "beginning" // as train.Run has it, where there is one
	version                           = 2
)

// head is what a checkpoint has beside tensors.
type head struct {
	Version   int       `json:"version"`
	Model     string    `json:"model"` // its identity
	Of        string    `json:"of"`    // as train.State has it
	Held      string    `json:"held"`  // a hash of the examples that are held out
	Now       time.Time `json:"now"`
	MaxTokens int       `json:"max_tokens"`
	Settings  Settings  `json:"settings"`
	Taken     int       `json:"taken"`
	Epoch     int       `json:"epoch"`
	At        int       `json:"at"`
	Progress  progress  `json:"progress"`
}

// Save writes what a run goes on from, to a file that is replaced as a whole, and that only its owner reads: what was learnt may
// be nobody else's. now is the Renderer's time.
func (j *Job) Save(path string, now time.Time) error {
	s := j.run.State()
	h := head{version, j.trainer.Identity(), hex.EncodeToString(s.Of[:]), digest(j.Held), now, j.MaxTokens, j.Settings, s.Taken, s.Epoch, s.At, j.progress}
	text, err := json.Marshal(h)
	if err != nil {
		return err
	}
	var w safetensors.Writer
	w.Set(headKey, string(text))
	n := []uint64{uint64(len(s.Numbers))}
	w.AddFloats(numbersName, n, s.Numbers)
	w.AddFloats(firstName, n, s.FirstMoment)
	w.AddFloats(otherName, []uint64{uint64(len(s.SecondMoment))}, s.SecondMoment)
	if j.Evaluated >= 0 {
		w.AddFloats(bestName, n, j.Numbers())
	}
	if beginning := j.run.Beginning(j.Held); beginning != nil {
		w.AddFloats(beginningName, []uint64{uint64(len(beginning))}, beginning)
	}
	_, err = newfile.Write(path, true, 0o600, w.Size(), func(out io.Writer) (int64, error) { return w.WriteTo(out) })
	return err
}

// A Checkpoint is a file of Save.
type Checkpoint struct {
	Now  time.Time // the Renderer's
	head head
	path string
	file *safetensors.Checkpoint
}

// OpenCheckpoint reads the header of a checkpoint.
func OpenCheckpoint(path string) (*Checkpoint, error) {
	file, err := safetensors.OpenFile(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{path: filepath.Clean(path), file: file}
	if err := c.read(); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s: %w", c.path, err)
	}
	return c, nil
}

func (c *Checkpoint) read() error {
	text := c.file.Metadata(headKey)
	if text == "" {
		return errors.New("no checkpoint of a fine-tuning")
	}
	if err := json.Unmarshal([]byte(text), &c.head); err != nil {
		return fmt.Errorf("no checkpoint of a fine-tuning: %w", err)
	}
	h := &c.head
	if h.Version != version {
		return fmt.Errorf("a checkpoint of version %d, want %d; begin anew", h.Version, version)
	}
	if h.MaxTokens < 1 || h.MaxTokens > maxTokens || h.Taken < 0 || len(h.Progress.Points) > h.Taken+1 ||
		h.Progress.Evaluated < -1 || h.Progress.Evaluated > h.Taken {
		return errors.New("a damaged checkpoint: its numbers do not fit together")
	}
	c.Now = h.Now
	return nil
}

// Close closes the file.
func (c *Checkpoint) Close() error { return c.file.Close() }

// Plan makes chunks of a plan as large as the checkpoint's, for good. Where a setting is another, the error is a *Changed.
func (c *Checkpoint) Plan(p *Plan) error {
	if changed := differ(c.head.Settings, p.Settings); changed != nil {
		changed.path = c.path
		return changed
	}
	p.fixed = true
	return p.divide(c.head.MaxTokens)
}

// Changed is the error of a checkpoint whose run began with another setting.
type Changed struct {
	Setting string // the field of Settings, or what callers know it by, which may set it
	Was, Is string
	path    string
}

// Error implements error.
func (e *Changed) Error() string {
	return fmt.Sprintf("%s: %s was %s when the run began, and is %s; give what it was, or begin anew", e.path, e.Setting, e.Was, e.Is)
}

// differ returns a setting in which two differ, nil if there is none. The patience may be another: what was learnt does not
// depend on it.
func differ(was, is Settings) *Changed {
	was.Patience = is.Patience
	fields := func(s Settings) map[string]any {
		var m map[string]any
		text, err := json.Marshal(s)
		if err == nil {
			err = json.Unmarshal(text, &m)
		}
		if err != nil {
			return nil
		}
		if l, ok := m["LoRA"].(map[string]any); ok {
			delete(m, "LoRA")
			delete(l, "Seed")
			maps.Copy(m, l)
		}
		return m
	}
	before, now := fields(was), fields(is)
	for _, name := range slices.Sorted(maps.Keys(now)) {
		if a, b := fmt.Sprint(before[name]), fmt.Sprint(now[name]); a != b {
			return &Changed{Setting: name, Was: a, Is: b}
		}
	}
	return nil
}

// Restore has the Job go on from a checkpoint. Where that does not fit, the Job is as it was; where it cannot be read after all,
// the Job is over.
func (j *Job) Restore(c *Checkpoint) error {
	if err := j.restore(c); err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	return nil
}

func (j *Job) restore(c *Checkpoint) error {
	h := &c.head
	if h.Model != j.trainer.Identity() {
		return errors.New("another model than the one that the run began with")
	}
	if digest(j.Held) != h.Held {
		return errors.New("the examples that are held out are not those that the run began with")
	}
	of, err := hex.DecodeString(h.Of)
	own := j.run.State()
	if err != nil || len(of) != len(own.Of) {
		return errors.New("a damaged checkpoint")
	}
	if !bytes.Equal(of, own.Of[:]) {
		return errors.New("the examples, or how the model's template writes them, are not those that the run began with")
	}
	var best []float32
	if h.Progress.Evaluated >= 0 {
		if j.best == nil {
			return errors.New("the run had examples held out, and has none")
		}
		best = mem.Float32s(j.best.Bytes())[:len(own.Numbers)]
	}
	var beginning []float32
	if c.file.Tensor(beginningName) != nil || h.Taken > 0 && j.comparesWithBeginning() {
		beginning = make([]float32, len(j.Texts)+len(j.Held))
	}
	names := []string{numbersName, firstName, otherName, bestName, beginningName}
	memory := [][]float32{own.Numbers, own.FirstMoment, own.SecondMoment, best, beginning}
	for i, name := range names {
		if err := c.look(name, len(memory[i])); err != nil {
			return err
		}
	}
	err = j.run.Load(train.State{Of: own.Of, Taken: h.Taken, Epoch: h.Epoch, At: h.At}, func(train.State) error {
		for i, name := range names {
			if len(memory[i]) > 0 {
				if err := c.file.Tensor(name).Floats(memory[i], 0); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err == nil && beginning != nil {
		err = j.run.Know(j.Held, beginning)
	}
	if err != nil {
		return err
	}
	j.progress = h.Progress
	j.Early = j.impatient()
	return nil
}

// look returns an error if a tensor has not n numbers, or some that cannot be, before any are put in place of the Job's.
func (c *Checkpoint) look(name string, n int) error {
	if n == 0 {
		return nil
	}
	t := c.file.Tensor(name)
	if t == nil || t.Elems() != uint64(n) {
		return fmt.Errorf("tensor %s is missing, or of another size than the %d numbers here", name, n)
	}
	some := make([]float32, min(n, 1<<16))
	for at := 0; at < n; at += len(some) {
		some = some[:min(len(some), n-at)]
		if err := t.Floats(some, uint64(at)); err != nil {
			return err
		}
		for _, v := range some {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) || name == otherName && v < 0 {
				return fmt.Errorf("tensor %s has %v, which it cannot have", name, v)
			}
		}
	}
	return nil
}

// digest is what a checkpoint has of the examples that are held out.
func digest(held []model.Text) string {
	of := train.Digest(held)
	return hex.EncodeToString(of[:])
}
