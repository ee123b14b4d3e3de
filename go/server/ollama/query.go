package ollama

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/reading"
	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// Ollama's endpoints. Their defaults are Ollama's, whatever the model's file or the flags say; their
// streams are lines of JSON, and so they answer where a request does not say.

// common holds the fields that its chat and generate have in common.
type common struct {
	ask.Options
	ask.Conversation
	begun     time.Time
	think     think
	keepAlive keepAlive
	logprobs  bool
	top       int // with logprobs
}

// maxTop is how many alternatives Ollama sends at most.
const maxTop = 20

func newCommon(m *ask.Model) common {
	q := common{Options: ask.NewOptions(m), Conversation: ask.NewConversation(), begun: time.Now()}
	q.Stream, q.MaxTokens = true, -1
	p := &q.Params
	p.Temp, p.TopK, p.TopP, p.MinP, p.RepeatPenalty, p.RepeatLastN = 0.8, 40, 0.9, 0, 1, 64
	q.TakePersona(m)
	return q
}

func (q *common) Fields() []field.Field {
	return []field.Field{
		field.Input("model", field.Text(&q.Model), "Which model, by a name that /api/tags has, with or without :latest."),
		field.Setting("stream", field.Boolean(&q.Stream), "Send the answer as it is generated, in lines of JSON."),
		field.Input("options", settings{&q.Options},
			"Settings by Ollama's names: temperature, top_k, top_p, min_p, seed, stop, num_predict and others."),
		field.Input("format", formField{&q.Form}, `Holds the answer to a form: "json", or a JSON schema.`),
		field.Input("think", &q.think, "Whether the model thinks before it answers, or how much: low, medium, high."),
		field.Input("keep_alive", &q.keepAlive, wantStay),
		field.Setting("logprobs", field.Boolean(&q.logprobs), "Send the log-probability of each token."),
		field.Setting("top_logprobs", field.Integer(&q.top, 0, maxTop),
			"With logprobs: send so many of the likeliest tokens too."),
		field.Setting("truncate", field.Boolean(new(bool)), "Accepted; nothing is ever truncated."),
		field.Setting("shift", field.Boolean(&q.Shift),
			"Whether a full context is shifted, where the server has `--context-shift`; false ends the answer there."),
	}
}

func (q *common) Settle(m *ask.Model, h http.Header) error {
	if q.logprobs {
		q.Probs = q.top
	} else if q.top > 0 {
		return reply.Invalid("top_logprobs", "%d without logprobs, want logprobs to be true", q.top)
	}
	return q.Options.Settle(m, h)
}

// apply settles what thinking depends on.
func (q *common) apply() {
	if q.Kwargs == nil {
		q.Kwargs = ask.TemplateValues{}
	}
	if q.think.given {
		q.Kwargs["enable_thinking"] = jsontext.Value(fmt.Sprint(q.think.on))
		q.Effort = q.think.level
	}
}

// named returns the model's name as the answer has it.
func (q *common) named(m *ask.Model) string {
	if q.Model != "" {
		return q.Model
	}
	return tagOf(m)
}

// A prompter is the query of /api/chat or /api/generate.
type prompter interface {
	answer.Prompter
	// loaded returns the answer to a request without a prompt, nil to one with.
	loaded(m *ask.Model) any
}

// ollama returns the handler of an endpoint that generates text. A request without a prompt is there
// to have the model loaded, which it is.
func ollama[Q prompter](prefix string, defaults func(*ask.Model) Q) func(*answer.Request) error {
	return func(req *answer.Request) error {
		q := defaults(req.Model)
		if err := req.Read(q); err != nil {
			return err
		}
		if a := q.loaded(req.Model); a != nil {
			req.Send(a)
			return nil
		}
		return req.Generate(q, prefix)
	}
}

// chatless and promptless are the answers to requests that only have a model loaded, or unloaded.
func chatless(name, reason string) line {
	return line{Model: name, Created: stamp(time.Now()), Message: &message{Role: "assistant"}, Done: true, Reason: reason}
}

func promptless(name, reason string) line {
	return line{Model: name, Created: stamp(time.Now()), Response: new(string), Done: true, Reason: reason}
}

