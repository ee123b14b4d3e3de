package answer

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
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
type Streams struct {
	kept *history.Store

	mu     sync.Mutex
	coming map[conversation][]*keptStream // of requests that may still be refused, the newest last
}

// A conversation is known by its name and whose it is.
type conversation struct{ owner, id string }

// NewStreams returns a Streams that keeps no more than so many bytes of streams that have ended.
func NewStreams(bytes uint64) *Streams {
	return &Streams{kept: history.New(bytes, streamTime), coming: map[conversation][]*keptStream{}}
}

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

// Find returns the streams of an owner in some conversations, and in those that are named after one and a model: each once, the
// first that began first.
func (s *Streams) Find(owner string, conversations []string) []StreamState {
	asked := map[string]bool{}
	for _, id := range conversations {
		asked[id] = true
	}
	found := []StreamState{}
	for _, st := range s.all(owner) {
		if asks(asked, st.ID) {
			st.Bytes = st.of.record.Log.Sent()
			found = append(found, st)
		}
	}
	slices.SortStableFunc(found, func(a, b StreamState) int {
		return cmp.Or(cmp.Compare(a.Started, b.Started), cmp.Compare(a.ID, b.ID))
	})
	return found
}

// asks reports whether a conversation, or what it is named after, is one of some.
func asks(some map[string]bool, id string) bool {
	for i := range id {
		if strings.HasPrefix(id[i:], ofModel) && some[id[:i]] {
			return true
		}
	}
	return some[id]
}

// all returns the newest stream of each conversation of an owner.
func (s *Streams) all(owner string) (all []StreamState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for of, list := range s.coming {
		if of.owner == owner {
			all = append(all, list[len(list)-1].state)
		}
	}
	for _, b := range s.kept.List(streamKind, owner) {
		if st := b.(StreamState); s.coming[conversation{owner, st.ID}] == nil {
			all = append(all, st)
		}
	}
	return all
}

// Stop ends the streams of a conversation that run or are to come, and drops what is kept. There may be none.
func (s *Streams) Stop(owner, id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := conversation{owner, id}
	for _, k := range s.coming[of] {
		k.record.Cancel()
	}
	delete(s.coming, of)
	_ = s.kept.Remove(streamKind, owner, id) // there is no other error
}

// Log returns what a stream has sent and will send. The error says when to come again for one that waits for its model.
func (s *Streams) Log(owner, id string) (*reply.Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list := s.coming[conversation{owner, id}]; list != nil {
		k := list[len(list)-1]
		if k.waits.Load() {
			return nil, &reply.Error{Status: http.StatusServiceUnavailable, Retry: time.Second,
				Message: "the stream waits for its model, which is being loaded"}
		}
		return k.record.Log, nil
	}
	r, err := s.kept.Get(streamKind, owner, id)
	if err != nil {
		return nil, err
	}
	return r.Log, nil
}

// add keeps a stream in mind that is to come.
func (s *Streams) add(k *keptStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.coming[k.conversation()] = append(s.coming[k.conversation()], k)
}

// begin has a stream that is to come be the one of its conversation: those before it end. One that was stopped is forgotten.
func (s *Streams) begin(k *keptStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := k.conversation()
	list := s.coming[of]
	i := slices.Index(list, k)
	if i < 0 {
		return
	}
	for _, before := range list[:i] {
		before.record.Cancel()
	}
	s.left(of, list[i+1:])
	s.kept.Put(k.record)
}

// drop forgets a stream of which nothing was sent.
func (s *Streams) drop(k *keptStream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := k.conversation()
	s.left(of, slices.DeleteFunc(s.coming[of], func(other *keptStream) bool { return other == k }))
	s.kept.Forget(k.record)
}

func (s *Streams) left(of conversation, list []*keptStream) {
	if s.coming[of] = list; len(list) == 0 {
		delete(s.coming, of)
	}
}

// A keptStream is a stream of Streams. It stands between a request and its client: what is sent is kept first, and a client
// that has gone is no error.
type keptStream struct {
	gin.ResponseWriter
	streams *Streams
	record  *history.Record
	stop    context.CancelCauseFunc
	state   StreamState  // at first
	waits   atomic.Bool  // for the model
	taken   bool         // it is the stream of its conversation
	begun   bool         // something of the stream was sent
	gone    bool         // the client is
	counted int          // bytes of the log
	failed  *reply.Error // what the client was told
}

func (k *keptStream) conversation() conversation { return conversation{k.record.Owner, k.record.ID} }

// accept ends what the conversation had before: the request is not refused. There may be no stream.
func (k *keptStream) accept() {
	if k != nil && !k.taken {
		k.taken = true
		k.streams.begin(k)
	}
}

// Detach has the stream that the request asks for be kept, if it names a conversation: it goes on without its client. Once the
// request is accepted, the conversation's last stream is dropped, and ends.
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
	k.state = StreamState{ID: name, Started: time.Now().Unix(), of: k}
	k.record = &history.Record{Kind: streamKind, ID: name, Owner: req.Caller.Owner, Log: reply.NewBoundedLog(mostKept),
		Body: k.state, Cancel: func() { stop(reply.ErrCancelled) }}
	req.HTTP.Request, req.HTTP.Writer, req.kept = req.HTTP.Request.WithContext(ctx), k, k
	k.streams.add(k)
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
	k.waits.Store(false)
	switch {
	case k.begun:
		k.streams.kept.Update(k.record, func(r *history.Record) {
			st := r.Body.(StreamState)
			st.Done, st.Completed = true, time.Now().Unix()
			r.Body, r.Cancel = st, nil
		})
		k.record.Log.End()
	case k.failed != nil:
		k.streams.drop(k)
		k.record.Log.Refuse(k.failed)
	default:
		k.streams.drop(k)
		k.record.Log.Refuse(&reply.Error{Status: http.StatusNotFound, Message: "the request was answered without a stream"})
	}
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
		k.accept()
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
