package convert

import (
	"fmt"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/tokenizer"
)

// check finds out before anything is written whether this program can run the file: whether all keys and tensors exist
// and have the right shapes.
func (m *Model) check() error {
	f, err := m.outline()
	if err == nil {
		err = runs(f)
	}
	if err != nil {
		return fmt.Errorf("%s: as %s: %w", m.dir, m.family.Arch, err)
	}
	return nil
}

// runs returns why a file cannot be run, nil if it can.
func runs(f *gguf.File) error {
	s, err := model.NewSurvey(model.Outline("", f), kernel.KVTypes{K: kernel.KVI16, V: kernel.KVI16}, 0)
	if err != nil {
		return err
	}
	t, err := tokenizer.New(f)
	if err != nil {
		return err
	}
	if t.Len() > s.Config.NVocab {
		return fmt.Errorf("the tokenizer has %d tokens and the model embeddings of %d", t.Len(), s.Config.NVocab)
	}
	return nil
}
