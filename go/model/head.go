package model

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/model/arch"
	"github.com/quern-llm/quern/go/model/nn"
)

// IsHead reports whether the file is a draft head: layers that draft for another model and cannot run alone.
func (f *File) IsHead() bool {
	name, err := f.GGUF.Str("general.architecture")
	return err == nil && arch.IsHead(name)
}

// DraftBy makes the head in another file draft for the model in f, if it is loaded with drafting: see
// Survey.Drafting. f takes ownership of the other file, unless there is an error, which names that file. It
// must be called before f is surveyed.
func (f *File) DraftBy(head *File) error {
	cfg, err := f.Config()
	if err != nil {
		return err
	}
	h, err := arch.ReadHead(head.GGUF)
	if err == nil {
		err = h.Fits(cfg)
	}
	if err == nil && (f.Remote() || head.Remote()) {
		err = fmt.Errorf("a head cannot draft: %w", errRemote)
	}
	if err == nil && head.Packed() {
		err = fmt.Errorf("it is packed, and heads are not used so; give the file that it was made of")
	}
	if err == nil && cfg.Head.Arch != "" {
		err = fmt.Errorf("a head drafts for the model already")
	}
	var both *gguf.File
	if err == nil {
		all := slices.Clone(f.GGUF.Tensors)
		for _, t := range head.GGUF.Tensors {
			t.Name, t.Shard = nn.HeadPrefix+t.Name, len(f.regions)+t.Shard
			all = append(all, t)
		}
		both, err = f.GGUF.With(all)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", head.Name(), err)
	}
	drafted := *cfg
	drafted.Head = h
	f.GGUF, f.config = both, &drafted
	f.Paths = append(slices.Clip(f.Paths), head.Paths...)
	f.regions, f.guards = append(slices.Clip(f.regions), head.regions...), append(slices.Clip(f.guards), head.guards...)
	return nil
}

// ofHead reports whether a tensor or matrix belongs to the draft head.
func ofHead(name string) bool { return strings.HasPrefix(name, nn.HeadPrefix) }
