package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
)

// A request is one that clients send. Its answer is the same each time.
type request struct {
	kind string
	path string
	body []byte
	next []byte // the body that goes on from the response, with %s for its id
	wait bool   // the response is made in the background, and asked for
	want int    // the status; not 200 for nonsense
	also []int  // statuses that it may have besides, whatever happens
}

// hash names what decides the answer.
func (r *request) hash() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%s\n%s\n%t", r.path, r.body, r.next, r.wait)
	return hex.EncodeToString(h.Sum(nil)[:12])
}

func (r *request) streams() bool {
	var v struct{ Stream bool }
	return json.Unmarshal(r.body, &v) == nil && v.Stream
}

// textModels are those that write; vectors is the one that does not. They are the same weights in other files and
// forms, and an adapter.
var textModels = []string{"demo", "demo", "demo", "packed", "small", "poet"}

// loose is the adapter that is loaded and unloaded all the time: nobody who asks for it can know whether it is there.
const loose = "bard"

var words = strings.Fields(`once upon a time there was a little girl named Lily who loved to play with her red ball in the park and one day
	she saw a big dog that was sad because it had lost its bone so they looked under the old tree and behind the house until the sun went down`)

// prompt returns some words, of which the first are the same for many.
func prompt(rng *rand.Rand, most int) string {
	n := 2 + rng.IntN(20)
	p := append([]string{}, words[:n]...)
	for range rng.IntN(max(1, most-n)) {
		p = append(p, words[rng.IntN(len(words))])
	}
	return strings.Join(p, " ")
}

type object = map[string]any

// A kind is a way to ask. Draw returns the path and the body, without what all have.
type kind struct {
	name   string
	weight int
	draw   func(rng *rand.Rand, r *request) object
}

