package openai

import (
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/mcp"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// responseTools are the tools of a response. The model is given functions: those of a
// namespace with its name before theirs, and custom tools, whose input is a text, with
// that text as their only argument.
type responseTools struct {
	to      *ask.Tools
	names   map[string]responseTool // by the names that the model is given
	raw     jsontext.Value          // as they were sent
	mcp     agent.Servers           // nil: there are none
	web     agent.Web
	servers []*mcpServer
	calls   bool // some are called by the server
}

type responseTool struct {
	namespace, name string
	custom          bool
	served          *agent.Tool // which the server calls; nil: the client does
	server          *mcpServer  // whose tool it is; nil: no MCP server's
	offer           *mcp.Offer  // as that has it
}

// hostedTools are tools that OpenAI runs and that Codex offers to every model. They are
// not offered to this one.
var hostedTools = []string{"image_generation", "tool_search"}

func (l *responseTools) Take(r *field.Reader) error {
	from := r.Offset()
	*l.to = ask.Tools{}
	l.names, l.servers, l.calls = map[string]responseTool{}, nil, false
	err := r.Elements("an array of tools", func(i int) error {
		v, err := r.Raw()
		if err == nil {
			err = l.add(v, "")
		}
		return field.Within(fmt.Sprintf("tool %d", i), err)
	})
	l.raw = slices.Clone(r.Since(from))
	return err
}

// add adds a tool, or those of a namespace.
func (l *responseTools) add(v jsontext.Value, namespace string) error {
	if v.Kind() != '{' {
		return field.Wrong(v, "an object")
	}
	var in struct {
		Type        string           `json:"type"`
		Name        string           `json:"name"`
		Description string           `json:"description"`
		Strict      bool             `json:"strict"`
		Parameters  jsontext.Value   `json:"parameters"`
		Tools       jsontext.Value   `json:"tools"`
		Format      ask.CustomFormat `json:"format"`
	}
	if err := field.Decode(v, &in); err != nil {
		return err
	}
	switch {
	case in.Type == "namespace" && namespace == "":
		if in.Name == "" {
			return reply.Bad("name: missing, want a string")
		}
		inner := field.NewReader(in.Tools)
		if len(in.Tools) == 0 {
			return reply.Bad("tools: missing, want an array")
		}
		return field.Within("tools", inner.Elements("an array of tools", func(i int) error {
			v, err := inner.Raw()
			if err == nil {
				err = l.add(v, in.Name)
			}
			return field.Within(fmt.Sprintf("tool %d", i), err)
		}))
	case in.Type == "mcp" && namespace == "":
		return l.addServer(v)
	case (slices.Contains(webTypes, in.Type) || in.Type == readType) && namespace == "":
		return l.addWeb(in.Type, v)
	case in.Type == "custom", in.Type == "function":
	case slices.Contains(hostedTools, in.Type):
		return nil
	default:
		return reply.Bad("type: %s is not a tool that can be called here, want function, custom, namespace, mcp, web_search or web_fetch",
			field.Quote(in.Type))
	}
	if len(in.Parameters) > 0 && in.Parameters.Kind() == 'n' {
		in.Parameters = nil
	}
	flat := ask.FlatName(namespace, in.Name)
	var t ask.Tool
	var err error
	if in.Type == "custom" {
		t, err = ask.NewCustomTool(flat, in.Description, in.Format)
	} else {
		t, err = ask.NewTool(flat, in.Description, in.Parameters, in.Strict)
	}
	if err == nil {
		err = l.to.Add(t)
	}
	l.names[flat] = responseTool{namespace: namespace, name: in.Name, custom: in.Type == "custom"}
	return err
}

// full returns the name that the model has for a tool that is chosen. One of a namespace may be meant by its own name,
// where no other tool has it.
func (l *responseTools) full(name string) string {
	if l.names[name].name != "" {
		return name
	}
	var found []string
	for flat, t := range l.names {
		if t.name == name {
			found = append(found, flat)
		}
	}
	if len(found) == 1 {
		return found[0]
	}
	return name
}

func (l *responseTools) Value() any { return nil }

func (l *responseTools) Schema() field.Schema {
	return field.Schema{"type": "array", "items": field.Schema{"type": "object", "required": []string{"type"},
		"properties": field.Schema{"type": field.Schema{"type": "string"}}}}
}
