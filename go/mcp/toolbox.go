package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/quern-llm/quern/go/chat"
)

// Bounds of what a server may send.
const (
	MaxResult = 256 << 10 // bytes of a result that a model is shown

	maxTools  = 512
	maxSpecs  = 8 << 20          // bytes of all tools' descriptions
	maxAnswer = 8 << 20          // bytes of an answer to a request, results that are not shown included
	maxCall   = 10 * time.Minute // of a call whose context has no deadline
)

// A Toolbox is the tools of servers that run. It is safe for concurrent use.
type Toolbox struct {
	links []*link
	tools map[string]tool
	specs []json.RawMessage
	bytes int                // of specs
	whole bool               // all names have their server's before their own
	names []string           // of all servers, also of those that cannot be used
	offer map[string][]Offer // by the names of their servers
}

// A tool is a tool of a server, which may know it by another name.
type tool struct {
	link *link
	name string
}

// An Offer is a tool as its server describes it.
type Offer struct {
	Key               string // by which the toolbox knows it
	Name, Description string // as the server has them
	Schema            json.RawMessage
	ReadOnly          bool // the server says that it changes nothing
}

// Open starts the servers, or connects with them, and lists their tools. An error names
// the server. The context bounds only that; Close ends the servers.
func Open(ctx context.Context, servers map[string]Server, version string) (*Toolbox, error) {
	return open(ctx, servers, version, nil)
}

// OpenAny is Open for a program that works without a server too: those that cannot be used are left out, and failed is called
// for each, as are single tools that would have the name of another server's. Where there are several, names of tools have their server's before their own, NAME_TOOL: so none depends on which
// servers can be used, and is another server's tool when one cannot.
func OpenAny(ctx context.Context, servers map[string]Server, version string, failed func(error)) (*Toolbox, error) {
	return open(ctx, servers, version, failed)
}

func open(ctx context.Context, servers map[string]Server, version string, failed func(error)) (*Toolbox, error) {
	b := &Toolbox{tools: map[string]tool{}, offer: map[string][]Offer{},
		whole: failed != nil && len(servers) > 1, names: slices.Sorted(maps.Keys(servers))}
	for _, name := range b.names {
		l := &link{server: servers[name], name: name, version: version, lock: make(chan struct{}, 1)}
		b.links = append(b.links, l)
		b.offer[name] = []Offer{}
		if err := b.list(ctx, l, failed); err != nil {
			err = l.named(err)
			if failed == nil || ctx.Err() != nil {
				b.Close()
				return nil, err
			}
			b.forget(l)
			failed(err)
		}
	}
	return b, nil
}

// forget removes the last server, with the tools that it had listed.
func (b *Toolbox) forget(l *link) {
	_ = l.close() // of what cannot be used
	b.links = b.links[:len(b.links)-1]
	others := len(b.specs) - len(b.offer[l.name])
	for _, spec := range b.specs[others:] {
		b.bytes -= len(spec)
	}
	b.specs = b.specs[:others]
	maps.DeleteFunc(b.tools, func(_ string, t tool) bool { return t.link == l })
	delete(b.offer, l.name)
}

// named returns an error of the server.
func (l *link) named(err error) error { return fmt.Errorf("the MCP server %q: %w", l.name, line{err}) }

// list adds the tools of a server. failed is called for those that are left out.
func (b *Toolbox) list(ctx context.Context, l *link, failed func(error)) error {
	ctx, cancel := connecting(ctx)
	defer cancel()
	session, said, err := l.connected(ctx)
	if err != nil {
		return err
	}
	ctx, stop := answered(ctx)
	defer stop(nil)
	for t, err := range session.Tools(ctx, nil) {
		switch {
		case err != nil:
			return because(ctx, err, said)
		case len(b.specs) == maxTools:
			return fmt.Errorf("more than %d tools in all, want fewer servers", maxTools)
		}
		if err := b.ambiguous(l, t); err != nil {
			failed(l.named(err))
			continue
		}
		if err := b.take(l, t); err != nil {
			return err
		}
	}
	return nil
}

