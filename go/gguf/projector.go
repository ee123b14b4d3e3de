package gguf

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// typeInName matches a type at the end of a file's name.
var typeInName = regexp.MustCompile(`(?i)(?:^|[.-])((?:UD-)?(?:I?Q[1-8](?:_[0-9A-Z]+)*|TQ[12]_0|BF16|F16|F32|MXFP4(?:_[A-Z]+)*|NVFP4(?:_[A-Z]+)*))$`)

// TypeInName returns the type that most tensors of a file have, by its name without .gguf, in upper case; empty if the
// name has none.
func TypeInName(stem string) string {
	if m := typeInName.FindStringSubmatch(stem); m != nil {
		return strings.ToUpper(m[1])
	}
	return ""
}

// withoutType returns a name without the type at its end.
func withoutType(stem string) string {
	if m := typeInName.FindStringSubmatchIndex(stem); m != nil {
		return stem[:m[0]]
	}
	return stem
}

// IsProjector reports whether a file, by its name, is a projector: the encoders of pictures and sounds of models beside it.
func IsProjector(name string) bool {
	base := strings.ToLower(path.Base(filepath.ToSlash(name)))
	return strings.HasSuffix(base, ".gguf") && strings.Contains(base, "mmproj")
}

// projectorTypes are the types of projectors in order of preference: the one that is computed fastest, and those that it is
// made of.
var projectorTypes = []string{"Q8_0", "F16", "BF16", "F32"}

// BestProjector returns the file of the type that is preferred: Q8_0, then F16, BF16 and F32, and of those alike the first
// by name. It returns "" if there are none.
func BestProjector(names []string) string {
	rank := func(name string) int {
		i := slices.Index(projectorTypes, TypeInName(strings.TrimSuffix(path.Base(name), ".gguf")))
		if i < 0 {
			return len(projectorTypes)
		}
		return i
	}
	if len(names) == 0 {
		return ""
	}
	return slices.MinFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b))
	})
}

// ProjectorBeside returns the path of the projector that belongs to a model's file, from the names in its folder: one called
// as the model but for the type and mmproj, such as mmproj-NAME-F16.gguf; or any, where the model is the only one there. It
// returns "" if there is none.
func ProjectorBeside(file string) string {
	dir := filepath.Dir(file)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	var all, like []string
	here, others, own := false, false, modelName(filepath.Base(file))
	for _, e := range entries {
		name := e.Name()
		here = here || name == filepath.Base(file)
		switch {
		case strings.HasPrefix(name, ".") || filepath.Ext(name) != ".gguf":
		case IsProjector(name):
			all = append(all, name)
			if strings.EqualFold(modelName(name), own) {
				like = append(like, name)
			}
		default:
			others = others || !strings.EqualFold(modelName(name), own)
		}
	}
	if like == nil && !others {
		like = all
	}
	if len(like) == 0 || !here || IsProjector(file) {
		return ""
	}
	return filepath.Join(dir, BestProjector(like))
}

// inProjectors is what the names of projectors have, and those of their models do not.
var inProjectors = regexp.MustCompile(`(?i)^mmproj-|[.-]mmproj\b`)

// shardInName is the number of a shard at the end of a name.
var shardInName = regexp.MustCompile(`-\d{5}-of-\d{5}$`)

// modelName returns the name of a model by that of its file, or of its projector.
func modelName(file string) string {
	stem := shardInName.ReplaceAllString(strings.TrimSuffix(file, ".gguf"), "")
	return inProjectors.ReplaceAllString(withoutType(stem), "")
}

// A Projector is what a file of encoders says of itself.
type Projector struct {
	Vision, Audio string // the kinds of its encoders, as llama.cpp calls what they end in; empty: it has none
	Width         uint64 // the numbers of a row that it makes: the width of its text models
}

// Projector returns what the file says as a projector. It is an error if it is none.
func (f *File) Projector() (Projector, error) {
	arch, err := f.Str("general.architecture")
	if err != nil {
		return Projector{}, err
	}
	if arch != "clip" {
		return Projector{}, fmt.Errorf("its architecture is %.60q, and projectors have \"clip\"", arch)
	}
	var p Projector
	shared, _ := f.Str("clip.projector_type")
	for _, e := range []struct {
		name string
		kind *string
	}{{"vision", &p.Vision}, {"audio", &p.Audio}} {
		if has, _ := f.Bool("clip.has_" + e.name + "_encoder"); !has {
			continue
		}
		if *e.kind, _ = f.Str("clip." + e.name + ".projector_type"); *e.kind == "" {
			*e.kind = shared
		}
		if *e.kind == "" {
			return Projector{}, fmt.Errorf("no clip.projector_type and no clip.%s.projector_type", e.name)
		}
		width, err := f.Uint("clip." + e.name + ".projection_dim")
		if err != nil {
			return Projector{}, err
		}
		if at, old := widths[*e.kind]; old && e.name == "vision" {
			for _, name := range strings.Fields(at.tensors) {
				if t, ok := f.Tensor(name); ok && len(t.Dims) > at.dim {
					width = t.Dims[at.dim]
					break
				}
			}
		}
		if p.Width != 0 && width != p.Width {
			return Projector{}, fmt.Errorf("rows of %d numbers for pictures and of %d for sounds", p.Width, width)
		}
		p.Width = width
	}
	if p.Vision == "" && p.Audio == "" {
		return Projector{}, errors.New("no encoder: neither clip.has_vision_encoder nor clip.has_audio_encoder is true")
	}
	return p, nil
}

// widths are the tensors, the first of which that is there has as many numbers in a dimension as a row has, of the kinds that
// llama.cpp's first scripts wrote: their keys have 0, or what CLIP compares pictures and texts by.
var widths = map[string]struct {
	tensors string
	dim     int
}{
	"mlp": {"mm.3.weight mm.2.weight", 1}, "ldpv2": {"mm.model.mlp.2.weight", 1}, "adapter": {"adapter.boi", 0},
	"resampler": {"resampler.proj.weight", 0},
}

// String says what the projector is.
func (p Projector) String() string {
	what := "a projector of "
	switch {
	case p.Vision != "" && p.Audio != "":
		what += "pictures (" + p.Vision + ") and sounds (" + p.Audio + ")"
	case p.Vision != "":
		what += "pictures (" + p.Vision + ")"
	default:
		what += "sounds (" + p.Audio + ")"
	}
	return fmt.Sprintf("%s for models that are %d wide", what, p.Width)
}
