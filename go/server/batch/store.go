// Package batch stores files of requests and runs them when the server is idle: OpenAI's files and batches; and its jobs that
// fine-tune models with files of examples.
//
// All state is in one folder, in files that are replaced atomically or only appended to. An answer is written to the
// batch's journal before it is visible to clients, and its request is not repeated after a restart.
package batch

import (
	"cmp"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quern-llm/quern/go/platform"

	"github.com/quern-llm/quern/go/internal/newfile"
)

// Limits of a Store.
const (
	MaxFile  = 200 << 20 // bytes of a file
	MaxLines = 50_000    // requests of a batch
	MaxLine  = 8 << 20   // bytes of a request
	maxItems = 10_000    // files, and batches
	maxOwned = 1_000     // batches of an owner
)

// Errors that a client can resolve.
var (
	ErrNotFound = errors.New("no such file, batch or job")
	ErrInUse    = errors.New("a batch or a fine-tuning job uses the file; cancel it first")
	ErrFull     = errors.New("the space for files and batches is used up; delete some files")
	ErrShare    = fmt.Errorf("%w: no key may have more of it than what it leaves to the others", ErrFull)
	ErrMany     = errors.New("too many batches have not ended; wait for some or cancel them")
	ErrTooLarge = fmt.Errorf("a file of more than %d MiB", MaxFile>>20)
	ErrDisk     = errors.New("the disk of the server has no room for it; try again when there is some")
)

// A ReadError is an error of the Reader that a file comes from.
type ReadError struct{ error }

func (e ReadError) Unwrap() error { return e.error }

// upload is a Reader whose errors can be told from those of the store.
type upload struct{ from io.Reader }

func (u upload) Read(b []byte) (int, error) {
	n, err := u.from.Read(b)
	if err != nil && err != io.EOF {
		err = ReadError{err}
	}
	return n, err
}

// onDisk returns an error of the file system, as ErrDisk if it has no room by any of its limits.
func onDisk(err error) error {
	if full := platform.Full(err); full != nil {
		return fmt.Errorf("%w: %w", ErrDisk, full)
	}
	return err
}

// A File is a file as the API shows it.
type File struct {
	ID       string `json:"id"`
	Object   string `json:"object"`
	Bytes    int64  `json:"bytes"`
	Created  int64  `json:"created_at"`
	Filename string `json:"filename"`
	Purpose  string `json:"purpose"`
	Status   string `json:"status"`
}

// A Counts is the number of requests of a batch, and of those that have ended, by result.
type Counts struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
}

// A Fault is an error in a line of a batch's input.
type Fault struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Param   string `json:"param,omitempty"`
	Line    int    `json:"line,omitzero"` // from 1
}

// Faults is a list of faults, as the API shows it.
type Faults struct {
	Object string  `json:"object"`
	Data   []Fault `json:"data"`
}

// A Batch is a batch as the API shows it. Times of events that have not happened are 0, and not shown.
type Batch struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Endpoint   string            `json:"endpoint"`
	Errors     *Faults           `json:"errors"`
	Input      string            `json:"input_file_id"`
	Window     string            `json:"completion_window"`
	Status     string            `json:"status"`
	Output     string            `json:"output_file_id,omitempty"`
	ErrorFile  string            `json:"error_file_id,omitempty"`
	Created    int64             `json:"created_at"`
	InProgress int64             `json:"in_progress_at,omitzero"`
	Expires    int64             `json:"expires_at"`
	Finalizing int64             `json:"finalizing_at,omitzero"`
	Completed  int64             `json:"completed_at,omitzero"`
	Failed     int64             `json:"failed_at,omitzero"`
	Expired    int64             `json:"expired_at,omitzero"`
	Cancelling int64             `json:"cancelling_at,omitzero"`
	Cancelled  int64             `json:"cancelled_at,omitzero"`
	Counts     Counts            `json:"request_counts"`
	Metadata   map[string]string `json:"metadata"`
}

// ended reports whether the batch is in a final state.
func (b *Batch) ended() bool {
	return slices.Contains([]string{"failed", "completed", "expired", "cancelled"}, b.Status)
}

