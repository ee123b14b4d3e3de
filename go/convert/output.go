package convert

import (
	"context"
	"io"

	"github.com/quern-llm/quern/go/convert/lang"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/internal/newfile"
)

// An output is a GGUF file that is ready to be written.
type output struct {
	targets  []*lang.Target
	keys     []gguf.KV
	threads  int
	progress func(done, total uint64)
	losses   losses // of what was written last
}

// Size returns the number of bytes of all tensors.
func (o *output) Size() uint64 {
	n := uint64(0)
	for _, t := range o.targets {
		size, _ := t.Type.Size(t.Dims) // setType has checked this
		n += size
	}
	return n
}

// Tensors visits the tensors.
func (o *output) Tensors(visit func(name string, typ gguf.Type, dims []uint64)) {
	for _, t := range o.targets {
		visit(t.Name, t.Type, t.Dims)
	}
}

// WriteFile writes the file to path, atomically, and returns its size; see newfile.Write.
func (o *output) WriteFile(ctx context.Context, path string, replace bool) (int64, error) {
	need, err := o.empty().Size()
	if err != nil {
		return 0, err
	}
	return newfile.Write(path, replace, 0o644, need, func(w io.Writer) (int64, error) { return o.Write(ctx, w) })
}

// Write writes the file. It stops when ctx is done.
func (o *output) Write(ctx context.Context, out io.Writer) (int64, error) {
	w := o.writer()
	o.losses = losses{}
	p := &pipe{ctx: ctx, threads: max(o.threads, 1), total: o.Size(), progress: o.progress, losses: o.losses}
	for _, t := range o.targets {
		w.AddTensor(t.Name, t.Type, t.Dims, func(to io.Writer) error { return p.write(to, t) })
	}
	return w.WriteTo(out)
}

// writer returns a writer that has the keys.
func (o *output) writer() *gguf.Writer {
	w := gguf.NewWriter()
	for _, kv := range o.keys {
		w.Set(kv.Key, kv.Value)
	}
	return w
}

// empty returns a writer that knows the tensors, but not their data.
func (o *output) empty() *gguf.Writer {
	w := o.writer()
	for _, t := range o.targets {
		w.AddTensor(t.Name, t.Type, t.Dims, nil)
	}
	return w
}

// outline returns the file without the data of its tensors.
func (o *output) outline() (*gguf.File, error) { return o.empty().Outline() }
