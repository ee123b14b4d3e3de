package server

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/form"
	"github.com/quern-llm/quern/go/models"
	"github.com/quern-llm/quern/go/server/reply"
)

// Ollama's endpoints. Their defaults are Ollama's, whatever the model's file or the flags say; their
// streams are lines of JSON, and so they answer where a request does not say.

// ollamaCommon holds the fields that its chat and generate have in common.
type ollamaCommon struct {
	options
	conversation
	begun     time.Time
	think     ollamaThink
	keepAlive keepAlive
	logprobs  bool
	top       int // with logprobs
}

// ollamaTop is how many alternatives Ollama sends at most.
const ollamaTop = 20

func newOllamaCommon(m *Model) ollamaCommon {
	q := ollamaCommon{options: newOptions(m), conversation: newConversation(), begun: time.Now()}
	q.stream, q.maxTokens = true, -1
	p := &q.params
	p.Temp, p.TopK, p.TopP, p.MinP, p.RepeatPenalty, p.RepeatLastN = 0.8, 40, 0.9, 0, 1, 64
	return q
}

func (q *ollamaCommon) fields() []field {
	return []field{
		input("model", newText(&q.model), "Which model, by a name that /api/tags has, with or without :latest. A server of one answers to any."),
		setting("stream", newBoolean(&q.stream), "Send the answer as it is generated, in lines of JSON."),
		input("options", ollamaOptions{&q.options}, "Settings by Ollama's names: temperature, top_k, top_p, min_p, seed, stop, num_predict and others."),
		input("format", ollamaForm{&q.form}, `Holds the answer to a form: "json", or a JSON schema.`),
		input("think", &q.think, "Whether the model thinks before it answers, or how much: low, medium, high."),
		input("keep_alive", &q.keepAlive, wantStay),
		setting("logprobs", newBoolean(&q.logprobs), "Send the log-probability of each token."),
		setting("top_logprobs", integer(&q.top, 0, ollamaTop), "With logprobs: send so many of the likeliest tokens too."),
		setting("truncate", newBoolean(new(bool)), "Accepted; nothing is ever truncated."),
		setting("shift", newBoolean(&q.shift), "Whether a full context is shifted, where the server has `--context-shift`; false ends the answer there."),
	}
}

func (q *ollamaCommon) settle(m *Model, h http.Header) error {
	if q.logprobs {
		q.probs = q.top
	} else if q.top > 0 {
		return reply.Invalid("top_logprobs", "%d without logprobs, want logprobs to be true", q.top)
	}
	return q.options.settle(m, h)
}

// apply settles what thinking depends on.
func (q *ollamaCommon) apply() {
	if q.kwargs == nil {
		q.kwargs = templateValues{}
	}
	if q.think.given {
		q.kwargs["enable_thinking"] = jsontext.Value(fmt.Sprint(q.think.on))
		q.effort = q.think.level
	}
}

// named returns the model's name as the answer has it.
func (q *ollamaCommon) named(m *Model) string {
	if q.model != "" {
		return q.model
	}
	return m.tag()
}

// An ollamaPrompter is the query of /api/chat or /api/generate.
type ollamaPrompter interface {
	prompter
	// loaded returns the answer to a request without a prompt, nil to one with.
	loaded(m *Model) any
}

// ollama returns the handler of an endpoint that generates text. A request without a prompt is there
// to have the model loaded, which it is.
func ollama[Q ollamaPrompter](s *Server, prefix string, defaults func(*Model) Q) func(*gin.Context, *Model) error {
	return func(c *gin.Context, m *Model) error {
		q := defaults(m)
		if err := readBody(c, q); err != nil {
			return err
		}
		if a := q.loaded(m); a != nil {
			reply.JSON(c, http.StatusOK, a)
			return nil
		}
		return s.generate(c, m, q, prefix)
	}
}

// chatless and promptless are the answers to requests that only have a model loaded, or unloaded.
func chatless(name, reason string) ollamaAnswer {
	return ollamaAnswer{Model: name, Created: stamp(time.Now()), Message: &ollamaMessage{Role: "assistant"}, Done: true, Reason: reason}
}

