package gguf

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// whole writes a model of tensors of 100 to 100n bytes.
func whole(t *testing.T, n int, align uint32) []byte {
	t.Helper()
	w := NewWriter()
	w.Set("general.architecture", "llama")
	if align != 0 {
		w.Set("general.alignment", align)
	}
	for i := range n {
		data := bytes.Repeat([]byte{byte(i + 1)}, 100*(i+1))
		w.AddTensor(fmt.Sprint("t", i), I8, []uint64{uint64(len(data))}, Bytes(data))
	}
	return write(t, w)
}

func TestCut(t *testing.T) {
	for _, tt := range []struct {
		name  string
		o     CutOptions
		align uint32
		want  []int // tensors of each shard
	}{
		{"no limit", CutOptions{}, 0, []int{5}},
		{"tensors", CutOptions{MaxTensors: 2}, 0, []int{2, 2, 1}},
		{"as many as there are", CutOptions{MaxTensors: 5}, 0, []int{5}},
		{"bytes", CutOptions{MaxBytes: 128 + 224 + 320}, 0, []int{3, 1, 1}},
		{"a byte less", CutOptions{MaxBytes: 128 + 224 + 319}, 0, []int{2, 1, 1, 1}},
		{"the head apart", CutOptions{MaxTensors: 3, HeadApart: true}, 0, []int{0, 3, 2}},
		{"another alignment", CutOptions{MaxTensors: 2}, 64, []int{2, 2, 1}},
	} {
		data := whole(t, 5, tt.align)
		f, err := Parse(data)
		if err != nil {
			t.Fatal(err)
		}
		cut, err := Cut(f, tt.o)
		if err != nil {
			t.Fatal(err)
		}
		var got []int
		var shards []*File
		for _, s := range cut {
			got = append(got, s.Tensors)
			b := write(t, s.Writer)
			if n, err := s.Size(); err != nil || n != uint64(len(b)) {
				t.Errorf("%s: size %d, %v; %d were written", tt.name, n, err, len(b))
			}
			shard, err := Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			shards = append(shards, shard)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v tensors, want %v", tt.name, got, tt.want)
		}
		joined, err := Merge(shards)
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		again := Rewrite(joined)
		if len(shards) == 1 {
			continue // a shard says that it is one
		}
		if !bytes.Equal(write(t, again), data) {
			t.Errorf("%s: joined it is not what it was", tt.name)
		}
	}
	f, err := Parse(whole(t, 2, 0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Cut(f, CutOptions{MaxBytes: 200}); err == nil || !strings.Contains(err.Error(), `tensor "t1" takes 224 bytes alone`) {
		t.Errorf("a tensor that is too large: %v", err)
	}
	if got := ShardPath("a/b", 0, 3); got != "a/b-00001-of-00003.gguf" {
		t.Errorf("got %q", got)
	}
}
