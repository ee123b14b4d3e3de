package gguf

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The keys of a model cut into several files, called shards. Every shard has
// them; the rest of the metadata is in the first.
const (
	keySplitNo      = "split.no"    // index of this shard, from 0
	keySplitCount   = "split.count" // shards in all
	keySplitTensors = "split.tensors.count"
)

// maxShards follows from the names: five digits.
const maxShards = 99999

// SplitCount returns how many shards the model was cut into, 1 when it is
// whole. What Merge returns is whole.
func (f *File) SplitCount() (int, error) {
	if _, ok := f.Value(keySplitCount); !ok {
		return 1, nil
	}
	n, err := f.Uint(keySplitCount)
	if err != nil {
		return 0, err
	}
	if n > maxShards {
		return 0, fmt.Errorf("key %q: %w", keySplitCount, malformed("%d, want at most %d", n, maxShards))
	}
	return max(int(n), 1), nil // tools that join shards leave a 0
}

// Merge joins the shards of one model, given in order: the tensors of all, the
// metadata of the first less what says that it was split.
func Merge(shards []*File) (*File, error) {
	if len(shards) == 0 {
		return nil, malformed("no shards to merge")
	}
	count, err := shards[0].SplitCount()
	if err != nil {
		return nil, err
	}
	if count != len(shards) {
		return nil, malformed("model of %d shards, %d given", count, len(shards))
	}
	if count == 1 {
		return shards[0], nil
	}
	f := &File{
		Version:    shards[0].Version,
		Alignment:  shards[0].Alignment,
		DataOffset: shards[0].DataOffset,
		keys:       make(map[string]int),
		names:      make(map[string]int),
	}
	for _, kv := range shards[0].KVs {
		if slices.Contains([]string{keySplitNo, keySplitCount, keySplitTensors}, kv.Key) {
			continue
		}
		f.keys[kv.Key] = len(f.KVs)
		f.KVs = append(f.KVs, kv)
	}
	for i, s := range shards {
		if err := f.addShard(i, count, s); err != nil {
			return nil, fmt.Errorf("shard %d of %d: %w", i+1, count, err)
		}
	}
	want, err := shards[0].Uint(keySplitTensors)
	if err != nil {
		return nil, err
	}
	if got := uint64(len(f.Tensors)); got != want {
		return nil, malformed("%d tensors in all shards, %s says %d", got, keySplitTensors, want)
	}
	return f, nil
}

// addShard checks that s is shard i of count, and adds its tensors.
func (f *File) addShard(i, count int, s *File) error {
	n, err := s.SplitCount()
	if err != nil {
		return err
	}
	if n != count {
		return malformed("%s is %d, the first shard says %d", keySplitCount, n, count)
	}
	no, err := s.Uint(keySplitNo)
	if err != nil {
		return err
	}
	if no != uint64(i) {
		return malformed("%s is %d, want %d", keySplitNo, no, i)
	}
	if len(f.Tensors)+len(s.Tensors) > MaxTensors {
		return malformed("more than %d tensors in all", MaxTensors)
	}
	for _, t := range s.Tensors {
		if at, ok := f.names[t.Name]; ok {
			return fmt.Errorf("tensor %s: %w", quote(t.Name),
				malformed("also in shard %d", f.Tensors[at].Shard+1))
		}
		t.Shard = i
		f.names[t.Name] = len(f.Tensors)
		f.Tensors = append(f.Tensors, t)
	}
	return nil
}

var shardName = regexp.MustCompile(`^((?s:.*)-)(\d{5})-of-(\d{5})\.gguf$`)

// ShardPaths returns the paths of all shards of a model cut into count, given
// that of any one of them: "model-00001-of-00003.gguf" names the first of 3.
// A model of one shard may have any name.
func ShardPaths(path string, count int) ([]string, error) {
	if count < 1 || count > maxShards {
		return nil, fmt.Errorf("%d shards, want 1 to %d", count, maxShards)
	}
	if count == 1 {
		return []string{path}, nil
	}
	m := shardName.FindStringSubmatch(path)
	if m == nil {
		return nil, fmt.Errorf("path %q of a model of %d shards, want a name like model-00001-of-%05d.gguf", path, count, count)
	}
	no, _ := strconv.Atoi(m[2]) // five digits
	if of, _ := strconv.Atoi(m[3]); of != count || no < 1 || no > count {
		return nil, fmt.Errorf("path %q says shard %d of %d, the file says that there are %d", path, no, of, count)
	}
	paths := make([]string, count)
	for i := range paths {
		paths[i] = ShardPath(strings.TrimSuffix(m[1], "-"), i, count)
	}
	return paths, nil
}

// With returns the file with other tensors, of different names.
func (f *File) With(tensors []Tensor) (*File, error) {
	to := *f
	to.Tensors, to.names = tensors, make(map[string]int, len(tensors))
	for i, t := range tensors {
		if _, ok := to.names[t.Name]; ok {
			return nil, fmt.Errorf("tensor %s: %w", quote(t.Name), malformed("comes twice"))
		}
		if _, err := t.Type.Size(t.Dims); err != nil {
			return nil, fmt.Errorf("tensor %s: %w", quote(t.Name), err)
		}
		to.names[t.Name] = i
	}
	return &to, nil
}
