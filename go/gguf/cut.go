package gguf

import (
	"fmt"
	"math"
	"strings"
)

// CutOptions say where Cut divides a model. The defaults are gguf-split's.
type CutOptions struct {
	MaxTensors int    // of a shard; 0: no limit
	MaxBytes   uint64 // of the tensors of a shard; 0: no limit
	HeadApart  bool   // the first shard has the metadata alone
}

// A Shard is a part of a model, to be written.
type Shard struct {
	*Writer
	Tensors int
	Bytes   uint64 // of the tensors, padded
}

// Cut divides a whole model into shards. What Merge makes of them is the model again.
func Cut(f *File, o CutOptions) ([]Shard, error) {
	var parts [][]*Tensor
	var sizes []uint64
	begin := func() { parts, sizes = append(parts, nil), append(sizes, 0) }
	begin()
	if o.HeadApart {
		begin()
	}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		size := alignUp(uint64(len(t.Data)), f.Alignment)
		if o.MaxBytes > 0 && size > o.MaxBytes {
			return nil, fmt.Errorf("tensor %s takes %d bytes alone, the limit of a file is %d; give a larger limit", quote(t.Name), size, o.MaxBytes)
		}
		last := len(parts) - 1
		if n := len(parts[last]); n > 0 && (o.MaxTensors > 0 && n == o.MaxTensors || o.MaxBytes > 0 && sizes[last]+size > o.MaxBytes) {
			begin()
			last++
		}
		parts[last], sizes[last] = append(parts[last], t), sizes[last]+size
	}
	if len(parts) > math.MaxUint16 {
		return nil, fmt.Errorf("%d files, want at most %d; give a larger limit", len(parts), math.MaxUint16)
	}
	shards := make([]Shard, len(parts))
	for i, tensors := range parts {
		w := NewWriter()
		for _, kv := range f.KVs {
			// Tools add the numbers of a shard last. Its alignment is its own.
			if own := strings.HasPrefix(kv.Key, "split."); (i == 0 || kv.Key == keyAlignment) && !own {
				w.Set(kv.Key, kv.Value)
			}
		}
		w.SetShard(i, len(parts), len(f.Tensors))
		for _, t := range tensors {
			w.AddTensor(t.Name, t.Type, t.Dims, Bytes(t.Data))
		}
		shards[i] = Shard{w, len(tensors), sizes[i]}
	}
	return shards, nil
}

// Rewrite returns a Writer of the whole file as it is.
func Rewrite(f *File) *Writer {
	w := NewWriter()
	for _, kv := range f.KVs {
		w.Set(kv.Key, kv.Value)
	}
	for i := range f.Tensors {
		t := &f.Tensors[i]
		w.AddTensor(t.Name, t.Type, t.Dims, Bytes(t.Data))
	}
	return w
}

// SetShard sets what says that a file is shard i of n, counted from 0, of a model with so many tensors in all.
func (w *Writer) SetShard(i, n, tensors int) {
	w.Set(keySplitNo, uint16(i))
	w.Set(keySplitCount, uint16(n))
	w.Set(keySplitTensors, int32(tensors))
}

// ShardPath returns the path of shard i of n, counted from 0, whose name begins with prefix.
func ShardPath(prefix string, i, n int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, i+1, n)
}
