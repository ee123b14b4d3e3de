package quern

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/platform"
)

// openFrom opens a model that is not at a path. Its bytes are copied to memory that the kernel treats as a file, so that
// weights are mapped and packed as always, unless they are a file of the operating system.
func (m *Model) openFrom(ctx context.Context, source func(string) (fs.File, error), name string) (*model.File, error) {
	src, err := source(name)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if f, ok := src.(*os.File); ok {
		return openFD(f, name)
	}
	info, err := src.Stat()
	if err != nil {
		return nil, err
	}
	if info.IsDir() || info.Size() < 0 {
		return nil, fmt.Errorf("%s is no file", name)
	}
	size := info.Size()
	if m.copied, err = m.device.engine.Budget().Reserve("copies of model files", uint64(size)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	f, err := platform.MemoryFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer f.Close()
	if n, err := io.Copy(f, io.LimitReader(untilDone{ctx, src}, size)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	} else if n < size {
		return nil, fmt.Errorf("%s: it ends after %d of %d bytes", name, n, size)
	}
	return openFD(f, name)
}

// openFD opens the model in an open file.
func openFD(f *os.File, name string) (*model.File, error) {
	return model.OpenFileAs(platform.Path(f), name)
}

// untilDone reads until a context ends.
type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if u.ctx.Err() != nil {
		return 0, context.Cause(u.ctx)
	}
	return u.r.Read(b)
}

// A section is a part of a reader as a file.
type section struct{ *io.SectionReader }

func (s *section) Close() error               { return nil }
func (s *section) Stat() (fs.FileInfo, error) { return sectionInfo{size: s.Size()}, nil }

// sectionInfo has a size alone.
type sectionInfo struct {
	fs.FileInfo
	size int64
}

func (i sectionInfo) Size() int64 { return i.size }
func (i sectionInfo) IsDir() bool { return false }
