package synth

import (
	"context"
	"io"

	"github.com/quern-llm/quern/go/internal/newfile"
)

// metadataBytes is more than any of the shapes' metadata takes.
const metadataBytes = 16 << 20

// WriteFile writes the file called path and returns its bytes, as newfile.Write
// has it.
func (m Model) WriteFile(ctx context.Context, path string, replace bool) (int64, error) {
	data, err := m.DataBytes()
	if err != nil {
		return 0, err
	}
	return newfile.Write(path, replace, 0o644, data+metadataBytes, func(w io.Writer) (int64, error) { return m.Write(ctx, w) })
}
