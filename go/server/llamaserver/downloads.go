package llamaserver

import (
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/catalog"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// downloadEntry returns a download as /models shows it.
func downloadEntry(d *catalog.Download) modelEntry {
	p, _ := d.Progress()
	m := &ask.Model{Name: d.Name, Aliases: []string{d.Ref}, LoRA: &ask.Adapters{}}
	e := entryOf(m)
	e.Meta, e.Status = nil, &modelStatus{Value: "downloading", Progress: byURL(p)}
	return e
}

// A fileProgress is how much of a file there is.
type fileProgress struct {
	Done  int64 `json:"done"`
	Total int64 `json:"total"` // -1: it is not known
}

// byURL is how far the files are, as llama-server tells it.
func byURL(p hub.Progress) map[string]fileProgress {
	files := map[string]fileProgress{}
	for _, f := range p.Files {
		files[f.URL] = fileProgress{f.Done, f.Total}
	}
	return files
}

// A downloadQuery is a request to POST /models.
type downloadQuery struct{ model string }

func newDownloadQuery(*ask.Model) *downloadQuery { return &downloadQuery{} }

func (q *downloadQuery) Fields() []field.Field {
	return []field.Field{field.Required("model", field.Text(&q.model),
		"ORG/REPO or ORG/REPO:QUANT on Hugging Face, or a name with its server: hf.co/..., ollama.com/....")}
}

// startDownload begins a download, which goes on when the request has ended.
func (s *API) startDownload(req *answer.Request) error {
	q := newDownloadQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	if _, err := s.List.Download(req.Context(), q.model, "hf.co/"); err != nil {
		return err
	}
	req.Send(success{true})
	return nil
}

// deleteModel removes a model from the cache.
func (s *API) deleteModel(req *answer.Request) error {
	name := req.HTTP.Query("model")
	if name == "" {
		return reply.Invalid("model", "missing, want ?model= and a name that /models has")
	}
	if err := s.List.Delete(req.Context(), name); err != nil {
		return err
	}
	req.Send(success{true})
	return nil
}
