package openai

import (
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Types of tools that search the web, as OpenAI has named them, and one of this server that reads pages alone.
var webTypes = []string{"web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"}

const readType = "web_fetch"

// readFilter reads which sites a tool has; nil: all. A typo would select all of them.
func readFilter(v jsontext.Value) ([]agent.Filter, error) {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil, nil
	}
	var f agent.Filter
	r := field.NewReader(v)
	err := r.Members(`an object such as {"allowed_domains": ["example.com"]}`, func(name string) error {
		to, ok := map[string]*[]agent.Site{"allowed_domains": &f.Allow, "blocked_domains": &f.Block}[name]
		if !ok {
			return reply.Bad("%s is not known, want allowed_domains or blocked_domains", field.Quote(name))
		}
		in, err := r.Raw()
		if err == nil {
			*to, err = agent.ReadSites(in, false)
		}
		return field.Within(name, err)
	})
	return []agent.Filter{f}, err
}

// resultsOf is how many results a search has, by search_context_size.
var resultsOf = map[string]int{"low": 3, "": agent.UsualResults, "medium": agent.UsualResults, "high": 12}

// addWeb adds the functions of a tool that searches the web or reads pages. Several tools may have the same: what is left out
// by one of them is then, and the first says how much a search finds.
func (l *responseTools) addWeb(kind string, v jsontext.Value) error {
	var in struct {
		Size    string         `json:"search_context_size"`
		Access  *bool          `json:"external_web_access"`
		Filters jsontext.Value `json:"filters"`
	}
	if err := field.Decode(v, &in); err != nil {
		return err
	}
	results, known := resultsOf[in.Size]
	if !known {
		return reply.Bad("search_context_size: the string %s, want low, medium or high", field.Quote(in.Size))
	}
	filters, err := readFilter(in.Filters)
	if err != nil {
		return field.Within("filters", err)
	}
	switch {
	case kind == readType && l.web.Read == nil:
		return reply.Bad("type: this server reads no pages; start it with --web-fetch")
	case kind != readType && l.web.Search == nil, in.Access != nil && !*in.Access:
		return nil // as other tools that OpenAI runs, which clients offer to every model
	}
	l.calls = true
	if kind != readType {
		if err := l.offer(l.web.Searches(results, slices.Clone(filters)), filters); err != nil {
			return err
		}
	}
	if l.web.Read == nil {
		return nil
	}
	return l.offer(l.web.Reads(0, slices.Clone(filters), nil), filters)
}

// offer adds a tool of the web. One that is there has the filters too.
func (l *responseTools) offer(t *agent.Tool, filters []agent.Filter) error {
	if there := l.names[t.Name].served; there != nil && there.Server == "" {
		there.Narrow(filters)
		return nil
	}
	function, err := t.Function(t.Name, false)
	if err == nil {
		err = l.to.Add(function)
	}
	if err == nil {
		l.names[t.Name] = responseTool{name: t.Name, served: t}
	}
	return err
}

// A webItem is a call of such a function in the output.
type webItem struct {
	ID     string    `json:"id"`
	Type   string    `json:"type"`
	Status string    `json:"status"`
	Action webAction `json:"action"`
	Output *string   `json:"output,omitzero"` // what the model is told, which OpenAI's items have not

	made *agent.Call
	show bool // the sources
}

// A webAction is what is done.
type webAction struct {
	Type    string       `json:"type"`
	Query   *string      `json:"query,omitzero"`
	Queries []string     `json:"queries,omitzero"`
	URL     *string      `json:"url,omitzero"`
	Sources *[]webSource `json:"sources,omitzero"`
}

type webSource struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

// includeSources shows the URLs that a search has found.
const includeSources = "web_search_call.action.sources"

// newWebItem is the item of a call with these arguments, as far as they are there.
func (f *responsesFormat) newWebItem(id string, tool *agent.Tool, args string) *webItem {
	it := &webItem{ID: id, Type: "web_search_call", Status: statusInProgress, made: &agent.Call{Tool: tool, Args: args},
		show: slices.Contains(f.q.include, includeSources)}
	if tool.Name == agent.ReadName {
		at, _ := it.made.URL()
		it.Action = webAction{Type: "open_page", URL: &at}
		return it
	}
	query, given := it.made.Query()
	it.Action = webAction{Type: "search", Query: &query}
	if given {
		it.Action.Queries = []string{query}
	}
	return it
}

func (it *webItem) about() (id, kind, status string) { return it.ID, it.Type, it.Status }
func (it *webItem) call() *agent.Call                { return it.made }

// webName is the name of the function for a type of action, "": there is none.
func webName(action string) string {
	return map[string]string{"search": agent.SearchName, "open_page": agent.ReadName}[action]
}

func (it *webItem) waits(status string) bool {
	it.Status = statusIncomplete
	if status == statusCompleted {
		it.Status, it.Output = statusSearching, new(string)
	}
	return status == statusCompleted
}

func (it *webItem) take() {
	it.Status, it.Output = statusCompleted, &it.made.Told
	if it.made.Why != agent.Answered {
		it.Status = statusFailed
		return
	}
	if it.show && it.Action.Type == "search" {
		sources := []webSource{}
		for _, f := range it.made.Found {
			sources = append(sources, webSource{"url", f.URL})
		}
		it.Action.Sources = &sources
	}
}

// readWebItem reads what came of a call of this server. Items of others have no output.
func (it *responseItem) readWebItem(action jsontext.Value) error {
	if it.Output.Kind() != '"' || action.Kind() != '{' {
		return nil
	}
	var in webAction
	if err := field.Decode(action, &in); err != nil {
		return field.Within("action", err)
	}
	args := map[string]string{}
	if in.Query != nil {
		args["query"] = *in.Query
	}
	if in.URL != nil {
		args["url"] = *in.URL
	}
	if it.Name = webName(in.Type); it.Name == "" {
		return nil
	}
	raw, err := reply.Encode(args)
	if err != nil {
		return err
	}
	it.Arguments = string(raw)
	it.result, err = field.NewReader(it.Output).Text("a string")
	return field.Within("output", err)
}

// chosenWeb reads a choice of a tool that searches, such as {"type": "web_search"}; false: it is none.
func (l *responseTools) chosenWeb(v jsontext.Value) bool {
	var in struct {
		Type string `json:"type"`
	}
	return v.Kind() == '{' && json.Unmarshal(v, &in) == nil && slices.Contains(webTypes, in.Type) && l.web.Search != nil
}

// mayCall refuses requests of batches, and those that a page of another origin may have sent.
func mayCall(req *answer.Request) error {
	return agent.May(req, "mcp, web_search and web_fetch")
}

// A citation is an annotation of a text that names a page which the model was shown. Indexes count characters.
type citation struct {
	Type  string `json:"type"`
	Start int    `json:"start_index"`
	End   int    `json:"end_index"` // behind it
	URL   string `json:"url"`
	Title string `json:"title"`
}

// annotations are those of a text of the answer. They are found once for what is sent of a block: its events, its part and its
// item.
func (f *responsesFormat) annotations(b *answer.Block, text string) []any {
	if f.cites.of == b && f.cites.text == text {
		return f.cites.list
	}
	list := []any{}
	if b.Kind == answer.TextBlock {
		for _, c := range f.loop.Pages.Cited(text) {
			list = append(list, citation{"url_citation", c.Start, c.End, c.URL, c.Title})
		}
	}
	f.cites = blockCites{b, text, list}
	return list
}

// blockCites are the annotations of a block with a text.
type blockCites struct {
	of   *answer.Block
	text string
	list []any
}
