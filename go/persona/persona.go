// Package persona is a model under a name of its own, with a system prompt, parameters and example turns: what
// Ollama's users create from a Modelfile. A Persona has no weights; it names the model that it is made from, and
// shares it when it is loaded. Files of personas and Modelfiles come from anybody: what is wrong with one is an error
// of one line.
package persona

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// version is that of the file's form.
const version = 1

// MaxBytes limits the size of a persona's file, and of a Modelfile.
const MaxBytes = 1 << 20

// maxMessages limits the example turns.
const maxMessages = 1000

// A Persona is a model with settings under a name of its own.
type Persona struct {
	Name       string     `json:"name,omitzero"`
	From       string     `json:"from,omitzero"` // the model; empty: these are the settings of the model of that name itself
	Created    time.Time  `json:"created,omitzero"`
	System     string     `json:"system,omitzero"` // of conversations that have no system message
	Parameters Parameters `json:"parameters,omitempty"`
	Messages   []Message  `json:"messages,omitempty"` // example turns before the conversation
	License    string     `json:"license,omitzero"`
}

// A Message is an example turn.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A file is a persona as it is stored.
type file struct {
	Version int `json:"version"`
	Persona
}

// Parse parses the file of a persona.
func Parse(b []byte) (*Persona, error) {
	if len(b) > MaxBytes {
		return nil, errTooLarge
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(b, &head); err != nil {
		return nil, damaged(err)
	}
	if head.Version != version {
		return nil, fmt.Errorf("version %d of the persona's file, want %d", head.Version, version)
	}
	var f file
	if err := json.Unmarshal(b, &f, json.RejectUnknownMembers(true)); err != nil {
		return nil, damaged(err)
	}
	if f.Name == "" {
		return nil, errors.New("the persona has no name")
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return &f.Persona, nil
}

var errTooLarge = fmt.Errorf("the persona has more than %d bytes", MaxBytes)

// damaged is the error of a file that is not of the form, in one line.
func damaged(err error) error {
	if at := (*json.SemanticError)(nil); errors.As(err, &at) {
		return fmt.Errorf("the persona's file is damaged at %.80q", string(at.JSONPointer))
	}
	return errors.New("the persona's file is damaged: it is no JSON of the form that is expected")
}

// Encode returns the file of a persona.
func (p *Persona) Encode() ([]byte, error) {
	b, err := json.Marshal(file{version, *p}, jsontext.WithIndent("  "), json.Deterministic(true))
	if err == nil && len(b) > MaxBytes {
		err = errTooLarge
	}
	return b, err
}

// Check returns an error unless the texts and the parameters are valid, which it brings to their common form.
func (p *Persona) Check() error {
	for _, text := range []struct{ what, is string }{{"system", p.System}, {"license", p.License}, {"from", p.From}} {
		if len(text.is) > MaxBytes {
			return fmt.Errorf("%s: %d bytes, want at most %d", text.what, len(text.is), MaxBytes)
		}
		if !utf8.ValidString(text.is) {
			return fmt.Errorf("%s: it is not UTF-8", text.what)
		}
	}
	if len(p.Messages) > maxMessages {
		return fmt.Errorf("messages: %d, want at most %d", len(p.Messages), maxMessages)
	}
	for i, m := range p.Messages {
		if !slices.Contains(roles, m.Role) {
			return fmt.Errorf("message %d: the role %.40q, want one of %s", i, m.Role, strings.Join(roles, ", "))
		}
		if !utf8.ValidString(m.Content) {
			return fmt.Errorf("message %d: it is not UTF-8", i)
		}
	}
	return p.Parameters.check()
}

// DropInvalid drops the settings that Check would refuse, and returns why, a line for each: those of a registry may be
// newer than this program.
func (p *Persona) DropInvalid() (why []string) {
	drop := func(part Persona) bool {
		err := part.Check()
		if err != nil {
			why = append(why, err.Error())
		}
		return err != nil
	}
	if drop(Persona{System: p.System}) {
		p.System = ""
	}
	if drop(Persona{License: p.License}) {
		p.License = ""
	}
	if drop(Persona{Messages: p.Messages}) {
		p.Messages = nil
	}
	for _, name := range slices.Sorted(maps.Keys(p.Parameters)) {
		one := Parameters{name: p.Parameters[name]}
		if _, known := kindOf(name); !known {
			why = append(why, fmt.Sprintf("there is no parameter %.40q", name))
			delete(p.Parameters, name)
		} else if drop(Persona{Parameters: one}) {
			delete(p.Parameters, name)
		} else {
			p.Parameters[name] = one[name]
		}
	}
	return why
}

// roles are those of example turns.
var roles = []string{"system", "user", "assistant"}

// Over returns p with what it leaves out as base has it. Parameters are taken one by one.
func (p *Persona) Over(base *Persona) *Persona {
	both := *p
	if base == nil {
		return &both
	}
	if both.System == "" {
		both.System = base.System
	}
	if len(both.Messages) == 0 {
		both.Messages = base.Messages
	}
	if both.License == "" {
		both.License = base.License
	}
	if len(base.Parameters) > 0 {
		both.Parameters = maps.Clone(base.Parameters)
		maps.Copy(both.Parameters, p.Parameters)
	}
	return &both
}

// Empty reports whether a persona has no settings.
func (p *Persona) Empty() bool {
	return p == nil || p.System == "" && len(p.Messages) == 0 && len(p.Parameters) == 0
}

// BareName returns a name without the tag that Ollama's users write where there is none.
func BareName(name string) string { return strings.TrimSuffix(name, ":latest") }

// Modelfile returns the persona in the language of Modelfiles.
func (p *Persona) Modelfile() string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "FROM %s\n", quoted(p.From))
	if p.System != "" {
		fmt.Fprintf(&b, "SYSTEM %s\n", quoted(p.System))
	}
	p.Parameters.each(func(name, value string) { fmt.Fprintf(&b, "PARAMETER %s %s\n", name, quoted(value)) })
	for _, m := range p.Messages {
		fmt.Fprintf(&b, "MESSAGE %s %s\n", m.Role, quoted(m.Content))
	}
	if p.License != "" {
		fmt.Fprintf(&b, "LICENSE %s\n", quoted(p.License))
	}
	return b.String()
}
