package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/internal/panics"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/guard"
	"github.com/quern-llm/quern/go/server/host"
	"github.com/quern-llm/quern/go/server/reply"
)

// Vertex has the paths at which Vertex AI asks a container for predictions and for its health
// (https://cloud.google.com/vertex-ai/docs/predictions/custom-container-requirements). A prediction has several requests to
// other routes, as llama-server reads it: instances, each with a route in @requestFormat and the body of a request to it.
type Vertex struct {
	Predict string
	Health  string // empty: nothing but what is there anyway
	Port    int
}

// VertexOf reads what Vertex AI tells a container by its environment; nil: it does not run there.
func VertexOf(getenv func(string) string) (*Vertex, error) {
	if getenv("AIP_MODE") != "PREDICTION" {
		return nil, nil
	}
	v := &Vertex{Predict: "/predict", Port: 8080}
	for name, path := range map[string]*string{"AIP_PREDICT_ROUTE": &v.Predict, "AIP_HEALTH_ROUTE": &v.Health} {
		if s := getenv(name); s != "" {
			*path = "/" + strings.TrimPrefix(s, "/")
		}
	}
	if s := getenv("AIP_HTTP_PORT"); s != "" {
		port, err := strconv.ParseUint(s, 10, 16)
		if err != nil || port == 0 {
			return nil, fmt.Errorf("AIP_HTTP_PORT is %q, want a port from 1 to 65535", s)
		}
		v.Port = int(port)
	}
	return v, nil
}

// mostInstances is the most requests that a prediction may have, llama-server's number.
const mostInstances = 128

// inside is the path at which e itself has predictions: gin's paths cannot have the colon of Vertex AI's own.
const inside = "/predict"

// Handler adds predictions to e, whose other routes have a prefix, and returns a handler of what Vertex AI asks and of all
// else that e answers. A prediction is authorized and logged as other requests are, and so is each of its requests, which go
// through all of e with the headers of the whole, width of them at a time.
func (v *Vertex) Handler(e *gin.Engine, prefix string, width int) (http.Handler, error) {
	formats := map[string]string{}
	predict, probe := slices.Contains(host.Probes, strings.TrimPrefix(v.Predict, prefix)), v.Health == v.Predict
	for _, r := range e.Routes() {
		path := strings.TrimPrefix(r.Path, prefix)
		predict = predict || r.Method == http.MethodPost && matches(r.Path, v.Predict)
		probe = probe || r.Method == http.MethodGet && path != health && matches(r.Path, v.Health)
		if r.Method != http.MethodPost || strings.ContainsAny(path, ":*") {
			continue
		}
		formats[path] = r.Path
		// /v1/completions and /completions have one name, which is the former's.
		if name := camel(path); formats[name] == "" || strings.HasPrefix(path, "/v1/") {
			formats[name] = r.Path
		}
	}
	switch {
	case predict:
		return nil, fmt.Errorf("AIP_PREDICT_ROUTE is %s, which is another route of this server", v.Predict)
	case probe:
		return nil, fmt.Errorf("AIP_HEALTH_ROUTE is %s, which is another route of this server", v.Health)
	}
	e.POST(inside, func(c *gin.Context) { answerPrediction(c, e, formats, prefix, width) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		to := ""
		switch {
		case r.URL.Path == v.Predict:
			to = inside
		case v.Health != "" && r.URL.Path == v.Health:
			to = prefix + health
		}
		if to != "" {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = to, ""
		}
		e.ServeHTTP(w, r)
	}), nil
}

// health is the route that says whether the server answers.
const health = "/health"

// matches reports whether a path is one of a route of gin.
func matches(route, path string) bool {
	want, have := strings.Split(route, "/"), strings.Split(path, "/")
	for i, part := range want {
		switch {
		case strings.HasPrefix(part, "*"):
			return true
		case i >= len(have) || part != have[i] && !strings.HasPrefix(part, ":"):
			return false
		}
	}
	return len(want) == len(have)
}

// camel is llama-server's name of a path: /v1/chat/completions is chatCompletions.
func camel(path string) string {
	words := strings.FieldsFunc(strings.TrimPrefix(path, "/v1"), func(r rune) bool { return r == '/' || r == '-' || r == '_' })
	for i, word := range words {
		if i > 0 {
			words[i] = string(unicode.ToUpper(rune(word[0]))) + word[1:]
		}
	}
	return strings.Join(words, "")
}

