package model

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/mem"
)

// A Source is a file that is elsewhere: its bytes come by requests. Its methods are safe for concurrent use.
type Source interface {
	Name() string    // for messages
	Size() int64     // in bytes
	Version() string // that differs where the contents do
	SHA256() string  // of the whole file, in hexadecimal; empty: nobody knows it
	// Fetch fills p with the bytes from offset off on, or returns a one-line error without the name.
	Fetch(ctx context.Context, p []byte, off int64) error
}

// A remote is the state of a File whose bytes are elsewhere. Its regions are hollow: they have addresses for all bytes, and
// memory for those that stay or are on their way. Everything else passes through a load's buffer.
type remote struct {
	sources []Source
	front   []int          // first bytes of each source that are in memory: its head, and what came with it
	here    map[string]int // how many of its first bytes are in memory, by tensor
	stays   map[string]bool
	first   int64 // bytes of a head that are asked for first
	checked bool  // the sums were those that the sources have
	open    int64 // bytes that opening may still fetch
}

// Parts of a head are asked for in growing sizes: most models have their vocabulary within the second or third.
const (
	firstHead = 64 << 10
	maxHead   = 256 << 20
	maxOpen   = 2 * maxHead // of all heads, and of what packed files are checked by
)

// requests is how many requests are under way at a time, and pieceBytes the most that each is for.
const (
	requests   = 8
	pieceBytes = 8 << 20
)

// errRemote reports what needs a file on this machine.
var errRemote = errors.New("its weights are read from a server into memory, packed; for anything else it has to be a file here (quern pull)")

// errOpen reports a file that no model has: what has to be in memory before a budget is known is limited.
var errOpen = fmt.Errorf("its heads and checksums have more than %s", mem.FormatBytes(maxOpen))

// OpenRemote opens a model whose files, one or all shards in order, are elsewhere: their heads are fetched. Load reads the
// rest. Errors call it by name.
func OpenRemote(ctx context.Context, name string, sources []Source) (*File, error) {
	return openRemote(ctx, name, sources, firstHead)
}

func openRemote(ctx context.Context, name string, sources []Source, first int64) (*File, error) {
	f := &File{name: name, remote: &remote{sources: sources, here: map[string]int{}, stays: map[string]bool{}, first: first, open: maxOpen}}
	if err := f.openRemote(ctx); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) openRemote(ctx context.Context) error {
	shards := make([]*gguf.File, len(f.remote.sources))
	for i, s := range f.remote.sources {
		f.Paths = append(f.Paths, s.Name())
		var err error
		if shards[i], err = f.fetchHead(ctx, s); err != nil {
			return fmt.Errorf("%s: %w", f.of(s), err)
		}
	}
	err := error(nil)
	if f.GGUF, err = gguf.Merge(shards); err == nil {
		f.arrivedWithHeads()
		err = f.fetchSmall(ctx)
	}
	if err == nil {
		err = f.unpack()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", f.name, err)
	}
	return nil
}

// of returns the name of a source in errors.
func (f *File) of(s Source) string {
	if len(f.remote.sources) == 1 {
		return f.name
	}
	return f.name + ": " + s.Name()
}

// fetchHead fetches and parses the head of the next source.
func (f *File) fetchHead(ctx context.Context, s Source) (*gguf.File, error) {
	size := s.Size()
	if size <= 0 {
		return nil, errors.New("it is empty")
	}
	r, err := mem.Hollow(uint64(size), "a file that is elsewhere")
	if err != nil {
		return nil, err
	}
	f.regions = append(f.regions, r)
	f.remote.front = append(f.remote.front, 0)
	front := &f.remote.front[len(f.remote.front)-1]
	for n := f.remote.first; ; n *= 8 {
		if n = min(n, size, maxHead); n-int64(*front) > f.remote.open {
			return nil, errOpen
		}
		b, err := r.Fill(*front, int(n)-*front)
		if err == nil {
			err = s.Fetch(ctx, b, int64(*front))
		}
		if err != nil {
			return nil, err
		}
		f.remote.open -= n - int64(*front)
		*front = int(n)
		g, err := gguf.ParseHead(r.Bytes(), *front)
		if !errors.Is(err, gguf.ErrShort) {
			return g, err
		}
		if n == maxHead {
			return nil, fmt.Errorf("the head of the file has more than %s", mem.FormatBytes(maxHead))
		}
	}
}

