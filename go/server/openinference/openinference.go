// Package openinference serves what the Open Inference Protocol (KServe's V2) asks of a server besides tensors: what the
// server is, which models it has, and whether each is ready. Whether the server itself lives and is ready belongs to
// package host, as its other probes.
package openinference

import (
	"net/http"
	"slices"
	"strings"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
)

// API serves the protocol.
type API struct {
	List   *catalog.Catalog
	Build  string // the version of the program
	Manual bool   // models are loaded where a request asks for it only
}

type (
	serverMetadata struct {
		Name       string   `json:"name"`
		Version    string   `json:"version"`
		Extensions []string `json:"extensions"`
	}
	// modelMetadata describes a model. It has no tensors: it is asked by texts.
	modelMetadata struct {
		Name     string   `json:"name"`
		Versions []string `json:"versions"`
		Platform string   `json:"platform"`
		Inputs   []tensor `json:"inputs"`
		Outputs  []tensor `json:"outputs"`
	}
	tensor struct {
		Name     string  `json:"name"`
		Datatype string  `json:"datatype"`
		Shape    []int64 `json:"shape"`
	}
	modelReady struct {
		Name  string `json:"name"`
		Ready bool   `json:"ready"`
	}
)

// Routes are those of the protocol.
func (s *API) Routes() []answer.Route {
	return []answer.Route{
		{
			Method: http.MethodGet, Paths: []string{"/v2"}, Always: true,
			Handle: s.server, Summary: "Describe the server, as the Open Inference Protocol does", Answer: serverMetadata{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v2/models/*id"}, Always: true,
			Handle: s.model, Summary: "Describe a model, as the Open Inference Protocol does", Params: answer.PathID,
			Answer: modelMetadata{},
		}, {
			Method: http.MethodGet, Paths: []string{"/v2/models/:id/ready"}, Within: true,
			Summary: "Say whether a model is ready: it is loaded, sleeps, or is loaded by the request that needs it",
			Params:  answer.PathID, Answer: modelReady{},
		},
	}
}

func (s *API) server(req *answer.Request) error {
	req.Send(serverMetadata{Name: "quern", Version: s.Build, Extensions: []string{}})
	return nil
}

// model describes a model or says whether it is ready. Names may have slashes.
func (s *API) model(req *answer.Request) error {
	id := strings.TrimPrefix(req.HTTP.Param("id"), "/")
	name, ready := strings.CutSuffix(id, "/ready")
	st, err := s.find(req, name)
	if err != nil {
		return err
	}
	if ready {
		switch {
		case st.State == models.Loading:
			return models.ErrLoading
		case st.State == models.Unloaded && st.Err != nil:
			return &models.LoadError{Name: name, Err: st.Err}
		case st.State == models.Unloaded && s.Manual:
			return &models.NotLoadedError{Name: name}
		}
		req.Send(modelReady{name, true})
		return nil
	}
	req.Send(modelMetadata{Name: name, Versions: []string{}, Platform: "quern_gguf", Inputs: []tensor{}, Outputs: []tensor{}})
	return nil
}

// find returns the state of the model that a name means to the caller: of its own, or that of its adapter or persona.
func (s *API) find(req *answer.Request, name string) (st models.Status[ask.Model], err error) {
	missing := &models.NotFoundError{Name: name, Names: s.List.Names()}
	meant, err := s.List.Resolve(name)
	if err != nil {
		return st, missing
	}
	st, err = s.List.Set.Status(meant.Model)
	if err != nil || name == "" || !req.May(name) && !req.May(st.Names...) ||
		!slices.Contains(st.Names, name) && meant.Adapter == "" && meant.Persona == nil {
		return st, missing
	}
	return st, nil
}
