package main

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/quern-llm/quern"
)

// A talk is what a call makes with an open model: events in JSON, the last of which has everything.
type talk func(context.Context, *quern.Model) iter.Seq2[[]byte, error]

// readTalk reads the request of a call: of a model, or of a session.
func readTalk(s *session, text string) (talk, error) {
	if s != nil {
		var turn struct {
			Messages []json.RawMessage `json:"messages"`
		}
		if err := decode("the request of a session, whose options are its own", text, &turn); err != nil {
			return nil, err
		}
		if turn.Messages == nil {
			return nil, invalid("want messages")
		}
		messages, err := readMessages(turn.Messages)
		return func(ctx context.Context, _ *quern.Model) iter.Seq2[[]byte, error] {
			return encoded(s.Chat(ctx, messages...))
		}, err
	}
	var kind struct{ Audio json.RawMessage }
	if json.Unmarshal([]byte(text), &kind) == nil && orNil(kind.Audio) != nil {
		return readSpeech(text)
	}
	r, err := readRequest(text)
	return func(ctx context.Context, open *quern.Model) iter.Seq2[[]byte, error] {
		return encoded(open.Chat(ctx, r))
	}, err
}

// encoded returns events in JSON.
func encoded(events iter.Seq2[quern.Event, error]) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for e, err := range events {
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(eventJSON(e), nil) {
				return
			}
		}
	}
}

// A file comes in base64.
type file []byte

func (f *file) UnmarshalJSON(data []byte) error {
	if json.Unmarshal(data, (*[]byte)(f)) != nil {
		return invalid("audio: want a file in base64")
	}
	return nil
}

// readSpeech reads a request to write down what is said.
func readSpeech(text string) (talk, error) {
	var r struct {
		Audio       file            `json:"audio"`
		Language    string          `json:"language"`
		Translate   bool            `json:"translate"`
		Prompt      string          `json:"prompt"`
		Independent bool            `json:"independent"`
		Temperature *float64        `json:"temperature"`
		Priority    int             `json:"priority"`
		Model       json.RawMessage `json:"model"`
	}
	if err := decode("the request", text, &r); err != nil {
		return nil, err
	}
	speech := quern.Speech{
		Audio: r.Audio, Language: r.Language, Translate: r.Translate, Prompt: r.Prompt, Independent: r.Independent,
		Temperature: r.Temperature, Priority: r.Priority,
	}
	return func(ctx context.Context, open *quern.Model) iter.Seq2[[]byte, error] {
		return func(yield func([]byte, error) bool) {
			all := []segment{}
			for s, err := range open.Transcribe(ctx, speech) {
				if err != nil {
					yield(nil, err)
					return
				}
				all = append(all, segmentOf(s))
				if !yield(segmentJSON(all[len(all)-1]), nil) {
					return
				}
			}
			yield(transcriptJSON(all), nil)
		}
	}, nil
}
