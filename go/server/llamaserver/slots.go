package llamaserver

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/platform"

	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/kvcache"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A slotEntry is a slot as the API shows it, with the sequence that runs or last ran in
// it. As in llama-server, a slot that was never used has neither params nor next_token.
type slotEntry struct {
	ID          int            `json:"id"`
	Model       string         `json:"model"`
	Task        int64          `json:"id_task"`
	Ctx         int            `json:"n_ctx"`
	Speculative bool           `json:"speculative"`
	Processing  bool           `json:"is_processing"`
	Prompt      int            `json:"n_prompt_tokens"`
	Processed   int            `json:"n_prompt_tokens_processed"`
	Cached      int            `json:"n_prompt_tokens_cache"`
	Params      map[string]any `json:"params,omitempty"`
	Next        []nextToken    `json:"next_token,omitempty"`
}

type nextToken struct {
	Has     bool `json:"has_next_token"`
	HasLine bool `json:"has_new_line"`
	Remain  int  `json:"n_remain"`
	Decoded int  `json:"n_decoded"`
}

// defaultSlot is a slot as a request without fields would set it.
func defaultSlot(m *ask.Model, id int) slotEntry {
	o := ask.NewOptions(m)
	ask.Filled(m, &o)
	_ = o.Bias.Settle(m, o.IgnoreEOS) // tokens that the model does not have are refused in requests
	return slotEntry{ID: id, Model: m.Name, Task: -1, Ctx: m.Ctx, Speculative: o.Speculation.Sources != 0,
		Params: o.Settings(), Next: []nextToken{{Has: true, Remain: -1}}}
}

func (s *API) slots(req *answer.Request) error {
	m := req.Model
	if s.NoSlots {
		return reply.Unsupported("this server does not show its slots; start it with --slots")
	}
	list := []slotEntry{}
	free := false
	for i, from := range m.Engine.Status().Slots {
		one := defaultSlot(m, i)
		free = free || !from.Busy
		if from.Request == 0 {
			one.Params, one.Next = nil, nil
		} else {
			one.Task, one.Processing = int64(from.Request), from.Busy
			one.Prompt, one.Processed, one.Cached = from.Prompt, from.Evaluated-from.Cached, from.Cached
			next := nextToken{Has: from.Busy, Remain: -1} // of what runs: a sequence that ended leaves nothing here
			if from.Busy {
				next.Decoded = from.Generated
				if from.MaxTokens >= 0 {
					next.Remain = from.MaxTokens - from.Generated
				}
			}
			if t, ok := s.Host.Running.Task(m, from.Request, i); ok && req.Caller.Owns(t.Owner) {
				one.Params, next.HasLine = t.Opts.Settings(), t.Line
				one.Speculative = t.Opts.Speculation.Sources != 0
			}
			one.Next = []nextToken{next}
		}
		list = append(list, one)
	}
	fail, err := req.On("fail_on_no_slot")
	if err != nil {
		return err
	}
	if fail && !free {
		return &reply.Error{Status: http.StatusServiceUnavailable, Message: "no slot is free"}
	}
	req.Send(list)
	return nil
}

// A slotQuery is a request to /slots/{id}.
type slotQuery struct{ filename string }

func newSlotQuery(*ask.Model) *slotQuery { return &slotQuery{} }

func (q *slotQuery) Fields() []field.Field {
	return []field.Field{field.Required("filename", field.Text(&q.filename), "A file name, without a path.")}
}

