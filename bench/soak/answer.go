package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxAnswer bounds what is read of an answer.
const maxAnswer = 64 << 20

// An answer is what came of a request. Its fields are what a model has said, by their path in the JSON of any API, put
// together where it came in pieces: numbers and ids that differ each time are not among them.
type answer struct {
	status   int
	fields   map[string]string
	finished bool          // the end has come, in the way of its API
	message  string        // of an error
	code     int           // of an error within a stream
	id       string        // of a response
	state    string        // of a response
	err      error         // why there was no more
	left     bool          // the client went
	first    time.Duration // until the first event of a stream
	gaps     []time.Duration
}

// said are the keys of what a model says, in all APIs.
var said = map[string]bool{
	"content": true, "text": true, "reasoning_content": true, "reasoning": true, "thinking": true, "name": true, "arguments": true,
	"partial_json": true, "delta": true, "embedding": true, "response": true, "score": true,
	"finish_reason": true, "stop_reason": true, "stop_type": true, "done_reason": true,
}

// collect adds what v says.
func collect(v any, path string, taken bool, into map[string]*strings.Builder) {
	add := func(s string) {
		if taken && s != "" {
			b := into[path]
			if b == nil {
				b = &strings.Builder{}
				into[path] = b
			}
			b.WriteString(s)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			collect(x, path+"."+k, said[k], into)
		}
	case []any:
		for i, x := range v {
			if o, ok := x.(map[string]any); ok { // choices come in any order
				if n, ok := o["index"].(json.Number); ok {
					i, _ = strconv.Atoi(n.String())
				}
			}
			collect(x, fmt.Sprintf("%s[%d]", path, i), taken, into)
		}
	case string:
		add(v)
	case json.Number:
		add(v.String())
	}
}

// An assembly puts the pieces of an answer together.
type assembly struct {
	a    *answer
	into map[string]*strings.Builder
}

// take adds a value, which is all of an answer, or an event.
func (s *assembly) take(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("%w in %.100q", err, b)
	}
	path := ""
	if o, ok := v.(map[string]any); ok {
		if n, ok := o["index"].(json.Number); ok { // a block of Anthropic's
			path = n.String()
		}
		if e := o["error"]; e != nil {
			s.a.message = fmt.Sprint(e)
			if e, ok := e.(map[string]any); ok {
				s.a.message = fmt.Sprint(e["message"])
				if n, ok := e["code"].(json.Number); ok {
					s.a.code, _ = strconv.Atoi(n.String())
				}
			}
		}
		for _, key := range []string{"done", "stop"} { // of Ollama, of llama-server's completions
			if end, _ := o[key].(bool); end {
				s.a.finished = true
			}
		}
		switch kind, _ := o["type"].(string); kind {
		case "message_stop", "response.completed", "response.incomplete":
			s.a.finished = true
		case "response.failed", "error":
			if s.a.message == "" {
				s.a.message = kind
			}
		}
		if id, ok := o["id"].(string); ok {
			s.a.id = id
		}
		if state, ok := o["status"].(string); ok {
			s.a.state = state
		}
	}
	collect(v, path, false, s.into)
	return nil
}

// read reads an answer of the given content type until its end. see is called after each event of a stream, and ends it
// by false.
func (a *answer) read(kind string, r io.Reader, began time.Time, see func(n int) bool) error {
	s := assembly{a, map[string]*strings.Builder{}}
	defer func() {
		a.fields = map[string]string{}
		for path, b := range s.into {
			a.fields[path] = b.String()
		}
	}()
	sse, lines := strings.HasPrefix(kind, "text/event-stream"), strings.HasPrefix(kind, "application/x-ndjson")
	r = io.LimitReader(r, maxAnswer)
	if !sse && !lines {
		b, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		a.finished = true
		if len(bytes.TrimSpace(b)) == 0 || bytes.TrimSpace(b)[0] != '{' && bytes.TrimSpace(b)[0] != '[' {
			a.message = string(b)
			return nil
		}
		return s.take(b)
	}
	last := began
	in := bufio.NewReader(r)
	for n := 0; ; {
		line, err := in.ReadBytes('\n')
		data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:"))
		if lines {
			data, ok = bytes.TrimSpace(line), true
		}
		data = bytes.TrimSpace(data)
		switch {
		case !ok || len(data) == 0:
		case string(data) == "[DONE]":
			a.finished = true
		default:
			if err := s.take(data); err != nil {
				return err
			}
			now := time.Now()
			if n == 0 {
				a.first = now.Sub(last)
			} else {
				a.gaps = append(a.gaps, now.Sub(last))
			}
			last = now
			if n++; !see(n) {
				a.left = true
				return nil
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// text is the answer as one text.
func text(fields map[string]string) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&b, "%s=%s\n", path, fields[path])
	}
	return b.String()
}

// differs says how an answer differs from the one of a quiet server; empty if it does not. Of a part only the beginning
// is compared.
func differs(got, want map[string]string, part bool) string {
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if g, w := got[path], want[path]; g != w && !(part && strings.HasPrefix(w, g)) {
			at := 0
			for at < min(len(g), len(w)) && g[at] == w[at] {
				at++
			}
			return fmt.Sprintf("%s differs from byte %d on: %.60q, alone %.60q", path, at, g[at:], w[at:])
		}
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[path]; !ok && !part {
			return fmt.Sprintf("%s is missing, alone %.60q", path, want[path])
		}
	}
	return ""
}
