package openai

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/mcp"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// An mcpServer is a tool of the type mcp: an MCP server whose tools the model calls, and the server for it.
type mcpServer struct {
	label         string
	offers        []mcp.Offer // that are allowed
	never, always toolFilter  // which need an approval; what is in neither does
}

// A toolFilter selects tools of an MCP server.
type toolFilter struct {
	given    bool
	all      bool
	names    []string // nil: any
	readOnly *bool    // nil: any
}

func (f *toolFilter) has(t *mcp.Offer) bool {
	return f.all || f.given && (f.names == nil || slices.Contains(f.names, t.Name)) &&
		(f.readOnly == nil || *f.readOnly == t.ReadOnly)
}

const wantFilter = `an array of names, or an object such as {"tool_names": ["search"], "read_only": true}`

// read reads a filter, which null leaves as it is.
func (f *toolFilter) read(v jsontext.Value) error {
	if len(v) == 0 || v.Kind() == 'n' {
		return nil
	}
	*f = toolFilter{given: true}
	switch v.Kind() {
	case '[':
		f.names = []string{}
		return field.Decode(v, &f.names)
	case '{':
		r := field.NewReader(v)
		err := r.Members(wantFilter, func(name string) error {
			switch {
			case name != "tool_names" && name != "read_only": // else a typo would select every tool
				return reply.Bad("%s is not known, want tool_names or read_only", field.Quote(name))
			case r.Kind() == 'n':
				_, err := r.Raw()
				return err
			case name == "read_only":
				f.readOnly = new(bool)
				return field.Within(name, field.Boolean(f.readOnly).Take(r))
			}
			f.names = []string{}
			return field.Within(name, r.Decode(&f.names))
		})
		if err == nil && f.names == nil && f.readOnly == nil {
			err = field.Wrong(v, wantFilter)
		}
		return err
	}
	return field.Wrong(v, wantFilter)
}

const wantApproval = `always, never or an object such as {"never": {"tool_names": ["search"]}}`

// readApproval reads require_approval. Without it every call needs an approval.
func (s *mcpServer) readApproval(v jsontext.Value) error {
	switch {
	case len(v) == 0, v.Kind() == 'n':
		return nil
	case v.Kind() == '"':
		text := ""
		if err := field.OneOf(&text, "always", "never").Take(field.NewReader(v)); err != nil {
			return err
		}
		s.never.all = text == "never"
		return nil
	case v.Kind() != '{':
		return field.Wrong(v, wantApproval)
	}
	r, given := field.NewReader(v), false
	err := r.Members(wantApproval, func(name string) error {
		of, ok := map[string]*toolFilter{"always": &s.always, "never": &s.never}[name]
		if !ok {
			return reply.Bad("%s is not known, want always or never", field.Quote(name))
		}
		in, err := r.Raw()
		if err == nil {
			given, err = true, of.read(in)
		}
		return field.Within(name, err)
	})
	if err == nil && !given {
		err = field.Wrong(v, wantApproval)
	}
	return err
}

// asks reports whether a call of a tool needs an approval.
func (s *mcpServer) asks(t *mcp.Offer) bool { return s.always.has(t) || !s.never.has(t) }

// addServer adds the tools of an MCP server.
func (l *responseTools) addServer(v jsontext.Value) error {
	var in struct {
		Label     string         `json:"server_label"`
		URL       string         `json:"server_url"`
		Connector jsontext.Value `json:"connector_id"`
		Tunnel    jsontext.Value `json:"tunnel_id"`
		Auth      jsontext.Value `json:"authorization"`
		Headers   jsontext.Value `json:"headers"`
		Allowed   jsontext.Value `json:"allowed_tools"`
		Approval  jsontext.Value `json:"require_approval"`
	}
	if err := field.Decode(v, &in); err != nil {
		return err
	}
	// What a response shows of its tools is what the client sent: these must not be there.
	for _, f := range []struct {
		name string
		v    jsontext.Value
	}{{"connector_id", in.Connector}, {"tunnel_id", in.Tunnel}, {"authorization", in.Auth}, {"headers", in.Headers}} {
		if len(f.v) > 0 && f.v.Kind() != 'n' {
			return reply.Bad("%s: the server reaches the MCP servers of its own configuration only, want server_label alone",
				f.name)
		}
	}
	offers, err := agent.Find(l.mcp, "server_label", in.Label, "server_url", in.URL)
	switch {
	case err != nil:
		return err
	case l.server(in.Label) != nil:
		return reply.Bad("server_label: a second tool with the MCP server %s", field.Quote(in.Label))
	}
	s := &mcpServer{label: in.Label}
	if err := s.readApproval(in.Approval); err != nil {
		return field.Within("require_approval", err)
	}
	allowed := toolFilter{all: true}
	if err := allowed.read(in.Allowed); err != nil {
		return field.Within("allowed_tools", err)
	}
	l.servers, l.calls = append(l.servers, s), true
	for i := range offers {
		o := &offers[i]
		if !allowed.has(o) {
			continue
		}
		flat := ask.FlatName(s.label, o.Name)
		tool := agent.Remote(l.mcp, s.label, o)
		t, err := tool.Function(flat, false)
		if err == nil {
			err = l.to.Add(t)
		}
		if err != nil {
			return fmt.Errorf("the tool %s of %s: %w", field.Quote(o.Name), field.Quote(s.label), err)
		}
		s.offers = append(s.offers, *o)
		l.names[flat] = responseTool{namespace: s.label, name: o.Name, server: s, offer: o, served: tool}
	}
	return nil
}

