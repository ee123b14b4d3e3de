// Package lang has the words that the families of package family are written in. A Family is a table of Rules, which say
// what the tensors of a checkpoint become, and one of Settings, which say what the keys of a GGUF file are called in
// config.json. What tables do not say is a function: an Op computes tensors, Keys are set from a hf.Config.
package lang

import (
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/vocab"
)

// A Family is what models of one architecture have in their checkpoints.
type Family struct {
	Arch     string // in GGUF
	Names    string // in config.json, with spaces between
	Rules    Rules
	Settings Settings                                // beside the common ones
	Keys     func(k *Keys)                           // what tables do not say
	Extra    func(c *hf.Config) map[string]View      // tensors made of settings
	Prefix   string                                  // before names that are of no layer: "model. transformer." unless given
	Skip     []string                                // beginnings and ends of names of tensors that are left out
	Change   func(c *hf.Config, f *Family) *Family   // what follows from settings; nil: nothing
	Rename   func(c *hf.Config, name string) string  // of single tensors; nil: none
	Vocab    func(c *hf.Config, v *vocab.Vocabulary) // what the tokenizer's files do not say; nil: nothing
	Count    func(c *hf.Config, name string) int     // how many tensors a * in a name stands for; nil or 0: experts
	Across   string                                  // how names end of tensors whose parts, in files of several machines, have some columns each
	Stripes  func(c *hf.Config, name string) Stripes // of matrices that were cut up before they were quantized; nil: none
	Alike    string                                  // names of one tensor, of which the first that is there is read
	Next     func(c *hf.Config, names []string)      // counts layers that predict further tokens, where config.json does not; nil: it does
	Finish   func(d *Draft, k *Keys)                 // what follows from tensors; nil: nothing
}

func (f *Family) Trim() []string {
	if f.Prefix != "" {
		return strings.Fields(f.Prefix)
	}
	return []string{"model.", "transformer.", "backbone."}
}
