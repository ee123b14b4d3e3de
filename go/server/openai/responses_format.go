package openai

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/generate"

	"github.com/quern-llm/quern/go/server/agent"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/reply"
)

// A response is OpenAI's object of that name.
type response struct {
	ID           string              `json:"id"`
	Object       string              `json:"object"`
	Created      int64               `json:"created_at"`
	Completed    *int64              `json:"completed_at"`
	Status       string              `json:"status"`
	Background   bool                `json:"background"`
	Error        *responseError      `json:"error"`
	Incomplete   *responseIncomplete `json:"incomplete_details"`
	Instructions *string             `json:"instructions"`
	MaxTokens    *int                `json:"max_output_tokens"`
	Metadata     jsontext.Value      `json:"metadata"`
	Model        string              `json:"model"`
	Output       []history.Item      `json:"output"`
	Parallel     bool                `json:"parallel_tool_calls"`
	Previous     *string             `json:"previous_response_id"`
	Reasoning    responseReasoning   `json:"reasoning"`
	Store        bool                `json:"store"`
	Temperature  float32             `json:"temperature"`
	Text         responseText        `json:"text"`
	Choice       jsontext.Value      `json:"tool_choice"`
	Tools        jsontext.Value      `json:"tools"`
	TopLogprobs  int                 `json:"top_logprobs"`
	TopP         float32             `json:"top_p"`
	Truncation   string              `json:"truncation"`
	Usage        *responseUsage      `json:"usage"`
	User         *string             `json:"user"`
	CacheKey     *string             `json:"prompt_cache_key"`
	Safety       *string             `json:"safety_identifier"`
	Tier         string              `json:"service_tier"`

	ending bool // it is cancelled, and further items may come
}

type (
	responseError struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	responseIncomplete struct {
		Reason string `json:"reason"`
	}
	responseReasoning struct {
		Effort  *string `json:"effort"`
		Summary *string `json:"summary"`
	}
	responseText struct {
		Format    jsontext.Value `json:"format"`
		Verbosity *string        `json:"verbosity"`
	}
	responseUsage struct {
		Input        int `json:"input_tokens"`
		InputDetails struct {
			Cached   int `json:"cached_tokens"`
			Pictures int `json:"image_tokens,omitzero"`
			Sounds   int `json:"audio_tokens,omitzero"`
		} `json:"input_tokens_details"`
		Output        int `json:"output_tokens"`
		OutputDetails struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
		Total int `json:"total_tokens"`
	}
)

// Statuses of responses.
const (
	statusInProgress = "in_progress"
	statusCompleted  = "completed"
	statusIncomplete = "incomplete"
	statusFailed     = "failed"
	statusStopped    = "cancelled"
	statusSearching  = "searching" // of calls that search the web
)

func (r response) running() bool { return r.Status == statusInProgress || r.ending }

// stopped is a response that is cancelled, and ends soon.
func (r response) stopped() response {
	r.Status, r.ending = statusStopped, true
	return r
}

// Items returns the response's items, for its record in the history.
func (r response) Items() []history.Item { return r.Output }

// Size returns the memory of its texts besides its items, in bytes.
func (r response) Size() int {
	n := len(r.Tools) + len(r.Metadata) + len(r.Choice) + len(r.Text.Format)
	for _, text := range []*string{r.Instructions, r.User, r.CacheKey, r.Safety} {
		if text != nil {
			n += len(*text)
		}
	}
	return n
}

// An outputItem is an item of the output, before it is stored.
type outputItem struct {
	ID        string       `json:"id"`
	Type      string       `json:"type"`
	Status    string       `json:"status"`
	Role      string       `json:"role,omitempty"`
	CallID    string       `json:"call_id,omitempty"`
	Name      string       `json:"name,omitempty"`
	Namespace string       `json:"namespace,omitempty"`
	Arguments *string      `json:"arguments,omitzero"`
	Input     *string      `json:"input,omitzero"`
	Summary   []outputPart `json:"summary,omitzero"`
	Content   []outputPart `json:"content,omitzero"`
	Encrypted *string      `json:"encrypted_content,omitzero"`
}

type outputPart struct {
	Type        string        `json:"type"`
	Text        string        `json:"text"`
	Annotations []any         `json:"annotations,omitzero"`
	Logprobs    *answer.Probs `json:"logprobs,omitzero"`
}

