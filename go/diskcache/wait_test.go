package diskcache

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// hung is a disk whose reads or writes wait until they are let go.
type hung struct {
	disk
	op   string
	on   bool
	gate chan struct{}
}

type hungFile struct {
	file
	h *hung
}

func (h *hung) open(path string) (file, error) {
	f, err := h.disk.open(path)
	return hungFile{f, h}, err
}

func (h *hung) create(dir string, size int64) (file, string, error) {
	f, name, err := h.disk.create(dir, size)
	return hungFile{f, h}, name, err
}

func (f hungFile) wait(op string) {
	if f.h.on && f.h.op == op {
		<-f.h.gate
	}
}

func (f hungFile) ReadAt(b []byte, off int64) (int, error) {
	f.wait("read")
	return f.file.ReadAt(b, off)
}

func (f hungFile) Write(b []byte) (int, error) {
	f.wait("write")
	return f.file.Write(b)
}

// A disk that hangs costs the time that a caller allows, once; meanwhile there is nothing in the store. What it
// reads late goes nowhere. When it answers, all is as before.
func TestHungDisk(t *testing.T) {
	for _, op := range []string{"read", "write"} {
		t.Run(op, func(t *testing.T) {
			var log lines
			h := &hung{op: op, gate: make(chan struct{})}
			s := openStore(t, Config{Dir: t.TempDir(), Limit: 1 << 20, Log: log.log}, h)
			put(t, s, 1)
			before := s.Status()
			h.on = true
			p, empty := pageOf(1)
			other, _ := pageOf(2)
			use := func(ctx context.Context) error {
				if op == "read" {
					return s.Get(ctx, empty)
				}
				return s.Put(ctx, other)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if err := use(ctx); !errors.Is(err, ErrStuck) || !s.Stuck() || s.Has(p.Key) {
				t.Errorf("%v, stuck %v, has the page %v", err, s.Stuck(), s.Has(p.Key))
			}
			start := time.Now()
			if err := s.Get(t.Context(), empty); !errors.Is(err, ErrStuck) {
				t.Errorf("the next use: %v", err)
			}
			s.Look(t.Context())
			if st := s.Status(); st.Bytes != before.Bytes || st.Pages != 1 {
				t.Errorf("its status is %+v", st)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			close(h.gate)
			for s.Stuck() {
				time.Sleep(time.Millisecond)
			}
			for _, u := range empty.Units {
				if !bytes.Equal(u, make([]byte, len(u))) {
					t.Error("memory was written that is no longer the store's")
				}
			}
			if !has(t, s, 1) {
				t.Error("the page is lost")
			}
			for _, line := range log.all {
				if !strings.Contains(line, "does not respond") {
					t.Errorf("the log has %q", line)
				}
			}
			if len(log.all) == 0 || len(log.all) > 2 { // of reading and of writing
				t.Errorf("the log is %q", log.all)
			}
		})
	}
}
