package llamaserver

import (
	"net/http"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/catalog"
)

type (
	modelList struct {
		Object string       `json:"object"`
		Data   []modelEntry `json:"data"`
		Models []modelCard  `json:"models"`
	}

	// A modelEntry is a model in OpenAI's format, with llama-server's additions.
	modelEntry struct {
		ID      string            `json:"id"`
		Aliases []string          `json:"aliases"`
		Tags    []string          `json:"tags"`
		Object  string            `json:"object"`
		Created int64             `json:"created"`
		OwnedBy string            `json:"owned_by"`
		Root    string            `json:"root,omitzero"`   // of an adapter: its file
		Parent  string            `json:"parent,omitzero"` // of an adapter or a persona: its model
		Path    string            `json:"path,omitzero"`
		Arch    modelArchitecture `json:"architecture"`
		Meta    *modelMeta        `json:"meta"` // null before it was loaded
		Status  *modelStatus      `json:"status,omitzero"`
	}
	modelArchitecture struct {
		Input  []string `json:"input_modalities"`
		Output []string `json:"output_modalities"`
	}
	modelMeta struct {
		ask.ModelInfo
		NCtx int `json:"n_ctx"`
	}

	// A modelCard is a model in Ollama's format. Unknown fields are empty.
	modelCard struct {
		Name         string          `json:"name"`
		Model        string          `json:"model"`
		ModifiedAt   string          `json:"modified_at"`
		Size         string          `json:"size"`
		Digest       string          `json:"digest"`
		Type         string          `json:"type"`
		Description  string          `json:"description"`
		Tags         []string        `json:"tags"`
		Capabilities []string        `json:"capabilities"`
		Parameters   string          `json:"parameters"`
		Details      catalog.Details `json:"details"`
	}
)

// ownedBy tells clients which dialect of OpenAI's API this is: some enable
// llama-server's extensions when they see it.
const ownedBy = "llamacpp"

func entryOf(m *ask.Model) modelEntry {
	in, out := []string{"text"}, []string{"text"}
	if m.VectorsOnly != "" {
		out = []string{"embeddings"}
	}
	if m.Speech != nil {
		in = []string{"audio"}
	}
	if m.Projector.Takes(chat.Picture) {
		in = append(in, "image")
	}
	if m.Projector.Takes(chat.Sound) {
		in = append(in, "audio")
	}
	return modelEntry{
		ID: m.Name, Aliases: append([]string{}, m.Aliases...), Tags: append([]string{}, m.Tags...), Object: "model",
		Created: max(m.Loaded.Unix(), 0), OwnedBy: ownedBy,
		Path: m.Path, Arch: modelArchitecture{in, out}, Meta: &modelMeta{m.Info, m.Ctx},
	}
}

func cardOf(m *ask.Model) modelCard {
	can := "completion"
	if m.VectorsOnly != "" {
		can = "embedding"
	}
	if m.Speech != nil {
		can = "transcription"
	}
	all := []string{can}
	if m.Projector != nil {
		all = append(all, "multimodal")
	}
	return modelCard{
		Name: m.Name, Model: m.Name, Type: "model", Tags: m.Tags, Capabilities: all,
		Details: catalog.DetailsOf(m),
	}
}

// adapterModel is an adapter as a model: the same, under its name.
func adapterModel(m *ask.Model, a *ask.Adapter) modelEntry {
	e := entryOf(m)
	e.ID, e.Aliases, e.Tags, e.Root, e.Parent = a.Name, []string{}, []string{}, a.Path, m.Name
	return e
}

// tunedModel is a model that was made of another.
func tunedModel(e modelEntry, t batch.TunedModel) modelEntry {
	e.ID, e.Aliases, e.Tags, e.Parent, e.Created = t.Name, []string{}, []string{}, e.ID, t.Created
	return e
}

// tuned returns the fine-tuned models of a request's caller.
func (s *API) tuned(req *answer.Request) []batch.TunedModel {
	if s.Tuned == nil {
		return nil
	}
	return s.Tuned(req)
}

// madeOf reports whether a fine-tuned model was made of another, as far as is known before that is loaded.
func madeOf(st models.Status[ask.Model], t batch.TunedModel) bool {
	return t.Base.Name == st.Names[0] && (st.Model == nil || st.Model.Identity == t.Base.Identity)
}

