package agent

import (
	"context"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/mcp"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Limits bound the calls of tools that the server makes for one answer.
type Limits struct {
	Calls  int           // the most of an answer
	Time   time.Duration // the most that one takes
	Result int           // the most bytes of a result that the model is shown
}

// Servers are MCP servers, whose tools are called for clients that ask for it.
type Servers interface {
	// Offers returns the tools of an MCP server; false: there is none of that name.
	Offers(server string) ([]mcp.Offer, bool)
	// At returns the URL of an MCP server, empty where it has none; false: there is none of that name.
	At(server string) (url string, known bool)
	// Answer returns what a tool answers to the JSON of its arguments, of bounded length, and whether it failed. The error
	// is of the connection.
	Answer(ctx context.Context, key, arguments string) (content chat.Content, failed bool, err error)
}

// Find returns the tools of the MCP server that a request names, in the fields that its API has for the name and for the URL.
// A request brings no servers of its own: the URL, where it has one, is that of the configuration.
func Find(of Servers, nameField, name, urlField, url string) ([]mcp.Offer, error) {
	switch {
	case name == "":
		return nil, reply.Bad("%s: missing, want that of an MCP server of the server's configuration", nameField)
	case of == nil:
		return nil, reply.Bad("%s: this server has no tools; start it with --mcp", nameField)
	}
	offers, known := of.Offers(name)
	own, _ := of.At(name)
	switch {
	case !known:
		return nil, reply.Bad("%s: no MCP server has the name %s; /v1/mcp/tools says which there are", nameField, field.Quote(name))
	case url != "" && url != own:
		return nil, reply.Bad("%s: the server reaches the MCP servers of its own configuration only, want the URL that %s has there, or none",
			urlField, field.Quote(name))
	}
	return offers, nil
}

// A Tool is a function of the model's that the server calls.
type Tool struct {
	Name   string // as the model knows it, or the MCP server whose tool it is
	Server string // the MCP server whose tool it is; empty: it is of the web

	description string
	schema      jsontext.Value
	does        does
}

// A does is what a tool does for a call. The error is of a connection, and told to nobody but the log: lost says what the
// model is told then.
type does interface {
	call(ctx context.Context, l *Loop, c *Call) (text string, why Reason, err error)
	lost() string
}

// Function is the tool as the model is offered it, under a name.
func (t *Tool) Function(name string, strict bool) (ask.Tool, error) {
	return ask.NewTool(name, t.description, t.schema, strict)
}

// Size is how many bytes the model is told of the tool, about.
func (t *Tool) Size() int { return len(t.description) + len(t.schema) }

// Remote returns a tool of an MCP server.
func Remote(of Servers, server string, o *mcp.Offer) *Tool {
	return &Tool{Name: o.Name, Server: server, description: o.Description, schema: jsontext.Value(o.Schema), does: remote{of, o.Key}}
}

// remote is a tool of an MCP server, and the key that it has there.
type remote struct {
	of  Servers
	key string
}

func (r remote) call(ctx context.Context, _ *Loop, c *Call) (string, Reason, error) {
	content, failed, err := r.of.Answer(ctx, r.key, c.Args)
	why := Answered
	if failed {
		why = Failed
	}
	return content.Named(), why, err
}

// lost is what the model is told where the connection fails: what the server says of that, or wrote last, is the operator's.
func (remote) lost() string {
	return "the MCP server cannot be reached, or has ended the connection"
}

// May refuses to call tools for requests of batches, and for those that a page of another origin may have sent. types are those
// of the tools that are called.
func May(req *answer.Request, types string) error {
	if req.Caller.Background { // whose requests are sent again after the server has ended, and calls would be made again
		return reply.Invalid("tools", "a request of a batch may not have tools that the server calls, which would be called again "+
			"whenever it is sent again; leave out those of the types %s", types)
	}
	return req.MayCallTools("have tools called", ", since it has tools that the server calls")
}