// owned is a file or a batch as it is stored, with its owner.
type owned[T any] struct {
	Owner string `json:"owner"`
	Seq   int64  `json:"seq"` // in the order of creation
	Value T      `json:"value"`
}

// A journal is the owner and the size in bytes of a journal.
type journal struct {
	owner string
	bytes int64
}

// A Store is the files and batches of a folder. It is safe for concurrent use.
type Store struct {
	dir    string
	quota  int64
	shared bool

	mu      sync.Mutex
	files   map[string]*owned[File]
	batches map[string]*owned[Batch]
	seq     int64
	used    int64            // bytes of files and journals
	owned   map[string]int64 // of those, by owner
	adding  int              // files that are being written
	changed chan struct{}

	journals map[string]journal // by batch, and the states of fine-tuning jobs

	tunings     map[string]*owned[tuning]
	active      active // fine-tuning job
	tuneChanged chan struct{}
	eventsMu    sync.Mutex
	noted       map[string]int   // events of fine-tuning jobs of which there was one since Open; under eventsMu
	turns       map[string]int64 // of owners whose fine-tuning jobs ran: the number of the last one
	turn        int64
	untuned     func(name string) // see OnUntuned

	lock *os.File // held while the store is open; nil where the file system has none
}

// Open opens the store in a folder, which is created if it is missing. No other process may have it open. quota limits
// its bytes. In a shared store, an owner may use at most as many bytes and files as remain free, so that neither one
// owner nor several can use up the store.
func Open(dir string, quota int64, shared bool) (_ *Store, err error) {
	s := &Store{
		dir: dir, quota: quota, shared: shared, owned: map[string]int64{}, changed: make(chan struct{}, 1),
		files: map[string]*owned[File]{}, batches: map[string]*owned[Batch]{}, journals: map[string]journal{},
		tunings: map[string]*owned[tuning]{}, tuneChanged: make(chan struct{}, 1), noted: map[string]int{}, turns: map[string]int64{},
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if s.lock, err = lock(dir); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := writable(dir); err != nil {
		return nil, err
	}
	if err := load(s, "file-*.json", s.files, func(f *File) string { return f.ID }); err != nil {
		return nil, err
	}
	if err := load(s, "batch_*.json", s.batches, func(b *Batch) string { return b.ID }); err != nil {
		return nil, err
	}
	if err := load(s, "ftjob-*.json", s.tunings, func(t *tuning) string { return t.ID }); err != nil {
		return nil, err
	}
	for _, f := range s.files {
		s.count(f.Owner, f.Value.Bytes)
	}
	if err := s.tidy(); err != nil {
		return nil, err
	}
	return s, s.loadJournals()
}

// Share says whether there are several owners, as Open was told first.
func (s *Store) Share(shared bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shared = shared
}

// writable returns an error if no file can be created in the folder, so that this is found at the start and not with
// the first upload.
func writable(dir string) error {
	f, err := os.CreateTemp(dir, ".file-*.tmp") // tidy removes it if the process ends now
	if err != nil {
		if path := (*fs.PathError)(nil); errors.As(err, &path) {
			err = path.Err
		}
		return fmt.Errorf("%s: cannot be written to: %w; the server's user has to own it", dir, err)
	}
	f.Close()
	return os.Remove(f.Name())
}

// Close lets other processes open the folder. The store is not used afterwards.
func (s *Store) Close() {
	if s.lock != nil {
		s.lock.Close()
	}
}

// tidy removes files that were incomplete when the process ended, and events of no job.
func (s *Store) tidy() error {
	var paths []string
	for _, pattern := range []string{".file-*.tmp", ".batch_*.tmp", ".ftjob-*.tmp", "file-*.data", "ftjob-*.events"} {
		list, err := s.matching(pattern)
		if err != nil {
			return err
		}
		paths = append(paths, list...)
	}
	for _, path := range paths {
		if id, whole := strings.CutSuffix(filepath.Base(path), ".data"); whole && s.files[id] != nil {
			continue
		}
		if id, events := strings.CutSuffix(filepath.Base(path), ".events"); events && s.tunings[id] != nil {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}

func load[T any](s *Store, pattern string, into map[string]*owned[T], id func(*T) string) error {
	paths, err := s.matching(pattern)
	if err != nil {
		return err
	}
	for _, path := range paths {
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		o := &owned[T]{}
		if err := json.Unmarshal(raw, o); err != nil || id(&o.Value)+".json" != filepath.Base(path) {
			return fmt.Errorf("%s: not written by this program: %v", path, err)
		}
		into[id(&o.Value)] = o
		s.seq = max(s.seq, o.Seq)
	}
	return nil
}

// loadJournals counts the journals of batches and the states of fine-tuning jobs that have not ended, and removes others.
func (s *Store) loadJournals() error {
	return errors.Join(
		countJournals(s, "batch_*.journal", s.batches, (*Batch).ended),
		countJournals(s, "ftjob-*.state", s.tunings, (*tuning).Ended),
	)
}

func countJournals[T any](s *Store, pattern string, of map[string]*owned[T], ended func(*T) bool) error {
	paths, err := s.matching(pattern)
	if err != nil {
		return err
	}
	for _, path := range paths {
		id := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
		o := of[id]
		if o == nil || ended(&o.Value) {
			if err := os.Remove(path); err != nil {
				return err
			}
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		s.journals[id] = journal{o.Owner, info.Size()}
		s.count(o.Owner, info.Size())
	}
	return nil
}

// matching returns the paths of the files whose names match a pattern. Characters of the folder's name have no special
// meaning.
func (s *Store) matching(pattern string) (paths []string, err error) {
	files, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		if ok, err := filepath.Match(pattern, file.Name()); err != nil {
			return nil, err
		} else if ok {
			paths = append(paths, s.path(file.Name()))
		}
	}
	return paths, nil
}

func (s *Store) path(name string) string  { return filepath.Join(s.dir, name) }
func (s *Store) journal(id string) string { return s.path(id + ".journal") }

// save writes the record of a file or a batch.
func (s *Store) save(id string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	_, err = newfile.Write(s.path(id+".json"), true, 0o600, 0, func(w io.Writer) (int64, error) {
		n, err := w.Write(raw)
		return int64(n), err
	})
	return onDisk(err)
}

// newID returns an id that cannot be guessed.
func newID(prefix string) string {
	var b [18]byte
	rand.Read(b[:])
	return prefix + base64.RawURLEncoding.EncodeToString(b[:])
}

// AddFile stores a file of an owner. Its bytes and its place in the list count from the moment they are reserved, so
// files that are written concurrently do not exceed the limits together.
func (s *Store) AddFile(owner, name, purpose string, from io.Reader) (File, error) {
	f := File{ID: newID("file-"), Object: "file", Created: time.Now().Unix(), Filename: name, Purpose: purpose, Status: "processed"}
	s.mu.Lock()
	full := s.full(owner)
	if full == nil {
		s.adding++
	}
	s.mu.Unlock()
	if full != nil {
		return f, full
	}
	data := &metered{s: s, owner: owner}
	_, err := newfile.Write(s.path(f.ID+".data"), false, 0o600, 0, func(w io.Writer) (int64, error) {
		data.to = w
		return io.Copy(data, upload{from})
	})
	err = onDisk(err)
	f.Bytes = data.taken
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adding--
	if err == nil {
		if err = s.keep(owner, f); err != nil {
			os.Remove(s.path(f.ID + ".data"))
		}
	}
	if err != nil {
		s.count(owner, -data.taken)
	}
	return f, err
}

// Repurpose changes what a file of an owner is for, and returns the file.
func (s *Store) Repurpose(owner, id, purpose string) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.files[id]; o == nil || o.Owner != owner {
		return File{}, ErrNotFound
	}
	return alter(s, s.files, id, func(f *File) error {
		f.Purpose = purpose
		return nil
	})
}

// full returns nil if an owner may add a file, else the reason. s.mu is held.
func (s *Store) full(owner string) error {
	n := len(s.files) + s.adding
	if n >= maxItems || s.used >= s.quota {
		return ErrFull
	}
	if s.shared && len(sorted(s.files, owner)) >= maxItems-n {
		return ErrShare
	}
	return nil
}

// keep adds a file whose bytes have been written and counted. s.mu is held.
func (s *Store) keep(owner string, f File) error { return add(s, s.files, owner, f.ID, f) }

// add adds something of an owner, and saves it. s.mu is held.
func add[T any](s *Store, all map[string]*owned[T], owner, id string, v T) error {
	o := &owned[T]{owner, s.seq + 1, v}
	if err := s.save(id, o); err != nil {
		return err
	}
	s.seq++
	all[id] = o
	return nil
}

// keepResult adds a file that was written without being counted, and counts it; or again, if the process ended before its batch
// or job named it. It returns its id.
func (s *Store) keepResult(owner string, f File) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := int64(0)
	if o := s.files[f.ID]; o != nil {
		before = o.Value.Bytes
	}
	if err := s.keep(owner, f); err != nil {
		os.Remove(s.path(f.ID + ".data"))
		return "", err
	}
	s.count(owner, f.Bytes-before)
	return f.ID, nil
}

// reserve counts bytes of an owner that will be written, if there is room for them.
func (s *Store) reserve(owner string, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(owner, int64(n)); err != nil {
		return err
	}
	s.count(owner, int64(n))
	return nil
}

// room returns an error if an owner may not have so many bytes more. s.mu is held.
func (s *Store) room(owner string, n int64) error {
	free := s.quota - s.used - n
	if free < 0 {
		return ErrFull
	}
	if s.shared && s.owned[owner]+n > free {
		return ErrShare
	}
	return nil
}

// count counts bytes of an owner. s.mu is held, or the store is not in use yet.
func (s *Store) count(owner string, n int64) {
	s.used += n
	if s.owned[owner] += n; s.owned[owner] == 0 {
		delete(s.owned, owner)
	}
}

// metered is a Writer of an upload that reserves what it writes.
type metered struct {
	s     *Store
	owner string
	to    io.Writer
	taken int64 // reserved bytes
}

func (m *metered) Write(b []byte) (int, error) {
	if m.taken+int64(len(b)) > MaxFile {
		return 0, ErrTooLarge
	}
	if err := m.s.reserve(m.owner, len(b)); err != nil {
		return 0, err
	}
	m.taken += int64(len(b))
	return m.to.Write(b)
}

// File returns a file of an owner.
func (s *Store) File(owner, id string) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return get(s.files, owner, id)
}

