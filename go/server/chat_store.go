package server

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/quern-llm/quern/go/server/field"
	"github.com/quern-llm/quern/go/server/reply"
)

// A storedChat is a chat completion that is kept, in the store of responses.
type storedChat struct {
	answer   jsontext.Value // without its metadata
	metadata jsontext.Value
	messages []storedItem
	model    string
}

func (s *storedChat) price() int {
	n := len(s.answer) + len(s.metadata) + len(s.model)
	for _, m := range s.messages {
		n += storedItemBytes + len(m.id) + len(m.raw)
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
	c := &storedChat{answer: raw, metadata: jsontext.Value("{}"), model: a.Model}
	if len(q.metadata) > 0 {
		c.metadata = jsontext.Value(q.metadata)
	}
	r := field.NewReader(q.sent)
	_ = r.Elements(wantMessages, func(i int) error { // which they are
		v, err := r.Raw()
		id := a.ID + "-" + strconv.Itoa(i)
		c.messages = append(c.messages, storedItem{id, slices.Concat([]byte(`{"id":"`+id+`"`), field.Except(v, "id"))})
		return err
	})
	q.stored.put(&storedResponse{id: a.ID, owner: q.owner, chat: c})
}

// completion returns the answer with its metadata.
func (s *storedChat) completion(id string) storedItem {
	return storedItem{id, slices.Concat(s.answer[:len(s.answer)-1], []byte(`,"metadata":`), s.metadata, []byte("}"))}
}

// chat returns a stored chat completion of an owner.
func (s *responseStore) chat(owner, id string) (storedChat, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	r := s.find(owner, id, true)
	if r == nil {
		return storedChat{}, notStored("chat completion", id)
	}
	s.touch(r)
	return *r.chat, nil
}

// label gives a stored chat completion other metadata.
func (s *responseStore) label(owner, id string, metadata jsontext.Value) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.find(owner, id, true)
	if r == nil {
		return notStored("chat completion", id)
	}
	r.chat.metadata = metadata
	was := r.size
	r.size = r.price()
	s.bytes += r.size - was
	s.touch(r)
	s.expire()
	return nil
}

// forget deletes a stored chat completion of an owner, and reports whether there was one.
func (s *responseStore) forget(owner, id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.find(owner, id, true)
	if r == nil {
		return false
	}
	s.drop(r)
	return true
}

// chats returns the stored chat completions of an owner that a filter takes, the oldest first.
func (s *responseStore) chats(owner string, takes func(*storedChat) bool) []storedItem {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	var all []*storedResponse
	for _, r := range s.byID {
		if r.owner == owner && r.chat != nil && takes(r.chat) {
			all = append(all, r)
		}
	}
	slices.SortFunc(all, func(a, b *storedResponse) int { return cmp.Compare(a.serial, b.serial) })
	items := make([]storedItem, len(all))
	for i, r := range all {
		items[i] = r.chat.completion(r.id)
	}
	return items
}

// listChats serves GET /v1/chat/completions.
func (s *Server) listChats(c *gin.Context, _ *Model) error {
	model := c.Query("model")
	want := map[string]string{}
	for name, values := range c.Request.URL.Query() {
		if key, ok := strings.CutPrefix(name, "metadata["); ok && strings.HasSuffix(key, "]") {
			want[strings.TrimSuffix(key, "]")] = values[0]
		}
	}
	items := s.stored.chats(s.owner(c), func(chat *storedChat) bool {
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
	})
	return sendPage(c, items, "asc")
}

// getChat serves GET /v1/chat/completions/:id.
func (s *Server) getChat(c *gin.Context, _ *Model) error {
	id := c.Param("id")
	chat, err := s.stored.chat(s.owner(c), id)
	if err != nil {
		return err
	}
	reply.JSON(c, http.StatusOK, chat.completion(id))
	return nil
}

// listChatMessages serves GET /v1/chat/completions/:id/messages.
func (s *Server) listChatMessages(c *gin.Context, _ *Model) error {
	chat, err := s.stored.chat(s.owner(c), c.Param("id"))
	if err != nil {
		return err
	}
	return sendPage(c, slices.Clone(chat.messages), "asc")
}

// A labelQuery is a request to change what is stored with a chat completion.
type labelQuery struct{ metadata kept }

func newLabelQuery(*Model) *labelQuery { return &labelQuery{} }

func (q *labelQuery) Fields() []field.Field {
	return []field.Field{field.Required("metadata", &q.metadata, "Texts by name, in place of those that are there.")}
}

// labelChat serves POST /v1/chat/completions/:id.
func (s *Server) labelChat(c *gin.Context, m *Model) error {
	q := newLabelQuery(m)
	if err := take(c, q); err != nil {
		return err
	}
	if err := s.stored.label(s.owner(c), c.Param("id"), jsontext.Value(q.metadata)); err != nil {
		return err
	}
	return s.getChat(c, m)
}

// endRunning serves DELETE of what generates: one that runs is cancelled, and a stored chat completion deleted.
func (s *Server) endRunning(c *gin.Context, m *Model) error {
	if id := c.Param("id"); s.stored.forget(s.owner(c), id) {
		reply.JSON(c, http.StatusOK, responseDeleted{id, "chat.completion.deleted", true})
		return nil
	}
	return s.cancelRunning(c, m)
}
