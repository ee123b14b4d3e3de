package server

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/gguf"
	"github.com/quern-llm/quern/go/models"
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
		Parent  string            `json:"parent,omitzero"` // of an adapter: its model
		Arch    modelArchitecture `json:"architecture"`
		Meta    modelMeta         `json:"meta"`
	}
	modelArchitecture struct {
		Input  []string `json:"input_modalities"`
		Output []string `json:"output_modalities"`
	}
	modelMeta struct {
		ModelInfo
		NCtx int `json:"n_ctx"`
	}

	// A modelCard is a model in Ollama's format. Unknown fields are empty.
	modelCard struct {
		Name         string       `json:"name"`
		Model        string       `json:"model"`
		ModifiedAt   string       `json:"modified_at"`
		Size         string       `json:"size"`
		Digest       string       `json:"digest"`
		Type         string       `json:"type"`
		Description  string       `json:"description"`
		Tags         []string     `json:"tags"`
		Capabilities []string     `json:"capabilities"`
		Parameters   string       `json:"parameters"`
		Details      modelDetails `json:"details"`
	}
	modelDetails struct {
		Parent        string   `json:"parent_model"`
		Format        string   `json:"format"`
		Family        string   `json:"family"`
		Families      []string `json:"families"`
		ParameterSize string   `json:"parameter_size"`
		Quantization  string   `json:"quantization_level"`
	}
)

// ownedBy tells clients which dialect of OpenAI's API this is: some enable
// llama-server's extensions when they see it.
const ownedBy = "llamacpp"

func (m *Model) entry() modelEntry {
	text := []string{"text"}
	return modelEntry{
		ID: m.Name, Aliases: m.Aliases, Tags: m.Tags, Object: "model", Created: m.loaded.Unix(), OwnedBy: ownedBy,
		Arch: modelArchitecture{text, text}, Meta: modelMeta{m.Info, m.Ctx},
	}
}

func (m *Model) card() modelCard {
	return modelCard{
		Name: m.Name, Model: m.Name, Type: "model", Tags: m.Tags, Capabilities: []string{"completion"},
		Details: modelDetails{
			Format: "gguf", Family: m.Info.Arch, Families: []string{m.Info.Arch},
			ParameterSize: gguf.SizeName(m.Info.NParams), Quantization: m.Info.FileType,
		},
	}
}

// adapterModel is an adapter as a model: the same, under its name.
func (m *Model) adapterModel(a *Adapter) modelEntry {
	e := m.entry()
	e.ID, e.Aliases, e.Tags, e.Root, e.Parent = a.Name, []string{}, []string{}, a.Path, m.Name
	return e
}

// listModels shows the models that are loaded.
func (s *Server) listModels(c *gin.Context, _ *Model) error {
	list := modelList{Object: "list"}
	for _, m := range s.models.Loaded() {
		list.Data, list.Models = append(list.Data, m.entry()), append(list.Models, m.card())
		for _, a := range m.adapters.all() {
			list.Data = append(list.Data, m.adapterModel(a))
		}
	}
	reply(c, http.StatusOK, list)
	return nil
}

func (s *Server) oneModel(c *gin.Context, _ *Model) error {
	id := strings.TrimPrefix(c.Param("id"), "/")
	for _, m := range s.models.Loaded() {
		if id == m.Name || slices.Contains(m.Aliases, id) {
			reply(c, http.StatusOK, m.entry())
			return nil
		}
		if a := m.adapters.named(id); a != nil {
			reply(c, http.StatusOK, m.adapterModel(a))
			return nil
		}
	}
	return &models.NotFoundError{Name: id, Names: s.models.Names()}
}
