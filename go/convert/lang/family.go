// Package lang has the words that the families of package family are written in. A Family is a table of Rules, which say
// what the tensors of a checkpoint become, and one of Settings, which say what the keys of a GGUF file are called in
// config.json. What tables do not say is a function: an Op computes tensors, and Keys are set from an hf.Config.
package lang

import (
	"regexp"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
	"github.com/quern-llm/quern/go/convert/vocab"
	"github.com/quern-llm/quern/go/gguf"
)

// A Family says how the checkpoints of one architecture become GGUF files. Arch, Names and Rules are always set; the zero
// value of another field means that nothing is special about it.
type Family struct {
	Arch     string   // the architecture's name in GGUF
	Names    string   // its names in config.json, with spaces between them
	Rules    Rules    // what tensors become
	Settings Settings // keys beside those that most families have
	Fixed    Fixed    // settings of config.json that have one value in the architecture

	Activation string // of feed-forwards in the architecture, as transformers calls it; empty: silu

	Keys   func(k *Keys)                           // sets keys that tables do not say
	Extra  func(c *hf.Config) map[string]View      // makes tensors of settings, by their names in the file
	Finish func(d *Draft, k *Keys)                 // sets keys that follow from tensors
	Vocab  func(c *hf.Config, v *vocab.Vocabulary) // says of the vocabulary what its files do not

	// Change returns the family of a checkpoint with these settings: f, or a copy with other rules or another name.
	Change func(c *hf.Config, f *Family) *Family

	// Folded returns the ends of names of matrices that other tensors of the file are made of too.
	Folded func(c *hf.Config) string

	Tied bool // the output matrix is the embedding unless config.json says otherwise

	// What is different about the names of tensors.
	Prefix string                                 // prefixes outside of layers; empty: "model. transformer. backbone."
	Skip   []string                               // beginnings and ends of names of tensors that are left out
	Alike  string                                 // several names of one tensor: the first that exists is read
	Rename func(c *hf.Config, name string) string // gives a tensor the name that rules have for it
	Count  func(c *hf.Config, name string) int    // how many tensors a * in a name stands for; 0: one for each expert
	Next   func(c *hf.Config,
		names []string) // finds out how many layers predict further tokens, by names of tensors

	// Types are those of tensors that do not have the type of the others, by beginnings of their names in the file, in which
	// a # stands for the number of a layer. Projectors alone have them.
	Types Types

	// Exact are beginnings of names of tensors that are F32, or F16 where the others are: a projector's patches, and these.
	Exact string

	// How tensors were divided among machines.
	Across  string                                  // the end of names of tensors that were divided along columns, not rows
	Stripes func(c *hf.Config, name string) Stripes // of matrices that were divided before they were quantized
}

// Types is a table of types by beginnings of names. The first counts.
type Types []struct {
	Name string
	Type gguf.Type
}

// Of returns the type of a tensor, and whether the table has one.
func (t Types) Of(name string) (gguf.Type, bool) {
	name = layerNumber.ReplaceAllString(name, ".blk.#.")
	for _, own := range t {
		if strings.HasPrefix(name, own.Name) {
			return own.Type, true
		}
	}
	return 0, false
}

// layerNumber is the number of a layer in a name.
var layerNumber = regexp.MustCompile(`\.blk\.\d+\.`)

// Trim returns the prefixes of tensors outside of layers.
func (f *Family) Trim() []string {
	if f.Prefix != "" {
		return strings.Fields(f.Prefix)
	}
	return []string{"model.", "transformer.", "backbone."}
}
