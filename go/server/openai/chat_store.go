package openai

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/answer"
	"github.com/quern-llm/quern/go/server/ask"
	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/history"
	"github.com/quern-llm/quern/go/server/reply"
)

// keptChat is the kind of chat completions in the history.
const keptChat history.Kind = "chat completion"

// A storedChat is a chat completion as the history has it.
type storedChat struct {
	id       string
	answer   jsontext.Value // without its metadata
	metadata jsontext.Value
	messages []history.Item
	model    string
}

// Items are none: no response continues a chat completion.
func (s storedChat) Items() []history.Item { return nil }

// Size returns the memory of the chat completion in bytes.
func (s storedChat) Size() int {
	n := len(s.answer) + len(s.metadata) + len(s.model)
	for _, m := range s.messages {
		n += m.Size()
	}
	return n
}

// store keeps an answer, if it is to be.
func (f *chatFormat) store(a chatAnswer) {
	if f.keep == nil {
		return
	}
	q := f.keep
	raw, err := reply.Encode(a)
	if err != nil {
		return
	}
	c := storedChat{id: a.ID, answer: raw, metadata: jsontext.Value("{}"), model: a.Model}
	if len(q.metadata) > 0 {
		c.metadata = jsontext.Value(q.metadata)
	}
	r := field.NewReader(q.Sent)
	_ = r.Elements(ask.WantMessages, func(i int) error { // which they are
		v, err := r.Raw()
		id := a.ID + "-" + strconv.Itoa(i)
		c.messages = append(c.messages, history.Item{ID: id,
			Raw: slices.Concat([]byte(`{"id":"`+id+`"`), field.Except(v, "id"))})
		return err
	})
	q.stored.Put(&history.Record{Kind: keptChat, ID: a.ID, Owner: q.owner, Body: c})
}

// completion returns the answer with its metadata.
func (s storedChat) completion() history.Item {
	return history.Item{ID: s.id, Raw: slices.Concat(s.answer[:len(s.answer)-1], []byte(`,"metadata":`), s.metadata,
		[]byte("}"))}
}

// storedChat returns the chat completion that a request names.
func (s *API) storedChat(req *answer.Request) (storedChat, error) {
	r, err := s.Stored.Get(keptChat, req.Caller.Owner, req.HTTP.Param("id"))
	if err != nil {
		return storedChat{}, err
	}
	return s.Stored.Body(r).(storedChat), nil
}

// listChats serves GET /v1/chat/completions.
func (s *API) listChats(req *answer.Request) error {
	model := req.HTTP.Query("model")
	want := map[string]string{}
	for name, values := range req.HTTP.Request.URL.Query() {
		if key, ok := strings.CutPrefix(name, "metadata["); ok && strings.HasSuffix(key, "]") {
			want[strings.TrimSuffix(key, "]")] = values[0]
		}
	}
	takes := func(chat storedChat) bool {
		var has map[string]any
		if model != "" && chat.model != model || len(want) > 0 && json.Unmarshal(chat.metadata, &has) != nil {
			return false
		}
		for key, value := range want {
			if has[key] != value {
				return false
			}
		}
		return true
	}
	var items []history.Item
	for _, body := range s.Stored.List(keptChat, req.Caller.Owner) {
		if chat := body.(storedChat); takes(chat) {
			items = append(items, chat.completion())
		}
	}
	return sendPage(req, items, "asc")
}

// getChat serves GET /v1/chat/completions/:id.
func (s *API) getChat(req *answer.Request) error {
	chat, err := s.storedChat(req)
	if err != nil {
		return err
	}
	req.Send(chat.completion())
	return nil
}

// listChatMessages serves GET /v1/chat/completions/:id/messages.
func (s *API) listChatMessages(req *answer.Request) error {
	chat, err := s.storedChat(req)
	if err != nil {
		return err
	}
	return sendPage(req, slices.Clone(chat.messages), "asc")
}

// A labelQuery is a request to change what is stored with a chat completion.
type labelQuery struct{ metadata kept }

func newLabelQuery(*ask.Model) *labelQuery { return &labelQuery{} }

func (q *labelQuery) Fields() []field.Field {
	return []field.Field{field.Required("metadata", &q.metadata, "Texts by name, in place of those that are there.")}
}

// labelChat serves POST /v1/chat/completions/:id.
func (s *API) labelChat(req *answer.Request) error {
	m := req.Model
	q := newLabelQuery(m)
	if err := req.Read(q); err != nil {
		return err
	}
	err := s.Stored.Change(keptChat, req.Caller.Owner, req.HTTP.Param("id"), func(r *history.Record) {
		chat := r.Body.(storedChat)
		chat.metadata = jsontext.Value(q.metadata)
		r.Body = chat
	})
	if err != nil {
		return err
	}
	return s.getChat(req)
}

// endRunning serves DELETE of what generates: one that runs is cancelled, and a stored chat completion deleted.
func (s *API) endRunning(req *answer.Request) error {
	if id := req.HTTP.Param("id"); s.Stored.Remove(keptChat, req.Caller.Owner, id) == nil {
		req.Send(responseDeleted{id, "chat.completion.deleted", true})
		return nil
	}
	return s.cancelRunning(req)
}

// cancelled is the response to a cancellation.
type cancelled struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Cancelled bool   `json:"cancelled"`
}

// cancelRunning cancels a running request by its id.
func (s *API) cancelRunning(req *answer.Request) error {
	id := req.HTTP.Param("id")
	if _, found := s.Host.Running.Cancel(id, &req.Caller); !found {
		return &reply.Error{Status: http.StatusNotFound, Message: "no request with the id " + field.Quote(id) + " runs"}
	}
	req.Send(cancelled{id, "completion.cancelled", true})
	return nil
}
