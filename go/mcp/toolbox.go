package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what a server may send.
const (
	maxTools  = 512
	maxResult = 256 << 10 // bytes of a result that a model is shown
)

// A Toolbox is the tools of servers that run. It is safe for concurrent use.
type Toolbox struct {
	sessions []*sdk.ClientSession
	tools    map[string]tool
	specs    []json.RawMessage
}

// A tool is a tool of a server, which may know it by another name.
type tool struct {
	session      *sdk.ClientSession
	server, name string
}

// connectTimeout bounds how long a server may take to start and to list its tools.
const connectTimeout = 30 * time.Second

// Open starts the servers, or connects with them, and lists their tools. An error names
// the server. The context bounds only that; Close ends the servers.
func Open(ctx context.Context, servers map[string]Server, version string) (*Toolbox, error) {
	b := &Toolbox{tools: map[string]tool{}}
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		if err := b.add(ctx, name, servers[name], version); err != nil {
			b.Close()
			return nil, fmt.Errorf("the MCP server %q: %w", name, err)
		}
	}
	return b, nil
}

func (b *Toolbox) add(ctx context.Context, name string, s Server, version string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("no answer in %v", connectTimeout))
	defer cancel()
	transport, said := s.transport()
	client := sdk.NewClient(&sdk.Implementation{Name: "quern", Version: version}, nil)
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return because(ctx, err, said)
	}
	b.sessions = append(b.sessions, session)
	for t, err := range session.Tools(ctx, nil) {
		switch {
		case err != nil:
			return because(ctx, err, said)
		case len(b.specs) == maxTools:
			return fmt.Errorf("more than %d tools in all, want fewer servers", maxTools)
		}
		if err := b.take(name, session, t); err != nil {
			return err
		}
	}
	return nil
}

// because returns why a server cannot be used: what it wrote last says more than that the
// connection ended.
func because(ctx context.Context, err error, said *tail) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if line := said.last(); line != "" {
		return fmt.Errorf("%w; it wrote: %s", err, line)
	}
	return err
}

// take adds a tool. One whose name is taken gets the server's name before its own.
func (b *Toolbox) take(server string, session *sdk.ClientSession, t *sdk.Tool) error {
	name := t.Name
	if _, taken := b.tools[name]; taken {
		name = server + "_" + name
	}
	if _, taken := b.tools[name]; taken {
		return fmt.Errorf("a second tool with the name %q", name)
	}
	function := map[string]any{"name": name, "parameters": t.InputSchema}
	if t.Description != "" {
		function["description"] = t.Description
	}
	spec, err := json.Marshal(map[string]any{"type": "function", "function": function})
	if err != nil {
		return fmt.Errorf("the tool %q: %w", name, err)
	}
	b.tools[name] = tool{session, server, t.Name}
	b.specs = append(b.specs, spec)
	return nil
}

// Specs returns the tools as chat templates and OpenAI's API have them.
func (b *Toolbox) Specs() []json.RawMessage { return b.specs }

// Names returns the names of the tools, sorted.
func (b *Toolbox) Names() []string { return slices.Sorted(maps.Keys(b.tools)) }

// Server returns the name of the server that has a tool, "" where none has.
func (b *Toolbox) Server(name string) string { return b.tools[name].server }

// Call calls a tool with the JSON of its arguments, and returns what it answers, as text
// for the model. That a tool could not do what it was asked for is such a text too: the
// model may try something else. The error is of the connection.
func (b *Toolbox) Call(ctx context.Context, name, arguments string) (string, error) {
	t, known := b.tools[name]
	if !known {
		return "error: there is no tool with the name " + name, nil
	}
	if arguments == "" {
		arguments = "{}"
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) != nil || object == nil {
		return "error: the arguments are not a JSON object", nil
	}
	r, err := t.session.CallTool(ctx, &sdk.CallToolParams{Name: t.name, Arguments: json.RawMessage(arguments)})
	if err != nil {
		return "", fmt.Errorf("the tool %s of the MCP server %q: %w", name, t.server, err)
	}
	return result(r), nil
}

// result returns the text of a result. What is no text is named.
func result(r *sdk.CallToolResult) string {
	var parts []string
	for _, c := range r.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			parts = append(parts, c.Text)
		case *sdk.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				parts = append(parts, c.Resource.Text)
			} else {
				parts = append(parts, "(a resource that is no text)")
			}
		case *sdk.ResourceLink:
			parts = append(parts, "(a resource: "+c.URI+")")
		default:
			parts = append(parts, "(something that is no text)")
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if data, err := json.Marshal(r.StructuredContent); err == nil {
			parts = append(parts, string(data))
		}
	}
	text := strings.ToValidUTF8(strings.Join(parts, "\n"), "\ufffd")
	if len(text) > maxResult {
		text = strings.ToValidUTF8(text[:maxResult], "") + fmt.Sprintf("\n(cut after %d KiB)", maxResult>>10)
	}
	if r.IsError {
		text = "error: " + text
	}
	return text
}

// Close ends the servers that were started, and the connections with the others.
func (b *Toolbox) Close() error {
	var errs []error
	for _, s := range b.sessions {
		errs = append(errs, s.Close())
	}
	b.sessions = nil
	return errors.Join(errs...)
}

// transport returns the connection to be made, and what the program writes to its
// standard error, for when that fails.
func (s Server) transport() (sdk.Transport, *tail) {
	if s.URL != "" {
		client := &http.Client{Transport: headers{s.Headers, http.DefaultTransport}}
		return &sdk.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, DisableStandaloneSSE: true}, &tail{}
	}
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Dir = s.Dir
	cmd.Env = os.Environ()
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	said := &tail{}
	cmd.Stderr = said
	return &sdk.CommandTransport{Command: cmd, TerminateDuration: 2 * time.Second}, said
}

// headers adds fields to requests.
type headers struct {
	fields map[string]string
	next   http.RoundTripper
}

func (h headers) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(h.fields) > 0 {
		r = r.Clone(r.Context())
		for name, value := range h.fields {
			r.Header.Set(name, value)
		}
	}
	return h.next.RoundTrip(r)
}

// A tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	const keep = 1 << 10
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p[max(len(p)-keep, 0):]...)
	t.text = t.text[max(len(t.text)-keep, 0):]
	return len(p), nil
}

// last returns the last line that is not empty.
func (t *tail) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(t.text)), "\n")
	return strings.ToValidUTF8(lines[len(lines)-1], "")
}
