package data

import (
	"bytes"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/chat"
)

// A Format is how records are written.
type Format string

// The formats.
const (
	Auto       Format = "auto"       // by the fields of a file's first record
	Chat       Format = "chat"       // OpenAI's: {"messages": [{"role", "content", "weight"}], "tools"}
	ShareGPT   Format = "sharegpt"   // {"conversations": [{"from", "value"}], "system"}
	Alpaca     Format = "alpaca"     // {"instruction", "input", "output"}
	Completion Format = "completion" // {"prompt", "completion"}: texts, without a template
	Text       Format = "text"       // {"text"}
	Plain      Format = "plain"      // a file is a text
	Preference Format = "preference" // OpenAI's pairs: {"input": {"messages"}, "preferred_output", "non_preferred_output"}
	Chosen     Format = "chosen"     // pairs: {"prompt", "chosen", "rejected"}: texts, or lists of messages
	Ranked     Format = "ranked"     // {"query" or "anchor", "positive" or "pos", "negatives", "negative" or "neg", "margin"}
	Scored     Format = "scored"     // {"sentence1", "sentence2", "score"}
	Classified Format = "classified" // {"text", "text_pair", "label"}
)

// Formats are all formats, in the order in which they are told apart.
var Formats = []Format{Auto, Chat, ShareGPT, Preference, Chosen, Completion, Alpaca, Ranked, Scored, Classified, Text, Plain}

// marks has the fields by which a format is told, in one or several ways.
var marks = map[Format][][]string{
	Chat: {{"messages"}}, ShareGPT: {{"conversations"}}, Preference: {{"preferred_output"}}, Chosen: {{"chosen", "rejected"}},
	Completion: {{"prompt", "completion"}}, Alpaca: {{"instruction", "output"}},
	Ranked: {{"query", "positive"}, {"anchor", "positive"}, {"query", "pos"}},
	Scored: {{"sentence1", "sentence2"}}, Classified: {{"text", "label"}}, Text: {{"text"}},
}

// detect returns the format of a record.
func detect(value jsontext.Value) (Format, error) {
	var fields map[string]jsontext.Value
	if err := unmarshal(value, &fields); err != nil {
		return "", err
	}
	for _, f := range Formats {
		for _, want := range marks[f] {
			if !slices.ContainsFunc(want, func(name string) bool { return fields[name] == nil }) {
				return f, nil
			}
		}
	}
	return "", errors.New(`no known fields, want "messages", "conversations", "prompt" and "completion", "text", ` +
		`"instruction" and "output", "chosen" and "rejected", "preferred_output" and "non_preferred_output", ` +
		`"query" and "positive", "sentence1" and "sentence2", or "text" and "label"`)
}

// A record is what a line holds.
type record struct {
	examples []Example
	pair     *Pair
	compared []Comparison
}

func (f Format) parse(value jsontext.Value) (rec record, err error) {
	var x Example
	switch f {
	case Chat:
		x, err = parseChat(value)
	case ShareGPT:
		x, err = parseShareGPT(value)
	case Alpaca:
		x, err = parseAlpaca(value)
	case Completion:
		x, err = parseCompletion(value)
	case Text:
		x, err = parseText(value)
	case Preference:
		rec.pair, err = parsePreference(value)
		return rec, err
	case Chosen:
		rec.pair, err = parseChosen(value)
		return rec, err
	case Ranked:
		rec.compared, err = parseRanked(value)
		return rec, err
	case Scored, Classified:
		parse := parseScored
		if f == Classified {
			parse = parseClassified
		}
		rec.compared = make([]Comparison, 1)
		rec.compared[0], err = parse(value)
		return rec, err
	default:
		return rec, fmt.Errorf("records of the format %q are none", f)
	}
	rec.examples = []Example{x}
	return rec, err
}

// unmarshal reads a value into a struct or map; an error names the field.
func unmarshal(value jsontext.Value, to any) error {
	err := json.Unmarshal(value, to)
	var wrong *json.SemanticError
	if errors.As(err, &wrong) {
		field := strings.TrimPrefix(string(wrong.JSONPointer), "/")
		field = strings.ReplaceAll(field, "/", ".")
		why := "another type than that"
		if wrong.Err != nil {
			why = wrong.Err.Error()
		} else if wrong.JSONKind != 0 {
			why = "not a " + wrong.JSONKind.String()
		}
		if wrong.GoType != nil && wrong.Err == nil {
			why = fmt.Sprintf("%s, want %s", kindName(wrong.JSONKind), typeName(wrong.GoType.Kind().String()))
		}
		if field == "" {
			return errors.New(why)
		}
		return fmt.Errorf("%s: %s", field, why)
	}
	return err
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case '0':
		return "a number"
	}
	return k.String()
}

