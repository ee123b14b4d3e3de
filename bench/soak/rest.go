package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// What a server may have more of than it had after its first epoch. The heap grows and shrinks by the collector's leave;
// models are loaded with new threads; a connection that was just closed is not gone yet.
const (
	moreRSS        = 64 << 20
	moreGoroutines = 10
	moreFDs        = 6
)

// rest looks whether all is as it was, once nobody asks any more: models are unloaded, and nothing may be left of what has
// run.
func (w *world) rest(ctx context.Context, o *outcome, starts int) {
	if !until(ctx, func() bool { // the guest is back after faults of keys
		a := w.server.client.step(ctx, http.MethodGet, "/v1/models", nil, manner{key: guestKey})
		b := w.server.client.ask(ctx, &request{path: "/completion", body: marshal(object{"prompt": "x", "n_predict": 1})}, manner{key: guestKey})
		return a.status == 200 && (b.status == 200 || b.status == 429)
	}) {
		w.problem(-1, "keys", "the guest is not let in again", nil)
	}
	same := w.server.starts == starts && w.baseStarts == starts
	wrong := ""
	if !until(ctx, func() bool {
		for _, name := range []string{"small", "packed", "vectors"} {
			w.server.client.get(ctx, http.MethodPost, "/models/unload", marshal(object{"model": name}))
		}
		_ = w.server.loadLoose(ctx) // which may be there
		m, err := readMetrics(ctx, w.server.client)
		if err != nil {
			wrong = err.Error()
			return false
		}
		o.Floor = m.floor()
		wrong = o.Floor.above(w.base, same)
		if m.sum("quern_model_bytes", `model="small"`)+m.sum("quern_model_bytes", `model="packed"`)+m.sum("quern_model_bytes", `model="vectors"`) != 0 {
			wrong = "models that were unloaded are there"
		}
		return wrong == ""
	}) && ctx.Err() == nil {
		w.problem(-1, "floor", fmt.Sprintf("nobody asks any more, and %s; goroutines are in %s", wrong, w.server.dump()), nil)
		if err := w.server.start(ctx); err != nil {
			w.problem(-1, "server", err.Error(), nil)
		}
	}
	if w.baseStarts != w.server.starts {
		w.base, w.baseStarts = o.Floor, w.server.starts
	}
	w.leftFiles()
}

// above says what is left that should not be. Where base is of the same process, it may not have grown either.
func (f floor) above(base floor, same bool) string {
	switch {
	case f.Running != 0:
		return fmt.Sprintf("%d requests run or wait", f.Running)
	case f.Used != 0:
		return fmt.Sprintf("%d bytes of keys and values are in use", f.Used)
	case f.Leases != 0:
		return fmt.Sprintf("models have %d leases", f.Leases)
	case !same:
		return ""
	case f.Goroutines > base.Goroutines+moreGoroutines:
		return fmt.Sprintf("there are %d goroutines, %d before", f.Goroutines, base.Goroutines)
	case f.FDs > base.FDs+moreFDs:
		return fmt.Sprintf("there are %d descriptors, %d before", f.FDs, base.FDs)
	case f.RSS > base.RSS+moreRSS:
		return fmt.Sprintf("%d MiB are resident, %d before", f.RSS>>20, base.RSS>>20)
	}
	return ""
}

// leftFiles looks for files that nobody needs.
func (w *world) leftFiles() {
	left := func(dir string, known func(name string) bool) {
		wrong := ""
		// What is written at this moment has another name for a while: a batch may go on that a disk had ended.
		for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
			entries, err := os.ReadDir(dir)
			if wrong = ""; err != nil {
				wrong = err.Error()
			}
			for _, e := range entries {
				if !known(e.Name()) {
					wrong = fmt.Sprintf("%s is left", filepath.Join(dir, e.Name()))
				}
			}
			if wrong == "" {
				return
			}
		}
		w.problem(-1, "files", wrong, nil)
	}
	left(w.tmp, func(string) bool { return false })
	left(filepath.Join(w.disk.path, "slots"), func(name string) bool { return name == "slot.bin" })
	left(filepath.Join(w.disk.path, "batches"), func(name string) bool {
		return name == "lock" || strings.HasPrefix(name, "batch_") // which are listed until they expire
	})
	left(w.fixture.path("models"), func(name string) bool { return slices.Contains([]string{"small.gguf", "packed.gguf"}, name) })
}

// inLogs looks for errors that no fault explains.
func (w *world) inLogs(met *spans) {
	disk := false
	for _, s := range met.all {
		disk = disk || s.fault.disk
	}
	bad, err := w.server.faulty(func(line string) bool {
		for _, id := range w.state.Lost { // the batch goes on after a restart, and its file was deleted
			if strings.Contains(line, id) {
				return true
			}
		}
		return disk && strings.Contains(line, `"level":"error"`) && !strings.Contains(line, "panic")
	})
	if err != nil {
		bad = append(bad, err.Error())
	}
	for _, line := range bad {
		w.problem(-1, "log", line, nil)
	}
}
