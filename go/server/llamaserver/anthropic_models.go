package llamaserver

import (
	"slices"
	"strconv"
	"time"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

type (
	// anthropicModel is a model in Anthropic's form.
	anthropicModel struct {
		Type      string `json:"type"`
		ID        string `json:"id"`
		Name      string `json:"display_name"`
		Created   string `json:"created_at"`
		Lifecycle string `json:"lifecycle"`
		MaxInput  *int   `json:"max_input_tokens"` // null before it was loaded
		MaxTokens *int   `json:"max_tokens"`
	}
	anthropicModels struct {
		Data  []anthropicModel `json:"data"`
		First *string          `json:"first_id"`
		Last  *string          `json:"last_id"`
		More  bool             `json:"has_more"`
	}
)

// WantsAnthropic reports whether a request to a path that OpenAI's API has as well is of a client of Anthropic's.
func WantsAnthropic(req *answer.Request) bool { return req.HTTP.GetHeader("anthropic-version") != "" }

func (e *modelEntry) anthropic() anthropicModel {
	m := anthropicModel{Type: "model", ID: e.ID, Name: e.ID, Created: time.Unix(e.Created, 0).UTC().Format(time.RFC3339),
		Lifecycle: "active"}
	if e.Meta != nil {
		m.MaxInput, m.MaxTokens = &e.Meta.NCtx, &e.Meta.NCtx
	}
	return m
}

// anthropicPage returns the part of a list of models that the query asks for.
func anthropicPage(req *answer.Request, entries []modelEntry) (anthropicModels, error) {
	page := anthropicModels{Data: []anthropicModel{}}
	limit := 20
	if text := req.HTTP.Query("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > 1000 {
			return page, reply.Invalid("limit", "%s, want 1 to 1000", field.Quote(text))
		}
	}
	at := func(name string) (int, error) {
		id := req.HTTP.Query(name)
		i := slices.IndexFunc(entries, func(e modelEntry) bool { return e.ID == id })
		if i < 0 && id != "" {
			return 0, reply.Invalid(name, "%s is not in the list", field.Quote(id))
		}
		return i, nil
	}
	after, err := at("after_id")
	if err != nil {
		return page, err
	}
	before, err := at("before_id")
	if err != nil {
		return page, err
	}
	from, to := after+1, len(entries)
	if before >= 0 {
		to = max(before, from)
	}
	if page.More = to-from > limit; page.More && before >= 0 {
		from = to - limit // the last ones before it
	}
	for _, e := range entries[from:min(from+limit, to)] {
		page.Data = append(page.Data, e.anthropic())
	}
	if n := len(page.Data); n > 0 {
		page.First, page.Last = &page.Data[0].ID, &page.Data[n-1].ID
	}
	return page, nil
}
