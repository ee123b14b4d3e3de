package launch

import (
	"fmt"

	"github.com/quern-llm/quern/go/convert"
	"github.com/quern-llm/quern/go/demo"
	"github.com/quern-llm/quern/go/engine"
	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/kernel"
	"github.com/quern-llm/quern/go/model"
	"github.com/quern-llm/quern/go/model/projector"
)

// readProjector finds the encoders of pictures and sounds that go with a model: those that the settings name, or else those
// beside it, and reads whether they fit it. Those beside it that do not are left out; Open notes why.
func (f *Files) readProjector(h *Head) error {
	s := &h.Settings
	h.files = f
	switch {
	case s.NoProjector:
		return nil
	case s.Projector != "":
		h.projector = s.Projector
		return f.fitProjector(h)
	}
	if demo.Is(h.Path) || convert.Is(h.Path) {
		if demo.Projector(h.Path) != nil || convert.HasProjector(h.Path) {
			h.projector = h.Path // and fits
		}
		return nil
	}
	if h.projector = gguf.ProjectorBeside(h.Path); h.projector == "" {
		return nil
	}
	if h.unfitting = f.fitProjector(h); h.unfitting != nil {
		h.projector = ""
	}
	return nil
}

// fitProjector returns an error unless the head's projector is one of models of this width, of a kind that is known, with the
// tensors that it has.
func (f *Files) fitProjector(h *Head) error {
	file, err := f.OpenProjector(h.projector)
	if err != nil {
		return err
	}
	defer file.Close()
	p, err := file.GGUF.Projector()
	if err != nil {
		return fmt.Errorf("%s is no projector: %w", h.projector, err)
	}
	if p.Width != uint64(h.Config.NEmbd) {
		return fmt.Errorf("%s is %s, and %s is %d wide: want the projector that was made for it", h.projector, p,
			h.Path, h.Config.NEmbd)
	}
	for _, one := range []struct {
		sense projector.Sense
		kind  string
	}{{projector.Sight, p.Vision}, {projector.Hearing, p.Audio}} {
		if one.kind == "" {
			continue
		}
		_, e, err := model.SurveyEncoder(file, one.sense, model.EncoderFile, kernel.KVTypes{})
		if err != nil {
			return fmt.Errorf("%s: %w", h.projector, err)
		}
		if n, reads := e.RowColumns(), h.Config.MediaColumns(); n != reads {
			return fmt.Errorf("%s: its rows have %d columns, and %s reads %d: want the projector that was made for it", h.projector,
				n, h.Path, reads)
		}
	}
	return nil
}

// HasProjector reports whether encoders of pictures and sounds go with the model.
func (h *Head) HasProjector() bool { return h.projector != "" }

// media has the engine see and hear with a projector.
func (h *Head) media(eyes *model.File) *engine.Media {
	return &engine.Media{Projector: eyes, Type: h.Settings.ProjectorType, Span: h.Settings.Media.MaxTokens}
}

// openProjector opens the head's projector for the engine, if there is one.
func (h *Head) openProjector(e Events) (*model.File, error) {
	if h.unfitting != nil {
		e.note("the projector beside the model is left out: %v", h.unfitting)
	}
	if h.projector == "" {
		return nil, nil
	}
	return h.files.OpenProjector(h.projector)
}
