package ask

import (
	"fmt"
	"maps"
	"slices"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/sample"
	"github.com/quern-llm/quern/go/server/field"
)

// A Persona is a model under another name, with settings that requests may leave out. It shares all else with the
// model.
type Persona struct {
	*persona.Persona
	fields   []byte // its parameters, as fields of a request
	messages []chat.Message
}

// NewPersona returns a persona for requests, or an error if its parameters are such as a request could not have.
func NewPersona(p *persona.Persona) (*Persona, error) {
	all := &Persona{Persona: p, fields: p.Parameters.Fields()}
	for _, one := range p.Messages {
		all.messages = append(all.messages, chat.Message{Role: one.Role, Content: chat.Text(one.Content)})
	}
	o := NewOptions(&Model{Sampling: sample.Defaults()})
	if err := field.ReadSome(all.fields, o.Fields()); err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	return all, nil
}

// UsablePersona returns a persona for requests without the parameters that a request could not have, and what is wrong
// with those.
func UsablePersona(p *persona.Persona) (all *Persona, wrong []error) {
	use := *p
	use.Parameters = maps.Clone(p.Parameters)
	for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
		one := persona.Persona{Parameters: persona.Parameters{name: p.Parameters[name]}}
		if _, err := NewPersona(&one); err != nil {
			wrong = append(wrong, err)
			delete(use.Parameters, name)
		}
	}
	all, _ = NewPersona(&use) // parameters are valid or not one by one
	return all, wrong
}

// Of returns the persona of a model: the model with the persona's name and settings. Of nil it is the model.
func (p *Persona) Of(m *Model) *Model {
	if p == nil {
		return m
	}
	as := *m
	as.Name, as.Aliases, as.Persona, as.base = p.Name, nil, p, m.Base()
	return &as
}

// Base returns the model that is loaded: that of a persona, or m itself.
func (m *Model) Base() *Model {
	if m.base != nil {
		return m.base
	}
	return m
}

// TakePersona sets the parameters of the model's persona as defaults.
func (o *Options) TakePersona(m *Model) {
	if m.Persona != nil {
		_ = field.ReadSome(m.Persona.fields, o.Fields()) // validated by NewPersona
	}
}

// Conversation returns the messages of a request below the persona's system prompt, which one of the request replaces,
// and behind its example turns.
func (p *Persona) Conversation(messages []chat.Message) []chat.Message {
	if p == nil || p.System == "" && len(p.messages) == 0 {
		return messages
	}
	var system []chat.Message
	for len(messages) > 0 && (messages[0].Role == "system" || messages[0].Role == "developer") {
		system, messages = append(system, messages[0]), messages[1:]
	}
	if system == nil && p.System != "" {
		system = []chat.Message{{Role: "system", Content: chat.Text(p.System)}}
	}
	return slices.Concat(system, p.messages, messages)
}
