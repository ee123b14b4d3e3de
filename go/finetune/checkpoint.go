package finetune

import (
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
	"github.com/quern-llm/quern/go/safetensors"
	"github.com/quern-llm/quern/go/train"
)

// The names in a checkpoint: a text of the header, and tensors.
const (
	headKey                           = "quern.finetune"
	numbersName, firstName, otherName = "numbers", "first_moment", "second_moment"
	bestName                          = "best"
	version                           = 1
)

// head is what a checkpoint has beside tensors.
type head struct {
	Version   int       `json:"version"`
	Model     string    `json:"model"` // its identity
	Of        string    `json:"of"`    // as train.State has it
	Now       time.Time `json:"now"`
	MaxTokens int       `json:"max_tokens"`
	Settings  Settings  `json:"settings"`
	Taken     int       `json:"taken"`
	Epoch     int       `json:"epoch"`
	At        int       `json:"at"`
	Progress  progress  `json:"progress"`
}

// Save writes what a run goes on from, to a file that is replaced as a whole. now is the Renderer's time.
func (j *Job) Save(path string, now time.Time) error {
	s := j.run.State()
	h := head{version, j.trainer.Identity(), hex.EncodeToString(s.Of[:]), now, j.MaxTokens, j.Settings, s.Taken, s.Epoch, s.At, j.progress}
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
	_, err = newfile.Write(path, true, 0o644, w.Size(), func(out io.Writer) (int64, error) { return w.WriteTo(out) })
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

// Plan makes chunks of a plan as large as the checkpoint's. An error names a setting that is another.
func (c *Checkpoint) Plan(p *Plan) error {
	if err := differ(c.head.Settings, p.Settings); err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	return p.divide(c.head.MaxTokens)
}

// differ returns an error that names a setting in which two differ.
func differ(was, is Settings) error {
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
			return fmt.Errorf("%s was %s when the run began, and is %s; give what it was, or begin anew", name, a, b)
		}
	}
	return nil
}

// Restore has the Job go on from a checkpoint.
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
	n := len(j.run.State().Numbers)
	names := []string{numbersName, firstName, otherName}
	if h.Progress.Evaluated >= 0 {
		if j.best == nil {
			return errors.New("the run had examples held out, and has none")
		}
		names = append(names, bestName)
	}
	read := make([][]float32, len(names))
	for i, name := range names {
		t, n := c.file.Tensor(name), n
		if name == otherName {
			n = len(j.run.State().SecondMoment)
		}
		if t == nil || t.Elems() != uint64(n) {
			return fmt.Errorf("tensor %s is missing, or of another size than the %d numbers here", name, n)
		}
		read[i] = make([]float32, n)
		if err := t.Floats(read[i], 0); err != nil {
			return err
		}
		for _, v := range read[i] {
			if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
				return fmt.Errorf("tensor %s has numbers that are not finite", name)
			}
		}
	}
	s := train.State{Taken: h.Taken, Epoch: h.Epoch, At: h.At, Numbers: read[0], FirstMoment: read[1], SecondMoment: read[2]}
	of, err := hex.DecodeString(h.Of)
	if err != nil || len(of) != len(s.Of) {
		return errors.New("a damaged checkpoint")
	}
	copy(s.Of[:], of)
	if own := j.run.State().Of; s.Of != own {
		return errors.New("the examples, or how the model's template writes them, are not those that the run began with")
	}
	if err := j.run.Restore(s); err != nil {
		return err
	}
	j.progress = h.Progress
	if h.Progress.Evaluated >= 0 {
		copy(mem.Float32s(j.best.Bytes()), read[3])
	}
	return nil
}
