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

// Limits on server responses.
const (
	maxStream = 256 << 20
	maxPlain  = 1 << 20 // of a body that is not a stream
)

// A stream is the part of an answer received so far.
type stream struct {
	pieces    []time.Time // arrival times of text, in any field
	text      string      // the answer
	reasoning string      // reasoning before the answer
	finish    string
	usage     *usage
	done      time.Time // when the stream ended, else zero
}

// usage is the server's token counts.
type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Details    *struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// A chunk is an event of a stream, in either API.
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

// read reads events until the stream ends. What came before an error is kept.
func (s *stream) read(r io.Reader) error {
	var text, reasoning strings.Builder
	defer func() { s.text, s.reasoning = text.String(), reasoning.String() }()
	// The decoder of OpenAI's client library: it takes a response, but uses only its
	// body.
	events := ssestream.NewDecoder(&http.Response{Body: io.NopCloser(io.LimitReader(r, maxStream))})
	for events.Next() {
		now := time.Now()
		data := bytes.TrimSpace(events.Event().Data)
		if !s.done.IsZero() { // further data only ends the body
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

// serverMessage extracts the message of an error in any server's format.
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

// head truncates s for a line of text.
func head(s string) string {
	const most = 200
	if len(s) > most {
		s = s[:most] + "..."
	}
	return s
}