// A responseEvent is an event of a stream. Its type is also its name.
type responseEvent struct {
	Type      string        `json:"type"`
	Sequence  int           `json:"sequence_number"`
	Response  *response     `json:"response,omitzero"`
	Output    *int          `json:"output_index,omitzero"`
	ItemID    string        `json:"item_id,omitempty"`
	Content   *int          `json:"content_index,omitzero"`
	Summary   *int          `json:"summary_index,omitzero"`
	Item      any           `json:"item,omitzero"` // *outputItem or a calledItem
	Part      *outputPart   `json:"part,omitzero"`
	Delta     *string       `json:"delta,omitzero"`
	Text      *string       `json:"text,omitzero"`
	Name      string        `json:"name,omitempty"`
	Arguments *string       `json:"arguments,omitzero"`
	Input     *string       `json:"input,omitzero"`
	Logprobs  *answer.Probs `json:"logprobs,omitzero"`
	At        *int          `json:"annotation_index,omitzero"`
	About     any           `json:"annotation,omitzero"`

	Progress *answer.PromptProgress `json:"prompt_progress,omitzero"` // llama-server's
	Timings  *answer.Timings        `json:"timings,omitzero"`
}

// responsesFormat writes the answers of /v1/responses.
type responsesFormat struct {
	q      *responsesQuery
	loop   agent.Loop // of the passes of the model
	first  response   // as it began
	body   response
	begun  bool
	log    *reply.Log // in place of a stream; nil: there is one
	seq    int        // of the next event
	cut    answer.Blocks
	block  *answer.Block // the open one
	itemID string        // of it
	input  customText    // of it, where it is a call of a custom tool
	cites  blockCites    // of the last block that ended

	timings *answer.Timings // so far, for the events that come of one of the pass; nil: they are not asked for

	open map[*agent.Call]pendingCall // that are to be made
}

func (q *responsesQuery) Format(g *answer.Generation) answer.Format {
	given := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	r := response{
		ID: g.ID, Object: "response", Created: g.Created, Status: statusInProgress, Background: q.background,
		Instructions: given(q.instructions), Metadata: jsontext.Value(q.metadata), Model: g.Model.Name,
		Output:   []history.Item{},
		Parallel: q.Parallel, Previous: given(q.previousID),
		Reasoning: responseReasoning{given(q.reasoning.effort), given(q.reasoning.summary)},
		Store:     q.store, Temperature: q.Params.Temp, TopP: q.Params.TopP, TopLogprobs: q.topLogprobs,
		Text:   responseText{q.text.format, given(q.text.verbosity)},
		Choice: q.shownChoice, Tools: q.offered.raw, Truncation: q.truncation, User: given(q.user),
		CacheKey: given(q.cacheKey), Safety: given(q.safety), Tier: "default",
	}
	for _, v := range []struct {
		to       *jsontext.Value
		standard string
	}{{&r.Metadata, `{}`}, {&r.Text.Format, `{"type":"text"}`}, {&r.Choice, `"auto"`}, {&r.Tools, `[]`}} {
		if len(*v.to) == 0 {
			*v.to = jsontext.Value(v.standard)
		}
		*v.to = v.to.Clone() // of the body, which is not kept
	}
	if q.MaxTokens >= 0 {
		n := q.MaxTokens // a pointer into the query would keep all of it
		r.MaxTokens = &n
	}
	f := &responsesFormat{q: q, first: r, body: r,
		loop: agent.Loop{Limits: q.limits, Most: q.mostCalls(), Tokens: q.MaxTokens, Log: q.log}}
	f.loop.Begin(g, responseCalls{f}, true)
	return f
}

func (f *responsesFormat) Whole(answers []answer.Answer) any {
	if !f.begun {
		f.begun = true
		_ = f.prepared(nil) // without a stream nothing fails
	}
	if len(answers) == 0 { // calls are to be made first
		return &f.body
	}
	got := &answers[0]
	for i, b := range got.Blocks {
		status := statusCompleted
		if i == len(got.Blocks)-1 {
			status = statusAt(&got.Ending)
		}
		id := f.newItemID(b)
		if it := f.calledOf(b, id); it != nil {
			_ = f.written(nil, it, status)
		} else {
			f.keep(f.item(b, id, status))
		}
	}
	f.count(&got.Ending, answer.Event{Seq: got.Seq, Usage: got.Usage})
	if !f.loop.GoesOn() {
		_ = f.complete(nil)
	}
	return &f.body // which further passes add to
}

