package ollama

import (
	"cmp"
	"context"
	"errors"
	"net/http"

	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/persona"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A nameFields is how requests name a model, in their newer form and in an older one.
type nameFields struct{ model, name string }

// fields are those of the name, of which the first is described.
func (n *nameFields) fields(which string) []field.Field {
	return []field.Field{
		field.Input("model", field.Text(&n.model), which),
		field.Input("name", field.Text(&n.name), "The older form of model."),
	}
}

// given returns the name.
func (n *nameFields) given() (string, error) {
	name := cmp.Or(n.model, n.name)
	if name == "" {
		return "", reply.Invalid("model", "missing, want the name of a model")
	}
	return name, nil
}

// A pullQuery is a request to /api/pull.
type pullQuery struct {
	nameFields
	insecure, stream bool
}

func newPullQuery(*ask.Model) *pullQuery { return &pullQuery{stream: true} }

func (q *pullQuery) Fields() []field.Field {
	return append(q.nameFields.fields("Which model of Ollama's registry, or one of Hugging Face: hf.co/ORG/REPO:QUANT."),
		field.Setting("insecure", field.Boolean(&q.insecure), "Accepted; without effect."),
		field.Setting("stream", field.Boolean(&q.stream), "Send the progress, in lines of JSON."))
}

// A pullStatus is a line about a download.
type pullStatus struct {
	Status    string `json:"status,omitzero"`
	Digest    string `json:"digest,omitzero"`
	Total     int64  `json:"total,omitzero"`
	Completed int64  `json:"completed,omitzero"`
	Error     string `json:"error,omitzero"`
}

// pull downloads a model while the client waits. The download ends when no client waits for it any more.
func (s *API) pull(req *answer.Request) error {
	q := newPullQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	name, err := q.given()
	if err != nil {
		return err
	}
	ctx := req.Context()
	d, err := s.List.Download(ctx, name, "ollama.com/")
	if err != nil {
		return err
	}
	defer d.Leave()
	if !q.stream {
		select {
		case <-ctx.Done():
			return reply.ErrGone
		case <-d.Done:
		}
		if d.Err != nil {
			return pulled(d.Err)
		}
		req.Send(pullStatus{Status: "success"})
		return nil
	}
	out := reply.NewLines(req.HTTP)
	send := func(lines ...pullStatus) error {
		for _, line := range lines {
			if err := out.Event(line); err != nil {
				return err
			}
		}
		return out.Flush()
	}
	if send(pullStatus{Status: "pulling manifest"}) != nil {
		return reply.ErrGone
	}
	for {
		p, changed := d.Progress()
		if send(linesOf(p)...) != nil {
			return reply.ErrGone
		}
		select {
		case <-ctx.Done():
			return reply.ErrGone
		case <-changed:
		case <-d.Done:
			last := []pullStatus{{Status: "verifying sha256 digest"}, {Status: "writing manifest"}, {Status: "success"}}
			if d.Err != nil {
				last = []pullStatus{{Error: pulled(d.Err).Error()}}
			}
			if send(last...) != nil {
				return reply.ErrGone
			}
			return nil
		}
	}
}

// linesOf are how far the files are.
func linesOf(p hub.Progress) []pullStatus {
	if p.Stage != hub.Downloading && p.Stage != hub.Checking {
		return nil
	}
	var lines []pullStatus
	for _, f := range p.Files {
		what, digest := f.Name, ""
		if f.SHA256 != "" {
			what, digest = f.SHA256[:12], "sha256:"+f.SHA256
		}
		lines = append(lines, pullStatus{Status: "pulling " + what, Digest: digest, Total: max(f.Total, 0),
			Completed: f.Done})
	}
	return lines
}

// pulled returns the error of a download as clients get it.
func pulled(err error) error {
	if errors.Is(err, context.Canceled) {
		return reply.Bad("the download was cancelled")
	}
	return &reply.Error{Status: http.StatusInternalServerError, Message: err.Error()}
}

// A deleteQuery is a request to /api/delete.
type deleteQuery struct{ nameFields }

func newDeleteQuery(*ask.Model) *deleteQuery { return &deleteQuery{} }

func (q *deleteQuery) Fields() []field.Field {
	return q.nameFields.fields("Which model, by a name that /api/tags has.")
}

func (s *API) deleteModel(req *answer.Request) error {
	q := newDeleteQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	name, err := q.given()
	if err != nil {
		return err
	}
	if err := s.List.Delete(req.Context(), s.List.Untagged(name)); err != nil {
		return err
	}
	req.Send(struct{}{})
	return nil
}

// A copyQuery is a request to /api/copy.
type copyQuery struct{ source, destination string }

func newCopyQuery(*ask.Model) *copyQuery { return &copyQuery{} }

func (q *copyQuery) Fields() []field.Field {
	return []field.Field{
		field.Required("source", field.Text(&q.source), "Which model, by a name that /api/tags has."),
		field.Required("destination", field.Text(&q.destination), "Its other name."),
	}
}

func (s *API) copyModel(req *answer.Request) error {
	q := newCopyQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	if s.List.Library == nil {
		return catalog.ErrNoLibrary
	}
	err := s.List.Library.Copy(req.Context(), s.List.Untagged(q.source), persona.BareName(q.destination))
	if errors.Is(err, hub.ErrNotFound) {
		return &models.NotFoundError{Name: q.source, Names: s.List.Names()}
	}
	if err != nil {
		return reply.Invalid("destination", "%v", err)
	}
	req.Send(struct{}{})
	return nil
}
