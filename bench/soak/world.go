package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// A world is the server under test with all that is around it.
type world struct {
	config  *config
	state   *state
	fixture *fixture
	alone   *alone
	server  *server
	disk    *disk
	limits  *limits
	faults  []*fault
	keyFile string
	tmp     string // the server's
	logs    string

	mu       sync.Mutex
	problems []problem // of the epoch
	epochNow int

	base       floor // of the process, by which the next ones are measured
	baseStarts int   // which process that is
}

// newWorld makes what is missing and starts the server.
func newWorld(ctx context.Context, c *config, st *state) (w *world, err error) {
	data := filepath.Join(c.state, "data")
	w = &world{config: c, state: st, keyFile: filepath.Join(data, "keys"), tmp: filepath.Join(data, "tmp"), logs: filepath.Join(c.state, "logs"), baseStarts: -1}
	for _, dir := range []string{data, w.logs} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if err := os.RemoveAll(w.tmp); err != nil { // of a part that was killed
		return nil, err
	}
	if err := os.MkdirAll(w.tmp, 0o700); err != nil {
		return nil, err
	}
	sum, err := hashOf(c.program)
	if err != nil {
		return nil, err
	}
	if w.fixture, err = newFixture(c.program, filepath.Join(data, "fixture")); err != nil {
		return nil, err
	}
	if w.alone, err = openAlone(c.state, sum); err != nil {
		return nil, err
	}
	if w.disk, err = newDisk(filepath.Join(data, "disk"), filepath.Join(data, "mount")); err != nil {
		return nil, err
	}
	w.limits = newLimits()
	if err := w.keys(""); err != nil {
		return nil, err
	}
	for _, f := range allFaults() {
		switch f.name {
		case "full", "eio", "slow":
			f.impossible = w.disk.impossible
		case "memory", "cpu":
			f.impossible = w.limits.impossible
		}
		w.faults = append(w.faults, f)
	}
	sockets, err := os.MkdirTemp("", "soak") // paths of sockets are short
	if err != nil {
		return nil, err
	}
	for _, dir := range []string{"cache", "batches", "slots"} {
		if err := os.MkdirAll(filepath.Join(w.disk.path, dir), 0o700); err != nil {
			return nil, err
		}
	}
	w.server = newServer(c.program, w.logs, filepath.Join(sockets, "s.sock"), append(w.args(),
		"--models-dir", w.fixture.path("models"), "--models-preset", w.fixture.path("presets.ini"), "--queue", "48",
		"--cache-disk", filepath.Join(w.disk.path, "cache"), "--cache-disk-size", "48M", "--batch-dir", filepath.Join(w.disk.path, "batches"),
		"--slot-save-path", filepath.Join(w.disk.path, "slots"), "--api-key-file", w.keyFile, "--timeout", "20", "--drain", "4s",
	), []string{"TMPDIR=" + w.tmp})
	w.server.died = func(what string) { w.problem(-1, "server", what, nil) }
	if err := w.server.start(ctx); err != nil {
		return nil, errors.Join(err, w.close())
	}
	return w, nil
}

// args are the flags of the server under test, and of the quiet one.
func (w *world) args() []string {
	return []string{
		"-m", "demo=" + w.fixture.path("demo.gguf"), "--lora", "poet=" + w.fixture.path("adapters/poet.gguf"), "--lora-init-without-apply",
		"--lora-dir", w.fixture.path("adapters"), "-c", "1024", "--parallel", "8", "--kv-memory", "6M", "--log-level", "warn", "--offline",
	}
}

// quiet starts a server that nobody else uses. stop ends it.
func (w *world) quiet(ctx context.Context) (c *client, stop func() error, err error) {
	dir, err := os.MkdirTemp("", "soak")
	if err != nil {
		return nil, nil, err
	}
	logs := filepath.Join(w.logs, "quiet")
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, nil, err
	}
	s := newServer(w.config.program, logs, filepath.Join(dir, "s.sock"), append(w.args(),
		"--models-dir", w.fixture.path("models"), "--models-preset", w.fixture.path("presets.ini"), "--api-key", adminKey), nil)
	stop = func() error { return errors.Join(s.close(), os.RemoveAll(dir)) }
	return s.client, stop, s.start(ctx)
}

// close ends the server as an operator does.
func (w *world) close() error {
	err := w.server.close()
	return errors.Join(err, w.disk.close(), os.RemoveAll(filepath.Dir(w.server.client.socket)))
}

// problem notes what no fault explains.
func (w *world) problem(request int, kind, what string, body []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	const most = 2000
	w.problems = append(w.problems, problem{w.state.Seed, w.epochNow, request, kind, what, string(body[:min(len(body), most)])})
}

// impossible lists the faults that cannot be made here, and why.
func (w *world) impossible() (all []string) {
	for _, f := range w.faults {
		if f.impossible != "" {
			all = append(all, f.name+": "+f.impossible)
		}
	}
	return all
}

// hashOf returns the beginning of the hash of a file.
func hashOf(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// until asks ok again and again, until it is so or patience has ended.
func until(ctx context.Context, ok func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end) && ctx.Err() == nil; {
		if ok() {
			return true
		}
		wait(ctx, 50*time.Millisecond)
	}
	return false
}
