package arch

import (
	"fmt"
	"slices"

	"github.com/quern-llm/quern/go/gguf"
	. "github.com/quern-llm/quern/go/model/nn"
)

// A headKind is an architecture of heads.
type headKind struct {
	name   string
	config func(k *Keys, h *Head)
	build  func(b *Builder, h *Head)
}

// headKinds are the architectures of heads.
var headKinds = []headKind{eagle3, dflash, gemma4assistant}

func headKindOf(name string) (headKind, bool) {
	i := slices.IndexFunc(headKinds, func(k headKind) bool { return k.name == name })
	if i < 0 {
		return headKind{}, false
	}
	return headKinds[i], true
}

// IsHead reports whether files of an architecture draft for another model, and are nothing without it.
func IsHead(name string) bool {
	_, ok := headKindOf(name)
	return ok
}

// ReadHead reads the keys of a file that drafts for another model. Errors name the key or the tensor.
func ReadHead(f *gguf.File) (Head, error) {
	name, err := f.Str("general.architecture")
	if err != nil {
		return Head{}, err
	}
	kind, ok := headKindOf(name)
	if !ok {
		return Head{}, fmt.Errorf("architecture %.64q does not draft for another model", name)
	}
	return ReadHeadKeys(f, name, kind.config)
}
