package convert

import "strings"

// A family is what models of one architecture have in their checkpoints.
type family struct {
	arch     string // in GGUF
	names    string // in config.json, with spaces between
	rules    rules
	settings settings                             // beside the common ones
	keys     func(k *keys)                        // what tables do not say
	extra    func(c *config) map[string]view      // tensors made of settings
	prefix   string                               // before names that are of no layer: "model. transformer." unless given
	skip     []string                             // beginnings and ends of names of tensors that are left out
	change   func(c *config, f *family) *family   // what follows from settings; nil: nothing
	rename   func(c *config, name string) string  // of single tensors; nil: none
	vocab    func(c *config, v *vocabulary)       // what the tokenizer's files do not say; nil: nothing
	count    func(c *config, name string) int     // how many tensors a * in a name stands for; nil or 0: experts
	across   string                               // how names end of tensors whose parts, in files of several machines, have some columns each
	stripes  func(c *config, name string) stripes // of matrices that were cut up before they were quantized; nil: none
	alike    string                               // names of one tensor, of which the first that is there is read
	next     func(c *config, names []string)      // counts layers that predict further tokens, where config.json does not; nil: it does
	finish   func(d *draft, k *keys)              // what follows from tensors; nil: nothing
}

func (f *family) trim() []string {
	if f.prefix != "" {
		return strings.Fields(f.prefix)
	}
	return []string{"model.", "transformer.", "backbone."}
}
