package anthropic

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// createMessage serves POST /v1/messages.
func (s *API) createMessage(req *answer.Request) error {
	q := s.newQuery(req.Model)
	if err := req.Read(q); err != nil {
		return err
	}
	q.size = len(req.Body)
	begin := req.Begin
	if q.offers.calls() {
		if err := agent.May(req, servedTypes); err != nil {
			return err
		}
		if q.resume = q.turns.paused(); len(q.resume) > 0 {
			begin = req.Hold // until they are made
		}
	}
	g, err := begin(q, "msg_")
	if err != nil {
		return err
	}
	return req.Finish(q, g)
}

// paused returns the calls that the last turn has without a result, where it is the assistant's: the client sends back an answer
// that was ended before they were made.
func (l turns) paused() (calls []block) {
	if len(l) == 0 || l[len(l)-1].role != "assistant" {
		return nil
	}
	blocks := l[len(l)-1].blocks
	open := unanswered(blocks)
	for _, b := range blocks {
		if b.served() && open[b.ID] {
			calls = append(calls, b)
		}
	}
	return calls
}

// knows reports whether a conversation has told the model of a URL: the user has, a tool of the client, or one of the web. The
// model's own texts do not count: a page that it was shown could have it tell others, in a URL, what else it was shown.
func (in *input) knows(url string) bool {
	if slices.ContainsFunc(in.seen, func(text string) bool { return agent.Names(text, url) }) {
		return true
	}
	for _, m := range in.turns {
		for i := range m.blocks {
			b := &m.blocks[i]
			if _, shown := b.pages[url]; shown {
				return true
			}
			parts := b.results
			if m.role != "assistant" {
				parts = slices.Concat(b.parts, b.results)
			}
			if slices.ContainsFunc(parts, func(p chat.Part) bool { return agent.Names(p.Text, url) }) {
				return true
			}
		}
	}
	return false
}

// found are the pages that searches of the conversation have found.
func (l turns) found() agent.Pages {
	all := agent.Pages{}
	for _, m := range l {
		for i := range m.blocks {
			if b := &m.blocks[i]; b.Type == searchResult {
				maps.Copy(all, b.pages)
			}
		}
	}
	return all
}

// Length is how many bytes the prompt is made of, about.
func (q *query) Length() int {
	n := q.size
	for _, s := range q.offers.served {
		n += s.Size()
	}
	return n
}

// A use is a call that the server makes, in the answer.
type use struct {
	id     string
	search bool // of the web; otherwise a page is read
	remote bool
	cite   bool // the page
}

// usedBy is the call of a block, nil: the server makes none.
func (f *format) usedBy(b *answer.Block) (*agent.Call, use) {
	s := f.q.offers.served[b.Name]
	if b.Kind != answer.CallBlock || s == nil {
		return nil, use{}
	}
	u := use{id: idWith(webPrefix, b.ID), search: s.Name == agent.SearchName, remote: s.Server != "", cite: s.cite}
	if u.remote {
		u.id = idWith(remotePrefix, b.ID)
	}
	return &agent.Call{Tool: s.Tool, Args: b.Text.String()}, u
}

// resumes takes the calls that the request begins with.
func (f *format) resumes() {
	for _, b := range f.q.resume {
		u := use{id: b.ID, search: b.Name == agent.SearchName, remote: b.Type == remoteUse}
		call := agent.Unmade(b.Server, b.Name, string(b.Input))
		if s := f.q.offers.served[b.flat()]; s != nil && s.Server == b.Server {
			u.cite = s.cite
			call = &agent.Call{Tool: s.Tool, Args: string(b.Input)}
		}
		f.takes(call, u)
	}
	f.q.resume = nil
}

// takes has a call made.
func (f *format) takes(c *agent.Call, u use) {
	if f.uses == nil {
		f.uses = map[*agent.Call]use{}
	}
	f.uses[c] = u
	f.loop.Written(c)
}

// Next makes the calls that the request begins with, or those of the last generation, and starts the one that goes on.
func (f *format) Next(ctx context.Context, s *reply.Stream) (*answer.Generation, error) {
	first := len(f.q.resume) > 0
	if first {
		if err := f.begin(s, usage{}); err != nil {
			return nil, err
		}
		f.resumes()
	}
	return f.loop.Next(ctx, s, first)
}

// Acted reports whether a call was made.
func (f *format) Acted() bool { return f.loop.Acted() }

