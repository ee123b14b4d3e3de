package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A fault is what is done to a server. What it explains is what it may do to others: no answer at all, statuses, and
// trouble with files.
type fault struct {
	name       string
	impossible string        // why it cannot be done here
	least      time.Duration // that it lasts
	after      time.Duration // in which it may still explain something: limits and keys are read again now and then
	cuts       bool          // connections may end
	statuses   []int         // of any request
	disk       bool          // what is kept on disk may fail
	begin      func(ctx context.Context, w *world) error
	end        func(ctx context.Context, w *world) error
}

// faultNames are the names of all.
func faultNames() (names []string) {
	for _, f := range allFaults() {
		names = append(names, f.name)
	}
	return names
}

// follows is longer than the server takes to see that limits or keys have changed.
const follows = 5 * time.Second

func allFaults() []*fault {
	return []*fault{
		{name: "kill", cuts: true, statuses: []int{503}, begin: func(ctx context.Context, w *world) error {
			if _, err := w.server.end(syscall.SIGKILL); err != nil {
				return err
			}
			return w.server.start(ctx)
		}},
		// Those that run may finish, and get 503 if they do not.
		{name: "restart", cuts: true, statuses: []int{503}, begin: func(ctx context.Context, w *world) error {
			if err := w.server.close(); err != nil {
				return err
			}
			return w.server.start(ctx)
		}},
		{name: "freeze", begin: func(ctx context.Context, w *world) error {
			pid := w.server.pid()
			if err := unix.Kill(pid, unix.SIGSTOP); err != nil {
				return err
			}
			defer unix.Kill(pid, unix.SIGCONT)
			wait(ctx, 2*time.Second)
			return nil
		}},
		{name: "full", least: time.Second, disk: true,
			begin: func(ctx context.Context, w *world) error { return w.disk.set(diskFull) },
			end:   func(ctx context.Context, w *world) error { return w.disk.set(diskWorks) }},
		{name: "eio", least: time.Second, disk: true,
			begin: func(ctx context.Context, w *world) error { return w.disk.set(diskFails) },
			end:   func(ctx context.Context, w *world) error { return w.disk.set(diskWorks) }},
		{name: "slow", least: time.Second, disk: true,
			begin: func(ctx context.Context, w *world) error { return w.disk.set(diskSlow) },
			end:   func(ctx context.Context, w *world) error { return w.disk.set(diskWorks) }},
		// No file may grow beyond some KB, whatever disk it is on.
		{name: "fsize", least: time.Second, disk: true,
			begin: func(ctx context.Context, w *world) error { return softLimit(w.server.pid(), unix.RLIMIT_FSIZE, 16<<10) },
			end: func(ctx context.Context, w *world) error {
				return softLimit(w.server.pid(), unix.RLIMIT_FSIZE, unix.RLIM_INFINITY)
			}},
		// A few descriptors are left: who connects waits, or is turned away, and no file can be opened.
		{name: "descriptors", least: time.Second, disk: true, cuts: true,
			begin: func(ctx context.Context, w *world) error {
				open, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", w.server.pid()))
				if err != nil {
					return err
				}
				return softLimit(w.server.pid(), unix.RLIMIT_NOFILE, uint64(len(open)+4))
			},
			end: func(ctx context.Context, w *world) error { return softLimit(w.server.pid(), unix.RLIMIT_NOFILE, 4096) }},
		{name: "memory", least: 6 * time.Second, after: follows, statuses: []int{503},
			begin: func(ctx context.Context, w *world) error {
				m, err := readMetrics(ctx, w.server.client)
				if err != nil {
					return err
				}
				return w.limits.memory(uint64(m.sum("quern_memory_bytes") * 0.9))
			},
			end: func(ctx context.Context, w *world) error { return w.limits.memory(0) }},
		{name: "cpu", least: 6 * time.Second, after: follows,
			begin: func(ctx context.Context, w *world) error { return w.limits.cpus(1) },
			end:   func(ctx context.Context, w *world) error { return w.limits.cpus(0) }},
		// The guest has next to nothing left, and is there again later.
		{name: "quota", least: 4 * time.Second, after: follows, statuses: []int{429},
			begin: func(ctx context.Context, w *world) error { return w.keys(" rpm=5 tpm-out=50") },
			end:   func(ctx context.Context, w *world) error { return w.keys("") }},
		{name: "key", least: 4 * time.Second, after: follows, statuses: []int{401},
			begin: func(ctx context.Context, w *world) error { return w.keys("gone") },
			end:   func(ctx context.Context, w *world) error { return w.keys("") }},
	}
}

// wait waits, unless the run is to end.
func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// softLimit sets a limit of a process, which it could raise itself: no right is needed to take it back.
func softLimit(pid, which int, n uint64) error {
	var old unix.Rlimit
	if err := unix.Prlimit(pid, which, nil, &old); err != nil {
		return err
	}
	return unix.Prlimit(pid, which, &unix.Rlimit{Cur: min(n, old.Max), Max: old.Max}, nil)
}

