package main

import (
	"encoding/json"
	"maps"
	"math/rand/v2"
	"strings"
)

// Request bodies that every server must refuse.
var malformed = []string{
	``,
	`{"model":`,
	`["not an object"]`,
	`{"messages": 7, "prompt": {"not": "text"}, "max_tokens": 1}`,
	`{"messages": [{"role": "user", "content": "x"}], "prompt": "x", "max_tokens": "many"}`,
	strings.Repeat("[", 1<<16),
}

// A message is a chat message.
type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

// A dialogue is the state of a conversation.
type dialogue struct {
	c        *config
	model    string
	seed     int
	messages []message
}

// begin starts the conversation of an arrival.
func (c *config) begin(a arrival, model, prefix string) *dialogue {
	d := &dialogue{c: c, model: model, seed: a.id}
	if a.prefix {
		d.messages = append(d.messages, message{"system", prefix})
	}
	return d
}

// prefix returns the shared prefix of requests.
func (c *config) prefix(w words) string {
	return w.text(rand.New(rand.NewPCG(c.seed, streamPrefix)), c.prefixWords)
}

func (d *dialogue) say(role, text string) {
	d.messages = append(d.messages, message{role, text})
}

// body is the request for the next answer.
func (d *dialogue) body(maxTokens int) []byte {
	body := map[string]any{
		"model":          d.model,
		"stream":         true,
		"stream_options": map[string]any{"include_usage": true},
		"temperature":    d.c.temperature,
		"seed":           d.seed,
		"max_tokens":     maxTokens,
	}
	if d.c.api == "chat" {
		body["messages"] = d.messages
	} else {
		var texts []string
		for _, m := range d.messages {
			texts = append(texts, m.Content)
		}
		body["prompt"] = strings.Join(texts, "\n\n")
	}
	maps.Copy(body, d.c.extra)
	b, err := json.Marshal(body)
	if err != nil {
		panic(err) // unreachable: strings, finite numbers, and valid JSON
	}
	return b
}
