package vocab

import (
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/convert/hf"
)

// Keys of what is between and about the texts of a pair, of which GGUF has only add_sep_token, which says nothing of
// WordPiece: whether a separator follows the token that ends the first text, and whether the second text has the second
// token type. Without them WordPiece's pairs are BERT's, which have no such separator and both types; others have one type.
const (
	pairSeparator = "quern.tokenizer.pair_separator"
	pairTypes     = "quern.tokenizer.pair_types"
)

// A pair is how a tokenizer makes one of two texts.
type pair struct {
	separated bool // the second text follows a separator beside the token that ends the first
	types     bool // it has the second token type
}

// wordPiece is GGUF's name of tokenizers of this kind.
const wordPiece = "bert"

// readPair reads how a post-processor makes one text of two.
func (v *Vocabulary) readPair(p map[string]any, name map[string]string) {
	switch p["type"] {
	case "BertProcessing":
		v.pair = &pair{types: true}
	case "RobertaProcessing":
		v.pair = &pair{separated: true}
	case "TemplateProcessing":
		parts, _ := p["pair"].([]any)
		first, second := slices.IndexFunc(parts, isText("A")), slices.IndexFunc(parts, isText("B"))
		if first < 0 || second <= first {
			return
		}
		between, end := parts[first+1:second], specialOf(parts[len(parts)-1])
		n := len(between)
		for _, part := range between {
			if s := specialOf(part); s == "" || s != end && s != name["sep"] && s != name["eos"] {
				return // what the program does not make
			}
		}
		if end != "" {
			n--
		}
		v.pair = &pair{separated: n > 0, types: typeOf(parts[second]) == 1}
		if v.pair.separated && name["sep"] == "" {
			name["sep"] = specialOf(between[len(between)-1])
		}
	}
}

// isText returns whether a part of a template is the text of this name.
func isText(id string) func(part any) bool {
	return func(part any) bool {
		m, _ := part.(map[string]any)
		s, _ := m["Sequence"].(map[string]any)
		return s["id"] == id
	}
}

// typeOf returns the token type of a text in a template.
func typeOf(part any) int {
	m, _ := part.(map[string]any)
	s, _ := m["Sequence"].(map[string]any)
	n, _ := hf.AsCount(s["type_id"])
	return n
}

// untyped are the classes of WordPiece tokenizers whose types transformers does not give to models.
var untyped = []string{"DistilBertTokenizer", "MPNetTokenizer"}

// setPairs sets the keys of pairs, once the kind of tokenizer is known.
func (v *Vocabulary) setPairs(settings *hf.Config) {
	p := pair{types: v.Model == wordPiece}
	if v.pair != nil {
		p = *v.pair
	}
	class, _ := settings.Value("tokenizer_class").(string)
	if inputs, ok := settings.Value("model_input_names").([]any); ok {
		p.types = p.types && slices.Contains(inputs, any("token_type_ids"))
	} else if slices.Contains(untyped, strings.TrimSuffix(class, "Fast")) {
		p.types = false
	}
	v.pair = &p
	switch {
	case !p.separated:
	case v.Model == wordPiece:
		v.Set(pairSeparator, true)
	default:
		v.SetAdd("sep", true)
	}
}

// SetPairTypes sets whether the second text of a pair has the second token type, of a model that has one.
func (v *Vocabulary) SetPairTypes() {
	if usual := v.Model == wordPiece; v.pair.types != usual {
		v.Set(pairTypes, v.pair.types)
	}
}
