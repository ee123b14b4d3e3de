package server

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
)

type (
	status struct {
		Status string `json:"status"`
	}
	success struct {
		Success bool `json:"success"`
	}

	modelList struct {
		Object string       `json:"object"`
		Data   []modelEntry `json:"data"`
	}
	modelEntry struct {
		ID      string            `json:"id"`
		Object  string            `json:"object"`
		Created int64             `json:"created"`
		OwnedBy string            `json:"owned_by"`
		Arch    modelArchitecture `json:"architecture"`
		Meta    ModelInfo         `json:"meta"`
	}
	modelArchitecture struct {
		Input  []string `json:"input_modalities"`
		Output []string `json:"output_modalities"`
	}

	props struct {
		Defaults     slot            `json:"default_generation_settings"`
		TotalSlots   int             `json:"total_slots"`
		Alias        string          `json:"model_alias"`
		Path         string          `json:"model_path"`
		Template     string          `json:"chat_template"`
		TemplateCaps chat.Caps       `json:"chat_template_caps"`
		TemplateNote string          `json:"chat_template_warning,omitempty"`
		BOS          string          `json:"bos_token"`
		EOS          string          `json:"eos_token"`
		Modalities   map[string]bool `json:"modalities"`
		Build        string          `json:"build_info"`
		Sleeping     bool            `json:"is_sleeping"`
	}
)

func (s *Server) health(c *gin.Context, _ *Model) error {
	reply(c, http.StatusOK, status{"ok"})
	return nil
}

func (m *Model) entry() modelEntry {
	text := []string{"text"}
	return modelEntry{
		ID: m.Name, Object: "model", Created: m.loaded.Unix(), OwnedBy: "quern",
		Arch: modelArchitecture{text, text}, Meta: m.Info,
	}
}

func (s *Server) listModels(c *gin.Context, m *Model) error {
	reply(c, http.StatusOK, modelList{"list", []modelEntry{m.entry()}})
	return nil
}

func (s *Server) oneModel(c *gin.Context, m *Model) error {
	if id := strings.TrimPrefix(c.Param("id"), "/"); id != m.Name {
		return &apiError{status: http.StatusNotFound, message: "there is no model " + quote(id) + ", want " + quote(m.Name)}
	}
	reply(c, http.StatusOK, m.entry())
	return nil
}

func (s *Server) props(c *gin.Context, m *Model) error {
	p := props{
		Defaults: m.idleSlot(0), TotalSlots: m.slots(), Alias: m.Name, Path: m.Path,
		Modalities: map[string]bool{"vision": false, "audio": false},
		Build:      s.c.Build,
		Template:   m.Template.Source(), TemplateCaps: m.Template.Caps(), TemplateNote: m.TemplateWarning,
	}
	if id, ok := m.Tokenizer.BOS(); ok {
		p.BOS = m.Tokenizer.Token(id)
	}
	if id, ok := m.Tokenizer.EOS(); ok {
		p.EOS = m.Tokenizer.Token(id)
	}
	reply(c, http.StatusOK, p)
	return nil
}

func (s *Server) setProps(*gin.Context, *Model) error {
	return unsupported("no property can be changed while the server runs")
}

func (s *Server) adapters(c *gin.Context, _ *Model) error {
	reply(c, http.StatusOK, []struct{}{})
	return nil
}

// setAdapters takes an empty list, which is what there is.
func (s *Server) setAdapters(c *gin.Context, _ *Model) error {
	body, err := readAll(c)
	if err != nil {
		return err
	}
	if err := checkJSON(body); err != nil {
		return err
	}
	if v := jsontext.Value(body); v.Kind() != '[' {
		return bad("the body is %v", wrong(v, "an array"))
	}
	err = eachOf(body, func(int, jsontext.Value) error {
		return bad("there are no LoRA adapters, want an empty array")
	})
	if err != nil {
		return err
	}
	reply(c, http.StatusOK, success{true})
	return nil
}