// answerPrediction answers a prediction: the answers to its requests in their order, errors among them. If all fail, so does
// it, as the first of them.
func answerPrediction(c *gin.Context, e *gin.Engine, formats map[string]string, prefix string, width int) {
	refuse := func(status int, format string, args ...any) {
		c.AbortWithStatusJSON(status, (&reply.Error{Status: status, Message: fmt.Sprintf(format, args...)}).Body())
	}
	body, err := io.ReadAll(c.Request.Body)
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", large.Limit)
		return
	} else if err != nil {
		refuse(http.StatusBadRequest, "the body cannot be read: %.200s", err)
		return
	}
	var all struct {
		Instances []json.RawMessage `json:"instances"`
	}
	switch err := json.Unmarshal(body, &all); {
	case err != nil:
		refuse(http.StatusBadRequest, "the body is no JSON object with a list of instances: %.200s", err)
		return
	case len(all.Instances) == 0:
		refuse(http.StatusBadRequest, "instances: missing or empty, want a list of requests")
		return
	case len(all.Instances) > mostInstances:
		refuse(http.StatusBadRequest, "instances: %d requests, want at most %d", len(all.Instances), mostInstances)
		return
	}
	answers := make([]*recorder, len(all.Instances))
	_ = panics.Share(max(width, 1), len(all.Instances), func(i int) error {
		to := &recorder{header: http.Header{}, status: http.StatusOK}
		answers[i] = to
		path, request, err := instance(all.Instances[i], formats, prefix)
		if err != nil {
			to.fail(http.StatusBadRequest, err.Error())
			return nil
		}
		one := c.Request.Clone(c.Request.Context())
		one.URL.Path, one.URL.RawPath = path, ""
		one.Body, one.ContentLength, one.TransferEncoding = io.NopCloser(bytes.NewReader(request)), int64(len(request)), nil
		one.Header.Del("Content-Encoding")
		one.Header.Del("Accept-Encoding")
		one.Header.Set("Content-Type", "application/json")
		one.Header.Set("X-Request-Id", fmt.Sprintf("%s.%d", c.GetString(guard.RequestID), i))
		if panics.Catch(func() error { e.ServeHTTP(to, one); return nil }) != nil { // it was logged below
			to.fail(http.StatusInternalServerError, "internal error")
		}
		return nil
	})
	if !slices.ContainsFunc(answers, func(r *recorder) bool { return r.status < 400 }) {
		first := answers[0]
		for _, name := range []string{"Retry-After", "Www-Authenticate"} {
			if value := first.header.Get(name); value != "" {
				c.Header(name, value)
			}
		}
		c.Data(first.status, "application/json; charset=utf-8", first.json())
		return
	}
	predictions := make([]json.RawMessage, len(answers))
	for i, r := range answers {
		predictions[i] = r.json()
	}
	c.JSON(http.StatusOK, gin.H{"predictions": predictions})
}

// fail writes an error as OpenAI's clients read it, in place of what was written.
func (r *recorder) fail(status int, message string) {
	body, err := json.Marshal((&reply.Error{Status: status, Message: message}).Body())
	if err != nil {
		panic(err)
	}
	r.status = status
	r.body.Reset()
	r.body.Write(body)
}

// json is what was written; a text that is no JSON is a string.
func (r *recorder) json() json.RawMessage {
	if json.Valid(r.body.Bytes()) {
		return r.body.Bytes()
	}
	s, err := json.Marshal(r.body.String())
	if err != nil {
		panic(err)
	}
	return s
}

// instance returns the path and the body of a request of a prediction.
func instance(text json.RawMessage, formats map[string]string, prefix string) (path string, body []byte, err error) {
	const name = "@requestFormat"
	var fields map[string]json.RawMessage
	if json.Unmarshal(text, &fields) != nil || fields == nil {
		return "", nil, errors.New("an instance is no object")
	}
	var format string
	if json.Unmarshal(fields[name], &format) != nil || format == "" {
		return "", nil, errors.New(name + ": missing or no text, want a route such as chatCompletions")
	}
	path, ok := formats[format]
	if !ok {
		return "", nil, fmt.Errorf("%s: no route %s", name, field.Quote(format))
	}
	delete(fields, name)
	if _, asked := fields["stream"]; asked || strings.HasPrefix(path, prefix+"/api/") { // Ollama's stream by themselves
		fields["stream"] = json.RawMessage("false")
	}
	body, err = json.Marshal(fields)
	return path, body, err
}