func promptless(name, reason string) ollamaAnswer {
	return ollamaAnswer{Model: name, Created: stamp(time.Now()), Response: new(string), Done: true, Reason: reason}
}

// stopped answers a request that only has a model unloaded whose weights are not in memory: they need not come for that. It
// reports whether it did.
func (s *Server) stopped(c *gin.Context, r route, name string, o models.Options) bool {
	if r.stop == nil || o.KeepAlive == nil || *o.KeepAlive != 0 || asksSomething(received(c)) {
		return false
	}
	st, err := s.models.Status(name)
	if err != nil || st.State == models.Loaded || st.State == models.Loading {
		return false
	}
	_ = s.models.Unload(name) // one that sleeps; others are unloaded
	reply.JSON(c, http.StatusOK, r.stop(cmp.Or(modelName(received(c)), st.Names[0]), unloaded))
	return true
}

// asksSomething reports whether a body has anything to answer, or is malformed.
func asksSomething(body []byte) (asked bool) {
	r := newReader(body)
	err := r.members("an object", func(member string) error {
		v, err := r.raw()
		if slices.Contains([]string{"prompt", "suffix", "messages"}, member) {
			asked = asked || !slices.Contains([]string{`""`, "[]", "null"}, string(v))
		}
		return err
	})
	return asked || err != nil
}

// An ollamaChatQuery is a request to /api/chat.
type ollamaChatQuery struct {
	ollamaCommon
	turns ollamaMessages
}

func newOllamaChatQuery(m *Model) *ollamaChatQuery {
	return &ollamaChatQuery{ollamaCommon: newOllamaCommon(m)}
}

func (q *ollamaChatQuery) fields() []field {
	return append(q.ollamaCommon.fields(),
		input("messages", &q.turns, "The conversation so far; without any, the answer says that the model is loaded."),
		input("tools", &q.tools, "Functions that the model may call."),
	)
}

func (q *ollamaChatQuery) source(m *Model) (source, error) {
	q.messages = messages(q.turns)
	q.apply()
	return q.conversation.source(m)
}

func (q *ollamaChatQuery) loaded(m *Model) any {
	if len(q.turns) > 0 {
		return nil
	}
	return chatless(q.named(m), q.keepAlive.reason())
}

func (q *ollamaChatQuery) format(g *generation, _ envelope) format {
	return &ollamaFormat{g: g, name: q.named(g.model), begun: q.begun, chat: true, logprobs: q.logprobs}
}

// An ollamaGenerateQuery is a request to /api/generate.
type ollamaGenerateQuery struct {
	ollamaCommon
	prompt, suffix, system string
	template               string
	raw                    bool
	context                tokenList
	images                 noImages
}

func newOllamaGenerateQuery(m *Model) *ollamaGenerateQuery {
	return &ollamaGenerateQuery{ollamaCommon: newOllamaCommon(m)}
}

func (q *ollamaGenerateQuery) fields() []field {
	return append(q.ollamaCommon.fields(),
		input("prompt", newText(&q.prompt), "What to answer; without it, the answer says that the model is loaded."),
		input("suffix", newText(&q.suffix), "What comes after the answer, where the model can fill in."),
		input("system", newText(&q.system), "The system prompt."),
		input("template", newText(&q.template), "Not supported: templates are the model's own, or those of --chat-template."),
		setting("raw", newBoolean(&q.raw), "Take the prompt as it is, without a template."),
		input("context", &q.context, "The context of an earlier answer, to go on from."),
		input("images", &q.images, "Not supported: the model reads text only."),
	)
}

func (q *ollamaGenerateQuery) settle(m *Model, h http.Header) error {
	switch {
	case q.template != "":
		return reply.Invalid("template", "given, want none: templates are the model's own, or those of --chat-template; raw takes a prompt that is rendered already")
	case q.suffix != "" && (q.system != "" || q.context != nil):
		return reply.Invalid("suffix", "given together with system or context, want one of them")
	}
	for i, id := range q.context {
		if int(id) >= m.Tokenizer.Len() {
			return reply.Invalid("context", "element %d: token %d is not in the vocabulary, want 0 to %d", i, id, m.Tokenizer.Len()-1)
		}
	}
	return q.ollamaCommon.settle(m, h)
}

