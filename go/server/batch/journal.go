package batch

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/internal/panics"
)

// An entry is a line of a journal: the result of request number N.
type entry struct {
	N      int             `json:"n"`
	Failed bool            `json:"failed"`
	Line   json.RawMessage `json:"line"` // of the output or error file
}

// A mark is the position of an entry in its journal.
type mark struct {
	from, size int64
	failed     bool
}

// note appends an entry to a journal, and counts it.
func (s *Store) note(out *os.File, id string, e entry) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return err
	}
	raw = append(raw, '\n')
	s.mu.Lock()
	owner := s.batches[id].Owner
	s.mu.Unlock()
	if err := s.reserve(owner, len(raw)); err != nil {
		return err
	}
	s.mu.Lock()
	s.journals[id] = journal{owner, s.journals[id].bytes + int64(len(raw))}
	s.mu.Unlock()
	if _, err := out.Write(raw); err != nil {
		return onDisk(err)
	}
	if err := out.Sync(); err != nil {
		return onDisk(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches[id].Value.Counts.add(e.Failed) // saved with the next change; the journal has the entry already
	return nil
}

// readJournal returns the entries of a journal. A last line that is incomplete is removed from the file.
func (s *Store) readJournal(id string) (map[int]mark, error) {
	done := map[int]mark{}
	f, err := os.Open(s.journal(id))
	if errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	for from := int64(0); ; {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			if len(line) > 0 {
				err = os.Truncate(s.journal(id), from)
			} else {
				err = nil
			}
			return done, err
		}
		if err != nil {
			return nil, err
		}
		var e entry
		if err := json.Unmarshal(line, &e); err != nil {
			return nil, fmt.Errorf("journal of %s: %w", id, err)
		}
		done[e.N] = mark{from, int64(len(line)), e.Failed}
		from += int64(len(line))
	}
}

// copyJournal writes the lines of the failed entries, or of all others, in the order of the requests.
func (s *Store) copyJournal(w io.Writer, id string, done map[int]mark, failed bool) error {
	if len(done) == 0 {
		return nil
	}
	f, err := os.Open(s.journal(id))
	if err != nil {
		return err
	}
	defer f.Close()
	for _, n := range slices.Sorted(maps.Keys(done)) {
		m := done[n]
		if m.failed != failed {
			continue
		}
		raw := make([]byte, m.size)
		if _, err := f.ReadAt(raw, m.from); err != nil {
			return err
		}
		var e entry
		if err := json.Unmarshal(raw, &e); err != nil {
			return err
		}
		if _, err := w.Write(append(e.Line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// finish writes the output and error files of a batch, and ends it; as failed, if there are faults. If it was
// interrupted and is repeated, it writes the same files.
func (s *Store) finish(id, owner string, list []request, faults *Faults) error {
	b, err := s.change(id, func(b *Batch) {
		if b.Cancelling == 0 && faults == nil {
			b.Status, b.Finalizing = "finalizing", time.Now().Unix()
		}
	})
	if err != nil {
		return err
	}
	done, err := s.readJournal(id)
	if err != nil {
		return err
	}
	expired := b.Cancelling == 0 && len(done) < len(list)
	missing := 0
	outID, err := s.result(owner, id, "output", func(w io.Writer) error { return s.copyJournal(w, id, done, false) })
	if err != nil {
		return err
	}
	errID, err := s.result(owner, id, "error", func(w io.Writer) error {
		if err := s.copyJournal(w, id, done, true); err != nil || !expired {
			return err
		}
		for n, q := range list {
			if _, ok := done[n]; ok {
				continue
			}
			missing++
			line, _ := json.Marshal(map[string]any{
				"id": newID("batch_req_"), "custom_id": q.ID, "response": nil,
				"error": map[string]any{"code": "batch_expired", "message": "the request was not made before the batch expired"},
			})
			if _, err := w.Write(append(line, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if _, err := s.change(id, func(b *Batch) {
		b.Output, b.ErrorFile = outID, errID
		b.Counts.Failed += missing
		now := time.Now().Unix()
		switch {
		case faults != nil:
			b.Status, b.Failed, b.Errors = "failed", now, faults
		case b.Cancelling != 0:
			b.Status, b.Cancelled = "cancelled", now
		case expired:
			b.Status, b.Expired = "expired", now
		default:
			b.Status, b.Completed = "completed", now
		}
	}); err != nil {
		return err
	}
	s.drop(id)
	return nil
}

// fail ends a batch that cannot be run, with the answers so far if they can be stored. If not even its end can be
// stored, the batch is not run again until the next start.
func (s *Store) fail(id string, faults *Faults) error {
	s.mu.Lock()
	owner := s.batches[id].Owner
	s.mu.Unlock()
	err := panics.Catch(func() error { return s.finish(id, owner, nil, faults) })
	if err == nil {
		return nil
	}
	end := func(b *Batch) { // s.mu is held
		b.Status, b.Failed, b.Errors = "failed", time.Now().Unix(), faults
		// What was stored before something failed is the batch's: nobody else knows of it.
		b.Output, b.ErrorFile = s.stored(id, "output"), s.stored(id, "error")
	}
	if _, unsaved := s.change(id, end); unsaved != nil {
		s.mu.Lock()
		end(&s.batches[id].Value)
		s.mu.Unlock()
	}
	s.drop(id)
	return err
}

// resultID is the id of an output file of a batch.
func resultID(id, kind string) string { return "file-" + strings.TrimPrefix(id, "batch_") + "-" + kind }

// stored returns the id of an output file if there is one. s.mu is held.
func (s *Store) stored(id, kind string) string {
	if file := resultID(id, kind); s.files[file] != nil {
		return file
	}
	return ""
}

// drop removes a journal and releases its bytes.
func (s *Store) drop(id string) {
	os.Remove(s.journal(id)) // if this fails, the next Open removes it
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(id)
}

// release releases the bytes of a journal. s.mu is held.
func (s *Store) release(id string) {
	s.count(s.journals[id].owner, -s.journals[id].bytes)
	delete(s.journals, id)
}

// result stores an output file of a batch unless it is empty. Neither the file limit nor the quota applies: the same
// lines were counted in the journal, which is removed afterwards.
func (s *Store) result(owner, id, kind string, fill func(io.Writer) error) (string, error) {
	f := File{
		ID: resultID(id, kind), Object: "file", Created: time.Now().Unix(),
		Filename: id + "_" + kind + ".jsonl", Purpose: "batch_output", Status: "processed",
	}
	data := s.path(f.ID + ".data")
	if _, err := newfile.Write(data, true, 0o600, 0, func(to io.Writer) (int64, error) {
		w := bufio.NewWriterSize(to, 1<<16)
		return 0, errors.Join(fill(w), w.Flush())
	}); err != nil {
		return "", onDisk(err)
	}
	info, err := os.Stat(data)
	if err != nil {
		return "", err
	}
	if info.Size() == 0 {
		return "", os.Remove(data)
	}
	f.Bytes = info.Size()
	return s.keepResult(owner, f)
}