// ambiguous returns an error for a tool whose name, with its server's before it, reads as that of another server's tool: one that
// may be there too, and of a server that may be one that cannot be used now.
func (b *Toolbox) ambiguous(l *link, t *sdk.Tool) error {
	for _, other := range b.names {
		if b.whole && len(other) > len(l.name) && strings.HasPrefix(l.name+"_"+t.Name, other+"_") {
			return fmt.Errorf("its tool %q has a name as those of the server %q and is left out, want another name of either server", t.Name, other)
		}
	}
	return nil
}

// take adds a tool. One whose name is taken has the server's name before its own, as all have where names are whole.
func (b *Toolbox) take(l *link, t *sdk.Tool) error {
	name := t.Name
	if _, taken := b.tools[name]; taken || b.whole {
		name = l.name + "_" + name
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
	if b.bytes+len(spec) > maxSpecs {
		return fmt.Errorf("the tools have more than %d MiB of descriptions, want fewer servers", maxSpecs>>20)
	}
	schema, err := json.Marshal(t.InputSchema)
	if err != nil {
		return fmt.Errorf("the tool %q: %w", name, err)
	}
	b.tools[name] = tool{l, t.Name}
	b.specs = append(b.specs, spec)
	b.bytes += len(spec)
	b.offer[l.name] = append(b.offer[l.name], Offer{Key: name, Name: t.Name, Description: t.Description, Schema: schema,
		ReadOnly: t.Annotations != nil && t.Annotations.ReadOnlyHint})
	return nil
}

// Specs returns the tools as chat templates and OpenAI's API have them.
func (b *Toolbox) Specs() []json.RawMessage { return b.specs }

// Names returns the names of the tools, sorted.
func (b *Toolbox) Names() []string { return slices.Sorted(maps.Keys(b.tools)) }

// Server returns the name of the server that has a tool, "" where none has.
func (b *Toolbox) Server(name string) string {
	if t, known := b.tools[name]; known {
		return t.link.name
	}
	return ""
}

// Known returns the name by which its server knows a tool.
func (b *Toolbox) Known(name string) string { return b.tools[name].name }

// Offers returns the tools of a server; false: there is none of that name.
func (b *Toolbox) Offers(server string) ([]Offer, bool) {
	offers, known := b.offer[server]
	return offers, known
}

// At returns the URL of a server, empty where it is a program; false: there is none of that name.
func (b *Toolbox) At(server string) (url string, known bool) {
	for _, l := range b.links {
		if l.name == server {
			return l.server.URL, true
		}
	}
	return "", false
}

// Call calls a tool with the JSON of its arguments, and returns what it answers, for the
// model: text, pictures and sounds. That a tool could not do what it was asked for is an
// answer too: the model may try something else. The error is of the connection.
func (b *Toolbox) Call(ctx context.Context, name, arguments string) (chat.Content, error) {
	answer, _, err := b.Answer(ctx, name, arguments)
	return answer, err
}

// Answer is Call, and says whether the tool could not do what it was asked for.
func (b *Toolbox) Answer(ctx context.Context, name, arguments string) (answer chat.Content, failed bool, err error) {
	t, known := b.tools[name]
	if !known {
		return chat.Text("error: there is no tool with the name " + name), true, nil
	}
	if arguments == "" {
		arguments = "{}"
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(arguments), &object) != nil || object == nil {
		return chat.Text("error: the arguments are not a JSON object"), true, nil
	}
	if _, limited := ctx.Deadline(); !limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, maxCall, fmt.Errorf("no answer in %v", maxCall))
		defer cancel()
	}
	if own := t.link.server.Timeout; own > 0 {
		limit := time.Duration(own) * time.Millisecond
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer in %v", limit))
		defer cancel()
	}
	r, err := t.link.call(ctx, &sdk.CallToolParams{Name: t.name, Arguments: json.RawMessage(arguments)})
	if err != nil {
		return chat.Content{}, false, fmt.Errorf("the tool %s of the MCP server %q: %w", name, t.link.name, line{err})
	}
	return result(r), r.IsError, nil
}

