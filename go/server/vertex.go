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

// Handler answers predictions by requests to e, whose routes have a prefix, and passes all others to it. A body of a prediction has
// most bytes at most. Each request of a prediction goes through all of e with the headers of the whole: it is
// authorized, counted and logged by itself.
func (v *Vertex) Handler(e *gin.Engine, prefix string, most int64) (http.Handler, error) {
	formats := map[string]string{}
	routes := e.Routes()
	// Of paths with and without /v1 one name is made, which is the former's.
	slices.SortFunc(routes, func(a, b gin.RouteInfo) int { return strings.Compare(b.Path, a.Path) })
	for _, r := range routes {
		if r.Path == v.Predict {
			return nil, fmt.Errorf("AIP_PREDICT_ROUTE is %s, which is another route of this server", v.Predict)
		}
		path := strings.TrimPrefix(r.Path, prefix)
		if r.Method != http.MethodPost || strings.ContainsAny(path, ":*") {
			continue
		}
		formats[path] = r.Path
		if name := camel(path); formats[name] == "" || strings.HasPrefix(path, "/v1/") {
			formats[name] = r.Path
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == v.Predict && r.Method == http.MethodPost:
			predict(w, r, e, formats, most)
		case v.Health != "" && r.URL.Path == v.Health:
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = prefix+"/health", ""
			e.ServeHTTP(w, r)
		default:
			e.ServeHTTP(w, r)
		}
	}), nil
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

// predict answers a prediction: the answers to its requests in their order, errors among them. If all fail, so does it, with the
// status of the first.
func predict(w http.ResponseWriter, r *http.Request, e *gin.Engine, formats map[string]string, most int64) {
	refuse := func(status int, format string, args ...any) {
		answerJSON(w, status, failure(status, fmt.Sprintf(format, args...)))
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, most))
	if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
		refuse(http.StatusRequestEntityTooLarge, "the body has more than %d bytes", most)
		return
	} else if err != nil {
		return // the client is gone, or slow
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
	status := make([]int, len(all.Instances))
	answers := make([]json.RawMessage, len(all.Instances))
	_ = panics.Each(len(all.Instances), func(i int) error {
		path, request, err := instance(all.Instances[i], formats)
		if err != nil {
			status[i], answers[i] = http.StatusBadRequest, failure(http.StatusBadRequest, err.Error())
			return nil
		}
		status[i], answers[i] = http.StatusInternalServerError, failure(http.StatusInternalServerError, "internal error") // if it panics
		one := r.Clone(r.Context())
		one.URL.Path, one.URL.RawPath = path, ""
		one.Body, one.ContentLength, one.TransferEncoding = io.NopCloser(bytes.NewReader(request)), int64(len(request)), nil
		one.Header.Del("Content-Encoding")
		one.Header.Del("Accept-Encoding")
		one.Header.Set("Content-Type", "application/json")
		to := &recorder{header: http.Header{}, status: http.StatusOK}
		e.ServeHTTP(to, one)
		status[i], answers[i] = to.status, to.body.Bytes()
		if !json.Valid(answers[i]) {
			answers[i], _ = json.Marshal(to.body.String())
		}
		return nil
	})
	if !slices.ContainsFunc(status, func(s int) bool { return s < 400 }) {
		answerJSON(w, status[0], answers[0])
		return
	}
	whole, err := json.Marshal(map[string]any{"predictions": answers})
	if err != nil { // they are JSON
		panic(err)
	}
	answerJSON(w, http.StatusOK, whole)
}

// instance returns the path and the body of a request of a prediction.
func instance(text json.RawMessage, formats map[string]string) (path string, body []byte, err error) {
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
	if _, asked := fields["stream"]; asked || strings.Contains(path, "/api/") { // Ollama's stream by themselves
		fields["stream"] = json.RawMessage("false")
	}
	body, err = json.Marshal(fields)
	return path, body, err
}

// failure is an error as OpenAI's clients read it.
func failure(status int, message string) json.RawMessage {
	e := &reply.Error{Status: status, Message: message}
	b, err := json.Marshal(e.Body())
	if err != nil {
		panic(err)
	}
	return b
}

func answerJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone is nobody's fault
}