// The kinds of requests. What reads and writes most weighs least.
var kinds = []kind{
	{"completion", 6, func(rng *rand.Rand, r *request) object {
		r.path = "/completion"
		return object{"prompt": prompt(rng, 60), "n_predict": 4 + rng.IntN(60), "stream": rng.IntN(2) == 0}
	}},
	{"drawn", 3, func(rng *rand.Rand, r *request) object {
		r.path = "/completion"
		return object{"prompt": prompt(rng, 40), "n_predict": 4 + rng.IntN(60), "temperature": 0.9, "seed": rng.IntN(1000), "stream": rng.IntN(2) == 0}
	}},
	{"several", 2, func(rng *rand.Rand, r *request) object {
		r.path = "/v1/completions"
		return object{"prompt": prompt(rng, 40), "max_tokens": 4 + rng.IntN(30), "n": 3, "temperature": 0.8, "seed": rng.IntN(1000), "stream": rng.IntN(2) == 0}
	}},
	{"chat", 8, func(rng *rand.Rand, r *request) object {
		r.path = "/v1/chat/completions"
		return chat(object{"max_tokens": 4 + rng.IntN(60), "stream": rng.IntN(2) == 0}, prompt(rng, 60))
	}},
	{"conversation", 3, func(rng *rand.Rand, r *request) object {
		r.path = "/v1/chat/completions"
		return chat(object{"max_tokens": 4 + rng.IntN(40), "stream": true}, prompt(rng, 20), prompt(rng, 20), prompt(rng, 20))
	}},
	{"long prompt", 2, func(rng *rand.Rand, r *request) object {
		r.path = "/v1/chat/completions"
		p := prompt(rng, 20)
		for range 500 {
			p += " " + words[rng.IntN(len(words))]
		}
		return chat(object{"max_tokens": 4 + rng.IntN(20), "stream": true}, p)
	}},
	{"beginning in common", 3, func(rng *rand.Rand, r *request) object {
		r.path = "/completion"
		return object{"prompt": strings.Repeat(strings.Join(words, " ")+" ", 4) + prompt(rng, 20), "n_predict": 8, "stream": true}
	}},
	{"json schema", 3, func(rng *rand.Rand, r *request) object {
		r.path = "/v1/chat/completions"
		return chat(object{"max_tokens": 60, "stream": rng.IntN(2) == 0, "response_format": object{"type": "json_schema", "json_schema": object{
			"name": "animal", "schema": object{"type": "object", "required": []string{"kind", "n"}, "additionalProperties": false,
				"properties": object{"kind": object{"enum": []string{"dog", "cat", words[rng.IntN(len(words))]}}, "n": object{"type": "integer", "maximum": 99}}},
		}}}, prompt(rng, 20))
	}},
	{"grammar", 2, func(rng *rand.Rand, r *request) object {
		r.path = "/completion"
		return object{"prompt": prompt(rng, 20), "n_predict": 40, "grammar": `root ::= "I " ("saw " | "like ") [a-z ]{1,20} "."`, "stream": rng.IntN(2) == 0}
	}},
	{"tools", 3, func(rng *rand.Rand, r *request) object {
		r.path = "/v1/chat/completions"
		return chat(object{"max_tokens": 60, "stream": rng.IntN(2) == 0, "tool_choice": []string{"auto", "required"}[rng.IntN(2)], "tools": []object{{
			"type": "function", "function": object{"name": "count", "parameters": object{
				"type": "object", "required": []string{"n"}, "properties": object{"n": object{"type": "integer"}}}},
		}}}, prompt(rng, 20))
	}},
	{"messages", 3, func(rng *rand.Rand, r *request) object {
		r.path = "/v1/messages"
		return chat(object{"max_tokens": 4 + rng.IntN(40), "stream": rng.IntN(2) == 0}, prompt(rng, 40))
	}},
	{"ollama", 2, func(rng *rand.Rand, r *request) object {
		r.path = "/api/chat"
		return chat(object{"options": object{"temperature": 0, "num_predict": 4 + rng.IntN(40)}, "stream": rng.IntN(2) == 0}, prompt(rng, 40))
	}},
	{"embeddings", 4, func(rng *rand.Rand, r *request) object {
		r.path = "/v1/embeddings"
		return object{"model": "vectors", "input": []string{prompt(rng, 40), prompt(rng, 10)}}
	}},
	{"response", 3, func(rng *rand.Rand, r *request) object {
		r.path = "/v1/responses"
		return object{"input": prompt(rng, 40), "max_output_tokens": 4 + rng.IntN(40), "stream": rng.IntN(2) == 0, "store": rng.IntN(2) == 0}
	}},
	{"response that goes on", 2, func(rng *rand.Rand, r *request) object {
		r.path = "/v1/responses"
		b := object{"input": prompt(rng, 20), "max_output_tokens": 4 + rng.IntN(20)}
		r.next = marshal(object{"model": "demo", "input": prompt(rng, 20), "max_output_tokens": 4 + rng.IntN(20), "temperature": 0, "previous_response_id": "%s"})
		b["model"] = "demo"
		return b
	}},
	{"response in the background", 2, func(rng *rand.Rand, r *request) object {
		r.path, r.wait = "/v1/responses", true
		return object{"input": prompt(rng, 20), "max_output_tokens": 4 + rng.IntN(60), "background": true}
	}},
	{"adapter that comes and goes", 1, func(rng *rand.Rand, r *request) object {
		r.path, r.also = "/v1/chat/completions", []int{404}
		return chat(object{"model": loose, "max_tokens": 4 + rng.IntN(30)}, prompt(rng, 20))
	}},
	{"nonsense", 2, func(rng *rand.Rand, r *request) object {
		r.path, r.want = "/v1/chat/completions", 400
		return []object{
			{"messages": "x"}, {"messages": []object{}, "max_tokens": -5},
			chat(object{"temperature": "hot"}, "x"), chat(object{"response_format": object{"type": "json_schema", "json_schema": object{"schema": object{"type": 7}}}}, "x"),
			chat(nil, strings.Repeat("dog ", 3000)),
		}[rng.IntN(5)]
	}},
}

// chat adds messages to a body, of a user and what was answered, in turns.
func chat(b object, texts ...string) object {
	if b == nil {
		b = object{}
	}
	var all []object
	for i, t := range texts {
		all = append(all, object{"role": []string{"user", "assistant"}[i%2], "content": t})
	}
	b["messages"] = all
	return b
}

func marshal(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // of maps, texts and numbers
	}
	return b
}

// drawRequest draws one of the kinds.
func drawRequest(rng *rand.Rand) *request {
	total := 0
	for _, k := range kinds {
		total += k.weight
	}
	at := rng.IntN(total)
	for _, k := range kinds {
		if at -= k.weight; at >= 0 {
			continue
		}
		r := &request{kind: k.name, want: 200}
		b := k.draw(rng, r)
		model := textModels[rng.IntN(len(textModels))]
		if _, ok := b["model"]; !ok {
			b["model"] = model
		}
		if _, ok := b["temperature"]; !ok && r.path != "/v1/embeddings" && r.path != "/api/chat" {
			b["temperature"] = 0
		}
		if rng.IntN(8) == 0 && r.path == "/completion" {
			b["priority"] = 5
		}
		r.body = marshal(b)
		return r
	}
	panic("unreachable")
}