// A line is an error whose text, which may have a server's own bytes, is one short line without control characters.
type line struct{ error }

func (l line) Unwrap() error { return l.error }

func (l line) Error() string {
	text := strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(l.error.Error(), "\ufffd"))
	if len(text) > maxLine {
		return strings.ToValidUTF8(text[:maxLine], "") + " ..."
	}
	return text
}

// maxLine bounds the bytes of such a text.
const maxLine = 500

// result returns what a result has for a model. What is neither a text nor a picture or a sound is named.
func result(r *sdk.CallToolResult) chat.Content {
	var parts []chat.Part
	for _, c := range r.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			parts = append(parts, chat.Part{Text: c.Text})
		case *sdk.ImageContent:
			parts = append(parts, file(c.Data, "image", "something that is no text"))
		case *sdk.AudioContent:
			parts = append(parts, file(c.Data, "audio", "something that is no text"))
		case *sdk.EmbeddedResource:
			if c.Resource != nil && c.Resource.Text != "" {
				parts = append(parts, chat.Part{Text: c.Resource.Text})
			} else if c.Resource != nil {
				parts = append(parts, file(c.Resource.Blob, c.Resource.MIMEType, "a resource that is no text"))
			}
		case *sdk.ResourceLink:
			parts = append(parts, chat.Part{Text: "(a resource: " + c.URI + ")"})
		default:
			parts = append(parts, chat.Part{Text: "(something that is no text)"})
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if data, err := json.Marshal(r.StructuredContent); err == nil {
			parts = append(parts, chat.Part{Text: string(data)})
		}
	}
	return shown(parts, r.IsError)
}

// file is a part for a file; named, unless it is a picture or a sound by its type.
func file(data []byte, mimeType, name string) chat.Part {
	kind := chat.Picture
	switch {
	case len(data) == 0:
		return chat.Part{Text: "(" + name + ")"}
	case strings.HasPrefix(mimeType, "audio"):
		kind = chat.Sound
	case !strings.HasPrefix(mimeType, "image"):
		return chat.Part{Text: "(" + name + ")"}
	}
	return chat.Part{Medium: &chat.Medium{Kind: kind, Data: data}}
}

// shown returns parts as a model is shown them: texts side by side are one, and what comes after too much of it is left out.
func shown(parts []chat.Part, failed bool) chat.Content {
	var all []chat.Part
	var run []string
	end := func() {
		if run != nil {
			all = append(all, chat.Part{Text: strings.Join(run, "\n")})
			run = nil
		}
	}
	left := MaxResult
	for _, p := range parts {
		if p.Medium != nil {
			end()
			all = append(all, p)
			continue
		}
		text := strings.ToValidUTF8(p.Text, "\ufffd")
		if len(text) > left {
			run = append(run, strings.ToValidUTF8(text[:left], ""), fmt.Sprintf("(cut after %d KiB)", MaxResult>>10))
			break
		}
		left -= len(text)
		run = append(run, text)
	}
	end()
	switch {
	case failed && (len(all) == 0 || all[0].Medium != nil):
		all = slices.Insert(all, 0, chat.Part{Text: "error: "})
	case failed:
		all[0].Text = "error: " + all[0].Text
	}
	switch {
	case len(all) == 0:
		return chat.Text("")
	case len(all) == 1 && all[0].Medium == nil:
		return chat.Text(all[0].Text)
	}
	return chat.Content{Parts: all}
}

// Close ends the servers that were started, and the connections with the others.
func (b *Toolbox) Close() error {
	var errs []error
	for _, l := range b.links {
		errs = append(errs, l.close())
	}
	return errors.Join(errs...)
}