// newItemID returns an id for the item of a block.
func (f *responsesFormat) newItemID(b *answer.Block) string {
	switch b.Kind {
	case answer.ThoughtBlock:
		return "rs_" + answer.NewID()
	case answer.CallBlock:
		if f.asks(b) {
			return "mcpr_" + answer.NewID()
		} else if f.tool(b).server != nil {
			return "mcp_" + answer.NewID()
		} else if f.tool(b).served != nil {
			return "ws_" + answer.NewID()
		}
		return "fc_" + answer.NewID()
	}
	return "msg_" + answer.NewID()
}

// probs are the log-probabilities of tokens of text; without any, none were asked for.
func (f *responsesFormat) probs(tokens []generate.Token) *answer.Probs {
	p := f.loop.Generation().Probs(tokens)
	return &p
}

// summarized tells whether thoughts are sent as a summary.
func (f *responsesFormat) summarized() bool {
	return f.q.reasoning.summary != "" && f.q.reasoning.summary != "none"
}

// part is the block as a part of its item, of text or thoughts.
func (f *responsesFormat) part(b *answer.Block, text string) outputPart {
	switch {
	case b.Kind == answer.TextBlock:
		return outputPart{"output_text", text, f.annotations(b, text), f.probs(b.Tokens)}
	case f.summarized():
		return outputPart{Type: "summary_text", Text: text}
	}
	return outputPart{Type: "reasoning_text", Text: text}
}

// item is the block as an item. One in progress is empty.
func (f *responsesFormat) item(b *answer.Block, id, status string) outputItem {
	it := outputItem{ID: id, Type: "message", Status: status}
	text := b.Text.String()
	var parts []outputPart
	if status != statusInProgress {
		parts = []outputPart{f.part(b, text)}
	}
	switch b.Kind {
	case answer.TextBlock:
		it.Role, it.Content = "assistant", append([]outputPart{}, parts...)
	case answer.ThoughtBlock:
		it.Type, it.Summary = "reasoning", []outputPart{}
		if f.summarized() {
			it.Summary = append(it.Summary, parts...)
		} else {
			it.Content = append([]outputPart{}, parts...)
		}
		if status != statusInProgress && slices.Contains(f.q.include, includeSealed) {
			sealed := answer.Seal(text)
			it.Encrypted = &sealed
		}
	case answer.CallBlock:
		tool := f.tool(b)
		it.Type, it.CallID, it.Name, it.Namespace = "function_call", b.ID, tool.name, tool.namespace
		if tool.custom {
			input := ""
			if status != statusInProgress {
				input = customInput(text)
			}
			it.Type, it.Input = "custom_tool_call", &input
		} else {
			it.Arguments = &text
		}
	}
	return it
}

// tool is the one that a block calls, as the client has it.
func (f *responsesFormat) tool(b *answer.Block) responseTool {
	if t, ok := f.q.offered.names[b.Name]; ok {
		return t
	}
	return responseTool{name: b.Name}
}

// keep adds an item to the output.
func (f *responsesFormat) keep(it outputItem) {
	f.loop.HandsOver = f.loop.HandsOver || it.CallID != ""
	if raw, err := reply.Encode(it); err == nil {
		f.body.Output = append(f.body.Output, history.Item{ID: it.ID, Raw: raw})
	}
}

// statusAt is that of a response, and of its last item: both are incomplete where a limit cut them off.
func statusAt(e *answer.Ending) string {
	if e.Stop == answer.StopLimit {
		return statusIncomplete
	}
	return statusCompleted
}

// count counts a pass of the model that has ended.
func (f *responsesFormat) count(end *answer.Ending, e answer.Event) {
	f.loop.Ended(end, e.Usage.Generated)
	u := &responseUsage{}
	if f.body.Usage != nil {
		*u = *f.body.Usage
	}
	u.Input += e.Usage.PromptTokens
	u.Output += e.Usage.Generated
	u.Total = u.Input + u.Output
	u.InputDetails.Cached += e.Usage.CachedTokens
	u.OutputDetails.Reasoning += end.Thought
	u.InputDetails.Pictures, u.InputDetails.Sounds = f.loop.Generation().Used.Pictures, f.loop.Generation().Used.Sounds
	f.body.Usage = u
}