func typeName(goKind string) string {
	switch goKind {
	case "string":
		return "a text"
	case "slice":
		return "a list"
	case "struct", "map":
		return "an object"
	case "bool":
		return "true or false"
	}
	return "a number"
}

// A message is one of OpenAI's fine-tuning format.
type message struct {
	Role       string          `json:"role"`
	Content    *chat.Content   `json:"content"`
	Name       string          `json:"name"`
	ToolCalls  []chat.ToolCall `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
	Reasoning  string          `json:"reasoning_content"`
	Weight     *float64        `json:"weight"`
	Call       *chat.Function  `json:"function_call"` // the older form of tool_calls
}

// roles are those that a message may have.
var roles = []string{"system", "developer", "user", "assistant", "tool", "function"}

// turn checks a message.
func (m *message) turn() (t Turn, err error) {
	t.Message = chat.Message{Role: m.Role, Content: chat.Content{Null: true}, Name: m.Name, ToolCalls: m.ToolCalls,
		ToolCallID: m.ToolCallID, ReasoningContent: m.Reasoning}
	if m.Content != nil {
		t.Content = *m.Content
	}
	if m.Call != nil {
		t.ToolCalls = append(t.ToolCalls, chat.ToolCall{Type: "function", Function: *m.Call})
	}
	for i, c := range t.ToolCalls {
		switch args := strings.TrimSpace(string(c.Function.Arguments)); {
		case c.Function.Name == "":
			return t, fmt.Errorf("tool_calls.%d.function.name: missing", i)
		case args != "" && (args[0] != '{' || !stdjson.Valid([]byte(args))):
			return t, fmt.Errorf("tool_calls.%d.function.arguments: want the JSON of an object", i)
		}
	}
	t.Learn = m.Role == "assistant"
	switch w := m.Weight; {
	case !slices.Contains(roles, m.Role):
		return t, fmt.Errorf("role: %.40q, want one of %s", m.Role, strings.Join(roles, " "))
	case len(t.ToolCalls) > 0 && m.Role != "assistant":
		return t, fmt.Errorf("tool_calls: of the %s, want none but the assistant's", m.Role)
	case len(t.Content.Media()) > 0:
		return t, errors.New("content: pictures and sounds are not learnt from, want text")
	case t.Content.Null && len(t.ToolCalls) == 0:
		return t, errors.New("content: missing")
	case w != nil && m.Role != "assistant":
		return t, fmt.Errorf("weight: of the %s, want none but the assistant's", m.Role)
	case w != nil && *w != 0 && *w != 1:
		return t, fmt.Errorf("weight: %v, want 0 or 1", *w)
	case w != nil:
		t.Learn = *w == 1
	}
	return t, nil
}

// turns checks messages, whose errors begin with a field's name.
func turns(messages []message, field string) (all []Turn, err error) {
	for i := range messages {
		t, err := messages[i].turn()
		if err != nil {
			return nil, fmt.Errorf("%s.%d.%w", field, i, err)
		}
		all = append(all, t)
	}
	return all, nil
}

// errNoAnswer is the error of a conversation that would do as a prompt.
var errNoAnswer = errors.New("no message of the assistant to learn")

// learns returns an error unless some turn is learnt.
func learns(all []Turn, field string) error {
	if len(all) == 0 {
		return fmt.Errorf("%s: none", field)
	}
	if !slices.ContainsFunc(all, func(t Turn) bool { return t.Learn }) {
		return fmt.Errorf("%s: %w", field, errNoAnswer)
	}
	return nil
}

// functions returns tools, with those of the older field as such.
func functions(all, older []stdjson.RawMessage) ([]stdjson.RawMessage, error) {
	for i, raw := range all {
		var tool struct {
			Function *struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if stdjson.Unmarshal(raw, &tool) != nil || tool.Function == nil || tool.Function.Name == "" {
			return nil, fmt.Errorf(`tools.%d: want {"type": "function", "function": {"name": ...}}`, i)
		}
	}
	for i, raw := range older {
		var f struct {
			Name string `json:"name"`
		}
		if stdjson.Unmarshal(raw, &f) != nil || f.Name == "" {
			return nil, fmt.Errorf(`functions.%d: want {"name": ...}`, i)
		}
		all = append(all, slices.Concat([]byte(`{"type":"function","function":`), raw, []byte("}")))
	}
	return slices.Clone(all), nil
}

func parseChat(value jsontext.Value) (x Example, err error) {
	var in struct {
		Messages  []message            `json:"messages"`
		Tools     []stdjson.RawMessage `json:"tools"`
		Functions []stdjson.RawMessage `json:"functions"`
		Parallel  *bool                `json:"parallel_tool_calls"` // is a server's to heed
	}
	if err = unmarshal(value, &in); err != nil {
		return x, err
	}
	if x.Turns, err = turns(in.Messages, "messages"); err != nil {
		return x, err
	}
	if x.Tools, err = functions(in.Tools, in.Functions); err != nil {
		return x, err
	}
	return x, learns(x.Turns, "messages")
}

// speakers are the roles of ShareGPT's names.
var speakers = map[string]string{
	"human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "chatgpt": "assistant", "bing": "assistant",
	"bard": "assistant", "model": "assistant", "system": "system", "tool": "tool", "observation": "tool", "function_response": "tool",
}

func parseShareGPT(value jsontext.Value) (x Example, err error) {
	var in struct {
		System        string `json:"system"`
		Conversations []struct {
			From   string   `json:"from"`
			Value  string   `json:"value"`
			Weight *float64 `json:"weight"`
		} `json:"conversations"`
	}
	if err = unmarshal(value, &in); err != nil {
		return x, err
	}
	var messages []message
	if in.System != "" {
		text := chat.Text(in.System)
		x.Turns = []Turn{{Message: chat.Message{Role: "system", Content: text}}}
	}
	for i, c := range in.Conversations {
		role, ok := speakers[c.From]
		if !ok {
			return x, fmt.Errorf("conversations.%d.from: %.40q, want human, gpt, system or tool", i, c.From)
		}
		text := chat.Text(c.Value)
		messages = append(messages, message{Role: role, Content: &text, Weight: c.Weight})
	}
	all, err := turns(messages, "conversations")
	if err != nil {
		return x, err
	}
	x.Turns = append(x.Turns, all...)
	return x, learns(x.Turns, "conversations")
}

func parseAlpaca(value jsontext.Value) (x Example, err error) {
	var in struct {
		System      string  `json:"system"`
		Instruction *string `json:"instruction"`
		Input       string  `json:"input"`
		Output      *string `json:"output"`
	}
	if err = unmarshal(value, &in); err != nil {
		return x, err
	}
	switch {
	case in.Instruction == nil || *in.Instruction == "":
		return x, errors.New("instruction: missing")
	case in.Output == nil || *in.Output == "":
		return x, errors.New("output: missing")
	}
	say := func(role, text string) {
		x.Turns = append(x.Turns, Turn{chat.Message{Role: role, Content: chat.Text(text)}, role == "assistant"})
	}
	if in.System != "" {
		say("system", in.System)
	}
	if in.Input != "" {
		*in.Instruction += "\n\n" + in.Input
	}
	say("user", *in.Instruction)
	say("assistant", *in.Output)
	return x, nil
}

func parseCompletion(value jsontext.Value) (x Example, err error) {
	var in struct {
		Prompt     jsontext.Value `json:"prompt"`
		Completion jsontext.Value `json:"completion"`

		Vocabulary    jsontext.Value `json:"vocabulary"` // of a server's own answers, and so are the others; elsewhere they may be anything
		Model         jsontext.Value `json:"model"`
		PromptIDs     jsontext.Value `json:"prompt_ids"`
		CompletionIDs jsontext.Value `json:"completion_ids"`
	}
	if err = unmarshal(value, &in); err != nil {
		return x, err
	}
	x, err = answered(in.Prompt, in.Completion, "completion", nil)
	if err != nil || x.Turns != nil || len(in.Vocabulary) == 0 {
		return x, err
	}
	x.Kept = &Kept{}
	for _, field := range []struct {
		name string
		from jsontext.Value
		to   any
	}{
		{"vocabulary", in.Vocabulary, &x.Kept.Vocabulary}, {"model", in.Model, &x.Kept.Model},
		{"prompt_ids", in.PromptIDs, &x.Kept.Prompt}, {"completion_ids", in.CompletionIDs, &x.Kept.Answer},
	} {
		if len(field.from) == 0 {
			return x, fmt.Errorf("%s: missing", field.name)
		}
		if err := unmarshal(field.from, field.to); err != nil {
			return x, fmt.Errorf("%s: %w", field.name, err)
		}
	}
	if len(x.Kept.Prompt) == 0 || len(x.Kept.Answer) == 0 {
		return x, errors.New("prompt_ids or completion_ids: empty")
	}
	return x, nil
}

// answered is a prompt with an answer: two texts, or two lists of messages.
func answered(prompt, answer jsontext.Value, field string, tools []stdjson.RawMessage) (x Example, err error) {
	switch {
	case len(answer) == 0:
		return x, fmt.Errorf("%s: missing", field)
	case answer.Kind() == '"':
		if len(prompt) > 0 {
			if err := unmarshal(prompt, &x.Prompt); err != nil {
				return x, fmt.Errorf("prompt: %w", err)
			}
		}
		if err := unmarshal(answer, &x.Text); err != nil {
			return x, fmt.Errorf("%s: %w", field, err)
		}
		if x.Text == "" {
			return x, fmt.Errorf("%s: empty", field)
		}
		return x, nil
	}
	read := func(v jsontext.Value, field string) (all []Turn, err error) {
		var messages []message
		if v.Kind() == '{' {
			v = slices.Concat(jsontext.Value("["), v, jsontext.Value("]"))
		}
		if err := unmarshal(v, &messages); err != nil {
			if _, rest, ok := strings.Cut(err.Error(), "."); ok && err.Error()[0] >= '0' && err.Error()[0] <= '9' {
				return nil, fmt.Errorf("%s.%s.%s", field, strings.Split(err.Error(), ".")[0], rest)
			}
			return nil, fmt.Errorf("%s: %w", field, err)
		}
		return turns(messages, field)
	}
	if len(prompt) > 0 && prompt.Kind() == '"' {
		return x, fmt.Errorf("%s: a list of messages after a prompt that is a text", field)
	}
	if len(prompt) > 0 {
		if x.Turns, err = read(prompt, "prompt"); err != nil {
			return x, err
		}
		for i := range x.Turns {
			x.Turns[i].Learn = false
		}
	}
	answers, err := read(answer, field)
	if err != nil {
		return x, err
	}
	x.Turns, x.Tools = append(x.Turns, answers...), tools
	return x, learns(answers, field)
}

func parseText(value jsontext.Value) (x Example, err error) {
	var in struct {
		Text *string `json:"text"`
	}
	if err = unmarshal(value, &in); err != nil {
		return x, err
	}
	if in.Text == nil || *in.Text == "" {
		return x, errors.New("text: missing or empty")
	}
	x.Text = *in.Text
	return x, nil
}

func parsePreference(value jsontext.Value) (*Pair, error) {
	var in struct {
		Input *struct {
			Messages jsontext.Value       `json:"messages"`
			Tools    []stdjson.RawMessage `json:"tools"`
			Parallel *bool                `json:"parallel_tool_calls"`
		} `json:"input"`
		Preferred    jsontext.Value `json:"preferred_output"`
		NonPreferred jsontext.Value `json:"non_preferred_output"`
	}
	if err := unmarshal(value, &in); err != nil {
		return nil, err
	}
	if in.Input == nil || in.Input.Messages.Kind() != '[' {
		return nil, errors.New("input.messages: missing")
	}
	tools, err := functions(in.Input.Tools, nil)
	if err != nil {
		return nil, fmt.Errorf("input.%w", err)
	}
	return pair(in.Input.Messages, in.Preferred, in.NonPreferred, "preferred_output", "non_preferred_output", tools)
}

func parseChosen(value jsontext.Value) (*Pair, error) {
	var in struct {
		Prompt   jsontext.Value       `json:"prompt"`
		Chosen   jsontext.Value       `json:"chosen"`
		Rejected jsontext.Value       `json:"rejected"`
		Tools    []stdjson.RawMessage `json:"tools"`
	}
	if err := unmarshal(value, &in); err != nil {
		return nil, err
	}
	tools, err := functions(in.Tools, nil)
	if err != nil {
		return nil, err
	}
	return pair(in.Prompt, in.Chosen, in.Rejected, "chosen", "rejected", tools)
}

// pair is two answers to a prompt. Where there is no prompt, whole conversations begin alike: what is the same in both is
// the prompt.
func pair(prompt, chosen, rejected jsontext.Value, better, worse string, tools []stdjson.RawMessage) (*Pair, error) {
	a, err := answered(prompt, chosen, better, tools)
	if err != nil {
		return nil, err
	}
	b, err := answered(prompt, rejected, worse, tools)
	if err != nil {
		return nil, err
	}
	if (a.Turns == nil) != (b.Turns == nil) {
		return nil, fmt.Errorf("%s and %s: a text and a list of messages", better, worse)
	}
	if len(prompt) == 0 && a.Turns == nil {
		return nil, errors.New("prompt: missing")
	}
	n := min(len(a.Turns), len(b.Turns))
	for i := 0; i < n && sameTurn(&a.Turns[i], &b.Turns[i]); i++ {
		a.Turns[i].Learn, b.Turns[i].Learn = false, false
	}
	if a.Turns == nil && a.Text == b.Text || a.Turns != nil && (learns(a.Turns, "") != nil || learns(b.Turns, "") != nil) {
		return nil, fmt.Errorf("%s and %s: the same answer", better, worse)
	}
	return &Pair{Chosen: a, Rejected: b}, nil
}

func sameTurn(a, b *Turn) bool {
	x, errX := stdjson.Marshal(a.Message)
	y, errY := stdjson.Marshal(b.Message)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