func (q *ollamaGenerateQuery) source(m *Model) (src source, err error) {
	var ids []int32
	switch {
	case q.suffix != "":
		ids, err = m.fillIn(infill{before: prompt{{text: q.prompt}}, after: q.suffix})
	case q.raw:
		ids, err = prompt{{text: q.prompt}}.encode(m)
	default:
		if q.system != "" {
			q.messages = messages{{Role: "system", Content: chat.Text(q.system)}}
		}
		q.messages = append(q.messages, chat.Message{Role: "user", Content: chat.Text(q.prompt)})
		q.apply()
		if src, err = q.conversation.source(m); err == nil {
			ids = src.prompts[0]
		}
	}
	if bos, ok := m.Tokenizer.BOS(); ok && len(q.context) > 0 && len(ids) > 0 && ids[0] == bos {
		ids = ids[1:] // the context has it
	}
	src.prompts = [][]int32{append(slices.Clip([]int32(q.context)), ids...)}
	return src, err
}

func (q *ollamaGenerateQuery) loaded(m *Model) any {
	if q.prompt != "" || q.suffix != "" {
		return nil
	}
	return promptless(q.named(m), q.keepAlive.reason())
}

func (q *ollamaGenerateQuery) format(g *generation, _ envelope) format {
	return &ollamaFormat{g: g, name: q.named(g.model), begun: q.begun, context: !q.raw && q.suffix == "", logprobs: q.logprobs}
}

// ollamaOptions is the object of settings. Those of Ollama's that say how a model is loaded, and those that it
// has no more, are accepted.
type ollamaOptions struct{ o *options }

func (t ollamaOptions) fields() []field {
	var all []field
	taken := []string{
		"temperature", "top_k", "top_p", "min_p", "typical_p", "seed", "repeat_penalty", "repeat_last_n",
		"presence_penalty", "frequency_penalty", "stop", "mirostat", "mirostat_tau", "mirostat_eta",
	}
	for _, f := range t.o.fields() {
		if slices.Contains(taken, f.names[0]) {
			all = append(all, f)
		}
	}
	return append(all, setting("num_predict", integer(&t.o.maxTokens, -2, math.MaxInt32), "Tokens to generate at most; -1 and -2 are as many as the context holds."))
}

func (t ollamaOptions) take(r *reader) error {
	if r.kind() != '{' {
		return r.wrong("an object")
	}
	raw, err := r.raw()
	if err != nil {
		return err
	}
	if err := readSome(raw, t.fields()); err != nil {
		return err
	}
	t.o.maxTokens = max(t.o.maxTokens, -1)
	return nil
}

func (t ollamaOptions) value() any { return nil }

func (t ollamaOptions) schema() schema {
	properties := schema{}
	for _, f := range t.fields() {
		s := schema{"anyOf": []schema{f.to.schema(), {"type": "null"}}, "description": f.doc}
		properties[f.names[0]] = s
	}
	return schema{"type": "object", "properties": properties}
}

// ollamaForm is the form that an answer is held to.
type ollamaForm struct{ f *held }

const wantForm = `"json" or a JSON schema`

func (t ollamaForm) take(r *reader) error {
	const param = "format"
	switch r.kind() {
	case '"':
		s, err := r.text(wantForm)
		switch {
		case err != nil || s == "":
			return err
		case s != "json":
			return fmt.Errorf("the string %s, want %s", quote(s), wantForm)
		}
		return t.f.give(param, form.Schema, anyObject)
	case '{':
		return formSchema{t.f, param, false}.take(r)
	}
	return r.wrong(wantForm)
}

func (t ollamaForm) value() any { return nil }

func (t ollamaForm) schema() schema {
	return schema{"description": wantForm, "anyOf": []schema{{"enum": []string{"json", ""}}, {"type": "object"}}}
}

// ollamaThink is whether to think: true, false or how much.
type ollamaThink struct {
	given, on bool
	level     string
}

const wantThink = "true, false, low, medium, high or max"

