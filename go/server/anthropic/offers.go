package anthropic

import (
	"math"
	"regexp"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Offers are the tools of a request that the server calls, by the names that the model has for them.
type offers struct {
	web     agent.Web
	servers agent.Servers // nil: there are none
	knows   func(url string) bool
	served  map[string]*served
	sets    []toolset
	asked   []mcpServer // mcp_servers
	settled bool        // the tools of sets are among those of the model
}

// A served is a tool that the server calls.
type served struct {
	*agent.Tool
	most int  // calls of a request, -1: any number
	uses int  // so far
	cite bool // pages that it reads are cited
}

// may counts a call, and reports whether the tool may be called.
func (o *offers) may(t *agent.Tool) bool {
	for _, s := range o.served {
		if s.Tool == t {
			s.uses++
			return s.most < 0 || s.uses <= s.most
		}
	}
	return false
}

// calls reports whether the server has tools to call.
func (o *offers) calls() bool { return len(o.served) > 0 || len(o.sets) > 0 || len(o.asked) > 0 }

// Types of tools of the web, each with the date of its form, and what an error names.
var (
	searchType = regexp.MustCompile(`^web_search_\d{8}$`)
	readType   = regexp.MustCompile(`^web_fetch_\d{8}$`)
)

const (
	toolsetType = "mcp_toolset"
	servedTypes = "web_search, web_fetch and " + toolsetType
)

// webFields are the fields of tools of the web. Others are refused: a typo could allow every site.
type webFields struct {
	name            string
	most, tokens    int
	allowed, barred jsontext.Value
	cite, strict    bool
	search          bool
}

func (w *webFields) take(r *field.Reader) error {
	want := agent.ReadName
	if w.search {
		want = agent.SearchName
	}
	err := r.Members("an object", func(name string) (err error) {
		switch {
		case name == "name":
			err = field.OneOf(&w.name, want).Take(r)
		case r.Kind() == 'n', name == "type", name == "cache_control", name == "defer_loading", name == "use_cache", name == "response_inclusion":
			_, err = r.Raw()
		case name == "max_uses":
			err = field.Integer(&w.most, 1, math.MaxInt32).Take(r)
		case name == "allowed_domains":
			w.allowed, err = r.Raw()
		case name == "blocked_domains":
			w.barred, err = r.Raw()
		case name == "strict":
			err = field.Boolean(&w.strict).Take(r)
		case name == "allowed_callers":
			err = w.callers(r)
		case name == "user_location" && w.search:
			err = takeLocation(r)
		case name == "max_content_tokens" && !w.search:
			err = field.Integer(&w.tokens, 1, math.MaxInt32).Take(r)
		case name == "citations" && !w.search:
			err = r.Members("an object", func(name string) error {
				if name == "enabled" {
					return field.Within(name, field.Boolean(&w.cite).Take(r))
				}
				_, err := r.Raw()
				return err
			})
		case name == "url_sources" && !w.search:
			err = reply.Bad("not supported, want it left out: pages are read of which the user, a tool of the client or one of the web has told")
		default:
			err = reply.Bad("not known to this tool")
		}
		return field.Within(name, err)
	})
	switch {
	case err != nil:
		return err
	case w.name == "":
		return reply.Bad("name: missing, want %s", want)
	case len(w.allowed) > 0 && len(w.barred) > 0:
		return reply.Bad("allowed_domains and blocked_domains in one tool, want one of them")
	}
	return nil
}

// callers reads who may call a tool: the model itself has to be among them.
func (w *webFields) callers(r *field.Reader) error {
	var all []string
	if err := r.Decode(&all); err != nil {
		return err
	}
	if !slices.Contains(all, "direct") {
		return reply.Bad("without direct, and the server runs no code that could call the tool")
	}
	return nil
}

// takeLocation checks where the user is. Search engines are not told.
func takeLocation(r *field.Reader) error {
	kind := ""
	err := r.Members("an object", func(name string) (err error) {
		switch {
		case name == "type":
			err = field.OneOf(&kind, "approximate").Take(r)
		case r.Kind() == 'n':
			_, err = r.Raw()
		case name == "city", name == "region", name == "country", name == "timezone":
			_, err = r.Text("a string")
		default:
			err = reply.Bad("not known, want city, region, country or timezone")
		}
		return field.Within(name, err)
	})
	if err == nil && kind == "" {
		err = reply.Bad("type: missing, want approximate")
	}
	return err
}

// addWeb adds a tool of the web.
func (o *offers) addWeb(to *ask.Tools, search bool, v jsontext.Value) error {
	w := webFields{most: -1, search: search}
	if err := w.take(field.NewReader(v)); err != nil {
		return err
	}
	var f agent.Filter
	var err error
	if f.Allow, err = agent.ReadSites(w.allowed, true); err != nil {
		return field.Within("allowed_domains", err)
	}
	if f.Block, err = agent.ReadSites(w.barred, true); err != nil {
		return field.Within("blocked_domains", err)
	}
	var filters []agent.Filter
	if len(f.Allow)+len(f.Block) > 0 {
		filters = []agent.Filter{f}
	}
	tool := o.web.Searches(agent.UsualResults, filters)
	switch {
	case search && o.web.Search == nil:
		return reply.Bad("type: this server searches nothing; start it with --web-search")
	case !search && o.web.Read == nil:
		return reply.Bad("type: this server reads no pages; start it with --web-fetch")
	case !search:
		tool = o.web.Reads(w.tokens, filters, o.knows)
	}
	return o.add(to, tool.Name, w.strict, &served{Tool: tool, most: w.most, cite: w.cite})
}

// add offers a tool to the model.
func (o *offers) add(to *ask.Tools, name string, strict bool, s *served) error {
	function, err := s.Function(name, strict)
	if err == nil {
		err = to.Add(function)
	}
	if err == nil {
		if o.served == nil {
			o.served = map[string]*served{}
		}
		o.served[name] = s
	}
	return err
}
