package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
)

const (
	indexName = "model.safetensors.index.json"
	wholeName = "model.safetensors"
	maxText   = 256 << 20 // bytes
)

// A Checkpoint is the tensors of a folder: those of one file, or of the shards that its index names.
type Checkpoint struct {
	tensors map[string]*Tensor
	files   []*os.File
}

// Has reports whether a folder has weights in safetensors.
func Has(dir string) bool {
	for _, name := range []string{indexName, wholeName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	all, _ := filepath.Glob(filepath.Join(escape(dir), "model*.safetensors"))
	return len(all) > 0
}

// escape returns dir as a pattern that matches it and nothing else.
func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}

// Open reads the headers of a folder's weights. Errors are one line and name the file.
func Open(dir string) (*Checkpoint, error) {
	names, of, err := shards(dir)
	if err != nil {
		return nil, err
	}
	return open(dir, names, of)
}

// OpenFile reads the header of a single file.
func OpenFile(path string) (*Checkpoint, error) {
	return open(filepath.Dir(path), []string{filepath.Base(path)}, nil)
}

// open reads the headers of files, and compares them with the index, if there is one.
func open(dir string, names []string, of map[string]string) (_ *Checkpoint, err error) {
	c := &Checkpoint{tensors: map[string]*Tensor{}}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	alias := map[string]string{}
	for _, name := range names {
		f, h, err := openFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is not there: download the checkpoint again", filepath.Join(dir, name))
		}
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, f)
		for _, t := range h.tensors {
			if at, listed := of[t.Name]; of != nil && (!listed || at != name) {
				return nil, fmt.Errorf("%s: tensor %s is not where %s says", filepath.Join(dir, name), quote(t.Name), indexName)
			}
			if c.tensors[t.Name] != nil {
				return nil, fmt.Errorf("%s: tensor %s is in another file too", filepath.Join(dir, name), quote(t.Name))
			}
			c.tensors[t.Name] = t
		}
		maps.Copy(alias, h.meta)
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if c.tensors[name] == nil {
			return nil, fmt.Errorf("%s: tensor %s is missing: download the checkpoint again", filepath.Join(dir, of[name]), quote(name))
		}
	}
	// Of tensors that share their memory one is written, and the others' names with its own.
	for name, same := range alias {
		if t := c.tensors[same]; t != nil && c.tensors[name] == nil {
			twin := *t
			twin.Name = name
			c.tensors[name] = &twin
		}
	}
	return c, nil
}

// shards returns the files of a folder's weights, and by tensor the one that an index names.
func shards(dir string) (names []string, of map[string]string, err error) {
	path := filepath.Join(dir, indexName)
	text, err := ReadText(path)
	switch {
	case err == nil:
		var index struct {
			Map map[string]string `json:"weight_map"`
		}
		if err := json.Unmarshal(text, &index); err != nil {
			return nil, nil, fmt.Errorf("%s: %s", path, oneLine(err))
		}
		if len(index.Map) == 0 {
			return nil, nil, fmt.Errorf("%s: no weight_map", path)
		}
		for tensor, name := range index.Map {
			if name == "" || name == "." || name == ".." || strings.ContainsAny(name, "/\\\x00") {
				return nil, nil, fmt.Errorf("%s: tensor %s is in %s, want a file of the same folder", path, quote(tensor), quote(name))
			}
			names = append(names, name)
		}
		slices.Sort(names)
		return slices.Compact(names), index.Map, nil
	case !errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, wholeName)); err == nil {
		return []string{wholeName}, nil, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	old := ""
	for _, e := range entries {
		switch name := e.Name(); {
		case strings.HasPrefix(name, "model") && strings.HasSuffix(name, ".safetensors"):
			names = append(names, name)
		case strings.HasPrefix(name, "pytorch_model") && strings.HasSuffix(name, ".bin"), strings.HasSuffix(name, ".pth"):
			old = name
		}
	}
	switch {
	case len(names) > 0:
		return names, nil, nil
	case old != "":
		return nil, nil, fmt.Errorf("%s has weights as %s, whose format can run code when it is read; want model.safetensors", dir, old)
	}
	return nil, nil, fmt.Errorf("%s has no %s, nor shards of it", dir, wholeName)
}

// ReadText reads a whole file of a checkpoint that is text: an index, a configuration, a tokenizer (40 MB at the most, so far).
func ReadText(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	case info.Size() > maxText:
		return nil, fmt.Errorf("%s: %d bytes, the most is %d", path, info.Size(), maxText)
	}
	return os.ReadFile(path)
}

// Tensor returns the tensor called name, or nil.
func (c *Checkpoint) Tensor(name string) *Tensor { return c.tensors[name] }

// Names returns the names of all tensors, sorted.
func (c *Checkpoint) Names() []string { return slices.Sorted(maps.Keys(c.tensors)) }

// Close closes the files.
func (c *Checkpoint) Close() error {
	var first error
	for _, f := range c.files {
		if err := f.Close(); err != nil && first == nil {
			first = err
		}
	}
	c.files = nil
	return first
}
