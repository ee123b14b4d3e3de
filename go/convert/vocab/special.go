package vocab

import (
	"slices"

	"github.com/quern-llm/quern/go/convert/hf"
)

// kinds are the kinds of special tokens: their names in tokenizer_config.json and config.json, and in GGUF.
var kinds = []struct{ name, key string }{
	{"bos", "bos"}, {"eos", "eos"}, {"unk", "unknown"}, {"sep", "seperator"}, {"pad", "padding"}, {"cls",
		"cls"}, {"mask", "mask"},
	{"eot", "eot"}, {"eom", "eom"},
}

// SetSpecial sets the number of a special token, unless it is set already or outside of the vocabulary.
func (v *Vocabulary) SetSpecial(name string, id int) {
	if id >= 0 && id < len(v.Tokens) && v.Special(name) < 0 {
		v.special = append(v.special, namedID{name, id})
	}
}

// ReplaceSpecial sets the number of a special token that may be set already. If the number is outside of the
// vocabulary, the model has no such token.
func (v *Vocabulary) ReplaceSpecial(name string, id int) {
	v.special = slices.DeleteFunc(v.special, func(s namedID) bool { return s.name == name })
	v.SetSpecial(name, id)
}

// Special returns the number of a special token, -1 if there is none.
func (v *Vocabulary) Special(name string) int {
	for _, s := range v.special {
		if s.name == name {
			return s.id
		}
	}
	return -1
}

// SetAdd sets whether a special token is added to every text.
func (v *Vocabulary) SetAdd(name string, on bool) {
	for i := range v.add {
		if v.add[i].name == name {
			v.add[i].on = on
			return
		}
	}
	v.add = append(v.add, namedFlag{name, on})
}

// specials finds the special tokens, and which of them are added to every text. They are in tokenizer_config.json, in
// the post-processor of tokenizer.json, and in config.json.
func (v *Vocabulary) specials(f *tokenizerFile, settings, model *hf.Config) {
	name := map[string]string{}
	for _, k := range kinds {
		switch t := settings.Value(k.name + "_token").(type) {
		case string:
			name[k.name] = t
		case map[string]any:
			name[k.name], _ = t["content"].(string)
		}
	}
	if name["bos"] == "" {
		name["bos"] = name["cls"]
	}
	if name["eos"] == "" {
		name["eos"] = name["sep"]
	}
	if f != nil {
		v.frame(f, name)
	}
	v.setPairs(settings)
	for _, k := range kinds {
		if b, ok := settings.Value("add_" + k.name + "_token").(bool); ok {
			v.SetAdd(k.name, b)
		}
		if text := name[k.name]; text != "" {
			if id := v.find(f, text); id >= 0 {
				v.SetSpecial(k.name, id)
			}
		}
	}
	for _, k := range kinds[:7] {
		if id, ok := hf.AsCount(model.Value(k.name + "_token_id")); ok {
			v.SetSpecial(k.name, id)
		}
	}
	v.setBeside(f, afterBOS, v.after)
	v.setBeside(f, afterEOS, v.behind)
	slices.SortStableFunc(v.special, func(a, b namedID) int { return order(a.name) - order(b.name) })
	v.add = slices.DeleteFunc(v.add, func(a namedFlag) bool {
		return a.on && v.Special(a.name) < 0 || !slices.Contains([]string{"bos", "eos", "sep"}, a.name)
	})
}

// Keys of what GGUF has none for: the tokens that are put between bos and each text, such as GLM's <sop>, and behind eos, such
// as the token of mBART's language.
const (
	afterBOS = "quern.tokenizer.after_bos"
	afterEOS = "quern.tokenizer.after_eos"
)

// setBeside sets the tokens that a key has. If the vocabulary lacks one, there are none.
func (v *Vocabulary) setBeside(f *tokenizerFile, key string, texts []string) {
	var ids []int32
	for _, text := range texts {
		id := v.find(f, text)
		if id < 0 {
			return
		}
		ids = append(ids, int32(id))
	}
	if len(ids) > 0 {
		v.Set(key, ids)
	}
}

func order(name string) int {
	for i, k := range kinds {
		if k.name == name {
			return i
		}
	}
	return len(kinds)
}

// find returns the number of an added token or a token of structure, -1 if there is none of this text.
func (v *Vocabulary) find(f *tokenizerFile, text string) int {
	if f != nil {
		for _, a := range f.Added {
			if a.Content == text && v.has(a.ID) {
				return a.ID
			}
		}
	}
	for i, t := range v.Tokens {
		if t == text && v.Types[i] != normal {
			return i
		}
	}
	return -1
}

// frame reads which tokens are put around every text. If the last of them is not the eos token of
// tokenizer_config.json, that one is taken to end turns.
func (v *Vocabulary) frame(f *tokenizerFile, name map[string]string) {
	each(f.PostProcessor, "processors", func(p map[string]any) {
		v.readPair(p, name)
		switch p["type"] {
		case "RobertaProcessing", "BertProcessing":
			for _, n := range []string{"bos", "eos", "sep"} {
				v.SetAdd(n, true)
			}
			for _, n := range []string{"cls", "sep"} {
				if pair, ok := p[n].([]any); ok && len(pair) == 2 && name[n] == "" {
					name[n], _ = pair[0].(string)
				}
			}
		case "TemplateProcessing":
			single, _ := p["single"].([]any)
			if len(single) < 2 {
				return
			}
			if first := specialOf(single[0]); first != "" {
				if name["bos"] == "" || first == name["eos"] { // as XGLM's texts begin
					name["bos"] = first
				}
				v.SetAdd("bos", first == name["bos"] || first == name["cls"])
				v.after = nil
				for _, part := range single[1:] {
					next := specialOf(part)
					if next == "" {
						break
					}
					v.after = append(v.after, next)
				}
			}
			last := specialOf(single[len(single)-1])
			if before := specialOf(single[len(single)-2]); last != "" && before != "" && before == name["eos"] {
				v.behind, last = []string{last}, before // the token of a language
			}
			if last == "" {
				v.SetAdd("eos", false)
			} else {
				if name["eos"] != "" && last != name["eos"] && name["eot"] == "" {
					name["eot"] = name["eos"]
				}
				name["eos"] = last
				v.SetAdd("eos", true)
			}
		}
	})
}

// specialOf returns the special token in a part of a template, "" if the part is text.
func specialOf(part any) string {
	m, _ := part.(map[string]any)
	s, _ := m["SpecialToken"].(map[string]any)
	id, _ := s["id"].(string)
	return id
}
