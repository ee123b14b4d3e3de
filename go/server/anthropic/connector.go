package anthropic

import (
	stdjson "encoding/json"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/mcp"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// An mcpServer is one of mcp_servers: an MCP server of the server's own configuration.
type mcpServer struct {
	name   string
	offers []mcp.Offer
	tool   struct { // tool_configuration, in whose place a toolset is now
		given   bool
		off     bool
		allowed []string // nil: all
	}
}

// mcpServers is the field mcp_servers.
type mcpServers struct{ to *offers }

const wantServers = `an array such as [{"type": "url", "name": "wiki"}]`

// Take reads MCP servers. Their credentials are the server's own, and what a request has of them is never kept or told.
func (l mcpServers) Take(r *field.Reader) error {
	l.to.asked = nil
	return r.Elements(wantServers, func(i int) error {
		s, err := l.read(r)
		if err == nil && slices.ContainsFunc(l.to.asked, func(o mcpServer) bool { return o.name == s.name }) {
			err = reply.Bad("name: a second MCP server with the name %s", field.Quote(s.name))
		}
		l.to.asked = append(l.to.asked, s)
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
}

func (l mcpServers) read(r *field.Reader) (s mcpServer, err error) {
	at, kind := "", ""
	err = r.Members("an object", func(name string) (err error) {
		switch {
		case name == "type":
			err = field.OneOf(&kind, "url").Take(r)
		case name == "name":
			s.name, err = r.Text("a string")
		case r.Kind() == 'n':
			_, err = r.Raw()
		case name == "url":
			at, err = r.Text("a string")
		case name == "tool_configuration":
			err = s.configure(r)
		case name == "authorization_token":
			if _, err = r.Raw(); err == nil {
				err = reply.Bad("the server has its own credentials for the MCP servers of its configuration, want none")
			}
		default:
			err = reply.Bad("not known, want type, url, name or tool_configuration")
		}
		return field.Within(name, err)
	})
	if err == nil {
		s.offers, err = agent.Find(l.to.servers, "name", s.name, "url", at)
	}
	return s, err
}

// configure reads which tools a request has of an MCP server.
func (s *mcpServer) configure(r *field.Reader) error {
	s.tool.given = true
	on := true
	err := r.Members("an object", func(name string) (err error) {
		switch {
		case r.Kind() == 'n':
			_, err = r.Raw()
		case name == "enabled":
			err = field.Boolean(&on).Take(r)
		case name == "allowed_tools":
			s.tool.allowed = []string{}
			err = r.Decode(&s.tool.allowed)
		default:
			err = reply.Bad("not known, want enabled or allowed_tools")
		}
		return field.Within(name, err)
	})
	s.tool.off = !on
	return err
}

func (l mcpServers) Value() any { return nil }

func (l mcpServers) Schema() field.Schema {
	return field.Schema{"type": "array", "items": field.Schema{"type": "object", "required": []string{"name"}, "properties": field.Schema{
		"type": field.Schema{"enum": []string{"url"}}, "name": field.Schema{"type": "string"}, "url": field.Schema{"type": []string{"string", "null"}},
	}}}
}

// A toolset is the tools of one of mcp_servers, as tools has it.
type toolset struct {
	server string
	on     bool            // unless its configuration says otherwise
	tools  map[string]bool // whether single ones are
	pinned []pinned        // those that there are, as the request has them; nil: those of the MCP server
}

// A pinned tool is one of an MCP server as an earlier request has had it.
type pinned struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Schema      jsontext.Value `json:"input_schema"`
}

const wantPinned = `an array of an MCP server's tools such as {"name": "get_time", "input_schema": {"type": "object"}}`

// pin reads the tools of a toolset that a request has itself.
func (s *toolset) pin(r *field.Reader) error {
	s.pinned = []pinned{}
	return r.Elements(wantPinned, func(i int) error {
		var t pinned
		err := r.Decode(&t)
		switch {
		case err != nil:
		case t.Name == "":
			err = reply.Bad("name: missing, want that of a tool of the MCP server")
		case t.Schema.Kind() != '{':
			err = reply.Bad("input_schema: missing or no object, want an object")
		}
		s.pinned = append(s.pinned, t)
		return field.Within(fmt.Sprintf("element %d", i), err)
	})
}

// of returns the tools of an MCP server as the toolset has them, in its order. What the MCP server has not cannot be called.
func (s *toolset) of(server string, all []mcp.Offer) ([]mcp.Offer, error) {
	if s.pinned == nil {
		return all, nil
	}
	var own []mcp.Offer
	for _, t := range s.pinned {
		i := slices.IndexFunc(all, func(o mcp.Offer) bool { return o.Name == t.Name })
		if i < 0 {
			return nil, reply.Bad("the MCP server %s has no tool %s, want it left out of the toolset's tools", field.Quote(server), field.Quote(t.Name))
		}
		o := all[i]
		o.Description, o.Schema = t.Description, stdjson.RawMessage(t.Schema)
		own = append(own, o)
	}
	return own, nil
}

// has reports whether a tool is offered.
func (s *toolset) has(name string) bool {
	on, given := s.tools[name]
	if !given {
		return s.on
	}
	return on
}

// addSet takes a toolset, whose tools are added once all fields are read.
func (o *offers) addSet(v jsontext.Value) error {
	s := toolset{on: true, tools: map[string]bool{}}
	r := field.NewReader(v)
	err := r.Members("an object", func(name string) (err error) {
		switch {
		case name == "mcp_server_name":
			s.server, err = r.Text("a string")
		case r.Kind() == 'n', name == "type", name == "cache_control":
			_, err = r.Raw()
		case name == "default_config":
			s.on, err = readEnabled(r, true)
		case name == "configs":
			err = r.Members("an object", func(tool string) (err error) {
				if s.tools[tool], err = readEnabled(r, true); err != nil {
					err = field.Within(field.Quote(tool), err)
				}
				return err
			})
		case name == "tools":
			err = s.pin(r)
		default:
			err = reply.Bad("not known, want mcp_server_name, default_config, configs or tools")
		}
		return field.Within(name, err)
	})
	switch {
	case err != nil:
		return err
	case s.server == "":
		return reply.Bad("mcp_server_name: missing, want the name of one of mcp_servers")
	case slices.ContainsFunc(o.sets, func(other toolset) bool { return other.server == s.server }):
		return reply.Bad("mcp_server_name: a second toolset of the MCP server %s", field.Quote(s.server))
	}
	o.sets = append(o.sets, s)
	return nil
}

// readEnabled reads whether tools are offered.
func readEnabled(r *field.Reader, on bool) (bool, error) {
	err := r.Members("an object", func(name string) (err error) {
		switch {
		case r.Kind() == 'n', name == "defer_loading": // all are there from the start
			_, err = r.Raw()
		case name == "enabled":
			err = field.Boolean(&on).Take(r)
		default:
			err = reply.Bad("not known, want enabled or defer_loading")
		}
		return field.Within(name, err)
	})
	return on, err
}

// settle adds the tools of MCP servers to those of the model, once.
func (o *offers) settle(to *ask.Tools) error {
	if o.settled {
		return nil
	}
	o.settled = true
	for _, set := range o.sets {
		if !slices.ContainsFunc(o.asked, func(s mcpServer) bool { return s.name == set.server }) {
			return reply.Invalid("tools", "a toolset of the MCP server %s, which mcp_servers has not", field.Quote(set.server))
		}
	}
	for _, s := range o.asked {
		i := slices.IndexFunc(o.sets, func(set toolset) bool { return set.server == s.name })
		offered := func(name string) bool {
			return !s.tool.off && (s.tool.allowed == nil || slices.Contains(s.tool.allowed, name))
		}
		if i >= 0 && s.tool.given {
			return reply.Invalid("mcp_servers", "tool_configuration of %s beside a toolset of it, want one of them", field.Quote(s.name))
		}
		all := s.offers
		if i >= 0 {
			var err error
			if all, err = o.sets[i].of(s.name, all); err != nil {
				return reply.Invalid("tools", "%v", err)
			}
			offered = o.sets[i].has
		}
		if err := o.addServer(to, s.name, all, offered); err != nil {
			return reply.Invalid("mcp_servers", "%v", err)
		}
	}
	return nil
}

// addServer adds the tools of an MCP server that are offered.
func (o *offers) addServer(to *ask.Tools, server string, all []mcp.Offer, offered func(name string) bool) error {
	for i := range all {
		tool := &all[i]
		if !offered(tool.Name) {
			continue
		}
		if err := o.addRemote(to, server, tool); err != nil {
			return fmt.Errorf("the tool %s of %s: %w", field.Quote(tool.Name), field.Quote(server), err)
		}
	}
	return nil
}

func (o *offers) addRemote(to *ask.Tools, server string, tool *mcp.Offer) error {
	return o.add(to, ask.FlatName(server, tool.Name), false, &served{Tool: agent.Remote(o.servers, server, tool), most: -1})
}
