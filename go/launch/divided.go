package launch

import (
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/model"
)

// Opener returns how a rank that follows opens the model called name: with the head of the settings, if rank 0 has it.
func (f *Files) Opener(name string, d Draft) engine.Opener {
	return func(head bool) (*model.File, error) {
		file, err := f.Open(name, "")
		if err != nil || !head {
			return file, err
		}
		layers, err := f.Open(d.Path, "")
		if err == nil {
			if err = file.DraftBy(layers); err != nil {
				layers.Close()
			}
		}
		if err != nil {
			file.Close()
			return nil, err
		}
		return file, nil
	}
}
