package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/quern-llm/quern/go/platform"
)

// A part is a file that is being downloaded: its data, a sparse file of the full size, and a record of the
// ranges that are present. A lock on the data file marks the downloading process and ends with it.
type part struct {
	h    *Hub
	f    *File
	blob string   // where the file is, if it is in the cache already; then nothing below is set
	file *os.File // locked
	path string

	size   int64 // of a piece, but for the last
	have   []atomic.Int64
	ready  []chan struct{} // closed when all of a piece is there
	got    atomic.Int64    // bytes that are there
	went   bool            // some were there from an earlier pull
	sum    string          // of the data, once it was computed
	ranged atomic.Bool     // the server has refused no range so far
}

// The record of a part.
type record struct {
	URL       string  `json:"url"`
	Size      int64   `json:"size"`
	Validator string  `json:"validator,omitempty"`
	Piece     int64   `json:"piece"`
	Have      []int64 `json:"have"` // bytes from the start of each piece
}

const (
	maxRecord = 8 << 20
	maxPieces = 1 << 18
	minPiece  = 4 << 10
)

// key identifies a file by what is known of it: its hash, or its address.
func (f *File) key() string {
	if f.SHA256 != "" {
		return f.SHA256
	}
	sum := sha256.Sum256([]byte(f.URL))
	return "url-" + hex.EncodeToString(sum[:])
}

func (h *Hub) partial() string { return filepath.Join(h.c.Dir, "partial") }

// lockEvery is the interval between attempts to take a lock that another process holds.
const lockEvery = 200 * time.Millisecond

// openPart opens the partial download of a file. If another process is downloading it, it calls waiting and
// waits.
func (h *Hub) openPart(ctx context.Context, f *File, waiting func()) (*part, error) {
	path := filepath.Join(h.partial(), f.key())
	for {
		if blob := h.present(f); blob != "" {
			return &part{h: h, f: f, blob: blob}, nil
		}
		file, err := platform.OpenItself(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		locked, err := platform.Lock(file)
		switch {
		case locked && sameFile(file, path):
			if blob := h.present(f); blob != "" { // it came while the file was opened
				os.Remove(path)
				file.Close()
				return &part{h: h, f: f, blob: blob}, nil
			}
			p := &part{h: h, f: f, file: file, path: path}
			if err := p.load(); err != nil {
				file.Close()
				return nil, err
			}
			return p, nil
		case locked: // it was finished and has another name now
			file.Close()
			continue
		}
		file.Close()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		waiting()
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockEvery):
		}
	}
}

// sameFile reports whether path is still the opened file.
func sameFile(f *os.File, path string) bool {
	a, err := f.Stat()
	if err != nil {
		return false
	}
	b, err := os.Lstat(path)
	return err == nil && os.SameFile(a, b)
}

// load reads the record. If the record does not match the file, the download starts over, without an error.
func (p *part) load() error {
	if p.f.Size < 0 {
		return p.file.Truncate(0)
	}
	r, err := p.read()
	if err == nil && r.fits(p.f) {
		p.layout(r.Piece)
		for i, n := range r.Have {
			p.set(i, n)
		}
		p.went = p.got.Load() > 0
		return nil
	}
	return p.reset()
}

func (p *part) record() string { return p.path + ".json" }

func (p *part) read() (*record, error) {
	f, err := os.Open(p.record())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return nil, err
	}
	info, err := p.file.Stat()
	if err != nil {
		return nil, err
	}
	r, err := parseRecord(b)
	if err == nil && info.Size() != r.Size {
		err = fmt.Errorf("%d bytes of %d", info.Size(), r.Size)
	}
	return r, err
}

// parseRecord parses a record and checks that it describes pieces of a file.
func parseRecord(b []byte) (*record, error) {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, err
	}
	if r.Size < 0 || r.Size > maxBytes || r.Piece < minPiece || int64(len(r.Have)) != pieces(r.Size, r.Piece) {
		return nil, errors.New("the record makes no sense")
	}
	for i, n := range r.Have {
		if n < 0 || n > length(r.Size, r.Piece, i) {
			return nil, errors.New("the record makes no sense")
		}
	}
	return &r, nil
}

