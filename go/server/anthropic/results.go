package anthropic

import (
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Types of blocks of calls that the server makes, and of what comes of them.
const (
	webUse       = "server_tool_use"
	searchResult = "web_search_tool_result"
	readResult   = "web_fetch_tool_result"
	remoteUse    = "mcp_tool_use"
	remoteResult = "mcp_tool_result"
)

// resultTypes are those that no result has within it.
var resultTypes = []string{"tool_result", searchResult, readResult, remoteResult}

// served reports whether a block is a call that this server makes. Those of other tools that Anthropic runs say nothing to the
// model, nor do their results.
func (b *block) served() bool {
	return b.Type == remoteUse || b.Type == webUse && (b.Name == agent.SearchName || b.Name == agent.ReadName)
}

// flat is the name that the model has for the tool of such a block.
func (b *block) flat() string { return ask.FlatName(b.Server, b.Name) }

// checkUse checks a call.
func (b *block) checkUse() error {
	switch {
	case b.ID == "":
		return b.missing("id")
	case b.Name == "":
		return b.missing("name")
	case b.Type == remoteUse && b.Server == "":
		return b.missing("server_name")
	case b.Input != nil && b.Input.Kind() != '{':
		return reply.Bad("input: %s, want an object", field.Describe(b.Input))
	}
	return nil
}

func (b *block) missing(name string) error {
	return reply.Bad("%s: missing from a block of type %s", name, b.Type)
}

// found is a web_search_result, or an error in place of all.
type found struct {
	Type  string `json:"type"`
	URL   string `json:"url"`
	Title string `json:"title"`
	Text  string `json:"encrypted_content"`
}

// readResult reads what came of a call that the server has made.
func (b *block) readResult() (err error) {
	if b.ToolUseID == "" {
		return b.missing("tool_use_id")
	}
	switch {
	case b.Type == remoteResult:
		b.results, err = b.readRemote()
	case b.Content.Kind() == '{' && errorType(b.Content) != "":
		b.results = chat.Texts(told(errorType(b.Content)))
	case b.Type == searchResult:
		b.results, err = b.readFound()
	default:
		b.results, err = b.readPage()
	}
	return field.Within("content", err)
}

// errorType is the code of an error in place of a result, empty: it is none.
func errorType(v jsontext.Value) string {
	var in struct {
		Code string `json:"error_code"`
	}
	if field.Decode(v, &in) != nil {
		return ""
	}
	return in.Code
}

func (b *block) readRemote() ([]chat.Part, error) {
	if b.Content == nil || b.Content.Kind() == 'n' {
		return nil, nil
	}
	inner, err := readBlocks(field.NewReader(b.Content), true)
	var parts []chat.Part
	for _, one := range inner {
		parts = append(parts, one.parts...)
	}
	return parts, err
}

// readFound returns what the model is told of a search: what it was told, or what is known of the results of another server,
// whose texts are its own.
func (b *block) readFound() ([]chat.Part, error) {
	if b.Content.Kind() != '[' {
		return nil, field.Wrong(b.Content, "an array of results or an error")
	}
	var list []found
	if err := field.Decode(b.Content, &list); err != nil {
		return nil, err
	}
	var own, other []string
	for i, f := range list {
		if text, ok := answer.Unseal(f.Text); ok {
			own = append(own, text)
		}
		other = append(other, fmt.Sprintf("%d. %s\n%s\n\n", i+1, f.Title, f.URL))
		b.pages.Add(f.URL, f.Title, "")
	}
	if len(own) == len(list) {
		return chat.Texts(agent.FoundText(own)), nil
	}
	return chat.Texts(agent.PageText(strings.TrimRight(strings.Join(other, ""), "\n"))), nil
}

// readPage returns what the model is told of a page.
func (b *block) readPage() ([]chat.Part, error) {
	var in struct {
		URL     string         `json:"url"`
		Content jsontext.Value `json:"content"`
	}
	if err := field.Decode(b.Content, &in); err != nil {
		return nil, err
	}
	var page block
	if in.Content.Kind() != '{' {
		return nil, field.Within("content", field.Wrong(in.Content, "a document"))
	}
	if err := field.Decode(in.Content, &page); err != nil {
		return nil, field.Within("content", err)
	}
	b.pages.Add(in.URL, page.Title, page.Source.Data)
	if page.Source.Type == "text" {
		return chat.Texts(agent.PageText(page.Source.Data)), nil
	}
	page.Citations = nil // of the answer that it was cited in
	if err := page.document(); err != nil {
		return nil, field.Within("content", err)
	}
	return append(chat.Texts(agent.PageText("")), page.parts...), nil
}

// Codes of errors in place of results.
const (
	codeInput   = "invalid_tool_input"
	codeSpent   = "max_uses_exceeded"
	codeGone    = "unavailable"
	codeQuery   = "query_too_long"
	codeURL     = "url_too_long"
	codeUnknown = "url_not_in_prior_context"
	codeLeftOut = "url_not_allowed"
	codeNoPage  = "url_not_accessible"
	codeKind    = "unsupported_content_type"
	codeSize    = "content_too_large"
)

// told is what the model is told of an error: the same whenever the conversation is read.
func told(code string) string {
	about := map[string]string{
		codeInput: "the arguments are not those of the function", codeSpent: "the tool may not be called again for this request",
		codeGone: "no answer", codeQuery: "the query is too long", codeURL: "the url is too long",
		codeUnknown: "the url is none that the conversation has", codeLeftOut: "pages of this site are left out",
		codeNoPage: "the page cannot be read", codeKind: "the page has no text", codeSize: "the page is too large",
	}[code]
	if about == "" {
		return "error: " + code
	}
	return "error: " + code + ": " + about
}

// codeOf is the code for what came of a call of a tool of the web.
func codeOf(why agent.Reason, search bool) string {
	switch why {
	case agent.BadArguments:
		return codeInput
	case agent.Spent, agent.SpentTool:
		return codeSpent
	case agent.TooLong:
		if search {
			return codeQuery
		}
		return codeURL
	case agent.Unknown:
		return codeUnknown
	case agent.LeftOut:
		return codeLeftOut
	case agent.Unreadable:
		return codeNoPage
	case agent.WrongKind:
		return codeKind
	case agent.TooLarge:
		return codeSize
	}
	return codeGone
}