// complete sets how the response ended, stores it, and sends the last event.
func (f *responsesFormat) complete(s *reply.Stream) error {
	f.body.Status = statusCompleted
	if f.loop.Limited {
		f.body.Status, f.body.Incomplete = statusIncomplete, &responseIncomplete{"max_output_tokens"}
	}
	now := time.Now().Unix()
	f.body.Completed = &now
	f.put()
	return f.send(s, responseEvent{Type: "response." + f.body.Status, Response: &f.body})
}

// put stores the response, if it is to be.
func (f *responsesFormat) put() {
	if f.q.store && !f.q.background {
		f.q.stored.Put(f.stored())
	}
}

// stored returns the response as it is stored.
func (f *responsesFormat) stored() *history.Record {
	r := &history.Record{Kind: keptResponse, ID: f.body.ID, Owner: f.q.owner, Previous: f.q.previous, Body: f.body}
	for _, it := range f.q.given {
		r.Input = append(r.Input, history.Item{ID: it.ID, Raw: it.raw.Clone()}) // of the body, which is not kept
	}
	return r
}

// send sends an event to the stream or the log, if there is either.
func (f *responsesFormat) send(s *reply.Stream, e responseEvent) error {
	if s == nil && f.log == nil {
		return nil
	}
	e.Sequence = f.seq
	f.seq++
	if e.Timings == nil {
		e.Timings = f.timings
	}
	if f.log == nil {
		return s.Named(e.Type, e)
	}
	body, err := reply.Encode(e)
	if err == nil && !f.loop.Generation().Ledger.Hold(len(body)) {
		err = answer.ErrAnswers
	}
	f.log.Add(e.Type, body)
	return err
}

// begin sends the first events.
func (f *responsesFormat) begin(s *reply.Stream) error {
	if f.begun {
		return nil
	}
	f.begun = true
	if err := f.send(s, responseEvent{Type: "response.created", Response: &f.body}); err != nil {
		return err
	}
	if err := f.send(s, responseEvent{Type: "response.in_progress", Response: &f.body}); err != nil {
		return err
	}
	return f.prepared(s)
}

func (f *responsesFormat) Event(s *reply.Stream, e answer.Event) error {
	if err := f.begin(s); err != nil {
		return err
	}
	if e.Progress != nil {
		if !f.loop.Generation().Opts.Progress {
			return nil
		}
		t := progressOf(f.loop.Generation(), e)
		return f.send(s, responseEvent{Type: "response.in_progress", Response: &f.body, Progress: t.Progress, Timings: t.Timings})
	}
	if f.loop.Generation().Opts.Timings {
		f.timings = e.Timings()
	}
	if err := f.cut.Write(s, &e.Piece, f); err != nil || e.End == nil {
		return err
	}
	if err := f.cut.End(s, e.End, f); err != nil {
		return err
	}
	if f.count(e.End, e); f.loop.GoesOn() {
		return nil
	}
	return f.complete(s)
}

// at returns an event about the open block.
func (f *responsesFormat) at(kind string) responseEvent {
	index, zero := len(f.body.Output), 0
	e := responseEvent{Type: "response." + kind, Output: &index, ItemID: f.itemID}
	switch {
	case f.block.Kind == answer.CallBlock || strings.HasPrefix(kind, "output_item"):
	case f.block.Kind == answer.ThoughtBlock && f.summarized():
		e.Summary = &zero
	default:
		e.Content = &zero
	}
	return e
}

// kinds returns the names of the events about the text of the open block, and about its
// part; a call has no parts.
func (f *responsesFormat) kinds() (text, part string) {
	switch {
	case f.block.Kind == answer.TextBlock:
		return "output_text", "content_part"
	case f.block.Kind == answer.CallBlock && f.tool(f.block).custom:
		return "custom_tool_call_input", ""
	case f.asks(f.block), f.block.Kind == answer.CallBlock && f.tool(f.block).served != nil && f.tool(f.block).server == nil:
		return "", "" // it is sent whole
	case f.block.Kind == answer.CallBlock && f.tool(f.block).server != nil:
		return "mcp_call_arguments", ""
	case f.block.Kind == answer.CallBlock:
		return "function_call_arguments", ""
	case f.summarized():
		return "reasoning_summary_text", "reasoning_summary_part"
	}
	return "reasoning_text", "content_part"
}

