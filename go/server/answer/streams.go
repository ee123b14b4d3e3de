package answer

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/reply"
)

// ConversationHeader names the conversation of a stream that its client may lose and find again.
const ConversationHeader = "X-Conversation-Id"

const (
	streamKind history.Kind = "stream"
	streamTime              = 5 * time.Minute // that an ended stream stays
	mostKept                = 4 << 20         // the most that is kept of one
	streamStep              = 64 << 10        // by which the memory of one that runs is counted
	nameBytes               = 512             // the most that the name of a conversation has
	ofModel                 = "::"            // in such a name, between the conversation and the model that answers
)

// Streams keeps what is sent of streams that name their conversations. Such a stream goes on when its client is gone, who may
// come back and go on where they stopped: nothing is computed again.
type Streams struct{ kept *history.Store }

// NewStreams returns a Streams that keeps no more than so many bytes of streams that have ended.
func NewStreams(bytes uint64) *Streams { return &Streams{history.New(bytes, streamTime)} }

// Size returns the memory of all in bytes.
func (s *Streams) Size() uint64 { return s.kept.Size() }

// A StreamState is how far a stream is.
type StreamState struct {
	ID        string `json:"conversation_id"`
	Done      bool   `json:"is_done"`
	Bytes     int    `json:"total_bytes"`
	Started   int64  `json:"started_at"`
	Completed int64  `json:"completed_at"` // 0: it runs

	of *keptStream
}

func (s StreamState) Items() []history.Item { return nil }
func (s StreamState) Size() int             { return len(s.ID) }

// Find returns the streams of an owner in some conversations: in each, and in those that are named after it and a model.
func (s *Streams) Find(owner string, conversations []string) []StreamState {
	found := []StreamState{}
	all := s.kept.List(streamKind, owner)
	for _, id := range conversations {
		for _, b := range all {
			if st := b.(StreamState); st.ID == id || strings.HasPrefix(st.ID, id+ofModel) {
				st.Bytes = st.of.record.Log.Sent()
				found = append(found, st)
			}
		}
	}
	return found
}

// Stop ends a stream that runs, and drops what is kept of it. There may be none.
func (s *Streams) Stop(owner, conversation string) {
	_ = s.kept.Remove(streamKind, owner, conversation) // there is no other error
}

// Log returns what a stream has sent and will send. The error says when to come again for one that waits for its model.
func (s *Streams) Log(owner, conversation string) (*reply.Log, error) {
	r, err := s.kept.Get(streamKind, owner, conversation)
	if err != nil {
		return nil, err
	}
	if s.kept.Body(r).(StreamState).of.waits.Load() {
		return nil, &reply.Error{Status: http.StatusServiceUnavailable, Retry: time.Second,
			Message: "the stream waits for its model, which is being loaded"}
	}
	return r.Log, nil
}

// A keptStream is a stream of Streams. It stands between a request and its client: what is sent is kept first, and a client
// that has gone is no error.
type keptStream struct {
	gin.ResponseWriter
	streams *Streams
	record  *history.Record
	stop    context.CancelCauseFunc
	waits   atomic.Bool // for the model
	begun   bool        // something of the stream was sent
	gone    bool        // the client is
	counted int         // bytes of the log
}

// Detach has the stream that the request asks for be kept, if it names a conversation: it goes on without its client. The
// conversation's last stream is dropped, and ends.
func (req *Request) Detach() error {
	name := req.HTTP.GetHeader(ConversationHeader)
	if name == "" || req.kept != nil || !req.Route.Stream || req.Route.Speaks().Lines() || string(req.Peek("stream")) != "true" {
		return nil
	}
	if len(name) > nameBytes {
		return reply.Invalid(ConversationHeader, "%d bytes, want at most %d", len(name), nameBytes)
	}
	ctx, stop := context.WithCancelCause(context.WithoutCancel(req.Context()))
	k := &keptStream{ResponseWriter: req.HTTP.Writer, streams: req.host.Streams, stop: stop}
	k.waits.Store(true)
	k.record = &history.Record{Kind: streamKind, ID: name, Owner: req.Caller.Owner, Log: reply.NewBoundedLog(mostKept),
		Body:   StreamState{ID: name, Started: time.Now().Unix(), of: k},
		Cancel: func() { stop(reply.ErrCancelled) }}
	req.HTTP.Request, req.HTTP.Writer, req.kept = req.HTTP.Request.WithContext(ctx), k, k
	k.streams.kept.Put(k.record)
	return nil
}

// Ready says that the model of the request is there.
func (req *Request) Ready() {
	if req.kept != nil {
		req.kept.waits.Store(false)
	}
}

// Finished ends what Detach began, once the request is answered. A request that was refused leaves nothing.
func (req *Request) Finished() {
	k := req.kept
	if k == nil {
		return
	}
	if k.begun {
		k.streams.kept.Update(k.record, func(r *history.Record) {
			st := r.Body.(StreamState)
			st.Done, st.Completed = true, time.Now().Unix()
			r.Body, r.Cancel = st, nil
		})
	} else {
		k.streams.kept.Forget(k.record)
	}
	k.waits.Store(false)
	k.record.Log.End()
	k.stop(nil)
}

// stopped is the error of a request whose stream was ended before it began, where err is what came of that.
func (req *Request) stopped(err error) error {
	if k := req.kept; k != nil && (!k.begun || req.Waited) && context.Cause(req.Context()) == error(reply.ErrCancelled) {
		return reply.Bad("the request was cancelled before it was answered")
	}
	return err
}

// Write implements http.ResponseWriter.
func (k *keptStream) Write(p []byte) (int, error) {
	if !k.begun && strings.HasPrefix(k.Header().Get("Content-Type"), "text/event-stream") {
		k.begun = true
		k.waits.Store(false)
	}
	if k.begun {
		_, _ = k.record.Log.Write(p) // it never fails
		if n := k.record.Log.Size(); n-k.counted >= streamStep {
			k.counted = n
			k.streams.kept.Update(k.record, func(*history.Record) {})
		}
	}
	if !k.gone {
		_, err := k.ResponseWriter.Write(p)
		k.gone = err != nil
	}
	return len(p), nil
}

// WriteString implements io.StringWriter.
func (k *keptStream) WriteString(s string) (int, error) { return k.Write([]byte(s)) }

// FlushError is what http.ResponseController calls.
func (k *keptStream) FlushError() error {
	if !k.gone {
		k.gone = http.NewResponseController(k.ResponseWriter).Flush() != nil
	}
	return nil
}