// Making is told that a call is made: nothing is sent of that.
func (f *format) Making(*reply.Stream, *agent.Call) error { return nil }

// Place has Following begin with what a call has come to so far.
func (f *format) Place(c *agent.Call) error {
	p := f.result(c)
	f.placed = &p
	return nil
}

// Made sends what has come of a call.
func (f *format) Made(s *reply.Stream, c *agent.Call) error {
	p, u := f.result(c), f.uses[c]
	f.placed = nil
	delete(f.uses, c)
	f.content = append(f.content, p)
	f.q.seen = append(f.q.seen, c.Told) // which has the URLs of a search
	for _, r := range c.Found {
		f.found[r.URL] = true
	}
	if c.Why == agent.Answered && !u.remote {
		if f.made == nil {
			f.made = &serverUses{}
		}
		if u.search {
			f.made.Searches++
		} else {
			f.made.Pages++
		}
	}
	index := f.index
	f.index++
	if s == nil {
		return nil
	}
	if err := send(s, event{Type: "content_block_start", Index: &index, Block: &p}); err != nil {
		return err
	}
	return send(s, event{Type: "content_block_stop", Index: &index})
}

// result is the block of what came of a call.
func (f *format) result(c *agent.Call) part {
	u := f.uses[c]
	p := part{ToolUseID: u.id}
	var content any
	switch {
	case u.remote:
		failed := c.Why != agent.Answered
		p.Type, p.IsError = remoteResult, &failed
		content = []part{{Type: "text", Text: &c.Told}}
	case u.search:
		p.Type, p.Caller = searchResult, direct
		content = searchError{Type: searchResult + "_error", Code: codeOf(c.Why, true)}
		if c.Why == agent.Answered {
			list, texts := []foundPart{}, c.Results()
			for i, r := range c.Found {
				list = append(list, foundPart{Type: "web_search_result", URL: r.URL, Title: r.Title, Text: answer.Seal(texts[i])})
			}
			content = list
		}
	default:
		p.Type, p.Caller = readResult, direct
		content = searchError{Type: readResult + "_error", Code: codeOf(c.Why, false)}
		if c.Why == agent.Answered {
			at, _ := c.URL()
			now := time.Now().UTC().Format(time.RFC3339)
			page := pagePart{Type: "web_fetch_result", URL: at, Retrieved: &now}
			text := agent.PageOf(c.Told)
			page.Content = documentPart{Type: "document", Source: textSource{"text", "text/plain", text}}
			if title := cmp.Or(f.loop.Pages[at].Title, titleOf(text)); title != "" {
				page.Content.Title = &title
			}
			if u.cite {
				page.Content.Citations = &citing{true}
				f.cites(at, text)
			}
			content = page
		}
	}
	p.Content, _ = reply.Encode(content) // of texts alone
	return p
}

// titleOf is the title of a page, as its text has it; empty: it has none.
func titleOf(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	title, _ := strings.CutPrefix(line, "# ")
	if title == line {
		return ""
	}
	return title
}

// A read is a page that an answer may cite: its number among those of the conversation, and its text.
type read struct {
	number int
	text   string
}

// cites has a page that was read be cited.
func (f *format) cites(at, text string) {
	if f.read == nil {
		f.read = map[string]read{}
	}
	d, there := f.read[at]
	if !there {
		d.number = f.q.turns.documents() + len(f.read)
	}
	d.text = text
	f.read[at] = d
}

// documents is how many documents the conversation has.
func (l turns) documents() (n int) {
	for _, m := range l {
		for i := range m.blocks {
			if b := &m.blocks[i]; b.Type == "document" || b.Type == readResult && errorType(b.Content) == "" {
				n++
			}
		}
	}
	return n
}

// Following is the query of the next generation, after the answer so far.
func (f *format) Following(tokens int, first bool) (agent.Query, error) {
	q := *f.q.fresh
	q.fresh = f.q.fresh
	if tokens >= 0 {
		q.MaxTokens = tokens
	}
	if !first && (q.choice.kind == "any" || q.choice.kind == "tool") { // which was done
		q.choice.kind, q.Choice.Mode, q.Choice.Names = "auto", "", nil
	}
	parts := f.content
	if f.placed != nil {
		parts = append(slices.Clip(parts), *f.placed)
	}
	raw, err := reply.Encode(parts)
	if err != nil {
		return nil, err
	}
	blocks, err := readBlocks(field.NewReader(raw), false)
	if err != nil {
		return nil, err
	}
	q.size += len(raw)
	q.turns = slices.Clone(q.turns)
	if n := len(q.turns); n > 0 && q.turns[n-1].role == "assistant" {
		q.turns[n-1].blocks = slices.Concat(q.turns[n-1].blocks, blocks)
	} else {
		q.turns = append(q.turns, turn{"assistant", blocks})
	}
	return &q, nil
}

