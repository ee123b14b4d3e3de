package llamaserver

import (
	"context"
	stdjson "encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
	"github.com/quern-llm/quern/go/tools"
)

// Own are tools of the server itself.
type Own interface {
	Tools() []tools.Tool
	Do(ctx context.Context, c tools.Call) (stdjson.RawMessage, error)
}

type (
	// An ownTool is a tool as llama-server's clients know it.
	ownTool struct {
		Display     string          `json:"display_name"`
		Name        string          `json:"tool"`
		Type        string          `json:"type"` // builtin, mcp
		Permissions toolPermissions `json:"permissions"`
		Dir         bool            `json:"uses_cwd"`
		Definition  jsontext.Value  `json:"definition"`
	}
	toolPermissions struct {
		Write bool `json:"write"`
	}
	// A toolResult is what a tool answers: a text, where it is of an MCP server.
	toolResult struct {
		Text  string         `json:"plain_text_response"`
		Parts jsontext.Value `json:"parts,omitzero"` // as in mcpResult
	}
	toolError struct {
		Error string `json:"error"`
	}
	toolChunk struct {
		Chunk string `json:"chunk"`
	}
	toolDone struct {
		Done  bool   `json:"done"`
		Error string `json:"error,omitzero"`
	}
)

var errNoOwn = reply.Unsupported("this server has no tools; start it with --tools or --mcp")

// listOwn shows the server's own tools that the caller may use, and those of MCP servers, which have their server's name before
// their own.
func (s *API) listOwn(req *answer.Request) error {
	if s.Own == nil && s.Tools == nil {
		return errNoOwn
	}
	list := []ownTool{}
	if s.Own != nil {
		for _, t := range s.Own.Tools() {
			if !mayUse(req, t) {
				continue
			}
			list = append(list, ownTool{t.Display, t.Name, "builtin", toolPermissions{t.Writes}, true, jsontext.Value(t.Definition)})
		}
	}
	if s.Tools != nil {
		for _, spec := range s.Tools.Specs() {
			key, err := toolName(spec)
			if err != nil {
				return err
			}
			name := s.longName(key)
			spec, err := renamed(spec, name)
			if err != nil {
				return err
			}
			list = append(list, ownTool{name, name, "mcp", toolPermissions{}, false, spec})
		}
	}
	req.Send(list)
	return nil
}

// mayUse reports whether a request's caller may use one of the server's own tools. What changes the folder or runs commands
// there does so for all callers, so it is an administrator's.
func mayUse(req *answer.Request, t tools.Tool) bool { return !t.Writes || req.Caller.Admin }

// longName is the name of a tool of an MCP server with its server's.
func (s *API) longName(key string) string { return s.Tools.Server(key) + "_" + s.Tools.Known(key) }

// toolName returns the name in a tool's description.
func toolName(spec stdjson.RawMessage) (string, error) {
	var t struct{ Function struct{ Name string } }
	err := stdjson.Unmarshal(spec, &t)
	return t.Function.Name, err
}

// renamed returns a tool's description with another name.
func renamed(spec stdjson.RawMessage, name string) (jsontext.Value, error) {
	var t struct {
		Type     string                        `json:"type"`
		Function map[string]stdjson.RawMessage `json:"function"`
	}
	if err := stdjson.Unmarshal(spec, &t); err != nil {
		return nil, err
	}
	quoted, err := stdjson.Marshal(name)
	if err != nil {
		return nil, err
	}
	t.Function["name"] = quoted
	if t.Function["description"] == nil {
		t.Function["description"] = stdjson.RawMessage(`""`)
	}
	return stdjson.Marshal(t)
}

// An ownQuery is a request to /tools.
type ownQuery struct {
	name   string
	params stdjson.RawMessage
	stream bool
}

func newOwnQuery(*ask.Model) *ownQuery { return &ownQuery{params: stdjson.RawMessage("{}")} }

func (q *ownQuery) Fields() []field.Field {
	return []field.Field{
		field.Required("tool", field.Text(&q.name), "The tool, by a name that GET /tools has."),
		field.Input("params", toolParams{&q.params}, "Its parameters."),
		field.Setting("stream", field.Boolean(&q.stream), "Send what the tool writes while it runs, as events with a chunk, and a last one with done."),
	}
}

type toolParams struct{ p *stdjson.RawMessage }

func (t toolParams) Take(r *field.Reader) error {
	if r.Kind() != '{' {
		return r.Wrong("an object")
	}
	v, err := r.Raw()
	*t.p = stdjson.RawMessage(v.Clone())
	return err
}

func (t toolParams) Value() any           { return nil }
func (t toolParams) Schema() field.Schema { return field.Schema{"type": "object"} }

// callOwn calls one of the tools that listOwn shows.
func (s *API) callOwn(req *answer.Request) error {
	if s.Own == nil && s.Tools == nil {
		return errNoOwn
	}
	if err := req.MayCallTools("call tools", ""); err != nil {
		return err
	}
	q := newOwnQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	if err := runtimeError(req.HTTP.GetHeader("X-Tool-Runtime")); err != nil {
		return err
	}
	begun := time.Now()
	err := s.own(req, q)
	s.Host.Log.Info().Str("tool", q.name).Dur("took_ms", time.Since(begun)).Err(err).Msg("called a tool")
	return err
}

