package lang

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Rule says what some tensors of a checkpoint become in a GGUF file. From and To are names with spaces between them.
// All of From are taken together, and Do makes all of To from them; without Do there is one of each. If To is empty, the
// tensors are left out. Rule is an alias, so that fields need no names in tables.
//
// A name in From
//   - is without .weight or .bias, which the results keep, unless the rule has the whole name;
//   - is without the prefix and the number of its layer; a dot at the beginning tells it from a tensor outside of layers
//     that has the same name;
//   - has a * in place of the number of an expert: the tensors of all experts are stacked into one.
//
// A name in To gets blk. and the number of the layer in front, unless it has a # in place of that number.
type Rule = struct {
	From, To string
	Do       Op // nil: the tensor is not changed
}

// Rules is a table of rules. If two have a name in common, the first counts.
type Rules []Rule

// And returns these rules followed by others.
func (r Rules) And(others ...Rules) Rules { return slices.Concat(append([]Rules{r}, others...)...) }

// A Source is the name of a tensor in parts, as rules have it.
type Source struct {
	Layer  int    // -1: outside of layers
	Name   string // without the prefix and the layer's number; the number of an expert is *
	Expert int    // -1: of no expert
}

var (
	layered  = regexp.MustCompile(`^(?:[a-z_]+\.)*?(?:layers|layer|h|blocks|block)\.(\d{1,6})\.(.+)$`)
	numbered = regexp.MustCompile(`\.(\d{1,6})\.`)
)

// Parse reads the name of a tensor. It removes the first of the prefixes trim that a name outside of layers begins
// with.
func Parse(name string, trim []string) Source {
	s := Source{Layer: -1, Expert: -1}
	if m := layered.FindStringSubmatch(name); m != nil {
		s.Layer, _ = strconv.Atoi(m[1])
		name = m[2]
	} else {
		for _, p := range trim {
			if rest, ok := strings.CutPrefix(name, p); ok {
				name = rest
				break
			}
		}
	}
	if m := numbered.FindStringSubmatchIndex(name); m != nil {
		s.Expert, _ = strconv.Atoi(name[m[2]:m[3]])
		name = name[:m[2]] + "*" + name[m[3]:]
	}
	s.Name = name
	return s
}

// Plain returns the name of a tensor of a text model without the prefixes that models with other inputs put before it.
func Plain(name string) string {
	for _, p := range []string{"model.language_model.", "language_model.model.", "language_model.backbone.", "language_model.",
		"model.text_model.", "llm.model.", "llm.", "text_decoder.model.", "text_decoder.", "lfm."} {
		if rest, ok := strings.CutPrefix(name, p); ok {
			if strings.HasPrefix(rest, "lm_head.") {
				return rest
			}
			return "model." + rest
		}
	}
	return name
}

// Match returns the rule for a tensor, the position of the tensor's name in From, and the suffix that the names of To
// get.
func Match(rules Rules, s Source) (r *Rule, part int, suffix string) {
	module, kind := s.Name, ""
	if i := strings.LastIndexByte(s.Name, '.'); i >= 0 && (s.Name[i:] == ".weight" || s.Name[i:] == ".bias") {
		module, kind = s.Name[:i], s.Name[i:]
	}
	for _, name := range []struct{ text, kind string }{{s.Name, ""}, {module, kind}} {
		for i := range rules {
			part := slices.IndexFunc(strings.Fields(rules[i].From), func(from string) bool {
				return from == name.text || s.Layer >= 0 && from == "."+name.text
			})
			if part >= 0 {
				return &rules[i], part, name.kind
			}
		}
	}
	return nil, 0, ""
}

// Targets returns the names of the tensors that a rule makes in a layer.
func Targets(r *Rule, layer int, suffix string) []string {
	var names []string
	for name := range strings.FieldsSeq(r.To) {
		if before, after, ok := strings.Cut(name, "#"); ok {
			name = before + strconv.Itoa(layer) + after
		} else if layer >= 0 {
			name = "blk." + strconv.Itoa(layer) + "." + name
		}
		names = append(names, name+suffix)
	}
	return names
}

// PlusOne returns rules that also add 1 to the weights of all norms but ssm_norm.
func PlusOne(rules Rules) Rules {
	rules = slices.Clone(rules)
	for i, r := range rules {
		if strings.HasSuffix(r.To, "norm") && r.To != "ssm_norm" {
			rules[i].Do = AddOne
		}
	}
	return rules
}
