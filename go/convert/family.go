package convert

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A family is what models of one architecture have in their checkpoints.
type family struct {
	arch     string // in GGUF
	names    string // in config.json, with spaces between
	rules    []rule
	settings []setting                           // beside the common ones
	keys     func(k *keys)                       // what tables do not say
	extra    func(c *config) map[string]view     // tensors made of settings
	prefix   string                              // before names that are of no layer: "model. transformer." unless given
	skip     []string                            // beginnings and ends of names of tensors that are left out
	change   func(c *config, f *family) *family  // what follows from settings; nil: nothing
	rename   func(c *config, name string) string // of single tensors; nil: none
	vocab    func(m *Model, v *vocabulary)       // what the tokenizer's files do not say; nil: nothing
	count    func(c *config, name string) int    // how many tensors a * in a name stands for; nil or 0: experts
	across   string                              // how names end of tensors whose parts, in files of several machines, have some columns each
	stripes  func(m *Model, name string) stripes // of matrices that were cut up before they were quantized; nil: none
	alike    string                              // names of one tensor, of which the first that is there is read
	finish   func(m *Model, k *keys)             // what follows from tensors; nil: nothing
}

func (f *family) trim() []string {
	if f.prefix != "" {
		return strings.Fields(f.prefix)
	}
	return []string{"model.", "transformer.", "backbone."}
}

// families are all that are known.
var families = slices.Concat(llamas, descendants, qwens, gemmas, phis, granites, hybrids, scanners, rwkvs, latents, mixtures, routers, elders, alone, nets, newest, singles, encoders, t5s)

// familyOf returns the family of a checkpoint.
func familyOf(c *config) (*family, error) {
	names := c.texts("architectures")
	if c.err != nil {
		return nil, c.err
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no architectures", c.file)
	}
	for i := range families {
		f := &families[i]
		if slices.Contains(strings.Fields(f.names), names[0]) {
			if f.change != nil {
				f = f.change(c, f)
			}
			return f, c.err
		}
	}
	return nil, fmt.Errorf("%s: %.80q is not converted; want one of those that \"quern help convert\" lists, such as LlamaForCausalLM", c.file, names[0])
}

// Known returns the names, in config.json, of the architectures that are converted.
func Known() []string {
	all := map[string]bool{}
	for _, f := range families {
		for name := range strings.FieldsSeq(f.names) {
			all[name] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// with returns rules with others before them, which count where both have a name.
func with(rules []rule, first ...rule) []rule { return slices.Concat(first, rules) }
