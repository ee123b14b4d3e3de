package lang

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A Rule says which tensors of a checkpoint become which of a GGUF file. Names are without .weight or .bias, which is kept,
// unless the rule has the whole name; those of a layer are without what is before its number, and with a dot in front where
// there is a tensor of no layer with that name. A number within, as of experts, is *, and such tensors are stacked. Several
// names have spaces between; a rule without results leaves its tensors out. Results begin with blk. and the layer's number, unless
// they have a # where that stands. A rule has no name as a type, so that tables of rules may leave out the names of its fields.
type Rule = struct {
	From, To string
	Do       Op // nil: as it is
}

// Rules is a table of rules. Of two for the same name, the first counts.
type Rules []Rule

// And returns these rules and others behind them.
func (r Rules) And(others ...Rules) Rules { return slices.Concat(append([]Rules{r}, others...)...) }

// A source is a tensor's name in a rule.
type source struct {
	Layer  int    // -1: of no layer
	Name   string // without prefix and number
	Expert int    // -1: of none
}

var (
	layered  = regexp.MustCompile(`^(?:[a-z_]+\.)*?(?:layers|layer|h|blocks|block)\.(\d{1,6})\.(.+)$`)
	numbered = regexp.MustCompile(`\.(\d{1,6})\.`)
)

// Parse reads the name of a tensor.
func Parse(name string, trim []string) source {
	s := source{Layer: -1, Expert: -1}
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

// Plain returns a tensor's name without what wraps the text model in models of several kinds of input.
func Plain(name string) string {
	for _, p := range []string{"model.language_model.", "language_model.model.", "language_model.", "model.text_model."} {
		if rest, ok := strings.CutPrefix(name, p); ok {
			if strings.HasPrefix(rest, "lm_head.") {
				return rest
			}
			return "model." + rest
		}
	}
	return name
}

// Match returns the rule for a tensor, the place of its name among those that the rule takes, and the suffix that the
// results keep.
func Match(rules Rules, s source) (r *Rule, part int, suffix string) {
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

// Targets returns the names of what a rule makes.
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

// PlusOne returns rules with 1 added to the weights of all norms but that of the states.
func PlusOne(rules Rules) Rules {
	rules = slices.Clone(rules)
	for i, r := range rules {
		if strings.HasSuffix(r.To, "norm") && r.To != "ssm_norm" {
			rules[i].Do = AddOne
		}
	}
	return rules
}
