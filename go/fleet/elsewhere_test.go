package fleet

import (
	"testing"

	"github.com/quern-llm/quern/go/launch"
	"github.com/quern-llm/quern/go/model"
)

// A model that is read from its server holds up no other while it is loaded; one that is here has its turn.
func TestElsewhere(t *testing.T) {
	files := &launch.Files{}
	files.Remote("far", []model.Source{nil})
	f := &Fleet{c: Config{Files: files}}
	for path, want := range map[string]bool{"far": true, "near.gguf": false} {
		if got := f.source(Model{Path: path}, nil).Elsewhere; got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
}