// server returns the MCP server with a label, nil: the response has none.
func (l *responseTools) server(label string) *mcpServer {
	for _, s := range l.servers {
		if s.label == label {
			return s
		}
	}
	return nil
}

// An mcpItem is an item of the output about an MCP server.
type mcpItem struct {
	ID        string     `json:"id"`
	Type      string     `json:"type"`
	Status    string     `json:"status,omitempty"`
	Label     string     `json:"server_label"`
	Name      string     `json:"name,omitempty"`
	Arguments *string    `json:"arguments,omitzero"`
	Tools     *[]mcpTool `json:"tools,omitzero"`
	Approval  *string    `json:"approval_request_id,omitzero"`
	Output    *string    `json:"output,omitzero"`
	Error     *mcpError  `json:"error,omitzero"`

	made *agent.Call
}

type (
	mcpTool struct {
		Name        string         `json:"name"`
		Description string         `json:"description,omitempty"`
		Schema      jsontext.Value `json:"input_schema"`
		Annotations mcpHints       `json:"annotations"`
	}
	mcpHints struct {
		ReadOnly bool `json:"readOnlyHint"`
	}
	// An mcpError is why a call failed: the tool says it in its content, the connection in a message.
	mcpError struct {
		Type    string       `json:"type"`
		Code    int          `json:"code,omitzero"`
		Message string       `json:"message,omitempty"`
		Content []outputPart `json:"content,omitzero"`
	}
)

// text is what the model is told of the failure.
func (e *mcpError) text() string {
	text := e.Message
	for _, p := range e.Content {
		text += p.Text
	}
	return text
}

// listItem is the item that says which tools an MCP server has.
func (s *mcpServer) listItem() mcpItem {
	tools := []mcpTool{}
	for _, o := range s.offers {
		tools = append(tools, mcpTool{o.Name, o.Description, jsontext.Value(o.Schema), mcpHints{o.ReadOnly}})
	}
	return mcpItem{ID: "mcpl_" + answer.NewID(), Type: "mcp_list_tools", Label: s.label, Tools: &tools}
}

// codeInternal is JSON-RPC's code of errors that have no other.
const codeInternal = -32603

func (it *mcpItem) about() (id, kind, status string) { return it.ID, it.Type, it.Status }
func (it *mcpItem) call() *agent.Call                { return it.made }

func (it *mcpItem) waits(status string) bool {
	if it.Type == "mcp_call" && status != statusCompleted {
		it.Status = statusIncomplete
	}
	return it.Type == "mcp_call" && status == statusCompleted
}

func (it *mcpItem) take() {
	it.Status, it.Output, it.Error = statusFailed, nil, nil
	switch it.made.Why {
	case agent.Answered:
		it.Status, it.Output = statusCompleted, &it.made.Told
	case agent.Failed:
		it.Error = &mcpError{Type: "mcp_tool_execution_error", Content: []outputPart{{Type: "text", Text: it.made.Told}}}
	default:
		it.Error = &mcpError{Type: "mcp_protocol_error", Code: codeInternal, Message: strings.TrimPrefix(it.made.Told, "error: ")}
	}
}

// load reads the conversation: what is stored of it, and what is given.
func (q *responsesQuery) load() error {
	if q.items != nil {
		return nil
	}
	items := []responseItem{}
	if q.previousID != "" {
		var err error
		if q.previous, err = q.stored.Get(keptResponse, q.owner, q.previousID); err != nil {
			return field.At("previous_response_id", err)
		}
		if q.stored.Body(q.previous).(response).running() {
			return reply.Invalid("previous_response_id", "%s has not ended, want one that has", field.Quote(q.previousID))
		}
		for _, v := range q.previous.Conversation() {
			item, err := readItem(v.Raw)
			if err != nil {
				return fmt.Errorf("a stored item: %w", err)
			}
			items = append(items, item)
		}
	}
	for i := range q.given {
		if err := q.refer(&q.given[i]); err != nil {
			return field.At("input", field.Within(fmt.Sprintf("item %d", i), err))
		}
		items = append(items, q.given[i])
	}
	for i := range items {
		if err := q.decides(items, i); err != nil {
			return err
		}
	}
	q.items = items
	return nil
}