// before returns the function that finds the model of a request, by its tag or in the older field, and how long it
// stays loaded. unload is the answer to a request that only unloads a model, which is not loaded for that; nil: the
// endpoint has no such requests.
func (s *API) before(unload func(model, reason string) line) func(*answer.Request) (bool, error) {
	return func(req *answer.Request) (bool, error) {
		given := field.TextOf(req.Peek("model"))
		req.Name = s.List.Untagged(cmp.Or(given, field.TextOf(req.Peek("name")), req.Name))
		meant, err := s.List.Resolve(req.Name)
		if err != nil {
			return false, err
		}
		name := meant.Model
		// whatever other APIs answer to, where there is one model
		if name != "" && meant.Adapter == "" && !s.List.Set.Has(name) {
			return false, &models.NotFoundError{Name: name, Names: s.List.Names()}
		}
		stay := &req.Stay.KeepAlive
		*stay = keepAliveOf(req.Peek("keep_alive"))
		stop := unload != nil && *stay != nil && **stay == 0 && !asksSomething(req)
		if !req.Caller.Admin && *stay != nil {
			if stop {
				return false, answer.ErrUser // it would have the model unloaded for all
			}
			*stay = nil // the server's setting applies
		}
		if !stop {
			return false, nil
		}
		st, err := s.List.Set.Status(name)
		if err != nil || st.State == models.Loaded || st.State == models.Loading {
			return false, nil
		}
		_ = s.List.Set.Unload(name) // one that sleeps; others are unloaded
		req.Send(unload(cmp.Or(given, st.Names[0]), unloaded))
		return true, nil
	}
}

// keepAliveOf returns the value of keep_alive, nil for none. What is wrong with it is reported later, when the fields
// are read.
func keepAliveOf(v jsontext.Value) *time.Duration {
	var k keepAlive
	if k.Take(field.NewReader(v)) != nil {
		return nil
	}
	return k.given
}

// asksSomething reports whether there is anything to answer, or the body is malformed.
func asksSomething(req *answer.Request) (asked bool) {
	for _, name := range []string{"prompt", "suffix", "messages"} {
		asked = asked || !slices.Contains([]string{"", `""`, "[]", "null"}, string(req.Peek(name)))
	}
	return asked || req.Malformed
}

// A chatQuery is a request to /api/chat.
type chatQuery struct {
	common
	turns turns
}

func newChatQuery(m *ask.Model) *chatQuery {
	return &chatQuery{common: newCommon(m)}
}

func (q *chatQuery) Fields() []field.Field {
	return append(q.common.Fields(),
		field.Input("messages", &q.turns, "The conversation so far; without any, the answer says that the model is loaded."),
		field.Input("tools", &q.Tools, "Functions that the model may call."),
	)
}

func (q *chatQuery) Source(ctx context.Context, m *ask.Model) (ask.Source, error) {
	q.Messages = ask.Messages(q.turns)
	q.apply()
	return q.Conversation.Source(ctx, m)
}

func (q *chatQuery) loaded(m *ask.Model) any {
	if len(q.turns) > 0 {
		return nil
	}
	return chatless(q.named(m), q.keepAlive.reason())
}

func (q *chatQuery) Format(g *answer.Generation) answer.Format {
	return &format{g: g, name: q.named(g.Model), begun: q.begun, chat: true, logprobs: q.logprobs}
}

// A generateQuery is a request to /api/generate.
type generateQuery struct {
	common
	prompt, suffix, system string
	template               string
	raw                    bool
	context                ask.TokenList
	images                 images
}

func newGenerateQuery(m *ask.Model) *generateQuery {
	return &generateQuery{common: newCommon(m)}
}

func (q *generateQuery) Fields() []field.Field {
	return append(q.common.Fields(),
		field.Input("prompt", field.Text(&q.prompt), "What to answer; without it, the answer says that the model is loaded."),
		field.Input("suffix", field.Text(&q.suffix), "What comes after the answer, where the model can fill in."),
		field.Input("system", field.Text(&q.system), "The system prompt."),
		field.Input("template", field.Text(&q.template),
			"Not supported: templates are the model's own, or those of --chat-template."),
		field.Setting("raw", field.Boolean(&q.raw), "Take the prompt as it is, without a template."),
		field.Input("context", &q.context, "The context of an earlier answer, to go on from."),
		field.Input("images", &q.images, "Pictures and sounds in base64, before the prompt."),
	)
}

func (q *generateQuery) Settle(m *ask.Model, h http.Header) error {
	switch {
	case q.template != "":
		return reply.Invalid("template", "given, want none: templates are the model's own, or those of --chat-template; "+
			"raw takes a prompt that is rendered already")
	case q.suffix != "" && (q.system != "" || q.context != nil):
		return reply.Invalid("suffix", "given together with system or context, want one of them")
	}
	for i, id := range q.context {
		if int(id) >= m.Tokenizer.Len() {
			return reply.Invalid("context", "element %d: token %d is not in the vocabulary, want 0 to %d", i, id,
				m.Tokenizer.Len()-1)
		}
	}
	return q.common.Settle(m, h)
}

