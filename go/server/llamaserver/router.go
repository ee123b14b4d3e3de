package llamaserver

import (
	"errors"
	"net/http"
	"time"

	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A modelQuery is a request to /models/load or /models/unload.
type modelQuery struct{ model string }

func newModelQuery(*ask.Model) *modelQuery { return &modelQuery{} }

func (q *modelQuery) Fields() []field.Field {
	return []field.Field{field.Required("model", field.Text(&q.model), "Which model, by a name that /models has.")}
}

// A placing is what is done with a model.
type placing struct {
	with    func(name string) error
	cancels bool // it ends a download of the model
}

// placed returns the handler of a request about a model's place in memory.
func (s *API) placed(do placing) func(*answer.Request) error {
	return func(req *answer.Request) error {
		q := newModelQuery(nil)
		if err := req.Read(q); err != nil {
			return err
		}
		if d := s.List.Pulling.Named(q.model); d != nil && do.cancels {
			d.Cancel()
			<-d.Done
			req.Send(success{true})
			return nil
		}
		if !s.List.Has(q.model) {
			return &models.NotFoundError{Name: q.model, Names: s.List.Names()}
		}
		meant, err := s.List.Resolve(q.model)
		if err != nil {
			return err
		}
		if err := do.with(meant.Model); err != nil {
			var known *models.NotLoadedError
			if errors.As(err, &known) {
				return reply.Bad("the model %s is not loaded", field.Quote(q.model))
			}
			if errors.Is(err, models.ErrLoading) {
				return reply.Bad("the model %s is being loaded, want one that is loaded", field.Quote(q.model))
			}
			return err
		}
		req.Send(success{true})
		return nil
	}
}

type (
	// A modelStatus is how far a model is from answering.
	modelStatus struct {
		Value    string   `json:"value"` // unloaded, loading, loaded, sleeping, downloading
		Args     []string `json:"args,omitzero"`
		Progress any      `json:"progress,omitzero"` // of loading, 0 to 1; of downloading, bytes by URL
		Failed   bool     `json:"failed,omitzero"`
		ExitCode int      `json:"exit_code,omitzero"` // 1 where it failed
		Reason   string   `json:"reason,omitzero"`
	}

	modelEvent struct {
		Model string `json:"model"`
		// model_status, model_remove, models_reload, download_progress, download_finished, download_failed
		Event string `json:"event"`
		Data  any    `json:"data,omitzero"`
	}
	modelEventData struct {
		Status   string         `json:"status"`
		Progress *modelProgress `json:"progress,omitzero"`
		Info     *modelEntry    `json:"info,omitzero"` // when it was loaded, not when it woke
		Failed   bool           `json:"failed,omitzero"`
		ExitCode int            `json:"exit_code,omitzero"`
		Reason   string         `json:"reason,omitzero"`
	}
	modelProgress struct {
		Stages  []string `json:"stages"`
		Current string   `json:"current"`
		Value   float64  `json:"value"`
	}
)

// statusOf returns the status of a model, whose source may be nil.
func statusOf(st models.Status[ask.Model], src *catalog.Source) modelStatus {
	m := modelStatus{Value: shownState(st.State, st.Evicted)}
	if src != nil {
		m.Args = src.Settings
	}
	if st.State == models.Loading && st.Part > 0 {
		m.Progress = st.Part
	}
	if st.Err != nil {
		m.Failed, m.ExitCode, m.Reason = true, 1, st.Err.Error()
	}
	return m
}

// shownState is a model's state as llama-server has it: one that gave its place to another is unloaded, whatever is kept of it
// while there is memory.
func shownState(st models.State, evicted bool) string {
	if st == models.Sleeping && evicted {
		st = models.Unloaded
	}
	return st.String()
}

// eventOf returns an event as clients get it.
func (s *API) eventOf(e models.Event) modelEvent {
	switch {
	case e.Reloaded:
		return modelEvent{Model: "*", Event: "models_reload"}
	case e.Removed:
		return modelEvent{Model: e.Model, Event: "model_remove"}
	case e.Download != nil:
		return downloadEvent(e.Model, e.Download.(catalog.Event))
	}
	d := &modelEventData{Status: shownState(e.State, e.Evicted)}
	if e.Err != nil {
		d.Failed, d.ExitCode, d.Reason = true, 1, e.Err.Error()
	}
	if e.State == models.Loading && e.Part > 0 {
		d.Progress = &modelProgress{[]string{"text_model"}, "text_model", e.Part}
	}
	if e.State == models.Loaded && e.First {
		if st, err := s.List.Set.Status(e.Model); err == nil && st.Model != nil {
			info := entryOf(st.Model)
			d.Info = &info
		}
	}
	return modelEvent{Model: e.Model, Event: "model_status", Data: d}
}

// watchModels streams the changes of models. One who reads too slowly is cut off.
func (s *API) watchModels(req *answer.Request) error {
	events, stop := s.List.Set.Watch()
	defer stop()
	out := reply.NewStream(req.HTTP)
	out.Ping() // which tells the client that the events from now on will come
	if out.Flush() != nil {
		return reply.ErrGone
	}
	ctx := req.Context()
	var silence <-chan time.Time
	if s.Host.Ping > 0 {
		tick := time.NewTicker(s.Host.Ping)
		defer tick.Stop()
		silence = tick.C
	}
	for {
		select {
		case <-ctx.Done():
			return reply.ErrGone
		case <-silence:
			out.Ping()
			if out.Flush() != nil {
				return reply.ErrGone
			}
		case e, ok := <-events:
			if !ok {
				return nil
			}
			if out.Event(s.eventOf(e)) != nil || out.Flush() != nil {
				return reply.ErrGone
			}
		}
	}
}

// rescan brings the list of models up to date.
func (s *API) rescan(req *answer.Request) error {
	reload, err := req.On("reload")
	if err != nil || !reload || s.Rescan == nil {
		return err
	}
	if !s.known(req) {
		return &reply.Error{Status: http.StatusUnauthorized, Message: "reload: it needs the API key"}
	}
	if !req.Caller.Admin {
		return answer.ErrUser
	}
	if req.OfOtherSite() { // the one GET that changes something
		return &reply.Error{Status: http.StatusForbidden,
			Message: "reload: a page of another origin may not have the models read again"}
	}
	if err := s.Rescan(); err != nil {
		return reply.Bad("%v", err) // what the folder or the file of models says is at fault
	}
	s.List.Set.Reloaded()
	return nil
}

// downloadEvent returns an event of a download as clients get it.
func downloadEvent(model string, d catalog.Event) modelEvent {
	switch {
	case d.Progress != nil:
		return modelEvent{Model: model, Event: "download_progress", Data: byURL(*d.Progress)}
	case !d.Ended:
		return modelEvent{Model: model, Event: "model_status", Data: &modelEventData{Status: "downloading"}}
	case d.Err != nil:
		return modelEvent{Model: model, Event: "download_failed",
			Data: &modelEventData{Status: "unloaded", Failed: true, ExitCode: 1, Reason: d.Err.Error()}}
	}
	return modelEvent{Model: model, Event: "download_finished"}
}
