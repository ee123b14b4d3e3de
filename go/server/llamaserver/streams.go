package llamaserver

import (
	"net/http"
	"strconv"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// streamRoutes are those of streams that go on without their clients: see answer.Streams.
func (s *API) streamRoutes() []answer.Route {
	conversation := answer.Param{In: "query", Name: "conv_id",
		Doc: "The conversation, as the header " + answer.ConversationHeader + " of the request named it."}
	return []answer.Route{
		{
			Method: http.MethodGet, Paths: []string{"/v1/stream"}, Always: true, Handle: s.followStream,
			Summary: "Read a stream again, or from where its client lost it; the request has named its conversation",
			Params: []answer.Param{conversation, {In: "query", Name: "from",
				Doc: "How many bytes of the stream the client has; by default 0.",
				Is:  field.Schema{"type": "integer", "minimum": 0}}},
			Stream: true,
		}, {
			Method: http.MethodDelete, Paths: []string{"/v1/stream"}, Always: true, Handle: s.stopStream,
			Summary: "End a stream, and drop what is kept of it", Params: []answer.Param{conversation},
		}, {
			Method: http.MethodPost, Paths: []string{"/v1/streams/lookup"}, Always: true, Handle: s.findStreams,
			Summary: "Say which streams of some conversations there are", Body: answer.BodyOf("StreamsRequest", newStreamsQuery),
			Answer: []answer.StreamState{}, Example: map[string]any{"conversation_ids": []any{"c1"}},
		},
	}
}

// conversationOf returns which conversation a request about a stream means.
func conversationOf(req *answer.Request) (string, error) {
	id := req.HTTP.Query("conv_id")
	if id == "" {
		return "", reply.Invalid("conv_id", "missing, want the conversation that the header %s of a request named",
			answer.ConversationHeader)
	}
	return id, nil
}

// followStream serves GET /v1/stream.
func (s *API) followStream(req *answer.Request) error {
	from := 0
	if text := req.HTTP.Query("from"); text != "" {
		var err error
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return reply.Invalid("from", "%s, want a number of bytes", field.Quote(text))
		}
	}
	id, err := conversationOf(req)
	if err != nil {
		return err
	}
	log, err := s.Host.Streams.Log(req.Caller.Owner, id)
	if err != nil {
		return err
	}
	at, ok := log.At(from)
	if sent := log.Sent(); !ok && from > sent {
		return reply.Invalid("from", "%d, and only %d bytes of the stream are sent, want at most so many", from, sent)
	} else if !ok {
		return reply.Invalid("from", "of the %d bytes that are sent, those behind %d are not there any more, want 0 for another stream",
			log.Sent(), from)
	}
	if req.HTTP.Request.Method == http.MethodHead { // what would come is not there yet
		return nil
	}
	return log.Follow(req.Context(), reply.NewStream(req.HTTP), at, 0) // without comments, which would count as bytes
}

// stopStream serves DELETE /v1/stream.
func (s *API) stopStream(req *answer.Request) error {
	id, err := conversationOf(req)
	if err == nil {
		s.Host.Streams.Stop(req.Caller.Owner, id)
		req.HTTP.Status(http.StatusNoContent)
	}
	return err
}

// A streamsQuery is a request to /v1/streams/lookup.
type streamsQuery struct{ conversations field.Texts }

func newStreamsQuery(*ask.Model) *streamsQuery { return &streamsQuery{} }

func (q *streamsQuery) Fields() []field.Field {
	return []field.Field{field.Required("conversation_ids", &q.conversations, "Which conversations.")}
}

// mostConversations is how many a request may ask for.
const mostConversations = 1024

// findStreams serves POST /v1/streams/lookup.
func (s *API) findStreams(req *answer.Request) error {
	q := newStreamsQuery(nil)
	if err := req.Read(q); err != nil {
		return err
	}
	if n := len(q.conversations); n > mostConversations {
		return reply.Invalid("conversation_ids", "%d, want at most %d", n, mostConversations)
	}
	req.Send(s.Host.Streams.Find(req.Caller.Owner, q.conversations))
	return nil
}