func (q *generateQuery) Source(ctx context.Context, m *ask.Model) (src ask.Source, err error) {
	one := &reading.Prompt{}
	switch {
	case q.suffix != "":
		one.IDs, err = m.FillIn(ask.Infill{Before: ask.Prompt{{Text: q.prompt}}, After: q.suffix})
	case q.raw:
		var p ask.Prompt
		for _, one := range q.images.parts() {
			p = append(p, ask.PromptPart{Medium: one.Medium})
		}
		one, err = append(p, ask.PromptPart{Text: q.prompt}).Encode(ctx, m)
	default:
		if q.system != "" {
			q.Messages = ask.Messages{{Role: "system", Content: chat.Text(q.system)}}
		}
		q.Messages = append(q.Messages, chat.Message{Role: "user", Content: q.images.before(q.prompt)})
		q.apply()
		q.Begun = len(q.context) > 0
		src, err = q.Conversation.Source(ctx, m)
	}
	if err != nil {
		return src, err
	}
	if src.Prompts == nil {
		src.Add(one)
	}
	ids := src.Prompts[0]
	if bos, ok := m.Tokenizer.BOS(); ok && len(q.context) > 0 && len(ids) > 0 && ids[0] == bos {
		lead := m.Tokenizer.Lead() // the context has it
		ids = ids[max(1, min(len(lead), len(ids))):]
	}
	moved := len(q.context) + len(ids) - len(src.Prompts[0])
	for i := range src.Media[0] {
		src.Media[0][i].At += moved
	}
	src.Prompts[0] = append(slices.Clip([]int32(q.context)), ids...)
	return src, nil
}

func (q *generateQuery) loaded(m *ask.Model) any {
	if q.prompt != "" || q.suffix != "" || len(q.images) > 0 {
		return nil
	}
	return promptless(q.named(m), q.keepAlive.reason())
}

func (q *generateQuery) Format(g *answer.Generation) answer.Format {
	return &format{g: g, name: q.named(g.Model), begun: q.begun, context: !q.raw && q.suffix == "", logprobs: q.logprobs}
}

// settings is the object of settings. Those of Ollama's that say how a model is loaded, and those that it
// has no more, are accepted.
type settings struct{ o *ask.Options }

func (t settings) Fields() []field.Field {
	var all []field.Field
	taken := []string{
		"temperature", "top_k", "top_p", "min_p", "typical_p", "seed", "repeat_penalty", "repeat_last_n",
		"presence_penalty", "frequency_penalty", "stop", "mirostat", "mirostat_tau", "mirostat_eta",
	}
	for _, f := range t.o.Fields() {
		if slices.Contains(taken, f.Names[0]) {
			all = append(all, f)
		}
	}
	return append(all, field.Setting("num_predict", field.Integer(&t.o.MaxTokens, -2, math.MaxInt32),
		"Tokens to generate at most; -1 and -2 are as many as the context holds."))
}

func (t settings) Take(r *field.Reader) error {
	if r.Kind() != '{' {
		return r.Wrong("an object")
	}
	raw, err := r.Raw()
	if err == nil {
		err = field.ReadSome(raw, t.Fields())
	}
	t.o.MaxTokens = max(t.o.MaxTokens, -1)
	return err
}

func (t settings) Value() any { return nil }

func (t settings) Schema() field.Schema {
	properties := field.Schema{}
	for _, f := range t.Fields() {
		s := field.Schema{"anyOf": []field.Schema{f.To.Schema(), {"type": "null"}}, "description": f.Doc}
		properties[f.Names[0]] = s
	}
	return field.Schema{"type": "object", "properties": properties}
}

// formField is the form that an answer is held to.
type formField struct{ f *ask.Held }

const wantForm = `"json" or a JSON schema`

func (t formField) Take(r *field.Reader) error {
	const param = "format"
	switch r.Kind() {
	case '"':
		s, err := r.Text(wantForm)
		switch {
		case err != nil || s == "":
			return err
		case s != "json":
			return fmt.Errorf("the string %s, want %s", field.Quote(s), wantForm)
		}
		return t.f.Give(param, form.Schema, ask.AnyObject)
	case '{':
		return ask.FormSchema{F: t.f, Param: param, Quoted: false}.Take(r)
	}
	return r.Wrong(wantForm)
}

func (t formField) Value() any { return nil }

func (t formField) Schema() field.Schema {
	return field.Schema{"description": wantForm,
		"anyOf": []field.Schema{{"enum": []string{"json", ""}}, {"type": "object"}}}
}

// think is whether to think: true, false or how much.
type think struct {
	given, on bool
	level     string
}

const wantThink = "true, false, low, medium, high or max"

func (t *think) Take(r *field.Reader) error {
	t.given, t.on = true, true
	if r.Kind() == '"' {
		return field.OneOf(&t.level, "low", "medium", "high", "max").Take(r)
	}
	if k := r.Kind(); k != 't' && k != 'f' {
		return r.Wrong(wantThink)
	}
	return field.Boolean(&t.on).Take(r)
}

