package llamaserver

import (
	"net/http"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/reply"
)

type (
	status struct {
		Status string `json:"status"`
	}
	success struct {
		Success bool `json:"success"`
	}

	props struct {
		Defaults     slotEntry       `json:"default_generation_settings"`
		TotalSlots   int             `json:"total_slots"`
		Alias        string          `json:"model_alias"`
		Path         string          `json:"model_path"`
		FileType     string          `json:"model_ftype"`
		Template     string          `json:"chat_template"`
		TemplateCaps chat.Caps       `json:"chat_template_caps"`
		TemplateNote string          `json:"chat_template_warning,omitempty"`
		BOS          string          `json:"bos_token"`
		EOS          string          `json:"eos_token"`
		Modalities   map[string]bool `json:"modalities"`
		MediaMarker  string          `json:"media_marker"`
		Slots        bool            `json:"endpoint_slots"`
		Props        bool            `json:"endpoint_props"` // POST may change them
		Metrics      bool            `json:"endpoint_metrics"`
		MCP          bool            `json:"endpoint_mcp"`
		UI           bool            `json:"ui"`
		UISettings   map[string]any  `json:"ui_settings"`
		CORSProxy    bool            `json:"cors_proxy_enabled"`
		Build        string          `json:"build_info"`
		Sleeping     bool            `json:"is_sleeping"`
	}

	// routerProps are the properties of a server, for requests that name no model: of a server of several models, or of
	// one whose model is not loaded.
	routerProps struct {
		Role     string `json:"role"`
		Most     int    `json:"max_instances"` // 0: as many as fit
		AutoLoad bool   `json:"models_autoload"`
		UI       bool   `json:"ui"`
		Metrics  bool   `json:"endpoint_metrics"`
		MCP      bool   `json:"endpoint_mcp"`
		Build    string `json:"build_info"`
	}
)

// interfaceOf is the build of llama-server whose interface this is: clients ask its number for what a server can do.
const interfaceOf = "b10573"

// buildInfo is the program's version in llama-server's form, bNUMBER-COMMIT.
func (s *API) buildInfo() string { return interfaceOf + "-" + s.Build }

// versionAnswer is the program's version in vLLM's form.
type versionAnswer struct {
	Version string `json:"version"`
}

func (s *API) version(req *answer.Request) error {
	req.Send(versionAnswer{s.Build})
	return nil
}

func (s *API) health(req *answer.Request) error {
	if !s.List.Set.Ready() {
		return models.ErrLoading
	}
	req.Send(status{"ok"})
	return nil
}

// anyProps serves /props. If a request names no model, and there is no default or it is not loaded, the properties are
// the server's, else the model's.
func (s *API) anyProps(req *answer.Request) error {
	if req.HTTP.Query("model") == "" && (s.List.Set.Several() && !s.List.Set.Default() || s.defaultUnloaded()) {
		req.Send(routerProps{
			Role: "router", Most: s.Most, AutoLoad: !s.Manual,
			UI: s.HasPage("/"), Metrics: s.HasPage("/metrics"), MCP: s.Tools != nil, Build: s.buildInfo(),
		})
		return nil
	}
	req.Route = &answer.Route{Method: http.MethodGet, Asleep: true, Handle: s.props}
	return s.Answer(req)
}

func (s *API) defaultUnloaded() bool {
	st, err := s.List.Set.Status("")
	return err == nil && st.State == models.Unloaded
}

func (s *API) props(req *answer.Request) error {
	m := req.Model
	p := props{
		Defaults: defaultSlot(m, 0), TotalSlots: m.Slots(), Alias: m.Name, Path: m.Path, FileType: m.Info.FileType,
		Modalities:  map[string]bool{"vision": m.Projector.Takes(chat.Picture), "video": m.Projector.Takes(chat.Video), "audio": m.Projector.Takes(chat.Sound)},
		MediaMarker: ask.MediaMarker,
		Slots:       !s.NoSlots, Metrics: s.HasPage("/metrics"), MCP: s.Tools != nil, UI: s.HasPage("/"),
		UISettings: map[string]any{},
		Build:      s.buildInfo(), Template: m.Template.Source(), TemplateCaps: m.Template.Caps(), TemplateNote: m.TemplateWarning,
	}
	if st, err := s.List.Set.Status(m.Base().Name); err == nil {
		p.Sleeping = st.State == models.Sleeping
	}
	if id, ok := m.Tokenizer.BOS(); ok {
		p.BOS = m.Tokenizer.Token(id)
	}
	if id, ok := m.Tokenizer.EOS(); ok {
		p.EOS = m.Tokenizer.Token(id)
	}
	req.Send(p)
	return nil
}

func (s *API) setProps(*answer.Request) error {
	return reply.Unsupported("no property can be changed while the server runs")
}
