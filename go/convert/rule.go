package convert

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A rule says which tensors of a checkpoint become which of a GGUF file. Names are without .weight or .bias, which is kept,
// unless the rule has the whole name; those of a layer are without what is before its number, and with a dot in front where
// there is a tensor of no layer with that name. A number within, as of experts, is *, and such tensors are stacked. Several
// names have spaces between; a rule without results leaves its tensors out. Results begin with blk. and the layer's number, unless
// they have a # where that stands. A rule has no name as a type, so that tables of rules may leave out the names of its fields.
type rule = struct {
	from, to string
	do       op // nil: as it is
}

// rules is a table of rules. Of two for the same name, the first counts.
type rules []rule

// And returns these rules and others behind them.
func (r rules) And(others ...rules) rules { return slices.Concat(append([]rules{r}, others...)...) }

// A source is a tensor's name in a rule.
type source struct {
	layer  int    // -1: of no layer
	name   string // without prefix and number
	expert int    // -1: of none
}

var (
	layered  = regexp.MustCompile(`^(?:[a-z_]+\.)*?(?:layers|layer|h|blocks|block)\.(\d{1,6})\.(.+)$`)
	numbered = regexp.MustCompile(`\.(\d{1,6})\.`)
)

// parse reads the name of a tensor.
func parse(name string, trim []string) source {
	s := source{layer: -1, expert: -1}
	if m := layered.FindStringSubmatch(name); m != nil {
		s.layer, _ = strconv.Atoi(m[1])
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
		s.expert, _ = strconv.Atoi(name[m[2]:m[3]])
		name = name[:m[2]] + "*" + name[m[3]:]
	}
	s.name = name
	return s
}

// plain returns a tensor's name without what wraps the text model in models of several kinds of input.
func plain(name string) string {
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

// match returns the rule for a tensor, the place of its name among those that the rule takes, and the suffix that the
// results keep.
func match(rules rules, s source) (r *rule, part int, suffix string) {
	module, kind := s.name, ""
	if i := strings.LastIndexByte(s.name, '.'); i >= 0 && (s.name[i:] == ".weight" || s.name[i:] == ".bias") {
		module, kind = s.name[:i], s.name[i:]
	}
	for _, name := range []struct{ text, kind string }{{s.name, ""}, {module, kind}} {
		for i := range rules {
			part := slices.IndexFunc(strings.Fields(rules[i].from), func(from string) bool {
				return from == name.text || s.layer >= 0 && from == "."+name.text
			})
			if part >= 0 {
				return &rules[i], part, name.kind
			}
		}
	}
	return nil, 0, ""
}

// targetsOf returns the names of what a rule makes.
func targetsOf(r *rule, layer int, suffix string) []string {
	var names []string
	for name := range strings.FieldsSeq(r.to) {
		if before, after, ok := strings.Cut(name, "#"); ok {
			name = before + strconv.Itoa(layer) + after
		} else if layer >= 0 {
			name = "blk." + strconv.Itoa(layer) + "." + name
		}
		names = append(names, name+suffix)
	}
	return names
}

// plusOne returns rules with 1 added to the weights of all norms but that of the states.
func plusOne(rules rules) rules {
	rules = slices.Clone(rules)
	for i, r := range rules {
		if strings.HasSuffix(r.to, "norm") && r.to != "ssm_norm" {
			rules[i].do = addOne
		}
	}
	return rules
}
