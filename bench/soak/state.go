package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A state is what the parts of a soak share, in a folder:
//
//	state.json    this
//	alone-*.jsonl what a quiet server answered, by hash
//	data/         of the server: models, caches, batches, slots
//	logs/         of servers
type state struct {
	Seed    uint64    `json:"seed"`
	Next    int       `json:"next"` // epoch
	Parts   int       `json:"parts"`
	Batches []batch   `json:"batches,omitempty"` // that have not been looked at
	Lost    []string  `json:"lost,omitempty"`    // files of batches that a disk failed, whose end may not be on it
	Epochs  []outcome `json:"epochs,omitempty"`

	config *config
	lock   *os.File
	log    *os.File
}

// openState reads a folder's state, or begins one. A folder is used by one soak at a time.
func openState(c *config) (s *state, err error) {
	if err := os.MkdirAll(c.state, 0o755); err != nil {
		return nil, err
	}
	s = &state{config: c}
	if s.lock, err = os.OpenFile(filepath.Join(c.state, "lock"), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.lock.Close()
			s = nil
		}
	}()
	if err := unix.Flock(int(s.lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return s, fmt.Errorf("%s: another soak runs there", c.state)
	}
	b, err := os.ReadFile(s.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if s.Seed = c.seed; s.Seed == 0 {
			s.Seed = uint64(time.Now().UnixNano()) >> 10
		}
	case err != nil:
		return s, err
	default:
		if err := json.Unmarshal(b, s); err != nil {
			return s, fmt.Errorf("%s: %w", s.path(), err)
		}
		if c.seed != 0 && c.seed != s.Seed {
			return s, fmt.Errorf("--seed %d: the soak in %s has %d", c.seed, c.state, s.Seed)
		}
	}
	s.Parts++
	if c.only >= 0 {
		s.Next = c.only
	}
	s.log, err = os.OpenFile(c.log, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	return s, err
}

func (s *state) path() string { return filepath.Join(s.config.state, "state.json") }

func (s *state) close() { s.lock.Close(); s.log.Close() }

// add keeps an epoch that has ended.
func (s *state) add(e *outcome) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := s.log.Write(append(line, '\n')); err != nil {
		return err
	}
	s.Epochs = append(s.Epochs, *e)
	if s.config.only < 0 {
		s.Next++
	}
	return s.save()
}

func (s *state) save() error {
	if s.config.only >= 0 {
		return nil
	}
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.path()+".new", b, 0o644); err != nil {
		return err
	}
	return os.Rename(s.path()+".new", s.path())
}

func (s *state) problems() (n int) {
	for _, e := range s.Epochs {
		n += len(e.Problems)
	}
	return n
}

// An outcome is what an epoch has shown. Times are in milliseconds.
type outcome struct {
	Epoch    int            `json:"epoch"`
	Seed     uint64         `json:"seed"`
	At       time.Time      `json:"at"`
	Seconds  float64        `json:"seconds"`
	Faults   []string       `json:"faults"`
	Requests int            `json:"requests"`
	Same     int            `json:"same"`     // finished, with the text of a quiet server
	Parts    int            `json:"parts"`    // left or cut, of which the beginning was the same
	Refused  int            `json:"refused"`  // as they should be: nonsense, and a full queue
	Faulted  int            `json:"faulted"`  // failed, which a fault explains
	Kinds    map[string]int `json:"kinds"`    // of requests
	Statuses map[string]int `json:"statuses"` // 0 is no answer
	Batches  int            `json:"batches"`  // that ended, with all their texts
	Carried  int            `json:"carried"`  // of these, which a server did not begin that ended them
	Restarts int            `json:"restarts"`
	Restored float64        `json:"restored_tokens"` // from the disk
	Floor    floor          `json:"floor"`
	GapP50   float64        `json:"gap_p50_ms"` // of streams without a fault
	GapP99   float64        `json:"gap_p99_ms"`
	FirstP99 float64        `json:"first_p99_ms"`
	Problems []problem      `json:"problems,omitempty"`
}

// line is the outcome for people.
func (o *outcome) line() string {
	verdict := "as it should be"
	if n := len(o.Problems); n > 0 {
		verdict = fmt.Sprintf("%d PROBLEMS", n)
	}
	return fmt.Sprintf("epoch %d [%s]: %d requests in %.0f s, %d same, %d in part, %d refused, %d by faults, %d batches, %d MiB, gap p99 %.0f ms: %s",
		o.Epoch, strings.Join(o.Faults, " "), o.Requests, o.Seconds, o.Same, o.Parts, o.Refused, o.Faulted, o.Batches, o.Floor.RSS>>20, o.GapP99, verdict)
}

// A problem is what no fault explains, with what repeats it.
type problem struct {
	Seed    uint64 `json:"seed"`
	Epoch   int    `json:"epoch"`
	Request int    `json:"request"` // -1: of none
	Kind    string `json:"kind"`
	What    string `json:"what"`
	Body    string `json:"body,omitempty"`
}

func (p problem) String() string {
	return fmt.Sprintf("--seed %d --only %d, request %d (%s): %s\n\t%s", p.Seed, p.Epoch, p.Request, p.Kind, p.What, p.Body)
}