// fits reports whether the record is for this version of the file on the server.
func (r *record) fits(f *File) bool {
	if r.Size != f.Size {
		return false
	}
	return f.SHA256 != "" || r.URL == f.URL && r.Validator == f.Validator && f.Validator != ""
}

func pieces(size, piece int64) int64        { return size/piece + min(size%piece, 1) }
func length(size, piece int64, i int) int64 { return min(piece, size-int64(i)*piece) }
func (p *part) length(i int) int64          { return length(p.f.Size, p.size, i) }
func (p *part) offset(i int) int64          { return int64(i) * p.size }
func (p *part) missing() int64              { return max(p.f.Size-p.got.Load(), 0) }

// layout divides the file into empty pieces.
func (p *part) layout(piece int64) {
	p.size = max(piece, minPiece, p.f.Size/maxPieces+1)
	n := pieces(p.f.Size, p.size)
	p.have, p.ready = make([]atomic.Int64, n), make([]chan struct{}, n)
	for i := range p.ready {
		p.ready[i] = make(chan struct{})
	}
	p.got.Store(0)
	p.went, p.sum = false, ""
	p.ranged.Store(true)
}

// set records that the first n bytes of a piece are present. Only one goroutine may set a piece.
func (p *part) set(i int, n int64) {
	p.got.Add(n - p.have[i].Swap(n))
	if n == p.length(i) {
		close(p.ready[i])
	}
}

// reset starts over.
func (p *part) reset() error {
	if err := os.Remove(p.record()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	if err := p.file.Truncate(p.f.Size); err != nil { // which allocates nothing
		return diskError(err)
	}
	p.layout(p.h.c.Piece)
	return nil
}

// save writes the record after the data was synced to disk: a record never claims data that a crash could
// lose.
func (p *part) save() error {
	r := record{URL: p.f.URL, Size: p.f.Size, Validator: p.f.Validator, Piece: p.size, Have: make([]int64, len(p.have))}
	for i := range p.have {
		r.Have[i] = p.have[i].Load()
	}
	if err := platform.SyncData(p.file); err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	b, err := json.Marshal(&r)
	if err != nil {
		return err
	}
	return replaceFile(p.record(), b)
}

// hash computes the SHA-256 of the data, piece by piece as they arrive.
func (p *part) hash(ctx context.Context) (string, error) {
	sum := sha256.New()
	buffer := make([]byte, 256<<10)
	for i := range p.ready {
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-p.ready[i]:
		}
		if _, err := io.CopyBuffer(sum, struct{ io.Reader }{io.NewSectionReader(p.file, p.offset(i), p.length(i))}, buffer); err != nil {
			return "", fmt.Errorf("%s: %w", p.path, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// discard deletes the partial download.
func (p *part) discard() {
	os.Remove(p.record())
	os.Remove(p.path)
}

// close releases the lock.
func (p *part) close() {
	if p.file != nil {
		p.file.Close()
	}
}

// replaceFile writes a file atomically.
func replaceFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-*")
	if err != nil {
		return diskError(err)
	}
	if _, err = f.Write(b); err == nil {
		err = f.Chmod(0o644)
	}
	if synced := f.Sync(); err == nil {
		err = synced
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = platform.Replace(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return diskError(err)
	}
	return nil
}

// diskError adds advice to the error of a full disk or a file that exceeds the maximum size.
func diskError(err error) error {
	if platform.TooLarge(err) {
		return fmt.Errorf("%w; raise the limit of the shell (ulimit -f), or name a folder of a file system for such files with --model-cache", err)
	}
	if platform.Full(err) != nil {
		return fmt.Errorf("%w; what is downloaded so far is kept: free some space and pull again", err)
	}
	return err
}
