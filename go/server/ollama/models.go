package ollama

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/field"
)

// interfaceVersion is the version of Ollama whose interface this is: some clients need a later one than others.
const interfaceVersion = "0.13.0"

type versionAnswer struct {
	Version string `json:"version"`
	Quern   string `json:"quern"`
}

func (s *API) version(req *answer.Request) error {
	req.Send(versionAnswer{interfaceVersion, s.Build})
	return nil
}

// tagOf is the model's name as Ollama has it.
func tagOf(m *ask.Model) string {
	if strings.Contains(m.Name, ":") {
		return m.Name
	}
	return m.Name + ":latest"
}

type (
	modelList struct {
		Models []modelEntry `json:"models"`
	}
	modelEntry struct {
		Name     string          `json:"name"`
		Model    string          `json:"model"`
		Modified string          `json:"modified_at,omitzero"`
		Size     uint64          `json:"size"`
		Digest   string          `json:"digest"`
		Details  catalog.Details `json:"details"`

		// Of a model that is loaded.
		Expires string  `json:"expires_at,omitzero"`
		VRAM    *uint64 `json:"size_vram,omitzero"`
		Context int     `json:"context_length,omitzero"`
	}
)

func entryOf(m *ask.Model) modelEntry {
	return modelEntry{Name: tagOf(m), Model: tagOf(m), Size: m.Info.Size, Digest: digestOf(m),
		Details: catalog.DetailsOf(m)}
}

// digestOf tells one model from another. It is not that of the file, which would have to be read for it.
func digestOf(m *ask.Model) string {
	text := fmt.Appendf(nil, "%s %d %d %s", m.Path, m.Info.Size, m.Info.NParams, m.Info.FileType)
	if m.Persona != nil {
		text = fmt.Appendf(text, " %s", m.Persona.Modelfile())
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (s *API) tags(req *answer.Request) error {
	list := modelList{[]modelEntry{}}
	for _, st := range s.List.Set.List() {
		m, src := s.List.Describe(st)
		one := entryOf(m)
		one.Modified = stamp(m.Loaded)
		if src != nil && !src.Modified.IsZero() {
			one.Modified = stamp(src.Modified)
		}
		all := req.May(st.Names...)
		if all && src.Listed() {
			list.Models = append(list.Models, one)
		}
		for _, p := range s.List.Personas(st.Names[0]) {
			if !all && !req.May(p.Name) {
				continue
			}
			one := entryOf(p.Of(m))
			one.Modified = stamp(p.Created)
			list.Models = append(list.Models, one)
		}
	}
	req.Send(list)
	return nil
}

// never is when models are unloaded that stay until their memory is needed.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

func (s *API) running(req *answer.Request) error {
	list := modelList{[]modelEntry{}}
	for _, st := range s.List.Set.List() {
		if st.Model == nil || st.State == models.Sleeping {
			continue
		}
		m, until := st.Model, never
		if !st.Expires.IsZero() {
			until = st.Expires
		}
		one := entryOf(m)
		one.Size, one.Expires, one.VRAM, one.Context = cmp.Or(st.Bytes, one.Size), stamp(until), new(uint64), m.Ctx
		all := req.May(st.Names...)
		if all {
			list.Models = append(list.Models, one)
		}
		for _, p := range s.List.Personas(st.Names[0]) {
			if !all && !req.May(p.Name) {
				continue
			}
			as := entryOf(p.Of(m))
			as.Size, as.Expires, as.VRAM, as.Context = 0, one.Expires, one.VRAM, one.Context // the memory is the model's
			list.Models = append(list.Models, as)
		}
	}
	req.Send(list)
	return nil
}

// A showQuery is a request to /api/show.
type showQuery struct {
	model, name string
	verbose     bool
}

func newShowQuery(*ask.Model) *showQuery { return &showQuery{} }

func (q *showQuery) Fields() []field.Field {
	return []field.Field{
		field.Input("model", field.Text(&q.model), "Which model, by a name that /api/tags has."),
		field.Input("name", field.Text(&q.name), "The older form of model."),
		field.Setting("verbose", field.Boolean(&q.verbose), "Accepted; without effect."),
	}
}

type shown struct {
	License      string            `json:"license,omitzero"`
	Modelfile    string            `json:"modelfile"`
	Parameters   string            `json:"parameters"`
	Template     string            `json:"template"`
	System       string            `json:"system,omitzero"`
	Messages     []persona.Message `json:"messages,omitempty"`
	Details      catalog.Details   `json:"details"`
	Info         map[string]any    `json:"model_info"`
	Capabilities []string          `json:"capabilities"`
	Modified     string            `json:"modified_at"`
}

func (s *API) show(req *answer.Request) error {
	m := req.Model
	q := newShowQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	a := shown{
		Template: m.Template.Source(), Details: catalog.DetailsOf(m), Info: infoOf(m), Capabilities: capabilitiesOf(m),
		Modified: stamp(m.Loaded),
	}
	p := persona.Persona{}
	if m.Persona != nil {
		p = *m.Persona.Persona
		a.License, a.System, a.Parameters, a.Messages = p.License, p.System, p.Parameters.Lines(), p.Messages
	}
	p.From = m.Base().Name
	if a.Modelfile = p.Modelfile(); !p.Created.IsZero() {
		a.Modified = stamp(p.Created)
	}
	req.Send(a)
	return nil
}

// infoOf is what the model's file says that clients ask for.
func infoOf(m *ask.Model) map[string]any {
	info := map[string]any{"general.architecture": m.Info.Arch, "general.parameter_count": m.Info.NParams}
	keys := []string{"general.name", "general.basename", "general.size_label", "general.file_type",
		"general.quantization_version", "tokenizer.ggml.model", "tokenizer.ggml.pre"}
	for _, key := range []string{
		"context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count",
		"attention.head_count_kv",
		"attention.key_length", "attention.value_length", "rope.freq_base", "vocab_size", "pooling_type", "expert_count",
		"expert_used_count",
	} {
		keys = append(keys, m.Info.Arch+"."+key)
	}
	for _, key := range keys {
		if v, ok := m.Metadata.Value(key); ok {
			info[key] = v
		}
	}
	return info
}

// capabilitiesOf are what the model can do, in Ollama's terms.
func capabilitiesOf(m *ask.Model) []string {
	if m.VectorsOnly != "" {
		return []string{"embedding"}
	}
	if m.Speech != nil {
		return []string{"audio"}
	}
	all := []string{"completion", "embedding"}
	if caps := m.Template.Caps(); caps.Tools {
		all = append(all, "tools")
	}
	if caps := m.Template.Caps(); caps.EnableThinking || caps.ReasoningEffort {
		all = append(all, "thinking")
	}
	if m.Fills() {
		all = append(all, "insert")
	}
	if m.Projector.Takes(chat.Picture) {
		all = append(all, "vision")
	}
	if m.Projector.Takes(chat.Sound) {
		all = append(all, "audio")
	}
	return all
}