// Open begins the item of a block.
func (f *responsesFormat) Open(s *reply.Stream, b *answer.Block) error {
	f.block, f.itemID, f.input = b, f.newItemID(b), customText{}
	if it := f.calledOf(b, f.itemID); it != nil {
		at := len(f.body.Output)
		_, kind, status := it.about()
		err := f.send(s, responseEvent{Type: "response.output_item.added", Output: &at, Item: it})
		if err != nil || status != statusInProgress { // it asks for an approval
			return err
		}
		return f.about(s, at, it, kind+"."+status)
	}
	e := f.at("output_item.added")
	item := f.item(f.block, f.itemID, statusInProgress)
	e.Item, e.ItemID = &item, ""
	if err := f.send(s, e); err != nil {
		return err
	}
	_, part := f.kinds()
	if part == "" {
		return nil
	}
	e = f.at(part + ".added")
	empty := f.part(f.block, "")
	e.Part = &empty
	return f.send(s, e)
}

// Add sends text of the open block.
func (f *responsesFormat) Add(s *reply.Stream, b *answer.Block, text string, said []generate.Token) error {
	b.Text.WriteString(text)
	b.Tokens = append(b.Tokens, said...)
	if text == "" {
		return nil
	}
	kind, _ := f.kinds()
	if kind == "" {
		return nil
	}
	if kind == "output_text" {
		e := f.at(kind + ".delta")
		e.Delta, e.Logprobs = &text, f.probs(said)
		return f.send(s, e)
	}
	if kind == "custom_tool_call_input" {
		if text = f.input.Write(text); text == "" {
			return nil
		}
	}
	return f.sendDelta(s, kind, text)
}

func (f *responsesFormat) sendDelta(s *reply.Stream, kind, text string) error {
	e := f.at(kind + ".delta")
	e.Delta = &text
	return f.send(s, e)
}

// Close ends the item of a block.
func (f *responsesFormat) Close(s *reply.Stream, b *answer.Block, end *answer.Ending) error {
	status := statusCompleted
	if end != nil {
		status = statusAt(end)
	}
	text := b.Text.String()
	kind, part := f.kinds()
	done := f.at(kind + ".done")
	switch kind {
	case "", "mcp_call_arguments":
		f.block = nil
		it := f.calledOf(b, f.itemID)
		if done.Arguments = &text; kind != "" {
			if err := f.send(s, done); err != nil {
				return err
			}
		}
		return f.written(s, it, status)
	case "custom_tool_call_input":
		if rest := f.input.End(); rest != "" {
			if err := f.sendDelta(s, kind, rest); err != nil {
				return err
			}
		}
		text = customInput(text)
		done.Input = &text
	case "function_call_arguments":
		done.Arguments, done.Name = &text, f.tool(b).name
	case "output_text":
		for i, about := range f.annotations(b, text) {
			e := f.at("output_text.annotation.added")
			e.At, e.About = &i, about
			if err := f.send(s, e); err != nil {
				return err
			}
		}
		done.Text, done.Logprobs = &text, f.probs(b.Tokens)
	default:
		done.Text = &text
	}
	if err := f.send(s, done); err != nil {
		return err
	}
	if part != "" {
		e := f.at(part + ".done")
		whole := f.part(b, text)
		e.Part = &whole
		if err := f.send(s, e); err != nil {
			return err
		}
	}
	e := f.at("output_item.done")
	item := f.item(b, f.itemID, status)
	e.Item, e.ItemID = &item, ""
	f.block = nil
	err := f.send(s, e)
	f.keep(item)
	return err
}

func (f *responsesFormat) End(*reply.Stream) error { return nil }

// Failed ends the response with an error. Where calls were made it is stored: what they did is not lost, and the client
// can go on after it.
func (f *responsesFormat) Failed(s *reply.Stream, err *reply.Error) error {
	code, _ := err.Extra["code"].(string)
	kind := statusFailed
	f.body.Status, f.body.Error = statusFailed, &responseError{cmp.Or(code, err.Kind()), err.Message}
	switch {
	case err.Status == reply.StatusCancelled:
		f.body.Status = statusStopped
	case f.Acted() && code == codeTooLong:
		kind, f.body.Status, f.body.Incomplete = statusIncomplete, statusIncomplete, &responseIncomplete{"max_output_tokens"}
	}
	if f.Acted() {
		f.put()
	}
	return f.send(s, responseEvent{Type: "response." + kind, Response: &f.body})
}
