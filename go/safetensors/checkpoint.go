package safetensors

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
)

const (
	indexName = "model.safetensors.index.json"
	wholeName = "model.safetensors"
	maxText   = 256 << 20 // bytes
)

// A Checkpoint is the tensors of a folder: those of one file, or of the shards that its index names, or of files that have
// what each of several machines was given (see Parts).
type Checkpoint struct {
	tensors map[string]*Tensor
	parts   map[string][]*Tensor
	meta    map[string]string // texts of the headers
	files   []*os.File
}

// ranked is how files are called that have parts of tensors, for as many machines: Grok 2's.
var ranked = regexp.MustCompile(`-TP-(\d{1,4})\.safetensors$`)

// apart reports whether a file is one of those, or has what all of these machines were given.
func apart(name string) bool {
	return ranked.MatchString(name) || strings.HasSuffix(name, "-TP-common.safetensors")
}

// Has reports whether a folder has weights in safetensors.
func Has(dir string) bool {
	for _, name := range []string{indexName, wholeName} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	for _, pattern := range []string{"model*.safetensors", "*-TP-*.safetensors"} {
		all, _ := filepath.Glob(filepath.Join(escape(dir), pattern))
		if slices.ContainsFunc(all, func(path string) bool { return pattern[0] == 'm' || apart(path) }) {
			return true
		}
	}
	return false
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
	c := &Checkpoint{tensors: map[string]*Tensor{}, parts: map[string][]*Tensor{}}
	defer func() {
		if err != nil {
			c.Close()
		}
	}()
	c.meta = map[string]string{}
	for _, name := range names {
		f, h, err := openFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s is not there: download the checkpoint again", filepath.Join(dir, name))
		}
		if err != nil {
			return nil, err
		}
		c.files = append(c.files, f)
		rank := -1
		if m := ranked.FindStringSubmatch(name); m != nil && of == nil {
			rank, _ = strconv.Atoi(m[1])
		}
		for _, t := range h.tensors {
			if at, listed := of[t.Name]; of != nil && (!listed || at != name) {
				return nil, fmt.Errorf("%s: tensor %s is not where %s says", filepath.Join(dir, name), quote(t.Name), indexName)
			}
			parts := c.parts[t.Name]
			switch {
			case rank > 0 && rank == len(parts):
				c.parts[t.Name] = append(parts, t)
			case rank > 0:
				return nil, fmt.Errorf("%s: tensor %s is part %d, and %d are in the files before: download the checkpoint again", filepath.Join(dir, name), quote(t.Name), rank, len(parts))
			case c.tensors[t.Name] != nil:
				return nil, fmt.Errorf("%s: tensor %s is in another file too", filepath.Join(dir, name), quote(t.Name))
			default:
				c.tensors[t.Name] = t
				if rank == 0 {
					c.parts[t.Name] = []*Tensor{t}
				}
			}
		}
		maps.Copy(c.meta, h.meta)
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		if c.tensors[name] == nil {
			return nil, fmt.Errorf("%s: tensor %s is missing: download the checkpoint again", filepath.Join(dir, of[name]), quote(name))
		}
	}
	if err := c.checkParts(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	// Of tensors that share their memory one is written, and the others' names with its own.
	for name, same := range c.meta {
		if t := c.tensors[same]; t != nil && c.tensors[name] == nil {
			twin := *t
			twin.Name = name
			c.tensors[name] = &twin
		}
	}
	return c, nil
}

// checkParts returns an error unless all tensors in parts are in as many, alike.
func (c *Checkpoint) checkParts() error {
	most := 0
	for _, parts := range c.parts {
		most = max(most, len(parts))
	}
	for _, name := range slices.Sorted(maps.Keys(c.parts)) {
		parts := c.parts[name]
		if len(parts) < most {
			return fmt.Errorf("tensor %s is in %d parts, others are in %d: download the checkpoint again", quote(name), len(parts), most)
		}
		for _, t := range parts[1:] {
			if first := parts[0]; t.DType != first.DType || !slices.Equal(t.Shape, first.Shape) {
				return fmt.Errorf("tensor %s: parts are %s of the shape %v and %s of %v, want the same", quote(name), first.DType, first.Shape, t.DType, t.Shape)
			}
		}
	}
	return nil
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
		case strings.HasPrefix(name, "model") && strings.HasSuffix(name, ".safetensors"), apart(name):
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

// Tensor returns the tensor called name, or nil; of one in parts, the first.
func (c *Checkpoint) Tensor(name string) *Tensor { return c.tensors[name] }

// Parts returns the parts of a tensor that is in the files of several machines, in their order, all of one shape; nil of any other.
// Along which dimension they were cut nothing says.
func (c *Checkpoint) Parts(name string) []*Tensor { return c.parts[name] }

// Metadata returns a text of a header, "" if there is none of that key.
func (c *Checkpoint) Metadata(key string) string { return c.meta[key] }

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
