package gguf

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// shard writes and parses shard no of count, of a model of total tensors.
func shard(t *testing.T, no, count, total int, names ...string) *File {
	t.Helper()
	w := NewWriter()
	if no == 0 {
		w.Set("general.architecture", "llama")
	}
	w.Set("split.no", uint16(no))
	w.Set("split.count", uint16(count))
	w.Set("split.tensors.count", int32(total))
	for _, name := range names {
		w.AddTensor(name, I8, []uint64{uint64(len(name))}, Bytes([]byte(name)))
	}
	f, err := Parse(write(t, w))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestMerge(t *testing.T) {
	shards := []*File{
		shard(t, 0, 3, 4, "a"), // often it has none
		shard(t, 1, 3, 4, "b", "c"),
		shard(t, 2, 3, 4, "d"),
	}
	if n, err := shards[1].SplitCount(); n != 3 || err != nil {
		t.Errorf("SplitCount = %d, %v", n, err)
	}
	f, err := Merge(shards)
	if err != nil {
		t.Fatal(err)
	}
	if want := []KV{{"general.architecture", "llama"}}; !reflect.DeepEqual(f.KVs, want) {
		t.Errorf("metadata %v, want %v", f.KVs, want)
	}
	if arch, err := f.Str("general.architecture"); arch != "llama" || err != nil {
		t.Errorf("architecture %q, %v", arch, err)
	}
	if n, err := f.SplitCount(); n != 1 || err != nil {
		t.Errorf("SplitCount of the whole = %d, %v", n, err)
	}
	for i, r := range []struct {
		name  string
		shard int
	}{{"a", 0}, {"b", 1}, {"c", 1}, {"d", 2}} {
		x, ok := f.Tensor(r.name)
		if !ok || x != &f.Tensors[i] || x.Shard != r.shard || string(x.Data) != r.name {
			t.Errorf("tensor %q is %+v", r.name, x)
		}
	}
	if len(f.Tensors) != 4 || shards[1].Tensors[0].Shard != 0 {
		t.Error("Merge changed its arguments, or added tensors")
	}

	whole, err := Parse(write(t, sample()))
	if err != nil {
		t.Fatal(err)
	}
	if f, err := Merge([]*File{whole}); f != whole || err != nil {
		t.Errorf("Merge of a whole model = %p, %v", f, err)
	}
}

func TestMergeRefuses(t *testing.T) {
	odd := func(key string, value any) *File {
		w := NewWriter()
		w.Set("split.count", uint16(2))
		w.Set("split.no", uint16(0))
		w.Set(key, value)
		f, err := Parse(write(t, w))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	b := shard(t, 1, 2, 2, "b")
	for _, r := range []struct {
		name   string
		shards []*File
		want   string
	}{
		{"none", nil, "no shards"},
		{"too few", []*File{shard(t, 0, 3, 2, "a"), shard(t, 1, 3, 2, "b")}, "model of 3 shards, 2 given"},
		{"too many", []*File{shard(t, 0, 1, 1, "a"), b}, "model of 1 shards, 2 given"},
		{"wrong order", []*File{b, shard(t, 0, 2, 2, "a")}, "shard 1 of 2: malformed GGUF: split.no is 1, want 0"},
		{"one twice", []*File{shard(t, 0, 2, 2, "a"), shard(t, 0, 2, 2, "a")}, "shard 2 of 2: malformed GGUF: split.no is 0, want 1"},
		{"other count", []*File{shard(t, 0, 2, 2, "a"), shard(t, 1, 3, 2, "b")}, "split.count is 3, the first shard says 2"},
		{"not split", []*File{shard(t, 0, 2, 2, "a"), shard(t, 1, 1, 2, "b")}, "split.count is 1"},
		{"tensor twice", []*File{shard(t, 0, 2, 2, "b"), b}, `tensor "b": malformed GGUF: also in shard 1`},
		{"tensor missing", []*File{shard(t, 0, 2, 3, "a"), b}, "2 tensors in all shards, split.tensors.count says 3"},
		{"count of another type", []*File{odd("split.count", "2"), b}, "string, want an integer"},
		{"count negative", []*File{odd("split.count", int32(-2)), b}, "-2, want 0 or more"},
		{"count absurd", []*File{odd("split.count", uint32(100000)), b}, "100000, want at most 99999"},
		{"number of another type", []*File{odd("split.no", true), b}, "bool, want an integer"},
		{"number missing", []*File{shard(t, 0, 2, 2, "a"), func() *File {
			w := NewWriter()
			w.Set("split.count", uint16(2))
			f, err := Parse(write(t, w))
			if err != nil {
				t.Fatal(err)
			}
			return f
		}()}, `key "split.no": missing`},
		{"total missing", []*File{odd("k", true), b}, `key "split.tensors.count": missing`},
	} {
		t.Run(r.name, func(t *testing.T) {
			_, err := Merge(r.shards)
			if err == nil || !strings.Contains(err.Error(), r.want) {
				t.Fatalf("error %v, want %q", err, r.want)
			}
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrMissing) {
				t.Errorf("%v wraps neither ErrFormat nor ErrMissing", err)
			}
		})
	}
}

// Shards may have as many tensors in all as one file may, and not one more.
func TestMergeCountsTensors(t *testing.T) {
	part := func(no, n int) *File {
		f := shard(t, no, 2, MaxTensors)
		for i := range n {
			f.Tensors = append(f.Tensors, Tensor{Name: fmt.Sprint(no, ".", i)})
		}
		return f
	}
	if f, err := Merge([]*File{part(0, MaxTensors-1), part(1, 1)}); err != nil || len(f.Tensors) != MaxTensors {
		t.Errorf("the most tensors in two shards: %v", err)
	}
	if _, err := Merge([]*File{part(0, MaxTensors-1), part(1, 2)}); err == nil || !strings.Contains(err.Error(), "more than 262144 tensors") {
		t.Errorf("one tensor too many in two shards: %v", err)
	}
}

func TestSplitCountZero(t *testing.T) {
	w := NewWriter()
	w.Set("split.count", uint16(0)) // what a joined model has
	f, err := Parse(write(t, w))
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.SplitCount(); n != 1 || err != nil {
		t.Errorf("SplitCount = %d, %v; want 1", n, err)
	}
}

func TestShardPaths(t *testing.T) {
	for _, r := range []struct {
		path  string
		count int
		want  string // joined by spaces; empty for an error
	}{
		{"m.gguf", 1, "m.gguf"},
		{"m-00001-of-00001.gguf", 1, "m-00001-of-00001.gguf"},
		{"/x/m-00001-of-00003.gguf", 3, "/x/m-00001-of-00003.gguf /x/m-00002-of-00003.gguf /x/m-00003-of-00003.gguf"},
		{"m-00002-of-00002.gguf", 2, "m-00001-of-00002.gguf m-00002-of-00002.gguf"},
		{"a-00001-of-00002.gguf/m-00001-of-00002.gguf", 2, "a-00001-of-00002.gguf/m-00001-of-00002.gguf a-00001-of-00002.gguf/m-00002-of-00002.gguf"},
		{"m.gguf", 2, ""},
		{"m-00001-of-00003.gguf", 2, ""},
		{"m-00000-of-00002.gguf", 2, ""},
		{"m-00003-of-00002.gguf", 2, ""},
		{"m-1-of-2.gguf", 2, ""},
		{"m-00001-of-00002.gguf.part", 2, ""},
		{"m-00001-of-00002.gguf", 0, ""},
		{"m-00001-of-00002.gguf", 100000, ""},
	} {
		got, err := ShardPaths(r.path, r.count)
		if strings.Join(got, " ") != r.want || (err == nil) != (r.want != "") {
			t.Errorf("ShardPaths(%q, %d) = %q, %v; want %q", r.path, r.count, got, err, r.want)
		}
	}
}
