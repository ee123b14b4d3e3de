package telemetry

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/quern-llm/quern/go/platform"
	"github.com/rs/zerolog"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/guard"
)

// An Audit writes who asked for what: one line of JSON for each request that ended, with no text of prompts and answers.
// Its methods are safe for concurrent use; a nil Audit writes nothing.
//
// A disk that fails or is full stops no request: what cannot be written is lost, and the log says so once until lines
// are written again.
type Audit struct {
	Prefix string // of the server's paths: lines have routes without it, as those of batches are

	path string
	log  zerolog.Logger

	mu     sync.Mutex
	file   *os.File // nil: it could not be opened
	looked time.Time
	lost   int  // lines, since one was written
	torn   bool // the last line is incomplete
	stray  bool // the file is not the one of the name, which cannot be opened, as the log was told
	closed bool
}

// An Entry is a line of the audit log.
type Entry struct {
	Time     time.Time `json:"time"` // of the end, in UTC
	Request  string    `json:"request,omitempty"`
	Client   string    `json:"client,omitempty"` // the name or the beginning of the hash of the key; empty: there was none
	Address  string    `json:"address,omitempty"`
	Batch    bool      `json:"batch,omitzero"` // it was a request of a batch
	Method   string    `json:"method"`
	Route    string    `json:"route"` // as it was registered, without ids; empty: there is none
	Model    string    `json:"model,omitempty"`
	Status   int       `json:"status"`
	Outcome  string    `json:"outcome,omitempty"` // how a generation ended
	Input    int       `json:"input_tokens"`
	Cached   int       `json:"cached_tokens"`
	Output   int       `json:"output_tokens"`
	Duration float64   `json:"duration_ms"`
}

// lookEvery is the time after which a line looks whether the file is still the one of its name.
const lookEvery = time.Second

// NewAudit opens a file, which is created for its owner alone, to add to it.
func NewAudit(path string, log zerolog.Logger) (*Audit, error) {
	a := &Audit{path: path, log: log}
	if err := a.open(); err != nil {
		return nil, err
	}
	return a, nil
}

// open opens the file of the name.
func (a *Audit) open() error {
	f, err := platform.OpenFile(a.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() { // a pipe could hold up requests
		f.Close()
		return cmp.Or(err, fmt.Errorf("%s is no file", a.path))
	}
	if a.file != nil {
		a.file.Close()
	}
	a.file, a.torn, a.stray = f, !a.whole(), false
	return nil
}

// whole reports whether the file of the name ends with a line that is complete, as a crash or a full disk leaves it not. One that
// cannot be read may not.
func (a *Audit) whole() bool {
	f, err := platform.Open(a.path)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil
	}
	last := make([]byte, 1)
	_, err = f.ReadAt(last, info.Size()-1)
	return err == nil && last[0] == '\n'
}

// Reopen opens the file of the name again, for programs that rotate logs and tell by a signal.
func (a *Audit) Reopen() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	if err := a.open(); err != nil {
		a.log.Error().Err(err).Msg("the audit log cannot be opened again")
	}
}

// moved reports whether the file is not the one of the name any more: it was renamed or removed.
func (a *Audit) moved() bool {
	if a.file == nil {
		return true
	}
	here, err := os.Stat(a.path)
	if err != nil {
		return true
	}
	own, err := a.file.Stat()
	return err != nil || !os.SameFile(here, own)
}

// Write adds a line.
func (a *Audit) Write(e Entry) {
	if a == nil {
		return
	}
	line, err := json.Marshal(e)
	if err != nil {
		a.log.Error().Err(err).Msg("a line of the audit log cannot be made")
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	if now := time.Now(); now.Sub(a.looked) >= lookEvery {
		a.looked = now
		if !a.moved() {
			a.stray = false
		} else if err := a.open(); err != nil {
			if a.file == nil {
				a.lose(err)
				return
			}
			if !a.stray {
				a.stray = true
				a.log.Error().Err(err).Msg("the audit log was removed or renamed and cannot be opened again: its lines go to the old file")
			}
		}
	}
	if a.file == nil {
		a.lost++
		return
	}
	line = append(line, '\n')
	if a.torn {
		line = append([]byte{'\n'}, line...)
	}
	if n, err := a.file.Write(line); err != nil {
		a.torn = a.torn || n > 0
		a.lose(err)
		return
	}
	a.torn = false
	if a.lost > 0 {
		a.log.Warn().Int("lost_lines", a.lost).Msg("the audit log is written again")
		a.lost = 0
	}
}

// lose counts a line that was lost. a.mu is held.
func (a *Audit) lose(err error) {
	if a.lost++; a.lost == 1 {
		a.log.Error().Err(err).Msg("the audit log cannot be written: its lines are lost")
	}
}

// Close closes the file.
func (a *Audit) Close() {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	if a.file != nil {
		a.file.Close()
		a.file = nil
	}
}

// Requests returns a middleware that writes a line for each request when it ends.
func (a *Audit) Requests() gin.HandlerFunc {
	return func(c *gin.Context) {
		begun, ended := time.Now(), false
		defer func() {
			status := c.Writer.Status()
			if !ended { // a panic is propagating
				status = http.StatusInternalServerError
			}
			a.write(c, begun, status, "")
		}()
		c.Next()
		ended = true
	}
}

// Batched writes a line for a request of a batch that has ended, of a client.
func (a *Audit) Batched(c *gin.Context, begun time.Time, client string) {
	if a != nil {
		a.write(c, begun, c.Writer.Status(), client)
	}
}

// write writes the line of a request, which is of a batch if it names a client.
func (a *Audit) write(c *gin.Context, begun time.Time, status int, client string) {
	fields := c.GetStringMap(fieldsKey)
	number := func(name string) int { n, _ := fields[name].(int); return n }
	text := func(name string) string { s, _ := fields[name].(string); return s }
	e := Entry{
		Time: time.Now().UTC().Truncate(time.Millisecond), Request: c.GetString(guard.RequestID),
		Client: client, Batch: client != "",
		Method: methodLabel(c.Request.Method), Route: strings.TrimPrefix(c.FullPath(), a.Prefix), Status: status,
		Model: cmp.Or(text("model"), c.GetString(answer.ModelKey)), Outcome: text("outcome"),
		Input: number("prompt_tokens"), Cached: number("cached_tokens"), Output: number("completion_tokens"),
		Duration: float64(time.Since(begun).Microseconds()) / 1000,
	}
	if key, ok := c.Value(guard.OfKey).(guard.Key); ok {
		e.Client = key.Called()
	}
	if !e.Batch {
		e.Address = guard.Address(c.Request)
	}
	a.Write(e)
}
