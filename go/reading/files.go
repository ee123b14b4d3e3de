package reading

import (
	"fmt"
	"io"
	"os"

	"github.com/quern-llm/quern/go/chat"
)

// maxFile is the size of the largest file of a picture or a sound that is read.
const maxFile = 256 << 20

// ReadFile returns the picture or the sound in a file.
func ReadFile(path string) (*chat.Medium, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is no file", path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has more than %d MiB; give a smaller picture or sound", path, maxFile>>20)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return nil, err
	}
	kind, err := KindOf(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &chat.Medium{Kind: kind, Data: data}, nil
}