// A span is a time in which a fault was.
type span struct {
	fault *fault
	begun time.Time
	over  time.Time // zero: not yet
}

// The spans of an epoch.
type spans struct {
	mu  sync.Mutex
	all []*span
}

func (s *spans) begin(f *fault) *span {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := &span{fault: f, begun: time.Now()}
	s.all = append(s.all, p)
	return p
}

func (s *spans) end(p *span) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.over = time.Now()
}

// during returns the faults that were there at some time between two, or had just been.
func (s *spans) during(from, to time.Time) (all []*fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.all {
		if !p.begun.After(to) && (p.over.IsZero() || p.over.Add(p.fault.after).After(from)) {
			all = append(all, p.fault)
		}
	}
	return all
}

// excuse tells whether one of the faults explains a failure.
func excuse(all []*fault, disk bool, a *answer) bool {
	for _, f := range all {
		if f.cuts && (a.err != nil || a.status == 0) {
			return true
		}
		if f.disk && disk {
			return true
		}
		if f.name == "descriptors" && strings.Contains(a.message, "too many open files") { // a model that was to be loaded
			return true
		}
		for _, status := range f.statuses {
			if a.status == status || a.code == status {
				return true
			}
		}
		// What a server that ended had stored in memory is gone.
		if f.cuts && f.statuses != nil && a.status == 404 {
			return true
		}
		// Of a stream that a shutdown cut there is an error event.
		if f.name == "restart" && a.message != "" {
			return true
		}
	}
	return false
}

// keys writes the file of keys anew: the guest has this behind its key, or is gone.
func (w *world) keys(guest string) error {
	text := adminKey + " admin name=soak\n"
	if guest != "gone" {
		text += guestKey + " user name=guest" + guest + "\n"
	}
	return os.WriteFile(w.keyFile, []byte(text), 0o600)
}

// An operation is what an operator does while others ask.
type operation struct {
	name string
	disk bool
	do   func(ctx context.Context, w *world, n int) *answer
	ok   []int // statuses
}

func one(method, path string, body object) func(ctx context.Context, w *world, n int) *answer {
	return func(ctx context.Context, w *world, n int) *answer {
		var b []byte
		if body != nil {
			b = marshal(body)
		}
		a := &answer{}
		var got []byte
		a.status, got, a.err = w.server.client.get(ctx, method, path, b)
		a.message = strings.TrimSpace(string(got[:min(len(got), 300)]))
		return a
	}
}

var operations = []operation{
	{"GET /metrics", false, one(http.MethodGet, "/metrics", nil), []int{200}},
	{"GET /slots", false, one(http.MethodGet, "/slots?model=demo", nil), []int{200}},
	{"GET /v1/models", false, one(http.MethodGet, "/v1/models?reload=1", nil), []int{200}},
	{"GET /v1/memory", false, one(http.MethodGet, "/v1/memory", nil), []int{200}},
	{"GET /v1/usage", false, one(http.MethodGet, "/v1/usage", nil), []int{200}},
	{"GET /props", false, one(http.MethodGet, "/props", nil), []int{200}},
	{"GET /livez", false, one(http.MethodGet, "/livez", nil), []int{200}},
	// Who loads what is loaded, or unloads what is not or what requests wait for, is told so.
	{"load", false, one(http.MethodPost, "/models/load", object{"model": "small"}), []int{200, 400}},
	{"unload", false, one(http.MethodPost, "/models/unload", object{"model": "small"}), []int{200, 400}},
	{"unload packed", false, one(http.MethodPost, "/models/unload", object{"model": "packed"}), []int{200, 400}},
	{"unload vectors", false, one(http.MethodPost, "/models/unload", object{"model": "vectors"}), []int{200, 400}},
	{"load adapter", false, one(http.MethodPost, "/v1/load_lora_adapter", object{"lora_name": loose, "lora_path": loose + ".gguf"}), []int{200, 400}},
	{"unload adapter", false, one(http.MethodPost, "/v1/unload_lora_adapter", object{"lora_name": loose}), []int{200, 404}},
	// A slot that runs, or has nothing, cannot be saved; a file that is not there, restored.
	{"save slot", true, one(http.MethodPost, "/slots/1?action=save&model=demo", object{"filename": "slot.bin"}), []int{200, 400, 404, 429, 503}},
	{"restore slot", true, one(http.MethodPost, "/slots/2?action=restore&model=demo", object{"filename": "slot.bin"}), []int{200, 400, 404, 429, 503}},
	{"erase slot", true, one(http.MethodPost, "/slots/2?action=erase&model=demo", nil), []int{200, 400, 404, 429, 503}},
}
