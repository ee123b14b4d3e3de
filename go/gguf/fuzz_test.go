package gguf

import (
	"bytes"
	"errors"
	"slices"
	"testing"
)

// Whatever the bytes: tensors inside the file and apart, or an error that wraps
// ErrFormat; and what was read can be written and read again, the same.
func FuzzParse(f *testing.F) {
	f.Add(write(f, sample()))
	f.Add([]byte(header(2, 0, 0)))
	f.Add([]byte(one(uint32(Q8_0), 2, []uint64{32, 2}, 32, 128)))
	f.Add([]byte(alignedTo(uint32(64), 4, 128)))
	f.Add([]byte(header(3, 0, 1).fields("k", kindArray, kindArray, u(2), kindString, u(1), "s", kindBool, u(0))))
	f.Fuzz(func(t *testing.T, data []byte) { checkParse(t, data) })
}

// Whatever the shards: a whole model with the tensors of all, or an error.
func FuzzMerge(f *testing.F) {
	part := func(no, count, total uint16, name string) []byte {
		w := NewWriter()
		w.Set("split.no", no)
		w.Set("split.count", count)
		w.Set("split.tensors.count", int32(total))
		w.AddTensor(name, I8, []uint64{3}, Bytes([]byte("abc")))
		return write(f, w)
	}
	f.Add(part(0, 2, 2, "a"), part(1, 2, 2, "b"), "m-00001-of-00002.gguf")
	f.Add(part(0, 2, 2, "a"), part(1, 2, 2, "a"), "m-99999-of-00002.gguf")
	f.Add(part(0, 65535, 0, "a"), part(1, 0, 9, "b"), "00000-of-00000.gguf")
	f.Fuzz(func(t *testing.T, a, b []byte, path string) {
		first, err := Parse(a)
		if err != nil {
			return
		}
		count, err := first.SplitCount()
		if err != nil {
			return
		}
		if paths, err := ShardPaths(path, count); err == nil && (len(paths) != count || !slices.Contains(paths, path)) {
			t.Fatalf("%d paths of %d, with %q among them: %v", len(paths), count, path, slices.Contains(paths, path))
		}
		second, err := Parse(b)
		if err != nil {
			return
		}
		for _, shards := range [][]*File{{first}, {first, second}} {
			m, err := Merge(shards)
			if err != nil {
				continue
			}
			n := 0
			for _, s := range shards {
				n += len(s.Tensors)
			}
			if len(m.Tensors) != n {
				t.Fatalf("%d tensors of %d", len(m.Tensors), n)
			}
			for i := range m.Tensors {
				x := &m.Tensors[i]
				if got, ok := m.Tensor(x.Name); !ok || got != x || !bytes.Equal(x.Data, shards[x.Shard].byName(x.Name).Data) {
					t.Fatalf("tensor %q is not that of shard %d", x.Name, x.Shard)
				}
			}
		}
	})
}

// byName returns a tensor that is there.
func (f *File) byName(name string) *Tensor {
	t, _ := f.Tensor(name)
	return t
}

// checkParse holds Parse to its contract, and returns what it returned.
func checkParse(t *testing.T, data []byte) (*File, error) {
	t.Helper()
	file, err := Parse(data)
	if err != nil {
		if !errors.Is(err, ErrFormat) {
			t.Fatalf("%v: does not wrap ErrFormat", err)
		}
		if file != nil || bytes.ContainsAny([]byte(err.Error()), "\n\x00") || len(err.Error()) > 400 {
			t.Fatalf("error %q, returned a file: %v; want one short line alone", err, file != nil)
		}
		return file, err
	}
	taken := make(map[uint64]bool)
	for i := range file.Tensors {
		x := &file.Tensors[i]
		size, err := x.Type.Size(x.Dims)
		if err != nil || size == 0 || size != uint64(len(x.Data)) {
			t.Fatalf("tensor %q: %d bytes of data, want %d, %v", x.Name, len(x.Data), size, err)
		}
		if &x.Data[0] != &data[x.Offset] || &x.Data[size-1] != &data[x.Offset+size-1] {
			t.Fatalf("tensor %q: data is not at %d", x.Name, x.Offset)
		}
		if (x.Offset-file.DataOffset)%file.Alignment != 0 || taken[x.Offset] {
			t.Fatalf("tensor %q: at %d, not aligned or taken", x.Name, x.Offset)
		}
		taken[x.Offset] = true
	}
	once := rewrite(t, file)
	again, err := Parse(once)
	if err != nil {
		t.Fatalf("written again: %v", err)
	}
	if len(again.KVs) != len(file.KVs) || len(again.Tensors) != len(file.Tensors) || again.Alignment != file.Alignment {
		t.Fatalf("written again: %d KVs, %d tensors, aligned to %d; want %d, %d, %d", len(again.KVs),
			len(again.Tensors), again.Alignment, len(file.KVs), len(file.Tensors), file.Alignment)
	}
	for i := range file.Tensors {
		if !bytes.Equal(file.Tensors[i].Data, again.Tensors[i].Data) {
			t.Fatalf("tensor %q: other data when written again", file.Tensors[i].Name)
		}
	}
	if !bytes.Equal(once, rewrite(t, again)) {
		t.Fatal("written twice: other bytes")
	}
	return file, nil
}