// slotAction saves, restores or erases the cached sequence of a slot.
func (s *API) slotAction(req *answer.Request) error {
	m := req.Model
	id, err := strconv.Atoi(req.HTTP.Param("id"))
	if n := m.Slots(); err != nil || id < 0 || id >= n {
		return reply.Invalid("id_slot", "%s, want 0 to %d", field.Quote(req.HTTP.Param("id")), n-1)
	}
	action := req.HTTP.Query("action")
	if action == "erase" {
		n, err := m.Engine.EraseSlot(id, req.Caller.Space)
		if err != nil {
			return slotError(err)
		}
		req.Send(map[string]any{"id_slot": id, "n_erased": n})
		return nil
	}
	if action != "save" && action != "restore" {
		return reply.Invalid("action", "%s, want save, restore or erase", field.Quote(action))
	}
	if s.SlotPath == "" {
		return reply.Unsupported("this server saves no slots; start it with --slot-save-path")
	}
	q := newSlotQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	if err := checkFilename(q.filename); err != nil {
		return err
	}
	dir, err := os.OpenRoot(s.SlotPath)
	if err != nil {
		return err
	}
	defer dir.Close()
	begun := time.Now()
	var f engine.SlotFile
	words := [3]string{"n_saved", "n_written", "save_ms"}
	if action == "save" {
		f, err = saveSlot(dir, q.filename, id, req.Caller.Space, m.Engine)
	} else {
		words = [3]string{"n_restored", "n_read", "restore_ms"}
		f, err = restoreSlot(dir, q.filename, id, req.Caller.Space, m.Engine)
	}
	if err != nil {
		return slotError(err)
	}
	took := float64(time.Since(begun)) / float64(time.Millisecond)
	req.Send(map[string]any{
		"id_slot": id, "filename": q.filename, words[0]: f.Tokens, words[1]: f.Bytes,
		"timings": map[string]any{words[2]: took},
	})
	return nil
}

// retryRoom is an estimate: room comes when requests end, or when memory is no longer short.
const retryRoom = 5 * time.Second

// slotError makes API errors of errors that are the client's fault, and of a cache that has no room now.
func slotError(err error) error {
	switch {
	case errors.Is(err, engine.ErrSlot), errors.Is(err, engine.ErrSlotEmpty):
		return reply.Invalid("id_slot", "%v", err)
	case errors.Is(err, engine.ErrSlotFile):
		return reply.Invalid("filename", "%v", err)
	case errors.Is(err, kvcache.ErrFull):
		return &reply.Error{Status: http.StatusServiceUnavailable, Message: "there is no room for the slot now: " + err.Error(), Retry: retryRoom}
	}
	return err
}

// saveSlot writes a file of a slot's text, if it is of a namespace. It does so atomically: the file is complete or
// absent.
func saveSlot(dir *os.Root, name string, id int, space string, e ask.Engine) (engine.SlotFile, error) {
	part := "." + answer.NewID() // not a name that checkFilename accepts
	// The file tells the text.
	f, err := dir.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return engine.SlotFile{}, err
	}
	saved, err := e.SaveSlot(id, space, f)
	err = errors.Join(err, f.Close())
	if err == nil {
		err = dir.Rename(part, name)
	}
	if err != nil {
		_ = dir.Remove(part)
	}
	return saved, err
}

// restoreSlot restores a slot from a file, for requests of a namespace.
func restoreSlot(dir *os.Root, name string, id int, space string, e ask.Engine) (engine.SlotFile, error) {
	f, err := dir.OpenFile(name, os.O_RDONLY|platform.NoWait, 0) // a pipe would wait for a writer
	if errors.Is(err, fs.ErrNotExist) {
		return engine.SlotFile{}, reply.Invalid("filename", "there is no %s", field.Quote(name))
	}
	if err != nil {
		return engine.SlotFile{}, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return engine.SlotFile{}, reply.Invalid("filename", "%s is no file", field.Quote(name))
	}
	return e.RestoreSlot(id, space, f)
}

// checkFilename accepts plain names: no paths, no hidden files, and no characters that
// are special to a shell or another system.
func checkFilename(name string) error {
	safe := name != "" && len(name) <= 255 && name[0] != '.' && filepath.IsLocal(name)
	for _, r := range name {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		safe = safe && (letter || strings.ContainsRune("._-", r))
	}
	if !safe || name[0] == '-' {
		return reply.Invalid("filename", "%s, want a name of letters, digits, dots, dashes and underscores",
			field.Quote(name))
	}
	return nil
}
