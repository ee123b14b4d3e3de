package synth

import (
	"context"
	"io"

	"github.com/quern-llm/quern/go/internal/newfile"
)

// metadataBytes is an upper bound on the size of the metadata.
const metadataBytes = 16 << 20

// WriteFile writes the model to path and returns the bytes written; see newfile.Write.
func (m Model) WriteFile(ctx context.Context, path string, replace bool) (int64, error) {
	data, err := m.DataBytes()
	if err != nil {
		return 0, err
	}
	return newfile.Write(path, replace, 0o644, data+metadataBytes, func(w io.Writer) (int64, error) { return m.Write(ctx, w) })
}