// decides checks an item of a conversation, if it is a decision about a call: the first is the one that counts.
func (q *responsesQuery) decides(items []responseItem, i int) error {
	it := &items[i]
	if it.Type != "mcp_approval_response" {
		return nil
	}
	asked := find(items[:i], "mcp_approval_request", it.ApprovalID)
	given := i >= len(items)-len(q.given)
	switch {
	case asked == nil:
		return reply.Invalid("input", "an mcp_approval_response is to %s, which no mcp_approval_request before it is",
			field.Quote(it.ApprovalID))
	case given && slices.ContainsFunc(items[:i], func(o responseItem) bool {
		return o.Type == it.Type && o.ApprovalID == it.ApprovalID
	}):
		return reply.Invalid("input", "a second mcp_approval_response is to %s, which has been decided", field.Quote(it.ApprovalID))
	case given && *it.Approve && resultOf(items, it.ApprovalID) == nil && q.offered.server(asked.Label) == nil:
		return reply.Invalid("input", "an mcp_approval_response is to a call of the MCP server %s, which is not among the tools "+
			"of the request", field.Quote(asked.Label))
	}
	return nil
}

// find returns the item of a type that has an id, nil: there is none.
func find(items []responseItem, kind, id string) *responseItem {
	for i := range items {
		if items[i].Type == kind && items[i].ID == id {
			return &items[i]
		}
	}
	return nil
}

// resultOf returns the call that was made after an approval.
func resultOf(items []responseItem, approval string) *responseItem {
	for i := range items {
		if items[i].Type == "mcp_call" && items[i].ApprovalID == approval {
			return &items[i]
		}
	}
	return nil
}

// prepare finds which calls the input approves, and which lists of tools the conversation has not.
func (q *responsesQuery) prepare() error {
	if err := q.load(); err != nil {
		return err
	}
	for _, it := range q.items[len(q.items)-len(q.given):] {
		if it.Type != "mcp_approval_response" || !*it.Approve || resultOf(q.items, it.ApprovalID) != nil {
			continue
		}
		asked := *find(q.items, "mcp_approval_request", it.ApprovalID)
		q.approved = append(q.approved, mcpItem{ID: "mcp_" + answer.NewID(), Type: "mcp_call", Status: statusInProgress,
			Label: asked.Label, Name: asked.Name, Arguments: &asked.Arguments, Approval: &asked.ID, made: q.approvedCall(&asked)})
	}
	for _, s := range q.offered.servers {
		if !slices.ContainsFunc(q.items, func(it responseItem) bool { return it.Type == "mcp_list_tools" && it.Label == s.label }) {
			q.lists = append(q.lists, s.listItem())
		}
	}
	if q.mostCalls() <= 0 && q.offered.calls {
		q.withoutServers()
	}
	return nil
}

// approvedCall is the call that an item asked an approval for.
func (q *responsesQuery) approvedCall(asked *responseItem) *agent.Call {
	tool := q.offered.names[ask.FlatName(asked.Label, asked.Name)]
	if tool.server == nil || tool.server.label != asked.Label {
		return agent.Unmade(asked.Label, asked.Name, asked.Arguments)
	}
	return &agent.Call{Tool: tool.served, Args: asked.Arguments}
}

// converse adds items to a conversation. A call that needed an approval is there once that has been decided, with what came
// of it.
func converse(t *ask.Transcript, items []responseItem) {
	decided := map[string]bool{}
	for i := range items {
		it := &items[i]
		switch it.Type {
		case "mcp_approval_response":
			asked := find(items, "mcp_approval_request", it.ApprovalID)
			result := resultOf(items, it.ApprovalID)
			if asked == nil || decided[asked.ID] {
				continue
			}
			decided[asked.ID] = true
			t.Call(asked.ID, ask.FlatName(asked.Label, asked.Name), asked.Arguments)
			text := cmp.Or(it.Reason, "the user refused the call")
			if *it.Approve && result != nil {
				text = result.result
			} else if *it.Approve {
				text = "error: the call was not made"
			}
			t.Result(asked.ID, chat.Part{Text: text})
		case "web_search_call":
			if it.Name != "" {
				t.Call(it.ID, it.Name, it.Arguments)
				t.Result(it.ID, chat.Part{Text: it.result})
			}
		case "mcp_call":
			if it.ApprovalID != "" && decided[it.ApprovalID] {
				continue
			}
			t.Call(it.ID, ask.FlatName(it.Label, it.Name), it.Arguments)
			t.Result(it.ID, chat.Part{Text: it.result})
		default:
			it.add(t)
		}
	}
}