func (t *think) Value() any { return nil }

func (t *think) Schema() field.Schema {
	return field.Schema{"description": wantThink,
		"anyOf": []field.Schema{{"type": "boolean"}, {"enum": []string{"low", "medium", "high", "max"}}}}
}

// keepAlive is how long a model stays loaded after a request: seconds, or a duration; negative for good.
type keepAlive struct{ given *time.Duration }

const wantKeepAlive = `a number of seconds or a duration such as "5m"`

func (k *keepAlive) Take(r *field.Reader) error {
	switch r.Kind() {
	case '0':
		v, err := r.Raw()
		if err == nil {
			err = k.parse(string(v))
		}
		return err
	case '"':
		s, err := r.Text(wantKeepAlive)
		if err == nil {
			err = k.parse(s)
		}
		return err
	}
	return r.Wrong(wantKeepAlive)
}

// parse takes a number of seconds, or a duration.
func (k *keepAlive) parse(s string) error {
	d, err := time.ParseDuration(s)
	if seconds, e := strconv.ParseFloat(s, 64); e == nil && seconds == seconds {
		d, err = time.Duration(max(min(seconds, maxKeepAlive.Seconds()), -1)*float64(time.Second)), nil
	}
	if err != nil {
		return fmt.Errorf("%s, want %s", field.Quote(s), wantKeepAlive)
	}
	d = min(d, maxKeepAlive)
	k.given = &d
	return nil
}

const wantStay = "How long the model stays loaded after this: seconds, or a duration such as 5m; negative until its " +
	"memory is needed, 0 not at all."

const unloaded = "unload"

// reason is why a request without a prompt ends: it had the model loaded, or unloaded.
func (k *keepAlive) reason() string {
	if k.given != nil && *k.given == 0 {
		return unloaded
	}
	return "load"
}

// maxKeepAlive is as good as for good.
const maxKeepAlive = 100 * 365 * 24 * time.Hour

func (k *keepAlive) Value() any { return nil }

func (k *keepAlive) Schema() field.Schema {
	return field.Schema{"description": wantKeepAlive, "anyOf": []field.Schema{{"type": "number"}, {"type": "string"}}}
}

// images are the sources of a message's pictures and sounds.
type images []string

func (l *images) Take(r *field.Reader) (err error) {
	if r.Kind() == 'n' {
		_, err = r.Raw()
		return err
	}
	*l, err = ask.ReadFiles(r)
	return err
}

func (l *images) Value() any { return nil }

func (l *images) Schema() field.Schema {
	return field.Schema{"type": "array", "items": field.Schema{"type": "string"}}
}

func (l images) parts() (all []chat.Part) {
	for _, source := range l {
		all = append(all, chat.Part{Medium: &chat.Medium{Source: source}})
	}
	return all
}

// before returns content with a text behind the images.
func (l images) before(text string) chat.Content {
	if len(l) == 0 {
		return chat.Text(text)
	}
	return chat.Content{Parts: append(l.parts(), chat.Texts(text)...)}
}

// turns are those of a conversation in Ollama's form.
type turns []chat.Message

func (l *turns) Take(r *field.Reader) error {
	return r.Elements(ask.WantMessages, func(i int) error {
		var m chat.Message
		var media images
		err := r.Members("an object", func(name string) error {
			var err error
			switch name {
			case "role":
				m.Role, err = r.Text("a string such as user")
			case "content":
				err = r.Optional(&m.Content.Text)
			case "thinking":
				err = r.Optional(&m.ReasoningContent)
			case "tool_name", "name":
				err = r.Optional(&m.Name)
			case "tool_call_id":
				err = r.Optional(&m.ToolCallID)
			case "tool_calls":
				if r.Kind() == 'n' {
					_, err = r.Raw()
				} else {
					err = ask.ReadCalls(r, &m.ToolCalls)
				}
			case "images":
				err = media.Take(r)
			default:
				_, err = r.Raw()
			}
			return field.Within(name, err)
		})
		if err == nil && m.Role == "" {
			err = reply.Bad("role: missing, want a string such as user")
		}
		m.Content = media.before(m.Content.Text)
		for k := range m.ToolCalls {
			m.ToolCalls[k].Type = "function"
		}
		*l = append(*l, m)
		return field.Within(fmt.Sprintf("message %d", i), err)
	})
}

func (l *turns) Value() any { return nil }

func (l *turns) Schema() field.Schema {
	s := field.Schema{"type": []string{"string", "null"}}
	return field.Schema{"type": "array", "description": ask.WantMessages, "items": field.Schema{
		"type": "object", "required": []string{"role"},
		"properties": field.Schema{"role": field.Schema{"type": "string"}, "content": s, "thinking": s,
			"images": (*images)(nil).Schema()},
	}}
}
