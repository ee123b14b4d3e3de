package finetune

import (
	"io"

	"github.com/quern-llm/quern/go/internal/newfile"
)

// WriteGGUF writes the best adapter as GGUF, as OpenAdapter and llama.cpp read it, and returns the size of the file.
func (j *Job) WriteGGUF(path string, replace bool) (int64, error) {
	w := j.trainer.Adapter.Write(j.model.Config.Arch, j.Numbers())
	return newfile.Write(path, replace, 0o644, j.Size().Adapter, func(out io.Writer) (int64, error) { return w.WriteTo(out) })
}
