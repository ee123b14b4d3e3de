package server

import (
	"errors"
	"net/http"
	"strings"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/batch"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/quota"
)

// allowed refuses a request for a model that its key may not ask. Who may ask a model may ask all that is made of it; who
// may ask a persona, an adapter or a fine-tuned model may do so by its name alone, with no other adapters.
func (s *Server) allowed(req *answer.Request, meant catalog.Meant, tuned *batch.TunedModel) error {
	may := req.Caller.Models
	if may == nil || req.Route.Method != http.MethodPost {
		return nil
	}
	st, err := s.models.Status(meant.Model)
	if err != nil {
		return err
	}
	if quota.Allows(may, st.Names...) {
		return nil
	}
	made := meant.Adapter != "" || meant.Persona != nil || tuned != nil // else a name that means nothing may mean the only model
	if req.ByName = made && quota.Allows(may, req.Name); !req.ByName {
		return &quota.ModelError{Name: st.Names[0], Want: may}
	}
	return nil
}

// Unknown returns those of some names by which nothing can be asked now: no model, persona or adapter has them. Those of fine-tuned models are their owners', and not told.
func (s *Server) Unknown(names []string) (unknown []string) {
	known := map[string]bool{}
	for _, st := range s.list.Set.List() {
		for _, name := range st.Names {
			known[name] = true
		}
		m, src := s.list.Describe(st)
		for _, a := range m.LoRA.All() {
			known[a.Name] = true
		}
		if src == nil {
			continue
		}
		for _, name := range src.Adapters { // of a model that is not loaded too
			known[name] = true
		}
	}
	for _, name := range names {
		if !known[name] && !s.list.Has(name) && !strings.HasPrefix(name, tunedPrefix) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

// begin counts a request for a model, before anything is loaded or computed for it.
func (s *Server) begin(req *answer.Request, meant catalog.Meant) error {
	st, err := s.models.Status(meant.Model)
	if err != nil {
		return err
	}
	req.HTTP.Set(answer.ModelKey, st.Names[0])
	req.Run, err = req.Caller.Account.Begin(st.Names[0], req.Caller.Background)
	req.TellQuota()
	return err
}

// overQuota reports whether a request was refused since its key may not send it now.
func overQuota(err error) bool {
	e := (*quota.Error)(nil)
	return errors.As(err, &e) && !e.Never()
}
