package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"time"

	"github.com/quern-llm/quern"
	"github.com/quern-llm/quern/go/chat"
)

// An event in JSON. Its type says which of the others it has.
type event struct {
	Type string `json:"type"` // progress, text, reasoning, tool_call, result, segment, transcript

	Phase  string  `json:"phase,omitempty"` // of the progress: download, load, prompt
	Done   *uint64 `json:"done,omitempty"`
	Total  *uint64 `json:"total,omitempty"`
	Cached *uint64 `json:"cached,omitempty"`

	Text     string         `json:"text,omitempty"`
	ToolCall *chat.ToolCall `json:"tool_call,omitempty"`
	Logprobs []token        `json:"logprobs,omitempty"`

	*result
}

// A result is the last event of an answer.
type result struct {
	Message      chat.Message `json:"message"`
	FinishReason quern.Finish `json:"finish_reason"`
	Stop         string       `json:"stop,omitempty"`
	Usage        usage        `json:"usage"`
	Timings      timings      `json:"timings"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	Cached     int `json:"cached_tokens"`
	Drafted    int `json:"draft_tokens"`
	Accepted   int `json:"accepted_draft_tokens"`
}

// In milliseconds.
type timings struct {
	Queued     float64 `json:"queued_ms"`
	Prompt     float64 `json:"prompt_ms"`
	Completion float64 `json:"completion_ms"`
}

type token struct {
	ID      int32   `json:"id"`
	Token   string  `json:"token"`
	Bytes   []int   `json:"bytes"` // a character may be several tokens
	Logprob float64 `json:"logprob"`
	Top     []token `json:"top_logprobs,omitempty"`
}

// compact is JSON without the escapes that are for web pages. What it is given has nothing that cannot be encoded.
func compact(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func eventJSON(e quern.Event) []byte {
	out := event{Logprobs: tokens(e.Tokens)}
	switch {
	case e.Reading != nil:
		out.Type, out.Phase = "progress", "prompt"
		out.Done, out.Total, out.Cached = number(e.Reading.Done), number(e.Reading.Tokens), number(e.Reading.Cached)
	case e.Result != nil:
		out.Type, out.result, out.Logprobs = "result", resultOf(e.Result), tokens(e.Result.Tokens)
	case e.Call != nil:
		call := toolCall(*e.Call)
		out.Type, out.ToolCall = "tool_call", &call
	case e.Reasoning != "":
		out.Type, out.Text = "reasoning", e.Reasoning
	default:
		out.Type, out.Text = "text", e.Text
	}
	return compact(out)
}

func progressJSON(p quern.Progress) []byte {
	e := event{Type: "progress", Phase: "load", Done: &p.Done, Total: &p.Total}
	if p.Downloading {
		e.Phase = "download"
	}
	return compact(e)
}

func number(n int) *uint64 {
	u := uint64(n)
	return &u
}

func tokens(in []quern.Token) (out []token) {
	for _, t := range in {
		one := token{ID: t.ID, Token: t.Text, Logprob: t.Logprob, Top: tokens(t.Top)}
		one.Bytes = []int{}
		for _, b := range []byte(t.Text) {
			one.Bytes = append(one.Bytes, int(b))
		}
		out = append(out, one)
	}
	return out
}

func toolCall(c quern.ToolCall) chat.ToolCall {
	f := chat.Function{Name: c.Name, Arguments: chat.Arguments(c.Arguments)}
	return chat.ToolCall{ID: c.ID, Type: "function", Function: f}
}

// messageOf returns a message as it may be one of the next request.
func messageOf(m quern.Message) chat.Message {
	out := chat.Message{Role: string(m.Role), Content: chat.Text(m.Text()), ReasoningContent: m.Reasoning()}
	for _, p := range m.Parts {
		if r := p.Result; r != nil {
			out.ToolCallID, out.Name, out.Content = r.ID, r.Name, chat.Text(r.Text)
		}
	}
	for _, c := range m.Calls() {
		out.ToolCalls = append(out.ToolCalls, toolCall(c))
	}
	return out
}

func resultOf(r *quern.Result) *result {
	u := r.Usage
	ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
	return &result{
		Message: messageOf(r.Message), FinishReason: r.Finish, Stop: r.Stop,
		Usage:   usage{u.PromptTokens, u.AnswerTokens, u.PromptTokens + u.AnswerTokens, u.CachedTokens, u.DraftedTokens, u.AcceptedTokens},
		Timings: timings{ms(u.QueueTime), ms(u.PromptTime), ms(u.AnswerTime)},
	}
}

// A segment is a part of what is said in sound, with times in seconds.
type segment struct {
	Start    float64 `json:"start"`
	End      float64 `json:"end"`
	Text     string  `json:"text"`
	Language string  `json:"language"`
	Logprob  float64 `json:"avg_logprob"`
	Silence  float64 `json:"no_speech_prob"`
}

func segmentOf(s quern.Segment) segment {
	return segment{s.Start.Seconds(), s.End.Seconds(), s.Text, s.Language, s.Logprob, s.Silence}
}

func segmentJSON(s segment) []byte {
	return compact(struct {
		Type string `json:"type"`
		segment
	}{"segment", s})
}

// transcriptJSON is the last event of a transcription.
func transcriptJSON(all []segment) []byte {
	out := struct {
		Type     string    `json:"type"`
		Text     string    `json:"text"`
		Language string    `json:"language"`
		Segments []segment `json:"segments"`
	}{"transcript", "", "", all}
	for _, s := range all {
		out.Text += s.Text
		out.Language = s.Language
	}
	out.Text = strings.TrimSpace(out.Text)
	return compact(out)
}

func deviceJSON(s quern.DeviceStatus) []byte {
	return compact(struct {
		Threads int               `json:"threads"`
		Models  int               `json:"models"`
		Limit   uint64            `json:"memory"`
		Used    uint64            `json:"memory_used"`
		Parts   map[string]uint64 `json:"memory_parts"`
	}(s))
}

func sessionJSON(s *quern.Session) []byte {
	messages := []chat.Message{}
	for _, m := range s.Messages() {
		messages = append(messages, messageOf(m))
	}
	return compact(map[string]any{"messages": messages})
}

func infoJSON(i quern.Info) []byte {
	return compact(struct {
		Name          string `json:"name"`
		Architecture  string `json:"architecture"`
		Parameters    uint64 `json:"parameters"`
		Bytes         uint64 `json:"bytes"`
		Types         string `json:"types"`
		ContextLength int    `json:"context_length"`
		TrainedLength int    `json:"trained_context_length"`
		Vocabulary    int    `json:"vocabulary"`
		VectorSize    int    `json:"vector_size"`
		Tools         bool   `json:"tools"`
		Reasoning     bool   `json:"reasoning"`
		Speech        bool   `json:"speech"`
	}(i))
}