// Content opens a file of an owner for reading.
func (s *Store) Content(owner, id string) (*os.File, error) {
	if _, err := s.File(owner, id); err != nil {
		return nil, err
	}
	return os.Open(s.path(id + ".data"))
}

// RemoveFile deletes a file of an owner unless a batch needs it.
func (s *Store) RemoveFile(owner, id string) error {
	model, err := s.removeFile(owner, id)
	if model != "" && s.untuned != nil {
		s.untuned(model)
	}
	return err
}

// removeFile returns the name of the model whose adapter it has deleted, if any.
func (s *Store) removeFile(owner, id string) (model string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := get(s.files, owner, id)
	if err != nil {
		return "", err
	}
	for _, b := range s.batches {
		if b.Value.Input == id && !b.Value.ended() {
			return "", ErrInUse
		}
	}
	for _, o := range s.tunings {
		if t := &o.Value; !t.Ended() && (t.Training == id || t.Validation != nil && *t.Validation == id) {
			return "", ErrInUse
		}
	}
	if err := s.remove(id+".json", id+".data"); err != nil {
		return "", err
	}
	delete(s.files, id)
	s.count(owner, -f.Bytes)
	return s.madeOf(id), nil
}

// remove removes files of the folder, some of which may not be there.
func (s *Store) remove(names ...string) error {
	for _, name := range names {
		if err := os.Remove(s.path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Files returns the files of an owner, newest first.
func (s *Store) Files(owner string) []File {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.files, owner)
}

// AddBatch creates a batch of an owner's file. It is run when the server is idle.
func (s *Store) AddBatch(owner, input, endpoint, window string, lasts time.Duration, metadata map[string]string) (Batch, error) {
	now := time.Now()
	b := Batch{
		ID: newID("batch_"), Object: "batch", Endpoint: endpoint, Input: input, Window: window, Status: "validating",
		Created: now.Unix(), Expires: now.Add(lasts).Unix(), Metadata: metadata,
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := get(s.files, owner, input); err != nil {
		return b, err
	}
	if err := s.makeRoom(func(o *owned[Batch]) bool { return o.Owner == owner }, maxOwned); err != nil {
		return b, err
	}
	if err := s.makeRoom(func(*owned[Batch]) bool { return true }, maxItems); err != nil {
		return b, err
	}
	if err := add(s, s.batches, owner, b.ID, b); err != nil {
		return b, err
	}
	nudge(s.changed)
	return b, nil
}

// makeRoom removes the oldest batches that have ended, until there are fewer than bound of a kind. Their files stay.
// s.mu is held.
func (s *Store) makeRoom(of func(*owned[Batch]) bool, bound int) error {
	over, ok := surplus(s.batches, of, bound, (*Batch).ended)
	if !ok {
		return ErrMany
	}
	for _, b := range over {
		if err := s.remove(b.ID + ".json"); err != nil {
			return err
		}
		delete(s.batches, b.ID)
	}
	return nil
}

// surplus returns the oldest of a kind that may be spared, without which there are fewer than bound; ok: so many may be.
func surplus[T any](all map[string]*owned[T], of func(*owned[T]) bool, bound int, spare func(*T) bool) (list []T, ok bool) {
	n := 0
	var over []*owned[T]
	for _, o := range all {
		if of(o) {
			n++
			if spare(&o.Value) {
				over = append(over, o)
			}
		}
	}
	extra := n - bound + 1
	if extra > len(over) {
		return nil, false
	}
	if extra <= 0 {
		return nil, true
	}
	slices.SortFunc(over, func(a, b *owned[T]) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, o := range over[:extra] {
		list = append(list, o.Value)
	}
	return list, true
}

// Batch returns a batch of an owner.
func (s *Store) Batch(owner, id string) (Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return get(s.batches, owner, id)
}

// Batches returns the batches of an owner, newest first.
func (s *Store) Batches(owner string) []Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sorted(s.batches, owner)
}

// Cancel ends a batch of an owner. Its answers so far stay.
func (s *Store) Cancel(owner, id string) (Batch, error) {
	if _, err := s.Batch(owner, id); err != nil {
		return Batch{}, err
	}
	defer nudge(s.changed) // it may be set aside
	return s.change(id, func(b *Batch) {
		if !b.ended() && b.Cancelling == 0 {
			b.Status, b.Cancelling = "cancelling", time.Now().Unix()
		}
	})
}

// change changes a batch and saves it.
func (s *Store) change(id string, f func(*Batch)) (Batch, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return alter(s, s.batches, id, func(b *Batch) error {
		f(b)
		return nil
	})
}

// alter changes something unless f returns an error, and saves it. s.mu is held.
func alter[T any](s *Store, all map[string]*owned[T], id string, f func(*T) error) (T, error) {
	o := all[id]
	next := *o
	if err := f(&next.Value); err != nil {
		return o.Value, err
	}
	if err := s.save(id, &next); err != nil {
		return o.Value, err
	}
	*o = next
	return next.Value, nil
}

// nudge wakes who waits for a change.
func nudge(changed chan<- struct{}) {
	select {
	case changed <- struct{}{}:
	default:
	}
}

// get returns a copy of an owner's file or batch. Those of other owners do not exist for it.
func get[T any](all map[string]*owned[T], owner, id string) (T, error) {
	o := all[id]
	if o == nil || o.Owner != owner {
		var none T
		return none, fmt.Errorf("%w: %.64q", ErrNotFound, strings.ToValidUTF8(id, "?"))
	}
	return o.Value, nil
}

func sorted[T any](all map[string]*owned[T], owner string) []T {
	var mine []*owned[T]
	for _, o := range all {
		if o.Owner == owner {
			mine = append(mine, o)
		}
	}
	slices.SortFunc(mine, func(a, b *owned[T]) int { return int(b.Seq - a.Seq) })
	list := []T{}
	for _, o := range mine {
		list = append(list, o.Value)
	}
	return list
}
