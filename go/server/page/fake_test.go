package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// A request is what the page asked for.
type request struct {
	Model         string
	Messages      []turn
	Stream        bool
	StreamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	} `json:"stream_options"`
	Temperature   *float64
	TopK          *int     `json:"top_k"`
	TopP          *float64 `json:"top_p"`
	MinP          *float64 `json:"min_p"`
	RepeatPenalty *float64 `json:"repeat_penalty"`
	MaxTokens     *int     `json:"max_tokens"`
	Seed          *int

	authorization string
}

type turn struct {
	Role    string
	Content said
}

// said is content as one text, with the types and beginnings of URLs of its media.
type said string

func (c *said) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return json.Unmarshal(data, (*string)(c))
	}
	var parts []struct {
		Type  string
		Text  string
		Image struct{ URL string } `json:"image_url"`
		Audio struct{ URL string } `json:"audio_url"`
	}
	err := json.Unmarshal(data, &parts)
	for _, p := range parts {
		if p.Type == "text" {
			*c += said(p.Text)
			continue
		}
		*c += said("<" + p.Type + " " + p.Image.URL + p.Audio.URL + ">")
	}
	return err
}

// last returns the text that is to be answered.
func (r request) last() string { return string(r.Messages[len(r.Messages)-1].Content) }

// A server speaks the API with an answer that a test scripts.
type server struct {
	*httptest.Server

	mu       sync.Mutex
	answer   func(*stream) // echo, if nil
	vectors  bool          // stone-8b does not chat
	hears    bool          // stone-1b takes sounds
	loading  int           // how many requests are yet to be told that the model loads
	key      string        // wanted, if not empty
	requests []request
}

func newServer(t *testing.T, answer func(*stream)) *server {
	return newServerAt(t, "", answer)
}

func newServerAt(t *testing.T, prefix string, answer func(*stream)) *server {
	s := &server{answer: answer}
	mux := http.NewServeMux()
	mux.Handle("GET /{$}", Handler())
	mux.Handle("GET /assets/", Handler())
	mux.Handle("GET /sw.js", Handler())
	mux.HandleFunc("GET /v1/models", s.guarded(func(w http.ResponseWriter, r *http.Request) {
		gives := "text"
		if s.vectors {
			gives = "embeddings"
		}
		takes := "text"
		if s.hears {
			takes = "audio"
		}
		fmt.Fprintf(w, `{"object":"list","data":[{"id":"stone-1b","object":"model","architecture":{"input_modalities":[%q],"output_modalities":["text"]}},`+
			`{"id":"stone-8b","object":"model","architecture":{"input_modalities":["text","image"],"output_modalities":[%q]}}]}`, takes, gives)
	}))
	mux.HandleFunc("GET /props", s.guarded(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"default_generation_settings":{"n_ctx":4096,"params":{"temperature":0.800000011920929,"top_k":40,"top_p":0.95}}}`)
	}))
	mux.HandleFunc("POST /v1/chat/completions", s.guarded(s.chat))
	s.Server = httptest.NewServer(http.StripPrefix(prefix, mux))
	s.URL += prefix + "/"
	t.Cleanup(func() {
		s.CloseClientConnections() // of browsers that keep them open
		s.Close()
	})
	return s
}

// script changes how answers are written from now on.
func (s *server) script(answer func(*stream)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// seen returns the requests for answers so far.
func (s *server) seen() []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]request(nil), s.requests...)
}

func (s *server) guarded(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		key, loading := s.key, s.loading > 0
		if loading {
			s.loading--
		}
		s.mu.Unlock()
		switch {
		case key != "" && r.Header.Get("Authorization") != "Bearer "+key:
			refuse(w, http.StatusUnauthorized, "authentication_error", "Invalid API key")
		case loading:
			refuse(w, http.StatusServiceUnavailable, "unavailable_error", "Loading model")
		default:
			h(w, r)
		}
	}
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"code": status, "message": message, "type": kind}})
}

func (s *server) chat(w http.ResponseWriter, r *http.Request) {
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request_error", err.Error())
		return
	}
	req.authorization = r.Header.Get("Authorization")
	s.mu.Lock()
	s.requests = append(s.requests, req)
	answer := s.answer
	s.mu.Unlock()
	if !req.Stream || !req.StreamOptions.IncludeUsage {
		refuse(w, http.StatusBadRequest, "invalid_request_error", "this server only streams, with usage")
		return
	}
	st := &stream{w: w, r: r, request: req}
	if answer == nil {
		st.say("You said: ", req.last())
		st.finish("stop")
		return
	}
	answer(st)
}

// A stream is one answer on its way.
type stream struct {
	request request
	w       http.ResponseWriter
	r       *http.Request
	started time.Time
	tokens  int
}

func (s *stream) send(v any) {
	if s.started.IsZero() {
		s.started = time.Now()
		s.w.Header().Set("Content-Type", "text/event-stream")
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	fmt.Fprintf(s.w, "data: %s\n\n", data)
	s.w.(http.Flusher).Flush()
}

func (s *stream) chunk(delta map[string]any, reason any) map[string]any {
	return map[string]any{
		"object":  "chat.completion.chunk",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": reason}},
	}
}

func (s *stream) piece(kind, text string) {
	s.tokens++
	s.send(s.chunk(map[string]any{kind: text}, nil))
}

// say sends pieces of the answer, think pieces of the reasoning before it.
func (s *stream) say(pieces ...string) {
	for _, p := range pieces {
		s.piece("content", p)
	}
}

func (s *stream) think(pieces ...string) {
	for _, p := range pieces {
		s.piece("reasoning_content", p)
	}
}

// await waits until the test goes on, or the client is gone.
func (s *stream) await(release <-chan bool) {
	select {
	case <-release:
	case <-s.r.Context().Done():
	}
}

// hang waits until the client goes, and says that it did.
func (s *stream) hang() bool {
	select {
	case <-s.r.Context().Done():
		return true
	case <-time.After(time.Minute):
		return false
	}
}

// finish ends the answer as a server does: the reason, the numbers, the mark of the end.
func (s *stream) finish(reason string) {
	s.send(s.chunk(map[string]any{}, reason))
	s.send(map[string]any{
		"choices": []any{},
		"usage":   map[string]any{"prompt_tokens": 1200, "completion_tokens": s.tokens, "total_tokens": 1200 + s.tokens},
		"timings": map[string]any{
			"cache_n": 1000, "prompt_n": 200, "prompt_ms": 400.0, "prompt_per_second": 500.0,
			"predicted_n": s.tokens, "predicted_ms": 80.0 * float64(s.tokens), "predicted_per_second": 12.5,
		},
	})
	fmt.Fprint(s.w, "data: [DONE]\n\n")
}
