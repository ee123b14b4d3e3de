package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/quern-llm/quern/go/convert"
	"github.com/quern-llm/quern/go/internal/newfile"
	"github.com/quern-llm/quern/go/model"
)

// checkpoints are the folders that were named as models.
var checkpoints checkpointFiles

// checkpointFiles has the weights of checkpoints as GGUF: each is converted once in the life of the process, to a file
// without a name that ends with it. It is the value of --quantize as well.
type checkpointFiles struct {
	typ string // that weights are converted to; empty: as they are

	mu   sync.Mutex
	made map[string]*os.File // by folder and type
}

// Set implements pflag.Value.
func (c *checkpointFiles) Set(s string) error {
	if err := convert.CheckType(s); err != nil {
		return err
	}
	c.typ = s
	return nil
}

func (c *checkpointFiles) String() string { return c.typ }

// Type implements pflag.Value.
func (c *checkpointFiles) Type() string { return "TYPE" }

// open opens the checkpoint in a folder as a model.
func (c *checkpointFiles) open(dir string) (*model.File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := dir + "\x00" + c.typ
	f := c.made[key]
	if f == nil {
		var err error
		if f, err = c.convert(dir); err != nil {
			return nil, err
		}
		if c.made == nil {
			c.made = map[string]*os.File{}
		}
		c.made[key] = f
	}
	return model.OpenFileAs(fmt.Sprintf("/proc/self/fd/%d", f.Fd()), dir)
}

func (c *checkpointFiles) convert(dir string) (*os.File, error) {
	threads, err := threadsOr(0)
	if err != nil {
		return nil, err
	}
	bar := newBar(os.Stderr, "converting")
	defer bar.done()
	m, err := convert.Open(dir, convert.Options{Type: c.typ, Threads: threads, Progress: bar.update})
	if err != nil {
		return nil, err
	}
	defer m.Close()
	f, err := newfile.Nameless(scratchDir(), m.Size(), func(w io.Writer) (int64, error) { return m.Write(context.Background(), w) })
	if err != nil {
		return nil, fmt.Errorf("%s: converting it takes a file as large as its weights, in a folder that TMPDIR names: %w", dir, err)
	}
	return f, nil
}

// scratchDir returns the folder for large files that nobody else reads: TMPDIR, or the one for those that may be kept on a
// disk, since /tmp is often memory.
func scratchDir() string {
	if dir := os.Getenv("TMPDIR"); dir != "" {
		return dir
	}
	if info, err := os.Stat("/var/tmp"); err == nil && info.IsDir() {
		return "/var/tmp"
	}
	return filepath.Clean(os.TempDir())
}
