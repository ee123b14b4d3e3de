package finetune

import (
	"io"
	"io/fs"

	"github.com/quern-llm/quern/go/internal/newfile"
)

// WriteGGUF writes the best adapter as GGUF, as OpenAdapter and llama.cpp read it, and returns the size of the file,
// whose permissions are perm.
func (j *Job) WriteGGUF(path string, replace bool, perm fs.FileMode) (int64, error) {
	w := j.trainer.Adapter.Write(j.model.Config.Arch, j.Numbers())
	return newfile.Write(path, replace, perm, j.Size().Adapter, func(out io.Writer) (int64, error) { return w.WriteTo(out) })
}