func (t *ollamaThink) take(r *reader) error {
	t.given, t.on = true, true
	if r.kind() == '"' {
		return oneOf(&t.level, "low", "medium", "high", "max").take(r)
	}
	if k := r.kind(); k != 't' && k != 'f' {
		return r.wrong(wantThink)
	}
	return newBoolean(&t.on).take(r)
}

func (t *ollamaThink) value() any { return nil }

func (t *ollamaThink) schema() schema {
	return schema{"description": wantThink, "anyOf": []schema{{"type": "boolean"}, {"enum": []string{"low", "medium", "high", "max"}}}}
}

// keepAlive is how long a model stays loaded after a request: seconds, or a duration; negative for good.
type keepAlive struct{ given *time.Duration }

const wantKeepAlive = `a number of seconds or a duration such as "5m"`

func (k *keepAlive) take(r *reader) error {
	switch r.kind() {
	case '0':
		v, err := r.raw()
		if err != nil {
			return err
		}
		return k.parse(string(v))
	case '"':
		s, err := r.text(wantKeepAlive)
		if err != nil {
			return err
		}
		return k.parse(s)
	}
	return r.wrong(wantKeepAlive)
}

// parse takes a number of seconds, or a duration.
func (k *keepAlive) parse(s string) error {
	d, err := time.ParseDuration(s)
	if seconds, e := strconv.ParseFloat(s, 64); e == nil && seconds == seconds {
		d, err = time.Duration(max(min(seconds, maxKeepAlive.Seconds()), -1)*float64(time.Second)), nil
	}
	if err != nil {
		return fmt.Errorf("%s, want %s", quote(s), wantKeepAlive)
	}
	d = min(d, maxKeepAlive)
	k.given = &d
	return nil
}

const wantStay = "How long the model stays loaded after this: seconds, or a duration such as 5m; negative until its memory is needed, 0 not at all."

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

func (k *keepAlive) value() any { return nil }

func (k *keepAlive) schema() schema {
	return schema{"description": wantKeepAlive, "anyOf": []schema{{"type": "number"}, {"type": "string"}}}
}

// noImages is a list of images, of which there may be none.
type noImages struct{}

func (noImages) take(r *reader) error {
	v, err := r.raw()
	if err == nil && (v.Kind() != '[' || !bytes.Equal(bytes.Join(bytes.Fields(v), nil), []byte("[]"))) {
		err = reply.Bad("the model reads text only, want no images")
	}
	return err
}

func (noImages) value() any { return nil }

func (noImages) schema() schema { return schema{"type": "array", "maxItems": 0} }

// ollamaMessages are those of a conversation in Ollama's form.
type ollamaMessages []chat.Message

func (l *ollamaMessages) take(r *reader) error {
	return r.elements(wantMessages, func(i int) error {
		var m chat.Message
		err := r.members("an object", func(name string) error {
			var err error
			switch name {
			case "role":
				m.Role, err = r.text("a string such as user")
			case "content":
				err = r.optional(&m.Content.Text)
			case "thinking":
				err = r.optional(&m.ReasoningContent)
			case "tool_name", "name":
				err = r.optional(&m.Name)
			case "tool_call_id":
				err = r.optional(&m.ToolCallID)
			case "tool_calls":
				if r.kind() == 'n' {
					_, err = r.raw()
				} else {
					err = readCalls(r, &m.ToolCalls)
				}
			case "images":
				if r.kind() == 'n' {
					_, err = r.raw()
				} else {
					err = noImages{}.take(r)
				}
			default:
				_, err = r.raw()
			}
			return wrap(name, err)
		})
		if err == nil && m.Role == "" {
			err = reply.Bad("role: missing, want a string such as user")
		}
		for k := range m.ToolCalls {
			m.ToolCalls[k].Type = "function"
		}
		*l = append(*l, m)
		return wrap(fmt.Sprintf("message %d", i), err)
	})
}

func (l *ollamaMessages) value() any { return nil }

func (l *ollamaMessages) schema() schema {
	s := schema{"type": []string{"string", "null"}}
	return schema{"type": "array", "description": wantMessages, "items": schema{
		"type": "object", "required": []string{"role"}, "properties": schema{"role": schema{"type": "string"}, "content": s, "thinking": s},
	}}
}
