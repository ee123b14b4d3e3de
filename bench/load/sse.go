package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/openai/openai-go/v3/packages/ssestream"
)

// Bounds of what a server may send.
const (
	maxStream = 256 << 20
	maxPlain  = 1 << 20 // of a body that is no stream
)

// A stream is what came of an answer so far.
type stream struct {
	pieces    []time.Time // when text came, in whatever field
	text      string      // the answer
	reasoning string      // what was thought before
	finish    string
	usage     *usage
	done      time.Time // when the end came, zero before
}

// usage is what the server counted.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// A chunk is an event of a stream, of either API.
type chunk struct {
	Choices []struct {
		Text  string
		Delta struct {
			Content          string
			ReasoningContent string `json:"reasoning_content"`
			Reasoning        string
			ToolCalls        []json.RawMessage `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *usage
	Error json.RawMessage
}

// read takes events until the stream ends. Whatever came before an error stays.
func (s *stream) read(r io.Reader) error {
	var text, reasoning strings.Builder
	defer func() { s.text, s.reasoning = text.String(), reasoning.String() }()
	// OpenAI's own decoder: it takes a response, of which only the body matters.
	events := ssestream.NewDecoder(&http.Response{Body: io.NopCloser(io.LimitReader(r, maxStream))})
	for events.Next() {
		now := time.Now()
		data := bytes.TrimSpace(events.Event().Data)
		if !s.done.IsZero() { // what comes now only ends the body
			continue
		}
		if string(data) == "[DONE]" {
			s.done = now
			continue
		}
		var c chunk
		if err := json.Unmarshal(data, &c); err != nil {
			return &failure{"not a chunk", fmt.Sprintf("%v in %q", err, head(string(data)))}
		}
		if len(c.Error) > 0 && string(c.Error) != "null" {
			return &failure{"error in the stream", serverMessage(data)}
		}
		if c.Usage != nil {
			s.usage = c.Usage
		}
		for _, choice := range c.Choices {
			d := choice.Delta
			said, thought := choice.Text+d.Content, d.ReasoningContent+d.Reasoning
			text.WriteString(said)
			reasoning.WriteString(thought)
			if said+thought != "" || len(d.ToolCalls) > 0 {
				s.pieces = append(s.pieces, now)
			}
			if choice.FinishReason != "" {
				s.finish = choice.FinishReason
			}
		}
	}
	switch err := events.Err(); {
	case s.done.IsZero() && err != nil:
		return &failure{"cut off", err.Error()}
	case s.done.IsZero():
		return &failure{"cut off", "the stream ended without [DONE]"}
	case s.finish == "":
		return &failure{"cut off", "the stream ended without a finish_reason"}
	}
	return nil
}

// serverMessage is the text of an error as servers word it.
func serverMessage(b []byte) string {
	var wrapped struct{ Error struct{ Message string } }
	if json.Unmarshal(b, &wrapped) == nil && wrapped.Error.Message != "" {
		return head(wrapped.Error.Message)
	}
	var plain struct{ Error, Message, Detail string }
	if json.Unmarshal(b, &plain) == nil && plain.Error+plain.Message+plain.Detail != "" {
		return head(plain.Error + plain.Message + plain.Detail)
	}
	return head(string(bytes.TrimSpace(b)))
}

// head is the beginning of s, for a line of text.
func head(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}
