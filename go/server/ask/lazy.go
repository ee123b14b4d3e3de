package ask

import (
	"errors"
	"fmt"

	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tokenizer"
)

// lazy holds the fields with which the form of an answer begins late.
type lazy struct {
	on        bool
	triggers  triggers
	preserved field.Texts
	tokens    []int32 // those that are preserved; set by settle
}

func (l *lazy) Fields() []field.Field {
	return []field.Field{
		field.Setting("grammar_lazy", field.Boolean(&l.on),
			"Text is free before the first of grammar_triggers: from there on it is held to its grammar or other form, which "+
				"begins with the trigger."),
		field.Setting("grammar_triggers", &l.triggers,
			`Of grammar_lazy: {"type": "word", "value": "<call>"}, {"type": "token", "token": 7}, or type pattern or pattern_full with a regular expression as its value, which is in the text or matches all of it so far; the form begins with its first group. Types may be numbers: 0 token, 1 word, 2 pattern, 3 pattern_full.`),
		field.Setting("preserved_tokens", &l.preserved,
			"Names of control tokens that are sent as text; texts that are not one token are ignored. With grammar_lazy they "+
				"may be in the place of their names in the grammar."),
	}
}

// settle finds the preserved tokens, and checks the triggers.
func (l *lazy) settle(m *Model) error {
	if len(l.preserved) > maxPreserved {
		return reply.Invalid("preserved_tokens", "%d texts, want at most %d", len(l.preserved), maxPreserved)
	}
	control := map[string]bool{}
	for _, name := range l.preserved {
		ids := m.Tokenizer.Encode(name, tokenizer.Options{NoSpecial: true, ParseSpecial: true})
		if len(ids) == 1 && m.Tokenizer.Token(ids[0]) == name && len(m.Tokenizer.Piece(ids[0], false)) == 0 {
			l.tokens = append(l.tokens, ids[0])
			control[name] = true
		}
	}
	if l.on && len(l.triggers) == 0 {
		return reply.Invalid("grammar_triggers", "missing, want the triggers of grammar_lazy")
	}
	for i, t := range l.triggers {
		ids := m.Tokenizer.Encode(t.Text, tokenizer.Options{NoSpecial: true, ParseSpecial: true})
		if t.Kind == form.WordTrigger && len(ids) == 1 && !control[t.Text] && len(m.Tokenizer.Piece(ids[0], false)) == 0 {
			return reply.Invalid("grammar_triggers", "element %d: the control token %s, want it in preserved_tokens", i,
				field.Quote(t.Text))
		}
	}
	return nil
}

// Marks are the preserved tokens by their names.
func (l *lazy) Marks(m *Model) []string {
	var all []string
	for _, id := range l.tokens {
		all = append(all, m.Tokenizer.Token(id))
	}
	return all
}

// apply gives the form its triggers.
func (l *lazy) apply(f *form.Form) {
	if l.on {
		f.Triggers, f.Preserved = l.triggers, l.tokens
	}
}

// triggers are those of a grammar.
type triggers []form.Trigger

// Bounds of them.
const (
	maxTriggers     = 256
	maxTriggerBytes = 64 << 10
	maxPreserved    = 1024
)

var triggerKinds = map[string]form.TriggerKind{
	"token": form.TokenTrigger, "word": form.WordTrigger, "pattern": form.PatternTrigger, "pattern_full": form.FullTrigger,
}

const wantTriggers = `an array of triggers such as {"type": "word", "value": "<call>"}`

func (l *triggers) Take(r *field.Reader) error {
	*l = triggers{}
	return r.Elements(wantTriggers, func(i int) error {
		if len(*l) == maxTriggers {
			return fmt.Errorf("more than %d triggers", maxTriggers)
		}
		t, err := readTrigger(r)
		*l = append(*l, t)
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
}

func readTrigger(r *field.Reader) (t form.Trigger, err error) {
	kind, token := -1, -1
	err = r.Members("an object with a type", func(name string) error {
		var err error
		switch {
		case name == "type" && r.Kind() == '"':
			var s string
			s, err = r.Text("a string")
			if k, ok := triggerKinds[s]; ok {
				kind = int(k)
			} else if err == nil {
				err = fmt.Errorf("the string %s, want word, token, pattern or pattern_full", field.Quote(s))
			}
		case name == "type":
			err = field.Integer(&kind, 0, float64(form.FullTrigger)).Take(r)
		case name == "value":
			t.Text, err = r.Text("a string")
		case name == "token":
			err = field.Integer(&token, 0, 1<<31-1).Take(r)
		default:
			_, err = r.Raw()
		}
		return field.Within(name, err)
	})
	t.Kind, t.Token = form.TriggerKind(max(kind, 0)), int32(token)
	switch {
	case err != nil:
		return t, err
	case kind < 0:
		return t, errors.New("type: missing, want word, token, pattern or pattern_full")
	case t.Kind == form.TokenTrigger && token < 0:
		return t, errors.New("token: missing, want the id of one")
	case t.Kind != form.TokenTrigger && t.Text == "":
		return t, errors.New("value: missing or empty, want a string")
	case len(t.Text) > maxTriggerBytes:
		return t, fmt.Errorf("value: %d bytes, want at most %d", len(t.Text), maxTriggerBytes)
	}
	return t, nil
}

func (l *triggers) Value() any {
	shown := []any{}
	for _, t := range *l {
		one := map[string]any{"type": int(t.Kind), "value": t.Text}
		if t.Kind == form.TokenTrigger {
			one["token"] = t.Token
		}
		shown = append(shown, one)
	}
	return shown
}

func (l *triggers) Schema() field.Schema {
	return field.Schema{"type": "array", "maxItems": maxTriggers, "description": wantTriggers, "items": field.Schema{
		"type": "object", "required": []string{"type"}, "properties": field.Schema{
			"type":  field.Schema{"enum": []any{"word", "token", "pattern", "pattern_full", 0, 1, 2, 3}},
			"value": field.Schema{"type": "string"}, "token": field.Schema{"type": "integer", "minimum": 0},
		},
	}}
}