// personaModel is a persona as a model: the same, under its name.
func (s *API) personaModel(st models.Status[ask.Model], p catalog.Persona) modelEntry {
	e := s.listed(st)
	e.ID, e.Aliases, e.Tags, e.Parent = p.Name, []string{}, []string{}, e.ID
	if !p.Created.IsZero() {
		e.Created = p.Created.Unix()
	}
	return e
}

// listed returns a model as /models shows it.
func (s *API) listed(st models.Status[ask.Model]) modelEntry {
	m, src := s.List.Describe(st)
	status := statusOf(st, src)
	e := entryOf(m)
	if e.Status = &status; st.Model == nil {
		e.Meta = nil
	}
	return e
}

// listModels shows all models.
func (s *API) listModels(req *answer.Request) error {
	if err := s.rescan(req); err != nil {
		return err
	}
	list := modelList{Object: "list", Data: []modelEntry{}, Models: []modelCard{}}
	tuned := s.tuned(req)
	for _, st := range s.List.Set.List() {
		m, src := s.List.Describe(st)
		all := req.May(st.Names...)
		if all && src.Listed() {
			list.Data, list.Models = append(list.Data, s.listed(st)), append(list.Models, cardOf(m))
		}
		for _, a := range m.LoRA.All() {
			if all || req.May(a.Name) {
				list.Data = append(list.Data, adapterModel(m, a))
			}
		}
		for _, t := range tuned {
			if madeOf(st, t) && (all || req.May(t.Name)) {
				list.Data = append(list.Data, tunedModel(s.listed(st), t))
			}
		}
		for _, p := range s.List.Personas(st.Names[0]) {
			if !all && !req.May(p.Name) {
				continue
			}
			list.Data, list.Models = append(list.Data, s.personaModel(st, p)), append(list.Models, cardOf(p.Of(m)))
		}
	}
	for _, d := range s.List.Pulling.All() {
		list.Data = append(list.Data, downloadEntry(d))
	}
	if !s.known(req) {
		for i := range list.Data {
			list.Data[i].conceal()
		}
	}
	if WantsAnthropic(req) {
		page, err := anthropicPage(req, list.Data)
		if err != nil {
			return err
		}
		req.Send(page)
		return nil
	}
	req.Send(list)
	return nil
}

// sendModel answers with one model, in the form that the client knows.
func sendModel(r *answer.Request, e modelEntry) {
	if WantsAnthropic(r) {
		r.Send(e.anthropic())
		return
	}
	r.Send(e)
}

// known reports whether a request, which may be of anybody, is of an authorized client.
func (s *API) known(req *answer.Request) bool { return s.Known == nil || s.Known(req.HTTP) }

// conceal removes what only authorized clients are told: where files are, and flags.
func (e *modelEntry) conceal() {
	e.Path, e.Root = "", ""
	if e.Status != nil {
		e.Status.Args, e.Status.Reason = nil, ""
	}
}

func (s *API) oneModel(req *answer.Request) error {
	id := strings.TrimPrefix(req.HTTP.Param("id"), "/")
	if id == "sse" {
		if req.HTTP.Request.Method == http.MethodHead { // what would come has no end
			return nil
		}
		return s.watchModels(req)
	}
	if d := s.List.Pulling.Named(id); d != nil && !s.List.Has(id) {
		sendModel(req, downloadEntry(d))
		return nil
	}
	tuned := s.tuned(req)
	for _, st := range s.List.Set.List() {
		if !req.May(st.Names...) && !req.May(id) {
			continue
		}
		if slices.Contains(st.Names, id) {
			sendModel(req, s.listed(st))
			return nil
		}
		for _, t := range tuned {
			if t.Name == id && madeOf(st, t) {
				sendModel(req, tunedModel(s.listed(st), t))
				return nil
			}
		}
		for _, p := range s.List.Personas(st.Names[0]) {
			if p.Name == id {
				sendModel(req, s.personaModel(st, p))
				return nil
			}
		}
		if st.Model == nil {
			continue
		}
		m := st.Model
		if a := m.LoRA.Named(id); a != nil {
			sendModel(req, adapterModel(m, a))
			return nil
		}
	}
	return &models.NotFoundError{Name: id, Names: s.List.Names()}
}
