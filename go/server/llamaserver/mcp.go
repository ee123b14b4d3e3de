package llamaserver

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// for the type of the tools' values

// Tools are functions that clients may call through the server: those of MCP servers. The server never calls them
// itself: whether a model's call is made is for the client to decide.
type Tools interface {
	// Specs returns the tools as /v1/chat/completions takes them.
	Specs() []stdjson.RawMessage
	// Server returns the name of the MCP server that has a tool, "" where none has.
	Server(tool string) string
	// Known returns the name by which its server knows a tool.
	Known(tool string) string
	// Answer is Call, and says whether the tool could not do what it was asked for.
	Answer(ctx context.Context, name, arguments string) (answer chat.Content, failed bool, err error)
	// Call returns what a tool answers to the JSON of its arguments, of bounded length. What goes wrong in the tool is
	// an answer too; the error is of the connection.
	Call(ctx context.Context, name, arguments string) (chat.Content, error)
}

type (
	mcpTool struct {
		Type     string         `json:"type"`
		Server   string         `json:"server"`
		Function jsontext.Value `json:"function"`
	}
	toolList struct {
		Object string    `json:"object"`
		Data   []mcpTool `json:"data"`
	}
	mcpResult struct {
		Object  string `json:"object"`
		Name    string `json:"name"`
		Server  string `json:"server"`
		Content string `json:"content"`
		// Parts are the content of a message that answers the call, where it has pictures or sounds.
		Parts jsontext.Value `json:"parts,omitzero"`
	}
)

var errNoTools = reply.Unsupported("this server has no tools; start it with --mcp")

func (s *API) listTools(req *answer.Request) error {
	if s.Tools == nil {
		return errNoTools
	}
	list := toolList{Object: "list", Data: []mcpTool{}}
	for _, spec := range s.Tools.Specs() {
		var t struct{ Function stdjson.RawMessage }
		var f struct{ Name string }
		if err := errors.Join(stdjson.Unmarshal(spec, &t), stdjson.Unmarshal(t.Function, &f)); err != nil {
			return err
		}
		list.Data = append(list.Data, mcpTool{"function", s.Tools.Server(f.Name), jsontext.Value(t.Function)})
	}
	req.Send(list)
	return nil
}

// An mcpQuery is a request to /v1/mcp/call.
type mcpQuery struct {
	name      string
	arguments chat.Arguments
}

func newMCPQuery(*ask.Model) *mcpQuery { return &mcpQuery{} }

func (q *mcpQuery) Fields() []field.Field {
	return []field.Field{
		field.Required("name", field.Text(&q.name), "The tool, by a name that /v1/mcp/tools has."),
		field.Input("arguments", callArguments{&q.arguments},
			"The arguments: an object, or its JSON as text, as models give it."),
	}
}

type callArguments struct{ p *chat.Arguments }

func (a callArguments) Take(r *field.Reader) error {
	if k := r.Kind(); k != '{' && k != '"' {
		return r.Wrong("an object, or its JSON as text")
	}
	return r.Decode(a.p)
}

func (a callArguments) Value() any { return nil }
func (a callArguments) Schema() field.Schema {
	return field.Schema{"type": []string{"object", "string"}}
}

// callTool calls a tool.
func (s *API) callTool(req *answer.Request) error {
	if s.Tools == nil {
		return errNoTools
	}
	if err := req.MayCallTools("call tools", ""); err != nil {
		return err
	}
	q := newMCPQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	server := s.Tools.Server(q.name)
	if server == "" {
		return &reply.Error{Status: http.StatusNotFound,
			Message: "no tool has the name " + field.Quote(q.name) + "; /v1/mcp/tools says which there are", Param: "name"}
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), s.ToolTime, errSlowTool)
	defer cancel()
	begun := time.Now()
	content, err := s.Tools.Call(ctx, q.name, string(q.arguments))
	s.Host.Log.Info().Str("tool", q.name).Str("mcp_server", server).Dur("took_ms",
		time.Since(begun)).Err(err).Msg("called a tool")
	switch {
	case err == nil: // in the last moment, perhaps
	case context.Cause(ctx) == errSlowTool:
		return &reply.Error{Status: http.StatusGatewayTimeout,
			Message: fmt.Sprintf("the tool %s gave no answer in %v", q.name, s.ToolTime)}
	case ctx.Err() != nil:
		return ctx.Err()
	default:
		return &reply.Error{Status: http.StatusBadGateway, Message: err.Error()}
	}
	out := mcpResult{Object: "mcp.result", Name: q.name, Server: server, Content: content.Named()}
	if content.Media() != nil {
		if out.Parts, err = stdjson.Marshal(content); err != nil {
			return err
		}
	}
	req.Send(out)
	return nil
}

var errSlowTool = errors.New("the tool took too long")

// mcpRoutes are those of tools.
func (s *API) mcpRoutes() []answer.Route {
	return []answer.Route{
		{
			Method: http.MethodGet, Paths: []string{"/v1/mcp/tools"}, Always: true,
			Handle: s.listTools, Summary: "List the tools of the MCP servers that the server was started with",
			Answer: toolList{},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/mcp/call"}, Always: true,
			Handle: s.callTool, Summary: "Call one of these tools", Answer: mcpResult{},
			Body:    answer.BodyOf("ToolCallRequest", newMCPQuery),
			Example: map[string]any{"name": "get_weather", "arguments": map[string]any{"place": "Rome"}},
		},
	}
}
