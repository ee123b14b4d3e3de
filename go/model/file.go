// Package model loads a GGUF file into a form that runs: it reads the configuration, binds the tensors that
// the architecture names, packs their rows for the kernels, and turns batches of tokens into logits.
//
// Weights are outside the Go heap: packed in one anonymous region, or in the mapped file. Anything wrong with
// a file is a one-line error, found before anything large is allocated or read; only non-finite values are
// found while packing.
package model

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/mem"
	"github.com/quern-llm/quern/go/model/arch"
)

// A File is a mapped model: one GGUF file, or all shards of a split one.
type File struct {
	GGUF  *gguf.File
	Paths []string // of the shards, or one name if the model is not split

	name    string        // that errors call it by; empty: the first of Paths
	regions []*mem.Region // by shard
	guards  []*kernel.Guard
	packed  *packedFile // nil for files of rows
	remote  *remote     // nil for files on this machine
	config  *Config     // parsed on first use
	classes *mem.Region // of a new classifier, the last shard; nil: there is none
}

// OpenFile maps and parses the model at path. If it is split into shards, path may name any of them; the
// others must be in the same directory. Errors name the file.
func OpenFile(path string) (*File, error) {
	f := &File{}
	err := f.open(path)
	if err == nil {
		if err = f.unpack(); err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if damage := f.Damaged(); damage != nil { // which explains any other error
		err = fmt.Errorf("%s: %w", path, damage)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// OpenFileAs opens the model at path, but errors call it by another name: that of its source.
func OpenFileAs(path, name string) (*File, error) {
	f, err := OpenFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f.name = name
	return f, nil
}

// Name returns the name of the file in errors.
func (f *File) Name() string { return cmp.Or(f.name, f.Paths[0]) }

// ErrDamaged reports that a mapped file became unreadable or was modified.
var ErrDamaged = errors.New("the model's file was written to or cut while it was in use, or its disk cannot be read; load it again (a file that is renamed over another replaces it safely)")

// Damaged returns ErrDamaged once a page of the file could not be read. Everything computed since the last
// call that returned nil is wrong, and so is everything after.
func (f *File) Damaged() error {
	if slices.ContainsFunc(f.guards, (*kernel.Guard).Faulted) {
		return ErrDamaged
	}
	return nil
}

// Unchanged returns ErrDamaged if the file was written or truncated since it was mapped: weights read from it
// would not match the parsed metadata. Renaming another file over it does no harm.
func (f *File) Unchanged() error {
	for _, r := range f.regions {
		if !r.Unchanged() {
			return ErrDamaged
		}
	}
	return nil
}

// OpenBytes parses an unsplit model in memory outside the Go heap that exists for the life of the process,
// since C keeps its addresses. Errors call it by name.
func OpenBytes(name string, b []byte) (*File, error) {
	f, err := gguf.Parse(b)
	if err == nil {
		f, err = gguf.Merge([]*gguf.File{f}) // refuses a shard alone
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return &File{GGUF: f, Paths: []string{name}, regions: []*mem.Region{mem.Static(b)}}, nil
}

// openShards parses a file in memory that stays until what is loaded from it has been: shards of these sizes, one after the
// other. Errors call it by name.
func openShards(name string, b []byte, sizes []int) (*File, error) {
	f := &File{Paths: []string{name}}
	var shards []*gguf.File
	for _, n := range sizes {
		shard, err := gguf.Parse(b[:n:n])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		shards, f.regions, b = append(shards, shard), append(f.regions, mem.Static(b[:n:n])), b[n:]
	}
	var err error
	if f.GGUF, err = gguf.Merge(shards); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// Again opens the same file once more, which is closed apart.
func (f *File) Again() (*File, error) {
	if f.remote != nil {
		return nil, errRemote
	}
	if f.CanStream() {
		return OpenFile(f.Paths[0])
	}
	return OpenBytes(f.Paths[0], f.regions[0].Bytes())
}

// Outline returns a file without data, which can be surveyed but not loaded. Errors call it by name.
func Outline(name string, f *gguf.File) *File { return &File{GGUF: f, Paths: []string{name}} }

func (f *File) open(path string) error {
	region, first, err := f.parse(path)
	if err != nil {
		return err
	}
	f.regions = append(f.regions, region)
	count, err := first.SplitCount()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if f.Paths, err = gguf.ShardPaths(path, count); err != nil {
		return err
	}
	if count == 1 {
		f.GGUF = first
		return nil
	}
	f.regions = nil
	shards := make([]*gguf.File, count)
	for i, p := range f.Paths {
		r, shard := region, first
		if p != path {
			if r, shard, err = f.parse(p); err != nil {
				region.Close() // which may not be among the regions yet
				return err
			}
		}
		f.regions = append(f.regions, r)
		shards[i] = shard
	}
	if f.GGUF, err = gguf.Merge(shards); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// parse maps a shard, guards it against SIGBUS, and parses it.
func (f *File) parse(path string) (*mem.Region, *gguf.File, error) {
	r, err := mem.Map(path)
	if err != nil {
		return nil, nil, err // names the file
	}
	g := kernel.NewGuard(r.Bytes())
	r.BeforeUnmap(g.Close)
	f.guards = append(f.guards, g)
	shard, err := gguf.Parse(r.Bytes())
	if err != nil {
		r.Close()
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return r, shard, nil
}

// Config returns the model's configuration. Errors name the key.
func (f *File) Config() (*Config, error) {
	if f.config == nil {
		cfg, err := arch.ReadConfig(f.GGUF)
		if err != nil {
			return nil, err
		}
		f.config = cfg
	}
	return f.config, nil
}

// Shards returns the bytes of each shard, valid until the file is closed.
func (f *File) Shards() [][]byte {
	var all [][]byte
	for _, r := range f.regions {
		all = append(all, r.Bytes())
	}
	return all
}

// CanStream reports whether the weights can be streamed from disk. The embedded model is always in memory.
func (f *File) CanStream() bool { return len(f.guards) > 0 && len(f.guards) == len(f.regions) }

// Version returns what differs where the contents of the file do, without reading them: the sizes of its shards, and when they
// were modified; nothing for the embedded model, which is the program's.
func (f *File) Version() (all []string) {
	for i, path := range f.Paths {
		if f.remote != nil {
			s := f.remote.sources[i]
			all = append(all, fmt.Sprintf("%d %s", s.Size(), cmp.Or(s.SHA256(), s.Version())))
		} else if info, err := os.Stat(path); err == nil {
			all = append(all, fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano()))
		}
	}
	return all
}

// Size returns the total bytes of all shards.
func (f *File) Size() uint64 {
	n := uint64(0)
	for _, r := range f.regions {
		n += uint64(len(r.Bytes()))
	}
	return n
}

// Print writes what tells tensors apart from those of other models: the name, shape, offset and first bytes of each, and the
// checksums of a packed file. Of a file that is elsewhere it takes the version in place of bytes.
func (f *File) Print(to io.Writer) {
	for _, t := range f.GGUF.Tensors {
		fmt.Fprintf(to, "%q %v %v %d\n", t.Name, t.Type, t.Dims, t.Offset)
		if f.remote == nil {
			to.Write(t.Data[:min(len(t.Data), 4096)])
		}
	}
	if f.remote != nil {
		fmt.Fprintf(to, "%q\n", f.Version())
	}
	for _, b := range f.Digests() {
		to.Write(b)
	}
}

// Cold tells the kernel that the file will not be read soon.
func (f *File) Cold() {
	for _, r := range f.regions {
		r.Cold()
	}
}

// Close unmaps the file. Nothing loaded from it may be used afterwards. Closing again is
// a no-op.
func (f *File) Close() error {
	var first error
	for _, r := range f.regions {
		if err := r.Close(); err != nil && first == nil {
			first = err
		}
	}
	if f.classes != nil {
		f.classes.Close()
	}
	return first
}

// ask asks the kernel to read a small tensor, and nothing around it.
func (f *File) ask(t *gguf.Tensor) {
	_ = f.regions[t.Shard].Ahead(int(t.Offset), len(t.Data)) // advice
}

// Drop releases the pages of n bytes of a tensor from offset at, after they were read.
// If they are needed again, they are faulted in from the page cache.
func (f *File) Drop(t *gguf.Tensor, at, n int) {
	if f.remote != nil {
		return // which tensors are released when: see haul
	}
	// A failure costs memory, not correctness.
	_ = f.regions[t.Shard].DontNeed(int(t.Offset)+at, n)
}
