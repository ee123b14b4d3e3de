package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/quern-llm/quern/go/chat"
	"github.com/quern-llm/quern/go/hub"
	"github.com/quern-llm/quern/go/persona"
)

// A Shelf is a Library whose downloads last until they are let go on, if there is something to wait for. It has no
// "none" and nothing of "unauthorized", no file of "hostile" is well-formed, and nothing can be copied to "taken".
type Shelf struct {
	Begun, GoOn chan struct{}
	Ended       chan error    // of each pull
	Progress    *hub.Progress // of each pull before it waits; nil: half of a file
	Fails       error         // of each pull, at its end

	Created []*persona.Persona
}

func (s *Shelf) Resolve(_ context.Context, ref hub.Ref) (*hub.Plan, error) {
	if strings.Contains(ref.Repo, "none") {
		return nil, fmt.Errorf("%s: %w", ref, &hub.StatusError{Status: http.StatusNotFound})
	}
	if strings.Contains(ref.Repo, "unauthorized") {
		return nil, fmt.Errorf("%s: %w", ref, &hub.StatusError{Status: http.StatusUnauthorized})
	}
	return &hub.Plan{Ref: ref}, nil
}

func (s *Shelf) Pull(ctx context.Context, plan *hub.Plan, _ string, progress func(hub.Progress)) error {
	if strings.Contains(plan.Ref.Repo, "hostile") {
		panic("a file found a bug")
	}
	if s.GoOn == nil {
		return s.Fails
	}
	far := hub.Progress{Stage: hub.Downloading, Files: []hub.FileProgress{
		{Name: "a.gguf", URL: "https://x/a.gguf", SHA256: strings.Repeat("a", 64), Done: 5, Total: 10},
	}}
	if s.Progress != nil {
		far = *s.Progress
	}
	progress(far)
	s.Begun <- struct{}{}
	var err error
	select {
	case <-ctx.Done():
		err = ctx.Err()
	case <-s.GoOn:
	}
	s.Ended <- err
	return err
}

func (s *Shelf) Remove(_ context.Context, name string) error {
	if s.GoOn != nil {
		return fmt.Errorf("%s: %w", name, hub.ErrNotFound)
	}
	return nil
}

func (s *Shelf) Copy(_ context.Context, from, to string) error {
	switch {
	case from == "none":
		return fmt.Errorf("%s: %w", from, hub.ErrNotFound)
	case to == "taken":
		return errors.New("the name is taken")
	}
	return nil
}

// Create implements catalog.Library.
func (s *Shelf) Create(_ context.Context, p *persona.Persona) error {
	s.Created = append(s.Created, p)
	return nil
}

func (s *Shelf) Find(name string) (*hub.Model, error) {
	return nil, fmt.Errorf("%s: %w", name, hub.ErrNotFound)
}

// Definitions of tools.
const (
	WeatherTool = `{"type":"function","function":{"name":"get_weather","description":"The weather",` +
		`"parameters":{"type":"object","properties":{"place":{"type":"string"}},"required":["place"]}}}`
	TimeTool = `{"type":"function","function":{"name":"get_time"}}`
)

// Calls is an answer that calls both tools.
const Calls = "Let me see.\n\n<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"place\": " +
	"\"Rome\"}}\n</tool_call>\n<tool_call>\n{\"name\": \"get_time\"}\n</tool_call>"

// Weather is a toolbox of one tool.
type Weather struct{}

func (Weather) Specs() []json.RawMessage { return []json.RawMessage{json.RawMessage(WeatherTool)} }

func (Weather) Server(tool string) string {
	return map[string]string{"get_weather": "sky"}[tool]
}

func (Weather) Known(tool string) string { return tool }

func (w Weather) Answer(ctx context.Context, name, arguments string) (chat.Content, bool, error) {
	if strings.Contains(arguments, "nothing") {
		return chat.Text("error: no such place"), true, nil
	}
	c, err := w.Call(ctx, name, arguments)
	return c, false, err
}

func (Weather) Call(ctx context.Context, name, arguments string) (chat.Content, error) {
	switch {
	case strings.Contains(arguments, "nowhere"):
		return chat.Content{}, errors.New("the connection is closed")
	case strings.Contains(arguments, "slow"):
		<-ctx.Done()
		return chat.Content{}, ctx.Err()
	case strings.Contains(arguments, "shown"):
		return chat.Content{Parts: []chat.Part{{Text: "sunny"}, {Medium: &chat.Medium{Kind: chat.Picture, Data: []byte("PNG")}}}}, nil
	}
	return chat.Text(name + arguments), nil
}