// Complete ends the message.
func (f *format) Complete(s *reply.Stream) error {
	end := stopOf(&f.end, f.called)
	switch {
	case f.loop.Paused:
		end = stop{Reason: "pause_turn"}
	case f.loop.Limited:
		end = stop{Reason: "max_tokens"}
	}
	return f.ends(s, end)
}

// quotes are citations of what a text names of pages that were found, or read to be cited. What is quoted of a page is the passage
// that has the most words of the sentence.
func (f *format) quotes(text string) []cited {
	var all []cited
	for _, c := range f.loop.Pages.Cited(text) {
		about := sentence(text, c.From, c.To)
		switch d, there := f.read[c.URL]; {
		case there:
			from, to := agent.Passage(d.text, about, mostCited)
			start := utf8.RuneCountInString(d.text[:from])
			end := start + utf8.RuneCountInString(d.text[from:to])
			all = append(all, cited{Type: "char_location", Text: d.text[from:to], Document: &d.number, DocumentTitle: &c.Title,
				Start: &start, End: &end})
		case f.found[c.URL]:
			page := f.loop.Pages[c.URL]
			from, to := agent.Passage(page.Text, about, mostCited)
			all = append(all, cited{Type: "web_search_result_location", Text: page.Text[from:to], URL: c.URL, Title: &c.Title,
				Index: answer.Seal(c.URL)})
		}
	}
	return all
}

// mostCited is how many bytes of a page are quoted.
const mostCited = 150

// sentence is the one that a part of a text ends.
func sentence(text string, from, to int) string {
	begin := 0
	for _, mark := range []string{". ", "! ", "? ", "\n"} {
		if i := strings.LastIndex(text[:from], mark); i >= 0 {
			begin = max(begin, i+len(mark))
		}
	}
	return text[begin:to]
}

// Blocks of what comes of calls of tools of the web.
type (
	foundPart struct {
		Type  string  `json:"type"`
		URL   string  `json:"url"`
		Title string  `json:"title"`
		Text  string  `json:"encrypted_content"`
		Age   *string `json:"page_age"`
	}
	searchError struct {
		Type string `json:"type"`
		Code string `json:"error_code"`
	}
	pagePart struct {
		Type      string       `json:"type"`
		URL       string       `json:"url"`
		Content   documentPart `json:"content"`
		Retrieved *string      `json:"retrieved_at"`
	}
	documentPart struct {
		Type      string     `json:"type"`
		Source    textSource `json:"source"`
		Title     *string    `json:"title"`
		Citations *citing    `json:"citations"`
	}
	textSource struct {
		Type  string `json:"type"`
		Media string `json:"media_type"`
		Data  string `json:"data"`
	}
	citing struct {
		Enabled bool `json:"enabled"`
	}
	caller struct {
		Type string `json:"type"`
	}
	// cited is a citation of a text.
	cited struct {
		Type          string  `json:"type"`
		Text          string  `json:"cited_text"`
		URL           string  `json:"url,omitzero"`
		Title         *string `json:"title,omitzero"`
		Index         string  `json:"encrypted_index,omitzero"`
		Document      *int    `json:"document_index,omitzero"`
		DocumentTitle *string `json:"document_title,omitzero"`
		Start         *int    `json:"start_char_index,omitzero"`
		End           *int    `json:"end_char_index,omitzero"`
	}
	// serverUses counts the calls that the server has made.
	serverUses struct {
		Searches int `json:"web_search_requests"`
		Pages    int `json:"web_fetch_requests"`
	}
)

// direct is who calls tools: the model, and no code that it wrote.
var direct = &caller{"direct"}

// inputOf is the input of a call as its block has it.
func inputOf(text string) jsontext.Value {
	if text == "" {
		text = "{}"
	}
	input := jsontext.Value(text)
	if !input.IsValid() { // max_tokens has ended it
		input, _ = reply.Encode(map[string]string{"partial_json": text})
	}
	return input
}