// own calls a tool of the server, or of an MCP server.
func (s *API) own(req *answer.Request, q *ownQuery) error {
	if s.Own == nil {
		return s.ownMCP(req, q)
	}
	all := s.Own.Tools()
	i := slices.IndexFunc(all, func(t tools.Tool) bool { return t.Name == q.name })
	switch {
	case i < 0:
		return s.ownMCP(req, q)
	case !mayUse(req, all[i]):
		return answer.ErrUser
	case q.stream && !all[i].Streams:
		return noStream(q)
	}
	giveBack, err := s.turns.take(req.Caller.Flow)
	if err != nil {
		return err
	}
	defer giveBack()
	call := tools.Call{Tool: q.name, Params: q.params, Dir: req.HTTP.GetHeader("X-Tool-Cwd"),
		Base64: req.HTTP.GetHeader("X-Resp-Type") == "base64"}
	out := reply.NewStream(req.HTTP)
	send := func(event any) error {
		if out.Event(event) != nil || out.Flush() != nil {
			return reply.ErrGone
		}
		return nil
	}
	if q.stream {
		call.Chunk = func(text string) error { return send(toolChunk{text}) }
	}
	result, err := s.Own.Do(req.Context(), call)
	var wrong *tools.ParamError
	switch {
	case errors.As(err, &wrong):
		refused := &reply.Error{Status: http.StatusBadRequest, Message: wrong.Error()}
		if strings.HasPrefix(refused.Message, "params") { // else it is about a header
			refused.Param = "params"
		}
		return refused
	case q.stream && err == nil:
		return send(toolDone{Done: true})
	case out.Begun() && !errors.Is(err, reply.ErrGone):
		req.LogHidden(err)
		return send(toolDone{Done: true, Error: req.Refusal(err).Message})
	case err != nil:
		return err
	}
	req.Send(jsontext.Value(result))
	return nil
}

// noStream refuses to stream what a tool writes that has all at once.
func noStream(q *ownQuery) error {
	return reply.Invalid("stream", "the tool %s answers at once only, want false", field.Quote(q.name))
}

// ownMCP calls a tool of an MCP server. That it could not do what it was asked for, or the server cannot be reached, is an
// answer.
func (s *API) ownMCP(req *answer.Request, q *ownQuery) error {
	key := ""
	if s.Tools != nil {
		for _, spec := range s.Tools.Specs() {
			if k, err := toolName(spec); err == nil && s.longName(k) == q.name {
				key = k
			}
		}
	}
	switch {
	case key == "":
		return &reply.Error{Status: http.StatusNotFound,
			Message: "no tool has the name " + field.Quote(q.name) + "; GET /tools says which there are", Param: "tool"}
	case q.stream:
		return noStream(q)
	}
	ctx, cancel := context.WithTimeoutCause(req.Context(), s.ToolTime, errSlowTool)
	defer cancel()
	content, failed, err := s.Tools.Answer(ctx, key, string(q.params))
	switch {
	case err != nil && req.Context().Err() != nil:
		return req.Context().Err()
	case err != nil:
		req.Send(toolError{err.Error()})
		return nil
	case failed:
		req.Send(toolError{strings.TrimPrefix(content.Named(), "error: ")})
		return nil
	}
	out := toolResult{Text: content.Named()}
	if content.Media() != nil {
		if out.Parts, err = stdjson.Marshal(content); err != nil {
			return err
		}
	}
	req.Send(out)
	return nil
}

// runtimeError refuses to run a tool elsewhere, as llama-server does by a header: it runs in the server's sandbox or not at
// all.
func runtimeError(runtime string) error {
	if runtime == "" {
		return nil
	}
	kind, target, _ := strings.Cut(runtime, ":")
	message := "unknown tool runtime: " + field.Quote(runtime)
	switch {
	case kind == "ssh" && strings.HasPrefix(target, "-"):
		message = "invalid ssh target: " + field.Quote(target)
	case strings.HasSuffix(kind, "-container") && strings.HasPrefix(target, "-"):
		message = "invalid container id: " + field.Quote(target)
	}
	return &reply.Error{Status: http.StatusInternalServerError, Message: message + "; tools run in this server's sandbox"}
}

// ownRoutes are those of llama-server's tools.
func (s *API) ownRoutes() []answer.Route {
	header := func(name, about string) answer.Param {
		return answer.Param{In: "header", Name: name, Doc: about, Is: field.Schema{"type": "string"}}
	}
	return []answer.Route{
		{
			Method: http.MethodGet, Paths: []string{"/tools"}, Always: true, Handle: s.listOwn,
			Summary: "List the server's tools and those of MCP servers, as llama-server does", Answer: []ownTool{},
		}, {
			Method: http.MethodPost, Paths: []string{"/tools"}, Always: true, Handle: s.callOwn,
			Summary: "Call one of these tools; what changes files or runs commands is for keys with the role admin", Body: answer.BodyOf("OwnToolRequest", newOwnQuery), Answer: field.Schema{"type": "object"},
			Params: []answer.Param{header("X-Tool-Cwd", "The folder that relative paths begin in, in the folder of the tools."),
				header("X-Resp-Type", "base64: read_file answers with bytes.")},
			Example: map[string]any{"tool": "read_file", "params": map[string]any{"path": "notes.txt"}},
		},
	}
}