// arrivedWithHeads notes which parts of tensors came with the heads.
func (f *File) arrivedWithHeads() {
	for i := range f.GGUF.Tensors {
		t := &f.GGUF.Tensors[i]
		if more := f.remote.front[t.Shard] - int(t.Offset); more > 0 {
			f.remote.here[t.Name] = min(more, len(t.Data))
		}
	}
}

// fetchSmall fetches what a packed file is checked by, which stays.
func (f *File) fetchSmall(ctx context.Context) error {
	if _, ok := f.GGUF.Value(keyPacked); !ok {
		return nil
	}
	var all []*gguf.Tensor
	for i := range f.GGUF.Tensors {
		if t := &f.GGUF.Tensors[i]; isDigest(t.Name) {
			if f.remote.open -= int64(len(t.Data)); f.remote.open < 0 {
				return errOpen
			}
			all = append(all, t)
			f.remote.stays[t.Name] = true
		}
	}
	return f.need(ctx, all...)
}

// Remote reports whether the file is elsewhere: see OpenRemote.
func (f *File) Remote() bool { return f.remote != nil }

// whole returns the tensor of a file that another one is rows of.
func (f *File) whole(name string) *gguf.Tensor {
	if f.packed != nil {
		if t, ok := f.packed.file.Tensor(name); ok {
			return t
		}
	}
	t, _ := f.GGUF.Tensor(name)
	return t
}

// need fetches tensors to where they are in memory, unless they are there. It does nothing for files on this machine.
func (f *File) need(ctx context.Context, tensors ...*gguf.Tensor) error {
	m := f.remote
	if m == nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(requests)
	coming := map[string]*gguf.Tensor{}
	for _, t := range tensors {
		t = f.whole(t.Name)
		from := m.here[t.Name]
		if from == len(t.Data) || coming[t.Name] != nil {
			continue
		}
		coming[t.Name] = t
		group.Go(func() error {
			return panics.Catch(func() error {
				b, err := f.regions[t.Shard].Fill(int(t.Offset), len(t.Data))
				if err != nil {
					return err
				}
				return m.sources[t.Shard].Fetch(ctx, b[from:], int64(t.Offset)+int64(from))
			})
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for name, t := range coming {
		m.here[name] = len(t.Data)
	}
	return nil
}

// drop releases the memory of a tensor, unless it stays.
func (f *File) drop(t *gguf.Tensor) {
	if m := f.remote; !m.stays[t.Name] {
		_ = f.regions[t.Shard].Empty(int(t.Offset), len(t.Data)) // a failure costs memory, not correctness
		delete(m.here, t.Name)
	}
}

// forget releases the memory of all tensors but those that stay.
func (f *File) forget() {
	if f.remote == nil {
		return
	}
	for name := range f.remote.here {
		f.drop(f.whole(name))
	}
	for i := range f.remote.front {
		f.remote.front[i] = f.headBytes(i)
	}
}

// headBytes returns how long the head of a shard is.
func (f *File) headBytes(shard int) int {
	n := f.remote.front[shard]
	for i := range f.GGUF.Tensors {
		if t := &f.GGUF.Tensors[i]; t.Shard == shard && t.Data != nil {
			n = min(n, int(t.Offset))
		}
	}
	if f.packed != nil {
		for i := range f.packed.file.Tensors {
			if t := &f.packed.file.Tensors[i]; t.Shard == shard {
				n = min(n, int(t.Offset))
			}
		}
	}
	return n
}
