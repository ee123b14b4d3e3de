package reading

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/media/document"
)

// maxFile is the size of the largest file of a picture, a sound or a document that is read.
const maxFile = 256 << 20

// ReadFile returns the picture or the sound in a file.
func ReadFile(path string) (*chat.Medium, error) {
	data, err := readAll(path)
	if err != nil {
		return nil, err
	}
	kind, err := KindOf(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &chat.Medium{Kind: kind, Data: data}, nil
}

// ReadDocument returns the text of a document in a file, as it stands in prompts.
func ReadDocument(ctx context.Context, path string) (chat.Part, error) {
	data, err := readAll(path)
	if err != nil {
		return chat.Part{}, err
	}
	name := filepath.Base(path)
	d, err := document.Read(ctx, document.File{Data: data, Name: name}, document.Limits{})
	if err != nil {
		return chat.Part{}, fmt.Errorf("%s: %w", path, err)
	}
	return chat.Part{Text: d.Prompt(name, "")}, nil
}

// readAll returns the bytes of a file, which is not larger than all that is taken.
func readAll(path string) ([]byte, error) {
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
		return nil, fmt.Errorf("%s has more than %d MiB; give a smaller file", path, maxFile>>20)
	}
	return io.ReadAll(io.LimitReader(f, maxFile))
}
